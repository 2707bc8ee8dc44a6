#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Can a user of hobd tell from times what another user has cached, or does? Takes root, to have three users.

usage: user_timing.py [--pairs N] [--only WORD]… [--resamples N] [--json] [--build DIR]
  --pairs N      of each channel (default: 1000)
  --only WORD    only channels whose name contains it; several words: any of them (--list shows the names)
  --resamples N  of the pairs, for the interval (default: 1000)

A channel is a time that bob measures. For each pair, ada has done something with one of two things of the same kind and size, which are random;
bob then asks about both, in random order. (Channels "… after": bob asks the same twice, once behind a request of ada's that found her cache, and
once behind one that did not.) The AUC is the probability that bob's time for ada's thing is below that for the other: 0.5 says nothing, 0 and 1
tell all. Its interval is that of 95%, by resampling pairs. As a control, ada asks again: she must see her own cache, so that the control is far
from 0.5 where the channel can measure anything. The two questions of a pair are interleaved, so that what else runs on the machine meets both.
The model is tiny, so that nothing hides a look-up. Prints a table.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy
from soak import Daemon, make
from soak_requests import WORDS

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from attackers import FIRST, become  # noqa: E402
from hobproto import Client  # noqa: E402
from image_timing import picture  # noqa: E402

ADA, BOB, CARL = FIRST, FIRST + 1, FIRST + 2
TOKENS = 48  # of an answer whose tokens are timed


def words(r, n):
    return f"{r.getrandbits(32):08x} " + " ".join(r.choice(WORDS) for _ in range(n))


# --- what a user does with an item: each returns the seconds that the user measures ---

def first(c, **keys):
    """Seconds to the first token, and the other events."""
    began = time.perf_counter()
    events = c.events(c.request("generate", **keys))
    took = None
    for e in events:
        assert e["event"] != "error", e
        if took is None and e["event"] in ("text", "done"):
            took = time.perf_counter() - began
    return took


def prompt(c, item):
    return first(c, raw=True, prompt=item, max_tokens=1, temperature=0)


def answer(c, item, **keys):
    """A random answer, which the seed repeats: its events with their times."""
    i = c.request("generate", raw=True, prompt=item, max_tokens=TOKENS, temperature=1.0, seed=1, ignore_eos=True, logprobs=True, **keys)
    return [(time.perf_counter(), e) for e in c.events(i)]


def between(c, item):
    """Seconds between the first token and the last, per token."""
    events = answer(c, item)
    times = [t for t, e in events if e["event"] in ("text", "done")]
    return (times[-1] - times[0]) / TOKENS


def drafts(c, item):
    """No time: minus the accepted proposals, which make an answer fast, as microseconds."""
    return -1e-6 * answer(c, item)[-1][1]["usage"].get("accepted", 0)


def end(c, kind, **keys):
    began = time.perf_counter()
    e = c.ask(kind, **keys)
    return time.perf_counter() - began, e


def embed(c, item):
    took, e = end(c, "embed", texts=[item])
    assert e["event"] == "done", e
    return took


def rank(c, item):
    took, e = end(c, "rank", texts=[item], question="where is it?")
    assert e["event"] == "done", e
    return took


def grammar(c, item):
    names = item.split()
    schema = {"type": "object", "properties": {f"{n}{i}": {"type": "integer", "maximum": i} for i, n in enumerate(names)}, "additionalProperties": False}
    return first(c, raw=True, prompt="x", max_tokens=1, on_limit="cut", constraint={"type": "schema", "text": json.dumps(schema)})


def image(c, item):
    part = {"type": "image", "data": Path(item).read_bytes()}
    return first(c, messages=[{"role": "user", "content": [part, {"type": "text", "text": "what?"}]}], max_tokens=1, temperature=0)


def turn(c, item):
    """A turn in a session of the item's name, once."""
    return first(c, messages=[{"role": "user", "content": "hello"}], session=item[:8], max_tokens=1)


def show(c, item):
    return end(c, "session.show", name=item[:8])[0]


def status(c, item):
    return end(c, "status")[0]


def wrong(c, item):
    took, e = end(c, "generate", raw=True, prompt="x", adapter="nobody")
    assert e["event"] == "error", e
    return took


def fresh(c, item):
    """The time to the first token of what nobody has asked."""
    return prompt(c, words(random, 60))


def remove(c, item):
    c.ask("session.remove", name=item[:8])
    return 0


SLOW = ("--layers", 24, "--ffn", 1024)  # so that proposals are worth it
PHASE = 0.025  # seconds from ada's request to bob's behind it: else bob's time tells for how long bob and the daemon have slept
# name: what ada does, what bob measures, what ada does then; words of an item; arguments of hobd and mktiny; the other keys of Channel
CHANNELS = {
    "first token": {"do": prompt, "probe": prompt},
    "first token, from disk": {"do": prompt, "probe": prompt, "batch": 250, "args": ("--kv-bytes", "2M")},
    "first token, in a queue": {"do": prompt, "probe": prompt, "busy": True, "args": ("--parallel", "2")},
    "first token, at the same time": {"do": prompt, "probe": prompt, "together": True, "words": 70},
    "between tokens": {"do": between, "probe": between, "words": 8, "model": SLOW},
    "accepted proposals": {"do": drafts, "probe": drafts, "words": 8, "model": SLOW},
    "embedding": {"do": embed, "probe": embed, "words": 40},
    "rank": {"do": rank, "probe": rank, "words": 40},
    "constraint": {"do": grammar, "probe": grammar, "words": 24},
    "image": {"do": image, "probe": image, "images": True},
    "error, session": {"do": turn, "probe": show, "after": remove, "words": 1},
    "status after": {"do": prompt, "probe": status, "hit": True},
    "error after": {"do": prompt, "probe": wrong, "hit": True},
    "first token after": {"do": prompt, "probe": fresh, "hit": True},
}


# --- the users ---

def serve(uid, path, pipe):
    become(uid)
    with Client(path, 300) as c:
        for f, item in iter(pipe.recv, None):
            pipe.send(f(c, item))


class User:
    def __init__(self, uid, path):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.p = context.Process(target=serve, args=(uid, path, theirs), daemon=True)
        self.p.start()
        theirs.close()

    def ask(self, f, item):
        self.pipe.send((f, item))

    def do(self, f, item):
        self.ask(f, item)
        return self.pipe.recv()


def streams(path):
    """Two answers at any time, one behind the other."""
    become(CARL)
    with Client(path, 300) as c:
        live = set()
        while True:
            while len(live) < 2:
                live.add(c.generate("A long story", raw=True, max_tokens=200, ignore_eos=True, temperature=1.0))
            e = c.recv()
            if e["event"] in ("done", "error"):
                live.discard(e["id"])


class Channel:
    def __init__(self, place, build, rng, do, probe, after=None, words=60, images=False, batch=1, args=(), model=(), busy=False, together=False, hit=False):
        self.place, self.rng, self.do, self.probe, self.after = place, rng, do, probe, after
        self.words, self.images, self.batch, self.together, self.hit = words, images, batch, together, hit
        self.known, self.unknown, self.own = [], [], []
        make(place, build, *model)
        self.d = Daemon(place, "timing", build, "--idle-exit", "0", *args)
        self.d.wait_ready()
        self.ada, self.bob = User(ADA, self.d.socket), User(BOB, self.d.socket)
        self.carl = multiprocessing.get_context("fork").Process(target=streams, args=(self.d.socket,), daemon=True) if busy else None
        if self.carl:
            self.carl.start()

    def item(self):
        return picture(self.place, self.rng, 160) if self.images else words(self.rng, self.words)

    def one(self, mine, other):
        """Bob's two questions about a pair of which ada had the first."""
        both = [(mine, self.known), (other, self.unknown)]
        self.rng.shuffle(both)
        for item, times in both:
            if self.hit:  # ada asks what she has asked before, or what she has not
                began = time.perf_counter()
                self.ada.do(self.do, item)
                time.sleep(max(0, began + PHASE - time.perf_counter()))
            if self.together:
                self.ada.ask(self.do, mine if item is mine else self.item())
            times.append(self.bob.do(self.probe, item))
            if self.together:
                self.ada.pipe.recv()

    def run(self, pairs):
        self.known, self.unknown, self.own = [], [], []
        for start in range(0, pairs, self.batch):
            items = [(self.item(), self.item()) for _ in range(min(self.batch, pairs - start))]
            if not self.together:
                for mine, _ in items:
                    self.ada.do(self.do, mine)
            for k, (mine, other) in enumerate(items):
                self.one(mine, other)
                if (start + k) % 4 == 0:
                    # What ada sees of her own: behind a hit, her own hit.
                    self.own.append(self.ada.do(self.do if self.hit else self.probe, mine))
                if self.after:
                    self.ada.do(self.after, mine)
                for x in (mine, other) if self.images else ():
                    x.unlink()
        return self

    def close(self):
        if self.carl:
            self.carl.kill()
        for user in (self.ada, self.bob):
            with contextlib.suppress(OSError):
                user.pipe.send(None)
            user.p.join(10)
            user.p.kill()
        self.d.stop()


# --- figures ---

def auc(fast, slow):
    """That a value of @fast is below one of @slow; half for equal ones."""
    s = numpy.sort(slow)
    above = len(s) - (numpy.searchsorted(s, fast, "left") + numpy.searchsorted(s, fast, "right")) / 2
    return float(above.mean() / len(s))


def interval(known, unknown, n, seed):
    """Of the AUC, by resampling pairs."""
    g, known, unknown = numpy.random.default_rng(seed), numpy.array(known), numpy.array(unknown)
    values = []
    for _ in range(n):
        k = g.integers(0, len(known), len(known))
        values.append(auc(known[k], unknown[k]))
    return [round(float(numpy.quantile(values, q)), 4) for q in (0.025, 0.975)]


def measure(o, name, place):
    c = Channel(place, o.build, random.Random(f"{o.seed} {name}"), **CHANNELS[name])
    try:
        c.run(c.batch if c.batch > 1 else 20)  # the first requests are slower
        c.run(o.pairs)
    finally:
        c.close()
    us = [round(float(numpy.median(v)) * 1e6, 1) for v in (c.known, c.unknown, c.own)]
    return {"channel": name, "pairs": len(c.known), "auc": round(auc(c.known, c.unknown), 4),
            "interval": interval(c.known, c.unknown, o.resamples, o.seed), "control": round(auc(c.own, c.unknown), 4),
            "known_us": us[0], "unknown_us": us[1], "own_us": us[2]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=lambda x: Path(x).resolve(), default=TOP / "build")
    p.add_argument("--pairs", type=int, default=1000)
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--resamples", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--list", action="store_true")
    p.add_argument("--json", action="store_true")
    o = p.parse_args()
    if o.list:
        print("\n".join(CHANNELS))
        return
    assert os.geteuid() == 0, "users are made with setuid, which takes root"
    if not o.json:
        print("| channel | pairs | AUC | 95% | control | known us | unknown us | own us |\n|---|---|---|---|---|---|---|---|")
    for name in CHANNELS:
        if o.only and not any(w in name for w in o.only):
            continue
        with tempfile.TemporaryDirectory(prefix="hob-timing-") as d:
            Path(d).chmod(0o755)
            r = measure(o, name, Path(d))
        row = [r["channel"], r["pairs"], r["auc"], f"{r['interval'][0]} to {r['interval'][1]}", r["control"], r["known_us"], r["unknown_us"], r["own_us"]]
        print(json.dumps(r) if o.json else "| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
