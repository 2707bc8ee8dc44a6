# SPDX-License-Identifier: MIT
"""What hobd does where a GPU's driver is missing, fails at the start, or fails while it computes: with a driver that fails as it is told
(tests/backend/cuda/fake-cuda.c), whose kernels compute nothing. Needs a build with -Dcuda=enabled."""
import subprocess
import threading

import pytest
from conftest import BUILD, HOBD, mktiny
from test_daemon import sandbox_of

FAKE = BUILD / "tests" / "backend" / "cuda"
KEYS = dict(raw=True, max_tokens=12, temperature=0.8, seed=3, ignore_eos=True, logprobs=True)
PROMPTS = ["once upon a time " * n for n in (1, 9, 30)]
pytestmark = pytest.mark.skipif(not (FAKE / "libcuda.so.1").exists(), reason="needs a build with -Dcuda=enabled")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("models") / "gpu.gguf", "--layers", 2, "--ctx", 2048)


def start(home, model, device, settings, **kw):
    return home.daemon("-m", model, "--device", device, "--cache-bytes", 0, env={"LD_LIBRARY_PATH": str(FAKE), "HOB_FAKE_CUDA": settings}, **kw)


def ask(home, d):
    """All prompts at once."""
    got = {}

    def run(p):
        a = home.client(d).answer(p, **KEYS)
        got[p] = (a.end["event"], a.ids, a.logprobs)

    threads = [threading.Thread(target=run, args=(p,)) for p in PROMPTS]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return got


@pytest.fixture
def cpu(home, model):
    d = home.daemon("-m", model, "--cache-bytes", 0)
    got = ask(home, d)
    d.terminate()
    assert d.wait(60) == 0
    return got


def symbols(path, which):
    lines = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines if " w " not in line and "@" not in line}


def test_the_library_for_a_gpu_finds_all_functions():
    """daemon/backend/plugin.list names those of hobd that hobd-cuda.so calls; those of libc have a version."""
    assert symbols(BUILD / "daemon" / "hobd-cuda.so", "--undefined-only") <= symbols(HOBD, "--defined-only")


WRONG = [("devices=0", "finds no device"), ("version=11080", "too old: it has CUDA 11.8"), ("major=7", "fake, sm_70: too old"), ("fail=cuInit:1:999", "does not start"),
         ("memory=8", "MiB are free"), ("devices=2,full=1,memory=8", "MiB are free"), ("fail1=cuMemAlloc:3:2", "no device memory for the KV pool"), ("fail=cuModuleLoadData:3:222", "cannot load the kernels")]


@pytest.mark.parametrize("settings,part", WRONG)
def test_a_start_without_a_gpu(home, model, cpu, settings, part):
    """auto is the CPU, and says why; cuda ends, and says the same."""
    d = start(home, model, "auto", settings)
    log = d.log.read_text()
    assert "the CPU computes: " in log and part in log
    assert ask(home, d) == cpu
    d.terminate()
    assert d.wait(60) == 0
    d = start(home, model, "cuda", settings, wait=False)
    assert d.wait(60) == 1
    assert part in d.log.read_text()[len(log):]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Blocks of 32 tokens have 4 MiB."""
    return mktiny(tmp_path_factory.mktemp("models") / "wide.gguf", "--layers", 16, "--kv-heads", 8, "--heads", 8, "--head-dim", 128, "--ctx", 2048)


CPU, BOTH = "the CPU computes: ", ": layers 0 to "


@pytest.mark.parametrize("device,settings,part", [*(("auto", f"memory={m}", CPU) for m in (700, 702, 704, 706, 740, 780)), ("auto", "devices=2,memory=704", CPU),
                                                  *((d, f"devices=2,memory={m}", BOTH) for m in (740, 780) for d in ("auto", "cuda"))])
def test_too_little_memory_for_kv(home, wide, device, settings, part):
    """Where weights just fit, another GPU helps, or with auto the CPU: a sequence has all of its context."""
    d = start(home, wide, device, settings)
    log = d.log.read_text()
    assert part in log and "a sequence is limited to" not in log
    d.terminate()
    assert d.wait(60) == 0


@pytest.mark.parametrize("settings", ["memory=740", "devices=2,full=1,memory=740", "devices=2,busy=600,memory=740", "devices=3,busy=740,memory=740"])
def test_a_gpu_that_is_wanted_has_what_it_can(home, wide, settings):
    """Also where no other one helps."""
    d = start(home, wide, "cuda", settings)
    log = d.log.read_text()
    assert "a sequence is limited to " in log and "hobd: fake, sm_90: the KV pool is limited to 82 MiB, what the device has left" in log and "cuda:" not in log.split("the KV pool")[1]
    d.terminate()
    assert d.wait(60) == 0


TWO = [("devices=1", "there is no CUDA device 1; there are 1"), ("devices=2,memory=8", "fake, sm_90, cuda:0: layers 0 to 0 and the buffers need "),
       ("devices=2,fail1=cuMemAlloc:7:2", "fake, sm_90, cuda:1: no device memory for the buffers of a step")]


@pytest.mark.parametrize("settings,part", TWO)
def test_a_start_without_one_of_two_gpus(home, model, settings, part):
    d = start(home, model, "cuda:0,1", settings, wait=False)
    assert d.wait(60) == 1
    assert part in d.log.read_text()


def test_two_gpus_of_which_one_fails(home, model, cpu):
    """The status names both; after the failure of the second one the CPU's."""
    d = start(home, model, "cuda:0,1", "devices=2,fail=cuMemcpyPeerAsync:1:700")
    assert b"fake, sm_90 (cuda:0,1)" in home.hob("status", "--json").stdout
    assert ask(home, d) == cpu
    assert "the GPU has failed: fake, sm_90, cuda:1: a copy from another device: " in d.log.read_text()
    d.terminate()
    assert d.wait(60) == 0


def test_no_driver_leaves_the_sandbox_closed(home, model):
    """Also the driver's thread, and all others, are in it."""
    for settings in ("devices=0", ""):
        d = start(home, model, "auto", settings)
        assert sandbox_of(d) == {("NoNewPrivs:\t1", "Seccomp:\t2")}
        d.terminate()
        assert d.wait(60) == 0


@pytest.mark.parametrize("settings", ["fail=cuGraphLaunch:1:700", "fail=cuLaunchKernelEx:1:700", "fail=cuStreamEndCapture:1:900", "fail=cuStreamSynchronize:3:719"])
def test_a_gpu_that_fails_in_the_first_step(home, model, cpu, settings):
    d = start(home, model, "cuda", settings)
    one = home.client(d).answer(PROMPTS[0], **KEYS)
    assert (one.end["event"], one.ids, one.logprobs) == cpu[PROMPTS[0]]
    assert ask(home, d) == cpu
    assert "the GPU has failed" in d.log.read_text()
    d.terminate()
    assert d.wait(60) == 0


@pytest.mark.parametrize("n", range(1, 40, 6))
def test_a_gpu_that_fails_later(home, model, cpu, n):
    """No request fails or hangs; what was sampled before is the fake's, and what comes later is right."""
    d = start(home, model, "cuda", f"fail=cuStreamSynchronize:{n + 3}:700")
    for _ in range(5):
        assert all(event == "done" and len(ids) == 12 for event, ids, _ in ask(home, d).values())
    assert "the GPU has failed" in d.log.read_text()
    assert home.client(d).answer("never seen before", **KEYS).end["event"] == "done"
    assert ask_anew(home, d) == cpu
    d.terminate()
    assert d.wait(60) == 0


def ask_anew(home, d):
    return {p: (a.end["event"], a.ids, a.logprobs) for p in PROMPTS for a in [home.client(d).answer(p, salt="new", **KEYS)]}


def test_texts_of_a_gpu_that_fails(homes, tmp_path):
    """A model that computes texts whole has no KV pool; the CPU maps the blocks of a batch when it takes over."""
    h = homes(mktiny(tmp_path / "bert.gguf", "--arch", "bert", "--tokenizer", "bert", "--ctx", 256))
    texts = ["a text", "another text of some more words", "x"]
    got = []
    for more in ((), ("--device", "cuda")):
        d = h.daemon(*more, env={"LD_LIBRARY_PATH": str(FAKE), "HOB_FAKE_CUDA": "fail=cuLaunchKernelEx:1:719"})
        with h.client() as c:
            got += [c.vectors(texts, salt="a").rows, c.vectors(texts, salt="b").rows]
        assert ("the GPU has failed" in d.log.read_text()) == bool(more)
        d.terminate()
        assert d.wait(60) == 0
    assert got == [got[0]] * 4
