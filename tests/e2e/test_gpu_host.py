# SPDX-License-Identifier: MIT
"""KV that leaves a GPU's memory is kept in host memory and comes back, with the same bits: with a driver that computes the kernels on the CPU
(tests/backend/cuda/emulation). Needs a build with -Dcuda=enabled."""
import os
import time

import pytest
from conftest import BUILD, mktiny
from test_cache import wait_status

EMULATED = BUILD / "tests" / "backend" / "cuda" / "emulation"
DOC = "the quick brown fox jumps over the lazy dog, again and again; " * 4
GO = ("--ignore-eos",)
THEN = "and then?"
pytestmark = pytest.mark.skipif(not (EMULATED / "libcuda.so.1").exists(), reason="needs a build with -Dcuda=enabled")


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def model(request, tmp_path_factory):
    """The second one has layers with a window, whose blocks are others."""
    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    return mktiny(path, "--arch", request.param, "--layers", 2 if request.param == "llama" else 6, "--type", "Q8_0", "--ctx", 2048)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("models") / "small.gguf", "--layers", 2, "--type", "Q8_0", "--ctx", 2048)


@pytest.fixture(scope="module", params=["lfm2", "mamba2"])
def recurrent(request, tmp_path_factory):
    """The second one has no layer with attention, and so no KV."""
    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    return mktiny(path, "--arch", request.param, "--type", "Q8_0", "--ctx", 2048)


def start(home, *args, settings="", device="cuda", env=None, **kw):
    return home.daemon("--device", device, *args, env={"LD_LIBRARY_PATH": str(EMULATED), "HOB_FAKE_CUDA": settings, **(env or {})}, **kw)


def turn(h, text):
    return h.ask(*GO, "-S", "own", text, n=8)


def on_cpu(homes, model):
    """Two turns of a session, by the CPU."""
    h = homes(model)
    h.daemon("--cache-bytes", 0)
    return [turn(h, text) for text in (DOC, THEN)]


def fill(h, name="other", more=0):
    """Other sessions take all blocks of the GPU."""
    for i in range(h.status()["kv_blocks"] // 6 + 2 + more):
        h.ask(*GO, "-S", f"{name}{i}", f"{i} " + DOC, n=2)


def test_a_session_comes_back(homes, model):
    """What it had is copied back, none of it is computed, and it is counted."""
    want = on_cpu(homes, model)
    h = homes(model)
    start(h, "--kv-bytes", "300K" if model.name == "llama.gguf" else "1M", "--cache-bytes", 0, "--kv-host-bytes", "8M")
    assert h.status()["cache"]["blocks_host"] == 0
    first = turn(h, DOC)
    assert first.bits == want[0].bits
    fill(h)
    s = h.status()
    assert s["cache"]["blocks_host"] > first.prompt // 32 and s["cache"]["blocks_disk"] == 0
    assert s["kv_host_bytes"] <= 8 << 20 and s["kv_host_taken_bytes"] <= s["kv_host_bytes"]
    assert s["kv_host_blocks"] - s["kv_host_blocks_free"] == s["cache"]["blocks_host"] == sum(u["blocks_host"] for u in s["uids"])
    assert s["cache"]["bytes_host"] * s["kv_host_blocks"] == s["kv_host_bytes"] * s["cache"]["blocks_host"]
    second = turn(h, THEN)
    assert second.bits == want[1].bits and second.cached >= first.prompt
    assert h.status()["cache"]["last_miss"] == "never read before"


@pytest.mark.parametrize("device,settings", [("cuda", ""), ("cuda:0,1", "devices=2")])
def test_states_come_back(homes, recurrent, device, settings):
    """A session continues from its state, which had left the GPU's memory, and computes no more than the tokens behind the last whole block."""
    want = on_cpu(homes, recurrent)
    h = homes(recurrent)
    start(h, "--kv-bytes", "300K", "--cache-bytes", 0, "--kv-host-bytes", "8M", settings=settings, device=device)
    assert h.status()["cache"]["states_host"] == 0
    first = turn(h, DOC)
    for i in range(h.status()["states"]):
        h.ask(*GO, "-S", f"other{i}", f"{i} " + DOC, n=2)
    s = h.status()
    assert s["cache"]["states_host"] > s["states"] // 2 and s["cache"]["states_disk"] == 0
    assert s["kv_host_states"] - s["kv_host_states_free"] == s["cache"]["states_host"] == sum(u["states_host"] for u in s["uids"])
    assert s["cache"]["states_bytes_host"] >= s["state_bytes"] * s["cache"]["states_host"]
    assert s["kv_host_bytes"] <= 8 << 20
    second = turn(h, THEN)
    assert (first.bits, second.bits) == (want[0].bits, want[1].bits) and second.cached >= first.prompt // 32 * 32


def test_states_with_little_memory(homes, recurrent):
    """The pool is less than configured, and its states become fewer in proportion."""
    want = on_cpu(homes, recurrent)
    h = homes(recurrent)
    d = start(h, "--kv-bytes", "2G", "--cache-bytes", 0, "--kv-host-bytes", 0, settings="memory=1000")
    assert "the KV pool is limited to " in d.log.read_text()
    assert 1 < h.status()["states"] * h.status()["state_bytes"] < 500 << 20
    assert [turn(h, text).bits for text in (DOC, THEN)] == [w.bits for w in want]


def test_memory_pressure_leaves_the_gpu_alone(homes, small, tmp_path):
    """To evict its blocks would free nothing of the host's memory."""
    pipe = tmp_path / "pressure"
    os.mkfifo(pipe)
    h = homes(small)
    d = start(h, "-v", "--cache-bytes", 0, env={"MEMORY_PRESSURE_WATCH": str(pipe)})
    first = turn(h, DOC)
    before = h.status()["cache"]
    with open(pipe, "wb", buffering=0) as f:
        f.write(b"x")
        deadline = time.monotonic() + 60
        while "memory pressure: returning memory" not in d.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    second = turn(h, THEN)
    after = h.status()["cache"]
    assert (after["shed"], after["evictions"]) == (0, before["evictions"]) and after["blocks_memory"] >= before["blocks_memory"]
    assert second.cached >= first.prompt


@pytest.mark.parametrize("device,settings", [("cuda", "pitch=1"), ("cuda:0,1", "devices=2")])
def test_other_copies(homes, small, device, settings):
    """Layer by layer, since they are too far apart for one call; or each GPU's layers."""
    want = on_cpu(homes, small)
    h = homes(small)
    start(h, "--kv-bytes", "300K", "--cache-bytes", 0, settings=settings, device=device)
    first = turn(h, DOC)
    fill(h)
    second = turn(h, THEN)
    assert (first.bits, second.bits) == (want[0].bits, want[1].bits) and second.cached >= first.prompt


def test_without_it_all_is_computed(homes, small):
    want = on_cpu(homes, small)
    h = homes(small)
    start(h, "--kv-bytes", "300K", "--cache-bytes", 0, "--kv-host-bytes", 0)
    first = turn(h, DOC)
    fill(h)
    s = h.status()
    assert "blocks_host" not in s["cache"] and "kv_host_bytes" not in s
    second = turn(h, THEN)
    assert (first.bits, second.bits) == (want[0].bits, want[1].bits) and second.cached < 32


def test_the_kernel_pins_no_more(homes, small):
    """The memory of a piece is missing: the daemon does without, and says so."""
    want = on_cpu(homes, small)
    h = homes(small)
    d = start(h, "--kv-bytes", "300K", "--cache-bytes", 0, settings="fail1=cuMemHostAlloc:3:2")
    first = turn(h, DOC)
    fill(h)
    assert (first.bits, turn(h, THEN).bits) == (want[0].bits, want[1].bits)
    assert "of host memory are used for KV, and no more: " in d.log.read_text()
    assert "blocks_host" not in h.status()["cache"]


def test_it_outlives_the_gpu(homes, small):
    """The GPU fails: the CPU continues with what is in host memory."""
    want = on_cpu(homes, small)
    h = homes(small)
    d = start(h, "--kv-bytes", "300K", "--cache-bytes", 0, settings="fail=cuStreamSynchronize:120:700")
    first = turn(h, DOC)
    assert first.bits == want[0].bits
    fill(h)
    assert "the GPU has failed" not in d.log.read_text()
    fill(h, "more", 9)
    assert "the GPU has failed" in d.log.read_text()
    second = turn(h, THEN)
    assert second.bits == want[1].bits and second.cached >= first.prompt


def test_on_disk_behind_it(homes, small):
    """What leaves host memory is on disk, and so is, after a restart, all of it."""
    want = on_cpu(homes, small)
    h = homes(small)
    args = ("--kv-bytes", "300K", "--kv-host-bytes", "100K")
    d = start(h, *args)
    h.ask(*GO, "so that the weights are looked at")
    assert turn(h, DOC).bits == want[0].bits
    h.hob("stop", check=0)
    assert d.wait(60) == 0
    d = start(h, *args)
    fill(h)
    s = wait_status(h, lambda s: s["cache"]["disk_written"] > 0)  # once the weights are verified
    assert s["cache"]["blocks_host"] == s["kv_host_blocks"]
    h.hob("stop", check=0)
    assert d.wait(60) == 0
    h.daemon()  # the CPU
    second = turn(h, THEN)
    assert second.bits == want[1].bits and second.cached > 32


@pytest.mark.parametrize("size,part", [("1K", "kv-host-bytes is 1K, but one block of 32 tokens of this model takes"), ("1024T", "of memory are free")])
def test_impossible_sizes(home, small, size, part):
    d = start(home, "-m", small, "--kv-host-bytes", size, wait=False)
    assert d.wait(60) == 1 and part in d.log.read_text()


def test_models_that_do_not_use_it(home, tmp_path):
    """One of texts alone: a warning, and the model is served."""
    model = mktiny(tmp_path / "bert.gguf", "--arch", "bert", "--tokenizer", "bert", "--ctx", 256)
    d = start(home, "-m", model, "--kv-host-bytes", "1M")
    assert "kv-host-bytes is not used" in d.log.read_text() and "kv_host_bytes" not in home.status()
