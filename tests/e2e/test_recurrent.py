# SPDX-License-Identifier: MIT
"""Models with recurrent layers, served: what is found again never changes a bit, and a conversation computes little more
than its new tokens, also after a restart and after a fork."""
import threading

import pytest
from conftest import mktiny

KEYS = dict(max_tokens=24, temperature=0.9, seed=11, ignore_eos=True, logprobs=True)
TEXT = "the quick brown fox jumps over the lazy dog, again and again; "


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("models") / "recurrent.gguf", "--arch", "lfm2", "--ctx", 4096)


# The default, where states are small enough for one at each block, and a share that makes them rare.
@pytest.fixture(params=[33, 1])
def args(request, model):
    return ["-m", model, "--state-share", request.param, "--kv-bytes", "16M"]


def bits(a):
    assert a.end["event"] == "done", a.end
    return a.ids, a.logprobs


def turn(c, i, before, session="talk", **keys):
    """One turn; returns the answer and the tokens of the conversation then. It computes less than a block too much."""
    a = c.answer(f"turn {i}: {TEXT * (1 + i % 3)}", session=session, **KEYS, **keys)
    assert a.end["event"] == "done", a.end
    new, computed = a.usage["prompt"] - before, a.usage["prompt"] - a.usage["cached"]
    assert computed <= new + 32, (i, computed, new)
    return a, a.usage["prompt"] + a.usage["completion"]


def test_a_conversation(home, args):
    """20 turns, a restart in their middle, and a fork; each as if it were computed at once."""
    d = home.daemon(*args)
    c = home.client(d)
    n, answers = 0, []
    for i in range(20):
        if i == 10:
            a, branch = turn(c, 100, n, fork="branch")
            assert a.end["session"] == "branch"
            d = home.restart(d, *args)
            c = home.client(d)
        a, n = turn(c, i, n)
        answers.append(a)
    turn(c, 101, branch, session="branch")
    status = home.status()
    assert status["cache"]["states_memory"] > 0 and status["cache"]["states_disk"] > 0 and status["states"] > 0
    assert status["cache"]["states_bytes_memory"] == status["cache"]["states_memory"] * status["state_bytes"]
    # The last turn again, in a namespace where nothing was computed.
    home.hob("sessions", "fork", "talk", "cold", check=0)
    warm = c.answer("and now?", session="talk", **KEYS)
    cold = c.answer("and now?", session="cold", salt="cold", **KEYS)
    assert warm.usage["cached"] > 0 and cold.usage["cached"] == 0
    assert bits(warm) == bits(cold)


def test_a_document_and_other_questions(home, args):
    c = home.client(home.daemon(*args))
    doc = TEXT * 40
    first = c.answer(doc + "What does the fox do?", **KEYS)
    assert first.usage["cached"] == 0
    again = c.answer(doc + "What does the fox do?", **KEYS)
    assert again.usage["prompt"] - again.usage["cached"] <= 32 and bits(again) == bits(first)
    other = c.answer(doc + "Who is lazy?", **KEYS)
    assert other.usage["prompt"] - other.usage["cached"] <= 160
    assert bits(other) == bits(c.answer(doc + "Who is lazy?", salt="cold", **KEYS))


def three(c, prompt, **keys):
    """The ids and logprobs of three answers."""
    i = c.generate(prompt, n=3, **KEYS, **keys)
    got, left = {}, 3
    while left:
        e = c.recv()
        left -= e["id"] == i and e["event"] == "done"
        if e["id"] == i and e["event"] == "text":
            got.setdefault(e["index"], []).extend(zip(e["ids"], e["logprobs"]))
    assert [len(got[k]) for k in sorted(got)] == [KEYS["max_tokens"]] * 3
    return got


def test_many_at_once(home, args):
    """Batches, common beginnings, several answers and preemptions change nothing."""
    d = home.daemon(*args, "--parallel", 3)
    prompts = [TEXT * (1 + i // 2) + f"question {i}" for i in range(8)]
    got = [None] * len(prompts)

    def run(i):
        got[i] = bits(home.client(d).answer(prompts[i], **KEYS))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(prompts))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    c = home.client(d)
    for i, p in enumerate(prompts):
        assert got[i] == bits(c.answer(p, salt=f"alone {i}", **KEYS))
    assert three(c, prompts[0]) == three(c, prompts[0], salt="cold")


def test_chunks_threads_and_instruction_sets(home, model):
    results = {}
    for i, (extra, env) in enumerate([([], {}), (["--batch-tokens", 1], {}), (["--batch-tokens", 7], {}),
                                      (["--threads", 1], {}), (["--speculate", "off"], {}), ([], {"HOB_CPU": "scalar"}),
                                      ([], {"HOB_CPU": "avx2"})]):
        d = home.daemon("-m", model, "--cache-bytes", 0, *extra, socket=home.root / f"{i}.sock", env=env)
        results[i] = bits(home.client(d).answer(TEXT * 6, **KEYS))
        d.terminate()
        d.wait(60)
    assert all(r == results[0] for r in results.values()), [i for i in results if results[i] != results[0]]


def test_rotation_is_refused(home, args):
    c = home.client(home.daemon(*args, "--ctx", 256))
    e = c.answer(TEXT, context="rotate", **KEYS).end
    assert e["event"] == "error" and "recurrent" in e["message"]
    a = c.answer(TEXT, context="shift", **{**KEYS, "max_tokens": 400})
    b = c.answer(TEXT, context="shift", salt="cold", **{**KEYS, "max_tokens": 400})
    assert a.end["shifted"] > 0 and bits(a) == bits(b)


def test_too_little_memory(home, model):
    d = home.daemon("-m", model, "--kv-bytes", "1000", wait=False)
    assert d.wait(60) == 1
    assert "state of its recurrent layers" in d.log.read_text()


@pytest.fixture(scope="module")
def mamba(tmp_path_factory):
    """No layer has attention: all that is cached is states."""
    return mktiny(tmp_path_factory.mktemp("models") / "mamba.gguf", "--arch", "mamba2", "--ctx", 4096)


def test_without_attention(home, mamba):
    """Computed, found in memory, found on disk after a restart, and in a fork: the same bits."""
    args = ["-m", mamba]
    d = home.daemon(*args)
    c = home.client(d)
    doc, question = TEXT * 30, "and what does it do then?"
    cold = c.answer(doc, session="talk", **KEYS)
    assert cold.usage["cached"] == 0
    assert bits(c.answer(doc, salt="cold 1", **KEYS)) == bits(cold)
    assert c.ask("session.fork", name="talk", to="later")["event"] == "ok"
    warm = c.answer(question, session="talk", **KEYS)
    want = bits(warm)
    assert warm.usage["prompt"] - warm.usage["cached"] < 32 + len(question) + 32
    fork = c.answer(question, session="later", **KEYS)
    assert bits(fork) == want and fork.usage["prompt"] - fork.usage["cached"] <= 32
    for i in range(2):  # the second daemon has only what the first read and wrote
        d = home.restart(d, *args)
        c = home.client(d)
        assert home.status()["cache"]["states_memory"] == 0 < home.status()["cache"]["states_disk"]
        again = c.answer(doc, **KEYS)
        assert bits(again) == bits(cold) and again.usage["prompt"] - again.usage["cached"] <= 32
    for session, salt in (("talk", {}), ("later", {}), ("later", {"salt": "cold 2"})):
        n = "x" if salt else "y"
        assert c.ask("session.fork", name=session, to=session + n)["event"] == "ok"
        a = c.answer("go on", session=session + n, **KEYS, **salt)
        assert (a.usage["cached"] > 0) == (not salt)
        got = bits(a) if session == "talk" else got
        assert bits(a) == got


def test_more_sessions_than_states(home, mamba):
    """Three states for four sessions, two at a time: all end, and each turn is as if it were computed at once."""
    d = home.daemon("-m", mamba)
    state = home.status()["state_bytes"]
    d = home.restart(d, "-m", mamba, "--kv-bytes", 3 * state, "--parallel", 2, "--cache-bytes", 0)
    assert home.status()["states"] == 3
    last = {}

    def talk(s):
        c = home.client(d)
        for i in range(4):
            last[s] = c.answer(f"{s} {i}: {TEXT * (1 + i)}", session=f"s{s}", **KEYS)

    threads = [threading.Thread(target=talk, args=(s,)) for s in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    c = home.client(d)
    for s in range(4):
        for i in range(4):
            a = c.answer(f"{s} {i}: {TEXT * (1 + i)}", session=f"cold{s}", salt=f"{s} {i}", **KEYS)
            assert a.usage["cached"] == 0
        assert bits(a) == bits(last[s])


def taken(home):
    """Bytes that the disk has given to files of KV and states."""
    return sum(p.stat().st_blocks * 512 for p in (home.root / "cache").glob("**/*.kv"))


def test_disk_space_without_attention(home, mamba):
    """Files of KV are empty then; the limit holds for what they take."""
    args = ["-m", mamba, "--cache-bytes", "512K"]
    d = home.daemon(*args)
    for i in range(2):
        c = home.client(d)
        for k in range(12):
            c.answer(f"{i} {k} {TEXT * 20}", **KEYS)
        d = home.restart(d, *args)
        assert 64 << 10 < taken(home) <= 512 << 10
    assert home.status()["cache"]["states_disk"] > 0
    assert home.client(d).answer(f"1 11 {TEXT * 20}", **KEYS).usage["cached"] > 0
