# SPDX-License-Identifier: MIT
"""Vectors of texts: the requests embed and rank, and hob embed and hob rank."""
import json
import math
import random
import struct
import time

import pytest
from conftest import Home, mktiny
from hobproto import Client, Peer

DIM = 64
WORDS = "the cat sat on a mat while rain fell over grey hills and old stone walls of towns".split()


def text(seed, words=20):
    r = random.Random(seed)
    return " ".join(r.choice(WORDS) for _ in range(words))


TEXTS = [text(i, 1 + 7 * i % 60) for i in range(40)]


@pytest.fixture(scope="module", params=[1, 2, 3], ids=["mean", "cls", "last"])
def pooled(request, tmp_path_factory):
    name = ["mean", "cls", "last"][request.param - 1]
    return mktiny(tmp_path_factory.mktemp("models") / f"{name}.gguf", "--seed", 5, "--arch", "qwen3", "--pooling", request.param,
                  "--ctx", 512)


@pytest.fixture(scope="module")
def last(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("models") / "last.gguf", "--seed", 5, "--arch", "qwen3", "--pooling", 3, "--ctx", 512)


@pytest.fixture(scope="module")
def serving(tmp_path_factory, last):
    """A daemon that many tests share."""
    h = Home(tmp_path_factory.mktemp("home"), last)
    h.d = h.daemon("--batch-tokens", 64)
    yield h
    h.stop()


def length(v):
    return math.sqrt(sum(x * x for x in v))


def salted(c, texts, salt, **keys):
    """Computed, not found."""
    return c.vectors(texts, salt=salt, **keys)


def test_the_same_bits_alone_in_company_and_after_a_restart(homes, pooled):
    h = homes(pooled)
    d = h.daemon("--batch-tokens", 48, "--parallel", 5)  # longer texts take several steps
    with h.client() as c:
        alone = [salted(c, [t], f"alone {i}").rows[0] for i, t in enumerate(TEXTS)]
        together = salted(c, TEXTS, "together")
        assert together.rows == alone and together.cached == 0
        assert together.end["event"] == "done" and together.end["usage"]["prompt"] == sum(together.tokens)
        shuffled = list(range(len(TEXTS)))
        random.Random(1).shuffle(shuffled)
        assert salted(c, [TEXTS[i] for i in shuffled], "shuffled").rows == [alone[i] for i in shuffled]
        assert all(abs(length(v) - 1) < 1e-6 and len(v) == DIM for v in together.floats)
        if "cls" not in str(pooled):  # a causal model's first token sees itself alone
            assert len(set(alone)) == len(set(TEXTS))
        # beside answers
        ids = [c.generate(f"tell me of {t}", max_tokens=40, ignore_eos=True) for t in TEXTS[:4]]
        beside = c.request("embed", texts=TEXTS, salt="beside")
        got = list(c.events(*ids, beside))
        mine = [e for e in got if e["id"] == beside]
        assert b"".join(e["vectors"] for e in mine if e["event"] == "embeddings") == b"".join(alone)
        assert mine[-1]["event"] == "done" and sum(e["event"] == "done" for e in got) == 5
    h.restart(d, "--batch-tokens", 512, "--parallel", 16, "--threads", 1)
    with h.client() as c:
        assert c.vectors(TEXTS).rows == alone


def test_answers_are_the_same_beside_vectors(serving):
    with serving.client() as c:
        keys = dict(max_tokens=30, ignore_eos=True, seed=3, logprobs=True)
        before = c.answer("tell me a story", salt="1", **keys)
        answer = c.generate("tell me a story", salt="2", **keys)
        c.request("embed", texts=TEXTS * 5, salt="beside an answer")
        after = [e for e in c.events(answer)]
        assert [i for e in after for i in e.get("ids", [])] == before.ids


def test_a_repeated_text_is_found_and_only_by_its_user(serving):
    with serving.client(user="ada") as ada, serving.client(user="bob") as bob:
        texts = [f"{t} of ada" for t in TEXTS[:10]]
        first = ada.vectors(texts)
        again = ada.vectors(texts + ["new words"])
        assert first.cached == 0 and again.cached == 10 and again.rows[:10] == first.rows
        assert again.end["usage"]["cached"] == sum(first.tokens) == sum(again.tokens[:10])
        other = bob.vectors(texts)
        assert other.cached == 0 and other.rows == first.rows
        assert ada.vectors(texts, salt="x").cached == 0
        # another form of the same vector is a look-up too; another pooling is another vector
        assert ada.vectors(texts, dims=8).cached == 10
        assert ada.vectors(texts, normalize=False).cached == 10
        mean = ada.vectors(texts, pooling="mean")
        assert mean.cached == 0 and mean.rows != first.rows
        # the same text twice in one request
        twice = bob.vectors(["twice the same"] * 300)
        assert len(set(twice.rows)) == 1 and twice.cached > 200
        mine = json.loads(ada.ask("status")["status"])
        assert mine["embeddings"]["found"] >= 30 and mine["embeddings"]["entries"] >= 10


def test_dims_and_length(serving):
    with serving.client() as c:
        whole = c.vectors(TEXTS[:3], normalize=False).floats
        short = c.vectors(TEXTS[:3], dims=8).floats
        for a, b in zip(whole, short):
            part = a[:8]
            assert len(b) == 8 and all(abs(x / length(part) - y) < 1e-6 for x, y in zip(part, b))
        e = c.vectors(["x"], dims=DIM + 1).end
        assert e["code"] == "EINVAL" and e["message"] == f"dims: {DIM + 1} is more than the model's vectors have: {DIM}", e


def test_rank_by_cosine(serving):
    with serving.client() as c:
        vectors = c.vectors(["a question", *TEXTS]).floats
        scores = c.vectors(TEXTS, kind="rank", question="a question")
        assert scores.method == "cosine" and len(scores.rows) == len(TEXTS)
        for v, (s,) in zip(vectors[1:], scores.floats):
            assert abs(sum(a * b for a, b in zip(vectors[0], v)) - s) < 1e-5
        assert scores.end["usage"]["prompt"] > sum(scores.tokens)
        e = c.vectors([""], kind="rank", question="q").end
        assert e["event"] == "error" and "texts[0]: is empty" in e["message"], e


def test_texts_that_cannot_be_computed(serving):
    with serving.client() as c:
        e = c.vectors(["fine", "word " * 3000]).end
        assert e["code"] == "E2BIG" and e["message"].startswith("texts[1]: ") and "the context holds 512" in e["message"], e
        e = c.vectors(["x" * (4 << 20)]).end
        assert e["code"] == "E2BIG" and "4194304 bytes" in e["message"], e
        e = c.vectors(["fine", ""]).end
        assert e["code"] == "EINVAL" and e["message"].startswith("texts[1]: is empty"), e
        e = c.vectors(["x"] * 16385).end
        assert e["code"] == "EINVAL" and "texts: has 16385 texts, the limit is 16384" in e["message"], e
        e = c.vectors([]).end
        assert e["code"] == "EINVAL" and "texts: is empty" in e["message"], e
        e = c.vectors(["\udcff".encode(errors="surrogateescape")]).end
        assert e["code"] == "EINVAL" and "texts[0]: must be a string" in e["message"], e
        exact = next(n for n in range(400, 512) if len(c.ask("tokenize", text="a " * n)["ids"]) >= 510)
        assert c.vectors(["a " * exact]).end["event"] == "done"
        assert c.vectors(["still served"]).end["event"] == "done"


def test_a_model_without_embeddings(shared):
    with shared.client() as c:
        assert "embed" in c.hello["features"]
        for kind, keys in (("embed", {}), ("embed", {"pooling": "mean"}), ("rank", {"question": "q"})):
            e = c.vectors(["x"], kind=kind, **keys).end
            assert e["code"] == "EOPNOTSUPP" and "has no embeddings" in e["message"] and "llama.pooling_type" in e["message"], e
    r = shared.hob("embed", input=b"x\n", check=1)
    assert "has no embeddings" in r.err and r.out == ""


def test_ten_thousand_texts(serving):
    with serving.client() as c:
        many = [f"{text(i % 50, 3)} {i}" for i in range(10000)]
        got = c.vectors(many)
        assert got.end["event"] == "done" and len(got.rows) == 10000 and len(set(got.rows)) == 10000
        assert c.vectors([many[7777]]).rows == [got.rows[7777]]


def wait_idle(h):
    deadline = time.monotonic() + 60
    while (s := h.status())["running"] or s["queued"]:
        assert time.monotonic() < deadline, s
        time.sleep(0.02)


def test_cancel_disconnect_and_time(serving):
    long = [text(i, 80) for i in range(2000)]
    with serving.client() as c:
        n = c.request("embed", texts=long, salt="cancel")
        next(e for e in c.events(n) if e["event"] == "embeddings")
        c.send({"type": "cancel", "id": n})
        end = list(c.events(n))[-1]
        assert end["event"] == "done" and end["reason"] == "cancel"
        e = c.vectors(long, salt="late", timeout_ms=50).end
        assert e["code"] == "ETIMEDOUT", e
        n = c.request("embed", texts=long, salt="gone")
        next(e for e in c.events(n) if e["event"] == "embeddings")
    wait_idle(serving)
    with serving.client() as c:
        assert c.vectors(["after it"]).end["event"] == "done"
    blocks = serving.status()
    assert blocks["running"] == 0


def test_a_reader_that_does_not_read(serving):
    """Its texts wait; others' are computed; it gets all in the end."""
    slow = Client(serving.socket)
    n = slow.request("embed", texts=[f"{i} slow" for i in range(16384)], salt="slow")
    with serving.client() as c:
        assert c.vectors(TEXTS, salt="beside a slow reader").end["event"] == "done"
    time.sleep(0.5)
    rows = sum(len(e["tokens"]) for e in slow.events(n) if e["event"] == "embeddings")
    assert rows == 16384
    slow.close()


def test_users_share_the_steps(serving):
    """A text of one user does not wait for the thousands of another."""
    with serving.client(user="many") as many, serving.client(user="one") as one:
        n = many.request("embed", texts=[text(i, 60) for i in range(3000)], salt="many")
        next(e for e in many.events(n) if e["event"] == "embeddings")
        assert one.vectors(["a single text"], salt="one").end["event"] == "done"
        many.send({"type": "cancel", "id": n})
        assert list(many.events(n))[-1]["reason"] == "cancel"  # they had not been computed


def test_hob_embed(serving, tmp_path):
    h = serving
    h.env["HOB_SOCKET"] = str(h.socket)
    lines = "\n".join(TEXTS[:5]) + "\n"
    with h.client() as c:
        want = c.vectors(TEXTS[:5]).floats
    r = h.hob("embed", input=lines.encode(), check=0)
    got = [[float(x) for x in line.split()] for line in r.out.splitlines()]
    assert [struct.pack("<64f", *v) for v in got] == [struct.pack("<64f", *v) for v in want]
    r = h.hob("embed", "--jsonl", "-", input=lines.replace("\n", "\r\n").encode(), check=0)
    objects = [json.loads(line) for line in r.out.splitlines()]
    assert [o["index"] for o in objects] == list(range(5)) and all(o["tokens"] > 0 and "name" not in o for o in objects)
    assert [struct.pack("<64f", *o["embedding"]) for o in objects] == [struct.pack("<64f", *v) for v in want]
    (tmp_path / "a.txt").write_text(TEXTS[3])
    r = h.hob("embed", "--jsonl", "--dims", 8, tmp_path / "a.txt", check=0)
    o = json.loads(r.out)
    assert o["name"] == str(tmp_path / "a.txt") and len(o["embedding"]) == 8
    r = h.hob("embed", "--npy", input=lines.encode(), check=0)
    assert r.stdout[:8] == b"\x93NUMPY\x01\x00"
    n = struct.unpack("<H", r.stdout[8:10])[0]
    assert (10 + n) % 64 == 0 and b"'shape': (5, 64), }" in r.stdout[10:10 + n] and r.stdout[9 + n:10 + n] == b"\n"
    assert r.stdout[10 + n:] == b"".join(struct.pack("<64f", *v) for v in want)
    assert "of them cached" in h.hob("embed", "-v", input=b"x\n", check=0).err


def test_hob_embed_wrong(serving, tmp_path):
    h = serving
    h.env["HOB_SOCKET"] = str(h.socket)
    for args, data, status, says in (
            (["embed"], b"", 2, "no texts"),
            (["embed"], b"a\xff\n", 1, "standard input: invalid UTF-8 at byte 1"),
            (["embed", "--npy", "--jsonl"], b"x\n", 2, "--npy and --jsonl cannot be used together"),
            (["embed", "--json"], b"x\n", 2, "--json cannot be used with 'embed'"),
            (["embed", "--temp", "1"], b"x\n", 2, "--temp cannot be used with 'embed'"),
            (["embed", "--dims", "0"], b"x\n", 2, "--dims"),
            (["embed", "--dims", "65"], b"x\n", 1, "dims: 65 is more than the model's vectors have: 64"),
            (["embed", "--pooling", "sum"], b"x\n", 2, "--pooling: must be mean, cls or last"),
            (["embed", "no such file"], b"", 1, "no such file"),
            (["rank"], b"x\n", 2, "rank needs a question"),
            (["rank", "q", "--dims", "3"], b"x\n", 2, "--dims can be used only with 'embed'"),
            (["rank", "q"], b"\n\n", 2, "no texts"),
            (["--dims", "3", "hello"], b"", 2, "--dims can be used only with 'embed'")):
        r = h.hob(*args, input=data)
        assert (r.returncode, r.out) == (status, "") and says in r.err and len(r.err.splitlines()) == 1, (args, r.returncode, r.err)


def test_hob_rank(serving, tmp_path):
    h = serving
    h.env["HOB_SOCKET"] = str(h.socket)
    docs = ["grey hills", "the cat sat", "old stone walls"]
    r = h.hob("rank", "the cat sat", input="\n".join(docs).encode(), check=0)
    rows = [line.split("\t") for line in r.out.splitlines()]
    assert rows[0][1] == "the cat sat" and abs(float(rows[0][0]) - 1) < 1e-5 and len(rows) == 3
    assert [float(x[0]) for x in rows] == sorted((float(x[0]) for x in rows), reverse=True)
    for i, d in enumerate(docs):
        (tmp_path / f"{i}.txt").write_text(d)
    r = h.hob("rank", "the cat sat", "--jsonl", *(tmp_path / f"{i}.txt" for i in range(3)), check=0)
    objects = [json.loads(line) for line in r.out.splitlines()]
    assert objects[0]["index"] == 1 and objects[0]["name"] == str(tmp_path / "1.txt") and objects[0]["method"] == "cosine"


def test_broken_requests_leave_the_daemon_well(serving):
    """Connections that end in the middle of a request, at random moments."""
    r = random.Random(2)
    for i in range(20):
        p = Peer(serving.socket)
        p.send({"type": "hello", "version": 1, "features": []})
        p.send({"type": "embed", "id": 1, "texts": [text(j, r.randrange(1, 90)) for j in range(r.randrange(1, 400))], "salt": f"{i}"})
        time.sleep(r.random() * 0.05)
        p.close()
    wait_idle(serving)
    with serving.client() as c:
        assert c.vectors(["well"]).end["event"] == "done"


def test_preempted_texts_have_the_same_bits(homes, pooled):
    """Two slots, little memory, three users: texts lose their blocks in the middle and are computed again."""
    long = [text(i, 110) for i in range(12)]
    h = homes(pooled)
    h.daemon("--parallel", 2, "--batch-tokens", 16, "--kv-bytes", "512K", "--cache-bytes", 0)
    with h.client() as c:
        alone = [salted(c, [t], f"alone {i}").rows[0] for i, t in enumerate(long)]
    before, clients = h.status()["preemptions"], {name: h.client(user=name) for name in ("ada", "bob", "eve")}
    ann = h.client(user="ann")
    for i in range(50):  # all texts take some 60 ms: on a busy machine they may end before ann's answer begins
        ids = {name: c.request("embed", texts=long, priority="batch", salt=f"together {i}") for name, c in clients.items()}
        for _ in range(6):
            assert ann.answer("a word", max_tokens=8, ignore_eos=True, priority="infill").end["event"] == "done"
        for name, c in clients.items():
            got = list(c.events(ids[name]))
            assert got[-1]["event"] == "done"
            assert b"".join(e["vectors"] for e in got if e["event"] == "embeddings") == b"".join(alone)
        if h.status()["preemptions"] > before:
            return
    pytest.fail("no text was preempted")
