# SPDX-License-Identifier: MIT
"""Keys: who may ask, and that the holders of two keys share nothing."""
import hashlib
import json
import os
import re
import subprocess
import threading

import pytest
from conftest import Home
from hobproto import Client
from httpgate import HOB_HTTP, Gateway


def add(home, name, *args):
    return subprocess.run([HOB_HTTP, *args, "key", "add", name], env=home.env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def keyed(shared, tmp_path_factory):
    """A gateway with two keys before the shared daemon."""
    path = tmp_path_factory.mktemp("keys") / "keys"
    keys = [add(shared, name, "--keys", path).stdout.strip() for name in ("ada", "bob")]
    g = Gateway(shared, "--keys", path)
    g.ada, g.bob = keys
    return g


def test_key_add(tmp_path):
    """The key is printed once; the file has only its hash."""
    home = Home(tmp_path)
    r = add(home, "ada")
    key = r.stdout.strip()
    assert r.returncode == 0 and re.fullmatch("hob-[0-9a-f]{64}", key), r
    path = tmp_path / "config" / "hob" / "keys"
    assert path.read_text() == f"ada = {hashlib.sha256(key.encode()).hexdigest()}\n" and path.stat().st_mode & 0o777 == 0o600
    assert add(home, "ada").returncode == 1 and add(home, "a b").returncode == 1 and add(home, "").returncode == 1
    assert add(home, "bob").stdout.strip() != key and len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("text,mode,says", [("ada = 12\n", 0o600, "not a hash"), ("ada = " + "0" * 64 + " soon\n", 0o600, "neither a priority"),
                                            ("ada = " + "0" * 64 + "\nada = " + "1" * 64 + "\n", 0o600, "twice"), ("", 0o600, "no keys"),
                                            ("ada = " + "0" * 64 + "\n", 0o644, "mode 644"), ("ada = " + "0" * 64 + "\n", 0o620, "mode 620"),
                                            ("a/b = " + "0" * 64 + "\n", 0o600, "not a name")])
def test_a_file_that_is_refused(tmp_path, text, mode, says):
    home = Home(tmp_path)
    path = tmp_path / "keys"
    path.write_text(text)
    os.chmod(path, mode)
    r = subprocess.run([HOB_HTTP, "--keys", path, "--listen", "127.0.0.1:0"], env=home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and says in r.stderr, r.stderr


def test_a_key_is_needed(keyed):
    keyed.chat().error(401, "a key is needed")
    e = keyed.chat(key="hob-" + "0" * 64).error(401, "not valid")
    assert e["code"] == "invalid_api_key"
    assert keyed.get("/v1/models").status == 401 and keyed.get("/metrics").status == 401 and keyed.get("/health").status == 200
    assert keyed.chat(key=keyed.ada).status == 200
    assert keyed.get("/v1/models", {"x-api-key": keyed.bob}).status == 200
    assert keyed.get("/v1/models", {"Authorization": f"Basic {keyed.bob}"}).status == 401
    assert keyed.get("/health", {"Host": "example.org"}).status == 200


def test_two_keys_share_no_cache(keyed):
    text = "the same words of a prompt that is longer than one block of the cache, " * 2

    def cached(key, **more):
        return keyed.chat(text, key=key, **more).json["usage"]["prompt_tokens_details"]["cached_tokens"]

    template = 8  # tokens before the text, which another request of the same key may have computed
    assert cached(keyed.ada) < template and cached(keyed.ada) > 32
    assert cached(keyed.bob) < template and cached(keyed.bob) > 32
    assert cached(keyed.ada, prompt_cache_key="x") == 0 and cached(keyed.bob, prompt_cache_key="x") == 0


def test_two_keys_share_no_sessions(keyed, shared):
    keyed.chat("I am Ada", key=keyed.ada, session="s")
    keyed.chat("I am Bob", key=keyed.bob, session="s")
    for user in ("ada", "bob"):
        with Client(shared.socket, user=user) as c:
            assert c.session("s")["messages"][0]["content"] == f"I am {user.capitalize()}"
            assert c.ask("session.remove", name="s")["event"] == "ok"
    with Client(shared.socket) as c:
        assert not [s for s in c.sessions() if s["name"] == "s"]


def test_a_key_may_limit_the_priority(fake, tmp_path):
    home = Home(tmp_path / "second") if (tmp_path / "second").mkdir() is None else None
    path = tmp_path / "keys"
    key = add(home, "ada", "--keys", path).stdout.strip()
    path.write_text(path.read_text().replace("\n", " batch\n"))
    g = Gateway(home, "--keys", path, sockets=[fake.path])
    for asked in (None, "interactive", "batch"):
        t = threading.Thread(target=g.chat, kwargs={"key": key, "priority": asked})
        t.start()
        call = fake.call()
        assert call.request["priority"] == "batch"
        call.event("error", code="EBUSY", message="busy")
        t.join()
    home.stop()


def test_a_key_that_floods_delays_no_other(tmp_path, tiny):
    """200 long answers of one key wait or run. The answer of another key comes before most of them, as that of another uid does, and not
    after them, as one more answer of the same key."""
    home = Home(tmp_path, tiny)
    home.daemon("--parallel", 4)
    path = tmp_path / "keys"
    ada, bob = (add(home, name, "--keys", path).stdout.strip() for name in ("ada", "bob"))
    g = Gateway(home, "--keys", path)

    def begin(text, n):
        body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": n, "ignore_eos": True, "stream": True}).encode()
        s = g.connect()
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %b\r\n"
                  b"Content-Length: %d\r\n\r\n%b" % (ada.encode(), len(body), body))
        return s

    def live(c, user):
        return [row["live"] for row in json.loads(c.ask("status")["status"])["peers"] if row.get("user") == user][0]

    flood = [begin(f"question {i}", 450) for i in range(200)]
    with Client(home.socket) as c:
        last = begin("the last question", 4)
        last.settimeout(60)
        assert g.chat("another question", key=bob, max_tokens=4).status == 200
        left = live(c, "ada")
        assert left > 100, left
        last.setblocking(False)
        with pytest.raises(BlockingIOError):
            last.recv(1)
        for s in flood:
            s.close()
        last.settimeout(60)
        assert b" 200 OK" in last.recv(100)
        assert live(c, "bob") == 0
    home.stop()
