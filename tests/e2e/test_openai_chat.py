# SPDX-License-Identifier: MIT
"""POST /v1/chat/completions before the real daemon: the same answers as over its socket, in OpenAI's form."""
import json

import pytest
from hobproto import Client

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 8, "temperature": 0}


def test_the_answer_is_that_of_the_socket(gateway, shared):
    text = "tell me about rivers and mountains"
    r = gateway.chat(text, seed=3, temperature=0.8).json
    with Client(shared.socket) as c:
        a = c.answer(text, max_tokens=8, temperature=0.8, seed=3)
    assert r["choices"] == [{"index": 0, "message": {"role": "assistant", "content": a.text, "refusal": None}, "logprobs": None,
                             "finish_reason": "length"}]
    assert r["object"] == "chat.completion" and r["id"].startswith("chatcmpl-") and r["model"] == "default" and r["created"] > 1e9
    assert r["usage"] == {"prompt_tokens": a.usage["prompt"], "completion_tokens": 8, "total_tokens": a.usage["prompt"] + 8,
                          "prompt_tokens_details": {"cached_tokens": r["usage"]["prompt_tokens_details"]["cached_tokens"]},
                          "completion_tokens_details": {"reasoning_tokens": 0}}


def test_a_stream_has_the_same_text(gateway):
    whole = gateway.chat().json["choices"][0]
    events = gateway.stream(CHAT, BODY)
    assert events[-1] == (None, "[DONE]")
    chunks = [data for _, data in events[:-1]]
    assert len({c["id"] for c in chunks}) == 1 and all(c["object"] == "chat.completion.chunk" and "usage" not in c for c in chunks)
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
    assert "".join(d.get("content", "") for d in deltas) == whole["message"]["content"]
    reasons = [c["choices"][0]["finish_reason"] for c in chunks]
    assert reasons == [None] * (len(reasons) - 1) + [whole["finish_reason"]]


def test_usage_in_a_stream(gateway):
    events = gateway.stream(CHAT, {**BODY, "stream_options": {"include_usage": True}})
    assert all(data["usage"] is None for _, data in events[:-2])
    last = events[-2][1]
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == 8


def test_a_conversation_computes_only_what_is_new(gateway):
    """The client sends all messages again; the blocks of 32 tokens before the new ones are found."""
    messages = [{"role": "system", "content": "You know all rivers of the world and their lengths by heart."},
                {"role": "user", "content": "name the rivers that flow into the northern seas"}]
    first = gateway.post(CHAT, {**BODY, "messages": messages, "max_tokens": 4}).json
    messages += [first["choices"][0]["message"], {"role": "user", "content": "and now?"}]
    messages[2].pop("refusal")
    second = gateway.post(CHAT, {**BODY, "messages": messages}).json
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"] // 32 * 32 > 0


def test_several_answers(gateway):
    r = gateway.chat(n=3, temperature=1.5, seed=4).json
    texts = [c["message"]["content"] for c in r["choices"]]
    assert [c["index"] for c in r["choices"]] == [0, 1, 2] and len(set(texts)) > 1 and r["usage"]["completion_tokens"] == 24
    events = gateway.stream(CHAT, {**BODY, "n": 3, "temperature": 1.5, "seed": 4})
    got = ["", "", ""]
    for _, data in events[:-1]:
        for choice in data["choices"]:
            got[choice["index"]] += choice["delta"].get("content", "")
    assert got == texts
    assert sum(data["choices"][0]["finish_reason"] is not None for _, data in events[:-1]) == 3


def test_stop(gateway):
    text = gateway.chat(max_tokens=16).json["choices"][0]["message"]["content"]
    for stop in (text[4:7], [text[4:7], "zzz"]):
        r = gateway.chat(max_tokens=16, stop=stop).json["choices"][0]
        assert r["finish_reason"] == "stop" and r["message"]["content"] == text[:text.index(text[4:7])]


def test_sampling_fields_reach_the_daemon(gateway, shared):
    wire = {"temperature": 1.2, "top_p": 0.9, "top_k": 5, "min_p": 0.01, "typical_p": 0.9, "repeat_penalty": 1.1, "repeat_last_n": 3,
            "frequency_penalty": 0.5, "presence_penalty": 0.25, "seed": 11, "max_tokens": 12}
    with Client(shared.socket) as c:
        expected = c.answer("a list of words", **wire).text
    assert gateway.chat("a list of words", **wire).json["choices"][0]["message"]["content"] == expected
    (first,) = gateway.post("/tokenize", {"content": expected[:1]}).json["tokens"][:1]
    biased = gateway.chat("a list of words", logit_bias={str(first): 100}, max_tokens=4).json["choices"][0]["message"]["content"]
    assert biased == expected[:1] * 4


def test_max_completion_tokens(gateway):
    body = {k: v for k, v in BODY.items() if k != "max_tokens"}
    assert gateway.post(CHAT, {**body, "max_completion_tokens": 3}).json["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("form", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
    "type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}}}])
def test_response_format(gateway, form):
    text = gateway.chat(response_format=form, max_tokens=60, temperature=1).json["choices"][0]["message"]["content"]
    said = json.loads(text)
    assert isinstance(said, dict) and (form["type"] == "json_object" or set(said) == {"a"})


def test_a_schema_that_cannot_be_enforced_is_refused(gateway):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strin"}}}
    assert gateway.chat(response_format=form).error(400, "/type")["code"] == "constraint_not_supported"
    gateway.chat(response_format={"type": "xml"}).error(400, "json_schema", "response_format")


def test_a_context_that_is_too_small(gateway):
    e = gateway.chat("word " * 2000).error(400, "")
    assert e["code"] == "context_length_exceeded"


def test_sessions(gateway, shared):
    """The client sends only the new message."""
    gateway.chat("my name is Ada", session="http-a", max_tokens=4)
    second = gateway.chat("who am I?", session="http-a", max_tokens=4).json
    with Client(shared.socket) as c:
        messages = c.session("http-a")["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant"] * 2
        assert messages[3]["content"] == second["choices"][0]["message"]["content"]
        assert c.ask("session.remove", name="http-a")["event"] == "ok"
    gateway.chat("x", session="a/b").error(400, "session")


@pytest.mark.parametrize("n", [0, -1, 1.5, "8"])
def test_a_number_of_tokens_that_is_none(gateway, n):
    for field in ("max_tokens", "max_completion_tokens"):
        body = {k: v for k, v in BODY.items() if k != "max_tokens"}
        e = gateway.post(CHAT, {**body, field: n}).error(400, "an integer, 1 or more")
        assert e["param"] == field
