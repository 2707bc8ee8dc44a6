# SPDX-License-Identifier: MIT
"""The tool calls of an answer, in any order of a daemon's events."""
import json

import pytest
from httpgate import CHAT_PATH, begin, events_of, rest

MESSAGES = "/v1/messages"
USAGE = {"prompt": 5, "cached": 2, "completion": 9}
FUNCTION = {"tools": [{"type": "function", "function": {"name": "f"}}]}
TOOL = {"tools": [{"name": "f", "input_schema": {}}], "thinking": {"type": "adaptive"}}


def first(call, number, name="f", **more):
    call.event("tool_call", call=number, call_id=f"id{number}", name=name, **more)


def send_all(call):
    """Thinking, text, a withdrawn call, a call in pieces and one without arguments."""
    call.event("text", text="hm", channel="thinking")
    call.event("text", text="so")
    first(call, 0, arguments="")
    call.event("tool_call", call=0, withdrawn=True)
    call.event("warning", message="a malformed call")
    call.event("text", text="<f")
    first(call, 1, arguments="")
    call.event("tool_call", call=1, arguments='{"x": ')
    call.event("tool_call", call=1, arguments='"é"}')
    first(call, 2, name="g")
    call.event("done", reason="tool_calls", usage=USAGE)


def test_openai(fake):
    s, call = begin(fake, stream=False, **FUNCTION)
    send_all(call)
    choice = json.loads(rest(s)[2])["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"] == {
        "role": "assistant", "content": "so<f", "refusal": None, "reasoning_content": "hm", "tool_calls": [
            {"id": "id1", "type": "function", "function": {"name": "f", "arguments": '{"x": "é"}'}},
            {"id": "id2", "type": "function", "function": {"name": "g", "arguments": ""}}]}
    s, call = begin(fake, **FUNCTION)
    send_all(call)
    choices = [d["choices"][0] for _, d in events_of(rest(s)[2])[:-1]]
    assert [c["delta"] for c in choices] == [
        {"role": "assistant", "content": ""}, {"reasoning_content": "hm"}, {"content": "so"}, {"content": "<f"},
        {"tool_calls": [{"index": 0, "id": "id1", "type": "function", "function": {"name": "f", "arguments": '{"x": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"é"}'}}]},
        {"tool_calls": [{"index": 1, "id": "id2", "type": "function", "function": {"name": "g", "arguments": ""}}]}, {}]
    assert [c["finish_reason"] for c in choices] == [None] * 7 + ["tool_calls"]


def test_anthropic(fake):
    s, call = begin(fake, stream=False, path=MESSAGES, **TOOL)
    send_all(call)
    message = json.loads(rest(s)[2])
    assert message["stop_reason"] == "tool_use" and message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "so<f"},
        {"type": "tool_use", "id": "id1", "name": "f", "input": {"x": "é"}}, {"type": "tool_use", "id": "id2", "name": "g", "input": {}}]
    s, call = begin(fake, path=MESSAGES, **TOOL)
    send_all(call)
    events = [d for _, d in events_of(rest(s)[2])]
    assert [d["content_block"] for d in events if d["type"] == "content_block_start"] == [
        {"type": "thinking", "thinking": "", "signature": ""}, {"type": "text", "text": ""}, {"type": "tool_use", "id": "id1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "id2", "name": "g", "input": {}}]
    assert [(d["index"], d["delta"]) for d in events if d["type"] == "content_block_delta"] == [
        (0, {"type": "thinking_delta", "thinking": "hm"}), (1, {"type": "text_delta", "text": "so"}), (1, {"type": "text_delta", "text": "<f"}),
        (2, {"type": "input_json_delta", "partial_json": '{"x": '}), (2, {"type": "input_json_delta", "partial_json": '"é"}'})]
    assert [(d["type"][14:], d["index"]) for d in events if d["type"] in ("content_block_start", "content_block_stop")] == [
        (what, i) for i in range(4) for what in ("start", "stop")]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_anthropic_shows_no_thinking_that_was_not_asked_for(fake):
    for stream in (False, True):
        s, call = begin(fake, stream, path=MESSAGES)
        call.event("text", text="hm", channel="thinking")
        call.event("text", text="yes")
        call.event("done", reason="stop", usage=USAGE)
        body = rest(s)[2]
        assert b"yes" in body and b"hm" not in body


@pytest.mark.parametrize("path,more", [(CHAT_PATH, FUNCTION), (MESSAGES, TOOL)])
def test_a_call_that_is_withdrawn_too_late(fake, path, more):
    """A stream cannot take it back, so the answer ends with an error; another answer has no such call."""
    for stream in (True, False):
        s, call = begin(fake, stream, path=path, **more)
        first(call, 0, arguments='{"x"')
        call.event("tool_call", call=0, withdrawn=True)
        if stream:
            assert call.ended()
            assert "malformed tool call" in events_of(rest(s)[2])[-1][1]["error"]["message"]
            continue
        call.event("text", text="text")
        call.event("done", reason="stop", usage=USAGE)
        body = rest(s)[2]
        assert b'"text"' in body and b"tool_calls" not in body and b"tool_use" not in body


def test_a_call_that_the_limit_cuts(fake):
    """Its arguments are no object, which Anthropic's form needs outside streams."""
    for path, more in ((CHAT_PATH, FUNCTION), (MESSAGES, TOOL)):
        s, call = begin(fake, stream=False, path=path, **more)
        first(call, 0, arguments='{"x": 4')
        call.event("done", reason="length", usage=USAGE)
        reply = json.loads(rest(s)[2])
        if path == MESSAGES:
            assert reply["stop_reason"] == "max_tokens" and reply["content"] == [{"type": "text", "text": ""}]
        else:
            choice = reply["choices"][0]
            assert choice["finish_reason"] == "length" and choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": 4'


def test_the_daemon_breaks_the_order(fake):
    s, call = begin(fake, **FUNCTION)
    first(call, 4)
    assert call.ended() and "call 4" in events_of(rest(s)[2])[-1][1]["error"]["message"]
