# SPDX-License-Identifier: MIT
"""Images and sounds on their way into the daemon: parts of messages, descriptors, and peers that send neither right. (What becomes of them: test_images.py.)"""
import array
import fcntl
import json
import os
import socket
import struct
import threading
import time

import msgpack
import pytest
from hobproto import Closed
from test_chat import Chat

F_ADD_SEALS, SEAL_SHRINK, SEAL_GROW, SEAL_WRITE = 1033, 2, 4, 8
NO_ENCODER = "the model has no encoder of images and sounds"
FILE = b"\x89PNG" + bytes(100000)
TEXT = {"type": "text", "text": "what?"}


def memfd(data=FILE, seals=SEAL_WRITE | SEAL_SHRINK):
    fd = os.memfd_create("image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def frame(**message):
    body = msgpack.packb(message, use_bin_type=True)
    return struct.pack("<I", len(body)) + body


def asks(number, *parts, **more):
    return frame(type="generate", id=number, messages=[{"role": "user", "content": list(parts)}], max_tokens=1, **more)


def send(c, data, *fds):
    """@data with copies of @fds, which are closed here."""
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    n = c.s.sendmsg([data], control)
    if n < len(data):
        c.s.sendall(data[n:])
    for fd in set(fds):
        os.close(fd)


def end(c, number):
    return list(c.events(number))[-1]


@pytest.fixture
def count(shared):
    """The descriptors of the daemon, which are as many after the test as before."""
    with shared.client() as watcher:
        def settled(done):
            deadline = time.monotonic() + 60
            while not done() and time.monotonic() < deadline:
                time.sleep(0.01)
            return done()

        def alone():
            return json.loads(watcher.ask("status")["status"])["clients"]["connections"] == 1

        def now():
            return len(os.listdir(where))

        where = f"/proc/{json.loads(watcher.ask('status')['status'])['pid']}/fd"
        assert settled(alone)
        before = now()  # sockets of earlier tests may still be there
        yield now
        assert settled(alone) and settled(lambda: now() <= before), (before, now())


def test_parts_reach_the_model(shared):
    with shared.client() as c:
        assert "media" in c.hello["features"]
        for part in [{"type": "image", "data": FILE}, {"type": "audio", "data": b"RIFF"}]:
            send(c, asks(7, part, TEXT))
            e = end(c, 7)
            assert e["code"] == "EOPNOTSUPP" and NO_ENCODER in e["message"], e
        send(c, asks(8, {"type": "image", "fd": 0}, TEXT, {"type": "image", "fd": 1}, fds=2), memfd(), memfd())
        assert end(c, 8)["code"] == "EOPNOTSUPP"
        assert c.answer("hello", max_tokens=1).end["event"] == "done"


def test_pieces_with_descriptors(shared, count):
    """Descriptors in one go, or each with a byte of its own; the rest of the message comes later."""
    with shared.client() as c:
        data = asks(3, {"type": "image", "fd": 0}, {"type": "audio", "fd": 2}, {"type": "image", "fd": 1}, fds=3)
        send(c, data[:1], memfd(), memfd())
        send(c, data[1:5])
        send(c, data[5:6], memfd())
        send(c, data[6:])
        assert end(c, 3)["code"] == "EOPNOTSUPP"
        # Two messages at once, whose descriptors come together.
        two = asks(4, {"type": "image", "fd": 0}, fds=1) + asks(5, {"type": "image", "fd": 0}, fds=1)
        send(c, two, memfd(), memfd(b"x"))
        assert {e["id"]: e["code"] for e in c.events(4, 5)} == {4: "EOPNOTSUPP", 5: "EOPNOTSUPP"}


@pytest.mark.parametrize("seals,data,says", [(0, FILE, "not a memfd that is sealed"), (SEAL_WRITE | SEAL_GROW, FILE, "not a memfd that is sealed"),
                                             (SEAL_WRITE | SEAL_SHRINK, b"", "the file is empty")])
def test_memfds_that_are_refused(shared, count, seals, data, says):
    with shared.client() as c:
        send(c, asks(3, TEXT, {"type": "image", "fd": 0}, fds=1), memfd(data, seals))
        e = end(c, 3)
        assert e["code"] == "EINVAL" and "fds: descriptor 0" in e["message"] and says in e["message"], e
        assert c.answer("hello", max_tokens=1).end["event"] == "done"


def test_a_file_over_the_limit(shared, count):
    fd = os.memfd_create("large", os.MFD_ALLOW_SEALING)
    os.truncate(fd, (512 << 20) + 1)
    fcntl.fcntl(fd, F_ADD_SEALS, SEAL_WRITE | SEAL_SHRINK)
    with shared.client() as c:
        send(c, asks(3, TEXT, {"type": "image", "fd": 0}, fds=1), fd)
        assert end(c, 3)["code"] == "EFBIG"


def test_files_count_for_the_memory_of_the_user(shared, count):
    """A file that can never be sent names its size and the limit: to try again would be no use."""
    with shared.client() as c:
        fd = os.memfd_create("large", os.MFD_ALLOW_SEALING)
        os.posix_fallocate(fd, 0, (256 << 20) + 1)
        fcntl.fcntl(fd, F_ADD_SEALS, SEAL_WRITE | SEAL_SHRINK)
        send(c, asks(3, TEXT, {"type": "image", "fd": 0}, fds=1), fd)
        e = c.recv()
        assert (e["event"], e["id"], e["code"]) == ("error", 0, "EDQUOT"), e
        assert "needs 257 MiB; the limit is " in e["message"] and "try again" not in e["message"], e


def test_sparse_files_are_refused(shared, count):
    fd = os.memfd_create("sparse", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 1 << 20)
    fcntl.fcntl(fd, F_ADD_SEALS, SEAL_WRITE | SEAL_SHRINK)
    with shared.client() as c:
        send(c, asks(3, TEXT, {"type": "image", "fd": 0}, fds=1), fd)
        e = end(c, 3)
        assert e["code"] == "EINVAL" and "the file is sparse" in e["message"], e


@pytest.mark.parametrize("make", [lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: socket.socket().detach(), lambda: os.pipe2(os.O_CLOEXEC)[1],
                                  lambda: os.open("/", os.O_RDONLY), lambda: os.open("/proc/self/mem", os.O_RDONLY)])
def test_descriptors_of_other_kinds(shared, count, make):
    with shared.client() as c:
        send(c, asks(3, {"type": "image", "fd": 0}, fds=1), make())
        e = end(c, 3)
        assert e["code"] == "EINVAL" and "not a memfd" in e["message"], e


def test_fewer_than_announced(shared, count):
    with shared.client() as c:
        send(c, asks(3, {"type": "image", "fd": 1}, {"type": "image", "fd": 0}, fds=2), memfd())
        e = end(c, 3)
        assert e["code"] == "EBADF" and "2 descriptors are announced, but 1 came" in e["message"], e
        send(c, asks(4, TEXT, {"type": "image", "fd": 0}, fds=1))
        assert end(c, 4)["code"] == "EBADF"
        send(c, asks(5, TEXT, fds=1), memfd())
        e = end(c, 5)
        assert e["code"] == "EINVAL" and "no part names descriptor 0" in e["message"], e
        assert c.answer("hello", max_tokens=1).end["event"] == "done"


def test_descriptors_without_a_message(shared, count):
    before = count()
    with shared.client() as c:
        send(c, frame(type="status", id=1), *[memfd() for _ in range(100)])
        assert end(c, 1)["event"] == "status" and count() == before + 1
        send(c, frame(type="status", id=2, fds=1), memfd())  # not a key of this message
        assert end(c, 2)["code"] == "EINVAL" and count() == before + 1
        # The next message has its own, not those that came before it.
        send(c, asks(3, {"type": "image", "fd": 0}, fds=1))
        assert end(c, 3)["code"] == "EBADF"
        send(c, frame(type="status", id=4)[:7], *[memfd() for _ in range(128)])  # it never ends


@pytest.mark.parametrize("first,second", [(253, 0), (128, 1), (65, 64)])
def test_too_many_descriptors(shared, count, first, second):
    with shared.client() as c:
        fd = memfd()
        send(c, b"\xff", *[fd] * first)
        if second:
            fd = memfd()
            try:
                send(c, b"\0", *[fd] * second)
            except OSError:
                pass
        e = c.recv()
        assert (e["event"], e["id"], e["code"]) == ("error", 0, "EPROTO") and "128 descriptors" in e["message"], e
        with pytest.raises((Closed, ConnectionResetError)):
            c.recv()


def test_descriptors_before_hello_and_of_peers_that_vanish(shared, count):
    for data in [b"", frame(type="hello", version=1), frame(type="hello", version=9), asks(1, TEXT, fds=3), b"\xff\xff\xff\xff", frame(type="hello", version=1, fds=3)]:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(str(shared.socket))
        fd = memfd()
        s.sendmsg([data + b"\x10"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd, fd, fd]))])
        os.close(fd)
        s.close()
    with shared.client() as c:
        assert c.answer("hello", max_tokens=1).end["event"] == "done"


# --- hob ---


def test_hob_sends_files(shared, tmp_path):
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    small.write_bytes(FILE[:100])
    large.write_bytes(FILE)
    for args in [("-a", small), ("--image", large, "--audio", small), ("-a", large, "-a", large)]:
        r = shared.hob(*args, "what?", check=1)
        assert NO_ENCODER in r.err, r.err
    assert NO_ENCODER in shared.hob("-a", "-", "what?", input=FILE, check=1).err


def test_hob_names_the_file(shared, tmp_path):
    empty = tmp_path / "empty.png"
    empty.touch()
    missing = tmp_path / "none.png"
    assert f"{missing}: No such file" in shared.hob("-a", missing, "x").err
    assert f"{empty}: the file is empty" in shared.hob("--audio", empty, "x").err
    assert "standard input: the file is empty" in shared.hob("-a", "-", "x", input=b"").err
    assert f"{tmp_path}: Is a directory" in shared.hob("-a", tmp_path, "x").err
    r = shared.hob("chat", input=f"/image {missing}\n".encode())
    assert r.returncode and f"/image: {missing}: No such file" in r.err, r.err


def test_chat_attaches(shared, tmp_path):
    file = tmp_path / "f.png"
    file.write_bytes(FILE)
    r = shared.hob("chat", input=f"/image\n/image {file}\n/audio {file}\n/image\nwhat?\n".encode())
    assert r.returncode and NO_ENCODER in r.err, r.err
    assert "no images and sounds" in r.err and f"image: {file} ({len(FILE)} bytes)" in r.err and f"audio: {file} ({len(FILE)} bytes)" in r.err, r.err
    r = shared.hob("chat", input=b"/image ~/f.png\n/image\n/audio none\n/image\n", env={"HOME": str(tmp_path)}, check=0)
    assert f"image: {file} ({len(FILE)} bytes)" in r.err and "no images and sounds" in r.err, r.err


def test_chat_keeps_what_got_no_answer(shared, tmp_path):
    file = tmp_path / "f.png"
    file.write_bytes(FILE)
    c = Chat(shared, columns=200)
    c.say(f"/image {file}")
    for _ in range(2):
        said = c.say("what?")
        assert NO_ENCODER in said and "the next message has the images" in said, said
    assert f"image: {file} " in c.say("/image")
    c.say("/image none")
    assert "no images and sounds" in c.say("/image")
    said = c.say("hello")
    assert NO_ENCODER not in said and "the next message" not in said, said
    assert c.end() == 0


def forward(listener, path):
    """Forwards bytes, as ssh does: descriptors are lost."""
    def copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    while True:
        try:
            a, _ = listener.accept()
        except OSError:
            return
        b = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        b.connect(str(path))
        for x, y in [(a, b), (b, a)]:
            threading.Thread(target=copy, args=(x, y), daemon=True).start()


def test_hob_behind_a_forwarder(shared, tmp_path):
    file, path = tmp_path / "f.png", tmp_path / "sock"
    file.write_bytes(FILE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=forward, args=(listener, shared.socket), daemon=True).start()
        r = shared.hob("-a", file, "what?", env={"HOB_SOCKET": str(path)}, check=1)
        assert NO_ENCODER in r.err, r.err
        listener.shutdown(socket.SHUT_RDWR)
