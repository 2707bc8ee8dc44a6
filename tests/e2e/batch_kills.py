#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill -9 of the daemon, of hob batch or of both at random times, then --resume: is a line lost or doubled?

    batch_kills.py [--trials 50] [--seed N] [--build DIR]

Each trial has a batch of its own, with greedy answers, some broken lines and ids of several kinds. It is killed up to
three times; each time it goes on with --resume. At the end every line must be there once, as in a batch that nobody
killed."""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = 120


def lines(rng):
    """Lines of a batch; one in twenty is broken, and some have no id."""
    out = []
    for i in range(LINES):
        line = {"prompt": " ".join(rng.choice(["one", "two", "three", "four"]) for _ in range(rng.randrange(1, 40))),
                "max_tokens": rng.randrange(1, 60), "temp": 0}
        kind = rng.randrange(4)
        if kind:
            line["id"] = [None, f"line {i}", i + 1000, f"ä\"{i}"][kind]
        text = json.dumps(line)
        out.append(text[:-5] if rng.random() < 0.05 else text)
    return out


def read(path):
    """line -> result without its numbers of cached tokens and its seed; fails on a torn or doubled one."""
    found = {}
    for text in path.read_text().splitlines():
        result = json.loads(text)
        result.pop("seed", None)
        result.get("usage", {}).pop("cached", None)
        assert result["line"] not in found, f"line {result['line']} is doubled"
        found[result["line"]] = result
    return found


class Trial:
    def __init__(self, home, hob, rng, folder):
        self.home, self.hob, self.rng, self.kills = home, hob, rng, 0
        self.input, self.out = folder / "in.jsonl", folder / "out.jsonl"
        self.input.write_text("\n".join(lines(rng)) + "\n")

    def start(self, out, *more):
        argv = [str(self.hob), "batch", "-q", str(self.input), "--out", str(out), *more]
        return subprocess.Popen(argv, env=self.home, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def daemon(self):
        """Its pid; None: none answers."""
        r = subprocess.run([str(self.hob), "status", "--json"], env=self.home, capture_output=True, text=True)
        return json.loads(r.stdout)["pid"] if r.stdout.startswith("{") else None

    def kill(self, p, after):
        time.sleep(after)
        what = self.rng.choice(["daemon", "hob", "both"])
        if what != "hob" and (pid := self.daemon()):
            try:
                os.kill(pid, signal.SIGKILL)
                self.kills += p.poll() is None
            except ProcessLookupError:
                pass
        if what != "daemon":
            p.kill()

    def run(self):
        """Returns the number of times that hob batch, or its daemon, was killed before the end."""
        reference = self.out.with_name("reference.jsonl")
        began = time.monotonic()
        assert self.start(reference).wait(120) in (0, 1)
        took = time.monotonic() - began
        for _ in range(self.rng.randrange(1, 4)):
            p = self.start(self.out, "--resume")
            self.kill(p, self.rng.uniform(0, took))
            self.kills += p.wait(120) not in (0, 1)
        assert self.start(self.out, "--resume").wait(120) in (0, 1)
        want, have = read(reference), read(self.out)
        assert len(want) == LINES, len(want)
        assert set(have) == set(want), f"lost: {sorted(set(want) - set(have))}"
        assert have == want, [(have[k], want[k]) for k in want if have[k] != want[k]][:3]
        return self.kills


def trials(home, hob, n, seed):
    """@home: an environment whose hob starts daemons of its own. Returns the numbers of kills."""
    kills = []
    for i in range(n):
        with tempfile.TemporaryDirectory() as folder:
            kills.append(Trial(home, hob, random.Random(seed + i), Path(folder)).run())
    return kills


def main():
    top = Path(__file__).resolve().parents[2]
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--trials", type=int, default=50)
    a.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    a.add_argument("--build", type=Path, default=top / "build")
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as root:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        env.update({f"XDG_{k}_HOME": f"{root}/{k.lower()}" for k in ("STATE", "CACHE", "DATA", "CONFIG")}, XDG_RUNTIME_DIR=f"{root}/run")
        os.makedirs(f"{root}/data/hob/models")
        os.mkdir(f"{root}/run", 0o700)
        subprocess.run([o.build / "tests/support/mktiny", "--seed", "7", "-o", f"{root}/data/hob/models/default.gguf"], check=True)
        hob = o.build / "client" / "hob"
        try:
            kills = trials(env, hob, o.trials, o.seed)
        finally:
            subprocess.run([hob, "stop"], env=env, stderr=subprocess.DEVNULL)
    print(f"seed {o.seed}: {o.trials} trials, {sum(kills)} times hob batch or its daemon was killed before the end, 0 lines lost or doubled")


if __name__ == "__main__":
    sys.exit(main())
