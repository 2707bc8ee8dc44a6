# SPDX-License-Identifier: MIT
"""/v1/responses before the real daemon: the answer, calls of tools, thinking."""
import re

from hobproto import Client
from responsesgate import BODY, ID, NAMED, PATH, TOOLS, plain, post, stored, text_of, thinker  # noqa: F401, two are fixtures
from test_calls import HOT, check


def test_the_answer_is_that_of_a_chat(gateway):
    r = post(gateway)
    chat = gateway.chat().json
    digits = r["id"][-16:]
    assert re.fullmatch(ID, r["id"]) and r["object"] == "response" and r["created_at"] > 1e9 and r["model"] == "default"
    assert (r["status"], r["incomplete_details"], r["error"]) == ("incomplete", {"reason": "max_output_tokens"}, None)
    assert r["output"] == [{"id": f"msg_{digits}_0", "type": "message", "role": "assistant", "status": "incomplete", "content": [
        {"type": "output_text", "text": chat["choices"][0]["message"]["content"], "annotations": [], "logprobs": []}]}]
    u = r["usage"]
    assert u == {"input_tokens": chat["usage"]["prompt_tokens"], "input_tokens_details": u["input_tokens_details"], "output_tokens": 8,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": chat["usage"]["prompt_tokens"] + 8}
    assert (r["store"], r["tools"], r["text"], r["metadata"], r["max_output_tokens"]) == (True, [], {"format": {"type": "text"}}, {}, 8)


def test_tools(plain):  # noqa: F811
    body = {**BODY, **HOT, "max_output_tokens": 300, "tools": TOOLS, "tool_choice": NAMED, "seed": 5}
    r = plain.post(PATH, body).json
    (call,) = r["output"]
    assert r["status"] == "completed" and (call["type"], call["status"], call["name"]) == ("function_call", "completed", "weather")
    check({"id": call["call_id"], "name": "weather", "arguments": call["arguments"]})
    assert r["tools"] == [TOOLS[0], {**TOOLS[1], "strict": True}] and r["tool_choice"] == NAMED and stored(plain, r) == r
    events = plain.stream(PATH, body)
    deltas = [d["delta"] for n, d in events if n == "response.function_call_arguments.delta"]
    data = dict(events)
    assert "".join(deltas) == data["response.function_call_arguments.done"]["arguments"] == call["arguments"]
    assert data["response.function_call_arguments.done"]["name"] == "weather"
    last = data["response.completed"]["response"]
    assert last["output"] == [data["response.output_item.done"]["item"]] and last == stored(plain, last)
    assert data["response.output_item.added"]["item"] == {**last["output"][0], "arguments": "", "status": "in_progress"}
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "7"}
    short = {**body, "tool_choice": "none", "max_output_tokens": 4}
    second = plain.post(PATH, {**short, "input": [result], "previous_response_id": r["id"]}).json
    with Client(plain.home.socket) as c:
        kept = c.session(second["id"])["messages"]
    assert [m["role"] for m in kept] == ["user", "assistant", "tool", "assistant"]
    assert (kept[2]["content"], kept[2]["tool_call_id"], kept[2]["name"]) == ("7", call["call_id"], "weather")
    whole = plain.post(PATH, {**short, "input": [{"role": "user", "content": BODY["input"]}, call, result], "store": False}).json
    assert text_of(whole) == text_of(second) and whole["usage"]["input_tokens"] == second["usage"]["input_tokens"]
    items = plain.get(f"{PATH}/{second['id']}/input_items?order=asc").json["data"]
    assert [i["type"] for i in items] == ["message", "function_call", "function_call_output"]
    assert (items[1]["call_id"], items[1]["arguments"]) == (call["call_id"], call["arguments"])
    assert (items[2]["call_id"], items[2]["output"]) == (call["call_id"], "7")


def test_thinking(thinker):  # noqa: F811
    body = {**BODY, **HOT, "max_output_tokens": 30, "reasoning": {"effort": "medium"}, "think_budget": 6, "seed": 2}
    r = thinker.post(PATH, body).json
    thought, message = r["output"]
    assert (thought["type"], thought["summary"], thought["content"][0]["type"], message["type"]) == ("reasoning", [], "reasoning_text", "message")
    assert 6 <= r["usage"]["output_tokens_details"]["reasoning_tokens"] < r["usage"]["output_tokens"] and stored(thinker, r) == r
    events = thinker.stream(PATH, body)
    data = dict(events)
    last = data.get("response.incomplete", data.get("response.completed"))["response"]
    said = "".join(d["delta"] for n, d in events if n == "response.reasoning_text.delta")
    assert said == data["response.reasoning_text.done"]["text"] == thought["content"][0]["text"] and last == stored(thinker, last)
    assert [o["type"] for o in last["output"]] == ["reasoning", "message"] and text_of(last) == text_of(r)
    assert [d["output_index"] for n, d in events if n == "response.output_item.done"] == [0, 1]
    follow = {**body, "max_output_tokens": 4}
    back = thinker.post(PATH, {**follow, "input": [{"role": "user", "content": BODY["input"]}, thought, message, {"role": "user", "content": "x"}]})
    assert back.status == 200 and back.json["usage"]["input_tokens"] > r["usage"]["input_tokens"]
    with Client(thinker.home.socket) as c:
        kept = c.session(back.json["id"])["messages"]
    assert [m["role"] for m in kept] == ["user", "assistant", "user", "assistant"]
    assert (kept[1]["thinking"], kept[1]["content"]) == (thought["content"][0]["text"], text_of(r))
    off = thinker.post(PATH, {**body, "reasoning": {"effort": "none"}, "think_budget": None}).json
    assert [o["type"] for o in off["output"]] == ["message"] and off["usage"]["output_tokens_details"]["reasoning_tokens"] == 0
