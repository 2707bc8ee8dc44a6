# SPDX-License-Identifier: MIT
"""POST /infill in llama-server's form, and paths for what the daemon cannot compute."""
import pytest
from conftest import Home
from httpgate import Gateway

BODY = {"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\nprint(add(1, 2))\n", "n_predict": 8, "temperature": 0}

# The types of llama-server's documented fields (its README: /completion, whose form /infill has; /tokenize, /detokenize, /health).
LLAMA = {"index": int, "content": str, "model": str, "stop": bool, "tokens_predicted": int, "tokens_evaluated": int, "tokens_cached": int,
         "stop_type": str, "truncated": bool, "tokens": list, "status": str}


def as_documented(o):
    assert all(type(v) is LLAMA[k] for k, v in o.items()) and o.get("stop_type", "eos") in ("none", "eos", "limit", "word"), o
    return o


@pytest.fixture(scope="module")
def coding(coder, tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("home"), coder)
    home.daemon()
    home.gateway = Gateway(home)
    yield home
    home.stop()


def test_infill(coding):
    with coding.client() as c:
        same = c.answer(None, kind="infill", prefix=BODY["input_prefix"], suffix=BODY["input_suffix"], max_tokens=8, temperature=0)
    r = coding.gateway.post("/infill", BODY).json
    assert r["content"] == same.text and r["stop"] is True and r["tokens_predicted"] == same.usage["completion"]
    assert r["stop_type"] == ("limit" if same.end["reason"] == "length" else "eos") and r["truncated"] is False
    events = [e for _, e in coding.gateway.stream("/infill", BODY)]
    assert "".join(e["content"] for e in events) == same.text
    assert [e["stop"] for e in events] == [False] * (len(events) - 1) + [True]
    openai = coding.gateway.post("/v1/completions", {"prompt": BODY["input_prefix"], "suffix": BODY["input_suffix"], "max_tokens": 8, "temperature": 0}).json
    assert openai["choices"][0]["text"] == same.text


def test_text_of_other_files(coding):
    """What llama.vim sends beside the two texts changes nothing, except text of other files, which comes before the prefix."""
    vim = {"samplers": ["top_k", "infill"], "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000, "id_slot": 0, "prompt": "",
           "response_fields": ["content"], "n_indent": 4, "top_k": 40, "top_p": 0.9, "input_extra": []}
    assert coding.gateway.post("/infill", {**BODY, **vim}).json["content"] == coding.gateway.post("/infill", BODY).json["content"]
    extra = coding.gateway.post("/infill", {**BODY, "input_extra": [{"filename": "a.py", "text": "one"}, {"text": "two"}]}).json
    mark = "\n\n--- snippet ---\n\n"
    same = coding.gateway.post("/infill", {**BODY, "input_prefix": f"{mark}one{mark}two{mark}{BODY['input_prefix']}"}).json
    assert extra["content"] == same["content"] and extra["tokens_evaluated"] == same["tokens_evaluated"] > 40


@pytest.mark.parametrize("body,param", [({"prompt": "x"}, "prompt"), ({"input_extra": "x"}, "input_extra"), ({"input_extra": [{"name": "x"}]}, "input_extra"),
                                        ({"n_predict": -2}, "n_predict"), ({"n_predict": 0}, "n_predict"), ({"input_prefix": 1}, "input_prefix"), ({"session": 1}, "session"), ({"mirostat": 2}, "mirostat")])
def test_what_is_refused(coding, body, param):
    coding.gateway.post("/infill", {**BODY, **body}).error(400, param, param)


def test_the_fields_are_those_of_llama_server(coding):
    g = coding.gateway
    whole = as_documented(g.post("/infill", BODY).json)
    events = [as_documented(e) for _, e in g.stream("/infill", BODY)]
    assert {"content", "stop"} <= set(events[0]) and set(events[-1]) == set(whole) == set(LLAMA) - {"tokens", "status"}
    ids = as_documented(g.post("/tokenize", {"content": "a b"}).json)["tokens"]
    assert all(type(i) is int for i in ids) and set(as_documented(g.post("/detokenize", {"tokens": ids}).json)) == {"content"}
    assert as_documented(g.get("/health").json) == {"status": "ok"}


def test_a_model_without_the_tokens(gateway):
    assert gateway.post("/infill", BODY).status == 422


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank"])
def test_a_model_without_embeddings(gateway, path):
    e = gateway.post(path, {"query": "x", "documents": ["y"]}).error(422, "has no embeddings: its file names no pooling")
    assert e["code"] == "not_supported" and e["type"] == "invalid_request_error"
    gateway.post(path, {}).error(400, "'query' must be a string")
