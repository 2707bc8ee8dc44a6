#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The prefix cache with a recurrent model: the tokens that a conversation computes, and the time to the first token of a
new question about a read document.
usage: recurrent.py [-t THREADS] [--turns N] [--tokens N] [--document N] [--seed N] [--json] [--state-share N]
                    [--peer LLAMA-SERVER [--peer-model PATH] [--peer-port PORT]] HOBD MODEL
A conversation of a session grows to --tokens tokens in --turns turns, a third of each turn an answer. In its middle it is
forked, and the fork gets a turn too. Then the daemon is restarted, and each of both gets another turn. Printed: the tokens
computed at each turn by its new tokens (all that the turn adds to the prompt), the worst and in all; the bytes of stored
states by those of KV at the end. Then a document of --document tokens is read with a question, and asked another one: the
time to the first token by that of the first one, and the tokens that it computed. With --peer, llama.cpp's server, whose
path of the file may be another one, is asked the same questions."""
import argparse
import atexit
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from hobproto import Client  # noqa: E402

WORDS = "the quick brown fox jumps over a lazy dog while seven old ships pass the light of the harbour".split()


def start(hobd, model, home, options):
    socket = Path(home) / "hob.sock"
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": f"{home}/state", "XDG_CACHE_HOME": f"{home}/cache"}
    p = subprocess.Popen([hobd, "serve", "-m", model, "--socket", socket, "--quiet", *options], env=env)
    atexit.register(p.kill)
    while True:
        assert p.poll() is None, "hobd has ended"
        try:
            c = Client(socket, timeout=900)
        except OSError:
            time.sleep(0.05)
            continue
        while status(c)["state"] != "ready":
            time.sleep(0.05)
        return p, c


def stop(p):
    p.terminate()
    assert p.wait(120) == 0


def status(c):
    return json.loads(c.ask("status")["status"])


class Talk:
    """A session, and how many tokens it has."""

    def __init__(self, rnd, name, tokens=0):
        self.rnd, self.name, self.tokens, self.ratios = rnd, name, tokens, []
        self.computed = self.new = 0

    def turn(self, c, tokens, fork=None):
        """About @tokens more tokens; those computed by the new ones of the prompt."""
        words = " ".join(self.rnd.choice(WORDS) for _ in range(max(1, int(tokens * 2 / 3 * self.words_a_token))))
        keys = {"fork": fork} if fork else {}
        u = c.answer(words, session=self.name, max_tokens=max(1, tokens // 3), ignore_eos=True, temperature=0.9, seed=1, **keys).end
        assert u["event"] == "done", u
        u = u["usage"]
        new, computed = u["prompt"] - self.tokens, u["prompt"] - u["cached"]
        talk = self if not fork else Talk(self.rnd, fork)
        talk.tokens = u["prompt"] + u["completion"]
        talk.ratios.append(computed / new)
        talk.computed += computed
        talk.new += new
        return talk


def conversation(o, home, options):
    rnd = random.Random(o.seed)
    p, c = start(o.hobd, o.model, home, options)
    talk, fork = Talk(rnd, "talk"), None
    for i in range(o.turns):
        if i == o.turns // 2:
            fork = talk.turn(c, o.tokens // o.turns, fork="branch")
        talk.turn(c, o.tokens // o.turns)
    if fork:
        fork.turn(c, o.tokens // o.turns)
    cache = status(c)["cache"]
    out = {"turns": o.turns, "tokens": talk.tokens, "worst": max(talk.ratios[1:]), "all": talk.computed / talk.new, "fork": fork.ratios,
           "states": cache["states_memory"], "states_by_kv": cache["states_bytes_memory"] / max(1, cache["bytes_memory"])}
    stop(p)
    p, c = start(o.hobd, o.model, home, options)
    talk.turn(c, o.tokens // o.turns)
    fork.turn(c, o.tokens // o.turns)
    out["restart"] = [talk.ratios[-1], fork.ratios[-1]]
    stop(p)
    return out


def document_text(o):
    rnd = random.Random(o.seed + 1)
    return " ".join(rnd.choice(WORDS) for _ in range(int(o.document * Talk.words_a_token)))


def document(o, home, options):
    p, c = start(o.hobd, o.model, home, options)
    doc = document_text(o)
    keys = {"max_tokens": 8, "ignore_eos": True, "temperature": 0}
    first, second, again = (c.answer(doc + q, **keys, **more).end for q, more in
                            (("\n\nWhere do the ships pass?", {}), ("\n\nAnd who is it that jumps over the dog?", {}),
                             ("\n\nWhere do the ships pass?", {"salt": "cold"})))
    stop(p)
    cold, ms = min(first["timings"]["ttft_ms"], again["timings"]["ttft_ms"]), second["timings"]["ttft_ms"]
    return {"tokens": first["usage"]["prompt"], "cold_ms": cold, "ms": ms, "ratio": cold / ms,
            "computed": second["usage"]["prompt"] - second["usage"]["cached"]}


def peer_ask(url, text):
    """Milliseconds to the first token, and the tokens computed before it."""
    body = json.dumps({"prompt": text, "n_predict": 1, "cache_prompt": True, "temperature": 0}).encode()
    start = time.monotonic()
    with urllib.request.urlopen(urllib.request.Request(url + "/completion", body, {"Content-Type": "application/json"}), timeout=900) as f:
        answer = json.load(f)
    return (time.monotonic() - start) * 1000, answer["timings"]["prompt_n"]


def peer_document(o):
    url = f"http://127.0.0.1:{o.peer_port}"
    argv = [*o.peer.split(), "-m", o.peer_model or o.model, "--port", str(o.peer_port), "-c", str(2 * o.document), "--parallel", "1",
            "--no-webui", *(["-t", str(o.threads)] if o.threads else [])]
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(p.kill)
    while True:
        assert p.poll() is None, "the peer has ended"
        try:
            urllib.request.urlopen(url + "/health", timeout=5).close()
            break
        except OSError:
            time.sleep(0.2)
    doc = document_text(o)
    cold, tokens = peer_ask(url, doc + "\n\nWhere do the ships pass?")
    ms, computed = peer_ask(url, doc + "\n\nAnd who is it that jumps over the dog?")
    p.terminate()
    p.wait(60)
    return {"tokens": tokens, "cold_ms": cold, "ms": ms, "ratio": cold / ms, "computed": computed}


def measure_words(o, home, options):
    p, c = start(o.hobd, o.model, home, options)
    text = " ".join(WORDS * 20)
    Talk.words_a_token = len(WORDS) * 20 / len(c.ask("tokenize", text=text)["ids"])
    stop(p)


def main():
    a = argparse.ArgumentParser(usage=__doc__)
    a.add_argument("-t", "--threads", type=int)
    a.add_argument("--turns", type=int, default=20)
    a.add_argument("--tokens", type=int, default=16384)
    a.add_argument("--document", type=int, default=8192)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--state-share", type=int)
    a.add_argument("--kv-bytes", default="2G")
    a.add_argument("--only", choices=["conversation", "document"])
    a.add_argument("--json", action="store_true")
    a.add_argument("--peer")
    a.add_argument("--peer-model")
    a.add_argument("--peer-port", type=int, default=18080)
    a.add_argument("hobd")
    a.add_argument("model")
    o = a.parse_args()
    options = ["--kv-bytes", o.kv_bytes, "--ctx", str(2 * o.tokens)]
    options += ["--threads", str(o.threads)] if o.threads else []
    options += ["--state-share", str(o.state_share)] if o.state_share else []
    out = {}
    with tempfile.TemporaryDirectory() as home:
        measure_words(o, home, options)
        if o.only != "document":
            out["conversation"] = conversation(o, home, options)
        if o.only != "conversation":
            out["document"] = document(o, home, options)
            if o.peer:
                out["document of the peer"] = peer_document(o)
    if o.json:
        print(json.dumps(out))
        return
    if x := out.get("conversation"):
        print(f"conversation of {x['tokens']} tokens in {x['turns']} turns: computed by new tokens {x['all']:.3f}, the worst turn {x['worst']:.3f}")
        print(f"  fork: {', '.join(f'{r:.3f}' for r in x['fork'])}; after a restart: {x['restart'][0]:.3f}, of the fork {x['restart'][1]:.3f}")
        print(f"  {x['states']} states by KV: {x['states_by_kv']:.3f}")
    for name, x in ((n, x) for n, x in out.items() if n.startswith("document")):
        print(f"{name}, {x['tokens']} tokens: first token after {x['cold_ms']:.0f} ms; of another question {x['ms']:.0f} ms, "
              f"1/{x['ratio']:.0f} ({x['computed']} tokens computed)")


if __name__ == "__main__":
    main()
