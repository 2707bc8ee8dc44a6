# SPDX-License-Identifier: MIT
"""The fields of a request: a field that would change the answer and cannot is refused by its name, a harmless one ignored."""
import pytest

TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
IMAGE = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]


@pytest.mark.parametrize("name,value", [
    ("functions", [{}]), ("function_call", "auto"), ("reasoning_effort", "low"), ("tool_choice", "required"), ("tool_choice", "named"),
    ("audio", {"voice": "x"}), ("modalities", ["text", "audio"]), ("verbosity", "low"),
    ("web_search_options", {"x": 1}), ("temprature", 1)])
def test_refused(gateway, name, value):
    gateway.chat(**{name: value}).error(400, f"'{name}'", name)


@pytest.mark.parametrize("name,value", [
    ("temperature", "hot"), ("temperature", -1), ("top_p", 7), ("max_tokens", 1.5), ("max_tokens", -4), ("max_tokens", True), ("n", 0), ("n", 33),
    ("seed", "x"), ("seed", -2), ("stop", [""]), ("stop", ["x"] * 17), ("stop", 4), ("logit_bias", {"word": 1}), ("logit_bias", [1]),
    ("logit_bias", {"1": "x"}), ("logit_bias", {"1": 101}), ("stream", "yes"), ("stream_options", {"x": True}), ("priority", "high"), ("context", "x"),
    ("timeout", "soon"), ("timeout", -1), ("session", 5), ("model", 5), ("prompt_cache_key", "x" * 300), ("messages", []), ("messages", "hi"),
    ("messages", [5]), ("messages", [{"content": "x"}]), ("messages", [{"role": "user"}]), ("messages", [{"role": "user", "content": 5}]),
    ("messages", [{"role": "tool", "content": "x"}]), ("messages", [{"role": "user", "content": IMAGE}]),
    ("messages", [{"role": "assistant", "content": None, "tool_calls": [TOOL]}]), ("response_format", "json"), ("tools", {}), ("tools", ["f"]),
    ("tools", [{"type": "custom", "custom": {"name": "f"}}]), ("tool_choice", {"type": "allowed_tools"}), ("parallel_tool_calls", 0),
    ("reasoning_effort", 1), ("think_budget", -1), ("think_budget", "x")])
def test_wrong(gateway, name, value):
    r = gateway.chat(**{name: value})
    assert r.status == 400 and r.json["error"]["message"], (r.status, r.body)


def test_harmless(gateway):
    more = {"user": "me", "metadata": {"a": "b"}, "store": False, "service_tier": "auto", "parallel_tool_calls": True, "tools": [], "tool_choice": "none",
            "logprobs": False, "top_logprobs": None, "safety_identifier": "x", "prediction": {"type": "content", "content": "x"}, "modalities": ["text"],
            "n": None, "stop": None, "response_format": {"type": "text"}, "cache_prompt": True}
    assert gateway.chat(**more).json["choices"] == gateway.chat().json["choices"]


def test_what_is_told_of_a_daemon(fake):
    """Each field has the key of hob-protocol(7) that it is documented to have."""
    import threading
    body = {"prompt_cache_key": "k", "session": "s", "fork": "f", "priority": "batch", "context": "shift", "timeout": "1.5s", "n": 2,
            "ignore_eos": True, "seed": -1, "stop": ["a"], "logit_bias": {"7": -100}}
    t = threading.Thread(target=fake.gateway.chat, kwargs=body)
    t.start()
    call = fake.call()
    q = call.request
    assert q["messages"] == [{"role": "user", "content": "Once upon a time"}] and q["max_tokens"] == 8 and q["temperature"] == 0
    assert (q["salt"], q["session"], q["fork"], q["priority"], q["context"], q["timeout_ms"], q["n"]) == ("k", "s", "f", "batch", "shift", 1500, 2)
    assert q["ignore_eos"] is True and "seed" not in q and q["stop"] == ["a"] and q["logit_bias"] == [[7, -100]]
    call.event("error", code="EBUSY", message="busy")
    t.join()
