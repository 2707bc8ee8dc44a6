# SPDX-License-Identifier: MIT
"""The users of soak.py: processes of some uids, each with threads that send requests of all kinds, well-behaved or not."""
import array
import collections
import fcntl
import json
import os
import pickle
import random
import socket
import struct
import threading
import time

import msgpack
from attackers import become
from hobproto import Client, Closed
from soak_requests import CONVERSATIONS, NUMBERS, TURNS, digest, subject

F_ADD_SEALS, SEALS = 1033, 2 | 8  # shrink, write
LASTS = ("done", "error", "tokens", "detokenized", "status", "stopping", "sessions", "ok")
KEPT = 8  # sessions of a user, about
# How often each is done. Those of NUMBERS are compared with a replay.
WEIGHTS = {"plain": 16, "raw": 6, "repeated": 3, "several": 3, "constrained": 5, "tools": 2, "image": 3, "adapter": 3, "infill": 3, "embed": 4,
           "rank": 2, "tokenize": 2, "detokenize": 1, "context": 2, "turn": 14, "detached": 2, "fork": 2, "rename": 2, "remove": 2, "listed": 2,
           "status": 2, "warm": 2, "batch": 3, "cancel": 4, "vanish": 3, "slow": 1, "late": 2, "wrong": 3, "garbage": 1, "again": 2}


def memfd(data):
    fd = os.memfd_create("file", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
    return fd


class Counts:
    """What a process has done: how each operation ended, digests of answers, answers that differ from an earlier one to the same request."""

    def __init__(self):
        self.ends, self.digests, self.wrong, self.lock = collections.Counter(), {}, [], threading.Lock()
        self.examples, self.compared = {}, 0

    def end(self, what, how, example=None):
        with self.lock:
            self.ends[what, how] += 1
            if example and (what, how) not in self.examples:
                self.examples[what, how] = example

    def answer(self, key, d):
        with self.lock:
            self.compared += 1
            if self.digests.setdefault(key, d) != d:
                self.wrong.append(key)


class Session:
    def __init__(self, name, conversation):
        self.name, self.conversation, self.turns, self.sure, self.busy = name, conversation, 0, True, True


class Sessions:
    """Those of one user of the daemon, which its threads share. One is busy while a thread uses it."""

    def __init__(self):
        self.all, self.lock, self.made = [], threading.Lock(), 0

    def name(self):
        with self.lock:
            self.made += 1
            return f"s{self.made}"

    def take(self, r, least=0):
        with self.lock:
            free = [s for s in self.all if not s.busy and s.turns >= least]
            if not free:
                return None
            s = r.choice(free)
            s.busy = True
            return s

    def add(self, s):
        with self.lock:
            self.all.append(s)

    def drop(self, s):
        with self.lock:
            self.all.remove(s)


class User:
    """A thread's view: a connection that is made anew now and then, as one of the uid's users."""

    def __init__(self, path, seed, users, counts, stop, few):
        self.path, self.r, self.users, self.counts, self.stop, self.few = path, random.Random(seed), users, counts, stop, few
        self.c, self.left = None, 0
        self.kinds, self.weights = list(WEIGHTS), list(WEIGHTS.values())

    def connect(self):
        if self.c:
            self.c.close()
        name, self.sessions = self.r.choice(self.users)
        self.c, self.left = None, self.r.randint(1, 60)
        self.c = Client(self.path, 60, user=name)
        self.name = name

    def run(self):
        while not self.stop.is_set():
            what = self.r.choices(self.kinds, self.weights)[0]
            try:
                if not self.c or self.left <= 0:
                    self.connect()
                self.left -= 1
                self.operate(what)
            except (Closed, OSError, AssertionError) as e:
                self.counts.end(what, type(e).__name__, repr(e)[:200])
                self.left = 0
                if self.c:
                    self.c.close()
                    self.c = None
                time.sleep(0.05)
        if self.c:
            self.c.close()

    def operate(self, what):
        if what in NUMBERS:
            number = self.number(what)
            self.compare((what, number), self.ask(*subject(what, number)))
        else:
            getattr(self, what)()

    def number(self, kind):
        """Some often, each at times."""
        n = NUMBERS[kind]
        return self.r.randrange(n // 10 if self.few or self.r.random() < 0.3 else n)

    def ask(self, kind, keys):
        """The events of a request; a third of the files come as descriptors."""
        files = [p for m in keys.get("messages", ()) if isinstance(m["content"], list) for p in m["content"] if "data" in p]
        if files and self.r.random() < 0.3:
            i = self.by_descriptors(kind, keys, files)
        else:
            i = self.c.request(kind, **keys)
        return self.collect(i)

    def by_descriptors(self, kind, keys, files):
        numbers = {id(p): k for k, p in enumerate(files)}
        messages = [{**m, "content": [{"type": p["type"], "fd": numbers[id(p)]} if id(p) in numbers else p for p in m["content"]]}
                    if isinstance(m["content"], list) else m for m in keys["messages"]]
        self.c.last += 1
        body = msgpack.packb({"type": kind, "id": self.c.last, **keys, "messages": messages, "fds": len(files)}, use_bin_type=True)
        fds = [memfd(p["data"]) for p in files]
        data = struct.pack("<I", len(body)) + body
        n = self.c.s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        if n < len(data):
            self.c.s.sendall(data[n:])
        for fd in fds:
            os.close(fd)
        return self.c.last

    def collect(self, i, last=None):
        """All events of a request. With a connection's own error the connection is over."""
        out = []
        while not out or out[-1]["event"] not in LASTS or out[-1].get("more"):
            e = self.c.recv()
            if e["event"] == "error" and e.get("id") == 0:
                raise Closed(e["code"])
            if e.get("id") == i:
                out.append(e)
        return out

    def ended(self, what, events):
        e = events[-1]
        how = e["code"] if e["event"] == "error" else e.get("reason", e["event"])
        self.counts.end(what, how, e.get("message"))

    def compare(self, key, events, count=True):
        if count:
            self.ended(key[0], events)
        d = digest(events)
        if d is not None and all(e.get("reason") != "cancel" for e in events if e["event"] == "done"):
            self.counts.answer(key, d)
        return d is not None

    # --- sessions ---

    def turns_kept(self, s):
        """How many turns the daemon says that a session has; None: no such session, or nobody can say."""
        e = self.collect(self.c.request("session.show", name=s.name))[-1]
        self.counts.end("show", e.get("code", e["event"]), e.get("message"))
        if e["event"] == "error":
            return 0 if e["code"] == "ENOENT" else None
        return sum(m["role"] == "user" for m in json.loads(e["sessions"])["messages"])

    def begin(self):
        s = Session(self.sessions.name(), self.r.randrange(CONVERSATIONS // 10 if self.few else CONVERSATIONS))
        self.sessions.add(s)
        return s

    def settle(self, s, after):
        """A turn has failed or nobody was told: the daemon has the turns before it, or also it."""
        kept = self.turns_kept(s)
        if kept is None:
            return
        if kept not in (s.turns, after):
            self.counts.end("turn", "lost", f"{s.name}: {kept} turns, expected {s.turns} or {after}")
            self.counts.wrong.append(("kept", s.name, kept, s.turns))
        s.turns, s.sure = kept, True

    def used(self, f):
        """Call @f with a session that no other thread uses."""
        s = self.sessions.take(self.r)
        if not s or len(self.sessions.all) < KEPT and self.r.random() < 0.5:
            if s:
                s.busy = False
            s = self.begin()
        try:
            if not s.sure:
                self.settle(s, s.turns + 1)
            if s.sure and s.turns < TURNS:
                f(s)
            if s.turns >= TURNS or len(self.sessions.all) > 2 * KEPT:
                self.end_session(s)
        finally:
            s.busy = False

    def end_session(self, s):
        events = self.collect(self.c.request("session.remove", name=s.name))
        self.ended("remove", events)
        if events[-1]["event"] == "ok" or events[-1].get("code") == "ENOENT":
            self.sessions.drop(s)

    def turn(self):
        def go(s):
            s.sure = False
            kind, keys = subject("turn", (s.conversation, s.turns))
            more = {"note": "n" * self.r.randrange(1, 3000)} if self.r.random() < 0.1 else {}
            if self.compare(("turn", (s.conversation, s.turns)), self.ask(kind, {**keys, **more, "session": s.name, "wait": True})):
                s.turns, s.sure = s.turns + 1, True
        self.used(go)

    def detached(self):
        def go(s):
            s.sure = False
            kind, keys = subject("turn", (s.conversation, s.turns))
            with Client(self.path, 60, user=self.name) as c:
                i = c.request(kind, **keys, session=s.name, wait=True, detach=True)
                e = c.recv()
                while e.get("id") != i:
                    e = c.recv()
            self.counts.end("detached", e.get("code", "accepted"), e.get("message"))
            until = time.monotonic() + 30
            while self.is_busy(s) and time.monotonic() < until:
                time.sleep(0.02)
            self.settle(s, s.turns + 1)
        self.used(go)

    def is_busy(self, s):
        e = self.collect(self.c.request("session.list", limit=1000))[-1]
        return e["event"] == "sessions" and any(x["busy"] for x in json.loads(e["sessions"]) if x["name"] == s.name)

    def fork(self):
        def go(s):
            new = Session(self.sessions.name(), s.conversation)
            events = self.collect(self.c.request("session.fork", name=s.name, to=new.name))
            self.ended("fork", events)
            if events[-1]["event"] == "ok":
                new.turns, new.busy = s.turns, False
                self.sessions.add(new)
        self.used(go)

    def rename(self):
        def go(s):
            to = self.sessions.name()
            events = self.collect(self.c.request("session.rename", name=s.name, to=to))
            self.ended("rename", events)
            if events[-1]["event"] == "ok":
                s.name = to
        self.used(go)

    def remove(self):
        s = self.sessions.take(self.r)
        if s:
            try:
                self.end_session(s)
            finally:
                s.busy = False

    def listed(self):
        self.ended("listed", self.collect(self.c.request("session.list", limit=self.r.choice([2, 256]))))

    # --- others ---

    def status(self):
        self.ended("status", self.collect(self.c.request("status")))

    def warm(self):
        self.ended("warm", self.ask("warm", subject("plain", self.number("plain"))[1]))

    def batch(self):
        """Several at once, with the lowest priority or the highest."""
        numbers = [self.number("plain") for _ in range(self.r.randint(2, 6))]
        priority = self.r.choice(["batch", "batch", "interactive"])
        ids = {self.c.request("generate", **subject("plain", n)[1], priority=priority): n for n in numbers}
        events = collections.defaultdict(list)
        for e in self.c.events(*ids):
            events[e["id"]].append(e)
        for i, n in ids.items():
            self.counts.end("batch", events[i][-1].get("code", events[i][-1]["event"]))
            self.compare(("plain", n), events[i], count=False)

    def begun(self, c):
        """Ask something long, and take some events of it."""
        kind = self.r.choice(["plain", "repeated", "several", "constrained", "image", "embed", "tools"])
        type_, keys = subject(kind, self.number(kind))
        i = c.request(type_, **{**keys, **({"max_tokens": 100} if type_ == "generate" else {})})
        for _ in range(self.r.randrange(0, 6)):
            if c.recv()["event"] in LASTS:
                break
        return i

    def cancel(self):
        i = self.begun(self.c)
        self.c.send({"type": "cancel", "id": i})
        self.c.ask("status")  # the answer may have ended already
        self.left = 0
        self.counts.end("cancel", "ok")

    def vanish(self):
        with Client(self.path, 60, user=self.name) as c:
            self.begun(c)
        self.counts.end("vanish", "ok")

    def slow(self):
        n = self.number("several")
        kind, keys = subject("several", n)
        i = self.c.request(kind, **keys)
        time.sleep(self.r.uniform(0.5, 2))
        self.compare(("several", n), self.collect(i), count=False)
        self.counts.end("slow", "ok")

    def late(self):
        self.ended("late", self.ask("generate", {**subject("plain", self.number("plain"))[1], "timeout_ms": self.r.randint(0, 30)}))

    def again(self):
        self.left = 0
        self.counts.end("again", "ok")

    def wrong(self):
        r = self.r
        keys = r.choice([{"prompt": 7}, {"messages": []}, {"raw": True, "prompt": b"\xff\xfe"}, {"messages": [{"role": "user"}]}, {"nothing": 1},
                         {"raw": True, "prompt": "x", "constraint": {"type": "regex", "text": "(a)\\1" + "b" * r.randrange(99)}},
                         {"raw": True, "prompt": "x", "constraint": {"type": "schema", "text": '{"type": "objec'}},
                         {"raw": True, "prompt": "x", "adapter": f"no{r.randrange(99)}"}, {"raw": True, "prompt": "ab " * 2000},
                         {"messages": [{"role": "user", "content": [{"type": "image", "data": r.randbytes(r.randrange(1, 3000))}]}]},
                         {"raw": True, "prompt": "x", "session": "a/b"}])
        self.ended("wrong", self.collect(self.c.request("generate", **keys)))

    def garbage(self):
        r = self.r
        with Client(self.path, 10, user=self.name) as c:
            c.send_bytes(r.choice([r.randbytes(r.randrange(1, 400)), struct.pack("<I", 1 << 31), struct.pack("<I", 60_000_000) + bytes(5000),
                                   struct.pack("<I", 4) + b"\x81\xa1a"]))
            c.s.settimeout(0.2)
            try:
                c.recv()
            except (TimeoutError, OSError, Closed):
                pass
        self.counts.end("garbage", "ok")


def live(uid, path, threads, names, seed, few, until, out):
    """The life of a process of @uid; what it has counted is written to @out. @few: of a tenth of the distinct requests."""
    out = open(out, "wb")
    become(uid)
    counts, stop = Counts(), threading.Event()
    users = [(name, Sessions()) for name in names]
    crowd = [threading.Thread(target=User(path, f"{seed} {uid} {k}", users, counts, stop, few).run, daemon=True) for k in range(threads)]
    for t in crowd:
        t.start()
    time.sleep(max(0, until - time.monotonic()))
    stop.set()
    for t in crowd:
        t.join(90)
    counts.end("threads", "ended" if not any(t.is_alive() for t in crowd) else "hang")
    with out:
        pickle.dump((counts.ends, counts.digests, counts.wrong, counts.examples, counts.compared), out)
