# SPDX-License-Identifier: MIT
"""Every architecture: the tokens that llama.cpp gives, the independent pass, and the same bits however it is computed."""
import json
import subprocess
import threading
from pathlib import Path

import pytest
from architectures import FAR, LEARNED, NEAR, RECURRENT, VARIANTS, WINDOWS, arch, arguments, context
from conftest import HOBD, TOP, mktiny
from mmprojfiles import Encoder

CASES = json.loads((Path(__file__).parent / "architectures-greedy.json").read_text())
COLD = ["--cache-bytes", 0]
LONG = "the quick brown fox jumps over the lazy dog, again and again; " * 3
KEYS = dict(max_tokens=24, temperature=0.9, seed=11, ignore_eos=True, logprobs=True)

each = pytest.mark.parametrize("variant", VARIANTS + NEAR)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    made = {}

    def make(variant):
        if variant not in made:
            made[variant] = mktiny(tmp_path_factory.mktemp("models") / f"{variant}.gguf", *arguments(variant))
        return made[variant]

    return make


def ask(home, d, prompt=LONG, **keys):
    a = home.client(d).answer(prompt, raw=True, **{**KEYS, **keys})
    assert a.end["event"] == "done", a.end
    return a.ids, a.logprobs


@pytest.mark.parametrize("case", CASES, ids=[f"{c['variant']}-{c['n_prompt']}" for c in CASES])
def test_greedy_tokens(home, models, case):
    d = home.daemon("-m", models(case["variant"]), "--kv-type", "f32", "--ctx", context(case["variant"]))
    n = len(case["ids"])
    a = home.client(d).answer(case["prompt"], raw=True, max_tokens=n, temperature=0.0, logprobs=True)
    assert a.usage["prompt"] == case["n_prompt"]
    assert a.ids[:n] == case["ids"]


def test_the_recorded_cases():
    assert {c["variant"] for c in CASES} == set(VARIANTS)
    assert all(len(c["ids"]) > 16 for c in CASES)
    assert all(any(c["variant"] == v and c["n_prompt"] > 200 for c in CASES) for v in WINDOWS if v not in NEAR)
    for v, window in FAR.items():  # the answer goes past the window, or into the next chunk
        assert any(c["variant"] == v and c["n_prompt"] < window < c["n_prompt"] + len(c["ids"]) - 16 for c in CASES)


@each
def test_verify(models, variant):
    r = subprocess.run([HOBD, "verify", "-m", models(variant)], capture_output=True)
    if b"OpenBLAS" in r.stderr and r.returncode:
        pytest.skip("OpenBLAS is not installed")
    assert r.returncode == 0, r.stdout + r.stderr


@each
def test_chunks_threads_and_instruction_sets(home, models, variant):
    results = []
    for i, (args, env) in enumerate([([], {}), (["--batch-tokens", 1, "--threads", 2], {"HOB_CPU": "avx2"}),
                                     (["--batch-tokens", 7, "--threads", 3], {}), (["--batch-tokens", 100], {"HOB_CPU": "scalar"})]):
        d = home.daemon("-m", models(variant), "--ctx", context(variant), *COLD, *args, socket=home.root / f"{i}.sock", env=env)
        results.append(ask(home, d))
        d.terminate()
        d.wait(60)
    assert [r == results[0] for r in results] == [True] * 4


@each
def test_batch_and_cache(home, models, variant):
    """In a batch, over a prefix that was read for another, and after a restart, over what the disk has."""
    args = ("-m", models(variant), "--ctx", context(variant))
    prompts = [LONG, LONG[:100] + "but then", LONG + "and again", "something else"]
    d = home.daemon(*args)
    alone = [ask(home, d, p, salt=str(i)) for i, p in enumerate(prompts)]
    together = [None] * 4

    def run(i):
        together[i] = ask(home, d, prompts[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert together == alone
    home.hob("stop", check=0)
    assert d.wait(60) == 0
    d = home.daemon(*args)
    a = home.client(d).answer(LONG + "and again", raw=True, **KEYS)
    assert a.usage["cached"] >= 96 and (a.ids, a.logprobs) == alone[2]


@each
def test_rotating(home, models, variant):
    """As far as layers have no windows of their own."""
    home.daemon("-m", models(variant), "--ctx", 64)
    r = home.hob("--raw", "--context", "rotate", "--ignore-eos", "-n", 80, "the little cat")
    if variant in WINDOWS:
        assert r.returncode == 1 and "cannot rotate" in r.err and "windows" in r.err
    elif variant in RECURRENT:
        assert r.returncode == 1 and "has recurrent layers" in r.err
    elif variant in LEARNED:
        assert r.returncode == 1 and "has learned positions" in r.err
    else:
        assert r.returncode == 0 and r.out
    home.hob("--raw", "--context", "shift", "--ignore-eos", "-n", 80, "the little cat", check=0)


def test_supported_is_what_the_page_says():
    """hobd inspect --supported > packaging/doc/supported-models.md"""
    out = subprocess.run([HOBD, "inspect", "--supported"], capture_output=True, text=True, check=True).stdout
    assert out == (TOP / "packaging" / "doc" / "supported-models.md").read_text()
    assert "packaging/doc/supported-models.md" in (TOP / "README.md").read_text()
    assert all(f"| `{arch(v)}` |" in out for v in VARIANTS)


def test_inspect_tells_of_experts(models):
    out = subprocess.run([HOBD, "inspect", models("qwen2moe")], capture_output=True, text=True, check=True).stdout
    assert "architecture qwen2moe: 2 layers, width 64, 12 experts of 32, 4 for each token, a shared one of 128, 4 heads of 16" in out
    assert "supported: all tensors; " in out


def test_a_model_of_text_only(home, models, tmp_path):
    mmproj = Encoder("mlp", out=64).write(tmp_path / "mmproj.gguf")
    r = subprocess.run([HOBD, "serve", "-m", models("qwen3vl"), "--mmproj", mmproj], env=home.env, stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode and "images and sounds are not supported in a 'qwen3vl' model" in r.stderr


def test_inspect_tells_of_layers(models):
    out = subprocess.run([HOBD, "inspect", models("glm4moe")], capture_output=True, text=True, check=True).stdout
    assert "architecture glm4moe: 3 layers, width 64, 12 experts of 32, 4 for each token, a shared one of 32, 1 layers without experts and with ffn 96, " in out
    assert "MTP layer: it proposes tokens; " in out
    out = subprocess.run([HOBD, "inspect", models("exaone-moe-mtp")], capture_output=True, text=True, check=True).stdout
    assert "MTP layer" not in out and "not computed: 1 more layers, which predict later tokens" in out
