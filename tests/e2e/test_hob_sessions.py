# SPDX-License-Identifier: MIT
"""/hob/sessions and /hob/session: list, show, fork, rename, remove; each key has its own."""
import threading
from urllib.parse import urlencode

from conftest import Home
from httpgate import FakeDaemon, Gateway, run_http


def bearer(key):
    return {"Authorization": f"Bearer {key}"} if key else {}


def listed(g, key=None):
    r = g.get("/hob/sessions", bearer(key))
    assert r.status == 200 and set(r.json) == {"sessions", "next"}, r.body
    return [s["name"] for s in r.json["sessions"]]


def show(g, name, key=None):
    return g.get("/hob/session?" + urlencode({"name": name}), bearer(key))


def change(g, verb, key=None, **body):
    return g.post(f"/hob/session/{verb}", body, key)


def test_a_session_is_listed_shown_forked_renamed_and_removed(home):
    home.daemon()
    g = Gateway(home)
    assert listed(g) == []
    name = "a & b ü?"
    answer = g.chat("hello", session=name).json["choices"][0]["message"]["content"]
    assert listed(g) == [name] and f"\n{name} " in home.hob("sessions", check=0).out
    r = show(g, name).json
    assert r["name"] == name and r["messages"] == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": answer}]
    assert change(g, "fork", name=name, to="copy").json == {}
    assert change(g, "rename", name=name, to="first").json == {}
    assert sorted(listed(g)) == ["copy", "first"]
    g.chat("more", session="copy")
    assert len(show(g, "copy").json["messages"]) == 4 and len(show(g, "first").json["messages"]) == 2
    assert change(g, "remove", name="first", model="default").json == {}
    assert listed(g) == ["copy"]


def test_errors_are_those_of_the_daemon(home):
    home.daemon()
    g = Gateway(home)
    for name in ("one", "two"):
        g.chat("x", session=name)
    show(g, "none").error(404, "none")
    change(g, "remove", name="none").error(404, "none")
    change(g, "fork", name="one", to="two").error(409, "two")
    change(g, "rename", name="one", to="a/b").error(400, "to: must not contain")
    change(g, "rename", name="one").error(400, "'to'", "to")
    change(g, "remove").error(400, "'name'", "name")
    change(g, "remove", name=5).error(400, "'name'", "name")
    change(g, "remove", name="one", to="two").error(400, "'to'", "to")
    change(g, "remove", name="one", model="other").error(404, "other")
    g.get("/hob/session").error(400, "'name'", "name")
    g.get("/hob/sessions?model=other").error(404, "other")
    assert sorted(listed(g)) == ["one", "two"]


def test_a_key_sees_only_its_own_sessions(home):
    home.daemon()
    keys = home.root / "keys"
    ada, ad = (run_http(home, "key", "add", name, "--keys", keys).stdout.strip() for name in ("ada", "ad"))
    g = Gateway(home, "--keys", keys)
    g.chat("a secret", key=ada, session="notes")
    g.chat("other", key=ad, session="notes")
    home.hob("-S", "ada", "-n", "2", "without a key", check=0)
    assert listed(g, ada) == ["notes"] and listed(g, ad) == ["notes"]
    r = show(g, "notes", ada).json
    assert r["name"] == "notes" and r["messages"][0]["content"] == "a secret"
    assert show(g, "notes", ad).json["messages"][0]["content"] == "other"
    show(g, "ada:notes", ad).error(404, "notes")
    show(g, "ada", ada).error(404, "ada")
    change(g, "rename", key=ada, name="notes", to="mine").json
    change(g, "fork", key=ada, name="mine", to="side").json
    assert sorted(listed(g, ada)) == ["mine", "side"] and listed(g, ad) == ["notes"]
    change(g, "remove", key=ad, name="mine").error(404, "mine")
    change(g, "remove", key=ada, name="mine").json
    assert listed(g, ada) == ["side"]
    assert g.get("/hob/sessions").status == 401 and change(g, "remove", name="side").status == 401


def test_pages(fake):
    got = []
    t = threading.Thread(target=lambda: got.append(fake.gateway.get("/hob/sessions?after=17").json))
    t.start()
    call = fake.call()
    assert call.request["type"] == "session.list" and call.request["after"] == "17"
    call.event("sessions", sessions='[{"name":"x","used":1}]', next="18")
    t.join(60)
    assert got == [{"sessions": [{"name": "x", "used": 1}], "next": "18"}] and call.ended()


def test_without_a_daemon(tmp_path):
    h = Home(tmp_path)
    g = Gateway(h)
    g.get("/hob/sessions").error(503, "no daemon")
    g.get("/hob/status").error(503, "no daemon")
    d = FakeDaemon(h.socket)
    got = []
    t = threading.Thread(target=lambda: got.append(g.get("/hob/sessions")))
    t.start()
    d.call().s.close()
    t.join(60)
    got[0].error(503, "closed")
    d.close()
    h.stop()
