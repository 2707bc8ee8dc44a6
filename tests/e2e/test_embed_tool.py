# SPDX-License-Identifier: MIT
"""hobd embed on tiny models: lines and JSON, pooling, dims, steps, and what is refused."""
import json
import math
import subprocess

import pytest
from conftest import HOBD, mktiny

LINES = ["the little cat", "a red hat sat on a mat", "x"]


def run(model, *args, text="\n".join(LINES) + "\n", check=0):
    r = subprocess.run([str(x) for x in (HOBD, "embed", "-m", model, *args)], input=text, capture_output=True, text=True, timeout=120)
    assert r.returncode == check, r.stderr
    return r.stderr if check else r.stdout


def rows(model, *args, text="\n".join(LINES) + "\n"):
    return [json.loads(line) for line in run(model, "--json", *args, text=text).splitlines()]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    made = {a: mktiny(folder / f"{a}.gguf", "--arch", a, "--type", "F32", "--tokenizer", "llama")
            for a in ("bert", "bert-rank", "modern-bert-rank", "qwen3-embedding", "qwen3-rank", "llama", "gemma-embedding")}
    return made | {"xlm-r": mktiny(folder / "xlm-r.gguf", "--arch", "bert", "--tokenizer", "t5")}  # BERT with a unigram vocabulary


@pytest.mark.parametrize("arch", ["bert", "xlm-r", "qwen3-embedding", "gemma-embedding"])
def test_a_text_has_the_same_numbers_alone(models, arch):
    together = rows(models[arch])
    assert [r["index"] for r in together] == [0, 1, 2] and all(len(r["embedding"]) == 64 for r in together)
    assert all(math.isclose(math.hypot(*r["embedding"]), 1, abs_tol=1e-6) for r in together)
    for i, line in enumerate(LINES):
        for more in ([], ["--batch", "64"], ["-t", "1"]):
            assert rows(models[arch], *more, text=line)[0]["embedding"] == together[i]["embedding"]
    plain = run(models[arch]).splitlines()
    assert [float(x) for x in plain[1].split()] == together[1]["embedding"]


def test_a_long_text_of_a_causal_model_takes_several_steps(models):
    text = " ".join(LINES * 8)
    for kind in ("last", "mean", "cls"):
        whole = rows(models["qwen3-embedding"], "--pooling", kind, text=text)[0]
        assert whole["tokens"] > 100
        assert rows(models["qwen3-embedding"], "--pooling", kind, "--batch", "7", text=text)[0] == whole


def test_dims_and_lengths(models):
    full, short = rows(models["bert"])[0]["embedding"], rows(models["bert"], "--dims", "16")[0]["embedding"]
    raw = rows(models["bert"], "--no-normalize")[0]["embedding"]
    length = math.hypot(*full[:16])
    assert all(math.isclose(a, b / length, abs_tol=1e-6) for a, b in zip(short, full)) and len(short) == 16
    assert all(math.isclose(a, b / math.hypot(*raw), abs_tol=1e-6) for a, b in zip(full, raw))
    tokens = rows(models["bert"], "--pooling", "none", "--no-normalize", text=LINES[0])
    assert len(tokens) == tokens[0]["tokens"]
    mean = [sum(t["embedding"][d] for t in tokens) / len(tokens) for d in range(64)]
    assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(mean, raw))
    assert rows(models["bert"], "--pooling", "cls", "--no-normalize", text=LINES[0])[0]["embedding"] == tokens[0]["embedding"]


def test_scores(models):
    pair = json.dumps(LINES[:2])
    for arch, n in (("bert-rank", 3), ("modern-bert-rank", 1), ("qwen3-rank", 2)):
        one, other = (rows(models[arch], "--jsonl", text=t)[0]["scores"] for t in (pair, json.dumps(LINES[1::-1])))
        assert len(one) == n and one != other
    assert math.isclose(sum(rows(models["qwen3-rank"], text="x")[0]["scores"]), 1, abs_tol=1e-6)
    # The second text of a pair has another type: not the row of the same ids.
    ids = rows(models["bert-rank"], "--jsonl", text=pair)[0]["tokens"]
    assert ids > 4


def test_json_lines(models):
    text = "\n".join([json.dumps(LINES[0]), json.dumps([1, 5, 9])])
    out = rows(models["bert"], "--jsonl", text=text)
    assert out[0]["embedding"] == rows(models["bert"], text=LINES[0])[0]["embedding"] and out[1]["tokens"] == 3


@pytest.mark.parametrize("args, text, says", [
    (["bert", "--jsonl"], '"x"\n{"a": 1}', "line 2: neither a string"),
    (["bert", "--jsonl"], "[1, 2", "line 1: column"),
    (["bert", "--jsonl"], "[1, 99999]", "line 1: element 1 is no token id below"),
    (["bert", "--jsonl"], '["a", "b", "c"]', "line 1: neither a string"),
    (["bert", "--jsonl"], "[]", "line 1: "),
    (["bert", "--batch", "4"], "the little cat and the red hat", "text 1 has"),
    (["bert"], "cat " * 600, "the model's context is 512"),
    (["bert", "--dims", "65"], "x", "--dims 65: the model gives vectors of 64 values"),
    (["bert-rank", "--dims", "2"], "x", "--dims 2: the model gives scores of 3 values"),
    (["llama"], "x", "key 'llama.pooling_type' is missing or 0: the model gives texts no vectors"),
    (["bert", "--pooling", "rank"], "x", "has no classifier"),
])
def test_what_is_refused(models, args, text, says):
    error = run(models[args[0]], *args[1:], text=text, check=1)
    assert says in error and error.count("\n") == 1


def test_wrong_usage(models):
    assert "--pooling median: not mean, cls, last, rank or none" in run(models["bert"], "--pooling", "median", check=2)
    assert "--dims" in run(models["bert"], "--dims", "0", check=2)
    assert "expected -m FILE" in run(models["bert"], "file", check=2)
