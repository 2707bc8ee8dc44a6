#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What another user's attack costs a user of hobd: each attack against a daemon of its own, one table. Takes root.

usage: attack.py [--only WORD]… [--seconds N] [--hobd PATH] [--device DEVICE] [--nice N] [--json] MODEL
  --only WORD   only attacks whose name contains it; several words: any of them (--list shows the names)
  --seconds N   how long each attack lasts (default: 10, those of "mixed" 60); longer, at most three times as long,
                until the victim has 100 first tokens
  --hobd PATH   the daemon to run (default: build/daemon/hobd); the attackers are tests/e2e/attacker beside it
  --device D    where the daemon computes (default: cpu)
  --nice N      run the attackers with this niceness, so that they take no processor from the daemon
  --list        print the names of the attacks
  -v            also print the end of each daemon's log
  --json        an object of JSON for each attack instead of the table
  MODEL         a .gguf file

The victim is uid 61000, attackers are 61001 and up. The victim has the same load all the time: a stream of tokens that
begins again when it ends, a warm prompt of 300 words asked again and again for its first token, and twice a second a
new connection. It is measured alone (at least 5 seconds and 100 first tokens), then under attack; after the attackers
have gone, the daemon's memory is looked at for 5 seconds. A first token that has not come counts with the time that it
was waited for.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from attackers import FIRST, Attackers, Manager, Victim, as_user, end_with_parent, seed_sessions  # noqa: E402
from hobproto import Client, Closed  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
WATCHDOG_USEC = 6_000_000
ALONE, GONE, SAMPLES = 5, 5, 100
TICKS = os.sysconf("SC_CLK_TCK")


def small(kind, **more):
    """One user, 250 connections, 20 outstanding on each."""
    return {"crowd": [(FIRST, [(kind, 250, 20)])], **more}


def large(kind):
    """One user, 16 connections, 30 outstanding, on sessions of 4 MB."""
    return {"crowd": [(FIRST, [(kind, 16, 30)])], "big": 3_900_000}


def greedy(kind, connections, outstanding):
    return {"crowd": [(FIRST, [(kind, connections, outstanding)])]}


MIXED = [("fork", 5, 4), ("warm", 5, 4), ("detach", 5, 4), ("answers", 5, 2), ("prompt", 2, 1), ("half", 5, 1),
         ("deaf", 5, 1), ("churn", 5, 1)]
# name: crowd (uid, kinds with connections and outstanding); what the first of them has; seconds; megabytes of disk
ATTACKS = {
    "none": {"crowd": []},
    "small cancel": small("cancel"),
    "small status": small("status"),
    "small tokenize": small("tokenize"),
    "small malformed": small("malformed"),
    "small garbage": small("garbage"),
    "small hello": small("hello"),
    "small list 10000": small("list", forks=9990),
    "large list": large("list"),
    "large show": large("show"),
    "large fork": large("fork"),
    "large rename": large("rename"),
    "large remove": large("remove"),
    "mixed": {"crowd": [(FIRST + i, MIXED) for i in range(8)], "big": 400_000, "seconds": 60},
    "halves": {"crowd": [(FIRST + i, [("half", 8, 1)]) for i in range(5)]},
    "idle 4x256": {"crowd": [(FIRST + i, [("idle", 256, 0)]) for i in range(4)]},
    "disk sessions": {"crowd": [(FIRST, [("fork", 16, 30), ("seeds", 16, 30)])], "big": 100_000, "forks": 32,
                      "disk": 64},
    "disk cache": {"crowd": [(FIRST, [("warm", 16, 2)])], "disk": 64},
    # One user who takes as much of one resource as there is.
    "greedy connections": {"crowd": [(FIRST, [("idle", 1000, 0)])]},
    "greedy queue": greedy("queue", 64, 16),
    "greedy memory": greedy("pool", 32, 8),
    "greedy batch": greedy("batch", 64, 16),
    "greedy embeddings": greedy("embed", 32, 8),
    "greedy jobs": greedy("long text", 16, 8),
    "greedy sessions": greedy("turns", 64, 8),
    "greedy schemas": greedy("schema", 32, 8),
    "greedy expressions": greedy("regex", 32, 8),
    "greedy all": {"crowd": [(FIRST, [(k, 8, 8) for k in ("queue", "pool", "batch", "embed", "long text", "turns", "schema", "regex")])]},
}


class Daemon:
    def __init__(self, hobd, model, device, place, manager):
        self.root, self.socket, self.log = place, place / "sock", place / "log"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        env.update({f"XDG_{k}_HOME": str(place / "home" / k.lower()) for k in ("STATE", "CACHE", "DATA", "CONFIG")},
                   **manager.env)
        out = open(self.log, "wb")
        self.p = subprocess.Popen(["/bin/sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", str(hobd), "serve", "-m",
                                   str(model), "--device", device, "--socket", str(self.socket)], env=env, stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=out, preexec_fn=end_with_parent)
        out.close()
        self.peak, self.stopped = 0, threading.Event()

    def wait_ready(self, seconds=60):
        until = time.monotonic() + seconds
        while self.status().get("state") != "ready":
            assert self.p.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)
        self.socket.chmod(0o666)
        threading.Thread(target=self.watch, daemon=True).start()

    def status(self):
        try:
            with Client(self.socket, 30) as c:
                return json.loads(c.ask("status")["status"])
        except (OSError, Closed, AssertionError):
            return {}

    def rss(self):
        """Bytes; 0 when it has ended."""
        try:
            text = Path(f"/proc/{self.p.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(x.split()[1]) << 10 for x in text.splitlines() if x.startswith("VmRSS")), 0)

    def cpu(self):
        """Seconds of all threads, and of the one that serves the sockets."""
        def of(path):
            f = Path(path).read_text().rsplit(")", 1)[1].split()
            return (int(f[11]) + int(f[12])) / TICKS
        try:
            return of(f"/proc/{self.p.pid}/stat"), of(f"/proc/{self.p.pid}/task/{self.p.pid}/stat")
        except OSError:
            return float("nan"), float("nan")

    def watch(self):
        while not self.stopped.wait(0.05):
            self.peak = max(self.peak, self.rss())

    def stop(self):
        self.stopped.set()
        self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(15)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()


def honest(path, log):
    """The attacker's own request among the others."""
    began = time.monotonic()
    try:
        with Client(path, None) as c:
            a = c.answer("An honest question. ", raw=True, max_tokens=1, temperature=0.0, ignore_eos=True)
            said = a.end["event"] if a.end["event"] == "done" else a.end["code"]
    except (OSError, Closed, AssertionError) as e:
        said = type(e).__name__
    Path(log).write_text(f"{said} {time.monotonic() - began:.3f}")


class Place:
    """A folder for one attack, on a small disk of its own if @disk megabytes are given."""

    def __init__(self, disk):
        self.path, self.disk = Path(tempfile.mkdtemp(prefix="hob-attack-")), disk
        self.path.chmod(0o755)
        (self.path / "home").mkdir()
        if disk:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={disk}m", "hob-attack", self.path / "home"]
            subprocess.run(mount, check=True)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if self.disk:
            subprocess.run(["umount", self.path / "home"], check=False)
        shutil.rmtree(self.path, ignore_errors=True)


def under_attack(o, what, d, crowd, victim):
    """Start the attackers and wait: start, end, what the attackers counted, the daemon's CPU, the honest answer."""
    seconds = o.seconds or what.get("seconds", 10)
    log = d.root / "honest"
    log.touch()
    log.chmod(0o666)
    for uid, kinds in what["crowd"]:
        crowd.start(uid, *kinds)
    ready = crowd.wait_ready(min(seconds, 10))
    start, before = time.monotonic(), d.cpu()
    time.sleep(0.5)
    asks = as_user(FIRST, honest, d.socket, log)
    time.sleep(seconds - 0.5)
    victim.wait_probes(SAMPLES, start, start + 3 * seconds)
    end, after = time.monotonic(), d.cpu()
    asks.kill()
    asks.join()
    counts = {**crowd.stop(), "ready": ready}
    return start, end, counts, [b - a for a, b in zip(before, after)], log.read_text() or f"none {end - start:.0f}"


def run(o, name, what):
    with Place(what.get("disk")) as place:
        manager = Manager(place, WATCHDOG_USEC)
        d = Daemon(o.hobd, o.model, o.device, place, manager)
        attackers = Attackers(o.hobd.parents[1] / "tests" / "e2e" / "attacker", d.socket, place, nice=o.nice)
        victim = None
        try:
            d.wait_ready()
            if what.get("big") or what.get("forks"):
                seed_sessions(d.socket, FIRST, what.get("big", 0), what.get("forks", 0))
            victim = Victim(d.socket, place, turns="disk" in what)
            victim.wait_probes(3, 0, time.monotonic() + 30)
            began, status = time.monotonic(), d.status()
            time.sleep(ALONE)
            victim.wait_probes(SAMPLES, began, began + 6 * ALONE)
            r = {"attack": name, "alone": victim.result(began, time.monotonic()), "rss_start": d.rss(),
                 "cache_start": status.get("cache", {}).get("bytes_memory")}
            d.peak = 0
            start, end, r["attackers"], cpu, r["honest"] = under_attack(o, what, d, attackers, victim)
            r["cpu"], r["cpu_io"] = cpu
            r["under"], r["seconds"] = victim.result(start, end), end - start
            r["watchdog"], disk = manager.largest(start, end), os.statvfs(place / "home")
            r["disk_free"] = disk.f_bavail * disk.f_frsize
            time.sleep(GONE)
            now = time.monotonic()
            r.update(rss_peak=d.peak, rss_after=d.rss(), gone=victim.result(end + 1, now), alive=d.p.poll() is None,
                     cache_after=d.status().get("cache", {}).get("bytes_memory"))
            return r
        finally:
            if victim:
                victim.stop()
            attackers.stop()
            d.stop()
            manager.close()
            if o.verbose:
                sys.stderr.write(d.log.read_text(errors="replace")[-3000:])


def ms(x):
    return f"{1000 * x:.3g}"


def mib(x):
    return "?" if x is None else f"{x / (1 << 20):.0f}"


COLUMNS = ["attack", "first token ms, p50", "p99", "stream: gap ms, median (mean)", "largest (by the median alone)",
           "new connection ms, largest", "watchdog s", "RSS MiB (cache)", "attackers: answers, errors, ends",
           "honest one: s", "CPU s: hobd (io), attackers"]


def pair(a, b, more=""):
    return f"{ms(a)} → {ms(b)}{more}"


def memory(r):
    return (f"{mib(r['rss_start'])} ({mib(r['cache_start'])}) → {mib(r['rss_peak'])} → "
            f"{mib(r['rss_after'])} ({mib(r['cache_after'])})")


def cells(r):
    a, u, c = r["alone"], r["under"], r["attackers"]
    more = 1000 * (u["p50"] - a["p50"])
    refused = f", {u['refused']} of {u['new_n']} failed" if u["refused"] else ""
    free = f" ({mib(r['disk_free'])} MiB left)" if r["attack"].startswith("disk") else ""
    return [r["attack"] + free + ("" if r["alive"] else " (hobd ended)"),
            pair(a["p50"], u["p50"], f" (×{u['p50'] / a['p50']:.2f}, {more:+.3g}; n={u['samples']})"),
            pair(a["p99"], u["p99"], f" (×{u['p99'] / a['p99']:.2f})"),
            f"{ms(a['gap'])} ({ms(a['gap_mean'])}) → {ms(u['gap'])} ({ms(u['gap_mean'])})",
            " → ".join(f"{ms(x['gap_max'])} (×{x['gap_max'] / a['gap']:.1f})" for x in (a, u)),
            pair(a["new_max"], u["new_max"], refused), f"{r['watchdog']:.2f}", memory(r),
            f"{c.get('answers', 0)}, {c.get('errors', 0)}, {c.get('ended', 0)}", r["honest"],
            f"{r['cpu']:.1f} ({r['cpu_io']:.1f}), {c.get('cpu_s', 0)} in {r['seconds']:.0f}"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--seconds", type=float)
    p.add_argument("--hobd", type=lambda x: Path(x).resolve(), default=TOP / "build" / "daemon" / "hobd")
    p.add_argument("--device", default="cpu")
    p.add_argument("--nice", type=int, default=0)
    p.add_argument("--json", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true")
    p.add_argument("model", type=lambda x: Path(x).resolve(), nargs="?")
    o = p.parse_args()
    if o.list or not o.model:
        print("\n".join(ATTACKS))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and what is mounted and made goes
    assert os.geteuid() == 0, "users are made with setuid, which takes root"
    if not o.json:
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name, what in ATTACKS.items():
        if o.only and not any(w in name for w in o.only):
            continue
        r = run(o, name, what)
        print(json.dumps(r) if o.json else f"| {' | '.join(cells(r))} |", flush=True)


if __name__ == "__main__":
    main()
