#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What hobd keeps and shares, beside llama-server on the same model and the same prompts, one table.
usage: serve.py [-r ROUNDS] [-t THREADS] [--device DEVICE] [--only WORD] PEERDIR MODEL TEXT
  DEVICE   of hobd (default: cpu); with cuda, PEERDIR has a llama-server built with CUDA
  PEERDIR  as for table.py;  MODEL  a name in PEERDIR/models;  TEXT  a file of at least 40 kB to make prompts of
  HOBD     in the environment: the hobd to run (default: build/daemon/hobd)"""
import argparse
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from hobproto import Client  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
NOBODY = 65534
HOBD = os.environ.get("HOBD", TOP / "build" / "daemon" / "hobd")


class Hob:
    name = "hob"

    def __init__(self, model, threads, root, device="cpu"):
        self.model, self.threads, self.root, self.device = model, threads, Path(root), device
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        self.env.update({f"XDG_{k}_HOME": str(self.root / k.lower()) for k in ("STATE", "CACHE", "DATA", "CONFIG")})
        self.socket = self.root / "hob.sock"
        self.start()

    def start(self):
        log = open(self.root / "log", "ab")
        self.p = subprocess.Popen([HOBD, "serve", "-m", self.model, "--socket", self.socket, "-q", "--threads",
                                   str(self.threads), "--device", self.device], env=self.env, stdout=log, stderr=log)
        while True:
            try:
                with Client(self.socket, 600) as c:
                    if json.loads(c.ask("status")["status"])["state"] == "ready":
                        return
            except OSError:
                assert self.p.poll() is None, (self.root / "log").read_text()
            time.sleep(0.002)

    def wait_kept(self):
        """Until what is computed can be kept on disk (the first start hashes and packs the model)."""
        with Client(self.socket, 600) as c:
            while not json.loads(c.ask("status")["status"])["cache"]["disk"]:
                time.sleep(0.1)

    def stop(self):
        self.p.terminate()
        assert self.p.wait(60) == 0

    def tokens(self, text):
        with Client(self.socket, 600) as c:
            return c.ask("tokenize", text=text)["ids"]

    def ask(self, prompt, n, stamps=None, **keys):
        """(tokens, cached, first token s, all s); stamps: times of the tokens."""
        t = time.monotonic()
        first = None
        with Client(self.socket, 900) as c:
            i = c.generate(prompt, raw=True, max_tokens=n, ignore_eos=True, temperature=0, logprobs=True, **keys)
            for e in c.events(i):
                if e["event"] == "text":
                    now = time.monotonic()
                    first = first or now
                    if stamps is not None:
                        stamps.append(now)
        assert e["event"] == "done", e
        u = e["usage"]
        return u["prompt"], u["cached"], (first or t) - t, time.monotonic() - t


class Llama:
    name = "llama-server"

    def __init__(self, peer, model, threads, device):
        self.peer, self.model, self.threads = peer, model, threads
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.p = subprocess.Popen([peer / "run", "llama-server", "-m", f"/models/{model}", "-t", str(threads), "--port",
                                   str(self.port), "--parallel", "16", "-c", str(16 * 8192), "--kv-unified",
                                   *([] if device == "cpu" else ["-ngl", "99", "-fa", "on"])],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return
            except OSError:
                assert self.p.poll() is None, "llama-server ended"
            time.sleep(0.1)

    def stop(self):
        self.p.terminate()
        self.p.wait()

    def post(self, path, body):
        return urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                      {"Content-Type": "application/json"})

    def tokens(self, text):
        with urllib.request.urlopen(self.post("/tokenize", {"content": text})) as r:
            return json.load(r)["tokens"]

    def ask(self, prompt, n, stamps=None, **_):
        body = {"prompt": prompt, "n_predict": n, "temperature": 0, "ignore_eos": True, "stream": True,
                "cache_prompt": True}
        q = self.post("/completion", body)
        t, first, last = time.monotonic(), None, {}
        with urllib.request.urlopen(q, timeout=900) as r:
            for line in r:
                if not line.startswith(b"data: "):
                    continue
                now = time.monotonic()
                first = first or now
                last = json.loads(line[6:])
                if stamps is not None and not last.get("stop"):
                    stamps.append(now)
        timings = last.get("timings", {})
        total = last.get("tokens_evaluated", 0)
        return total, total - timings.get("prompt_n", 0), first - t, time.monotonic() - t


def at_once(server, prompts, n, results=None):
    """Seconds until all are answered; results: (tokens, cached, first token s) of each."""
    answers = []
    threads = [threading.Thread(target=lambda p=p: answers.append(server.ask(p, n))) for p in prompts]
    t = time.monotonic()
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    seconds = time.monotonic() - t
    assert len(answers) == len(prompts), f"{server.name} answered {len(answers)} of {len(prompts)}"
    if results is not None:
        results += [a[:3] for a in answers]
    return seconds


def streams(s, t, tag, text):
    """16 conversations of about 5,000 cached tokens each go on at once, with 20 more tokens and 64 of answer: three times."""
    size = 5000 * 8000 // len(s.tokens(text[:8000]))
    whole = text * (2 + size // len(text))
    heads = [f"{tag}{i} of 16. " + whole[1500 * i % len(text):][:size] for i in range(16)]
    at_once(s, heads, 1)
    firsts = []
    for turn in range(3):
        answers = []
        seconds = at_once(s, [f"{h}\n\nTurn {turn}: say in a few words what stands above." for h in heads], 64, answers)
        firsts += [first for *_, first in answers]
        t.add("16 warm conversations: tokens a second", s.name, 16 * 64 / seconds)
        t.add("16 warm conversations: tokens computed of each prompt", s.name,
              statistics.median(n - cached for n, cached, _ in answers))
    t.add("16 warm conversations: first token, median, s", s.name, statistics.median(firsts))
    t.add("16 warm conversations: first token, 99th percentile, s", s.name, sorted(firsts)[len(firsts) * 99 // 100])


def largest_gap(server, text, long_prompt):
    """Largest gap between a stream's tokens while a long prompt is read, by the median gap alone."""
    alone = []
    server.ask(text, 48, alone)
    gaps = [b - a for a, b in zip(alone, alone[1:])]
    stamps, box = [], threading.Thread(target=lambda: server.ask(text + " again", 400, stamps))
    box.start()
    while len(stamps) < 8:
        time.sleep(0.002)
    server.ask(long_prompt, 1)
    end = time.monotonic()
    box.join()
    during = [b - a for a, b in zip(stamps, stamps[1:]) if a < end]
    return max(during) / statistics.median(gaps)


def crowd(path, prompts, n, ready):
    """Another user's, in a process of its own: all are queued before @ready, and read until it ends."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with Client(path, 900) as c:
        ids = [c.generate(p, raw=True, max_tokens=n, ignore_eos=True, temperature=0) for p in prompts]
        waits = set(ids)
        for e in c.events(*ids):
            waits.discard(e["id"])
            if not waits:
                ready.set()


def lone(s, t, tag, text):
    """Time to first token of one request while another user has 200, by that alone."""
    s.socket.chmod(0o666)
    s.root.chmod(0o711)
    alone = statistics.median(s.ask(f"{tag}Alone {i}. " + text[25000 + i * 500:25480 + i * 500], 4)[2] for i in range(5))
    ready = multiprocessing.Event()
    prompts = [f"{tag}{i} of many. " + text[100 * i:100 * i + 480] for i in range(200)]
    p = multiprocessing.Process(target=crowd, args=(s.socket, prompts, 256, ready))
    p.start()
    assert ready.wait(60)
    time.sleep(1)  # all slots are taken, their prompts are being read or were
    firsts = [s.ask(f"{tag}Lone {i}. " + text[31000 + i * 500:31480 + i * 500], 4)[2] for i in range(5)]
    p.kill()
    p.join()
    t.add("alone: first token, s", s.name, alone)
    t.add("beside 200 of another user: first token, by that", s.name, statistics.median(firsts) / alone)


class Table:
    def __init__(self, only):
        self.only, self.rows = only, {}

    def wants(self, work):
        return not self.only or self.only in work

    def add(self, work, side, value):
        self.rows.setdefault(work, {}).setdefault(side, []).append(value)
        print(f"{side}: {work}: {value:.4g}", file=sys.stderr)

    def show(self):
        print("| work | hob | llama-server | ratio |\n|---|---|---|---|")
        for work, sides in self.rows.items():
            h, p = (statistics.median(sides[s]) if s in sides else None for s in ("hob", "llama-server"))
            ratio = f"{h / p:.3g}" if h and p else "-"
            print(f"| {work} | {h:.3g} | {'-' if p is None else f'{p:.3g}'} | {ratio} |")


def measure(s, t, text, round_):
    """One round on one server; @text is new to it."""
    tag = f"Round {round_}. "
    doc = tag + text[:12500]
    if t.wants("document"):
        n, _, first, _ = s.ask(doc + "\n\nWhat is this?", 4)
        t.add(f"document of {n // 100 * 100} tokens, cold: first token, s", s.name, first)
        _, cached, first, _ = s.ask(doc + "\n\nWho wrote it?", 4)
        t.add("document, warm, a new question: first token, s", s.name, first)
        t.add("document, warm: tokens computed", s.name, n - cached)
    if t.wants("clients"):
        prompts = [f"{tag}{i}. " + text[700 * i:700 * i + 480] for i in range(19)]
        one = 64 / statistics.median(s.ask(p, 64)[3] for p in prompts[16:])
        cold = 16 * 64 / at_once(s, prompts[:16], 64)
        warm = 16 * 64 / at_once(s, prompts[:16], 64)
        t.add("16 clients, cold: tokens a second", s.name, cold)
        t.add("16 clients, cold, by one client's", s.name, cold / one)
        t.add("16 clients, warm, by one client's", s.name, warm / one)
    if t.wants("gap"):
        t.add("largest gap while 4,000 tokens are read, by the median gap alone", s.name,
              largest_gap(s, tag + text[:300], tag + text[13000:29500]))
    if t.wants("common"):
        common = tag + text[20000:28000]
        prompts = [f"{common} {i}. {text[28000 + 100 * i:28100 + 100 * i]}" for i in range(16)]
        results = []
        at_once(s, prompts, 1, results)
        shared = len(os.path.commonprefix([s.tokens(p) for p in prompts]))
        ideal = shared + sum(n - shared for n, *_ in results)
        t.add(f"16 with {shared // 100 * 100} tokens in common, at once: tokens computed, by those that differ", s.name,
              sum(n - cached for n, cached, _ in results) / ideal)
    if t.wants("streams"):
        streams(s, t, tag, text)
    if t.wants("lone") and s.name == "hob" and os.getuid() == 0:
        lone(s, t, tag, text)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("-r", type=int, default=3)
    a.add_argument("-t", type=int, default=os.cpu_count())
    a.add_argument("--device", default="cpu")
    a.add_argument("--only", default="")
    a.add_argument("peer", type=Path)
    a.add_argument("model")
    a.add_argument("text", type=Path)
    o = a.parse_args()
    text, t = o.text.read_text(), Table(o.only)
    for r in range(o.r):
        with tempfile.TemporaryDirectory() as root:
            s = Hob(o.peer / "models" / o.model, o.t, root, o.device)
            s.wait_kept()
            measure(s, t, text, r)
            if t.wants("document"):
                s.stop()
                began = time.monotonic()
                s.start()
                s.ask(f"Round {r}. {text[:12500]}\n\nWhen was it written?", 4)
                t.add("document, after a stop and a start: start-up and first token, s", s.name,
                      time.monotonic() - began)
            s.stop()
        s = Llama(o.peer, o.model, o.t, o.device)
        measure(s, t, text, r)
        s.stop()
    t.show()


if __name__ == "__main__":
    main()
