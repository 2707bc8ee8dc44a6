#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What images in prompts cost, and what the caches save: one Markdown table.

    images.py MODEL MMPROJ
    images.py --only gap --size 448x448 MODEL MMPROJ

The model needs a chat template. Each image is new: random pixels. The parts:
  first     time to the first token: a new image; the same with another question; the same behind another text, where
            only its embeddings are of use; with another question after a restart of the daemon. Medians
  gap       the largest time between two tokens of a stream while an image of another connection is encoded, and the
            median of the stream alone
  encoder   images per second of hobd encode, and of the peer: --peer names a command that gets the paths of mmproj
            and image and prints the milliseconds of an encoding
"""
import argparse
import io
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from PIL import Image

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from hobproto import Client  # noqa: E402

PARTS = ("first", "gap", "encoder")
STREAM_TOKENS = 20000


def picture(rng, size):
    """A PNG file with smooth random colors, as a photograph has."""
    small = Image.frombytes("RGB", (16, 16), rng.randbytes(16 * 16 * 3))
    out = io.BytesIO()
    small.resize(size, Image.BICUBIC).save(out, "PNG")
    return out.getvalue()


class Daemon:
    def __init__(self, o, root):
        self.o, self.socket = o, root / "s"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        self.env.update({f"XDG_{k}_HOME": str(root / k.lower()) for k in ("STATE", "CACHE", "CONFIG")})
        self.start()

    def start(self):
        o = self.o
        self.process = subprocess.Popen([o.build / "daemon" / "hobd", "serve", "-q", "-m", o.model, "--mmproj", o.mmproj, "--socket", self.socket,
                                         "--threads", str(o.threads), "--stop-timeout", "60"], env=self.env, stdin=subprocess.DEVNULL)
        while True:
            try:
                status = self.status()
                if status["state"] == "ready" and status["cache"]["disk"]:
                    return
            except OSError:
                assert self.process.poll() is None, "hobd ended"
            time.sleep(0.05)

    def status(self):
        with Client(self.socket) as c:
            return json.loads(c.ask("status")["status"])

    def stop(self):
        self.process.terminate()
        assert self.process.wait() == 0

    def restart(self):
        self.stop()
        self.start()

    def ask(self, parts):
        """Seconds to the first token, and the last event."""
        began, first = time.perf_counter(), None
        with Client(self.socket, timeout=600) as c:
            c.request("generate", messages=[{"role": "user", "content": parts}], max_tokens=2, temperature=0.0, ignore_eos=True)
            while True:
                e = c.recv()
                assert e["event"] != "error", e
                if first is None and e["event"] in ("text", "done"):
                    first = time.perf_counter() - began
                if e["event"] == "done":
                    return first, e


def text(s):
    return {"type": "text", "text": s}


def image(data):
    return {"type": "image", "data": data}


def first(d, o, row, rng):
    times = {"new": [], "question": [], "place": [], "restart": []}
    encoded = 0
    for i in range(o.times):
        data = picture(rng, o.size)
        new, done = d.ask([image(data), text("what is it?")])
        tokens = done["media"][0]["tokens"]
        assert not done["media"][0].get("cached", False)
        times["new"].append(new)
        for name, parts in {"question": [image(data), text(f"and the color of thing {i}?")],
                            "place": [text(f"look, number {i}: "), image(data), text("what is it?")]}.items():
            took, done = d.ask(parts)
            times[name].append(took)
            encoded += not done["media"][0].get("cached", False)
        d.restart()
        took, done = d.ask([image(data), text(f"and where was thing {i}?")])
        times["restart"].append(took)
        encoded += not done["media"][0].get("cached", False)
    found = {k: statistics.median(v) for k, v in times.items()}
    row(f"first token, a new image of {o.size[0]}x{o.size[1]} ({tokens} items), s", f"{found['new']:.2f}")
    for name, what in {"question": "the same image, another question", "place": "the same image behind another text",
                       "restart": "the same image, another question, after a restart"}.items():
        row(f"{what}, s; new / this", f"{found[name]:.3f}; {found['new'] / found[name]:.0f}x")
    row("encodings for these", encoded)


def gap(d, o, row, rng):
    times, stop = [], threading.Event()

    def stream():
        with Client(d.socket) as c:
            c.request("generate", prompt="once", raw=True, max_tokens=STREAM_TOKENS, temperature=1.0, ignore_eos=True, context="shift")
            while not stop.is_set():
                e = c.recv()
                assert e["event"] not in ("error", "done"), e
                times.append((time.perf_counter(), e["event"]))

    thread = threading.Thread(target=stream)
    thread.start()
    time.sleep(o.alone)
    before = time.perf_counter()
    _, done = d.ask([image(picture(rng, o.size)), text("what is it?")])
    after = time.perf_counter()
    stop.set()
    thread.join()
    at = [t for t, e in times if e == "text"]
    alone = [b - a for a, b in zip(at, at[1:]) if b < before][5:]
    beside = [b - a for a, b in zip(at, at[1:]) if before <= b <= after]
    one = statistics.median(alone)
    row("a stream alone: median and largest gap, ms", f"{one * 1e3:.1f}, {max(alone) * 1e3:.1f}")
    row(f"beside an encoding of {done['media'][0]['encode_ms'] / 1e3:.1f} s: median and largest gap, ms",
        f"{statistics.median(beside) * 1e3:.1f}, {max(beside) * 1e3:.1f}")
    row("largest gap / the median alone; / its own median", f"{max(beside) / one:.1f}; {max(beside) / statistics.median(beside):.1f}")


def encoder(o, row, rng, root):
    path = root / "image.png"
    path.write_bytes(picture(rng, o.size))
    own = [str(o.build / "daemon" / "hobd"), "encode", "--threads", str(o.threads), "--mmproj", o.mmproj, "--json", str(path)]
    peer = [*shlex.split(o.peer), o.mmproj, str(path)] if o.peer else None
    times = {"hob": [], "peer": []}
    for _ in range(o.times):
        out = subprocess.run(own, capture_output=True, text=True, check=True)
        times["hob"].append(json.loads(out.stdout)["seconds"] * 1000)
        if peer:
            times["peer"].append(float(subprocess.run(peer, capture_output=True, text=True, check=True).stdout.split()[-1]))
    own_ms = statistics.median(times["hob"])
    row("hobd encode, ms", f"{own_ms:.0f}")
    if peer:
        row("peer, ms; peer / hob", f"{statistics.median(times['peer']):.0f}; {statistics.median(times['peer']) / own_ms:.2f}")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model")
    a.add_argument("mmproj")
    a.add_argument("--only", action="append", choices=PARTS)
    a.add_argument("--build", type=Path, default=TOP / "build")
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--size", default="1024x768", type=lambda s: tuple(map(int, s.split("x"))))
    a.add_argument("--times", type=int, default=3)
    a.add_argument("--alone", type=float, default=3, help="seconds of the stream before the image")
    a.add_argument("--peer", help="for the part encoder")
    o = a.parse_args()
    print("| measurement | value |\n|---|---|")

    def row(name, value):
        print(f"| {name} | {value} |", flush=True)

    rng = random.Random(time.time())
    with tempfile.TemporaryDirectory(prefix="hob-images") as root:
        root = Path(root)
        wanted = o.only or ("first", "gap")
        if "first" in wanted or "gap" in wanted:
            d = Daemon(o, root)
            try:
                if "first" in wanted:
                    first(d, o, row, rng)
                if "gap" in wanted:
                    gap(d, o, row, rng)
            finally:
                d.stop()
        if "encoder" in wanted:
            encoder(o, row, rng, root)


if __name__ == "__main__":
    main()
