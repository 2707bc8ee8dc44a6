#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Can the holder of a key of hob-http tell from times what another key has cached?

For each of --pairs prompts, ada's key asks it. Then bob's key asks the same prompt and another one of the same length that nobody has asked,
in random order, and the times to the first token are compared. The AUC is the probability that a prompt of ada's is faster than one of
nobody's: 0.5 says nothing, 1 tells all. As a control, ada's key asks again: she must see her own cache. Prints JSON.
"""
import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

WORDS = "river stone cloud garden winter letter music silver window forest bridge candle market ocean paper summer".split()


def prompt(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n)) + f" {rng.random()}"


def auc(fast, slow):
    """That a value of @fast is below one of @slow; half for equal ones."""
    return sum((a < b) + 0.5 * (a == b) for a in fast for b in slow) / (len(fast) * len(slow))


class Client:
    def __init__(self, port, key):
        self.port, self.key = port, key

    def first_token(self, text):
        body = json.dumps({"prompt": text, "max_tokens": 1, "temperature": 0, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            began = time.perf_counter()
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b" % (self.key.encode(), len(body), body))
            got = b""
            while b"data: " not in got:
                piece = s.recv(65536)
                assert piece, got
                got += piece
            took = time.perf_counter() - began
            assert b" 200 " in got.split(b"\r\n")[0], got
            while s.recv(65536):
                pass
        return took


def measure(ada, bob, rng, pairs, words):
    same, other, own = [], [], []
    for i in range(pairs):
        known, unknown = prompt(rng, words), prompt(rng, words)
        ada.first_token(known)
        both = [(known, same), (unknown, other)]
        rng.shuffle(both)
        for text, times in both:
            times.append(bob.first_token(text))
        if i % 4 == 0:
            own.append(ada.first_token(known))
    return same, other, own


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    p.add_argument("--model", default="default", help="a name or the path of a .gguf file")
    p.add_argument("--pairs", type=int, default=200)
    p.add_argument("--words", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        env = {**os.environ, "XDG_STATE_HOME": str(d / "state"), "XDG_CACHE_HOME": str(d / "cache"), "XDG_CONFIG_HOME": str(d / "config")}
        http = a.build / "client" / "hob-http"
        keys = [subprocess.run([http, "--keys", d / "keys", "key", "add", n], env=env, capture_output=True, text=True, check=True).stdout.strip()
                for n in ("ada", "bob")]
        hobd = subprocess.Popen([a.build / "daemon" / "hobd", "serve", "-q", "-m", a.model, "--socket", d / "s"], env=env)
        gate = subprocess.Popen([http, "--keys", d / "keys", "--socket", d / "s", "--listen", "127.0.0.1:0"], env=env, stderr=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r":(\d+)$", gate.stderr.readline().strip())[1])
            while not (d / "s").exists():
                time.sleep(0.01)
            ada, bob = (Client(port, k) for k in keys)
            measure(ada, bob, rng, 5, a.words)  # the first requests wait for the model
            same, other, own = measure(ada, bob, rng, a.pairs, a.words)
        finally:
            for process in (gate, hobd):
                process.terminate()
                process.wait()
    ms = {name: round(statistics.median(v) * 1e3, 3) for name, v in (("known_ms", same), ("unknown_ms", other), ("own_ms", own))}
    print(json.dumps({"pairs": a.pairs, "auc": round(auc(same, other), 4), "control": round(auc(own, other), 4), **ms}))


if __name__ == "__main__":
    main()
