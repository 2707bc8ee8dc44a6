#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hob batch beside a loop of single hob calls, and beside llama-server with 16 parallel clients: one Markdown table.

    batch.py                                       # with the installed default model
    batch.py --peer "PEERDIR/run llama-server" --peer-models /models PEERDIR/models/default.gguf

PEERDIR is as for table.py. All get the same chat requests: a system message of about 500 tokens, which all prompts have
in common, and a prompt of about 60 tokens; the answers have --tokens tokens each, sampled with hob's defaults. Counted are the tokens
of answers by the time from the start of the first process or request to the end of the last; each side has read the
system message before. Of the loop and of llama-server a sample is enough (--loop, --clients), and --prompts sets how
many hob batch gets. --rounds: in turn, medians."""
import argparse
import json
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from hobproto import Client  # noqa: E402

WORDS = ("river stone cloud garden winter letter music silver window forest bridge candle market ocean paper summer road "
         "table door night morning bread water glass field house story child friend voice").split()
SLOTS = 16


def words(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


class Hob:
    def __init__(self, o, root):
        self.hob, self.socket, self.model = o.build / "client" / "hob", root / "s", o.model
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        self.env.update({f"XDG_{k}_HOME": str(root / k.lower()) for k in ("STATE", "CACHE", "CONFIG")}, HOB_SOCKET=str(self.socket))
        self.p = subprocess.Popen([o.build / "daemon" / "hobd", "serve", "-q", "-m", o.model, "--socket", self.socket, "--threads",
                                   str(o.threads), *o.hobd], env=self.env, stdin=subprocess.DEVNULL)
        while True:
            try:
                with Client(self.socket, 60) as c:
                    status = json.loads(c.ask("status")["status"])
                    if status["state"] == "ready" and status["cache"]["disk"]:
                        return
            except OSError:
                assert self.p.poll() is None, "hobd ended"
            time.sleep(0.05)

    def one(self, system, prompt, n):
        subprocess.run([self.hob, "-q", "-s", system, "-n", str(n), "--ignore-eos", prompt], env=self.env, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def loop(self, system, prompts, n):
        began = time.perf_counter()
        for p in prompts:
            self.one(system, p, n)
        return len(prompts) * n / (time.perf_counter() - began)

    def batch(self, system, prompts, n, folder):
        (folder / "in").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts))
        began = time.perf_counter()
        subprocess.run([self.hob, "batch", "-q", "-s", system, "-n", str(n), "--ignore-eos", folder / "in", "--out",
                        folder / "out"], env=self.env, check=True)
        took = time.perf_counter() - began
        results = [json.loads(line) for line in (folder / "out").open()]
        assert len(results) == len(prompts), len(results)
        (folder / "out").unlink()
        tokens = sum(r["usage"]["completion"] for r in results)
        usage = [r["usage"] for r in results]
        return tokens / took, statistics.median(u["prompt"] for u in usage), statistics.median(u["cached"] for u in usage)

    def stop(self):
        self.p.terminate()
        self.p.wait()


class Llama:
    def __init__(self, o):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        model = f"{o.peer_models}/{Path(o.model).name}" if o.peer_models else o.model
        self.p = subprocess.Popen([*o.peer, "-m", model, "-t", str(o.threads), "--port", str(self.port), "--parallel", str(SLOTS), "-c",
                                   str(SLOTS * 1024), "--kv-unified"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return
            except OSError:
                assert self.p.poll() is None, "llama-server ended"
            time.sleep(0.1)

    def one(self, system, prompt, n):
        body = {"messages": [{"role": "system", "content": system}, {"role": "user", "content": prompt}], "max_tokens": n,
                "temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "ignore_eos": True, "cache_prompt": True}
        q = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", json.dumps(body).encode(),
                                   {"Content-Type": "application/json"})
        with urllib.request.urlopen(q, timeout=900) as r:
            return json.load(r)["usage"]["completion_tokens"]

    def clients(self, system, prompts, n):
        left, tokens, lock = list(prompts), [], threading.Lock()

        def client():
            while True:
                with lock:
                    if not left:
                        return
                    p = left.pop()
                tokens.append(self.one(system, p, n))
        threads = [threading.Thread(target=client) for _ in range(SLOTS)]
        began = time.perf_counter()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return sum(tokens) / (time.perf_counter() - began)

    def stop(self):
        self.p.terminate()
        self.p.wait()


def measure_hob(o, rng, system, table):
    with tempfile.TemporaryDirectory() as root:
        h = Hob(o, Path(root))
        h.one(system, "Hello", 2)
        table["loop"].append(h.loop(system, [words(rng, o.words) for _ in range(o.loop)], o.tokens))
        rate, prompt, cached = h.batch(system, [words(rng, o.words) for _ in range(o.prompts)], o.tokens, Path(root))
        table["batch"].append(rate)
        h.stop()
    print(f"prompt {prompt:.0f} tokens, {cached:.0f} cached; loop {table['loop'][-1]:.1f}, batch {rate:.1f} tokens/s", file=sys.stderr)


def measure_peer(o, rng, system, table):
    s = Llama(o)
    began = time.perf_counter()
    s.clients(system, [words(rng, o.words) for _ in range(SLOTS)], 1)  # each slot reads the system message
    print(f"llama-server: {time.perf_counter() - began:.1f} s for the first prompt of each client", file=sys.stderr)
    table["peer"].append(s.clients(system, [words(rng, o.words) for _ in range(o.clients)], o.tokens))
    s.stop()
    print(f"llama-server {table['peer'][-1]:.1f} tokens/s", file=sys.stderr)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    a.add_argument("--build", type=Path, default=TOP / "build")
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--prompts", type=int, default=2000)
    a.add_argument("--loop", type=int, default=30)
    a.add_argument("--clients", type=int, default=96)
    a.add_argument("--tokens", type=int, default=64)
    a.add_argument("--words", type=int, default=40, help="of a prompt: with the template about 60 tokens")
    a.add_argument("--rounds", type=int, default=1)
    a.add_argument("--only", choices=["hob", "peer"])
    a.add_argument("--peer", type=shlex.split)
    a.add_argument("--peer-models")
    a.add_argument("--hobd", type=shlex.split, default=[], help="options of hobd")
    a.add_argument("model", nargs="?", default=str(data / "hob/models/default.gguf"))
    o = a.parse_args()
    table, rng = {"loop": [], "batch": [], "peer": []}, random.Random(1)
    system = "You answer short questions about these words. " + words(rng, 480)
    for _ in range(o.rounds):
        if o.only != "peer":
            measure_hob(o, rng, system, table)
        if o.peer and o.only != "hob":
            measure_peer(o, rng, system, table)
    m = {k: statistics.median(v) for k, v in table.items() if v}
    print("| side | tokens/s | hob batch by that |\n|---|---|---|")
    names = {"loop": "a loop of single hob calls", "peer": f"llama-server, {SLOTS} clients", "batch": "hob batch"}
    for k, rate in m.items():
        print(f"| {names[k]} | {rate:.1f} | {m['batch'] / rate:.2f} |" if "batch" in m else f"| {names[k]} | {rate:.1f} | - |")


main()
