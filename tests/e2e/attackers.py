# SPDX-License-Identifier: MIT
"""Users who attack a daemon (tests/bench/attacker.c), and one who is to notice nothing of it. Takes root."""
import ctypes
import json
import multiprocessing
import os
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time
from pathlib import Path

import msgpack

from hobproto import Client, Closed

VICTIM, FIRST = 61000, 61001  # uids: who is attacked, and the first of those who attack
ID, WORD = 0xFEEDFACECAFEBEEF, "########"  # attacker.c puts something of its own in their place
BIG = 3_900_000  # bytes of a large session: the answer to session.show is below what lets a connection be dropped
COPIES = 32  # of it: big0, big1, …
PROMPT = 60_000_000
WORDS = "the old house at the end of the road had a garden where nobody had been for many years and "


def frame(kind, **keys):
    body = msgpack.packb({"type": kind, "id": ID, **keys}, use_bin_type=True)
    return struct.pack("<I", len(body)) + body


def raw(kind="generate", **keys):
    return frame(kind, **{"raw": True, "prompt": WORD + " tell me about it", "max_tokens": 16, **keys})


def second_hello():
    body = msgpack.packb({"type": "hello", "version": 1, "features": []})
    return struct.pack("<I", len(body)) + body


def half(n=PROMPT):
    return struct.pack("<I", n) + b"\x82" + b"\xa4" * (n // 2)


# name: how (attacker.c), messages; session.* take those that seed_sessions makes.
KINDS = {
    "cancel": ("push", lambda: [frame("cancel")]),
    "status": ("ask", lambda: [frame("status")]),
    "tokenize": ("ask", lambda: [frame("tokenize", text="a short text")]),
    "malformed": ("ask", lambda: [frame("generate", prompt=7), frame("nothing"), frame("tokenize", text="x", y=1)]),
    "garbage": ("ask", lambda: [b"\xff" * 64]),
    "hello": ("ask", lambda: [second_hello()]),
    "list": ("ask", lambda: [frame("session.list")]),
    "show": ("ask", lambda: [frame("session.show", name=f"big{i}") for i in range(COPIES)]),
    "fork": ("ask", lambda: [frame("session.fork", name=f"big{i}", to=f"{WORD}{i}") for i in range(COPIES)]),
    "seeds": ("ask", lambda: [frame("session.fork", name=f"s{i}", to=f"{WORD}{i}s") for i in range(COPIES)]),
    "rename": ("ask", lambda: [f for i in range(COPIES) for f in (
        frame("session.fork", name=f"big{i}", to=f"{WORD}{i}"),
        frame("session.rename", name=f"{WORD}{i}", to=f"{WORD}x"),
        frame("session.remove", name=f"{WORD}x"))]),
    "remove": ("ask", lambda: [f for i in range(COPIES) for f in (
        frame("session.fork", name=f"big{i}", to=f"{WORD}{i}"), frame("session.remove", name=f"{WORD}{i}"))]),
    "warm": ("ask", lambda: [raw("warm", prompt=WORD + WORDS * 10)]),
    "detach": ("ask", lambda: [raw(session=WORD, detach=True)]),
    "answers": ("ask", lambda: [raw(n=32)]),
    "prompt": ("ask", lambda: [raw(prompt=WORD + "x" * PROMPT)]),
    "half": ("hold", lambda: [half()]),
    "deaf": ("deaf", lambda: [raw(max_tokens=200, ignore_eos=True)]),
    "churn": ("churn", lambda: [frame("status")]),
    "idle": ("hold", lambda: []),
    "queue": ("ask", lambda: [raw(max_tokens=64, ignore_eos=True)]),
    "pool": ("ask", lambda: [raw(prompt=WORD + WORDS * 10, max_tokens=64, ignore_eos=True)]),
    "batch": ("ask", lambda: [raw(priority="batch", prompt=WORD + WORDS * 4, max_tokens=200, ignore_eos=True)]),
    "embed": ("ask", lambda: [frame("embed", salt=WORD, texts=[f"{WORDS}{i}" for i in range(64)])]),
    "long text": ("ask", lambda: [frame("tokenize", text=WORD + " a b c" * 15_000)]),
    "turns": ("ask", lambda: [raw(session=WORD, max_tokens=1)]),
    "schema": ("ask", lambda: [raw(prompt=WORD, max_tokens=1, on_limit="cut", constraint={"type": "schema", "text": schema()})]),
    "regex": ("ask", lambda: [raw(prompt=WORD, max_tokens=1, constraint={"type": "regex", "text": WORD + "(a|b[c-x]{1,40}){1,200}"})]),
}


def schema():
    """A JSON Schema of its own each time, which takes a while to compile."""
    properties = {f"p{i}": {"type": "object", "properties": {f"q{k}": {"type": "string", "pattern": "^[a-z]{1,20}$"} for k in range(20)}}
                  for i in range(20)}
    return json.dumps({"title": WORD, "type": "object", "properties": {WORD: {"type": "integer"}, **properties}, "additionalProperties": False})


def end_with_parent():
    """The calling process is killed when its parent ends; setuid takes this back."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    end_with_parent()


def as_user(uid, f, *args):
    """Run f in a process of that user's; the process."""
    def run():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        become(uid)
        try:
            f(*args)
        except (OSError, Closed) as e:
            print(f"uid {uid}: {e!r}", flush=True)
            os._exit(1)

    p = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    p.start()
    return p


def fork(c, known, names):
    """Fork sessions from the known ones, each source once at a time, for it is in use meanwhile."""
    known, names = list(known), list(names)
    while names:
        n = min(len(names), len(known), 64)
        wrong = [e for e in c.events(*[c.request("session.fork", name=known[i], to=names[i]) for i in range(n)])
                 if e["event"] != "ok"]
        assert not wrong, wrong[0]
        known += names[:n]
        names = names[n:]


def seed_sessions(path, uid, big=BIG, forks=0):
    """Give the user a session "seed" and @forks copies of it, and COPIES of @big bytes of text."""
    def make():
        with Client(path, 300) as c:
            # Hyphens: many models have a token of 64 of them, so that a context holds more bytes.
            for name, text in (("seed", "hello"), ("big0", "-" * big)):
                if text:
                    a = c.answer(text, raw=True, session=name, context="shift", max_tokens=1, temperature=0.0)
                    assert a.end["event"] == "done", a.end
            fork(c, ["seed"], [f"s{i}" for i in range(forks)])
            fork(c, ["big0"], [f"big{i}" for i in range(1, COPIES)] if big else [])

    p = as_user(uid, make)
    p.join(300)
    assert p.exitcode == 0, "the sessions could not be made"


class Attackers:
    """Processes of attacker.c, one a user."""

    def __init__(self, program, path, place, seconds=120, nice=0):
        self.program, self.path, self.place, self.seconds, self.nice = program, path, Path(place), seconds, nice
        self.procs, self.files = [], {}

    def file(self, name):
        if name not in self.files:
            self.files[name] = self.place / f"{name}.frames"
            self.files[name].write_bytes(b"".join(KINDS[name][1]()))
        return self.files[name]

    def start(self, uid, *kinds):
        """@kinds: (name, connections, outstanding)."""
        args = [str(self.program), str(uid), str(self.path), str(self.seconds)]
        for name, connections, outstanding in kinds:
            args += [KINDS[name][0], str(connections), str(outstanding), str(self.file(name))]
        p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             preexec_fn=lambda: os.nice(self.nice))
        p.ready, p.counts, p.reader = threading.Event(), {}, threading.Thread(target=listen, args=(p,), daemon=True)
        p.reader.start()
        self.procs.append(p)

    def wait_ready(self, seconds):
        """Until each connection was opened once, at most so long; whether it was so."""
        until = time.monotonic() + seconds
        return all(p.ready.wait(max(0, until - time.monotonic())) for p in self.procs)

    def stop(self):
        """What they have done: sums of attacker.c's counters."""
        sums = {}
        for p in self.procs:
            p.terminate()
        for p in self.procs:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
            p.reader.join(10)
            for key, value in p.counts.items():
                sums[key] = value if isinstance(value, str) else round(sums.get(key, 0) + value, 2)
        self.procs = []
        return sums


def listen(p):
    """What an attacker prints."""
    with p.stdout:
        for line in p.stdout:
            if line == "ready\n":
                p.ready.set()
            else:
                p.counts = json.loads(line)


def note(out, what, more=""):
    out.write(f"{what} {time.monotonic():.6f} {more}\n")


# No timeouts below: a connect without one waits for its place in the socket's queue, as that of hob does.


def probe(path, log, prompt):
    """First token after first token of one warm prompt."""
    with open(log, "w", buffering=1) as out, Client(path, None) as c:
        while True:
            note(out, "b")
            i = c.generate(prompt, raw=True, max_tokens=1, temperature=0.0, ignore_eos=True, logprobs=True)
            first = True
            for e in c.events(i):
                if first and e["event"] in ("text", "done"):
                    note(out, "e")
                    first = False
            if e["event"] == "error":
                note(out, "x", e["code"])


def stream(path, log, prompt, n):
    """One answer after the other, and when each token came."""
    with open(log, "w", buffering=1) as out, Client(path, None) as c:
        while True:
            note(out, "s")
            i = c.generate(prompt, raw=True, max_tokens=n, temperature=0.0, ignore_eos=True, logprobs=True)
            for e in c.events(i):
                if e["event"] == "text":
                    note(out, "t")
            if e["event"] == "error":
                note(out, "x", e["code"])


def newcomer(path, log, turns):
    """Twice a second a new connection until its hello, with @turns also a turn in a session of its own."""
    with open(log, "w", buffering=1) as out:
        for k in range(1 << 30):
            note(out, "b")
            try:
                c = Client(path, None)
                a = c.answer("hello", session=f"b{k}", max_tokens=2, temperature=0.0) if turns else None
                c.close()
                refused = a.end.get("code") if a else None
                note(out, *(("x", refused) if refused else ("e", "")))
            except (OSError, Closed, AssertionError) as e:
                note(out, "x", type(e).__name__)
            time.sleep(0.5)


def spans(lines, start, end):
    """What began in a time: its seconds; what has not ended by @end counts up to there. And what failed."""
    out, failed, begun = [], 0, None
    for what, t, *_ in lines:
        if what == "b":
            begun = t
        elif begun is not None and start <= begun < end:
            out.append(min(t, end) - begun)
            failed += what == "x"
            begun = None
    if begun is not None and start <= begun < end:
        out.append(end - begun)
    return out, failed


def gaps(lines, start, end, restarts=False):
    """Seconds between one text event and the next of the same answer (@restarts: and of the next one); the last one
    counts up to @end."""
    out, last = [], None
    for what, t, *_ in [*lines, ("end", end)]:
        if what == "t" or (what == "end" and last is not None):
            if last is not None and start < t and last < end:
                out.append(min(t, end) - last)
            last = t
        elif what == "s" and not restarts:
            last = None
    return out


class Victim:
    """A user with a stream, first tokens of a warm prompt, and new connections."""

    def __init__(self, path, place, tokens=300, answer=512, turns=False):
        self.logs = {k: Path(place) / f"victim-{k}" for k in ("probe", "stream", "newcomer")}
        Path(place).chmod(0o755)
        for log in self.logs.values():
            log.touch()
            os.chown(log, VICTIM, VICTIM)
        prompt = (WORDS * (tokens // 19 + 1)).split(" ")
        self.procs = [as_user(VICTIM, probe, path, self.logs["probe"], " ".join(prompt[:tokens])),
                      as_user(VICTIM, stream, path, self.logs["stream"], "A long story: ", answer),
                      as_user(VICTIM, newcomer, path, self.logs["newcomer"], turns)]

    def lines(self, which):
        out = []
        for line in self.logs[which].read_text().splitlines():
            what, t, *more = line.split()
            out.append((what, float(t), *more))
        return out

    def probes(self, since):
        return sum(what == "e" and t >= since for what, t, *_ in self.lines("probe"))

    def wait_probes(self, n, since, until):
        """Until @n first tokens have come since then, or it is @until."""
        while self.probes(since) < n and time.monotonic() < until:
            time.sleep(0.1)

    def result(self, start, end):
        first, lost = spans(self.lines("probe"), start, end)
        between = gaps(self.lines("stream"), start, end)
        new, refused = spans(self.lines("newcomer"), start, end)
        return {"samples": len(first), "failed": lost, "p50": quantile(first, 0.5), "p99": quantile(first, 0.99),
                "gap": statistics.median(between or [end - start]), "gap_max": max(between, default=end - start),
                "stall": max(gaps(self.lines("stream"), start, end, restarts=True), default=end - start),
                "gap_mean": sum(between) / len(between) if between else end - start,
                "new": quantile(new, 0.5), "new_max": max(new, default=0), "new_n": len(new), "refused": refused}

    def stop(self):
        for p in self.procs:
            p.kill()
            p.join()


def wait_for(seconds, condition):
    """Whether it came true in that time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


class Manager:
    """The service manager's side of the watchdog: when each WATCHDOG=1 came."""

    def __init__(self, place, usec):
        self.path, self.usec, self.times = Path(place) / "notify", usec, []
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.s.bind(str(self.path))
        threading.Thread(target=self.listen, daemon=True).start()

    @property
    def env(self):
        return {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": str(self.usec)}

    def listen(self):
        while True:
            try:
                if b"WATCHDOG=1" in self.s.recv(4096):
                    self.times.append(time.monotonic())
            except OSError:
                return

    def largest(self, start, end):
        """Seconds without a sign of life between @start and @end, also up to @end."""
        before = [t for t in self.times if t < start][-1:] or [start]
        at = before + [t for t in self.times if start <= t < end] + [end]
        return max(b - a for a, b in zip(at, at[1:]))

    def close(self):
        self.s.close()
