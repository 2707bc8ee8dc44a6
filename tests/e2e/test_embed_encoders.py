# SPDX-License-Identifier: MIT
"""Vectors and scores of texts from models whose tokens see each other, through the daemon."""
import json
import random
import struct
import subprocess

import pytest
from conftest import HOBD, mktiny
from test_embed import TEXTS, text

ARCHS = {"bert": 1, "nomic-bert": 1, "jina-bert-v2": 1, "modern-bert": 2, "gemma-embedding": 1}


def model(folder, arch, *args):
    vocabulary = ("--tokenizer", "bert") if "bert" in arch else ()
    return mktiny(folder / f"{arch}.gguf", "--seed", 3, "--arch", arch, "--ctx", 256, *vocabulary, *args)


@pytest.mark.parametrize("arch", [*ARCHS, "qwen3-embedding"])
def test_the_same_bits_alone_and_in_company(homes, tmp_path, arch):
    h = homes(model(tmp_path, arch))
    d = h.daemon("--batch-tokens", 32)  # less than a text: steps become as long as the context
    texts = [t for t in TEXTS if len(t) < 150]
    with h.client() as c:
        alone = [c.vectors([t], salt=f"alone {i}").rows[0] for i, t in enumerate(texts)]
        assert len(set(alone)) == len(set(texts))
        together = c.vectors(texts, salt="together")
        assert together.rows == alone
        random.Random(4).shuffle(texts)
        again = c.vectors(texts)
        assert set(again.rows) == set(alone) and again.cached == 0
        assert c.vectors(texts).cached == len(texts)
    out = subprocess.run([HOBD, "embed", "-m", tmp_path / f"{arch}.gguf", "--json"], input="\n".join(texts).encode(), capture_output=True, check=True).stdout
    direct = [struct.pack(f"<{len(v)}f", *v) for v in (json.loads(line)["embedding"] for line in out.splitlines())]
    if arch != "qwen3-embedding":  # hobd embed computes causal models with an f32 KV cache
        assert direct == again.rows
    d = h.restart(d, "--threads", 1)
    with h.client() as c:
        assert c.vectors(texts).rows == again.rows


def test_what_an_encoder_cannot_do(homes, tmp_path):
    h = homes(model(tmp_path, "bert"))
    h.daemon("--batch-tokens", 32)
    assert h.status()["batch_tokens"] == 256 and h.status()["parallel"] >= 64
    r = h.hob("hello", check=1)
    assert "generates none" in r.err and len(r.err.splitlines()) == 1
    with h.client() as c:
        for kind, keys in (("generate", {"raw": True, "prompt": "x"}), ("warm", {"raw": True, "prompt": "x"})):
            e = c.ask(kind, **keys)
            assert e["event"] == "error" and e["code"] == "EOPNOTSUPP", e
        e = c.vectors([text(1, 400)]).end
        assert e["code"] == "E2BIG" and "the context holds 256" in e["message"], e
        longest = next(text(1, n) for n in range(250, 1, -1) if c.vectors([text(1, n)]).end["event"] == "done")
        got = c.vectors([longest, "short", longest + " "])
        assert got.end["event"] == "done" and max(got.tokens) > 200 and len(set(got.rows)) == 2
        assert c.vectors([""]).tokens == [2]  # those at the ends


@pytest.mark.parametrize("arch", ["bert-rank", "modern-bert-rank"])
def test_scores_of_a_classifier(homes, tmp_path, arch):
    h = homes(model(tmp_path, arch))
    h.daemon()
    texts = [t for t in TEXTS if len(t) < 100]
    with h.client() as c:
        e = c.vectors(["x"]).end
        assert e["code"] == "EOPNOTSUPP" and "hob rank" in e["message"], e
        alone = [c.vectors([t], kind="rank", question="where is the cat", salt=f"{i}").rows[0] for i, t in enumerate(texts)]
        got = c.vectors(texts, kind="rank", question="where is the cat")
        assert got.method == "rank" and got.rows == alone and got.cached == 0
        assert c.vectors(texts, kind="rank", question="where is the cat").cached == len(texts)
        other = c.vectors(texts, kind="rank", question="why")
        assert other.cached == 0 and other.rows != got.rows
    pairs = "\n".join(json.dumps(["where is the cat", t]) for t in texts)
    out = subprocess.run([HOBD, "embed", "-m", tmp_path / f"{arch}.gguf", "--jsonl", "--json"], input=pairs.encode(), capture_output=True, check=True).stdout
    assert [struct.pack("<f", json.loads(line)["scores"][0]) for line in out.splitlines()] == got.rows


def test_users_and_cancelled_requests(homes, tmp_path):
    h = homes(model(tmp_path, "bert"))
    h.daemon()
    with h.client(user="ada") as ada, h.client(user="bob") as bob:
        n = ada.request("embed", texts=[f"{text(i % 90, 30)} {i}" for i in range(3000)])
        assert bob.vectors(TEXTS[:5]).end["event"] == "done"
        ada.send({"type": "cancel", "id": n})
        end = list(ada.events(n))[-1]
        assert end["event"] == "done"
        assert bob.vectors(TEXTS[:5]).cached == 5 and ada.vectors(TEXTS[:5]).cached == 0
