# SPDX-License-Identifier: MIT
"""An answer depends on the model, the prompt and the parameters, and on nothing else: bit-equal logprobs."""
import os
import threading

import pytest
from conftest import mktiny

PROMPT = "the quick brown fox jumps over the lazy dog, again and again; " * 6
COLD = ["--cache-bytes", 0]  # what one daemon has computed, the next one shall compute again
KEYS = dict(max_tokens=24, temperature=0.9, seed=11, ignore_eos=True, logprobs=True)


def ask(home, d, prompt=PROMPT, **keys):
    a = home.client(d).answer(prompt, **{**KEYS, **keys})
    assert a.end["event"] == "done", a.end
    return a.ids, a.logprobs


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("models") / "exact.gguf", "--layers", 3, "--type", "Q4_1", "--ctx", 2048)


@pytest.mark.parametrize("kv", ["f32", "f16", "q8"])
def test_chunks_threads_and_instruction_sets(home, model, kv):
    results = {}
    for i, (name, args, env) in enumerate([
            ("plain", [], {}), ("chunk1", ["--batch-tokens", 1], {}), ("chunk7", ["--batch-tokens", 7], {}),
            ("chunk32", ["--batch-tokens", 32], {}), ("chunk512", ["--batch-tokens", 512], {}), ("1 thread", ["--threads", 1], {}), ("3 threads", ["--threads", 3], {}),
            ("scalar", [], {"HOB_CPU": "scalar"}), ("avx2", [], {"HOB_CPU": "avx2"}), ("avx512", [], {"HOB_CPU": "avx512"}),
            ("amx", [], {"HOB_CPU": "amx"})]):
        d = home.daemon("-m", model, "--kv-type", kv, *COLD, *args, socket=home.root / f"{i}.sock", env=env)
        results[name] = ask(home, d)
        d.terminate()
        d.wait(60)
    assert all(r == results["plain"] for r in results.values()), [n for n in results if results[n] != results["plain"]]


def test_other_sequences_change_nothing(home, model):
    d = home.daemon("-m", model, *COLD)
    alone = ask(home, d)
    d.terminate()
    d.wait(60)
    d = home.daemon("-m", model, *COLD)
    got = [None] * 7
    prompts = [PROMPT] + [f"{i} other words entirely " * (3 * i) for i in range(1, 7)]

    def run(i):
        got[i] = ask(home, d, prompts[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(7)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert got[0] == alone
    for i in range(1, 7):
        assert got[i] == ask(home, d, prompts[i], salt="computed again")


def test_a_session_equals_its_tokens_read_at_once(home, model):
    """Continuing over kept KV gives the logits of reading everything cold."""
    d = home.daemon("-m", model, *COLD)
    c = home.client(d)
    first = c.answer("abc", raw=True, session="s", **KEYS)
    warm = c.answer(" def", raw=True, session="s", **KEYS)
    assert warm.usage["cached"] > 0
    d.terminate()
    d.wait(60)
    d = home.daemon("-m", model, *COLD)
    c = home.client(d)
    again = c.answer("abc", raw=True, session="t", **KEYS)
    assert again.ids == first.ids
    # In a namespace where nothing of it was read.
    cold = c.answer(" def", raw=True, session="t", salt="cold", **KEYS)
    assert cold.usage["cached"] == 0
    assert (cold.ids, cold.logprobs) == (warm.ids, warm.logprobs)


def test_mask_above_the_cpu_is_no_error(home, model):
    if os.environ.get("HOB_CPU"):
        pytest.skip("HOB_CPU is set for the whole run")
    d = home.daemon("-m", model, env={"HOB_CPU": "amx"})
    assert ask(home, d)


def test_unknown_mask_is_an_error(home, model):
    d = home.daemon("-m", model, env={"HOB_CPU": "mmx"}, wait=False)
    assert d.wait(60) == 1
    assert "HOB_CPU" in d.log.read_text()
