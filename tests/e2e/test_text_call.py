# SPDX-License-Identifier: MIT
"""/v1/embeddings, /v1/rerank and /rerank before the real daemon."""
import base64
import struct

import pytest
from conftest import Home, mktiny
from httpgate import Gateway
from test_key_file import add

TEXTS = ["grey hills", "the cat sat on the mat", "old stone walls"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    h = Home(tmp_path_factory.mktemp("home"), mktiny(tmp_path_factory.mktemp("models") / "v.gguf", "--seed", 5, "--arch", "qwen3", "--pooling", 3))
    h.daemon()
    h.gateway = Gateway(h)
    yield h
    h.stop()


def rows_of(home, texts, **keys):
    with home.client() as c:
        return [[*v] for v in c.vectors(texts, **keys).floats]


def f32(values):
    return [struct.unpack("<f", struct.pack("<f", v))[0] for v in values]


def test_embeddings(vectors):
    r = vectors.gateway.post("/v1/embeddings", {"input": TEXTS, "model": "default", "user": "u"})
    assert r.status == 200 and r.headers["Content-Type"] == "application/json"
    want = rows_of(vectors, TEXTS)
    assert [d["index"] for d in r.json["data"]] == [0, 1, 2] and all(d["object"] == "embedding" for d in r.json["data"])
    assert [f32(d["embedding"]) for d in r.json["data"]] == want
    assert r.json["object"] == "list" and r.json["model"] == "default"
    assert r.json["usage"]["prompt_tokens"] == r.json["usage"]["total_tokens"] > 3
    one = vectors.gateway.post("/v1/embeddings", {"input": TEXTS[1], "encoding_format": "base64", "dimensions": 9}).json
    raw = base64.b64decode(one["data"][0]["embedding"], validate=True)
    assert [*struct.unpack("<9f", raw)] == rows_of(vectors, [TEXTS[1]], dims=9)[0]


def test_rerank(vectors):
    with vectors.client() as c:
        want = [s for (s,) in c.vectors(TEXTS, kind="rank", question="the cat").floats]
    for path in "/v1/rerank", "/rerank":
        r = vectors.gateway.post(path, {"query": "the cat", "documents": [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]}).json
        assert [x["index"] for x in r["results"]] == sorted(range(3), key=lambda i: -want[i])
        assert [f32([x["relevance_score"]])[0] for x in r["results"]] == sorted(want, reverse=True)
        assert "document" not in r["results"][0] and r["usage"]["total_tokens"] > 0
    r = vectors.gateway.post("/rerank", {"query": "the cat", "documents": TEXTS, "top_n": 1, "return_documents": True}).json
    (best,) = r["results"]
    assert best["document"] == {"text": TEXTS[best["index"]]}


@pytest.mark.parametrize("path,body,status,says", [
    ("/v1/embeddings", {}, 400, "'input'"),
    ("/v1/embeddings", {"input": 7}, 400, "'input'"),
    ("/v1/embeddings", {"input": []}, 400, "'input' has 0 texts"),
    ("/v1/embeddings", {"input": [1, 2, 3]}, 400, "lists of token ids are not supported"),
    ("/v1/embeddings", {"input": [[1, 2], [3]]}, 400, "lists of token ids are not supported"),
    ("/v1/embeddings", {"input": ["x", None]}, 400, "'input[1]' must be a string"),
    ("/v1/embeddings", {"input": "x", "dimensions": 0}, 400, "'dimensions' must be a whole number from 1 to 65536"),
    ("/v1/embeddings", {"input": "x", "dimensions": 65}, 400, "dims: 65 is more than the model's vectors have: 64"),
    ("/v1/embeddings", {"input": "x", "encoding_format": "hex"}, 400, "'encoding_format'"),
    ("/v1/embeddings", {"input": "x", "colour": 1}, 400, "unknown field 'colour'"),
    ("/v1/embeddings", {"input": "x", "model": 3}, 400, "'model'"),
    ("/v1/embeddings", {"input": "x", "model": "nothing"}, 404, "nothing"),
    ("/v1/embeddings", {"input": "word " * 5000}, 400, "the context holds 512"),
    ("/v1/embeddings", {"input": ["x"] * 16385}, 400, "16385 texts"),
    ("/rerank", {"documents": ["x"]}, 400, "'query'"),
    ("/rerank", {"query": "", "documents": ["x"]}, 400, "'query'"),
    ("/rerank", {"query": "q"}, 400, "'documents'"),
    ("/rerank", {"query": "q", "documents": "x"}, 400, "'documents'"),
    ("/rerank", {"query": "q", "documents": [{"title": "x"}]}, 400, "'documents[0]' must be a string"),
    ("/rerank", {"query": "q", "documents": ["x"], "top_n": 0}, 400, "'top_n'"),
    ("/rerank", {"query": "q", "documents": ["x"], "return_documents": "yes"}, 400, "'return_documents'"),
    ("/rerank", {"query": "q", "documents": ["x"], "rank_fields": ["a"]}, 400, "unknown field 'rank_fields'"),
])
def test_wrong_fields(vectors, path, body, status, says):
    vectors.gateway.post(path, body).error(status, says)


def test_a_model_without_embeddings(gateway):
    assert gateway.post("/v1/embeddings", {"input": "x"}).error(422, "has no embeddings")["code"] == "not_supported"
    gateway.post("/rerank", {"query": "q", "documents": ["x"]}).error(422, "has no embeddings")


def test_clients_of_others_have_a_cache_of_their_own(vectors, tmp_path):
    keys = tmp_path / "keys"
    ada, bob = [add(vectors, name, "--keys", keys).stdout.strip() for name in ("ada", "bob")]
    g = Gateway(vectors, "--keys", keys)
    body = {"input": ["words that only ada sends"]}
    assert g.post("/v1/embeddings", body).status == 401

    def computed():
        return vectors.status()["embeddings"]["computed"]

    n = computed()
    assert g.post("/v1/embeddings", body, key=ada).status == 200
    assert g.post("/v1/embeddings", body, key=ada).status == 200
    first = computed() - n
    assert g.post("/v1/embeddings", body, key=bob).status == 200
    assert computed() - n > first
