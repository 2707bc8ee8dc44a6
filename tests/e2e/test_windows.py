# SPDX-License-Identifier: MIT
"""Layers with a sliding window keep a fraction of their KV, and conversations are continued as if they kept all."""
import shutil
import struct

import pytest
from conftest import mktiny
from sparse_model import ALIGN, BYTES, Reader

LAYERS, WINDOW = 26, 512  # as Gemma 3 1B: 5 of 6 layers have the window


def deeper(small, out):
    """Write @out from @small: LAYERS layers, which repeat those of the file, and another window."""
    data = bytearray(small.read_bytes())
    r = Reader(data)
    r.at = 8
    n_tensors, n_keys = r.take("Q"), r.take("Q")
    for _ in range(n_keys):
        name, kind = r.text(), r.take("I")
        if name.endswith(".block_count"):
            was = struct.unpack_from("<I", data, r.at)[0]
            struct.pack_into("<I", data, r.at, LAYERS)
        if name.endswith(".sliding_window"):
            struct.pack_into("<I", data, r.at, WINDOW)
        r.skip(kind)
    head, tensors = bytes(data[24:r.at]), []
    for _ in range(n_tensors):
        name = r.text()
        dims, kind, at = [r.take("Q") for _ in range(r.take("I"))], r.take("I"), r.take("Q")
        n = BYTES[kind][1]
        for d in dims:
            n *= d
        tensors.append((name, dims, kind, at, n // BYTES[kind][0]))
    base = -(-r.at // ALIGN) * ALIGN
    every = [t for t in tensors if not t[0].startswith("blk.")]
    for layer in range(LAYERS):
        begin = f"blk.{layer % was}."
        every += [(f"blk.{layer}." + t[0][len(begin):], *t[1:]) for t in tensors if t[0].startswith(begin)]
    infos, body = b"", b""
    for name, dims, kind, at, n in every:
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
        infos += b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, len(body))
        body += bytes(data[base + at:base + at + n])
        body += bytes(-len(body) % ALIGN)
    start = bytes(data[:8]) + struct.pack("<QQ", len(every), n_keys) + head + infos
    out.write_bytes(start + bytes(-len(start) % ALIGN) + body)
    return out


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    d = tmp_path_factory.mktemp("windows")
    small = mktiny(d / "small.gguf", "--arch", "gemma3", "--type", "Q8_0", "--ctx", 32768)
    return deeper(small, d / "model.gguf")


@pytest.fixture(scope="module")
def chunked(tmp_path_factory):
    d = tmp_path_factory.mktemp("chunks")
    small = mktiny(d / "small.gguf", "--arch", "llama4-near", "--type", "Q8_0", "--ctx", 32768)
    return deeper(small, d / "model.gguf")


def text(turn):
    return " ".join(f"{turn}{chr(97 + i % 26)}{i % 10}" for i in range(230))


def talk(home, turns, restart_at):
    """A conversation in a session. Each turn computes its own tokens and a block at most."""
    d, seen = home.daemon(), 0
    for turn in range(turns):
        if turn in restart_at:
            d = home.restart(d)
        a = home.ask("-S", "talk", "--ignore-eos", text(turn), n=24)
        assert a.cached + 32 >= seen, (turn, a.usage, seen)
        seen = a.usage["prompt"] + 24
    return d


def test_system_prompt(homes, model):
    """The end of a system prompt, and of what comes before the last message, is found at once by another prompt."""
    home = homes(model)
    home.daemon()
    first = home.ask("--system", text(0), "--ignore-eos", text(1), n=40)
    other = home.ask("--system", text(0), "--ignore-eos", text(2), n=40)
    assert first.cached == 0 and other.cached > first.prompt / 2 - 64
    a = home.ask("-S", "talk", "--ignore-eos", text(3), n=40)
    home.ask("-S", "talk", "--ignore-eos", text(4), n=40)
    again = home.ask("-S", "talk", "--fork", "branch", "--ignore-eos", text(5), n=40)
    assert again.cached > a.prompt


def test_conversation(homes, model):
    """20 turns of a conversation that is longer than many windows, with restarts between."""
    home, other = homes(model), homes(model)
    d = talk(home, 20, (7, 14))
    s = home.status()
    full, window = s["kv_groups"]
    assert (full["layers"], full["window"], window["layers"], window["window"]) == (4, 0, 22, WINDOW)
    assert s["kv_bytes_used"] == full["bytes_used"] + window["bytes_used"]
    without = full["bytes_used"] // full["layers"] * LAYERS
    assert full["blocks_used"] * 32 > 14000
    assert s["kv_bytes_used"] < 0.28 * without, s["kv_bytes_used"] / without
    home.restart(d)
    shutil.copytree(home.root / "state", other.root / "state", dirs_exist_ok=True)
    other.daemon("--cache-bytes", 0)
    warm = home.ask("-S", "talk", "--ignore-eos", text(20))
    cold = other.ask("-S", "talk", "--ignore-eos", text(20))
    assert cold.cached == 0 and warm.cached > 14000
    assert warm.bits == cold.bits


def test_chunks(homes, chunked):
    """The same where a window is a chunk: what is kept has all of the chunk."""
    home, others = homes(chunked), {"talk": homes(chunked), "branch": homes(chunked)}
    d = talk(home, 6, (3,))
    branch = home.ask("-S", "talk", "--fork", "branch", "--ignore-eos", text(7), n=24)
    home.restart(d)
    for session, other in others.items():
        shutil.copytree(home.root / "state", other.root / "state", dirs_exist_ok=True)
        other.daemon("--cache-bytes", 0)
        warm = home.ask("-S", session, "--ignore-eos", text(20))
        cold = other.ask("-S", session, "--ignore-eos", text(20))
        assert cold.cached == 0 and warm.cached > 4000
        assert warm.bits == cold.bits
    assert branch.cached > 4000
