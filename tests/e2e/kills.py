#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill -9 of hobd at random times while clients write, fork, rename and remove sessions, sessions expire, and KV is
written to disk and read from it: is a turn lost or doubled, or a byte believed that the model did not compute?

    kills.py [--kills 1000] [--seed N] [--build DIR]

A session's answers follow from the texts of its user alone, so a daemon without a disk cache, which nobody kills, knows
the ids and the bits of the log probabilities of every turn. After each kill the next daemon must have each session as
it was after the last acknowledged request or after the one that was interrupted, and no file of a killed write may stay."""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from hobproto import Client, Closed  # noqa: E402

WORDS = ["the quick brown fox jumps over the lazy dog, again; " * 2, "and then?", "say more of it, " * 4, "and at last?"]
KEYS = dict(max_tokens=6, temperature=0.9, seed=5, ignore_eos=True, logprobs=True)
DEEPEST = 4  # turns of a session
MANY = 8  # sessions of a user
TTL = 6  # seconds, in the lives whose sessions expire
CLEAN = 20  # two lives of so many are stopped, one after the other: what the first has written is read in the second


class Daemon:
    """A hobd with a home of its own below @root."""

    def __init__(self, root, build, model, *args):
        self.root, self.args, self.p = root, args, None
        self.hobd = build / "daemon" / "hobd"
        (root / "run").mkdir(parents=True, mode=0o700)
        self.socket = root / "run" / "s"
        models = root / "data" / "hob" / "models"
        models.mkdir(parents=True)
        (models / "default.gguf").symlink_to(model)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        self.env.update({f"XDG_{k}_HOME": f"{root}/{k.lower()}" for k in ("STATE", "CACHE", "DATA", "CONFIG")},
                        HOME=str(root), XDG_RUNTIME_DIR=f"{root}/run")

    def start(self, *more, **env):
        with open(self.root / "log", "ab") as log:
            self.p = subprocess.Popen([self.hobd, "serve", "--socket", self.socket, *map(str, self.args + more)],
                                      env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def client(self):
        """None: it was killed."""
        while True:
            try:
                return Client(self.socket)
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, Closed):
                if self.p.poll() is not None:
                    return None
                time.sleep(0.001)

    def ready(self):
        """A client, when hobd has the fingerprint of its model: from then on a session's tokens outlive hobd."""
        c, end = self.client(), time.monotonic() + 60
        assert c, self.log()
        while not json.loads(c.ask("status")["status"]).get("cache", {}).get("disk"):
            assert time.monotonic() < end, self.log()
            time.sleep(0.01)
        return c

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        assert self.p.wait(60) == 0, self.log()

    def log(self):
        return (self.root / "log").read_text()

    def parts(self):
        """Files of writes that have not ended."""
        return {p for top in ("state", "cache") for p in (self.root / top).rglob("*") if p.suffix in (".tmp", ".part")}


class Cold:
    """The answers to texts, by a daemon that reads nothing from a disk."""

    def __init__(self, root, build, model):
        self.d = Daemon(root, build, model, "--cache-bytes", 0, "--packed-file", "no", "--threads", 1)
        self.d.start()
        self.c, self.known, self.lock = self.d.client(), {(): None}, threading.Lock()

    def answer(self, texts):
        """The answer to the last of @texts in a session that has the others."""
        with self.lock:
            for n in range(1, len(texts) + 1):
                if texts[:n] in self.known:
                    continue
                of = {"session": self.name(texts[:n])}
                if n > 1:
                    of = {"session": self.name(texts[:n - 1]), "fork": self.name(texts[:n])}
                a = self.c.answer(texts[n - 1], **of, **KEYS)
                assert a.end["event"] == "done", a.end
                self.known[texts[:n]] = (a.text, a.ids, a.logprobs)
            return self.known[texts]

    @staticmethod
    def name(texts):
        return "t" + "-".join(str(WORDS.index(t)) for t in texts)


class User(threading.Thread):
    """Works on its sessions until the daemon is killed. @have: session -> (its texts, when it was used last, or
    somewhat earlier); @open: the request that no answer has come for, sent at @began."""

    def __init__(self, tag, cold, rng, before=None):
        super().__init__()
        self.tag, self.cold, self.rng, self.many = tag, cold, rng, MANY
        self.have, self.open, self.began, self.made, self.trouble, self.counts = {}, None, 0, 0, None, {}
        if before:
            self.have, self.open, self.began, self.made, self.counts = before.have, before.open, before.began, before.made, before.counts

    def work(self, daemon):
        """Begin; returns the thread, for daemon @daemon."""
        u = User(self.tag, self.cold, self.rng, self)
        u.daemon = daemon
        u.start()
        return u

    def run(self):
        try:
            c = self.daemon.client()
            while c and self.step(c):
                pass
        except (Closed, ConnectionResetError, BrokenPipeError):
            pass
        except Exception as e:  # of an assertion, too: the main thread raises it again
            self.trouble = e

    def plan(self):
        """A request: what it does, the session, the other name, a text, and its UUID."""
        rng, self.made = self.rng, self.made + 1
        # Some are left alone until they expire, and so are those that may expire soon.
        names = sorted(k for k, (_, used) in self.have.items()
                       if int(k[1:]) % 9 and (not self.daemon.expires or time.time() - used < TTL / 3))
        new, text = f"{self.tag}{self.made}", rng.choice(WORDS)
        what = rng.choices(["turn", "fork", "turn fork", "rename", "remove"], [10, 2, 2, 2, 1])[0]
        if not names or (what == "turn" and len(names) < self.many and rng.random() < 0.4):
            return ("turn", new, None, text, new)
        name = rng.choice(names)
        if len(names) > self.many + 4 or ("turn" in what and len(self.have[name][0]) >= DEEPEST):
            what = "remove"
        return (what, name, new, text, new)

    def after(self, op):
        """The sessions after it."""
        what, name, to, text, _ = op
        have, texts = dict(self.have), self.have.get(name, ((), 0))[0]
        if what == "turn":
            have[name] = (texts + (text,), self.began)
        elif what in ("fork", "turn fork"):
            have[to] = (texts + (text,) * (what == "turn fork"), self.began)
        elif what in ("rename", "remove"):
            have.pop(name, None)
            if what == "rename":
                have[to] = (texts, self.began)
        return have

    def more(self):
        """Further keys of a turn."""
        return {}

    def step(self, c):
        """One request. False: the daemon stops."""
        self.open = self.open or self.plan()
        self.began = time.time()
        what, name, to, text, uuid = self.open
        have, a = self.after(self.open), None
        if what in ("turn", "turn fork", "again"):
            a = c.answer(text, session=name, uuid=uuid, **({"fork": to} if what == "turn fork" else {}), **KEYS, **self.more())
            end = a.end
        else:
            end = c.ask(f"session.{what}", name=name, **({"to": to} if to and what != "remove" else {}))
        if end["event"] == "error" and end["code"] == "ESHUTDOWN":
            return False
        assert end["event"] in ("done", "ok"), (self.open, end)
        if a:
            texts = have[to if what == "turn fork" else name][0]
            want, bits = self.cold.answer(texts), (a.text, a.ids, a.logprobs)
            assert bits == want or (what == "again" and a.text == want[0]), (self.open, texts, bits, want, end)
        self.have, self.open = have, None
        self.counts[what] = self.counts.get(what, 0) + 1
        return True

    def settle(self, c, expires, every):
        """Compare what the daemon has with what it may have after a kill: each session as it was before the interrupted
        request or after it. @every: read all sessions, not only those of that request."""
        listed = {s["name"]: s["messages"] for s in c.sessions() if s["name"][0] == self.tag}
        then, seen = self.after(self.open) if self.open else self.have, {}
        for name in set(listed) | set(self.have) | set(then):
            before, after = self.have.get(name), then.get(name)
            if name in listed and (every or before != after):
                seen[name] = self.read(c, name)
                if seen[name] is None:  # it has expired since it was listed
                    listed.pop(name)
            if name not in listed:
                may = before is None or after is None or (expires and time.time() - before[1] > TTL * 0.9)
                assert may, f"{name} is lost: {before}"
                self.counts["expired"] = self.counts.get("expired", 0) + (before is not None and before == after)
            elif name in seen:
                assert seen[name] in [x[0] for x in (before, after) if x], (name, seen[name], before, after)
            else:
                assert listed[name] == 2 * len(before[0]), (name, listed[name], before)
        self.decide(listed, seen, then, expires)

    def read(self, c, name):
        """The texts of a session, whose answers must be those to them; None: there is no such session."""
        while (e := c.ask("session.show", name=name)).get("code") == "EBUSY":  # it is being removed
            time.sleep(0.01)
        if e["event"] == "error" and e["code"] == "ENOENT":
            return None
        messages = json.loads(e["sessions"])["messages"]
        texts = tuple(m["content"] for m in messages if m["role"] == "user")
        answers = [m["content"] for m in messages if m["role"] == "assistant"]
        assert answers == [self.cold.answer(texts[:n + 1])[0] for n in range(len(texts))], (name, texts)
        return texts

    def decide(self, listed, seen, then, expires):
        """Was the interrupted request done? A turn that was is sent again, and must not be kept twice."""
        if self.open:
            what, name, to, text, uuid = self.open
            if what == "turn":
                done = seen.get(name) == then[name][0]
            else:
                done = name not in listed if what == "remove" else to in listed
            if what == "rename" and not expires:
                assert (name in listed) != (to in listed), f"{name} and {to} are the same session: {sorted(listed)}"
            if done:
                self.have = then
            retry = "turn" in what and not done and (name in listed or what == "turn")
            self.open = self.open if retry else ("again", name, None, text, uuid) if what == "turn" and done else None
            if expires and self.open and time.time() - self.have.get(name, ((), time.time()))[1] > TTL / 3:
                self.open = None
        self.have = {k: v for k, v in self.have.items() if k in listed}
        if self.open and self.open[0] == "again" and name not in listed:
            self.open = None


class Trial:
    def __init__(self, folder, build, seed):
        self.rng, self.kills = random.Random(seed), 0
        model = folder / "tiny.gguf"
        subprocess.run([build / "tests/support/mktiny", "--seed", "7", "-o", model], check=True)
        self.cold = Cold(folder / "cold", build, model)
        self.d = Daemon(folder / "hot", build, model, "--threads", 1, "--kv-bytes", "200K", "--parallel", 3)
        self.d.start()
        self.d.ready().close()
        self.d.stop()
        self.users = [User(tag, self.cold, random.Random(seed + i)) for i, tag in enumerate("abc", 1)]
        self.read, self.expired = 0, False

    def wait_read(self, c):
        """Until there were some turns, and KV was read from files."""
        end = time.monotonic() + 60
        while not (read := json.loads(c.ask("status")["status"])["cache"]["disk_read"]) or sum(u.counts.get("turn", 0) for u in self.users) < 30:
            assert time.monotonic() < end and not any(u.trouble for u in self.users), (read, [(u.counts, u.trouble) for u in self.users])
            time.sleep(0.01)

    def life(self, n):
        """A daemon from its start to its kill; the last two of CLEAN are stopped instead."""
        clean, self.d.expires = n % CLEAN >= CLEAN - 2, n % 5 == 4
        self.expired |= self.d.expires
        early = not clean and self.rng.random() < 0.1  # perhaps before it listens
        self.d.start(*(("--session-ttl", f"{TTL}s") if self.d.expires else ()))
        if not early:
            c = self.d.client()
            assert c, self.d.log()
            for u in self.users:
                u.settle(c, self.expired, clean)
            self.expired = self.d.expires
            self.users = [u.work(self.d) for u in self.users]
        time.sleep(self.rng.uniform(0, 0.03) if early else self.rng.uniform(0, 0.25))
        assert self.d.p.poll() is None, self.d.log()
        if n % CLEAN == CLEAN - 1:
            self.wait_read(c)
        if clean:
            self.read += json.loads(c.ask("status")["status"])["cache"]["disk_read"]
            self.d.stop()
            assert not self.d.parts(), self.d.parts()
        else:
            self.kill()
        for u in self.users if not early else []:
            u.join()
            if u.trouble:
                raise u.trouble

    def kill(self):
        if self.rng.random() < 0.4:  # while it writes all that it has
            self.d.p.send_signal(signal.SIGTERM)
            time.sleep(self.rng.uniform(0, 0.02))
        self.d.p.kill()
        # SIGTERM may come before there is a handler for it.
        assert self.d.p.wait(60) in (-signal.SIGKILL, -signal.SIGTERM, 0), self.d.log()
        self.kills += 1

    def check_log(self):
        log = self.d.log()
        assert "ssertion" not in log and "Sanitizer" not in log, log
        assert not list((self.d.root / "state").rglob("*.bad*")), log


def trial(folder, build, kills, seed):
    """Returns the number of kills, the requests that were acknowledged, by kind, and bytes of KV read from files."""
    t = Trial(folder, build, seed)
    try:
        n = 0
        while t.kills < kills or n % CLEAN:
            t.life(n)
            n += 1
            if n % CLEAN == 0:  # all sessions and files were checked
                print(f"{t.kills} kills", flush=True)
        t.check_log()
    finally:
        for d in (t.d, t.cold.d):
            if d.p and d.p.poll() is None:
                d.p.kill()
                d.p.wait()
    counts = {}
    for u in t.users:
        for k, v in u.counts.items():
            counts[k] = counts.get(k, 0) + v
    return t.kills, counts, t.read


def main():
    top = Path(__file__).resolve().parents[2]
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--kills", type=int, default=1000)
    a.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    a.add_argument("--build", type=Path, default=top / "build")
    o = a.parse_args()
    print(f"seed {o.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kills, counts, read = trial(Path(folder), o.build, o.kills, o.seed)
    print(f"{kills} kills; acknowledged: {counts}; at least {read} bytes of KV read; nothing lost, doubled or foreign")


if __name__ == "__main__":
    sys.exit(main())
