# SPDX-License-Identifier: MIT
"""A draft model beside the model: the same bits with it as without; files that cannot be one; too little memory."""
import subprocess
import threading

import pytest
from conftest import HOBD, Said, mktiny
from test_speculate import KINDS, LIST, ask


def refused(home, draft, *args):
    """Why a daemon with the draft model @draft ends."""
    r = subprocess.run([HOBD, "serve", "--socket", home.root / "s", "--draft", str(draft), *args],
                       env=home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode != 0
    return r.stderr


@pytest.fixture
def drafts(tmp_path, tiny):
    """Draft models of the same vocabulary: the model itself, and one with random other weights."""
    return {"same": tiny, "other": mktiny(tmp_path / "other.gguf", "--seed", 99, "--layers", 1)}


@pytest.mark.parametrize("which", ["same", "other"])
def test_every_kind_of_answer_is_the_same(home, drafts, which):
    d = home.daemon("--kv-bytes", "8M")
    truth = {name: ask(home.socket, speculate="off", **keys)[0] for name, keys in KINDS.items()}
    turns = [ask(home.socket, session="a", ignore_eos=True, speculate="off", temperature=t, seed=3)[0] for t in (0, 1, 0)]
    d = home.restart(d, "--kv-bytes", "8M", "--draft", str(drafts[which]))
    for name, keys in KINDS.items():
        for mode in ("draft", "auto"):
            said, sums = ask(home.socket, speculate=mode, **keys)
            assert said == truth[name], (name, mode)
            assert sums[1] <= sums[0]
    assert turns == [ask(home.socket, session="b", ignore_eos=True, speculate="draft", temperature=t, seed=3)[0] for t in (0, 1, 0)]
    wrong = []

    def one(name, keys):
        if ask(home.socket, speculate="off" if name == "warm" else "draft", **keys)[0] != truth[name]:
            wrong.append(name)

    threads = [threading.Thread(target=one, args=x) for x in list(KINDS.items()) * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    x = home.status()["draft_model"]
    assert x["path"] == str(drafts[which]) and x["weights_bytes"] > 0 and x["kv_bytes"] == (2 if which == "same" else 1) << 20 and x["passes"] > 0
    assert x["kv_blocks_free"] == x["kv_blocks"] > 0 and x["accepted"] <= x["drafted"]
    home.restart(d, "--kv-bytes", "8M", "--draft", "none")  # KV from the disk: none of it is a draft model's
    for name, keys in KINDS.items():
        assert ask(home.socket, **keys)[0] == truth[name], name
    assert home.status()["draft_model"] is None


def test_modes(home, drafts):
    home.daemon("--draft", str(drafts["same"]), "--speculate", "draft")
    auto = Said(home.hob("--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "60", "--ignore-eos", LIST))
    off = Said(home.hob("--speculate", "off", "--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "60", "--ignore-eos", LIST))
    assert auto.bits == off.bits
    assert auto.usage.get("drafted_model", 0) == auto.usage.get("drafted", 0)
    r = home.hob("--speculate", "lookup", "hi")
    assert r.returncode != 0 and "'lookup' is not possible, the daemon's configuration has 'draft'" in r.err
    r = home.hob("status")
    assert "draft_model" in r.out


def test_files_that_are_no_draft_model(home, tmp_path, tiny):
    assert "draft model" in refused(home, tmp_path / "none.gguf") and "none.gguf" in refused(home, tmp_path / "none.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes()[:5000])
    assert "broken.gguf" in refused(home, broken)
    text = refused(home, mktiny(tmp_path / "spm.gguf", "--tokenizer", "llama"))
    assert "another vocabulary: the tokenizer is SentencePiece, but BPE in the model" in text
    text = refused(home, mktiny(tmp_path / "more.gguf", "--control", "<|more|>"))
    assert "another vocabulary" in text and "'<|more|>'" in text
    model = mktiny(tmp_path / "model.gguf", "--merge", "z q")
    text = refused(home, mktiny(tmp_path / "merge.gguf", "--merge", "q z"), "-m", model)
    assert "another vocabulary: token 305 is 'qz' (text), but 'zq' (text) in the model" in text
    text = refused(home, mktiny(tmp_path / "arch.gguf", "--arch", "mamba"))
    assert "arch.gguf" in text and "mamba" in text
    text = refused(home, "none", "--speculate", "draft")
    assert "'draft' needs a draft model" in text


def test_too_little_memory(home, drafts):
    """KV for one block of the model, and none of the draft model."""
    home.daemon("--kv-bytes", "20K", "--draft", str(drafts["same"]))
    log = (home.root / "hobd.log").read_text()
    assert log.count("served without a draft model: its KV has no room") == 1
    assert home.status()["draft_model"] is None
    r = home.hob("--speculate", "draft", "hi")
    assert r.returncode != 0 and "draft model" in r.err
    assert home.hob("--raw", "-n", "5", "hi").returncode == 0
