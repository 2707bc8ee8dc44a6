# SPDX-License-Identifier: MIT
"""Sounds in prompts, from hob and the gateway to a small model with a sound encoder of random weights: the same bits with and without caches."""
import base64
import math
import random
import struct
import wave

import pytest
from conftest import BUILD, Home, mktiny
from httpgate import CHAT_PATH, Gateway

pytest.importorskip("numpy", reason="python3-numpy is not installed")
from mmprojsounds import RATE, SoundEncoder  # noqa: E402

DIM = 64
pytestmark = pytest.mark.skipif(not (BUILD / "daemon" / "hobd-decode").exists(), reason="built without images and sounds")


def sound(path, seed, seconds=1.0, change=False):
    """16-bit WAV: a tone with noise; @change: one sample is another one."""
    rng = random.Random(seed)
    values = [int(9000 * math.sin(i * 0.05 * (seed + 1)) + rng.randrange(-2000, 2000)) for i in range(int(RATE * seconds))]
    if change:
        values[len(values) // 2] ^= 64
    with wave.open(str(path), "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(RATE)
        w.writeframes(struct.pack(f"<{len(values)}h", *values))
    return path


def same_samples_with_a_comment(path, to):
    """The same sound in another file: a chunk more."""
    data = path.read_bytes()
    more = b"LIST" + struct.pack("<I", 4) + b"INFO"
    to.write_bytes(data[:4] + struct.pack("<I", len(data) - 8 + len(more)) + data[8:12] + more + data[12:])
    return to


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    a = sound(folder / "a.wav", 1)
    return {"model": mktiny(folder / "text.gguf", "--dim", DIM, "--seed", 7), "mmproj": SoundEncoder("ultravox", out=DIM).write(folder / "mmproj.gguf"),
            "a": a, "b": sound(folder / "b.wav", 2), "a again": same_samples_with_a_comment(a, folder / "a2.wav"),
            "a changed": sound(folder / "c.wav", 1, change=True)}


def start(folder, files):
    folder.mkdir(exist_ok=True)
    h = Home(folder, files["model"])
    h.p = h.daemon("--mmproj", files["mmproj"])
    return h


@pytest.fixture
def hears(tmp_path, files):
    h = start(tmp_path / "home", files)
    yield h
    h.stop()


def counts(answer):
    return answer.usage["media_encoded"], answer.usage["media_cached"]


def test_a_sound_is_encoded_once(hears, files, tmp_path):
    first = hears.ask("--audio", files["a"], "who speaks?")
    assert counts(first) == (1, 0)
    [m] = first.done["media"]
    assert m["kind"] == "audio" and m["tokens"] > 0 and not m["cached"]
    other = hears.ask("--audio", files["a"], "and how loud?")
    assert counts(other) == (0, 1) and other.cached >= m["tokens"]
    assert hears.ask("--audio", files["a again"], "who speaks?").bits == first.bits
    assert counts(hears.ask("--audio", files["a changed"], "who speaks?")) == (1, 0)
    cold = start(tmp_path / "cold", files)
    try:
        assert cold.ask("--audio", files["a"], "and how loud?").bits == other.bits
    finally:
        cold.stop()


def test_order_matters(hears, files):
    ab = hears.ask("--audio", files["a"], "--audio", files["b"], "which?")
    ba = hears.ask("--audio", files["b"], "--audio", files["a"], "which?")
    assert counts(ab) == (2, 0) and counts(ba) == (0, 2) and ab.bits != ba.bits


def test_a_session_keeps_its_sound(hears, files):
    hears.ask("-S", "s", "--audio", files["a"], "who speaks?")
    before = hears.ask("-S", "s", "--fork", "t", "and how loud?")
    hears.restart(hears.p, "--mmproj", files["mmproj"])
    after = hears.ask("-S", "s", "--fork", "u", "and how loud?")
    assert after.bits == before.bits and after.usage.get("media_encoded", 0) == 0


def test_the_gateway_gives_the_same(hears, files):
    told = hears.ask("--audio", files["a"], "who speaks?", temp=0)
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(files["a"].read_bytes()).decode(), "format": "wav"}}
    body = {"messages": [{"role": "user", "content": [part, {"type": "text", "text": "who speaks?"}]}], "max_tokens": 16, "temperature": 0}
    r = Gateway(hears).post(CHAT_PATH, body)
    assert r.status == 200, r.body
    assert r.json["choices"][0]["message"]["content"].strip() == told.text.strip()


def test_what_cannot_be_heard(hears, tmp_path):
    silent = sound(tmp_path / "none.wav", 1, seconds=0)
    image = pytest.importorskip("PIL.Image").new("RGB", (4, 4))
    image.save(tmp_path / "i.png")
    for flag, path, says in [("--audio", silent, "no samples"), ("--audio", tmp_path / "i.png", "it is an image, not a sound"),
                             ("-a", tmp_path / "i.png", "the model takes no images")]:
        r = hears.hob(flag, path, "x", check=1)
        assert says in r.err and r.err.count("\n") == 1, r.err
    assert hears.ask("still here?").done["event"] == "done"
