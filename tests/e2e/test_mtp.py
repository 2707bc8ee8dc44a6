# SPDX-License-Identifier: MIT
"""Models whose file has a layer that predicts later tokens (MTP): it proposes tokens, and no bit of an answer changes; what becomes
of files whose layer is not whole."""
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import HOBD, Said, mktiny
from test_speculate import KINDS, LIST, ask

MAKE = Path(__file__).resolve().parents[1] / "bench" / "mtp_model.py"


def right(path, vocabulary, *args):
    """A model whose MTP layer says what the model says, but for a share of the tokens. It has so many layers that drafts are worth their time."""
    shape = ("--layers", "21", "--dim", "256", "--ffn", "1024", "--type", "Q8_0")
    subprocess.run([sys.executable, MAKE, *shape, *args, vocabulary, path], check=True)
    return path


@pytest.fixture
def models(tmp_path, tiny):
    """Layers that are right, right for half of the tokens, and of random weights; the last with attention alone."""
    return {"right": right(tmp_path / "right.gguf", tiny), "half": right(tmp_path / "half.gguf", tiny, "--wrong", "0.5", "--margin", "6"),
            "random": mktiny(tmp_path / "random.gguf", "--arch", "qwen35-mtp", "--ctx", 1024),
            "experts": mktiny(tmp_path / "experts.gguf", "--arch", "glm4moe", "--ctx", 1024)}


def kinds(which):
    """All that the model can: a context does not rotate with recurrent layers."""
    return {name: {**keys, "ignore_eos": "stop" not in keys and "constraint" not in keys} for name, keys in KINDS.items()
            if which == "experts" or name != "rotate"}


@pytest.mark.parametrize("which", ["right", "half", "random", "experts"])
def test_every_kind_of_answer_is_the_same(home, models, which):
    args = ("-m", str(models[which]), "--kv-bytes", "32M", "--ctx", "1024")
    d = home.daemon(*args)
    truth = {name: ask(home.socket, speculate="off", **keys)[0] for name, keys in kinds(which).items()}
    turns = [ask(home.socket, session="a", ignore_eos=True, speculate="off", temperature=t, seed=3)[0] for t in (0, 1, 0)]
    sums = [0, 0]
    for name, keys in kinds(which).items():
        for mode in ("draft", "auto"):
            said, counts = ask(home.socket, speculate=mode, **keys)
            assert said == truth[name], (name, mode)
            assert counts[1] <= counts[0]
            if mode == "draft" and "constraint" not in keys:
                sums = [a + b for a, b in zip(sums, counts)]
    if which == "right":
        assert sums[1] > 0.5 * sums[0] > 0  # not all: some answers have penalties, or end
    if which == "half":
        assert 0 < sums[1] < sums[0]
    assert home.status()["draft_model"]["passes"] > 0
    assert turns == [ask(home.socket, session="b", ignore_eos=True, speculate="draft", temperature=t, seed=3)[0] for t in (0, 1, 0)]
    wrong = []

    def one(name, keys):
        if ask(home.socket, speculate="off" if name == "warm" else "draft", **keys)[0] != truth[name]:
            wrong.append(name)

    threads = [threading.Thread(target=one, args=x) for x in list(kinds(which).items()) * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    x = home.status()["draft_model"]
    assert x["mtp"] is True and x["path"] == str(models[which]) and x["weights_bytes"] > 0 and x["kv_bytes"] > 0 and x["passes"] > 0
    assert x["kv_blocks_free"] == x["kv_blocks"] > 0 and x["accepted"] <= x["drafted"]
    home.restart(d, *args)  # KV and states from the disk, none of them the layer's
    for name, keys in kinds(which).items():
        assert ask(home.socket, speculate="draft", **keys)[0] == truth[name], name
    assert home.status()["draft_model"]["passes"] > 0


def test_greedy_drafts_of_a_right_layer(home, models):
    """Every draft is accepted, several tokens deep: each comes from the state of the right token."""
    home.daemon("-m", str(models["right"]), "--ctx", "1024")
    for mode in ("draft", "auto"):
        said = Said(home.hob("--speculate", mode, "--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "200", "--ignore-eos", LIST))
        off = Said(home.hob("--speculate", "off", "--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "200", "--ignore-eos", LIST))
        assert said.bits == off.bits
        if mode == "draft":
            assert said.usage["accepted"] == said.usage["drafted"] == said.usage["drafted_model"] > 0


def test_without_it(home, models, tiny):
    d = home.daemon("-m", str(models["right"]), "--draft", "none")
    off = home.status()
    assert off["draft_model"] is None
    r = home.hob("--speculate", "draft", "hi")
    assert r.returncode != 0 and "needs a draft model or a model with an MTP layer" in r.err
    d = home.restart(d, "-m", str(models["right"]), "--speculate", "lookup")
    assert home.status()["draft_model"] is None
    d = home.restart(d, "-m", str(models["right"]), "--draft", str(tiny))  # the same vocabulary: it is asked in its place
    assert home.status()["draft_model"]["mtp"] is False
    home.restart(d, "-m", str(models["right"]), "--speculate", "draft")
    assert home.status()["draft_model"]["mtp"] is True
    r = subprocess.run([HOBD, "serve", "--socket", home.root / "s", "-m", tiny, "--speculate", "draft"], env=home.env,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode != 0 and "'draft' needs a draft model (--draft), or a model with an MTP layer: there is neither" in r.stderr


@pytest.mark.parametrize("name, instead, says", [
    (b"nextn.hnorm", b"nextn.HNORM", "tensor 'blk.21.nextn.hnorm.weight' is missing"),
    (b"blk.21.ffn_up", b"blk.21.ffn_UP", "tensor 'blk.21.ffn_up.weight' is missing"),
    (b"nextn.shared_head_norm", b"nextn.shared_head_head", "tensor 'blk.21.nextn.shared_head_head.weight' is 256 x 1, but the model's keys say"),
])
def test_a_layer_that_is_not_whole(home, models, tmp_path, name, instead, says):
    data = models["right"].read_bytes()
    assert data.count(name) == 1
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data.replace(name, instead))
    home.daemon("-m", str(broken))
    log = (home.root / "hobd.log").read_text()
    assert log.count("the model is served without its MTP layer:") == 1 and says in log
    assert home.status()["draft_model"] is None
    assert home.hob("--raw", "-n", "5", "hi").returncode == 0
    out = subprocess.run([HOBD, "inspect", broken], capture_output=True, text=True).stdout
    assert "MTP layer: it is not used: " in out and says in out


def test_a_file_that_contradicts_itself(home, models, tmp_path):
    data = models["right"].read_bytes()
    key = b"qwen35.nextn_predict_layers\x04\0\0\0"
    at = data.index(key) + len(key)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data[:at] + b"\x16\0\0\0" + data[at + 4:])
    r = subprocess.run([HOBD, "serve", "--socket", home.root / "s", "-m", broken], env=home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode != 0 and "key 'qwen35.nextn_predict_layers' is 22, not a number from 0 to 21" in r.stderr


def test_too_little_memory(home, models):
    home.daemon("-m", str(models["experts"]), "--kv-bytes", "15K")
    log = (home.root / "hobd.log").read_text()
    assert log.count("served without its MTP layer: its KV has no room") == 1
    assert home.status()["draft_model"] is None
    assert home.hob("--raw", "-n", "5", "hi").returncode == 0
