# SPDX-License-Identifier: MIT
"""previous_response_id: what a response continues, in which session, and what is computed."""
from httpgate import Gateway
from responsesgate import BODY, PATH, messages, post, stored, text_of


def test_only_what_is_new_is_sent_and_computed(gateway, shared):
    first = post(gateway, input="a long question about the rivers of the north and the south")
    second = post(gateway, input="and now?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    used = second["usage"]
    assert used["input_tokens_details"]["cached_tokens"] >= first["usage"]["total_tokens"] - 1
    third = post(gateway, input=[{"role": "user", "content": "more"}], previous_response_id=second["id"])
    assert messages(shared.socket, third) == [
        ("user", "a long question about the rivers of the north and the south"), ("assistant", text_of(first)), ("user", "and now?"),
        ("assistant", text_of(second)), ("user", "more"), ("assistant", text_of(third))]
    chat = [{"role": role, "content": content} for role, content in messages(shared.socket, third)[:-1]]
    sent = post(gateway, input=chat, store=False)
    assert text_of(sent) == text_of(third) and sent["usage"]["input_tokens"] == third["usage"]["input_tokens"]


def test_two_branches(gateway, shared):
    root = post(gateway)
    left, right = (post(gateway, input=text, previous_response_id=root["id"]) for text in ("left", "right"))
    ends = [messages(shared.socket, r) for r in (root, left, right)]
    assert [len(e) for e in ends] == [2, 4, 4] and ends[1][:2] == ends[2][:2] == ends[0]
    assert ends[1][2] == ("user", "left") and ends[2][2] == ("user", "right")
    assert stored(gateway, root) == root and stored(gateway, left) == left and stored(gateway, right) == right


def test_instructions_belong_to_one_response(gateway, shared):
    first = post(gateway, instructions="be brief", input="one")
    same = post(gateway, instructions="be brief", input="two", previous_response_id=first["id"])
    other = post(gateway, instructions="be long", input="two", previous_response_id=first["id"])
    none = post(gateway, input="two", previous_response_id=first["id"])
    back = post(gateway, instructions="be brief", input="three", previous_response_id=none["id"])
    turn = [("user", "one"), ("assistant", text_of(first)), ("user", "two")]
    assert messages(shared.socket, same) == [("system", "be brief"), *turn, ("assistant", text_of(same))]
    assert messages(shared.socket, other) == [("system", "be long"), *turn, ("assistant", text_of(other))]
    assert messages(shared.socket, none) == [*turn, ("assistant", text_of(none))]
    assert messages(shared.socket, back)[:4] == [("system", "be brief"), *turn]
    assert none["instructions"] is None and stored(gateway, other)["instructions"] == "be long"
    items = gateway.get(f"{PATH}/{back['id']}/input_items?order=asc").json["data"]
    assert [i["role"] for i in items] == ["user", "assistant", "user", "assistant", "user"]


def test_another_model_continues(homes, tiny_spm):
    """The conversation moves to the other daemon."""
    one, two = homes(), homes(tiny_spm)
    one.daemon()
    two.daemon(socket=two.run / "hob" / "other.sock")
    g = Gateway(one, sockets=[one.socket, two.run / "hob" / "other.sock"])
    first = post(g)
    second = post(g, model="other", input="more", previous_response_id=first["id"])
    assert messages(two.run / "hob" / "other.sock", second)[:3] == [*messages(one.socket, first), ("user", "more")]
    assert stored(g, first) == first and stored(g, second) == second and second["model"] == "other"
    assert g.get("/v1/models/other").json == next(m for m in g.get("/v1/models").json["data"] if m["id"] == "other")
    g.get("/v1/models/none").error(404, "none", "model")
    g.post(PATH, {**BODY, "model": "none"}).error(404, "none", "model")
