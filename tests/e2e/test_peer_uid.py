# SPDX-License-Identifier: MIT
"""Without keys: the uid at the other end of a connection is the user."""
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest
from conftest import Home
from hobproto import Client
from httpgate import DONE, HOB_HTTP, Gateway

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

ADA, BOB = 30111, 30112
# Send a request as a user: UID, how it ends, and the address follow.
CODE = """if True:
    import os, socket, sys
    os.setuid(int(sys.argv[1]))
    if sys.argv[3].isdigit():
        s = socket.create_connection((sys.argv[4], int(sys.argv[3])), timeout=60)
    else:
        s = socket.socket(socket.AF_UNIX)
        s.connect(sys.argv[3])
    s.sendall(sys.stdin.buffer.read())
    if sys.argv[2] == "close":
        sys.exit()
    if sys.argv[2] == "half":
        s.shutdown(socket.SHUT_WR)
    while piece := s.recv(65536):
        sys.stdout.buffer.write(piece)"""


def request(text="Once upon a time", path="/v1/chat/completions", **more):
    body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, **more}).encode()
    return b"POST %b HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


def send(uid, port, data, how="whole", host="127.0.0.1"):
    """What the server sends to the user @uid."""
    r = subprocess.run(["/usr/bin/python3", "-c", CODE, str(uid), how, str(port), host], input=data, capture_output=True, timeout=120)
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout


def ask(uid, port, *args, host="127.0.0.1", **more):
    head, _, body = send(uid, port, request(*args, **more), host=host).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


class Served:
    """The call that a request of @uid makes."""

    def __init__(self, fake, uid, port, **more):
        self.t = threading.Thread(target=lambda: setattr(self, "reply", ask(uid, port, **more)))
        self.t.start()
        self.call = fake.call()
        self.user = self.call.hello.get("user")
        self.call.event("text", text="x")
        self.call.event("done", **DONE)
        self.t.join()
        assert self.reply[0] == 200, self.reply


def passed(home, fds, *wrap, sockets=()):
    """hob-http with the descriptors @fds of the service manager; its log lines."""
    argv = ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS={len(fds)} exec "$@"', "sh", *wrap, HOB_HTTP]
    for path in sockets:
        argv += ["--socket", path]
    first = [duplicate(fd) for fd in fds]

    def place():
        for i, fd in enumerate(first):
            os.dup2(fd, 3 + i)

    return home.popen(argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=place, pass_fds=range(3, 3 + len(fds)))


def duplicate(fd):
    """A descriptor that dup2 to a low number does not overwrite."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)


def test_two_uids_share_no_cache(shared, gateway):
    text = "the words of one prompt for two users that are longer than a block of the cache, " * 2

    def cached(uid):
        status, answer = ask(uid, gateway.port, text)
        assert status == 200, answer
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(ADA) == 0 and cached(ADA) > 32
    assert cached(BOB) == 0 and cached(BOB) > 32


def test_two_uids_share_no_sessions(shared, gateway):
    for uid in (ADA, BOB, 0):
        assert ask(uid, gateway.port, f"I am {uid}", session="one-name")[0] == 200
    for user, uid in ((f"uid.{ADA}", ADA), (f"uid.{BOB}", BOB), (None, 0)):
        with Client(shared.socket, **({"user": user} if user else {})) as c:
            assert c.session("one-name")["messages"][0]["content"] == f"I am {uid}"
            assert c.ask("session.remove", name="one-name")["event"] == "ok"


def test_another_uid_sees_no_more_of_the_status_than_a_key(gateway):
    def status(uid):
        return set(json.loads(send(uid, gateway.port, b"GET /hob/status HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")[2]))

    assert "uids" in status(0) and "queue" in status(ADA) and not {"uids", "peers"} & status(ADA)


def test_the_own_uid_needs_no_name(fake):
    assert Served(fake, 0, fake.gateway.port).user is None
    assert Served(fake, ADA, fake.gateway.port).user == f"uid.{ADA}"


def test_ipv6(fake):
    port = Gateway(fake.home, ipv6=True).port_v6
    assert Served(fake, BOB, port, host="::1").user == f"uid.{BOB}"
    assert Served(fake, 0, port, host="::1").user is None


def test_a_uid_behind_a_mapped_address(fake):
    """The client's socket is of IPv6, its connection is not."""
    assert Served(fake, BOB, fake.gateway.port, host="::ffff:127.0.0.1").user == f"uid.{BOB}"


@pytest.mark.parametrize("how", ["half", "close"])
def test_a_connection_without_an_owner_is_nobodys(fake, how):
    """The kernel reports uid 0 for a socket that its process has closed."""
    p = fake.gateway.p
    p.send_signal(signal.SIGSTOP)
    out = []
    t = threading.Thread(target=lambda: out.append(send(ADA, fake.gateway.port, request("from nobody"), how)))
    t.start()
    if how == "close":
        t.join()
    else:
        wait_half_closed(fake.gateway.port)
    p.send_signal(signal.SIGCONT)
    t.join()
    assert not out[0] or b" 403 " in out[0].split(b"\r\n")[0], out
    # The first call that reaches the daemon is of the next request.
    s = Served(fake, 0, fake.gateway.port, text="from root")
    assert s.call.request["messages"][0]["content"] == "from root"


def wait_half_closed(port):
    """Until the server's end of a connection is in CLOSE-WAIT."""
    end = f"0100007F:{port:04X}"
    while not any(row.split()[1] == end and row.split()[3] == "08" for row in open("/proc/net/tcp").readlines()[1:]):
        pass


def test_nobody_is_no_user(fake):
    """A uid that a namespace does not have looks like 65534."""
    status, e = ask(65534, fake.gateway.port)
    assert status == 403 and "not known" in e["error"]["message"]
    assert send(65534, fake.gateway.port, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_daemon_that_lets_nobody_name_users(fake):
    """Nobody becomes the gateway's own user."""
    reply = []
    t = threading.Thread(target=lambda: reply.append(ask(ADA, fake.gateway.port, "x" * 300000)))
    t.start()
    assert fake.refuse("EPERM", "uid 5 may not name users")["user"] == f"uid.{ADA}"
    t.join()
    assert reply[0][0] == 403 and "may not name users" in reply[0][1]["error"]["message"], reply


def test_uids_of_namespaces_need_keys(fake):
    """One person can have thousands of them."""
    status, e = ask(100000, fake.gateway.port)
    assert status == 403 and "uid 100000 is above 59999" in e["error"]["message"]


def test_another_refusal_is_final(fake):
    reply = []
    t = threading.Thread(target=lambda: reply.append(ask(ADA, fake.gateway.port)))
    t.start()
    fake.refuse("EBUSY", "too many connections")
    t.join()
    assert reply[0][0] == 429, reply


def test_a_key_is_not_named_like_a_uid(tmp_path):
    r = subprocess.run([HOB_HTTP, "key", "add", "uid.1000"], env=Home(tmp_path).env, capture_output=True, text=True)
    assert r.returncode == 1 and "is not a name of a key" in r.stderr, r.stderr


def test_a_unix_socket(fake, tmp_path):
    os.chmod(tmp_path, 0o711)
    with socket.socket(socket.AF_UNIX) as s:
        name = "\0hob-test-" + os.urandom(8).hex()
        s.bind(name)
        s.listen()
        p = passed(fake.home, [s.fileno()], sockets=[fake.path])
        assert p.stderr.readline() == b"hob-http: listening on a Unix socket\n"

        def user(uid):
            code = CODE.replace("sys.argv[3])", "'\\0' + sys.argv[3])")
            client = subprocess.Popen(["/usr/bin/python3", "-c", code, str(uid), "whole", name[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            client.stdin.write(request())
            client.stdin.close()
            call = fake.call()
            call.event("text", text="x")
            call.event("done", **DONE)
            assert client.stdout.read().startswith(b"HTTP/1.1 200")
            client.wait()
            return call.hello.get("user")

        assert user(ADA) == f"uid.{ADA}" and user(0) is None


@pytest.mark.parametrize("with_netlink", [True, False])
def test_a_network_of_its_own(fake, with_netlink):
    """As with PrivateNetwork=: the listening socket is of another network, where only a netlink socket of that network sees owners."""
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        pytest.skip("no network namespaces here")
    with socket.socket() as s, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as n:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        p = passed(fake.home, [s.fileno(), n.fileno()][: 1 + with_netlink], shutil.which("unshare"), "--net", sockets=[fake.path])
        assert b"listening" in p.stderr.readline()
        if with_netlink:
            assert Served(fake, ADA, port).user == f"uid.{ADA}"
        else:
            status, e = ask(ADA, port)
            assert status == 403 and "use a key" in e["error"]["message"]
        p.send_signal(signal.SIGTERM)
        log = p.stderr.read().decode()
        assert ("need keys" in log) == (not with_netlink), log
