#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Can a user of hobd tell from times which images another user has shown it? Takes root, to have two users.

For each of --pairs images, user A asks about it. Then user B asks the same about this image and about one of the same size that nobody has
shown, in random order, and the times to the first token are compared. The AUC is the probability that an image of A's is faster than one of
nobody's: 0.5 says nothing, 1 tells all. As a control, A asks again: A must see the own cache. The model and its encoder are small and have
random weights. Prints JSON.
"""
import argparse
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from key_timing import auc
from PIL import Image

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from attackers import FIRST, become  # noqa: E402
from hobproto import Client  # noqa: E402
from mmprojfiles import Encoder  # noqa: E402

DIM = 64


def serve(uid, path, pipe):
    """Ask about each file of the pipe as @uid; answer with the seconds to the first token."""
    become(uid)
    with Client(path) as c:
        for name in iter(pipe.recv, None):
            part = {"type": "image", "data": Path(name).read_bytes()}
            began = time.perf_counter()
            i = c.generate(messages=[{"role": "user", "content": [part, {"type": "text", "text": "what is it?"}]}], max_tokens=1, temperature=0)
            events = c.events(i)
            took = next(time.perf_counter() - began for e in events if e["event"] in ("text", "done", "error"))
            end = list(events)[-1:]
            assert not end or end[0]["event"] == "done", end
            pipe.send(took)


class User:
    def __init__(self, uid, path):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        context.Process(target=serve, args=(uid, path, theirs), daemon=True).start()

    def first_token(self, name):
        self.pipe.send(name)
        return self.pipe.recv()


def picture(folder, rng, edge):
    path = folder / f"{rng.getrandbits(64):x}.png"
    Image.frombytes("RGB", (edge, edge), rng.randbytes(edge * edge * 3)).save(path)
    path.chmod(0o644)
    return path


def measure(a, b, folder, rng, pairs, edge):
    same, other, own = [], [], []
    for i in range(pairs):
        known, unknown = picture(folder, rng, edge), picture(folder, rng, edge)
        a.first_token(known)
        both = [(known, same), (unknown, other)]
        rng.shuffle(both)
        for path, times in both:
            times.append(b.first_token(path))
        if i % 4 == 0:
            own.append(a.first_token(known))
    return same, other, own


def start(d, build):
    """The daemon, with a socket for all users."""
    subprocess.run([build / "tests" / "support" / "mktiny", "--dim", str(DIM), "--seed", "7", "-o", d / "text.gguf"], check=True)
    Encoder("mlp", image=84, patch=7, dim=128, ffn=256, heads=4, blocks=4, out=DIM).write(d / "mmproj.gguf")
    env = {**os.environ, "XDG_STATE_HOME": str(d / "state"), "XDG_CACHE_HOME": str(d / "cache"), "XDG_CONFIG_HOME": str(d / "config")}
    hobd = subprocess.Popen([build / "daemon" / "hobd", "serve", "-q", "-m", d / "text.gguf", "--mmproj", d / "mmproj.gguf", "--socket", d / "s"],
                            env=env)
    while not (d / "s").exists():
        assert hobd.poll() is None
        time.sleep(0.01)
    (d / "s").chmod(0o666)
    d.chmod(0o755)
    return hobd


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, default=TOP / "build")
    p.add_argument("--pairs", type=int, default=200)
    p.add_argument("--edge", type=int, default=84, help="pixels of an edge of each image")
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    rng = random.Random(o.seed)
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        hobd = start(d, o.build)
        try:
            a, b = User(FIRST, d / "s"), User(FIRST + 1, d / "s")
            measure(a, b, d, rng, 5, o.edge)  # the first requests wait for the model
            same, other, own = measure(a, b, d, rng, o.pairs, o.edge)
        finally:
            hobd.terminate()
            hobd.wait()
    ms = {name: round(statistics.median(v) * 1e3, 3) for name, v in (("known_ms", same), ("unknown_ms", other), ("own_ms", own))}
    print(json.dumps({"pairs": o.pairs, "auc": round(auc(same, other), 4), "control": round(auc(own, other), 4), **ms}))


if __name__ == "__main__":
    main()
