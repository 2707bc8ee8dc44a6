# SPDX-License-Identifier: MIT
"""Responses are sessions: retrieved, removed, kept over restarts, and of one key."""
from hobproto import Client
from httpgate import Gateway
from responsesgate import BODY, PATH, messages, post, sessions, stored, text_of
from test_key_file import keyed  # noqa: F401, a fixture


def test_a_stored_response(gateway, shared):
    r = post(gateway, instructions="be brief", metadata={"k": "v"}, user="u", top_p=0.5, truncation="auto", model="default", tools=[])
    assert stored(gateway, r) == r and r["instructions"] == "be brief" and r["truncation"] == "auto" and r["top_p"] == 0.5
    second = post(gateway, input=[{"role": "developer", "content": "d"}, {"role": "user", "content": [
        {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}], previous_response_id=r["id"], instructions="be brief")
    items = gateway.get(f"{PATH}/{second['id']}/input_items?order=asc").json
    assert items["object"] == "list" and not items["has_more"]
    assert [(i["type"], i["role"], i["content"][0]["type"], i["content"][0]["text"]) for i in items["data"]] == [
        ("message", "user", "input_text", BODY["input"]), ("message", "assistant", "output_text", text_of(r)),
        ("message", "system", "input_text", "d"), ("message", "user", "input_text", "ab")]
    ids = [i["id"] for i in items["data"]]
    assert len(set(ids)) == 4 and (items["first_id"], items["last_id"]) == (ids[0], ids[3])
    page = gateway.get(f"{PATH}/{second['id']}/input_items?limit=2").json
    assert [i["id"] for i in page["data"]] == ids[:1:-1] and page["has_more"]
    page = gateway.get(f"{PATH}/{second['id']}/input_items?limit=2&after={ids[2]}").json
    assert [i["id"] for i in page["data"]] == ids[1::-1] and not page["has_more"]
    for query, param in (("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order")):
        gateway.get(f"{PATH}/{second['id']}/input_items?{query}").error(400, param, param)
    gateway.get(f"{PATH}/{second['id']}?stream=true").error(400, "stream", "stream")


def test_a_deleted_response(gateway, shared):
    r = post(gateway)
    assert r["id"] in sessions(shared.socket)
    assert gateway.ask("DELETE", f"{PATH}/{r['id']}", headers={}).json == {"id": r["id"], "object": "response", "deleted": True}
    assert r["id"] not in sessions(shared.socket)
    gateway.ask("DELETE", f"{PATH}/{r['id']}", headers={}).error(404, r["id"])
    gateway.get(f"{PATH}/{r['id']}").error(404, r["id"])
    gateway.get(f"{PATH}/{r['id']}/input_items").error(404, r["id"])
    for more in ({}, {"instructions": "others"}, {"store": False}):
        e = gateway.post(PATH, {**BODY, "previous_response_id": r["id"], **more}).error(404, r["id"], "previous_response_id")
        assert e["code"] == "previous_response_not_found"


def test_ids_of_nothing(gateway, shared):
    """A plain session is no response, whatever its name."""
    gateway.chat(session="resp_mine")
    like = "resp_" + "0" * 48
    for bad in ("resp_mine", "x", like, like[:-1] + "g", like + "0"):
        gateway.get(f"{PATH}/{bad}").error(404, "")
        gateway.ask("DELETE", f"{PATH}/{bad}", headers={}).error(404, "")
        gateway.post(PATH, {**BODY, "previous_response_id": bad}).error(404, "", "previous_response_id" if bad != like else None)
    real = post(gateway)["id"]
    gateway.chat(session=real[:-16] + "0" * 16)  # of a chat: without the fields of a response
    gateway.get(f"{PATH}/{real[:-16]}{'0' * 16}").error(404, "")
    with Client(shared.socket) as c:
        for name in ("resp_mine", real[:-16] + "0" * 16):
            assert c.ask("session.remove", name=name)["event"] == "ok"
    r = gateway.post(f"{PATH}/{real}", {})
    r.error(405, "GET, DELETE")
    assert r.headers["Allow"] == "GET, DELETE"
    gateway.get(f"{PATH}/").error(404, "no such path")
    gateway.get(f"{PATH}/{real}/other").error(404, "no such path")


def test_store_false_leaves_nothing(gateway, shared):
    first = post(gateway)
    before = sessions(shared.socket)
    second = post(gateway, input="more", previous_response_id=first["id"], store=False)
    kept = post(gateway, input="more", previous_response_id=first["id"])
    assert second["store"] is False and text_of(second) == text_of(kept)
    assert second["usage"]["input_tokens"] == kept["usage"]["input_tokens"]
    gateway.stream(PATH, {**BODY, "store": False})
    assert sessions(shared.socket) == before | {kept["id"]}
    gateway.get(f"{PATH}/{second['id']}").error(404, second["id"])
    gateway.post(PATH, {**BODY, "previous_response_id": second["id"]}).error(404, second["id"], "previous_response_id")


def test_responses_survive_restarts(home):
    d = home.daemon()
    g = Gateway(home)
    first = post(g, metadata={"k": "v"})
    g.p.terminate()
    g.p.wait(60)
    home.restart(d)
    g = Gateway(home)
    assert stored(g, first) == first
    second = post(g, input="more", previous_response_id=first["id"])
    assert messages(home.socket, second)[:2] == messages(home.socket, first)


def test_a_key_has_its_own_responses(keyed, shared):  # noqa: F811
    r = post(keyed, keyed.ada)
    assert r["id"] not in sessions(shared.socket)
    head = {"Authorization": f"Bearer {keyed.bob}"}
    for path in (f"{PATH}/{r['id']}", f"{PATH}/{r['id']}/input_items"):
        keyed.get(path, head).error(404, r["id"])
        assert keyed.get(path, {"Authorization": f"Bearer {keyed.ada}"}).status == 200
        assert keyed.get(path).status == 401
    for more in ({}, {"store": False}):
        keyed.post(PATH, {**BODY, "previous_response_id": r["id"], **more}, keyed.bob).error(404, r["id"], "previous_response_id")
        assert keyed.post(PATH, {**BODY, "previous_response_id": r["id"], **more}, keyed.ada).status == 200
    keyed.ask("DELETE", f"{PATH}/{r['id']}", headers=head).error(404, r["id"])
    assert keyed.ask("DELETE", f"{PATH}/{r['id']}", headers={"Authorization": f"Bearer {keyed.ada}"}).json["deleted"]
