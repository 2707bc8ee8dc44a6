# SPDX-License-Identifier: MIT
"""Streams of /v1/responses: the events and their order, of the real daemon and of one that does what the test says."""
import json

from httpgate import begin, events_of, rest
from responsesgate import BODY, PATH, post, stored, text_of


def test_a_stream_has_the_events_of_the_answer(gateway):
    whole = post(gateway, metadata={"a": "b"})
    events = gateway.stream(PATH, {**BODY, "metadata": {"a": "b"}})
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    types = [name for name, _ in events]
    deltas = types.count("response.output_text.delta")
    assert deltas > 1 and types == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        *["response.output_text.delta"] * deltas, "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.incomplete"]
    data = dict(events)
    text = "".join(d["delta"] for n, d in events if n == "response.output_text.delta")
    assert text == data["response.output_text.done"]["text"] == text_of(whole)
    assert data["response.created"]["response"]["status"] == "in_progress" and data["response.created"]["response"]["output"] == []
    last = data["response.incomplete"]["response"]
    assert last["output"] == [data["response.output_item.done"]["item"]] and last["metadata"] == {"a": "b"}
    assert last == stored(gateway, last)
    ids = {d["item_id"] for _, d in events if "item_id" in d}
    assert ids == {last["output"][0]["id"]} and data["response.output_item.added"]["item"]["content"] == []
    again = {**last, "id": whole["id"], "created_at": whole["created_at"], "usage": whole["usage"], "output": whole["output"]}
    assert again == whole


def test_an_error_in_a_stream(fake):
    s, call = begin(fake, path=PATH, messages=None, max_tokens=None, input="x")
    assert call.request["session"] and call.request["note"] and call.request["uuid"]
    call.event("prefill", total=5, cached=2)
    call.event("text", text="Hel")
    call.event("error", code="EIO", message="the disk is gone")
    events = events_of(rest(s)[2])
    name, data = events[-1]
    r = data["response"]
    assert name == "response.failed" and r["status"] == "failed" and r["error"] == {"code": "server_error", "message": "the disk is gone"}
    assert data["sequence_number"] == len(events) - 1


def test_an_error_before_the_stream(fake):
    s, call = begin(fake, path=PATH, messages=None, max_tokens=None, input="x")
    call.event("error", code="EBUSY", message="the queue is full")
    status, head, body = rest(s)
    assert status == 429 and json.loads(body)["error"]["message"] == "the queue is full" and "Retry-After" in head


def test_several_items(fake):
    """Thinking, text, two calls without arguments between them, and text again."""
    s, call = begin(fake, path=PATH, messages=None, max_tokens=None, input="x")
    call.event("prefill", total=5, cached=2)
    call.event("text", text="Hm", channel="thinking")
    call.event("text", text="So")
    call.event("tool_call", call=0, call_id="a", name="now", arguments="")
    call.event("tool_call", call=1, call_id="b", name="weather", arguments='{"x"')
    call.event("tool_call", call=1, arguments=": 1}")
    call.event("text", text="Well")
    call.event("done", reason="tool_calls", usage={"prompt": 5, "cached": 2, "completion": 9, "thinking": 3})
    events = events_of(rest(s)[2])
    r = events[-1][1]["response"]
    assert events[-1][0] == "response.completed" and r["usage"]["output_tokens_details"] == {"reasoning_tokens": 3}
    kinds = [(o["type"], o["id"].split("_")[0] + o["id"][-2:]) for o in r["output"]]
    assert kinds == [("reasoning", "rs_0"), ("message", "msg_0"), ("function_call", "fc_0"), ("function_call", "fc_1"), ("message", "msg_1")]
    assert [(o["call_id"], o["arguments"]) for o in r["output"] if o["type"] == "function_call"] == [("a", "{}"), ("b", '{"x": 1}')]
    added = [d["output_index"] for n, d in events if n == "response.output_item.added"]
    done = [(d["output_index"], d["item"]) for n, d in events if n == "response.output_item.done"]
    assert added == list(range(5)) and done == list(enumerate(r["output"]))
