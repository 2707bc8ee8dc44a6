# SPDX-License-Identifier: MIT
"""Requests as coding agents send them to /v1/messages: fields and headers of betas that change nothing."""
import pytest
from test_anthropic import BODY, MESSAGES
from test_calls import WEATHER, make
from httpgate import JSON, Gateway

AGENT = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "metadata": {"user_id": "user_x_account__session_y"},
         "output_config": {"effort": "high"}, "speed": "standard", "diagnostics": {"previous_message_id": None}, "fallbacks": "default",
         "service_tier": "auto", "mcp_servers": [], "container": None, "inference_geo": "us", "compaction": None,
         "cache_control": {"type": "ephemeral", "ttl": "1h"}}
HEADERS = {**JSON, "anthropic-version": "2023-06-01", "x-api-key": "none", "x-app": "cli",
           "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,prompt-caching-scope-2026-01-05"}


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """A model that thinks unless it is told not to."""
    h = make(tmp_path_factory, "<think>\n")
    yield Gateway(h)
    h.stop()


@pytest.mark.parametrize("keep", ["all", {"type": "all"}])
def test_an_agent(gateway, keep):
    plain = gateway.post(MESSAGES, BODY).json
    AGENT["context_management"]["edits"][0]["keep"] = keep
    system = [{"type": "text", "text": BODY["system"], "cache_control": {"type": "ephemeral", "scope": "global"}}]
    r = gateway.ask("POST", MESSAGES + "?beta=true", {**BODY, **AGENT, "system": system}, HEADERS)
    assert r.status == 200 and r.json["content"] == plain["content"], r.body
    body = {**BODY, **AGENT, "max_tokens": None}
    count = gateway.ask("POST", MESSAGES + "/count_tokens?beta=true", body, HEADERS).json
    assert count == {"input_tokens": plain["usage"]["input_tokens"] + plain["usage"]["cache_read_input_tokens"]}


def test_a_tool_of_an_agent(gateway, thinker):
    tool = {"name": "weather", "description": "d", "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", **WEATHER}}
    more = {"defer_loading": False, "eager_input_streaming": True, "allowed_callers": ["direct"], "input_examples": [], "type": "custom"}
    one, other = (thinker.post(MESSAGES + "/count_tokens", {**BODY, "tools": [t]}) for t in (tool, {**tool, **more}))
    assert one.status == 200 and one.json == other.json, (one.body, other.body)


@pytest.mark.parametrize("kind", ["adaptive", "enabled"])
def test_the_display_of_thinking(thinker, kind):
    def types(**more):
        thinking = {"type": kind, "block_binding": {"prefix_mismatch_behavior": "drop_block"}, **more}
        if kind == "enabled":
            thinking["budget_tokens"] = 5
        r = thinker.post(MESSAGES, {**BODY, "max_tokens": 40, "thinking": thinking})
        assert r.status == 200, r.body
        return [b["type"] for b in r.json["content"]], r.json["usage"]["output_tokens"]

    shown, n = types()
    assert "thinking" in shown and types(display="summarized") == (shown, n)
    hidden, m = types(display="omitted")
    assert hidden == ["text"] and m == n


def test_a_system_message_between_others(gateway):
    """It is the same conversation in OpenAI's API."""
    messages = [*BODY["messages"], {"role": "assistant", "content": "three"}, {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
                {"role": "user", "content": "four"}]
    r = gateway.post(MESSAGES, {**BODY, "messages": messages})
    assert r.status == 200, r.body
    chat = [{"role": "system", "content": BODY["system"]}, *messages]
    same = gateway.post("/v1/chat/completions", {"messages": chat, "max_tokens": 6, "temperature": 0}).json
    assert r.json["content"][0]["text"] == same["choices"][0]["message"]["content"]
    usage = r.json["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == same["usage"]["prompt_tokens"]
