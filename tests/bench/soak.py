#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A daemon under many requests of all kinds for a time that is long for it: does anything grow, and is each answer right? Takes root.

usage: soak.py [--minutes N] [--warm N] [--threads N] [--seed N] [--device DEVICE] [--arch ARCH] [--no-faults] [--any-growth] [--few]
               [--json FILE] [--preload LIB] [--build DIR]
  --minutes N    how long, without the replay (default: 24)
  --warm N       minutes after which nothing may grow any more (default: 8)
  --threads N    threads of each of the four users (default: 3)
  --device D     where the daemon under test computes (default: cpu); that of the replay always computes on the CPU
  --arch ARCH    of the model (default: qwen3), as of mktiny; one that takes images and adapters. lfm2 has recurrent layers, whose states come
                 and go with the KV
  --no-faults    no damaged files, full disks, and short limits in between
  --few          a tenth of the distinct requests
  --any-growth   tell what has grown, but do not fail for it (the memory of the first minutes always grows: the heap
                 has found its size after about eight of them)
  --json FILE    also write the figures and samples there; "-": the figures are the last line of what is printed
  --preload LIB  for the daemon: LD_PRELOAD

The model is tiny, with a draft model, two adapters and an encoder of images; contexts and the KV pool are small, so that blocks are evicted all
the time, and the directories are on a small disk. Four uids, one of them a gateway with users of its own, send requests of all kinds
(soak_users.py). Each few seconds the configuration is read again, and a fault happens: a file of the cache is damaged, the disk is full for a
moment, no descriptor is left, no memory is left, a user is stopped, a process that decodes images is killed. A sample each two seconds has the
memory, descriptors, threads, files and sessions of the daemon. In the end a daemon that caches and proposes nothing answers each distinct
request once more, alone, and ids, logprobs and text must be the same bits as in each answer before. Prints a table; status 1 if something grew, an
answer was another one, a kind of request had no answer at all (without --few), or the daemon did not compute on its device to the end.
"""
import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from attackers import end_with_parent  # noqa: E402
from hobproto import Client, Closed  # noqa: E402
from mmprojfiles import Encoder  # noqa: E402
from soak_requests import NUMBERS, digest, subject  # noqa: E402
from soak_users import LASTS, live  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
FIRST = 61000
GATEWAY = FIRST + 3
CTX, DIM = 512, 64
DISK = 64  # MiB
SECONDS = 2  # between two samples
HOST = "1M"  # behind a GPU: less than the KV pool has, so that blocks also go on to the disk
REPLAYERS = 6
CONF = ("queue = 64\nspeculate = auto\nsession-count = 400\n", "queue = 48\nspeculate = lookup\nsession-count = 300\nsession-ttl = 1h\n")
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n"
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
GROWTH = 1.01  # of the resident memory
# Faults that are left out with a GPU, and why.
NOT_ON_A_DEVICE = {"memory": "the driver needs memory of the process, too, and hobd gives up a device that fails"}


def make(place, build, arch, *args):
    """The files of the model, with @args of mktiny."""
    def tool(name, *args):
        subprocess.run([build / "tests" / "support" / name, *map(str, args)], check=True)
    (place / "template").write_text(TEMPLATE)
    tool("mktiny", "--seed", 7, "--arch", arch, "--pooling", 3, "--dim", DIM, "--ctx", 1024, "--fim", "texts",
         "--template", place / "template", *args, "-o", place / "m.gguf")
    tool("mktiny", "--seed", 7, "--arch", "qwen3", "--layers", 1, "--dim", DIM, "--ctx", 1024, "--fim", "texts", "-o", place / "draft.gguf")
    for i, name in enumerate(("one", "two")):
        tool("mklora", "--seed", i + 1, "--size", 2, "-o", place / f"{name}.gguf", place / "m.gguf")
    Encoder("mlp", out=DIM).write(place / "mmproj.gguf")


class Daemon:
    def __init__(self, place, name, build, *args, preload=None, device="cpu"):
        self.home, self.socket, self.log = place / name, place / f"{name}.sock", place / f"{name}.log"
        self.home.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_")) or k == "HOB_FAKE_CUDA"}  # of fake-cuda.c
        self.conf = place / f"{name}-config" / "hob" / "hobd.conf"  # not on the disk that is full at times
        self.conf.parent.mkdir(parents=True)
        env.update({f"XDG_{k}_HOME": str(self.home / k.lower()) for k in ("STATE", "CACHE", "DATA")}, XDG_CONFIG_HOME=str(self.conf.parents[1]))
        if preload:
            env["LD_PRELOAD"] = str(preload)
        out = open(self.log, "wb")
        files = ["-m", place / "m.gguf", "--mmproj", place / "mmproj.gguf", *(f"--adapter={n}={place / n}.gguf" for n in ("one", "two"))]
        self.p = subprocess.Popen([build / "daemon" / "hobd", "serve", "--socket", self.socket, *files, "--ctx", str(CTX), "--threads", "1",
                                   "--device", device, "--gateways", str(GATEWAY), *args], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  preexec_fn=end_with_parent)
        out.close()

    def wait_ready(self, seconds=120):
        until = time.monotonic() + seconds
        while self.status().get("state") != "ready":
            assert self.p.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)
        self.socket.chmod(0o666)

    def status(self):
        try:
            with Client(self.socket, 30) as c:
                return json.loads(c.ask("status")["status"])
        except (OSError, Closed, AssertionError):
            return {}

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(60)
        except subprocess.TimeoutExpired:
            self.p.kill()
            return self.p.wait()


def files_of(path):
    """Number and bytes of the files below it."""
    n = size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                n, size = n + 1, size + os.stat(os.path.join(folder, name)).st_blocks * 512
    return n, size


def sample(d):
    """What the daemon holds now."""
    proc = Path(f"/proc/{d.p.pid}")
    fields = {k: int(v.split()[0]) for k, v in (x.split(":", 1) for x in (proc / "status").read_text().splitlines())
              if k in ("VmRSS", "RssAnon", "VmSize", "VmData", "Threads")}
    pss = next(int(x.split()[1]) for x in (proc / "smaps_rollup").read_text().splitlines() if x.startswith("Pss:"))
    s = d.status()
    cache_n, cache_bytes = files_of(d.home / "cache")
    state_n, state_bytes = files_of(d.home / "state")
    cache, speculation = s.get("cache", {}), s.get("speculation", {})
    return {"rss": fields["VmRSS"], "anon": fields["RssAnon"], "pss": pss, "vm": fields["VmSize"], "threads": fields["Threads"], "fds": len(os.listdir(proc / "fd")),
            "cache_files": cache_n, "cache_bytes": cache_bytes, "state_files": state_n, "state_bytes": state_bytes,
            **{k: s.get(k) for k in ("isa", "sessions", "requests", "preemptions")},
            **{k: cache.get(k) for k in ("evictions", "blocks_host", "states_memory", "states_host", "states_disk", "disk_written", "disk_read", "disk_damaged")},
            **{k: speculation.get(k) for k in ("drafted", "accepted")}}


def children(pid):
    """Of all threads of a process."""
    return [int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()]


class Faults(threading.Thread):
    """One after the other, chosen by a seed."""

    def __init__(self, d, seed, users, without=()):
        super().__init__(daemon=True)
        self.d, self.r, self.users, self.stopped, self.done = d, random.Random(seed), users, threading.Event(), collections.Counter()
        kinds = [self.damage, self.damage, self.shorten, self.remove, self.fill, self.descriptors, self.memory, self.halt, self.kill_decoder]
        self.kinds = [f for f in kinds if f.__name__ not in without]

    def run(self):
        while not self.stopped.wait(self.r.uniform(1, 5)):
            f = self.r.choice(self.kinds)
            with contextlib.suppress(OSError, ProcessLookupError):
                if f() is not False:
                    self.done[f.__name__] += 1

    def file(self):
        found = sorted((self.d.home / "cache").rglob("*.kv")) + sorted((self.d.home / "cache").rglob("*.media"))
        return self.r.choice(found) if found else None

    def damage(self):
        path = self.file()
        if not path:
            return False
        with open(path, "r+b") as f:
            at = self.r.randrange(path.stat().st_size)
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1 << self.r.randrange(8)]))

    def shorten(self):
        path = self.file()
        return bool(path) and os.truncate(path, self.r.randrange(path.stat().st_size))

    def remove(self):
        path = self.file()
        return bool(path) and path.unlink()

    def fill(self):
        """The disk is full for a moment."""
        path = self.d.home / "filler"
        try:
            with open(path, "wb") as f:
                while True:
                    f.write(bytes(1 << 20))
        except OSError:
            time.sleep(0.3)
        finally:
            path.unlink(missing_ok=True)

    def limited(self, which, value, seconds):
        old = resource.prlimit(self.d.p.pid, which)
        resource.prlimit(self.d.p.pid, which, (value, old[1]))
        try:
            time.sleep(seconds)
        finally:
            resource.prlimit(self.d.p.pid, which, old)

    def descriptors(self):
        self.limited(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{self.d.p.pid}/fd")) + self.r.randrange(3), 0.3)

    def memory(self):
        size = int(Path(f"/proc/{self.d.p.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        self.limited(resource.RLIMIT_AS, size + self.r.randrange(1 << 20), 0.3)

    def halt(self):
        p = self.r.choice(self.users)
        os.kill(p.pid, signal.SIGSTOP)
        try:
            time.sleep(self.r.uniform(0.2, 2.5))
        finally:
            os.kill(p.pid, signal.SIGCONT)

    def kill_decoder(self):
        """The process that decodes one file. (Those that start it are not started again: the sandbox forbids it.)"""
        found = [p for helper in children(self.d.p.pid) for p in children(helper)]
        return bool(found) and os.kill(self.r.choice(found), signal.SIGKILL)

    def end(self):
        self.stopped.set()
        self.join(20)


def reload(d, k):
    new = d.conf.with_suffix(".new")
    new.write_text(CONF[k % len(CONF)])
    new.rename(d.conf)
    d.p.send_signal(signal.SIGHUP)


def left_out(o):
    return NOT_ON_A_DEVICE if o.device != "cpu" else {}


def soak(o, place):
    """The samples, what the users have counted, the faults, and the status of the daemon."""
    host = [] if o.device == "cpu" else ["--kv-host-bytes", HOST]
    d = Daemon(place, "home", o.build, *host, "--draft", place / "draft.gguf", "--parallel", "6", "--kv-bytes", "1536K", "--cache-bytes", "3M",
               "--batch-tokens", "64", "--media-cache", "64K", "--vector-cache", "64K", "--client-bytes", "64M", "--session-bytes", "4M",
               "--idle-exit", "0", preload=o.preload, device=o.device)
    users, samples, faults = [], [], None
    try:
        d.wait_ready()
        samples.append({"t": 0, **sample(d)})
        began = time.monotonic()
        until = began + o.minutes * 60
        fork = multiprocessing.get_context("fork")
        for i in range(4):
            names = [None] if FIRST + i != GATEWAY else [f"u{k}" for k in range(3)]
            users.append(fork.Process(target=live, args=(FIRST + i, d.socket, o.threads, names, o.seed, o.few, until, place / f"user{i}"), daemon=True))
            users[-1].start()
        if o.faults:
            for name, why in left_out(o).items():
                print(f"left out on {o.device}: the fault {name}: {why}")
            faults = Faults(d, o.seed, users, left_out(o))
            faults.start()
        k = 0
        while time.monotonic() < until and d.p.poll() is None:
            time.sleep(SECONDS)
            samples.append({"t": round(time.monotonic() - began, 2), **sample(d)})
            if k % 4 == 3:
                reload(d, k // 4)
            k += 1
        if faults:
            faults.end()
        for u in users:
            u.join(120)
    finally:
        alive = d.p.poll() is None
        code = d.stop()
        for u in users:
            u.kill()
    return samples, [pickle.loads((place / f"user{i}").read_bytes()) for i in range(4)], dict(faults.done) if faults else {}, alive and code == 0, d.log


class Replay:
    """Each distinct request, on a daemon that finds nothing in a cache: each has a salt of its own."""

    def __init__(self, o, place, keys):
        self.d = Daemon(place, "replay", o.build, "--cache-bytes", "0", "--vector-cache", "0", "--speculate", "off", "--parallel", str(REPLAYERS),
                        "--session-count", "10000")
        self.lock, self.got, self.failed = threading.Lock(), {}, []
        last = {}
        for kind, number in keys:
            if kind == "turn":
                last[number[0]] = max(last.get(number[0], 0), number[1])
        self.work = [("turn", c, n) for c, n in last.items()] + [k for k in keys if k[0] != "turn"]

    def ask(self, c, key, **more):
        kind, keys = subject(*key)
        salt = {} if kind in ("tokenize", "detokenize") else {"salt": repr(key)}
        i = c.request(kind, **keys, **salt, **more)
        events = []
        while not events or events[-1]["event"] not in LASTS or events[-1].get("more"):
            e = c.recv()
            if e.get("id") == i:
                events.append(e)
        d = digest(events)
        with self.lock:
            self.got[key] = d
            if d is None:
                self.failed.append((key, events[-1]))

    def run(self):
        with Client(self.d.socket, 300) as c:
            while True:
                with self.lock:
                    if not self.work:
                        return
                    key = self.work.pop()
                if key[0] == "turn":
                    for k in range(key[2] + 1):
                        self.ask(c, ("turn", (key[1], k)), session=f"c{key[1]}")
                else:
                    self.ask(c, key)

    def all(self):
        try:
            self.d.wait_ready()
            crowd = [threading.Thread(target=self.run) for _ in range(REPLAYERS)]
            for t in crowd:
                t.start()
            for t in crowd:
                t.join()
        finally:
            self.d.stop()
        return self.got


def growth(samples, warm, minutes):
    """For each value: its median after warm-up and at the end, each over a tenth of the time, and the largest of both."""
    span = max(10, minutes * 6)
    end = samples[-1]["t"]
    first = [s for s in samples if warm * 60 <= s["t"] < warm * 60 + span] or samples[-1:]
    last = [s for s in samples if s["t"] >= end - span]
    out = {}
    for key in ("rss", "pss", "anon", "vm", "fds", "threads", "cache_files", "cache_bytes", "state_files", "state_bytes", "sessions"):
        a, b = ([s[key] for s in part if s[key] is not None] for part in (first, last))
        out[key] = (statistics.median(a), statistics.median(b), max(a), max(b))
    return out


def report(o, samples, users, faults, whole, log):
    """Prints; whether all is well, but for the replay, and figures."""
    ends = collections.Counter()
    examples = {}
    for e, _, _, x, _ in users:
        ends.update(e)
        examples.update(x)
    wrong = [w for u in users for w in u[2]]
    where = list(dict.fromkeys(s["isa"] for s in samples if s["isa"]))
    print("computed with:", ", then ".join(where))
    print(f"requests (the daemon's count): {samples[-1]['requests']}; operations of the users: {sum(ends.values())}; answers compared: {sum(u[4] for u in users)}")
    kinds = sorted({k for k, _ in ends})
    for kind in kinds:
        print(f"  {kind}: " + ", ".join(f"{how} {n}" for (k, how), n in sorted(ends.items()) if k == kind))
    for (kind, how), message in sorted(examples.items()):
        print(f"  e.g. {kind} {how}: {message}")
    last = samples[-1]
    print("faults:", ", ".join(f"{k} {n}" for k, n in sorted(faults.items())) or "none")
    counted = ("evictions", "blocks_host", "states_memory", "states_host", "states_disk", "preemptions", "disk_written", "disk_read", "disk_damaged", "drafted", "accepted")
    print("daemon:", ", ".join(f"{k} {last[k]}" for k in counted if last[k] is not None))
    print("minute: resident KiB (anonymous), descriptors, files, sessions")
    for k in range(0, len(samples), max(1, len(samples) // 24)):
        x = samples[k]
        print(f"  {x['t'] / 60:.1f}: {x['rss']} ({x['anon']}), {x['fds']}, {x['cache_files'] + x['state_files']}, {x['sessions']}")
    print("| | after warm-up | at the end | ratio | largest then | largest at the end |\n|---|---|---|---|---|---|")
    grown = growth(samples, o.warm, o.minutes)
    for key, (a, b, most_a, most_b) in grown.items():
        print(f"| {key} | {a:g} | {b:g} | {b / a if a else 0:.4f} | {most_a:g} | {most_b:g} |")
    print("ended well:", whole, "; wrong:", wrong[:10])
    if not whole or len(where) > 1:
        print(log.read_text(errors="replace")[-3000:])
    flat = o.any_growth or grown["rss"][1] <= GROWTH * grown["rss"][0]
    figures = {"isa": where, "requests": last["requests"], "compared": sum(u[4] for u in users), "grown": grown, "faults": faults,
               **{k: last[k] for k in ("evictions", "preemptions", "drafted", "accepted")}}
    return whole and not wrong and flat and len(where) == 1 and ends["threads", "hang"] == 0, figures


def compare(o, place, users):
    keys = sorted({k for u in users for k in u[1]}, key=repr)
    replay = Replay(o, place, keys)
    got = replay.all()
    other = [k for k in keys for u in users if k in u[1] and u[1][k] != got.get(k)]
    kinds = {k[0] for k in keys}
    never = sorted({*NUMBERS, "turn"} - kinds)
    if never:
        print("without any answer:", ", ".join(never))
    print(f"replay: {len(keys)} distinct requests of {len(kinds)} kinds, {len(other)} with another answer, {len(replay.failed)} failed")
    for k in other[:10]:
        print("  other:", k)
    for k, e in replay.failed[:10]:
        print("  failed:", k, e)
    return not other and not replay.failed and (o.few or not never), {"distinct": len(keys), "kinds": sorted(kinds), "other": len(other), "failed": len(replay.failed)}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=24)
    p.add_argument("--warm", type=float, default=8)
    p.add_argument("--threads", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cpu")
    p.add_argument("--arch", default="qwen3")
    p.add_argument("--no-faults", dest="faults", action="store_false")
    p.add_argument("--few", action="store_true")
    p.add_argument("--any-growth", action="store_true")
    p.add_argument("--json")
    p.add_argument("--preload", type=Path)
    p.add_argument("--build", type=lambda x: Path(x).resolve(), default=TOP / "build")
    return p.parse_args()


def main():
    o = options()
    assert os.geteuid() == 0, "users are made with setuid, which takes root"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = Path(tempfile.mkdtemp(prefix="hob-soak-"))
    place.chmod(0o755)
    (place / "home").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "hob-soak", place / "home"], check=False).returncode == 0
    try:
        make(place, o.build, o.arch)
        samples, users, faults, whole, log = soak(o, place)
        well, figures = report(o, samples, users, faults, whole, log)
        same, more = compare(o, place, users)
        if o.json == "-":
            print(json.dumps({**figures, **more}))
        elif o.json:
            Path(o.json).write_text(json.dumps({**figures, **more, "samples": samples}))
    finally:
        if mounted:
            subprocess.run(["umount", "-l", place / "home"], check=False)
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(not (well and same))


if __name__ == "__main__":
    main()
