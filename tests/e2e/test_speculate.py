# SPDX-License-Identifier: MIT
"""Proposed tokens: the same bits as without, in a batch with others, with constraints, sessions and after a restart; who is told of them."""
import threading

from conftest import Said
from hobproto import Client

LIST = "alpha beta gamma delta alpha beta gamma delta alpha beta"
KINDS = {
    "greedy": {"temperature": 0}, "warm": {"temperature": 0.8, "seed": 5},
    "mirostat": {"temperature": 1, "seed": 6, "mirostat": 3},
    "penalties": {"temperature": 0.7, "seed": 7, "repeat_penalty": 1.2, "presence_penalty": 0.5},
    "stop": {"temperature": 1, "seed": 8, "stop": ["e", "th"]},
    "several": {"temperature": 1, "seed": 9, "n": 3},
    "grammar": {"temperature": 1, "seed": 10, "constraint": {"type": "grammar", "text": 'root ::= ("ab " | "cd ")+'}},
    "regex": {"temperature": 1, "seed": 11, "constraint": {"type": "regex", "text": "(one|two|three)(, (one|two|three)){20,30}"}},
    "shift": {"temperature": 0, "context": "shift"}, "rotate": {"temperature": 0, "context": "rotate"},
}


def ask(path, **keys):
    """What each answer said, bit for bit, and the sums of drafted and accepted tokens."""
    said, sums = {}, [0, 0]
    with Client(path, 60) as c:
        i = c.request("generate", raw=True, prompt=LIST, max_tokens=80, logprobs=True, **keys)
        e = {}
        while e.get("event") != "done" or e.get("more"):
            e = c.recv()
            assert e["event"] != "error" and e.get("id") == i, e
            s = said.setdefault(e.get("index", 0), [[], [], "", None])
            if e["event"] == "text":
                s[0] += e.get("ids", [])
                s[1] += e.get("logprobs", [])
                s[2] += e["text"]
            if e["event"] == "done":
                s[3] = (e["reason"], e["usage"]["completion"])
                sums = [a + e["usage"].get(k, 0) for a, k in zip(sums, ("drafted", "accepted"))]
    return said, sums


def test_every_kind_of_answer_is_the_same(home):
    d = home.daemon()
    truth, drafted = {}, 0
    for name, keys in KINDS.items():
        truth[name], sums = ask(home.socket, speculate="off", **keys)
        assert sums == [0, 0]
    for name, keys in KINDS.items():
        for mode in ("auto", "lookup"):
            said, sums = ask(home.socket, speculate=mode, **keys)
            assert said == truth[name], (name, mode)
            assert sums[1] <= sums[0]
            drafted += sums[0]
    assert drafted > 0
    wrong = []

    def one(name, keys):
        said, _ = ask(home.socket, speculate="off" if name == "warm" else "auto", **keys)
        if said != truth[name]:
            wrong.append(name)

    threads = [threading.Thread(target=one, args=x) for x in list(KINDS.items()) * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    d = home.restart(d)  # KV from the disk, and no past
    for name, keys in KINDS.items():
        assert ask(home.socket, **keys)[0] == truth[name], name


def test_sessions_are_the_same(home):
    home.daemon()
    said = {}
    for mode in ("off", "auto"):
        turns = [ask(home.socket, speculate=mode, session=f"s-{mode}", ignore_eos=True, temperature=t, seed=3)[0] for t in (0, 1, 0)]
        said[mode] = turns
    assert said["off"] == said["auto"]


def test_option_and_status(home):
    d = home.daemon()
    off = Said(home.hob("--speculate", "off", "--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "100", "--ignore-eos", LIST))
    for _ in range(20):  # on a busy machine the first estimate of what a draft costs may be too high
        auto = Said(home.hob("--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "100", "--ignore-eos", LIST))
        assert off.bits == auto.bits
        if auto.done["usage"].get("accepted"):
            break
    assert "drafted" not in off.done["usage"]
    assert auto.done["usage"]["drafted"] >= auto.done["usage"]["accepted"] > 0
    for _ in range(20):
        r = home.hob("-v", "--raw", "--temp", "0", "-n", "100", "--ignore-eos", LIST)
        if "drafted " in r.err:
            break
    assert r.returncode == 0 and "drafted " in r.err and " tokens a step)" in r.err
    status = home.status()["speculation"]
    assert status["drafted"] >= status["accepted"] > 0 and status["tokens_pass"] > 1 and status["bytes_memory"] > 0
    assert 0 < status["accept_rate"] <= 1
    r = home.hob("--speculate", "draft", "hi")
    assert r.returncode != 0 and "draft model" in r.err
    r = home.hob("--speculate", "on", "hi")
    assert r.returncode == 2 and "--speculate: must be auto, off, lookup or draft" in r.err
    home.restart(d, "--speculate", "off")
    again = Said(home.hob("--raw", "--jsonl", "--logprobs", "--temp", "0", "-n", "100", "--ignore-eos", LIST))
    assert again.bits == off.bits and "drafted" not in again.done["usage"]
    r = home.hob("--speculate", "lookup", "hi")
    assert r.returncode != 0 and "'off'" in r.err


def test_gateway_field(gateway):
    body = {"model": "default", "prompt": LIST, "max_tokens": 5}
    r = gateway.post("/v1/completions", {**body, "speculate": "on"})
    assert r.status == 400 and "speculate" in r.json["error"]["message"]
    for mode in ("off", "auto", "lookup"):
        assert gateway.post("/v1/completions", {**body, "speculate": mode}).status == 200
