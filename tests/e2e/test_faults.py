# SPDX-License-Identifier: MIT
"""Directories that cannot be used, files that are not what they were, and kill -9: the daemon serves, says so, and
answers the same to the bit."""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import HOBD, Home
from hobproto import Client, Closed

DOC = "the quick brown fox jumps over the lazy dog, again; " * 4
KEYS = dict(max_tokens=4, temperature=0.9, seed=5, ignore_eos=True, logprobs=True)
OTHER = 61001  # a uid that owns nothing here


@pytest.fixture(scope="module")
def want(tmp_path_factory, tiny):
    """What a daemon says that has never read anything: to DOC, and to three turns of a session."""
    h = Home(tmp_path_factory.mktemp("home"), tiny)
    h.daemon("--cache-bytes", 0, "--packed-file", "no")
    yield [ask(h, None)] + [ask(h, "s", i).bits for i in range(3)]
    h.stop()


def ask(h, session, i=0, **kw):
    words = [DOC, "and then?", "and at last?"][i]
    said = h.ask("--ignore-eos", *(("-S", session) if session else ()), words, **kw)
    return said if session else said.bits


def state(h):
    return h.root / "state" / "hob" / "default"


def logged(d, before, text):
    """The log of @d from byte @before on, once it has @text: the cache is opened when the weights are verified."""
    deadline = time.monotonic() + 60
    while text not in (log := d.log.read_text()[before:]):
        assert time.monotonic() < deadline, log
        time.sleep(0.01)
    return log


def cache(h):
    return h.root / "cache" / "hob" / "default"


def blocks(h):
    return sorted(cache(h).glob("*.kv"))


def users(h, name):
    shown = json.loads(h.hob("sessions", "show", name, "--json", check=0).out)
    return [m["content"] for m in shown["messages"] if m["role"] == "user"]


def fill(h, *args):
    """A home with a session of two turns and its blocks on disk, and nobody there."""
    d = h.daemon(*args)
    ask(h, "s", 0)
    ask(h, "s", 1)
    h.hob("stop", check=0)
    assert d.wait(60) == 0
    assert len(blocks(h)) >= 2
    return d


def refused(h, *args, say):
    """A turn that cannot be kept: what is said of it, in one line."""
    r = h.hob("-S", *args)
    assert r.returncode == 1, (r.returncode, r.err)
    assert r.err.count("\n") == 1 and "could not be saved" in r.err and say in r.err, r.err


class Mounts:
    """Mounts that only who enters sees; they live as long as this does."""

    def __init__(self, script):
        self.p = subprocess.Popen(["unshare", "-m", "sh", "-ec", script + "\necho ok; exec sleep 1000"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        if self.p.stdout.readline() != b"ok\n":
            pytest.skip("cannot mount here: " + self.p.stderr.read().decode().strip())
        self.enter = ["nsenter", f"--mount=/proc/{self.p.pid}/ns/mnt", "--"]

    def see(self, path):
        return Path(f"/proc/{self.p.pid}/root{path}")

    def end(self):
        self.p.kill()
        self.p.wait()


@pytest.fixture
def mounts():
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    made = []

    def make(script):
        made.append(Mounts(script))
        return made[-1]

    yield make
    for m in made:
        m.end()


@pytest.fixture
def commoner(tiny):
    """A home whose daemon is not root, so that modes count; and the way to start it."""
    h = Home(Path(tempfile.mkdtemp(prefix="hob-common-")), None)
    shutil.copy(tiny, h.models / "default.gguf")
    h.wrap = []
    if os.geteuid() == 0:
        h.wrap = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
        subprocess.run(["chown", "-R", str(OTHER), h.root], check=True)
        h.socket.parent.mkdir()
        os.chown(h.socket.parent, OTHER, OTHER)
        h.env["HOB_SOCKET"] = str(h.socket)  # the client is root's, and asks no other user's daemon unless told to
        if subprocess.run([*h.wrap, "test", "-x", HOBD]).returncode:
            pytest.skip("another user cannot run this build's hobd")
    yield h
    h.stop()
    for d in (state(h), cache(h)):
        if d.exists():
            d.chmod(0o700)
    shutil.rmtree(h.root)


# --- directories ---

@pytest.mark.parametrize("which", ["state", "cache"])
def test_removed_while_it_runs(home, want, which):
    d = home.daemon()
    assert ask(home, "s", 0).bits == want[1]
    while (home.root / which).exists():  # the daemon may be writing still
        shutil.rmtree(home.root / which, ignore_errors=True)
    if which == "state":
        refused(home, "s", "more", "-n", "2", say="No such file")
        refused(home, "new", "more", "-n", "2", say="No such file")
    else:
        assert ask(home, "s", 1).bits == want[2]
    assert ask(home, None) == want[0]
    d = home.restart(d)
    assert ask(home, None) == want[0]
    if which == "cache":
        assert ask(home, "s", 2).bits == want[3]
    else:
        assert ask(home, "s", 0).bits == want[1]


@pytest.mark.parametrize("which", ["state", "cache", "both"])
def test_read_only_by_mode(commoner, want, which):
    h = commoner
    d = h.daemon(wrap=h.wrap)
    assert ask(h, "s", 0).bits == want[1]
    h.hob("stop", check=0)
    assert d.wait(60) == 0
    for p in (state(h), cache(h)):
        if which in ("both", "state" if p == state(h) else "cache"):
            for x in [p, *p.rglob("*")]:
                x.chmod(0o500 if x.is_dir() else 0o400)
    before = d.log.stat().st_size
    d = h.daemon(wrap=h.wrap)
    assert ask(h, None) == want[0]
    if which == "cache":
        assert ask(h, "s", 1).bits == want[2]
    else:
        log = d.log.read_text()[before:]
        assert "state/hob/default" in log and "ermission" in log, log
        # Nothing can be kept: either sessions are in memory, and that was said, or each turn says it.
        r = h.hob("-S", "t", "-n", "2", "hello")
        assert (r.returncode == 0 and "sessions are kept only in memory" in log) or "could not be saved" in r.err
    if which != "state":
        logged(d, before, "cache/hob/default")
    for p in (state(h), cache(h)):
        for x in [p, *p.rglob("*")]:
            x.chmod(0o700 if x.is_dir() else 0o600)
    h.restart(d, wrap=h.wrap)
    assert ask(h, "s", 2 if which == "cache" else 1).bits == want[3 if which == "cache" else 2]


@pytest.mark.parametrize("kind", ["empty", "with what was there"])
@pytest.mark.parametrize("which", ["state", "cache"])
def test_read_only_mount(home, mounts, want, which, kind):
    fill(home)
    path = (state if which == "state" else cache)(home)
    how = f"mount -t tmpfs -o ro,mode=700 none '{path}'" if kind == "empty" else f"mount --bind '{path}' '{path}'; mount -o remount,ro,bind '{path}'"
    m = mounts(how)
    before = (home.root / "hobd.log").stat().st_size
    d = home.daemon(wrap=m.enter)
    assert ask(home, None) == want[0]
    if (which, kind) != ("state", "with what was there"):  # there each turn says it
        assert "ead-only" in logged(d, before, str(path))
    log = d.log.read_text()[before:]
    if which == "cache":
        assert ask(home, "s", 2).bits == want[3]
    elif kind == "empty":
        assert "sessions are kept only in memory" in log
        assert ask(home, "s", 0).bits == want[1]
        assert ask(home, "s", 1).bits == want[2]
    else:
        assert users(home, "s") == [DOC, "and then?"]
        refused(home, "s", "and at last?", "-n", "2", say="ead-only")
        assert "could not be saved: Read-only" in d.log.read_text()[before:]
        r = home.hob("sessions", "rm", "s")
        assert r.returncode == 1 and "ead-only" in r.err
    home.restart(d)
    assert users(home, "s") == [DOC, "and then?"] + ["and at last?"] * (which == "cache")


@pytest.mark.parametrize("which", ["state", "cache"])
def test_full(home, mounts, want, which):
    path = (state if which == "state" else cache)(home)
    path.mkdir(parents=True, mode=0o700)
    m = mounts(f"mount -t tmpfs -o size=256k,mode=700 none '{path}'")
    d = home.daemon(wrap=m.enter)
    assert ask(home, "s", 0).bits == want[1]
    ballast = m.see(path) / "ballast"
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError):
        while True:
            os.write(fd, b"x" * 4096)
    os.close(fd)
    if which == "state":
        for name in ("t", "s"):  # before the turn, so that no answer is lost; existing sessions can be read
            r = home.hob("-S", name, "-n", "1", "hello")
            assert r.returncode == 1 and r.out == "" and "the disk is full" in r.err and r.err.count("\n") == 1, r.err
        assert users(home, "s") == [DOC]
    else:
        assert ask(home, "s", 1).bits == want[2]
        home.ask("another " + DOC)
    assert ask(home, None) == want[0]
    ballast.unlink()
    if which == "state":
        home.hob("-S", "u", "-n", "1", "again", check=0)
        assert users(home, "u") == ["again"]
        assert ask(home, "s", 1).bits == want[2]
    d = home.restart(d, wrap=m.enter)
    assert ask(home, "s", 2).bits == want[3]
    if which == "state":
        assert users(home, "u") == ["again"]
    assert ask(home, None) == want[0]


def test_files_limited(home, want):
    """RLIMIT_FSIZE: the same for those who cannot mount."""
    d = home.daemon("--packed-file", "no", wrap=["prlimit", "--fsize=3000:unlimited"])
    log = d.log.stat().st_size
    assert log < 3000
    for i in range(3):
        r = home.hob("-S", "s", "-n", "1", DOC[:100 + 1000 * i][:400] + f"{i}")
    for i in range(12):
        r = home.hob("-S", "t", "-n", "1", "word " * 12)
        if r.returncode:
            break
    assert r.returncode == 1 and "could not be saved" in r.err and "too large" in r.err
    assert ask(home, None) == want[0]
    n = len(users(home, "t"))
    subprocess.run(["prlimit", f"--pid={d.pid}", "--fsize=unlimited"], check=True)
    home.hob("-S", "t", "-n", "1", "and now", check=0)
    assert len(users(home, "t")) == n + 1
    home.restart(d)
    assert len(users(home, "t")) == n + 1 and users(home, "t")[-1] == "and now"


@pytest.mark.parametrize("which", ["state", "cache"])
@pytest.mark.parametrize("what", ["other's", "open to all", "a file"])
def test_not_ours(home, want, which, what):
    path = (state if which == "state" else cache)(home)
    if what == "a file":
        path.parent.mkdir(parents=True)
        path.write_text("")
    else:
        fill(home)
        if what == "other's":
            if os.geteuid() != 0:
                pytest.skip("needs root, to give a directory away")
            os.chown(path, OTHER, OTHER)
        else:
            path.chmod(0o777)
    log = home.root / "hobd.log"
    before = log.stat().st_size if log.exists() else 0
    d = home.daemon()
    assert ask(home, None) == want[0]
    said = logged(d, before, str(path))
    assert {"other's": str(OTHER), "open to all": "others", "a file": "not a directory"}[what] in said, said
    if which == "state":
        assert ask(home, "s", 0).bits == want[1] and ask(home, "s", 1).bits == want[2]
    else:
        ask(home, "s", 0)
    if what == "open to all":
        path.chmod(0o700)
        home.restart(d)
        assert users(home, "s")[:2] == [DOC, "and then?"]


# --- files ---

def flip(path, at, n=1):
    b = bytearray(path.read_bytes())
    for i in range(n):
        b[at + i] ^= 0x40
    path.write_bytes(b)


def swap(a, b):
    x, y = a.read_bytes(), b.read_bytes()
    a.write_bytes(y)
    b.write_bytes(x)


DAMAGE = {
    "empty": lambda f: [x.write_bytes(b"") for x in f],
    "short": lambda f: [x.write_bytes(x.read_bytes()[:-1]) for x in f],
    "half": lambda f: [x.write_bytes(x.read_bytes()[:len(x.read_bytes()) // 2]) for x in f],
    "long": lambda f: [x.write_bytes(x.read_bytes() + b"\0") for x in f],
    "head": lambda f: [flip(x, 9) for x in f],
    "key": lambda f: [flip(x, 60, 8) for x in f],
    "payload": lambda f: [flip(x, x.stat().st_size // 2) for x in f],
    "one bit": lambda f: flip(f[0], 4000),
    "last": lambda f: [flip(x, x.stat().st_size - 1) for x in f],
    "zeros": lambda f: [x.write_bytes(bytes(x.stat().st_size)) for x in f],
    "swapped": lambda f: swap(f[0], f[1]),
    "rotated": lambda f: [swap(a, b) for a, b in zip(f, f[1:])],
    "one gone": lambda f: f[0].unlink(),
    "all but one": lambda f: [x.unlink() for x in f[:-1]],
    "copied": lambda f: [shutil.copy(f[0], x.with_name(f"{i:032x}.kv")) for i, x in enumerate(f)],
    "a directory": lambda f: (f[0].unlink(), f[0].mkdir()),
    "a link": lambda f: (f[0].unlink(), f[0].symlink_to(f[1])),
    "a link to nothing": lambda f: (f[0].unlink(), f[0].symlink_to("/nowhere")),
    "a pipe": lambda f: (f[0].unlink(), os.mkfifo(f[0])),
    "readable by all": lambda f: [x.chmod(0o666) for x in f],
    "the future": lambda f: [os.utime(x, (2**33, 2**33)) for x in f],
    "the past": lambda f: [os.utime(x, (0, 0)) for x in f],
    "strangers": lambda f: [x.with_name(n).write_bytes(b"?" * 300) for x in f[:1]
                            for n in (".tmp", "x.kv", "0" * 32 + ".kv", "f" * 32 + ".tmp", "notes.txt")],
}


TOLD = set(DAMAGE) - {"one gone", "all but one", "the future", "the past"}


@pytest.mark.parametrize("what", DAMAGE)
def test_block_files(home, want, what):
    fill(home)
    DAMAGE[what](blocks(home))
    d = home.daemon()
    assert ask(home, "s", 2).bits == want[3]
    assert ask(home, None) == want[0]
    d = home.restart(d)
    assert ask(home, None) == want[0]
    # A bad file is removed when it is found; files of others are not touched.
    if what == "strangers":
        assert (cache(home) / "notes.txt").exists()
    log = d.log.read_text()
    assert ("cache/hob/default" in log) == (what in TOLD), log
    if what == "payload":
        assert "has other contents than were written" in log


@pytest.mark.parametrize("what", ["payload", "half", "one gone", "all gone", "swapped"])
def test_block_files_while_it_runs(home, want, what):
    """It knows them from its start; they are not what it knows when it wants them."""
    fill(home)
    home.daemon()
    home.hob("status", check=0)
    if what == "all gone":
        [x.unlink() for x in blocks(home)]
    else:
        DAMAGE[what](blocks(home))
    assert ask(home, "s", 2).bits == want[3]
    assert ask(home, None) == want[0]


def test_blocks_of_another_kind(homes, want, tiny_spm, tiny):
    """Of another KV type, and of another model under the same name."""
    a, b = homes(), homes()
    fill(a)
    fill(b, "--kv-type", "f32")
    for x in blocks(b):
        shutil.copy(x, cache(a))
    a.daemon()
    assert ask(a, "s", 2).bits == want[3]
    a.stop()
    d = b.daemon("--kv-type", "f16")
    assert ask(b, None) == want[0]
    d = b.restart(d, "--kv-type", "q8")
    q8 = ask(b, None)
    d = b.restart(d, "--kv-type", "q8")
    assert ask(b, None) == q8
    b.hob("stop", check=0)
    d.wait(60)
    link = b.models / "default.gguf"
    link.unlink()
    link.symlink_to(tiny_spm)
    d = b.daemon()
    first = ask(b, None)
    assert first != want[0] and users(b, "s") == [DOC, "and then?"]
    assert b.ask("-S", "s", "hello", n=2).usage["prompt"] > 10
    link.unlink()
    link.symlink_to(tiny)
    b.restart(d)
    assert ask(b, None) == want[0]


@pytest.mark.parametrize("what", ["short", "empty", "long", "other bytes", "open to all", "a directory", "a link", "gone"])
def test_secret(home, want, what):
    fill(home)
    f = state(home) / "secret"
    if what in ("short", "empty", "long"):
        f.write_bytes({"short": f.read_bytes()[:-1], "empty": b"", "long": f.read_bytes() + b"x"}[what])
    elif what == "other bytes":
        flip(f, 3)
    elif what == "open to all":
        f.chmod(0o644)
    else:
        f.rename(f.with_name("elsewhere"))
        if what == "a directory":
            f.mkdir()
        elif what == "a link":
            f.symlink_to("elsewhere")
    before = (home.root / "hobd.log").stat().st_size
    d = home.daemon()
    s = home.ask("--ignore-eos", "-S", "s", "and at last?")
    assert s.bits == want[3] and s.cached == 0
    assert ask(home, None) == want[0]
    log = d.log.read_text()[before:]
    if what not in ("other bytes", "gone"):
        assert str(f) in log and "remove it" in log
        assert home.status()["cache"]["disk"] is False
    d = home.restart(d)
    assert ask(home, None) == want[0]


def logs(h):
    return sorted(state(h).glob("*/*.log"))


LOGS = {  # what is left of two turns, and whether it is said
    "torn": (lambda f: f.write_bytes(f.read_bytes()[:-5]), 1, True),
    "garbage behind": (lambda f: f.write_bytes(f.read_bytes() + b"garbage"), 2, True),
    "zeros behind": (lambda f: f.write_bytes(f.read_bytes() + bytes(5000)), 2, True),
    "half a record twice": (lambda f: f.write_bytes(f.read_bytes() + f.read_bytes()[-90:-20]), 2, True),
    "last byte": (lambda f: flip(f, f.stat().st_size - 1), 1, True),
    "middle": (lambda f: flip(f, 200), 0, True),
    "head": (lambda f: flip(f, 2), 0, True),
    "empty": (lambda f: f.write_bytes(b""), 0, True),
    "of 10 bytes": (lambda f: f.write_bytes(f.read_bytes()[:10]), 0, True),
    "the future": (lambda f: os.utime(f, (2**33, 2**33)), 2, False),
    "the past": (lambda f: os.utime(f, (0, 0)), 2, False),
    "a directory": (lambda f: (f.unlink(), f.mkdir()), 0, True),
    "gone": (lambda f: f.unlink(), 0, False),
}


@pytest.mark.parametrize("what", LOGS)
def test_session_logs(home, want, what):
    do, turns, told = LOGS[what]
    d = fill(home)
    (log,) = logs(home)
    d = home.daemon()
    ask(home, "bystander", 0)
    home.hob("stop", check=0)
    d.wait(60)
    do(log)
    before = d.log.stat().st_size
    d = home.daemon()
    assert ask(home, None) == want[0]
    r = home.hob("sessions", "show", "s", "--json")
    left = [m["content"] for m in json.loads(r.out)["messages"] if m["role"] == "user"] if r.returncode == 0 else []
    assert left == [DOC, "and then?"][:turns], r.err
    if told:
        assert str(state(home)) in d.log.read_text()[before:] or r.returncode == 1
    if what != "a directory":
        for i in range(turns, 3):
            assert ask(home, "s", i).bits == want[1 + i]
    else:
        r = home.hob("-S", "s", "-n", "2", "hello")
        assert r.returncode == 1 and "could not be saved" in r.err
    assert ask(home, "bystander", 1).bits == want[2]
    d = home.restart(d)
    assert users(home, "bystander") == [DOC, "and then?"]
    if what != "a directory":
        assert users(home, "s") == [DOC, "and then?", "and at last?"]


def test_session_logs_swapped(home):
    d = home.daemon()
    for name in "ab":
        home.ask("-S", name, f"I am {name}", n=2)
    home.hob("stop", check=0)
    d.wait(60)
    swap(*logs(home))
    d = home.daemon()
    for name in "ab":  # never the other's words
        r = home.hob("sessions", "show", name)
        assert r.returncode == 1 and "no session" in r.err
        home.ask("-S", name, f"I am {name} again", n=2)
        assert users(home, name) == [f"I am {name} again"]
    assert "damaged" in d.log.read_text()


def test_clock_goes_back(home):
    """All there is was made in the future: the order of use stays, nothing expires, blocks are found."""
    d = home.daemon()
    for i, name in enumerate(["x", "y", "z", "y"]):
        home.ask("-S", name, f"{i} " + DOC, n=2)
    home.hob("stop", check=0)
    d.wait(60)
    later = time.time() + 10 * 365 * 86400
    for top in ("state", "cache"):
        for p in (home.root / top).rglob("*"):
            os.utime(p, (later, later))
    d = home.daemon("--session-ttl", "1h")
    assert [s["name"] for s in home.client().sessions()] == ["y", "z", "x"]
    found = home.ask("-c", "more", n=2)
    assert found.done["session"] == "y" and found.cached > 100
    d = home.restart(d, "--session-ttl", "1h")
    assert [s["name"] for s in home.client().sessions()] == ["y", "z", "x"]


# --- kill -9 ---

class Life:
    """Turns without end over daemons that are killed; what was not acknowledged is asked again under its UUID."""

    def __init__(self, home):
        self.home, self.turn, self.open, self.done = home, 0, None, []

    def run(self, p, rng):
        try:
            c = None
            while c is None:
                if p.poll() is not None:
                    return
                try:
                    c = Client(home_socket(self.home))
                except (FileNotFoundError, ConnectionRefusedError):
                    time.sleep(0.001)
            while True:
                if not self.open:
                    self.turn += 1
                    name = f"k{self.turn // 24 * 3 + self.turn % 3}"
                    words = f"{self.turn} words " + "and more " * rng.choice([0, 0, 2, 6])
                    self.open = (name, words, f"uuid-{self.turn}")
                name, words, uuid = self.open
                a = c.answer(words, session=name, uuid=uuid, **KEYS)
                if a.end["event"] == "error" and a.end["code"] == "ESHUTDOWN":
                    return
                assert a.end["event"] == "done", a.end
                self.done.append((name, words, a.text))
                self.open = None
        except (Closed, ConnectionResetError, BrokenPipeError):
            return
        except AssertionError as e:
            self.trouble = e


def home_socket(h):
    return h.root / "k.sock"


def test_killed_200_times(homes, tiny):
    h, rng = homes(), random.Random(9)
    args = ("--kv-bytes", "200K", "--parallel", 2)
    fill(h, *args)
    life = Life(h)
    life.trouble = None
    for i in range(200):
        p = h.daemon(*args, socket=home_socket(h), wait=False)
        t = threading.Thread(target=life.run, args=(p, rng))
        t.start()
        time.sleep(rng.uniform(0.005, 0.06) if i % 10 else 0.2)
        deadline, least = time.monotonic() + 60, 3 * (i // 10 + 1)  # on a busy machine it may not have begun
        while not i % 10 and len(life.done) < least and not life.trouble and time.monotonic() < deadline:
            time.sleep(0.01)
        assert p.poll() is None, p.log.read_text()
        if i % 3 == 0:  # while it writes all it has
            p.send_signal(signal.SIGTERM)
            time.sleep(rng.uniform(0, 0.012))
        p.kill()
        # SIGTERM may come before there is a handler for it.
        assert p.wait(60) in (-signal.SIGKILL, -signal.SIGTERM, 0), p.log.read_text()
        t.join()
        assert life.trouble is None, (i, life.trouble)
    assert len(life.done) > 50 and blocks(h)
    d = h.daemon(*args)
    kept = {}
    for name, words, text in life.done:
        kept.setdefault(name, []).append((words, text))
    fresh = homes()
    fresh.daemon("--cache-bytes", 0)
    c = fresh.client()
    for name, turns in kept.items():
        shown = json.loads(h.hob("sessions", "show", name, "--json", check=0).out)["messages"]
        if life.open and life.open[0] == name and len(shown) > 2 * len(turns):
            assert shown[-2]["content"] == life.open[1]  # it was kept, and nobody heard of it
            shown = shown[:-2]
        assert [m["content"] for m in shown if m["role"] == "user"] == [w for w, _ in turns]
        assert [m["content"] for m in shown if m["role"] == "assistant"] == [t for _, t in turns]
        for words, text in turns:
            last = c.answer(words, session=name, **KEYS)
            assert last.text == text
        # The KV that is left of it all is right, too.
        a, b = (x.answer("and now?", session=name, **KEYS) for x in (h.client(), c))
        assert (a.text, a.ids, a.logprobs) == (b.text, b.ids, b.logprobs) or life.open and life.open[0] == name
    assert not list(state(h).rglob("*.bad*"))
    log = d.log.read_text()
    assert "ssertion" not in log and "Sanitizer" not in log
