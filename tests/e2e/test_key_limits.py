# SPDX-License-Identifier: MIT
"""Limits of keys, and the keys file that is read again. The daemon is a fake, so nothing depends on time: a place that a limit of a minute
has given is free again after a minute."""
import json
import signal
import subprocess
import time

import pytest
from conftest import Home
from httpgate import HOB_HTTP, Gateway, rest

DONE = {"reason": "stop", "usage": {"prompt": 5, "cached": 2, "completion": 9}}  # 12 tokens that are computed


def add(home, path, name):
    return subprocess.run([HOB_HTTP, "--keys", path, "key", "add", name], env=home.env, capture_output=True, text=True).stdout.strip()


class Keyed:
    def __init__(self, fake, root):
        root.mkdir()
        self.fake, self.home, self.path = fake, Home(root), root / "keys"
        self.keys = {name: add(self.home, self.path, name) for name in ("ada", "bob")}
        self.lines = dict(line.split(" = ") for line in self.path.read_text().splitlines())
        self.g = None

    def write(self, **words):
        """A file with these keys, each with its words; the gateway reads it."""
        self.path.write_text("".join(f"{name} = {self.lines[name]} {w}\n" for name, w in words.items()))
        if self.g:
            self.g.p.send_signal(signal.SIGHUP)
            assert "SIGHUP" in self.log()
        else:
            self.g = Gateway(self.home, "--keys", self.path, sockets=[self.fake.path], keep=True)

    def log(self):
        return self.g.p.stderr.readline().decode()

    def begin(self, name, stream=True):
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "stream": stream}).encode()
        s = self.g.connect()
        s.sendall(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
                  % (self.keys[name].encode(), len(body), body))
        return s

    def call(self, name, **more):
        s = self.begin(name, **more)
        return s, self.fake.call()

    def ask(self, name, usage=DONE):
        """A request from begin to end; its status, head and body."""
        s, call = self.call(name, stream=False)
        call.event("text", text="y")
        call.event("done", **usage)
        return rest(s)

    def refused(self, name, says):
        """The value of Retry-After."""
        status, head, body = rest(self.begin(name))
        e = json.loads(body)["error"]
        assert status == 429 and says in e["message"] and e["type"] == "rate_limit_error" and e["code"] == "rate_limit_exceeded", (status, e)
        return int(head.lower().split("retry-after: ")[1].split()[0])


@pytest.fixture
def keyed(fake, tmp_path):
    k = Keyed(fake, tmp_path / "keyed")
    yield k
    k.home.stop()


def test_requests_at_the_same_time(keyed):
    keyed.write(ada="running=2", bob="")
    first, second = keyed.call("ada"), keyed.call("ada")
    assert keyed.refused("ada", "2 requests at the same time") == 1
    assert keyed.ask("bob")[0] == 200
    first[1].event("done", **DONE)
    assert rest(first[0])[0] == 200
    third = keyed.call("ada")
    assert keyed.refused("ada", "at the same time") == 1
    second[0].close()  # a client that disconnects frees its place
    assert second[1].ended()
    s, call = keyed.call("ada")
    call.event("done", **DONE)
    assert rest(s)[0] == 200
    third[0].close()


def test_requests_a_minute(keyed):
    keyed.write(ada="batch requests=3", bob="requests=3")
    begin = time.monotonic()
    for _ in range(3):
        assert keyed.ask("ada")[0] == 200
    left = keyed.refused("ada", "3 requests a minute")
    assert 20 - (time.monotonic() - begin) <= left <= 20
    assert keyed.ask("bob")[0] == 200
    keyed.write(ada="", bob="")
    assert keyed.ask("ada")[0] == 200


def test_tokens_a_minute(keyed):
    keyed.write(ada="tokens=10 requests=100", bob="tokens=1000")
    begin = time.monotonic()
    assert keyed.ask("ada", {**DONE, "usage": {**DONE["usage"], "completion": 27}})[0] == 200
    left = keyed.refused("ada", "10 tokens a minute")
    assert 120 - (time.monotonic() - begin) <= left <= 121  # 30 tokens are those of three minutes
    for _ in range(3):
        assert keyed.ask("bob")[0] == 200


def test_tokens_of_an_answer_that_has_no_end(keyed):
    keyed.write(ada="tokens=10")
    s, call = keyed.call("ada")
    call.event("prefill", done=5, total=5, cached=2)
    for _ in range(8):
        call.event("text", text="y")
    while s.recv(65536).count(b"data: ") < 1:
        pass
    s.close()
    assert call.ended()
    keyed.refused("ada", "10 tokens a minute")


def test_a_file_that_is_read_again(keyed):
    keyed.write(ada="", bob="")
    s, call = keyed.call("ada")
    keyed.write(bob="running=1")
    status, _, body = rest(keyed.begin("ada"))
    assert status == 401 and json.loads(body)["error"]["code"] == "invalid_api_key"
    call.event("text", text="still here")
    call.event("done", **DONE)
    status, _, body = rest(s)
    assert status == 200 and b"still here" in body and b"[DONE]" in body
    assert keyed.ask("bob")[0] == 200
    keyed.path.write_text("bob = 12\n")
    keyed.g.p.send_signal(signal.SIGHUP)
    assert "the keys do not change" in keyed.log()
    assert keyed.ask("bob")[0] == 200
    keyed.path.unlink()
    keyed.g.p.send_signal(signal.SIGHUP)
    assert "the keys do not change" in keyed.log()
    assert keyed.ask("bob")[0] == 200


@pytest.mark.parametrize("words,says", [("running=0", "running"), ("tokens=", "tokens"), ("requests=1k", "requests"), ("walking=1", "neither"),
                                        ("running=1 soon", "'soon' is neither"), ("running", "neither")])
def test_words_that_are_refused(keyed, words, says):
    keyed.path.write_text(f"ada = {keyed.lines['ada']} {words}\n")
    r = subprocess.run([HOB_HTTP, "--keys", keyed.path, "--listen", "127.0.0.1:0"], env=keyed.home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and says in r.stderr and "ada" in r.stderr, r.stderr


def test_the_metrics_are_of_all_keys(keyed):
    """So that a key does not learn what another one does, only those that are named may read them."""
    keyed.write(ada="", bob="running=9 metrics")
    keyed.g.get("/metrics", {"Authorization": f"Bearer {keyed.keys['ada']}"}).error(403, "metrics")
    assert b"hob_http_queued" in keyed.g.get("/metrics", {"Authorization": f"Bearer {keyed.keys['bob']}"}).body
