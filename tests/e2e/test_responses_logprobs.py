# SPDX-License-Identifier: MIT
"""Log probabilities in /v1/responses: those of chat completions."""
from httpgate import DONE, begin, events_of, rest
from responsesgate import BODY, PATH, post, stored

WANTED = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}


def without_bytes(tokens):
    return [{**{k: v for k, v in t.items() if k != "bytes"}, "top_logprobs": [{k: v for k, v in x.items() if k != "bytes"} for x in t["top_logprobs"]]}
            for t in tokens]


def test_they_are_those_of_a_chat(gateway):
    chat = gateway.chat(BODY["input"], max_tokens=8, logprobs=True, top_logprobs=2).json["choices"][0]["logprobs"]["content"]
    r = post(gateway, **WANTED)
    (part,) = r["output"][0]["content"]
    assert part["logprobs"] == chat and len(chat) > 1 and r["top_logprobs"] == 2
    kept = stored(gateway, r)
    assert kept["output"][0]["content"][0] == {**part, "logprobs": []} and {**kept, "output": r["output"]} == r
    assert post(gateway, include=WANTED["include"])["output"][0]["content"][0]["logprobs"] == [{**t, "top_logprobs": []} for t in chat]
    assert post(gateway, top_logprobs=0)["output"][0]["content"][0]["logprobs"] == []
    again = post(gateway, input=[{"role": "user", "content": BODY["input"]}, *r["output"], {"role": "user", "content": "x"}])
    assert again["usage"]["input_tokens"] > r["usage"]["total_tokens"]


def test_a_stream(gateway):
    whole = post(gateway, **WANTED)["output"][0]["content"][0]["logprobs"]
    events = gateway.stream(PATH, {**BODY, **WANTED})
    assert [t for n, d in events if n == "response.output_text.delta" for t in d["logprobs"]] == without_bytes(whole)
    data = dict(events)
    assert data["response.output_text.done"]["logprobs"] == without_bytes(whole)
    for part in (data["response.content_part.done"]["part"], data["response.output_item.done"]["item"]["content"][0],
                 data["response.incomplete"]["response"]["output"][0]["content"][0]):
        assert part["logprobs"] == whole


def test_tokens_without_text(fake):
    """The token that begins a character counts with the text that it becomes; tokens of thinking and of calls have no place."""
    s, call = begin(fake, path=PATH, messages=None, max_tokens=None, input="x", **WANTED)
    assert call.request["top_logprobs"] == 2
    call.event("prefill", total=5, cached=2)
    call.event("text", text="Hm", channel="thinking", top=[[5, -1.0, b"Hm"]])
    call.event("text", text="", top=[[7, -0.5, b"\xe2\x82"], [8, float("-inf"), b"x"]])
    call.event("text", text="\u20ac", top=[[9, -0.25, b"\xac"]])
    call.event("text", text="", top=[[4, -0.75, b"<"]])
    call.event("tool_call", call=0, call_id="a", name="now", arguments="{}")
    call.event("text", text="", top=[[2, -0.125, b""]])
    call.event("done", **{**DONE, "reason": "tool_calls"})
    events = events_of(rest(s)[2])
    (delta,) = [d for n, d in events if n == "response.output_text.delta"]
    assert delta["delta"] == "\u20ac" and [t["logprob"] for t in delta["logprobs"]] == [-0.5, -0.25]
    output = events[-1][1]["response"]["output"]
    assert [o["type"] for o in output] == ["reasoning", "message", "function_call"] and "logprobs" not in output[0]["content"][0]
    assert [t["bytes"] for t in output[1]["content"][0]["logprobs"]][:2] == [[0xe2, 0x82], [0xac]]
