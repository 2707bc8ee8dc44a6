# SPDX-License-Identifier: MIT
"""Thinking and tool calls over the socket: a tiny random model answers, and its calls are valid all the same."""
import json

import pytest
from conftest import Home, mktiny

TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nPROMPT{% endif %}")
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"

WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1,
           "maximum": 7}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": WEATHER}},
         {"type": "function", "function": {"name": "now"}}]
HOT = {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def make(tmp_path_factory, prompt):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "t.jinja").write_text(TEMPLATE.replace("PROMPT", prompt))
    home = Home(tmp_path_factory.mktemp("home"),
                mktiny(folder / "m.gguf", "--seed", 7, "--ctx", 4096, "--template", folder / "t.jinja"))
    home.d = home.daemon()
    return home


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The prompt opens no thought."""
    h = make(tmp_path_factory, "")
    yield h
    h.stop()


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """The prompt opens a thought, unless it is told not to."""
    h = make(tmp_path_factory, SWITCH)
    yield h
    h.stop()


def calls_of(events, index=0):
    found = {}
    for e in events:
        if e["event"] == "tool_call" and e["index"] == index:
            assert not e.get("withdrawn")
            call = found.setdefault(e["call"], {"id": e.get("call_id"), "name": e.get("name"), "arguments": ""})
            call["arguments"] += e["arguments"]
    return [found[i] for i in sorted(found)]


def text_of(events, channel, index=0):
    return "".join(e["text"] for e in events if e["event"] == "text" and e["channel"] == channel and e["index"] == index)


def check(call):
    args = json.loads(call["arguments"])
    assert call["id"]
    if call["name"] == "now":
        assert args == {}
        return
    assert call["name"] == "weather" and {"city", "unit"} <= set(args) <= {"city", "days", "unit"}, call
    assert len(args["city"]) <= 8 and args["unit"] in ("C", "F") and args.get("days", 1) in range(1, 8), call


def test_required_calls_are_valid(plain):
    c = plain.client()
    assert {"thinking", "tools"} <= set(c.hello["features"])
    seen = set()
    for seed in range(16):
        a = c.answer("?", tools=json.dumps(TOOLS), tool_choice="required", seed=seed, max_tokens=60 + 15 * seed, **HOT)
        assert a.end["event"] == "done" and a.end["reason"] in ("tool_calls", "length"), a.end
        calls = calls_of(a.events)
        assert calls and text_of(a.events, "answer") == "" and len({x["id"] for x in calls}) == len(calls)
        for call in calls:
            check(call)
        seen |= {x["name"] for x in calls}
    assert seen == {"weather", "now"}


def test_a_named_tool_is_called_once(plain):
    c = plain.client()
    for seed in range(8):
        a = c.answer("?", tools=json.dumps(TOOLS), tool_choice="named", tool_name="weather", seed=seed, **HOT)
        calls = calls_of(a.events)
        assert a.end["reason"] == "tool_calls" and [x["name"] for x in calls] == ["weather"], a.events
        check(calls[0])


def test_several_answers_and_a_restart(plain):
    keys = {"tools": json.dumps(TOOLS), "tool_choice": "required", "seed": 3, "logprobs": True, "max_tokens": 150, **HOT}
    c = plain.client()
    alone = c.answer("?", **keys)
    i = c.generate("?", n=3, **keys)
    events = []
    while not (events and events[-1]["event"] in ("done", "error") and not events[-1].get("more")):
        events += [e for e in [c.recv()] if e.get("id") == i]
    assert calls_of(events) == calls_of(alone.events)
    for k in range(3):
        assert calls_of(events, k)
        for call in calls_of(events, k):
            check(call)
    ids = [call["id"] for k in range(3) for call in calls_of(events, k)]
    assert len(set(ids)) == len(ids), ids
    plain.d = plain.restart(plain.d)
    again = plain.client().answer("?", **keys)
    assert (again.ids, again.logprobs, calls_of(again.events)) == (alone.ids, alone.logprobs, calls_of(alone.events))


def test_what_is_refused(plain):
    c = plain.client()
    bad = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "array", "uniqueItems": True}}}}}]
    for keys, code, says in (
            ({"tools": json.dumps(bad)}, "EDOM", "tools[0].function.parameters (f): uniqueItems cannot be enforced at #/properties/a/uniqueItems"),
            ({"tools": json.dumps([{"type": "function", "function": {}}])}, "EINVAL", "tools[0].function.name"),
            ({"tools": json.dumps(TOOLS), "tool_choice": "named", "tool_name": "no"}, "EINVAL", "there is no tool 'no'"),
            ({"thinking": "off"}, "EOPNOTSUPP", "cannot turn thinking off")):
        (e,) = c.answer("?", **keys).events
        assert e["event"] == "error" and e["code"] == code and says in e["message"], e


def test_messages_with_calls_reach_the_template(plain):
    c = plain.client()
    user, answer = {"role": "user", "content": "?"}, {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
        {"id": "abc", "name": "weather", "arguments": '{"city": "K", "unit": "C"}'}]}
    result = {"role": "tool", "content": "rain", "tool_call_id": "abc", "name": "weather"}
    shown = ('<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\n<tool_call>\n{"name": "weather", '
             '"arguments": {"city": "K", "unit": "C"}}\n</tool_call><|im_end|>\n<|im_start|>tool\nrain<|im_end|>\n<|im_start|>assistant\n')
    a = c.answer(messages=[user, answer, result], max_tokens=1, temperature=0)
    raw = c.answer(shown, raw=True, special=True, max_tokens=1, temperature=0)
    assert a.usage["prompt"] == raw.usage["prompt"] and raw.usage["cached"] > 0
    answer["tool_calls"][0]["arguments"] = "{"
    e = c.answer(messages=[user, answer, result]).end
    assert e["code"] == "EINVAL" and "arguments" in e["message"]


def test_budget_of_thinking(thinker):
    c = thinker.client()
    for seed in range(6):
        a = c.answer("?", think_budget=seed * 3, max_tokens=60, seed=seed, ignore_eos=True, logprobs=True, **HOT)
        events = [e for e in a.events if e["event"] == "text"]
        used = sum(len(e["ids"]) for e in events if e["channel"] == "thinking")
        assert text_of(a.events, "answer") and "</think>" not in text_of(a.events, "answer")
        assert used <= seed * 3 + 20, (used, events)
    long = c.answer("?", max_tokens=60, seed=1, ignore_eos=True, **HOT)
    assert text_of(long.events, "answer") == "" and text_of(long.events, "thinking")


def test_constraints_begin_after_thinking(thinker):
    c = thinker.client()
    for seed in range(6):
        a = c.answer("?", think_budget=7, max_tokens=200, seed=seed, constraint={"type": "choice", "choices": ["left", "right"]}, **HOT)
        assert text_of(a.events, "answer") in ("left", "right") and text_of(a.events, "thinking"), a.events
        a = c.answer("?", think_budget=7, max_tokens=200, seed=seed, tools=json.dumps(TOOLS), tool_choice="required", **HOT)
        assert calls_of(a.events) and text_of(a.events, "thinking") and text_of(a.events, "answer") == "", a.events
        for call in calls_of(a.events):
            check(call)


def test_thinking_off(thinker):
    a = thinker.client().answer("?", thinking="off", max_tokens=20, seed=1, ignore_eos=True, **HOT)
    assert text_of(a.events, "answer") and not text_of(a.events, "thinking")


def test_a_session_keeps_thought_and_calls(thinker):
    c = thinker.client()
    user = {"role": "user", "content": "?"}
    a = c.answer(messages=[user], session="s", tools=json.dumps(TOOLS), tool_choice="required", think_budget=4, seed=2, uuid="u-1", **HOT)
    calls = calls_of(a.events)
    assert calls and a.end["reason"] == "tool_calls", a.end
    kept = c.session("s")["messages"]
    assert kept[1]["role"] == "assistant" and kept[1]["content"] == "" and kept[1]["thinking"] == text_of(a.events, "thinking")
    assert kept[1]["tool_calls"] == calls
    again = c.answer(messages=[user], session="s", uuid="u-1")  # the same turn
    assert calls_of(again.events) == calls and again.end["reason"] == "tool_calls"
    results = [{"role": "tool", "content": "7", "tool_call_id": x["id"], "name": x["name"]} for x in calls]
    thinker.d = thinker.restart(thinker.d)
    c = thinker.client()
    assert c.session("s")["messages"] == kept
    b = c.answer(messages=results, session="s", tools=json.dumps(TOOLS), max_tokens=4, seed=1, temperature=0)
    assert b.end["event"] == "done", b.end
    more = c.answer(messages=[user], session="s", tools=json.dumps(TOOLS), tool_choice="required", think_budget=4, seed=2, **HOT)
    assert not {x["id"] for x in calls_of(more.events)} & {x["id"] for x in calls}
    late = c.answer(messages=[user], session="s", uuid="u-1")  # other turns followed, and a restart
    assert calls_of(late.events) == calls and late.end["reason"] == "tool_calls"
    assert b.usage["prompt"] > a.usage["prompt"] + 8 and b.usage["cached"] >= a.usage["prompt"] // 32 * 32, b.usage
    assert [m["role"] for m in c.session("s")["messages"]] == ["user", "assistant", *["tool"] * len(results), "assistant", "user", "assistant"]
    assert c.ask("session.fork", name="s", to="t")["event"] == "ok" and c.session("t")["messages"] == c.session("s")["messages"]
    for name in ("s", "t"):
        c.ask("session.remove", name=name)


def test_what_a_lenient_schema_ignores(plain):
    c = plain.client()
    schema = json.dumps({"type": "object", "properties": {"b": {"const": 1}, "a": {"type": "array", "uniqueItems": True, "items":
                         {"type": "integer"}, "maxItems": 2}}, "required": ["b", "a"], "additionalProperties": False})
    keys = {"constraint": {"type": "schema", "text": schema}, "think_budget": 0, "seed": 4, **HOT}
    assert c.answer("?", **keys).end["code"] == "EDOM"
    for _ in range(2):  # compiled, and from the cache
        a = c.answer("?", schema_lenient=True, compact=True, **keys)
        warnings = [e["message"] for e in a.events if e["event"] == "warning"]
        assert len(warnings) == 1 and "#/properties/a" in warnings[0] and "uniqueItems" in warnings[0], warnings
        text = text_of(a.events, "answer")
        assert json.loads(text)["b"] == 1 and " " not in text and "\n" not in text
    answers = [c.answer("?", schema_lenient=True, any_order=True, **{**keys, "seed": s}) for s in range(12)]
    assert {list(json.loads(text_of(a.events, "answer")))[0] for a in answers} == {"a", "b"}


def test_a_cut_call(plain):
    """A free answer has no calls here; a cancelled or refused one leaves the daemon as it was."""
    c = plain.client()
    a = c.answer("?", tools=json.dumps(TOOLS), max_tokens=8, seed=1, **HOT)
    assert a.end["reason"] in ("stop", "length") and not calls_of(a.events)
    a = c.answer("?", tools=json.dumps(TOOLS), tool_choice="none", constraint={"type": "choice", "choices": ["x"]},
                 think_budget=0)
    assert text_of(a.events, "answer") == "x" and not calls_of(a.events)
    e = c.answer("?", tools=json.dumps(TOOLS), tool_choice="required", max_tokens=5).end
    assert e["code"] == "EDOM" and "5 tokens" in e["message"], e


CALLER = (
    "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<|im_start|>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</call>{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}")


def test_a_template_without_thinking(homes, tmp_path):
    """It has no thinking to limit; it has none that is on."""
    (tmp_path / "t.jinja").write_text(CALLER)
    home = homes(mktiny(tmp_path / "m.gguf", "--seed", 7, "--template", tmp_path / "t.jinja"))
    home.daemon()
    c = home.client()
    for keys in ({"think_budget": 5}, {"think_budget": 0}, {"thinking": "on"}):
        e = c.answer("?", max_tokens=2, **keys).end
        assert e["code"] == "EOPNOTSUPP" and "has no thinking" in e["message"], e
    assert c.answer("?", thinking="off", max_tokens=2).end["event"] == "done"


def test_free_answers_with_calls(homes, tmp_path):
    """A model that likes the mark of a call: behind it the arguments are valid, though no call is required."""
    (tmp_path / "t.jinja").write_text(CALLER)
    home = homes(mktiny(tmp_path / "m.gguf", "--seed", 7, "--ctx", 4096, "--template", tmp_path / "t.jinja"))
    home.daemon()
    c = home.client()
    (mark,) = c.ask("tokenize", text="<|im_start|>", special=True)["ids"]
    keys = {"tools": json.dumps(TOOLS), "logit_bias": [[mark, 100]], "max_tokens": 300, **HOT}
    for seed in range(6):
        a = c.answer("?", seed=seed, **keys)
        calls = calls_of(a.events)
        assert len(calls) > 1 and a.end["reason"] == "length" and not [e for e in a.events if e["event"] == "warning"], a.events
        for call in calls[:-1]:
            check(call)
        assert calls[-1]["name"] in ("weather", "now") and "".join(text_of(a.events, "answer").split()) == ""
    few = c.answer("?", seed=1, **{**keys, "max_tokens": 12})
    assert few.end["reason"] == "length" and few.usage["completion"] == 12
    free = c.answer("?", seed=1, **{**keys, "tools": json.dumps(TOOLS), "tool_choice": "none", "max_tokens": 20})
    assert not calls_of(free.events) and free.end["reason"] == "length"
