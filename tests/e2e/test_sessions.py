# SPDX-License-Identifier: MIT
"""Sessions as their owner handles them, and the daemon's coming and going under them."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress

import pytest
from conftest import HOB, HOBD, listens
from hobproto import Closed

KEYS = dict(max_tokens=6, temperature=0.9, seed=5, ignore_eos=True, logprobs=True)


def names(home):
    return [s["name"] for s in json.loads(home.hob("sessions", "list", "--json", check=0).out or "[]")]


def show(home, name):
    return json.loads(home.hob("sessions", "show", name, "--json", check=0).out)


def said(home, name, role="user"):
    return [m["content"] for m in show(home, name)["messages"] if m["role"] == role]


# --- what one does with them ---

def test_list_show_fork_rename_remove(home):
    d = home.daemon()
    assert home.hob("sessions", check=0).out == ""
    home.ask("-S", "one", "first words", n=4)
    home.ask("-S", "two", "other words", n=4)
    home.ask("--raw", "-S", "raw", "--no-stdin", "just text", n=4, input=None)
    assert names(home) == ["raw", "two", "one"]
    table = home.hob("sessions", check=0).out
    assert table.splitlines()[1].split()[:2] == ["raw", "raw"] and table.splitlines()[3].split()[:2] == ["one", "2"]
    shown = home.hob("sessions", "show", "one", check=0).out
    assert shown.startswith("[user]\nfirst words\n\n[assistant]\n")
    assert home.hob("sessions", "show", "raw", check=0).out.startswith("just text")
    listed = {s["name"]: s for s in json.loads(home.hob("sessions", "list", "--json", check=0).out)}
    assert listed["raw"]["raw"] is True and listed["one"]["raw"] is False
    assert listed["one"]["messages"] == 2 and listed["one"]["bytes"] > 0 and not listed["one"]["busy"]
    assert abs(listed["one"]["used"] - time.time()) < 300

    home.hob("sessions", "fork", "one", "copy", check=0)
    assert said(home, "copy") == ["first words"]
    home.ask("-S", "copy", "more", n=4)
    assert said(home, "copy") == ["first words", "more"] and said(home, "one") == ["first words"]
    home.hob("sessions", "rename", "copy", "new name", check=0)
    assert "copy" not in names(home) and said(home, "new name") == ["first words", "more"]
    for verb in (["fork", "one", "two"], ["rename", "one", "two"]):
        r = home.hob("sessions", *verb)
        assert r.returncode == 1 and "'two'" in r.err and r.err.count("\n") == 1
    for verb in (["show", "none"], ["fork", "none", "x"], ["rename", "none", "x"], ["rm", "none"]):
        r = home.hob("sessions", *verb)
        assert r.returncode == 1 and "'none'" in r.err and r.err.count("\n") == 1
    r = home.hob("sessions", "rm", "two", "none", "raw")
    assert r.returncode == 1 and r.err.count("\n") == 1
    assert sorted(names(home)) == ["new name", "one"]
    # All of it is so on disk, too.
    d = home.restart(d)
    assert sorted(names(home)) == ["new name", "one"]
    assert said(home, "new name") == ["first words", "more"] and said(home, "one") == ["first words"]
    # A removed session begins anew.
    a = home.ask("-S", "two", "again", n=4)
    assert said(home, "two") == ["again"]
    assert a.done["session"] == "two"


def test_continue_takes_the_last_one(home):
    d = home.daemon()
    r = home.hob("-c", "x")
    assert r.returncode == 1 and "session" in r.err
    home.ask("-S", "a", "one", n=2)
    home.ask("-S", "b", "two", n=2)
    home.ask("-S", "a", "three", n=2)
    assert home.ask("-c", "four", n=2).done["session"] == "a"
    d = home.restart(d)
    assert home.ask("-c", "five", n=2).done["session"] == "a"
    assert home.ask("-c", "--fork", "f", "six", n=2).done["session"] == "f"
    assert home.ask("-c", "seven", n=2).done["session"] == "f"
    assert said(home, "f") == ["one", "three", "four", "five", "six", "seven"]
    assert said(home, "a") == ["one", "three", "four", "five"]


def test_busy(home, long):
    d = home.daemon("-m", long)
    env = {"HOB_SOCKET": str(d.path)}
    p = home.popen([HOB, "-S", "s", "-n", 30000, "--ignore-eos", "go"], env=env, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(3)
    r = home.hob("-S", "s", "me too", env=env)
    assert r.returncode == 75 and "'s'" in r.err and r.err.count("\n") == 1
    assert json.loads(home.hob("sessions", "list", "--json", env=env, check=0).out)[0]["busy"]
    for verb in (["show", "s"], ["rm", "s"], ["rename", "s", "t"], ["fork", "s", "t"]):
        assert home.hob("sessions", *verb, env=env).returncode == 75
    waiting = home.popen([HOB, "-S", "s", "--wait", "-n", 3, "--ignore-eos", "then me"], env=env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Its patience has an end, when it says so.
    r = home.hob("-S", "s", "--wait", "--timeout", "200ms", "not so long", env=env)
    assert r.returncode == 75
    assert waiting.poll() is None and p.poll() is None
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and out, err
    home.env["HOB_SOCKET"] = str(d.path)
    assert said(home, "s") == ["go", "then me"]


def test_expiry(home):
    d = home.daemon()
    home.ask("-S", "old", "words", n=2)
    d = home.restart(d)
    assert names(home) == ["old"]
    time.sleep(0.6)
    d = home.restart(d, "--session-ttl", "500ms")
    deadline = time.monotonic() + 120
    while names(home):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not list((home.root / "state").rglob("*.log"))
    # And while it runs, without anybody asking.
    home.ask("-S", "new", "words", n=2)
    while list((home.root / "state").rglob("*.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    while names(home):  # the list follows the file
        assert time.monotonic() < deadline
        time.sleep(0.05)
    home.restart(d, "--session-ttl", "1h")
    home.ask("-S", "kept", "words", n=2)
    assert names(home) == ["kept"]


@pytest.mark.parametrize("name", ["a/b", "../../etc/passwd", "/", "x" * 10000, "x" * 129, "a\nb", "\x7f"])
def test_names_that_are_none(shared, name):
    before = names(shared)
    r = shared.hob("-S", name, "hello")
    assert r.returncode in (1, 2) and r.err.count("\n") == 1 and len(r.err) < 400
    for verb in (["show", name], ["rm", name], ["fork", name, "x"], ["fork", "x", name], ["rename", "x", name]):
        r = shared.hob("sessions", *verb)
        assert r.returncode in (1, 2) and r.err.count("\n") == 1 and len(r.err) < 400
    assert names(shared) == before


@pytest.mark.parametrize("name", ["a\0b", "\0", "a/b", "x" * 10000, "", "\x01"])
def test_names_that_are_none_on_the_wire(shared, name):
    c = shared.client()
    for e in (c.answer("hello", session=name).end, c.answer("hello", session="q", fork=name).end,
              c.ask("session.show", name=name), c.ask("session.remove", name=name),
              c.ask("session.fork", name=name, to="x"), c.ask("session.rename", name="x", to=name)):
        assert e["event"] == "error" and e["code"] in ("EINVAL", "ENOENT") and e["message"], e
    assert c.answer("hello", max_tokens=2, ignore_eos=True).end["event"] == "done"


@pytest.mark.parametrize("name", ["x" * 128, "été ☃", ".", "..", "-", "a b", "CON", "%s%n", "*", "'\"`$(x)"])
def test_names_that_are_odd(home, name):
    d = home.daemon()
    home.ask("-S", name, "hello", n=2)
    d = home.restart(d)
    assert names(home) == [name]
    assert home.client().session(name)["messages"][0]["content"] == "hello"
    home.hob("sessions", "rm", "--", name, check=0)
    assert names(home) == []


# --- once and only once ---

def test_a_uuid_is_one_turn(home):
    d = home.daemon()
    c = home.client()
    first = c.answer("words", session="s", uuid="abc-1", **KEYS)
    for _ in range(2):
        again = home.client().answer("words", session="s", uuid="abc-1", **KEYS)
        assert again.text == first.text
        for key in ("reason", "usage", "seed", "session"):
            assert again.end[key] == first.end[key]
        assert said(home, "s") == ["words"]
        d = home.restart(d)
    home.client().answer("more", session="s", uuid="abc-2", **KEYS)
    assert home.client().answer("words", session="s", uuid="abc-1", **KEYS).text == first.text
    assert said(home, "s") == ["words", "more"]


def test_a_uuid_is_one_turn_that_filled_the_context(home):
    home.daemon("--ctx", 64)
    keys = {**KEYS, "max_tokens": 500}
    first = home.client().answer("words", session="s", uuid="abc-1", **keys)
    assert first.end["reason"] == "context"
    again = home.client().answer("words", session="s", uuid="abc-1", **keys)
    assert again.end["event"] == "done" and again.text == first.text
    assert said(home, "s") == ["words"]
    assert home.client().answer("words", session="s", uuid="abc-2", **keys).end["code"] == "E2BIG"


def test_a_uuid_is_one_fork(home):
    d = home.daemon()
    c = home.client()
    c.answer("words", session="s", **KEYS)
    first = c.answer("more", session="s", fork="t", uuid="abc-1", **KEYS)
    assert first.end["event"] == "done"
    for _ in range(2):
        again = home.client().answer("more", session="s", fork="t", uuid="abc-1", **KEYS)
        assert again.end["event"] == "done" and again.text == first.text and again.end["session"] == "t"
        d = home.restart(d)
    assert said(home, "s") == ["words"] and said(home, "t") == ["words", "more"]
    other = home.client().answer("more", session="s", fork="t", uuid="abc-2", **KEYS)
    assert other.end["event"] == "error" and "'t'" in other.end["message"]
    assert home.client().answer("x", session="t", **KEYS).end["event"] == "done"


def test_a_note_and_the_outcome_of_a_turn(home):
    """The session has them until its next turn, also after a restart; a fork has its own."""
    d = home.daemon()
    first = home.client().answer("words", session="s", note='{"of": "a program"}', uuid="abc-1", **KEYS)
    fork = home.client().answer("more", session="s", fork="t", note="\u00e4", uuid="abc-2", **KEYS)
    d = home.restart(d)
    c = home.client()
    s, t = c.session("s"), c.session("t")
    assert (s["note"], t["note"]) == ('{"of": "a program"}', "\u00e4")
    for x, a, uuid in ((s, first, "abc-1"), (t, fork, "abc-2")):
        assert x["outcome"] == {"uuid": uuid, "reason": a.end["reason"], "usage": a.usage}
    c.answer("more", session="s", **KEYS)
    assert "note" not in c.session("s") and c.session("s")["outcome"] == s["outcome"]
    assert c.ask("session.fork", name="t", to="u")["event"] == "ok"
    assert not {"note", "outcome"} & set(c.session("u"))
    end = c.ask("generate", raw=True, prompt="x", note="n")
    assert end["event"] == "error" and "note needs session" in end["message"]


# --- exit and return ---

def show_around_the_exit(home, name):
    """Of a daemon that runs: one that exits before it is asked is not the last."""
    while True:
        home.hob("--warm", "x", check=0)
        with suppress(OSError, Closed), home.client() as c:
            e = c.ask("session.show", name=name)
            if e["event"] == "sessions":
                return json.loads(e["sessions"])
            assert e["code"] == "ESHUTDOWN", e


def visits(home, rounds, workers=2):
    """Turns at random moments around the exit: each answered, none twice."""
    rng, trouble = random.Random(4), []
    naps = [[rng.gauss(0.3, 0.03) for _ in range(rounds)] for _ in range(workers)]

    def run(w):
        for i, nap in enumerate(naps[w]):
            time.sleep(nap)
            r = home.hob("-S", f"w{w}", "-n", 1, "--ignore-eos", f"t{i}")
            if r.returncode or not r.out:
                trouble.append((w, i, r.returncode, r.err))

    threads = [threading.Thread(target=run, args=(w,)) for w in range(workers)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert trouble == []
    for w in range(workers):
        messages = show_around_the_exit(home, f"w{w}")["messages"]
        assert [m["content"] for m in messages if m["role"] == "user"] == [f"t{i}" for i in range(rounds)]
        assert len([m for m in messages if m["role"] == "assistant"]) == rounds


def test_idle_exit_and_the_client_starts_it(home):
    conf = home.root / "config" / "hob"
    conf.mkdir(parents=True)
    (conf / "hobd.conf").write_text("idle-exit = 300ms\n")
    visits(home, 20)


class Activator:
    """What systemd does with a socket unit: keeps the socket, starts the daemon when somebody waits there."""

    def __init__(self, home, *args):
        self.home, self.args, self.starts, self.codes = home, args, 0, []
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        home.socket.parent.mkdir(exist_ok=True, mode=0o700)
        self.s.bind(str(home.socket))
        self.s.listen(64)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        import select
        log = open(self.home.root / "hobd.log", "ab")
        while not self.over.is_set():
            if not select.select([self.s], [], [], 0.02)[0]:
                continue
            self.starts += 1

            def hand_over():
                os.dup2(self.s.fileno(), 3)
                os.environ["LISTEN_PID"] = str(os.getpid())

            # The shell becomes the daemon, and knows its own pid.
            p = subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", str(HOBD), "serve", *self.args],
                                 env=self.home.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False,
                                 preexec_fn=hand_over)
            while p.poll() is None:
                if self.over.is_set():
                    p.terminate()
                time.sleep(0.005)
            self.codes.append(p.returncode)

    def stop(self):
        self.over.set()
        self.thread.join()
        self.s.close()


def test_idle_exit_and_a_socket_unit(home):
    a = Activator(home, "--idle-exit", "300ms")
    home.env["HOB_SOCKET"] = str(home.socket)
    try:
        visits(home, 20)
    finally:
        a.stop()
    assert a.starts > 1 and set(a.codes) == {0}, (home.root / "hobd.log").read_text()


def test_idle_exit_and_systemd_socket_activate(home, tiny, tmp_path):
    if not shutil.which("systemd-socket-activate"):
        pytest.skip("systemd-socket-activate is not installed")
    sock = tmp_path / "h.sock"
    home.env["HOB_SOCKET"] = str(sock)
    for i in range(3):
        p = home.popen(["systemd-socket-activate", "-l", sock, "-E", "XDG_STATE_HOME", "-E", "XDG_CACHE_HOME", "-E", "HOME",
                        HOBD, "serve", "-m", tiny, "--idle-exit", "300ms"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not listens(sock):
            time.sleep(0.01)
        home.ask("-S", "s", f"turn {i}", n=2)
        assert p.wait(60) == 0
        sock.unlink()
    home.daemon("-m", tiny, socket=sock)
    assert said(home, "s") == [f"turn {i}" for i in range(3)]


def test_stop_while_answering(home, long):
    """What was accepted is answered and kept, however the daemon is told."""
    for i, way in enumerate(["TERM", "stop", "INT"]):
        d = home.daemon("-m", long)
        p = home.popen([HOB, "-S", "s", "-n", 60, "--ignore-eos", "--jsonl", f"turn {i}"], stdin=subprocess.DEVNULL,
                       env={"HOB_SOCKET": str(d.path)}, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while b'"text"' not in p.stdout.readline():
            pass
        if way == "stop":
            home.hob("stop", check=0, env={"HOB_SOCKET": str(d.path)})
            assert d.wait(60) == 0
        else:
            d.send_signal(signal.SIGTERM if way == "TERM" else signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        assert json.loads(out.splitlines()[-1])["usage"]["completion"] == 60
        assert d.wait(60) == 0
    home.daemon("-m", long)
    assert said(home, "s") == ["turn 0", "turn 1", "turn 2"]


# --- more than one ---

def test_second_daemon_on_one_model(home):
    d = home.daemon()
    home.ask("-S", "s", "hello", n=2)
    start = time.monotonic()
    second = home.daemon(socket=home.root / "second.sock", wait=False)
    # Whoever asks it meanwhile is told, too.
    while not listens(second.path):
        time.sleep(0.01)
    r = home.hob("hello", env={"HOB_SOCKET": str(second.path)})
    assert r.returncode in (1, 69) and "another hobd" in r.err and r.err.count("\n") == 1
    assert second.wait(60) == 1 and time.monotonic() - start < 40
    last = d.log.read_text().splitlines()[-1]
    assert "another hobd" in last and str(home.root / "state" / "hob" / "default") in last
    assert said(home, "s") == ["hello"]


def test_second_daemon_waits_for_the_first_to_leave(home):
    d = home.daemon()
    home.ask("-S", "s", "hello", n=2)
    second = home.daemon(socket=home.root / "second.sock", wait=False)
    time.sleep(0.3)
    home.hob("stop", check=0)
    assert d.wait(60) == 0
    home.wait_ready(second)
    home.env["HOB_SOCKET"] = str(second.path)
    assert said(home, "s") == ["hello"]


def test_two_models_side_by_side(home, tiny_spm, tmp_path):
    (home.models / "other.gguf").symlink_to(tiny_spm)
    a = home.daemon()
    b = home.daemon("-m", "other", socket=home.root / "other.sock")
    env = {"HOB_SOCKET": str(b.path)}
    for i in range(2):
        home.ask("-S", "s", f"here {i}", n=3)
        home.ask("-S", "s", f"there {i}", n=3, env=env)
    for p, e in ((a, None), (b, env)):
        home.hob("stop", check=0, env=e)
        assert p.wait(60) == 0
    home.daemon()
    home.daemon("-m", "other", socket=b.path)
    assert said(home, "s") == ["here 0", "here 1"]
    assert home.ask("-S", "s", "here 2", n=3).cached > 0
    home.env.update(env)
    assert said(home, "s") == ["there 0", "there 1"]
    assert home.ask("-S", "s", "there 2", n=3).cached > 0
