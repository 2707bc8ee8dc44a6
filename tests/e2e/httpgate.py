# SPDX-License-Identifier: MIT
"""A running hob-http, and a client of it that uses nothing but Python's socket and http.client."""
import http.client
import json
import re
import socket
import subprocess
import threading

import openai_document
import pytest
from conftest import BUILD
from hobproto import Closed, Peer

HOB_HTTP = BUILD / "client" / "hob-http"
JSON = {"Content-Type": "application/json"}
# The begin of a raw request.
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def status(reply):
    """Of a raw reply."""
    assert reply.startswith(b"HTTP/1.1 "), reply
    return int(reply.split()[1])


def needs_ipv6():
    """Skips the test where there is none."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")


def run_http(home, *args):
    return subprocess.run([HOB_HTTP, *map(str, args)], env=home.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


class Reply:
    """An answer; one of OpenAI's API has the form of OpenAI's document."""

    def __init__(self, r, path):
        self.status, self.headers, self.body = r.status, r.headers, r.read()
        if self.headers["Content-Type"] == "application/json" and self.body:
            openai_document.check(json.loads(self.body), path)

    @property
    def json(self):
        assert self.headers["Content-Type"] == "application/json", self.headers
        return json.loads(self.body)

    def error(self, status, says, param=None):
        """An error in OpenAI's form."""
        e = self.json["error"]
        assert self.status == status and says in e["message"] and set(e) == {"message", "type", "param", "code"}, (self.status, e)
        assert param is None or e["param"] == param, e
        return e


class Gateway:
    def __init__(self, home, *args, sockets=None, env=None, ipv6=False, keep=False):
        """@ipv6: also on [::1], self.port_v6. @keep: the caller reads the log, self.p.stderr."""
        if ipv6:
            needs_ipv6()
        argv = [HOB_HTTP, "--listen", "127.0.0.1:0", *(["--listen", "[::1]:0"] if ipv6 else [])]
        for path in [home.socket] if sockets is None else sockets:
            argv += ["--socket", path]
        self.p = home.popen([*argv, *args], env=env or {}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.port = self.told("127.0.0.1")
        if ipv6:
            self.port_v6 = self.told("[::1]")
        if not keep:
            threading.Thread(target=self.p.stderr.read, daemon=True).start()

    def told(self, address):
        """The port at @address, which the next line of the log has."""
        line = self.p.stderr.readline().decode()
        m = re.fullmatch(rf"hob-http: listening on http://{re.escape(address)}:(\d+)\n", line)
        assert m, line + self.p.stderr.read().decode()
        return int(m[1])

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return s

    def http(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None, headers=JSON):
        c = self.http()
        c.request(method, path, body=json.dumps(body) if isinstance(body, (dict, list)) else body, headers=headers)
        r = Reply(c.getresponse(), path)
        c.close()
        return r

    def get(self, path, headers={}):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body, key=None):
        return self.ask("POST", path, body, headers={**JSON, **({"Authorization": f"Bearer {key}"} if key else {})})

    def chat(self, text="Once upon a time", key=None, **more):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0, **more}
        return self.post("/v1/chat/completions", body, key)

    def stream(self, path, body):
        """The events of a stream: pairs of a name (None: without one) and the data."""
        r = self.post(path, {**body, "stream": True})
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", (r.status, r.body)
        return events_of(r.body)

    def raw(self, data):
        """Send bytes; all that comes back until the server closes the connection."""
        with self.connect() as s:
            out = b""
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server has closed it, and its reply may still be read
            try:
                while piece := s.recv(65536):
                    out += piece
            except ConnectionResetError:
                pass  # the server did not read all
            return out


def events_of(body):
    found = []
    for block in body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name = lines[0][7:] if lines[0].startswith("event: ") else None
        assert lines[-1].startswith("data: ") and len(lines) == (2 if name else 1), lines
        data = lines[-1][6:] if lines[-1] == "data: [DONE]" else json.loads(lines[-1][6:])
        openai_document.check(data)
        found.append((name, data))
    return found


class Call(Peer):
    """One connection to a daemon, seen from the daemon."""

    def __init__(self, s):
        self.s, self.buf = s, b""
        s.settimeout(60)
        self.hello = self.recv()
        assert self.hello["type"] == "hello"
        self.send({"event": "hello", "version": 1, "features": [], "software": "fake"})
        self.request = self.recv()

    def event(self, event, **keys):
        self.send({"event": event, "id": self.request["id"], **keys})

    def ended(self):
        """Wait until the other side closes the connection."""
        try:
            return self.recv() is None
        except (Closed, ConnectionResetError):
            return True


class FakeDaemon:
    """Speaks hob-protocol(7) as a test tells it, so that nothing depends on time."""

    def __init__(self, path):
        path.parent.mkdir(exist_ok=True, mode=0o700)
        self.path = path
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.bind(str(path))
        self.s.listen(16)
        self.s.settimeout(60)

    def call(self):
        return Call(self.s.accept()[0])

    def refuse(self, code, message):
        """Refuse the next connection; returns its hello."""
        with self.s.accept()[0] as s:
            p = Peer.__new__(Peer)
            p.s, p.buf = s, b""
            hello = p.recv()
            p.send({"event": "error", "id": 0, "code": code, "message": message})
            return hello

    def close(self):
        self.s.close()
        self.path.unlink(missing_ok=True)


CHAT_PATH = "/v1/chat/completions"
DONE = {"reason": "stop", "usage": {"prompt": 5, "cached": 2, "completion": 1}}


def begin(fake, stream=True, path=CHAT_PATH, **more):
    """Send a request; returns the client's socket and the daemon's end."""
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "stream": stream, **more}).encode()
    s = fake.gateway.connect()
    s.sendall(b"POST %b HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
    return s, fake.call()


def rest(s):
    """The status, the head and the body of the reply."""
    out = b""
    while piece := s.recv(65536):
        out += piece
    head, _, body = out.partition(b"\r\n\r\n")
    if b"application/json" in head:
        openai_document.check(json.loads(body))
    return int(head.split()[1]), head.decode(), body
