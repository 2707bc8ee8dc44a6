# SPDX-License-Identifier: MIT
"""POST /v1/completions and /tokenize before the real daemon."""
import pytest
from hobproto import Client
from httpgate import Gateway

TEXT = "/v1/completions"


def test_the_text_is_that_of_the_socket(gateway, shared):
    with Client(shared.socket) as c:
        a = c.answer("Once upon a time", raw=True, max_tokens=6, temperature=0)
    for prompt in ("Once upon a time", ["Once upon a time"]):
        r = gateway.post(TEXT, {"prompt": prompt, "max_tokens": 6, "temperature": 0, "model": "default"}).json
        assert r["choices"] == [{"text": a.text, "index": 0, "logprobs": None, "finish_reason": "length"}]
        assert r["object"] == "text_completion" and r["usage"]["prompt_tokens"] == a.usage["prompt"]
    events = gateway.stream(TEXT, {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0})
    assert events[-1] == (None, "[DONE]")
    assert "".join(d["choices"][0]["text"] for _, d in events[:-1]) == a.text
    assert events[-2][1]["choices"][0]["finish_reason"] == "length"


def test_a_suffix_makes_an_infill(homes, coder):
    h = homes(coder)
    d = h.daemon()
    g = Gateway(h)
    with Client(d.path) as c:
        a = c.answer(None, kind="infill", prefix="def f(", suffix="):", max_tokens=6)
    r = g.post(TEXT, {"prompt": "def f(", "suffix": "):", "max_tokens": 6}).json
    assert r["choices"][0]["text"] == a.text and r["usage"]["prompt_tokens"] == a.usage["prompt"]


@pytest.mark.parametrize("body,status,says", [
    ({}, 400, "'prompt' is missing"), ({"prompt": ""}, 400, "'prompt' is missing"), ({"prompt": [1, 2]}, 400, "'prompt' must be"),
    ({"prompt": ["a", "b"]}, 400, "'prompt' must be"), ({"prompt": "a", "best_of": 3}, 400, "'best_of'"),
    ({"prompt": "a", "messages": []}, 400, "unknown field 'messages'"),
    ({"prompt": "a", "suffix": "b"}, 422, "infill")])
def test_refused(gateway, body, status, says):
    gateway.post(TEXT, body).error(status, says)
