#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Texts a second: hobd over its socket and hob-http's /v1/embeddings, beside llama-server's, on the same file.
usage: embed.py [-r ROUNDS] [-t THREADS] [-n TEXTS] [--tokens N] [--no-peer] PEERDIR MODEL
  PEERDIR  as for table.py;  MODEL  a name in PEERDIR/models, of a model with embeddings
  HOBD     in the environment: the hobd to run (default: build/daemon/hobd)
Every round has texts that neither server has seen; a text has N tokens (64) with those at its ends. Also printed: the
largest cosine distance between the vectors of both, and the time of texts that hobd has in its cache."""
import argparse
import json
import math
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from hobproto import Client  # noqa: E402
from serve import HOBD, TOP, Hob  # noqa: E402

WORDS = ("time year people way day man thing woman life child world school state family student group country problem hand part place case week "
         "company system program question work government number night point home water room mother area money story fact month lot right study "
         "book eye job word business issue side kind head house service friend father power hour game line end member law car city").split()


class Http:
    """A server with /v1/embeddings."""

    def __init__(self, name, port, p):
        self.name, self.port, self.p = name, port, p

    def vectors(self, texts):
        q = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/embeddings", json.dumps({"input": texts}).encode(),
                                   {"Content-Type": "application/json"})
        with urllib.request.urlopen(q, timeout=900) as r:
            return [d["embedding"] for d in json.load(r)["data"]]

    def stop(self):
        self.p.terminate()
        self.p.wait()


def llama(peer, model, threads):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    argv = [peer / "run", "llama-server", "-m", f"/models/{model}", "-t", str(threads), "-tb", str(threads), "--port", str(port), "--embeddings",
            "--parallel", "16", "-c", str(16 * 512), "-b", "2048", "-ub", "2048"]
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
            return Http("llama-server", port, p)
        except OSError:
            assert p.poll() is None, "llama-server ended"
        time.sleep(0.1)


def gateway(hob):
    argv = [Path(HOBD).parents[1] / "client" / "hob-http", "--listen", "127.0.0.1:0", "--socket", hob.socket]
    p = subprocess.Popen(argv, stderr=subprocess.PIPE, env=hob.env)
    return Http("hob-http", int(re.search(rb":(\d+)\n", p.stderr.readline())[1]), p)


class Socket:
    name = "hobd"

    def __init__(self, hob):
        self.hob = hob

    def vectors(self, texts):
        with Client(self.hob.socket, 900) as c:
            got = c.vectors(texts)
            assert got.end["event"] == "done", got.end
            return got.floats


def make_texts(hob, seed, n, tokens):
    """@n texts of exactly @tokens tokens: words are added until one more would be too many, then short ones are tried."""
    r = random.Random(seed)
    out = []
    with Client(hob.socket, 900) as c:
        while len(out) < n:
            many = [" ".join(r.choice(WORDS) for _ in range(tokens - r.randrange(2, 8))) for _ in range(4 * n)]
            counts = c.vectors(many, salt=f"count {seed} {len(out)}").tokens
            out += [t for t, k in zip(many, counts) if k == tokens]
    return out[:n]


def distance(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return 1 - dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def main():
    a = argparse.ArgumentParser(usage=__doc__)
    a.add_argument("-r", type=int, default=5)
    a.add_argument("-t", type=int, default=2)
    a.add_argument("-n", type=int, default=128)
    a.add_argument("--tokens", type=int, default=64)
    a.add_argument("--no-peer", action="store_true")
    a.add_argument("peer", type=Path)
    a.add_argument("model")
    a = a.parse_args()
    with tempfile.TemporaryDirectory() as d:
        hob = Hob(a.peer / "models" / a.model, a.t, d)
        texts = [make_texts(hob, i, a.n, a.tokens) for i in range(2 * (a.r + 1))]
        hob.stop()
        hob.start()  # an empty cache
        servers = [Socket(hob), gateway(hob)] + ([] if a.no_peer else [llama(a.peer, a.model, a.t)])
        rates, rows = {s.name: [] for s in servers}, {}
        for i in range(a.r + 1):
            for s in servers:
                mine = texts[i + a.r + 1] if s.name == "hob-http" else texts[i]  # else hobd would find them
                t = time.monotonic()
                rows[s.name] = s.vectors(mine)
                if i:  # the first round warms up
                    rates[s.name].append(len(mine) / (time.monotonic() - t))
        for s in servers:
            print(f"{s.name:14} {statistics.median(rates[s.name]):9.1f} texts/s   (least {min(rates[s.name]):.1f}, most {max(rates[s.name]):.1f})")
        if not a.no_peer:
            print("hobd / llama-server", round(statistics.median(rates["hobd"]) / statistics.median(rates["llama-server"]), 2))
            print("largest cosine distance", max(map(distance, rows["hobd"], rows["llama-server"])))
        t = time.monotonic()
        servers[0].vectors(texts[a.r])
        print(f"cached         {a.n / (time.monotonic() - t):9.1f} texts/s")
        for s in servers[1:]:
            s.stop()
        hob.stop()


main()
