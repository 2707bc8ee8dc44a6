# SPDX-License-Identifier: MIT
"""logprobs, top_logprobs and echo: the numbers are the daemon's."""
import json
import struct

import pytest
from httpgate import DONE, begin, rest

TEXT = "Once upon a time"
MESSAGES = [{"role": "user", "content": TEXT}]
SAME = {"max_tokens": 12, "temperature": 0.8, "seed": 3}


def told(home, **keys):
    """The tokens that the daemon tells: id, logprob and bytes of the sampled one and of the others."""
    with home.client() as c:
        a = c.answer(keys.pop("prompt", None), **SAME, **keys)
        assert a.end["event"] == "done", a.end
        return a, [e["top"] for e in a.events if "top" in e]


def check_token(t, top):
    assert bytes(t["bytes"]) == top[2] and t["token"] == top[2].decode(errors="replace") or "\ufffd" in t["token"]
    assert t["logprob"] == pytest.approx(max(top[1], -9999.0))


def shown(tops):
    """A control token ends the answer."""
    return [t for t in tops if t[0][2]]


def test_the_protocol(shared):
    a, tops = told(shared, messages=MESSAGES, top_logprobs=4)
    assert [t[0][0] for t in tops] == a.ids and len(tops) == a.usage["completion"]
    assert [struct.pack("<f", t[0][1]) for t in tops] == a.logprobs
    assert b"".join(t[0][2] for t in shown(tops)).decode(errors="replace").startswith(a.text.rstrip("\ufffd"))
    for t in tops:
        likely = [x[1] for x in t[1:]]
        assert len(likely) == 4 and likely == sorted(likely, reverse=True) and likely[0] >= t[0][1]
    _, none = told(shared, messages=MESSAGES, top_logprobs=0)
    assert [t[0] for t in none] == [t[0] for t in tops] and all(len(t) == 1 for t in none)


def test_greedy_tokens_are_those_of_the_socket_and_of_hob(gateway, shared):
    with shared.client() as c:
        a = c.answer(messages=MESSAGES, top_logprobs=0, max_tokens=12, temperature=0)
    tops = [e["top"][0] for e in a.events if "top" in e]
    ids, logprobs, text = shared.ask(TEXT, n=12, temp=0).bits
    assert ids == a.ids == [t[0] for t in tops] and len(ids) > 1
    assert [struct.pack("<f", x) for x in logprobs] == a.logprobs and text == a.text
    choice = gateway.chat(TEXT, max_tokens=12, logprobs=True).json["choices"][0]
    tokens = [(bytes(t["bytes"]), struct.pack("<f", t["logprob"])) for t in choice["logprobs"]["content"]]
    assert tokens == [(t[2], struct.pack("<f", t[1])) for t in tops if t[2]] and choice["message"]["content"] == a.text


def test_chat(gateway, shared):
    _, tops = told(shared, messages=MESSAGES, top_logprobs=3)
    r = gateway.post("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "top_logprobs": 3, **SAME}).json
    tokens = r["choices"][0]["logprobs"]["content"]
    assert len(tokens) == len(shown(tops)) > 1 and r["choices"][0]["logprobs"]["refusal"] is None
    for t, top in zip(tokens, shown(tops)):
        check_token(t, top[0])
        assert len(t["top_logprobs"]) == 3 and set(t["top_logprobs"][0]) == {"token", "logprob", "bytes"}
        for likely, other in zip(t["top_logprobs"], top[1:]):
            check_token(likely, other)
    events = gateway.stream("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "top_logprobs": 3, **SAME})
    pieces = [e["choices"][0]["logprobs"] for _, e in events if e != "[DONE]"]
    assert [t for p in pieces if p for t in p["content"]] == tokens
    plain = gateway.post("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, **SAME}).json
    assert all(t["top_logprobs"] == [] for t in plain["choices"][0]["logprobs"]["content"])
    none = gateway.post("/v1/chat/completions", {"messages": MESSAGES, "logprobs": False, **SAME}).json
    assert none["choices"][0]["logprobs"] is None and none["choices"][0]["message"] == r["choices"][0]["message"]


def test_completions(gateway, shared):
    _, tops = told(shared, prompt=TEXT, raw=True, top_logprobs=2)
    r = gateway.post("/v1/completions", {"prompt": TEXT, "logprobs": 2, **SAME}).json["choices"][0]
    p = r["logprobs"]
    assert len(p["tokens"]) == len(p["token_logprobs"]) == len(p["top_logprobs"]) == len(p["text_offset"]) == len(shown(tops))
    assert p["token_logprobs"] == pytest.approx([t[0][1] for t in shown(tops)])
    assert p["text_offset"][0] == 0 and all(a + len(t) == b for a, b, t in zip(p["text_offset"], p["text_offset"][1:], p["tokens"]))
    events = gateway.stream("/v1/completions", {"prompt": TEXT, "logprobs": 2, **SAME})
    pieces = [e["choices"][0]["logprobs"] for _, e in events if e != "[DONE]" and e["choices"][0]["logprobs"]]
    assert {k: [x for q in pieces for x in q[k]] for k in p} == p
    for q, few in ((p, 2), (gateway.post("/v1/completions", {"prompt": TEXT, "logprobs": 0, **SAME}).json["choices"][0]["logprobs"], 0)):
        assert q["tokens"] == p["tokens"] and len(q["top_logprobs"]) == len(p["tokens"])
        # The sampled token is among the likely ones, or one more; different tokens may have the same text.
        for token, logprob, likely in zip(q["tokens"], q["token_logprobs"], q["top_logprobs"]):
            assert likely[token] == logprob and 1 <= len(likely) <= few + 1
    assert any(len(likely) == 3 for likely in p["top_logprobs"])


def test_echo(gateway):
    plain = gateway.post("/v1/completions", {"prompt": TEXT, **SAME, "n": 2}).json["choices"]
    echo = gateway.post("/v1/completions", {"prompt": TEXT, "echo": True, **SAME, "n": 2}).json["choices"]
    assert [c["text"] for c in echo] == [TEXT + c["text"] for c in plain]
    events = gateway.stream("/v1/completions", {"prompt": TEXT, "echo": True, **SAME})
    assert "".join(e["choices"][0]["text"] for _, e in events if e != "[DONE]") == echo[0]["text"]


@pytest.mark.parametrize("path,body,param", [
    ("chat/completions", {"top_logprobs": 3}, "top_logprobs"), ("chat/completions", {"logprobs": 3}, "logprobs"),
    ("chat/completions", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ("completions", {"logprobs": 6}, "logprobs"),
    ("completions", {"logprobs": True}, "logprobs"), ("completions", {"echo": 1}, "echo"), ("completions", {"echo": True, "logprobs": 1}, "echo"),
    ("completions", {"echo": True, "suffix": "x"}, "echo")])
def test_what_is_refused(gateway, path, body, param):
    ask = {"messages": MESSAGES} if path.startswith("chat") else {"prompt": TEXT}
    gateway.post(f"/v1/{path}", {**ask, **SAME, **body}).error(400, param, param)


def test_tokens_that_are_parts_of_a_character(fake):
    """Text comes with the last part; a probability of 0 is the least number that OpenAI's API has."""
    s, call = begin(fake, logprobs=True, top_logprobs=1)
    assert call.request["top_logprobs"] == 1
    call.event("text", text="", top=[[7, -0.5, b"\xe2\x82"], [8, float("-inf"), b"x"]])
    call.event("text", text="\u20ac", top=[[9, -0.25, b"\xac"], [9, -0.25, b"\xac"]])
    call.event("text", text="", top=[[2, -0.125, b""], [2, -0.125, b"<|end|>"]])
    call.event("done", **DONE)
    _, _, body = rest(s)
    chunks = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: {")]
    tokens = [t for c in chunks if c["choices"][0]["logprobs"] for t in c["choices"][0]["logprobs"]["content"]]
    assert [t["bytes"] for t in tokens] == [[0xe2, 0x82], [0xac]] and tokens[0]["token"].strip("\ufffd") == ""
    assert tokens[0]["top_logprobs"][0]["logprob"] == -9999.0
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "\u20ac"
