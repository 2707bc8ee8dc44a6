# SPDX-License-Identifier: MIT
"""What a desk does to a client: no home, odd terminals, inputs without an end or of the wrong kind, strange sockets."""
import os
import pty
import select
import socket
import struct
import subprocess
import threading

import msgpack
import pytest
from conftest import HOB


def one_line(r, status, *parts):
    assert r.returncode == status and r.err.count("\n") == 1 and not r.out, (r.returncode, r.out, r.err)
    for part in parts:
        assert part in r.err, r.err


def answers_at(path):
    """Does a daemon listen there? README's first command leaves one running."""
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) == 0


def test_no_home_and_no_runtime_directory(home):
    for path in (f"/tmp/hob-{os.getuid()}/default.sock", f"/run/user/{os.getuid()}/hob/default.sock", "/run/hob/default.sock"):
        if answers_at(path):
            pytest.skip(f"this user's own daemon answers at {path}")
    home.env = {"PATH": os.environ["PATH"]}
    one_line(home.hob("hi"), 69, "HOME")
    one_line(home.hob("status"), 69, "no daemon")


def test_a_home_that_cannot_be_written(home, tmp_path):
    """A daemon can be started all the same; and if it cannot, its reason is told."""
    home.env.update(HOME="/proc", XDG_STATE_HOME="/proc/state", XDG_CACHE_HOME="/proc/cache", XDG_CONFIG_HOME="/proc/config")
    r = home.hob("-n", 3, "--ignore-eos", "hi", check=0)
    assert r.out and r.err.startswith("hob: cannot write the daemon's log: cannot make /proc/state: ")
    assert home.hob("-q", "-n", 3, "-S", "s", "hi", check=0).err == ""
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 40)
    r = home.hob("-q", "-m", tmp_path / "broken.gguf", "hi")
    assert r.returncode in (1, 69) and r.err.count("\n") == 1 and "broken.gguf" in r.err
    home.hob("stop", check=0)


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "TERM": "dumb"}, {"LC_ALL": "C.UTF-8", "TERM": ""}, {"LC_ALL": "xx_YY"}])
def test_the_locale_changes_nothing(shared, env):
    args = ["-q", "-n", 8, "--temp", 0, "grüße €"]
    assert shared.hob(*args, check=0, env=env).out == shared.hob(*args, check=0).out


@pytest.mark.parametrize("args", [["-n", 3, "hi"], ["--jsonl", "-n", 3, "hi"], ["status"], ["--help"], ["--version"]])
def test_standard_output_closed_or_full(shared, args):
    with open("/dev/full", "wb") as full:
        for out, part in ((full, "No space left"), (None, "Bad file descriptor")):
            r = subprocess.run([HOB, *map(str, args)], env=shared.env, stdin=subprocess.DEVNULL, stdout=out, timeout=60,
                               stderr=subprocess.PIPE, preexec_fn=None if out else lambda: os.close(1))
            assert r.returncode == 1 and part in r.stderr.decode(), r


@pytest.mark.parametrize("fds", [(0,), (2,), (0, 1, 2)])
def test_other_streams_closed(shared, fds):
    def close():
        for fd in fds:
            os.close(fd)
    r = subprocess.run([HOB, "-v", "-n", "3", "hi"], env=shared.env, stdout=subprocess.PIPE, preexec_fn=close, timeout=60)
    assert r.returncode == (1 if 1 in fds else 0)


def test_ten_megabytes_say_how_many_tokens_fit(shared):
    one_line(shared.hob("sum up", input=b"a line\n" * 1_500_000), 1, "the prompt is 105", "512 tokens")


def test_binary_and_directories(shared):
    one_line(shared.hob("what", input=HOB.read_bytes()), 1, "standard input: invalid UTF-8 at byte")
    one_line(shared.hob("-f", shared.root, "what"), 1, "Is a directory")
    assert shared.hob("-q", "-n", 3, "x", input=b"a\0b", check=0).out


def test_a_path_that_is_too_long(home):
    for length in (107, 108, 300):
        path = "/tmp/" + "x" * (length - 5)
        r = home.hob("hi", env={"HOB_SOCKET": path})
        one_line(r, 69, "no daemon at" if length == 107 else f"has {length} bytes, the limit is 107")


def on_terminal(home, argv, until, feed=None):
    """What stands on a terminal that is standard error, until it has @until; standard input stays open."""
    master, slave = pty.openpty()
    keep, feed_end = os.pipe() if feed is not None else (None, None)
    p = home.popen([HOB, *argv], stdin=keep if feed is not None else slave, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    out = b""
    if feed:
        os.write(feed_end, feed)
    while until not in out:
        assert select.select([master], [], [], 60)[0], out
        out += os.read(master, 4096)
    if feed is None:
        os.write(master, b"hi\n\x04")
    else:
        os.close(keep)
        os.close(feed_end)
    assert p.wait(60) in (0, 1)
    os.close(master)


def test_a_hint_for_an_input_that_never_closes(shared):
    on_terminal(shared, ["-n", "3", "x"], b"end of standard input; see --no-stdin", feed=b"")
    on_terminal(shared, ["-n", "3", "x"], b"end of standard input; see --no-stdin", feed=b"some")
    on_terminal(shared, ["infill", "--prefix-file", "-"], b"end of standard input (Ctrl-D ends it)")


class Impostor:
    """Answers every connection with the same bytes."""

    def __init__(self, path, body):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.bind(str(path))
        self.s.listen(8)
        threading.Thread(target=self.serve, args=[body], daemon=True).start()

    def serve(self, body):
        while True:
            c, _ = self.s.accept()
            c.sendall(body)
            while c.recv(65536):
                pass
            c.close()


def frame(message):
    body = msgpack.packb(message)
    return struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("message", [
    {"event": "hello", "version": 9, "features": [], "software": "hobd 9"},
    {"event": "error", "id": 0, "code": "EPROTO", "message": "protocol version 1 is not supported, only 9"}])
def test_a_daemon_of_another_version(home, message):
    path = home.root / "impostor"
    Impostor(path, frame(message))
    for args in (["hi"], ["status"], ["sessions"], ["stop"], ["infill", "--at", "0"]):
        one_line(home.hob(*args, input=b"x", env={"HOB_SOCKET": str(path)}), 1, "different protocol versions", "restart the daemon", "9")


def test_a_socket_of_another_user(home):
    if os.geteuid() != 0:
        pytest.skip("not root")
    home.socket.parent.mkdir(mode=0o700)
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(home.socket))
    os.seteuid(65534)
    try:
        s.listen(8)
    finally:
        os.seteuid(0)
    s.settimeout(0.2)
    one_line(home.hob("secret", input=b"more"), 69, "another user (uid 65534)", "HOB_SOCKET")
    one_line(home.hob("status"), 69, "belongs to another user")
    got = b""
    for _ in range(2):
        c, _ = s.accept()
        got += c.recv(65536)
    assert got == b""
