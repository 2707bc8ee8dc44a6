# SPDX-License-Identifier: MIT
"""How much of the disk sessions and KV may take: limits of a user, and a small file system that several users share."""
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import HOB, Home, mktiny

A, B = 61001, 61002


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A small model whose context has room for a long text."""
    return mktiny(tmp_path_factory.mktemp("models") / "wide.gguf", "--ctx", 32768, "--layers", 1)


def listed(home):
    return {s["name"]: s for s in json.loads(home.hob("sessions", "list", "--json", check=0).out or "[]")}


# --- a user's limits ---

def test_session_bytes(home, wide):
    big = "words " * 4000
    args = ("-m", wide, "--session-bytes", "1M")
    d = home.daemon(*args)
    home.hob("-S", "kept", "-n", 1, "hello", check=0)
    n = 0
    while (r := home.hob("-S", f"s{n}", "-n", 1, big)).returncode == 0:
        n += 1
        assert n < 20
    assert n >= 3
    for _ in range(2):
        assert r.returncode == 1 and r.out == "" and r.err.count("\n") == 1, r.err
        for part in ("the limit of a user is 1M (session-bytes)", "sessions take", "hob sessions rm NAME"):
            assert part in r.err, r.err
        before = home.status()["own"]
        assert before["sessions"] == n + 1 and 700 << 10 < before["sessions_bytes"] <= 1 << 20
        assert before["sessions_max_bytes"] == 1 << 20
        d = home.restart(d, *args)
        assert home.status()["own"] == before
        r = home.hob("-S", "kept", "-n", 1, big)
    home.hob("sessions", "rm", "s0", "s1", check=0)
    home.hob("-S", "kept", "-n", 1, "hello", check=0)


def test_session_count(home):
    d = home.daemon("--session-count", 3)
    for i in range(3):
        home.ask("-S", f"s{i}", "hello", n=2)
    for _ in range(2):
        for r in (home.hob("-S", "s3", "hello"), home.hob("sessions", "fork", "s0", "s3"), home.hob("-S", "s0", "--fork", "s3", "hello")):
            assert r.returncode == 1 and "the limit is 3 (session-count)" in r.err and r.err.count("\n") == 1, r.err
        d = home.restart(d, "--session-count", 3)
    home.ask("-S", "s0", "more", n=2)
    home.hob("sessions", "rename", "s0", "s3", check=0)
    assert sorted(listed(home)) == ["s1", "s2", "s3"]


# --- forks ---

def disk(home):
    """Bytes of all sessions' files, each counted once."""
    files = {(st := p.stat()).st_ino: st.st_blocks * 512 for p in (home.root / "state").rglob("*") if p.is_file()}
    return sum(files.values())


def test_forks_take_little(home, wide):
    d = home.daemon("-m", wide)
    home.hob("-S", "parent", "-n", 4, "--ignore-eos", "words " * 7000, check=0)
    before = disk(home)
    assert before > 80000
    for i in range(150):
        home.hob("sessions", "fork", "parent", f"f{i}", check=0)
    assert disk(home) - before < 1 << 20
    for i in range(3):
        home.hob("-S", "parent", "--fork", f"turn{i}", "-n", 4, "--ignore-eos", f"and {i}?", check=0)
    assert disk(home) - before < 1 << 20
    home.hob("-S", "parent", "-n", 4, "--ignore-eos", "more", check=0)
    home.hob("sessions", "rename", "parent", "other", check=0)
    home.hob("sessions", "rm", "other", check=0)
    d = home.restart(d, "-m", wide)
    assert home.status()["own"]["sessions_bytes"] >= before
    for name, more in (("f0", []), ("f149", []), ("turn2", ["and 2?"])):
        shown = json.loads(home.hob("sessions", "show", name, "--json", check=0).out)
        assert [m["content"] for m in shown["messages"] if m["role"] == "user"] == ["words " * 7000, *more]
    home.hob("sessions", "rm", *listed(home), check=0)
    assert disk(home) < 64 << 10 and home.status()["own"]["sessions_bytes"] == 0
    assert d.poll() is None


# --- a file system that users share ---

class Small:
    """A daemon whose state and cache are on a file system of 64 MB, and clients of any uid."""

    def __init__(self, model, *args):
        self.root = Path(tempfile.mkdtemp(prefix="hob-room-"))
        self.root.chmod(0o755)
        self.disk = self.root / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "none", self.disk], check=True)
        self.home = Home(self.root, model)
        self.home.env.update(XDG_STATE_HOME=str(self.disk / "state"), XDG_CACHE_HOME=str(self.disk / "cache"))
        self.hob = self.root / "hob"
        shutil.copy(HOB, self.hob)
        self.hob.chmod(0o755)
        self.d = self.home.daemon("--packed-file", "no", *args, socket=self.root / "sock")
        self.d.path.chmod(0o666)

    def run_as(self, uid, *args, input=b""):
        env = {"PATH": os.environ["PATH"], "HOB_SOCKET": str(self.d.path), "HOME": "/", "LC_ALL": "C.UTF-8"}
        r = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", str(self.hob), *map(str, args)],
                           input=input, env=env, capture_output=True, timeout=120)
        r.out, r.err = r.stdout.decode(), r.stderr.decode()
        return r

    def free(self):
        fs = os.statvfs(self.disk)
        return fs.f_bavail * fs.f_frsize

    def blocks(self):
        return list(self.disk.rglob("*.kv"))

    def close(self):
        self.home.env["HOB_SOCKET"] = str(self.d.path)
        self.home.stop()
        subprocess.run(["umount", "-l", self.disk], check=True)
        shutil.rmtree(self.root)


@pytest.fixture
def small(wide):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system and to become other users")
    made = []

    def make(*args):
        made.append(Small(wide, *args))
        return made[-1]

    yield make
    for s in made:
        s.close()


def another_user_works(s):
    """A new session and one more turn in it, which the session then has."""
    for text in ("hello", "and then?"):
        r = s.run_as(B, "-S", "mine", "-n", 4, "--ignore-eos", text)
        assert r.returncode == 0 and r.out, r.err
    shown = json.loads(s.run_as(B, "sessions", "show", "mine", "--json").out)
    assert [m["content"] for m in shown["messages"] if m["role"] == "user"] == ["hello", "and then?"]


def test_one_user_fills_the_disk_with_sessions(small):
    s = small()
    text = ("some words that are long enough, " * 1000).encode()
    for n in range(2000):
        r = s.run_as(A, "-S", f"s{n}", "-n", 1, "--ignore-eos", input=text)
        if r.returncode:
            break
    assert r.returncode == 1 and n > 50, r.err
    assert "a user may take only as much as stays free for others" in r.err and "hob sessions rm NAME" in r.err, r.err
    assert s.free() > 24 << 20
    # Forks and longer conversations do not get further.
    for i in range(20):
        s.run_as(A, "sessions", "fork", "s0", f"f{i}")
        s.run_as(A, "-S", f"s{i}", "-n", 1, "--ignore-eos", input=text)
    assert s.free() > 20 << 20
    another_user_works(s)
    # And there is a way out.
    assert s.run_as(A, "sessions", "rm", *[f"s{i}" for i in range(n // 2)]).returncode == 0
    assert s.run_as(A, "-S", "new", "-n", 1, "--ignore-eos", input=text).returncode == 0


def test_one_user_fills_the_disk_with_kv(small):
    """What prompts leave on disk is a tenth of what is free; and it goes when others need the room."""
    s = small("--cache-bytes", "1G")
    reserve = (64 << 20) // 20 - (64 << 10)  # files take whole pages
    for n in range(40):
        r = s.run_as(A, "-n", 1, "--ignore-eos", input=f"{n}. ".encode() * 4000)
        assert r.returncode == 0, r.err
    deadline = time.monotonic() + 60
    while len(s.blocks()) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert s.free() > 54 << 20
    another_user_works(s)
    assert s.blocks()
    # Somebody who is not hobd takes the rest, and half of what blocks may leave.
    kept = sum(p.stat().st_blocks * 512 for p in s.blocks())
    with open(s.disk / "ballast", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, s.free() + kept // 2 - reserve if s.free() > reserve else 4096)
    deadline = time.monotonic() + 60
    while s.free() < reserve and s.blocks():
        assert time.monotonic() < deadline, (s.free(), len(s.blocks()))
        s.run_as(B, "-n", 1, "hello")
        time.sleep(0.1)
    assert s.free() >= reserve
    # Nothing more is written, though there is something to write.
    s.run_as(A, "-n", 1, "--ignore-eos", input=b"something else " * 2000)
    time.sleep(2)
    assert s.free() >= reserve
    # With nothing left above the reserve a turn fails before it begins, and existing sessions can be read.
    with open(s.disk / "ballast", "ab") as f:
        os.posix_fallocate(f.fileno(), 0, os.fstat(f.fileno()).st_size + s.free() - (2 << 20))
    r = s.run_as(B, "-S", "mine", "-n", 4, "once more")
    assert r.returncode == 1 and r.out == "" and "(disk-reserve)" in r.err and r.err.count("\n") == 1, r.err
    assert "hello" in s.run_as(B, "sessions", "show", "mine").out
    os.unlink(s.disk / "ballast")
    assert s.run_as(B, "-S", "mine", "-n", 4, "--ignore-eos", "once more").returncode == 0
