# SPDX-License-Identifier: MIT
"""Every architecture through the daemon on a GPU: sessions that move between CPU and GPU have the CPU's bits, with a driver that computes the
kernels on the CPU (tests/backend/cuda/emulation). Needs a build with -Dcuda=enabled."""
import pytest
from architectures import FAR, PIECE, VARIANTS, arguments
from conftest import mktiny
from test_gpu_host import pytestmark, start  # noqa: F401

TURNS = [PIECE * 4, "and then?"]


def session(h, devices):
    """The answers of a session with a turn on each of the devices; what is cached goes from one to the next on disk."""
    got = []
    for device, text in [("cpu", ""), *zip(devices, TURNS)]:  # after the first start the file's hash is known, and ids are kept
        d = start(h, device=device)
        if text:
            got.append(h.ask("--ignore-eos", "-S", "own", text, n=6))
        h.hob("stop", check=0)
        assert d.wait(60) == 0 and "the GPU has failed" not in d.log.read_text()
    assert got[1].cached >= got[0].prompt // 32 * 32
    return [x.bits for x in got]


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v not in FAR])
def test_sessions_move_between_cpu_and_gpu(homes, tmp_path, variant):
    model = mktiny(tmp_path / "m.gguf", *arguments(variant))
    want = session(homes(model), ["cpu", "cpu"])
    assert session(homes(model), ["cuda", "cpu"]) == want
    assert session(homes(model), ["cpu", "cuda"]) == want
