#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Power failures: does hobd keep every acknowledged turn, and believe nothing else, whatever part of the writes that no
fsync covers has reached the disk?

    write_orders.py [--states 10000] [--samples 20] [--seed N] [--build DIR]

A library (tests/crash/record.c) records the writes, the changes of directories and the fsyncs of a hobd that serves
users; the script adds when a request began and when its user was told that it is done. A program (tests/crash/replay.c)
makes the folders that a crash at any moment may leave, and opens each with the modules of hobd. Some are also opened by
hobd, whose next answer in each session must be that of a daemon without a past."""
import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from kills import KEYS, WORDS, Cold, Daemon, User  # noqa: E402

BETWEEN = "\x1f"
SLICE = 1000  # states of one log
ARGS = ("--threads", 1, "--kv-bytes", "200K", "--cache-bytes", "120K", "--parallel", 3)


def recorded(build, log):
    """The environment of a program whose changes of files are recorded in @log."""
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"  # the library comes before it
    return {"LD_PRELOAD": str(build / "tests/crash/record.so"), "RECORD_LOG": str(log), "ASAN_OPTIONS": asan}


class Noting(User):
    """A user who notes in the log what is asked and what was answered; its requests end after @most."""

    def __init__(self, tag, cold, rng, daemon, log, most):
        super().__init__(tag, cold, rng)
        self.daemon, self.log, self.most = daemon, log, most
        self.many = 2  # few files make a state cheap

    def note(self, *words):
        text = BETWEEN.join((self.tag, *words)).encode()
        with open(self.log, "ab", buffering=0) as f:
            f.write(struct.pack("<IHBBQQQII", 40 + len(text), 0, 0, 0, 0, 0, 0, 0, len(text)) + text)

    def more(self):
        """Large notes make logs long, so that forks share them and they are rewritten."""
        return {"note": "n" * self.rng.choice([1, 20000])} if self.rng.random() < 0.4 else {}

    def plan(self):
        self.op = what, name, to, text, _ = super().plan()
        self.note("BEGIN", what, name, "" if what in ("turn", "remove") else to, text)
        return self.op

    def step(self, c):
        if self.most == 0 or not super().step(c):
            return False
        what, name, to, _, _ = self.op
        texts = self.have[to if what == "turn fork" else name][0] if "turn" in what else None
        self.note("DONE", self.cold.answer(texts)[0] if texts else "")
        self.most -= 1
        return True


class Recording:
    """The log of some daemons, each with two users of its own, the last but one of them killed."""

    def __init__(self, folder, build, seed, lives, requests):
        model = folder / "tiny.gguf"
        subprocess.run([build / "tests/support/mktiny", "--seed", "7", "-o", model], check=True)
        self.build, self.model, self.folder, self.log = build, model, folder, folder / "log"
        self.cold = Cold(folder / "cold", build, model)
        self.log.touch()
        d = Daemon(folder / "hot", build, model, *ARGS)
        d.expires, rng = False, random.Random(seed)
        for life in range(lives):
            d.start(**recorded(build, self.log))
            d.ready().close()
            users = [Noting(chr(ord("a") + 2 * life + k), self.cold, random.Random(rng.random()), d, self.log, requests) for k in range(2)]
            for u in users:
                u.start()
            if life == lives - 2:
                threading.Event().wait(0.3)
                d.p.kill()
            for u in users:
                u.join()
                if u.trouble:
                    raise u.trouble
            if life == lives - 2:
                d.p.wait()
            else:
                d.stop()
        self.root = (folder / "hot").stat().st_ino

    def replay(self, seed, first, count=None):
        """@count states from @first, or the sessions of state @first, which stays in the folder "state"."""
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        argv = [self.build / "tests/crash/replay", self.log, self.root, state, seed, first, *([count] if count else [])]
        return subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def sample(self, seed, number):
        """A hobd that finds this state: it has the same sessions, and answers the same bits."""
        said = self.replay(seed, number)
        assert said.returncode == 0, said.stdout
        sessions = dict((line.split(BETWEEN)[0], tuple(line.split(BETWEEN)[1:])) for line in said.stdout.splitlines())
        root = self.folder / "sample"
        shutil.rmtree(root, ignore_errors=True)
        d = Daemon(root, self.build, self.model, *ARGS)
        for top in (self.folder / "state").iterdir():
            shutil.move(str(top), root / top.name)
        d.start()
        try:
            c = d.ready()
            assert {s["name"] for s in c.sessions()} == set(sessions), (number, d.log())
            for name, texts in sorted(sessions.items())[:4]:
                shown = tuple(m["content"] for m in c.session(name)["messages"] if m["role"] == "user")
                assert shown == texts, (number, name, shown, texts)
                if len(texts) < 4:
                    a, want = c.answer(WORDS[0], session=name, **KEYS), self.cold.answer(texts + (WORDS[0],))
                    assert (a.text, a.ids, a.logprobs) == want, (number, name, texts, a.end, a.text, a.logprobs, want)
            c.close()
            d.stop()
            assert not d.parts(), (number, d.parts())
        finally:
            if d.p.poll() is None:
                d.p.kill()
                d.p.wait()

    def end(self):
        self.cold.d.p.kill()
        self.cold.d.p.wait()


def run(folder, build, seed, states, samples, lives=4, requests=20):
    """Returns what the program said of the states of each log."""
    said = []
    for first in range(0, states, SLICE):
        here = folder / str(first)
        here.mkdir()
        r = Recording(here, build, seed + first, lives, requests)
        try:
            done = r.replay(seed, first, min(SLICE, states - first))
            assert done.returncode == 0, done.stdout[-4000:]
            said += done.stdout.splitlines()[-1:]
            print(said[-1], flush=True)
            for i in range(min(samples, 5)):
                r.sample(seed, first + i)
                samples -= 1
        finally:
            r.end()
        shutil.rmtree(here)
    return said


def main():
    top = Path(__file__).resolve().parents[2]
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--states", type=int, default=10000)
    a.add_argument("--samples", type=int, default=20)
    a.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    a.add_argument("--build", type=Path, default=top / "build")
    o = a.parse_args()
    print(f"seed {o.seed}", flush=True)
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # its inode numbers are never used again
    with tempfile.TemporaryDirectory(dir=where) as folder:
        said = run(Path(folder), o.build, o.seed, o.states, o.samples)
    states, different = (sum(int(line.split()[i]) for line in said) for i in (0, 2))
    print(f"{states} states, {different} different, none wrong")


if __name__ == "__main__":
    sys.exit(main())
