# SPDX-License-Identifier: MIT
"""The messages of a chat."""
import pytest
from httpgate import CHAT_PATH, DONE, begin, rest
from test_openai_chat import BODY, CHAT

USER = {"role": "user", "content": "?"}
CALLS = [{"id": "a1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
         {"id": "b2", "type": "function", "function": {"name": "g", "arguments": ""}}]
BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "so"},
          {"type": "tool_use", "id": "a1", "name": "f", "input": {"x": 1}}, {"type": "tool_use", "id": "b2", "name": "g", "input": {}}]
RESULT = {"type": "tool_result", "tool_use_id": "b2", "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]}


def told(fake, path, messages):
    """The messages as the daemon gets them."""
    s, call = begin(fake, stream=False, path=path, messages=messages)
    call.event("done", **DONE)
    assert rest(s)[0] == 200
    return call.request["messages"]


def test_roles_and_parts(gateway):
    def text(messages):
        r = gateway.post(CHAT, {**BODY, "messages": messages})
        assert r.status == 200, r.body
        return r.json["choices"][0]["message"]["content"]

    plain = text([{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two"}])
    assert plain == text([{"role": "developer", "content": "be brief"}, {"role": "user", "content": "one two", "name": "me"}])
    assert plain == text([{"role": "system", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
                          {"role": "user", "content": [{"type": "text", "text": "one two"}]}])


def test_calls_and_results_of_openai(fake):
    assistant = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": CALLS}
    results = [{"role": "tool", "tool_call_id": "b2", "content": "42"}, {"role": "tool", "tool_call_id": "a1", "content": "", "name": "own"},
               {"role": "tool", "tool_call_id": "c3", "content": [{"type": "text", "text": "?"}]}]
    got = told(fake, CHAT_PATH, [USER, assistant, *results])
    assert got == [USER, {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
        {"id": "a1", "name": "f", "arguments": '{"x": 1}'}, {"id": "b2", "name": "g", "arguments": "{}"}]},
        {"role": "tool", "content": "42", "tool_call_id": "b2", "name": "g"},
        {"role": "tool", "content": "", "tool_call_id": "a1", "name": "own"}, {"role": "tool", "content": "?", "tool_call_id": "c3"}]


def test_calls_and_results_of_anthropic(fake):
    text = {"type": "text", "text": "and"}
    got = told(fake, "/v1/messages", [USER, {"role": "assistant", "content": BLOCKS}, {"role": "user", "content": [
        RESULT, {"type": "tool_result", "tool_use_id": "a1", "is_error": True}, text, text]}])
    assert got == [USER, {"role": "assistant", "content": "so", "thinking": "hm", "tool_calls": [
        {"id": "a1", "name": "f", "arguments": '{"x":1}'}, {"id": "b2", "name": "g", "arguments": "{}"}]},
        {"role": "tool", "content": "42", "tool_call_id": "b2", "name": "g"}, {"role": "tool", "content": "", "tool_call_id": "a1", "name": "f"},
        {"role": "user", "content": "andand"}]
    got = told(fake, "/v1/messages", [{"role": "user", "content": [text, RESULT, text]}])
    assert [(m["role"], m["content"]) for m in got] == [("user", "and"), ("tool", "42"), ("user", "and")]


@pytest.mark.parametrize("message,says", [
    ({"role": "tool", "content": "x"}, "messages[0]: 'id of the call'"), ({"role": "user", "content": "x", "tool_calls": CALLS}, "'tool_calls'"),
    ({"role": "user", "content": "x", "reasoning_content": "hm"}, "'reasoning_content'"), ({"role": "assistant", "content": None}, "messages[0]"),
    ({"role": "assistant", "tool_calls": {}}, "messages[0]"), ({"role": "assistant", "tool_calls": [5]}, "messages[0].tool_calls[0]"),
    ({"role": "assistant", "tool_calls": [{**CALLS[0], "type": "custom"}]}, "'custom'"),
    ({"role": "assistant", "tool_calls": [{**CALLS[0], "id": 5}]}, "messages[0].tool_calls[0]: 'id'"),
    ({"role": "assistant", "tool_calls": [CALLS[0], {"id": "b", "function": {"name": "f", "arguments": {}}}]}, "messages[0].tool_calls[1]"),
    ({"role": "assistant", "tool_calls": CALLS * 501}, "1000 calls"), ({"role": "assistant", "content": "x", "function_call": {"name": "f"}}, "'function_call'")])
def test_refused_of_openai(gateway, message, says):
    gateway.post(CHAT, {**BODY, "messages": [message]}).error(400, says)


@pytest.mark.parametrize("role,block,says", [
    ("user", {"type": "tool_result", "content": "x"}, "'id of the call'"), ("user", {"type": "tool_use", "id": "a", "name": "f", "input": {}}, "'tool_use'"),
    ("user", {**RESULT, "content": [{"type": "image"}]}, "'source'"), ("user", 5, "messages[0]"), ("assistant", RESULT, "'tool_result'"),
    ("assistant", {**BLOCKS[2], "input": "x"}, "'input'"), ("assistant", {"type": "tool_use", "id": "a", "input": {}}, "'name'"),
    ("assistant", {"type": "thinking"}, "messages[0]"), ("assistant", {"type": "redacted_thinking", "data": "x"}, "'redacted_thinking'")])
def test_refused_of_anthropic(gateway, role, block, says):
    r = gateway.post("/v1/messages", {"max_tokens": 4, "messages": [{"role": role, "content": [block]}]})
    assert r.status == 400 and says in r.json["error"]["message"], r.body
