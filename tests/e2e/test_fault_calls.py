# SPDX-License-Identifier: MIT
"""A sample of tests/faults.sh: calls of the C library fail, are short or interrupted, and the clock jumps."""
import errno
import json
import os
import sys
import time
from pathlib import Path

import pytest
from conftest import BUILD, HOB, HOBD, Home, mktiny

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))
from control import ALL, FROM, INTERRUPT, ONCE, SHORT, UNTRIED, Control, Symbols  # noqa: E402
from hobproto import Closed  # noqa: E402
from scenarios import LIBRARY, SCENARIOS, Daemon, Findings, Turns, faulty, run  # noqa: E402

if b"__asan" in HOBD.read_bytes() or b"__tsan" in HOBD.read_bytes():
    pytest.skip("tests/faults.sh has options for sanitizers", allow_module_level=True)


@pytest.fixture(scope="module")
def one_layer(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("model") / "tiny.gguf", "--seed", 7, "--layers", 1)


def sweep(tmp_path, model, name, seconds, effect=ONCE, groups=None):
    program, scenario = SCENARIOS[name]
    c, found = Control(tmp_path / "faults"), Findings()
    if groups:
        c.only(*groups)
    scenario(tmp_path / "home", model, c, effect, found.of(name, c, Symbols([HOBD, HOB])), time.monotonic() + seconds)
    assert c.failed and not found, found


@pytest.mark.parametrize("name, seconds, groups", [
    ("turn", 5, None), ("life", 3, ("descriptors", "locks")), ("hob", 2, None), ("gateway", 4, None)])
def test_each_call_fails_once(tmp_path, one_layer, name, seconds, groups):
    (tmp_path / "home").mkdir()
    sweep(tmp_path, one_layer, name, seconds, groups=groups)


@pytest.fixture
def daemon(tmp_path, one_layer):
    c = Control(tmp_path / "faults")
    d = Daemon(tmp_path, one_layer, c)
    d.problems = []
    d.say = lambda what, log="": d.problems.append((what, log))
    yield d
    c.disarm()
    d.home.stop()
    assert not d.problems


@pytest.mark.parametrize("effect", [SHORT, INTERRUPT])
def test_short_and_interrupted_calls(daemon, effect):
    """From the start to the stop, and again; client and daemon."""
    turns, c = Turns(), daemon.control
    env = {"LD_PRELOAD": str(LIBRARY), "FAULT_CONTROL": str(c.path)}
    command = (HOB, "--raw", "--temp", "0", "-n", "8", "--ignore-eos", "word " * 40)
    plain = None
    for armed in (False, True, True, False):
        if armed:
            c.arm(effect, choice=ALL)
        daemon.start()
        for _ in range(3):
            assert faulty(daemon, turns, lambda x, t: t.ask(x)) is None, daemon.said()
        said = run(daemon.home, command, env)
        plain = plain or said
        assert said == plain and said[0] == 0
        faulty(daemon, turns, lambda x, t: t.check(x, daemon.say))
        daemon.stop(daemon.say)
        assert "could not" not in daemon.said() and (not armed or c.disarm()), daemon.said()


@pytest.mark.parametrize("error", [errno.EDQUOT, errno.ENOSPC, errno.EROFS])
def test_the_disk_refuses(daemon, error):
    """From the middle of a turn: it is refused with the reason, and when the disk takes it again, it is there once."""
    turns, c = Turns(), daemon.control
    daemon.start()
    assert faulty(daemon, turns, lambda x, t: t.ask(x)) is None
    c.only("disk")
    c.arm(FROM, choice=UNTRIED, error=error)
    said = faulty(daemon, turns, lambda x, t: t.ask(x))
    assert f"could not be saved: {os.strerror(error)}" in said, said
    assert c.disarm()
    assert faulty(daemon, turns, lambda x, t: t.ask(x)) is None
    faulty(daemon, turns, lambda x, t: t.check(x, daemon.say))


YEAR = 365 * 86400 * 10**9


def test_the_clock_jumps(daemon):
    """Forward and back by years while it runs: nothing waits for the old time, expires at once, or changes places."""
    c, turns = daemon.control, Turns()
    daemon.args = ("--session-ttl", "30d", "--queue-timeout", "1min")
    daemon.start()
    for jump in (0, 3 * YEAR, -2 * YEAR, 0):
        c.clock_ns = jump
        for _ in range(6):
            assert faulty(daemon, turns, lambda x, t: t.ask(x)) is None, (jump, daemon.said())
    names = [s["name"] for s in daemon.home.client().sessions()]
    assert names[0] == f"s{turns.n // 6}" and len(names) == len(turns.kept), names
    faulty(daemon, turns, lambda x, t: t.check(x, daemon.say))
    daemon.stop(daemon.say)
    for jump in (-2 * YEAR, 0):
        c.clock_ns = jump
        daemon.start()
        faulty(daemon, turns, lambda x, t: t.check(x, daemon.say))
        assert faulty(daemon, turns, lambda x, t: t.ask(x)) is None
        daemon.stop(daemon.say)


def test_a_part_of_a_turn_is_one_turn(daemon):
    """Memory runs out at any place of an answer: the same UUID again adds nothing to what the session has."""
    c, n = daemon.control, 0
    x = daemon.start().connect()
    assert x.answer("words", max_tokens=1).end["event"] == "done"  # the model is loaded
    c.only("memory")
    while n < 200:
        n += 1
        keys = dict(session=f"p{n}", uuid=f"u-{n}", max_tokens=6, temperature=0.9, seed=n, ignore_eos=True)
        c.arm()
        try:
            end = x.answer("words", **keys).end
        except (Closed, OSError):
            end = {"event": "error"}
        if not c.disarm():
            break
        if end["event"] == "error":
            x = daemon.connect()  # hobd may close the connection of a message that it has no memory for
            again = x.answer("words", **keys).end
            while again.get("code") == "EBUSY":  # the turn is still being stored
                time.sleep(0.01)
                again = x.answer("words", **keys).end
            assert again["event"] == "done" and again["reason"] in ("length", "cancel"), again
        shown = x.session(f"p{n}")
        assert [m["role"] for m in shown["messages"]] == ["user", "assistant"], (shown, end)
    assert n > 20


def test_no_home(tmp_path, one_layer):
    """Without a directory for the state hobd says so."""
    h = Home(tmp_path, one_layer)
    env = {k: "" for k in ("HOME", "XDG_STATE_HOME")}
    h.daemon("--threads", "1", env=env)
    assert "sessions are kept only in memory: neither XDG_STATE_HOME nor HOME is set" in (tmp_path / "hobd.log").read_text()
    h.stop()


def test_packed_weights_that_cannot_be_looked_up(tmp_path, one_layer):
    """hob models says that it does not know, and why, or it fails; it never says "no" of a model that has them, or is loaded."""
    h, c = Home(tmp_path, one_layer), Control(tmp_path / "faults")
    h.daemon()
    packed = h.root / "cache" / "hob" / "packed"
    while not (list(packed.glob("*.hobw")) and list(packed.glob("*.id"))):
        time.sleep(0.01)
    c.only("descriptors", "input", "memory")
    command, whys = (HOB, "models", "list", "--json"), set()
    env = {"LD_PRELOAD": str(LIBRARY), "FAULT_CONTROL": str(c.path)}
    fired, end = True, time.monotonic() + 300
    while fired and time.monotonic() < end:
        c.arm(ONCE)
        status, out, err = run(h, command, env)
        fired = c.disarm()
        assert status == 0 or err
        for m in json.loads(out) if status == 0 else []:
            assert m["loaded"] and m["template"] or not m["supported"], (m, Symbols([HOBD, HOB]).path(c.last_site()))
            assert m["packed"] in (True, None) or not m["supported"], (m, Symbols([HOBD, HOB]).path(c.last_site()))
            assert ("packed_why" in m) == (m["packed"] is None)
            whys |= {m.get("packed_why")}
    assert {None, "Too many open files"} <= whys
    site = next(s for s in c.sites() if s[1] == "openat" and any("partfile_open" in Symbols([HOBD]).name(*f) for f in s[4]))
    assert site[3]
    h.stop()
