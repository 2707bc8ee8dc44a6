# SPDX-License-Identifier: MIT
"""POST /v1/messages before the real daemon."""
import pytest
from hobproto import Client

MESSAGES = "/v1/messages"
BODY = {"model": "default", "system": "be brief", "messages": [{"role": "user", "content": "one two"}], "max_tokens": 6, "temperature": 0}


def answer(shared):
    with Client(shared.socket) as c:
        return c.answer(messages=[{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two"}], max_tokens=6, temperature=0)


def test_a_message(gateway, shared):
    a = answer(shared)
    parts = [{"type": "text", "text": "be ", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "brief"}]
    for system in ("be brief", parts):
        r = gateway.post(MESSAGES, {**BODY, "system": system, "metadata": {"user_id": "x"}, "thinking": {"type": "disabled"}, "tools": []}).json
        usage = r.pop("usage")
        assert r.pop("id").startswith("msg_")
        assert r == {"type": "message", "role": "assistant", "model": "default", "content": [{"type": "text", "text": a.text}],
                     "stop_reason": "max_tokens", "stop_sequence": None}
        assert usage["input_tokens"] + usage["cache_read_input_tokens"] == a.usage["prompt"] and usage["output_tokens"] == 6


def test_a_stream(gateway, shared):
    a = answer(shared)
    events = gateway.stream(MESSAGES, BODY)
    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events if name != "ping"]
    assert names[:2] == ["message_start", "content_block_start"] and names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[2:-3]) == {"content_block_delta"}
    assert "".join(d["delta"]["text"] for n, d in events if n == "content_block_delta") == a.text
    start, end = events[0][1]["message"], events[-2][1]
    assert start["content"] == [] and start["stop_reason"] is None
    assert start["usage"]["input_tokens"] + start["usage"]["cache_read_input_tokens"] == a.usage["prompt"]
    assert end["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None} and end["usage"]["output_tokens"] == 6


def test_count_tokens(gateway, shared):
    """Without the cost of computing them."""
    body = {k: v for k, v in BODY.items() if k not in ("max_tokens", "temperature")}
    assert gateway.post(MESSAGES + "/count_tokens", body).json == {"input_tokens": answer(shared).usage["prompt"]}


@pytest.mark.parametrize("change,says", [
    ({"max_tokens": None}, "'max_tokens' is missing"), ({"messages": []}, "'messages'"), ({"messages": None}, "'messages'"),
    ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "'budget_tokens'"), ({"thinking": {"type": "some"}}, "'thinking'"),
    ({"thinking": {"type": "disabled", "budget_tokens": 5}}, "'thinking'"), ({"thinking": {"type": "enabled", "display": "updates"}}, "'display'"),
    ({"thinking": {"type": "adaptive", "mode": 1}}, "'mode'"), ({"speed": "fast"}, "'speed'"), ({"compaction": {"type": "x"}}, "'compaction'"),
    ({"thread": {"id": "x"}}, "'thread'"), ({"context_management": 5}, "'context_management'"), ({"context_management": {"x": 1}}, "'x'"),
    ({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, "unless 'keep' is \"all\""),
    ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}]}}, "'keep'"),
    ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "'clear_tool_uses_20250919'"),
    ({"context_management": {"edits": ["x"]}}, "the edit ''"), ({"context_management": {"edits": "x"}}, "'edits'"),
    ({"output_config": {"task_budget": {"type": "tokens", "total": 9}}}, "'task_budget'"),
    ({"tools": [{"name": "f", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]}, "'allowed_callers'"),
    ({"tools": [{"name": "f", "input_schema": {}, "input_examples": [{}]}]}, "'input_examples'"),
    ({"tools": [{"name": "f"}]}, "tools[0]"), ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "'bash_20250124'"),
    ({"tools": [{"name": "f", "input_schema": {}, "defer_loading": True}]}, "'defer_loading'"), ({"n": 2}, "'n'"),
    ({"output_config": {"format": {"type": "text"}}}, "'output_config'"), ({"output_config": {"other": 1}}, "'other'"), ({"output_config": 5}, "'output_config'"),
    ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "strin"}}}}, "/type"),
    ({"tool_choice": {"type": "any"}}, "'tools' is missing"), ({"tool_choice": "auto"}, "'tool_choice'"), ({"tool_choice": {"type": "tool"}}, "name"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "role"), ({"messages": [{"role": "system", "content": "x", "clear_at": 1}]}, "'clear_at'"), ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "'source'"),
    ({"system": 5}, "system"), ({"stop_sequences": [""]}, "'stop_sequences'")])
def test_refused(gateway, change, says):
    r = gateway.post(MESSAGES, {**BODY, **change})
    e = r.json
    assert r.status == 400 and e["type"] == "error" and e["error"]["type"] == "invalid_request_error" and says in e["error"]["message"], e
