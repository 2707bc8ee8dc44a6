# SPDX-License-Identifier: MIT
"""Tools and thinking over HTTP before the real daemon: a tiny random model answers, and its calls are valid all the same."""
import json

import pytest
from conftest import mktiny
from httpgate import CHAT_PATH as CHAT
from httpgate import Gateway
from test_calls import CALLER, HOT, SWITCH, TOOLS, WEATHER, check, make

MESSAGES = "/v1/messages"
USER = {"role": "user", "content": "?"}
BODY = {"messages": [USER], "max_tokens": 300, **HOT}
ANTHROPIC_TOOLS = [{"name": "weather", "description": "d", "input_schema": WEATHER, "cache_control": {"type": "ephemeral"}},
                   {"name": "now", "input_schema": {}, "type": "custom"}]
NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The prompt opens no thought."""
    h = make(tmp_path_factory, "")
    yield Gateway(h)
    h.stop()


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """The prompt opens a thought, unless it is told not to."""
    h = make(tmp_path_factory, SWITCH)
    yield Gateway(h)
    h.stop()


def joined(events):
    """The calls, the text and the reason of a stream of OpenAI's API."""
    calls, text, reason = [], "", None
    for _, data in events[:-1]:
        choice = data["choices"][0]
        text += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
        for piece in choice["delta"].get("tool_calls", []):
            assert piece["index"] in (len(calls), len(calls) - 1)
            if piece["index"] == len(calls):
                calls.append({"id": piece["id"], "type": piece["type"], "function": {"name": piece["function"]["name"], "arguments": ""}})
            calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
    return calls, text, reason


def valid(call):
    check({"id": call["id"], **call["function"]})


def results(calls):
    return [{"role": "tool", "tool_call_id": c["id"], "content": "7"} for c in calls]


def test_openai_required(plain):
    for seed in range(4):
        body = {**BODY, "tools": TOOLS, "tool_choice": "required", "seed": seed}
        (choice,) = plain.post(CHAT, body).json["choices"]
        calls = choice["message"]["tool_calls"]
        assert calls and choice["message"]["content"] is None and choice["finish_reason"] in ("tool_calls", "length")
        for call in calls:
            valid(call)
        assert joined(plain.stream(CHAT, body)) == (calls, "", choice["finish_reason"])
        turn = {**body, "messages": [USER, choice["message"], *results(calls)], "tool_choice": "none", "max_tokens": 4}
        second = plain.post(CHAT, turn).json
        assert second["choices"][0]["message"]["content"] is not None and "tool_calls" not in second["choices"][0]["message"], second


def test_openai_named_and_one_call(plain):
    body = {**BODY, "tools": TOOLS, "tool_choice": NAMED, "parallel_tool_calls": False, "seed": 5}
    (choice,) = plain.post(CHAT, body).json["choices"]
    (call,) = choice["message"]["tool_calls"]
    valid(call)
    assert choice["finish_reason"] == "tool_calls" and call["function"]["name"] == "weather"
    assert joined(plain.stream(CHAT, body)) == ([call], "", "tool_calls")
    two = plain.post(CHAT, {**body, "n": 2}).json["choices"]
    assert two[0]["message"]["tool_calls"] == [call] and two[1]["message"]["tool_calls"][0]["id"] != call["id"]


def test_openai_tools_without_a_call(plain):
    prompts = [plain.post(CHAT, {**BODY, "max_tokens": 6, "seed": 1, **more}).json for more in (
        {}, {"tools": TOOLS}, {"tools": TOOLS, "tool_choice": "auto"}, {"tools": TOOLS, "tool_choice": "none", "parallel_tool_calls": False})]
    assert all("tool_calls" not in p["choices"][0]["message"] for p in prompts)
    tokens = [p["usage"]["prompt_tokens"] for p in prompts]
    assert tokens[0] == tokens[3] < tokens[1] == tokens[2]


def test_openai_calls_that_are_not_required(homes, tmp_path):
    """A model that likes the mark of a call, until the limit cuts the last one."""
    (tmp_path / "t.jinja").write_text(CALLER)
    home = homes(mktiny(tmp_path / "m.gguf", "--seed", 7, "--ctx", 4096, "--template", tmp_path / "t.jinja"))
    home.daemon()
    g = Gateway(home)
    (mark,) = g.post("/tokenize", {"content": "<|im_start|>", "parse_special": True}).json["tokens"]
    body = {**BODY, "tools": TOOLS, "logit_bias": {str(mark): 100}, "seed": 1}
    choice = g.post(CHAT, body).json["choices"][0]
    *calls, last = choice["message"]["tool_calls"]
    assert len(calls) > 1 and choice["finish_reason"] == "length" and last["id"] not in {c["id"] for c in calls}
    for call in calls:
        valid(call)
    assert joined(g.stream(CHAT, body)) == ([*calls, last], choice["message"]["content"] or "", "length")


@pytest.mark.parametrize("more,says,param", [
    ({"parallel_tool_calls": False}, "'parallel_tool_calls'", "parallel_tool_calls"),
    ({"parallel_tool_calls": False, "tool_choice": "required"}, "'parallel_tool_calls'", "parallel_tool_calls"),
    ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, "there is no tool 'no'", None),
    ({"tool_choice": {"type": "function"}}, "'tool_choice'", "tool_choice"), ({"tool_choice": "required", "stop": ["x"]}, "stop", None),
    ({"response_format": {"type": "json_object"}}, "constraint", None), ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", None),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "array", "uniqueItems": True}}}}}]},
     "uniqueItems cannot be enforced", None)])
def test_openai_refused(plain, more, says, param):
    plain.post(CHAT, {**BODY, "tools": TOOLS, **more}).error(400, says, param)


def blocks_of(events):
    """The content and the reason of a stream of Anthropic's API."""
    content = []
    for name, data in events:
        if name == "content_block_start":
            assert data["index"] == len(content)
            content.append({**data["content_block"], **({"input": ""} if data["content_block"]["type"] == "tool_use" else {})})
        if name == "content_block_delta":
            key = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}[data["delta"]["type"]]
            content[data["index"]]["input" if key == "partial_json" else key] += data["delta"][key]
    for block in content:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"])
    return content, events[-2][1]["delta"]["stop_reason"]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}])
def test_anthropic_calls(plain, choice):
    body = {**BODY, "max_tokens": 400, "tools": ANTHROPIC_TOOLS, "tool_choice": choice, "seed": 5}
    r = plain.post(MESSAGES, body).json
    uses = r["content"]
    assert uses and all(b["type"] == "tool_use" for b in uses)
    assert r["stop_reason"] == "tool_use" and (choice["type"] == "any" or [b["name"] for b in uses] == ["weather"])
    for b in uses:
        check({"id": b["id"], "name": b["name"], "arguments": json.dumps(b["input"])})
    assert blocks_of(plain.stream(MESSAGES, body)) == (uses, "tool_use")
    answers = [{"type": "tool_result", "tool_use_id": b["id"], "content": "7"} for b in uses]
    turn = {**body, "messages": [USER, {"role": "assistant", "content": uses}, {"role": "user", "content": answers}], "tool_choice": {"type": "auto"}}
    second = plain.post(MESSAGES, {**turn, "max_tokens": 4}).json
    assert second["content"][0]["type"] == "text" and second["usage"]["input_tokens"] + second["usage"]["cache_read_input_tokens"] > sum(
        r["usage"][k] for k in ("input_tokens", "cache_read_input_tokens"))


def test_both_apis_give_the_model_the_same_prompt(plain):
    """The tools, the calls and their results."""
    (choice,) = plain.post(CHAT, {**BODY, "tools": TOOLS, "tool_choice": NAMED, "seed": 2}).json["choices"]
    (call,) = choice["message"]["tool_calls"]
    tools = [TOOLS[0], {"type": "function", "function": {"name": "now", "parameters": {}}}]
    openai = plain.post(CHAT, {**BODY, "tools": tools, "messages": [USER, choice["message"], *results([call])], "max_tokens": 1}).json
    use = {"type": "tool_use", "id": call["id"], "name": "weather", "input": json.loads(call["function"]["arguments"])}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "7"}
    messages = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    count = plain.post(MESSAGES + "/count_tokens", {"tools": ANTHROPIC_TOOLS, "messages": messages}).json
    assert count == {"input_tokens": openai["usage"]["prompt_tokens"]}


def test_anthropic_one_call_of_any_tool(plain):
    e = plain.post(MESSAGES, {**BODY, "tools": ANTHROPIC_TOOLS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}})
    assert e.status == 400 and "disable_parallel_tool_use" in e.json["error"]["message"]


def test_a_session_keeps_the_calls(plain):
    """The client sends only the results."""
    body = {**BODY, "tools": TOOLS, "seed": 3, "session": "calls"}
    (first,) = plain.post(CHAT, {**body, "tool_choice": NAMED}).json["choices"]
    again = plain.post(CHAT, {**body, "messages": results(first["message"]["tool_calls"]), "max_tokens": 3})
    assert again.status == 200 and again.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, again.body


def test_openai_thinking(thinker):
    body = {**BODY, "max_tokens": 40, "seed": 1, "ignore_eos": True}
    answer = thinker.post(CHAT, {**body, "reasoning_effort": "medium", "think_budget": 6}).json
    on = answer["choices"][0]["message"]
    assert on["reasoning_content"] and on["content"]
    assert 6 <= answer["usage"]["completion_tokens_details"]["reasoning_tokens"] < answer["usage"]["completion_tokens"]
    back = {k: on[k] for k in ("role", "content", "reasoning_content")}
    longer, shorter = (thinker.post(CHAT, {**body, "messages": [USER, m, USER], "max_tokens": 1}).json["usage"]["prompt_tokens"]
                       for m in (back, {**back, "reasoning_content": ""}))
    assert longer > shorter
    off = thinker.post(CHAT, {**body, "reasoning_effort": "none"}).json["choices"][0]["message"]
    assert "reasoning_content" not in off and off["content"]
    thinker.post(CHAT, {**body, "reasoning_effort": "high"}).error(400, "'reasoning_effort'", "reasoning_effort")


def test_thinking_that_cannot_be_turned_off(plain):
    plain.post(CHAT, {**BODY, "reasoning_effort": "none"}).error(422, "cannot turn thinking off")


def test_anthropic_thinking(thinker):
    body = {**BODY, "max_tokens": 200, "seed": 1, "tools": ANTHROPIC_TOOLS, "tool_choice": {"type": "tool", "name": "weather"},
            "thinking": {"type": "enabled", "budget_tokens": 6}}
    r = thinker.post(MESSAGES, body).json
    thought, use = r["content"]
    assert thought["type"] == "thinking" and thought["thinking"] and use["type"] == "tool_use" and r["stop_reason"] == "tool_use"
    assert blocks_of(thinker.stream(MESSAGES, body)) == (r["content"], "tool_use")
    messages = [USER, {"role": "assistant", "content": r["content"]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": use["id"], "content": "7"}]}]
    turn = {**body, "messages": messages, "tool_choice": {"type": "none"}, "max_tokens": 30, "ignore_eos": True}
    second = thinker.post(MESSAGES, {**turn, "thinking": {"type": "disabled"}}).json
    assert [b["type"] for b in second["content"]] == ["text"]
    third = thinker.post(MESSAGES, turn).json
    assert [b["type"] for b in third["content"]] == ["thinking", "text"]
