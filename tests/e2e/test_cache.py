# SPDX-License-Identifier: MIT
"""What was read once is not read again, and the answer is the same to the bit as if it had been."""
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import HOB, HOBD, Home, Said, mktiny

DOC = "the quick brown fox jumps over the lazy dog, again and again; " * 4
KV = pytest.mark.parametrize("kv", ["f32", "f16", "q8"])
GO = ("--ignore-eos",)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("models") / "cache.gguf", "--layers", 3, "--type", "Q4_1", "--ctx", 2048)


def cold(homes, model, args, *ask):
    """The answer of a daemon that has never read anything."""
    h = homes(model)
    d = h.daemon(*args, "--cache-bytes", 0, "--packed-file", "no")
    said = h.ask(*ask)
    assert said.cached == 0
    d.kill()
    d.wait()
    return said


def ids_of(home, model, *messages, answer=True):
    """The tokens of a prompt, by the tools."""
    request = {"messages": [{"role": r, "content": c} for r, c in messages], "add_generation_prompt": answer}
    run = dict(env=home.env, check=True, capture_output=True, timeout=60)
    text = subprocess.run([HOBD, "template", "-m", model], input=json.dumps(request).encode(), **run).stdout
    return json.loads(subprocess.run([HOBD, "tokenize", "-m", model, "--special"], input=text, **run).stdout)


def common(a, b):
    n = 0
    while n < len(a) and n < len(b) and a[n] == b[n]:
        n += 1
    return n


def wait_status(home, ok):
    deadline = time.monotonic() + 60
    while not ok(s := home.status()):
        assert time.monotonic() < deadline, s
        time.sleep(0.02)
    return s


def hashed_home(homes, model, *args):
    """A home that knows the model's fingerprint. A session saved before that keeps its tokens in its daemon only."""
    h = homes(model)
    d = h.daemon(*args)
    wait_status(h, lambda s: s["cache"]["disk"])
    h.hob("stop", check=0)
    d.wait(60)
    return h


# --- the same bits ---

@KV
def test_warm_partial_and_restored(homes, model, kv):
    args = ("--kv-type", kv)
    want = cold(homes, model, args, *GO, DOC)
    other = cold(homes, model, args, *GO, DOC + "what now?")
    h = homes(model)
    d = h.daemon(*args)
    first = h.ask(*GO, DOC)
    assert first.bits == want.bits and first.cached == 0
    warm = h.ask(*GO, DOC)
    assert warm.bits == want.bits and warm.cached == warm.prompt - 1
    # It parts from the first inside a block.
    same = common(ids_of(h, model, ("user", DOC)), ids_of(h, model, ("user", DOC + "what now?")))
    assert same % 32
    partial = h.ask(*GO, DOC + "what now?")
    assert partial.bits == other.bits and partial.cached == same
    # The same with a sequence that is longer where it ends.
    assert h.ask(*GO, DOC).bits == want.bits
    d = h.restart(d, *args)
    back = h.ask(*GO, DOC)
    assert back.bits == want.bits and back.cached == back.prompt - 1
    again = h.ask(*GO, DOC + "what now?")
    assert again.bits == other.bits and again.cached == again.prompt - 1
    s = h.status()
    assert s["cache"]["disk_read"] > 0 and s["cache"]["disk_damaged"] == 0
    # Killed, it has what the start before it had written.
    d.kill()
    d.wait()
    h.daemon(*args)
    back = h.ask(*GO, DOC)
    assert back.bits == want.bits and back.cached >= 32


@KV
def test_evicted(homes, model, kv):
    size = {"f32": 1, "f16": 2, "q8": 4}[kv]
    args = ("--kv-type", kv)
    want = cold(homes, model, args, *GO, DOC)
    h = homes(model)
    d = h.daemon(*args, "--kv-bytes", "300K")
    blocks = h.status()["kv_blocks"]
    assert 8 < blocks < 64 * size
    d.kill()
    d.wait()
    d = h.daemon(*args, "--kv-bytes", "300K", "--cache-bytes", 0)
    assert h.ask(*GO, DOC).bits == want.bits
    for i in range(blocks // 4):
        h.ask(*GO, f"{i} " + DOC)
    s = h.status()
    assert s["cache"]["evictions"] > 0
    lost = h.ask(*GO, DOC)
    assert lost.bits == want.bits and lost.cached < lost.prompt - 1
    assert h.ask(*GO, DOC).bits == want.bits
    # With a disk under it what goes is written, and read again.
    d = h.restart(d, *args, "--kv-bytes", "300K")
    h.ask(*GO, "so that the weights are looked at")
    d = h.restart(d, *args, "--kv-bytes", "300K")
    assert h.ask(*GO, DOC).bits == want.bits
    for i in range(blocks // 4):
        h.ask(*GO, f"{i} " + DOC)
    assert wait_status(h, lambda s: s["cache"]["evictions"] > 0 and s["cache"]["disk_written"] > 0)
    for _ in range(2):
        found = h.ask(*GO, DOC)
        assert found.bits == want.bits
    h.restart(d, *args, "--kv-bytes", "300K")
    assert h.ask(*GO, DOC).bits == want.bits


@KV
@pytest.mark.parametrize("batch", [7, 512])
def test_follow_up_and_fork(homes, model, kv, batch):
    args = ("--kv-type", kv, "--batch-tokens", batch)
    turns = [DOC, "and then?", "and in the end?"]

    # Every turn read anew: nothing is left of the one before but its text and ids.
    want = []
    h = hashed_home(homes, model, *args)
    for t in turns:
        d = h.daemon(*args, "--cache-bytes", 0)
        want.append(h.ask(*GO, "-S", "s", t))
        assert want[-1].cached == 0
        h.hob("stop", check=0)
        d.wait(60)

    h = homes(model)
    h.daemon(*args)
    got = [h.ask(*GO, "-S", "s", turns[0]), h.ask(*GO, "-S", "s", turns[1])]
    h.hob("sessions", "fork", "s", "copy", check=0)
    got.append(h.ask(*GO, "-S", "s", turns[2]))
    assert [x.bits for x in got] == [x.bits for x in want]
    for before, now in zip(got, got[1:]):
        # All but the last token sampled, which nobody has read yet.
        assert now.cached == before.prompt + before.usage["completion"] - 1
        assert now.done["miss_at"] is None
    copy = h.ask(*GO, "-S", "copy", turns[2])
    assert copy.bits == want[2].bits and copy.cached >= got[2].cached
    # --fork makes the turn in the new one and leaves the old one alone.
    third = h.ask(*GO, "-S", "s", "--fork", "third", "fourth")
    assert third.done["session"] == "third"
    assert h.ask(*GO, "-S", "s", "fourth").bits == third.bits
    assert h.ask(*GO, "-S", "copy", "fourth").bits == third.bits


@KV
@pytest.mark.parametrize("batch", [7, 512])
@pytest.mark.parametrize("policy", ["shift", "rotate"])
def test_full_contexts(homes, model, kv, batch, policy):
    """With follow-ups, warm here and cold there."""
    args = ("--kv-type", kv, "--ctx", 128, "--batch-tokens", batch)
    turns = ["begin with a few words", "go on, and on, and on", DOC[:150], "and?"]
    lengths = [150, 40, 40, 100]
    want, got = [], []
    h = hashed_home(homes, model, *args)
    for t, n in zip(turns, lengths):
        d = h.daemon(*args, "--cache-bytes", 0)
        want.append(h.ask(*GO, "-S", "s", "--context", policy, t, n=n))
        h.hob("stop", check=0)
        d.wait(60)
    h = hashed_home(homes, model, *args)
    d = h.daemon(*args)
    for i, (t, n) in enumerate(zip(turns, lengths)):
        if i == 3:
            d = h.restart(d, *args)
        got.append(h.ask(*GO, "-S", "s", *(("--context", policy) if i == 0 else ()), t, n=n))
    assert [x.bits for x in got] == [x.bits for x in want]
    assert [x.prompt for x in got] == [x.prompt for x in want]
    assert [x.done["reason"] for x in got] == ["length"] * 4
    assert [x.done.get("shifted") for x in got] == [x.done.get("shifted") for x in want]
    assert json.loads(h.hob("sessions", "show", "s", "--json", check=0).out)["context"] == policy
    if policy == "shift":
        assert got[-1].done["shifted"] > 0
    # And without a policy the same session does not fit.
    r = h.hob("-S", "s", "--context", "refuse", "x")
    assert r.returncode == 1 and "128" in r.err


def test_salt(homes, model):
    keys = dict(max_tokens=16, temperature=0.9, seed=5, ignore_eos=True, logprobs=True)
    h = homes(model)
    h.daemon()
    c = h.client()
    plain = c.answer(DOC, **keys)
    assert plain.usage["cached"] == 0
    for salt in ("a", "b"):
        first, again = c.answer(DOC, salt=salt, **keys), c.answer(DOC, salt=salt, **keys)
        assert first.usage["cached"] == 0 and again.usage["cached"] == again.usage["prompt"] - 1
        assert (first.ids, first.logprobs) == (again.ids, again.logprobs) == (plain.ids, plain.logprobs)
    assert c.answer(DOC, **keys).usage["cached"] == plain.usage["prompt"] - 1
    assert c.answer(DOC, salt="x" * 257, **keys).end["code"] == "EINVAL"


# --- how much ---

def test_warm_then_a_question(home, tiny):
    home.daemon()
    home.hob("--warm", DOC, check=0)
    assert home.status()["tokens_generated"] == 0
    asked = home.ask(DOC + "\n\nwhat is it about?")
    assert asked.cached == common(ids_of(home, tiny, ("user", DOC)), ids_of(home, tiny, ("user", DOC + "\n\nwhat is it about?")))
    again = home.ask(DOC + "\n\nwhat is it about?")
    assert again.cached == again.prompt - 1
    # With a session: its text is read, and there is no turn more.
    home.ask("-S", "s", DOC)
    home.hob("--warm", "-S", "s", "and another thing", check=0)
    assert len(home.client().session("s")["messages"]) == 2
    asked = home.ask("-S", "s", "and another thing")
    assert asked.cached == asked.prompt - 1
    home.hob("--warm", "-S", "new", "nothing is kept", check=0)
    assert "new" not in [x["name"] for x in home.client().sessions()]


def test_administrators_prefixes(homes, model):
    h = homes(model)
    folder = h.root / "prefixes"
    folder.mkdir()
    (folder / "a.txt").write_text(DOC + "\n")
    (folder / "b.txt").write_text("you are brief\n")
    (folder / "c.md").write_text("this is none\n")
    (folder / "bad.txt").write_bytes(b"\xff\xfe")
    (folder / "empty.txt").write_text("\n")
    want = cold(homes, model, (), *GO, "-s", DOC, "hello")
    d = h.daemon("--prefixes", folder)
    wait_status(h, lambda s: s["steps"] > 0 and not s["running"] and not s["queued"])
    log = d.log.read_text()
    assert "bad.txt" in log and "empty.txt" in log and "c.md" not in log
    same = common(ids_of(h, model, ("system", DOC), ("user", "?")), ids_of(h, model, ("system", DOC), ("user", "hello")))
    asked = h.ask(*GO, "-s", DOC, "hello")
    assert asked.bits == want.bits and asked.cached == same
    # It is everybody's, with a salt and without.
    a = h.client().answer(messages=[{"role": "system", "content": DOC}, {"role": "user", "content": "hello"}], salt="x",
                          max_tokens=2, ignore_eos=True)
    assert a.usage["cached"] == same
    # What others add to it is their own.
    a = h.client().answer(messages=[{"role": "system", "content": DOC}, {"role": "user", "content": "hello"}], salt="y",
                          max_tokens=2, ignore_eos=True)
    assert a.usage["cached"] == same
    d = h.restart(d, "--prefixes", folder)
    back = h.ask(*GO, "-s", DOC, "hello")
    assert back.bits == want.bits and back.cached >= same


# --- whose ---

@pytest.fixture
def crowd(model):
    """A daemon that other users reach: run(uid, args…) is their client."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become other users")
    root = Path(tempfile.mkdtemp(prefix="hob-crowd-"))
    root.chmod(0o755)
    h = Home(root, model)
    h.hob_copy = root / "hob"
    shutil.copy(HOB, h.hob_copy)
    h.hob_copy.chmod(0o755)
    d = h.daemon(socket=root / "crowd.sock")
    d.path.chmod(0o666)

    def run(uid, *args, input=b""):
        env = {"PATH": h.env["PATH"], "HOB_SOCKET": str(d.path), "HOME": "/", "LC_ALL": "C.UTF-8"}
        how = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        r = subprocess.run([*how, str(h.hob_copy), *map(str, args)], input=input, env=env, capture_output=True, timeout=120)
        r.out, r.err = r.stdout.decode(), r.stderr.decode()
        return r

    h.run_as, h.d = run, d
    yield h
    h.env["HOB_SOCKET"] = str(d.path)
    h.stop()
    shutil.rmtree(root)


def test_two_users(crowd):
    keys = ("--jsonl", "--logprobs", "-n", 8, "--seed", 5, "--ignore-eos")
    one, two = 61001, 61002
    secret = "a very secret sentence, " * 8
    first = Said(crowd.run_as(one, *keys, "-S", "mine", secret))
    again = Said(crowd.run_as(one, *keys, secret))
    assert first.cached == 0 and again.cached == again.prompt - 1
    other = Said(crowd.run_as(two, *keys, secret))
    assert other.cached == 0 and other.bits == again.bits == first.bits

    assert crowd.run_as(two, "sessions").out == ""
    assert json.loads(crowd.run_as(two, "sessions", "list", "--json").out) == []
    for verb in (["show", "mine"], ["fork", "mine", "x"], ["rename", "mine", "x"], ["rm", "mine"]):
        r = crowd.run_as(two, "sessions", *verb)
        assert r.returncode == 1 and "no session 'mine'" in r.err
    r = crowd.run_as(two, "-c", "what did I say?")
    assert r.returncode == 1 and "no session" in r.err
    r = crowd.run_as(two, "-S", "mine", "--fork", "x", "what did I say?")
    assert r.returncode == 1 and "no session 'mine'" in r.err
    # The same name is another session.
    theirs = Said(crowd.run_as(two, *keys, "-S", "mine", "hello"))
    assert theirs.prompt < first.prompt
    assert secret.strip() in crowd.run_as(one, "sessions", "show", "mine").out
    assert "secret" not in crowd.run_as(two, "sessions", "show", "mine").out

    a, b, all = (json.loads(crowd.run_as(u, "status", "--json").out) for u in (one, two, 0))
    assert (a["sessions"], b["sessions"], all["sessions"]) == (1, 1, 2)
    assert (a["requests"], b["requests"], all["requests"]) == (2, 2, 4)
    assert a["tokens_cached"] == again.cached and b["tokens_cached"] == theirs.cached
    assert all["tokens_prompt"] == a["tokens_prompt"] + b["tokens_prompt"]
    assert a["cache"]["blocks_memory"] > 0
    assert all["cache"]["blocks_memory"] == a["cache"]["blocks_memory"] + b["cache"]["blocks_memory"]
    assert sorted(u["uid"] for u in all["uids"]) == [one, two]
    for s in (a, b):
        assert not {"uids", "kv_blocks_free", "kv_blocks_unused", "steps", "step_ms", "rolling", "tokens_computed"} & set(s)
        assert not {"disk_read", "disk_written", "disk_damaged", "shed"} & set(s["cache"])
    for u in (one, two, 0):
        assert "secret" not in json.dumps(json.loads(crowd.run_as(u, "status", "--json").out)).replace(str(crowd.root), "")
    assert crowd.run_as(0, "sessions").out == ""
    # Nobody but its own user and root stops it.
    r = crowd.run_as(one, "stop")
    assert r.returncode == 1 and crowd.d.poll() is None

    # On disk they stay apart, too.
    crowd.env["HOB_SOCKET"] = str(crowd.d.path)
    d = crowd.d = crowd.restart(crowd.d, socket=crowd.d.path)
    d.path.chmod(0o666)
    third = Said(crowd.run_as(61003, *keys, secret))
    assert third.cached == 0 and third.bits == first.bits
    back = Said(crowd.run_as(one, *keys, secret))
    assert back.cached == back.prompt - 1 and back.bits == first.bits
