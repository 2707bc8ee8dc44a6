# SPDX-License-Identifier: MIT
"""Users whom a gateway names in its hello: who may, and that each is a user of its own."""
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import HOBD, Home
from hobproto import Client, Peer

HELLO = {"type": "hello", "version": 1, "features": []}


@pytest.fixture
def outside():
    """A directory that other users can enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as d:
        yield Path(d)


def refusal(path, **keys):
    """The error that answers a hello."""
    with Peer(path) as p:
        p.send({**HELLO, **keys})
        e = p.recv()
        assert e["event"] == "error" and e["id"] == 0, e
        return e


def names(c):
    return sorted(s["name"] for s in c.sessions())


def test_each_user_has_sessions_of_its_own(home):
    d = home.daemon()
    with home.client() as own, home.client(user="ada") as ada, home.client(user="bob") as bob:
        assert "users" in own.hello["features"]
        for c, text in ((own, "mine"), (ada, "Ada's"), (bob, "Bob's")):
            c.answer(text, session="s", max_tokens=4)
        for c, text in ((own, "mine"), (ada, "Ada's"), (bob, "Bob's")):
            assert names(c) == ["s"] and c.session("s")["messages"][0]["content"] == text
        assert ada.ask("session.rename", name="s", to="t")["event"] == "ok"
        assert names(ada) == ["t"] and names(bob) == ["s"] == names(own)
        assert bob.ask("session.show", name="t")["code"] == "ENOENT" == bob.ask("session.fork", name="t", to="u")["code"]
        assert bob.ask("session.remove", name="t")["code"] == "ENOENT"
    d = home.restart(d)
    with home.client(user="bob") as bob, home.client(user="ada") as ada:
        assert names(ada) == ["t"] and names(bob) == ["s"]


def test_each_user_has_a_cache_of_its_own(home):
    home.daemon()
    text = "the same words of a prompt that is longer than one block of the cache, " * 3
    with home.client(user="ada") as ada, home.client(user="bob") as bob:
        def cached(c):
            return c.answer(text, max_tokens=1).usage["cached"]

        assert cached(ada) == 0 and cached(ada) > 32
        assert cached(bob) == 0 and cached(bob) > 32


def test_status(home):
    home.daemon()
    with home.client() as own, home.client(user="ada") as ada:
        ada.answer("x", max_tokens=4)
        status = home.status()
        me = os.geteuid()
        for table in ("peers", "uids"):
            row = [r for r in status[table] if r.get("user") == "ada"]
            assert len(row) == 1 and row[0]["uid"] == me, status[table]
        shown = home.hob("status", check=0).out
        assert f" {me}:ada " in shown, shown
        seen = json.loads(ada.ask("status")["status"])
        assert "peers" not in seen and "uids" not in seen and "peers" in json.loads(own.ask("status")["status"])
        assert ada.ask("stop")["code"] == "EPERM"


@pytest.mark.parametrize("name,says", [("", "user"), ("a b", "name of a user"), ("x" * 65, "user"), ("a/b", "name of a user"), (7, "user")])
def test_a_name_that_is_refused(shared, name, says):
    assert says in refusal(shared.socket, user=name)["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_only_a_gateway_may_name_users(home, outside):
    os.chmod(outside, 0o711)
    d = home.daemon("--gateways", "daemon, 65111", socket=outside / "s")
    os.chmod(d.path, 0o666)
    code = """if True:
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from hobproto import Peer
        os.setuid(int(sys.argv[3]))
        p = Peer(sys.argv[2])
        try:
            p.send({"type": "hello", "version": 1, "user": "ada"})
        except BrokenPipeError:
            pass  # the daemon has refused the connection before
        e = p.recv()
        print(e["event"], e.get("code"), e.get("message"))"""

    def hello(uid):
        r = subprocess.run(["/usr/bin/python3", "-c", code, os.path.dirname(__file__), d.path, str(uid)], capture_output=True, text=True)
        return r.stdout + r.stderr

    assert hello(65112).startswith("error EPERM uid 65112 may not name users; see 'gateways'"), hello(65112)
    assert hello(65111).startswith("hello") and hello(1).startswith("hello")
    assert hello(2**31).startswith("error EPERM"), hello(2**31)


def test_a_gateway_that_does_not_exist(tmp_path, tiny):
    home = Home(tmp_path, tiny)
    r = subprocess.run([HOBD, "serve", "--gateways", "root no-such-user", "--socket", home.socket], env=home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and "gateways: no user 'no-such-user'" in r.stderr, r.stderr
