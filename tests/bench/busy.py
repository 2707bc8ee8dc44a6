#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is left of the speed when another process wants one of the CPUs: one JSON object. Each side runs quiet, then
beside a process that never sleeps, bound to one CPU.
usage: busy.py [-t THREADS] [-c CPU] [-r ROUNDS] [--peer PEERDIR] MODEL
  -t       threads of both sides (the CPUs that are online);  -c  the other process's CPU (1)
  -r       rounds (3); medians are printed
  --peer   also runs llama-bench; PEERDIR as for table.py, MODEL then is a name in PEERDIR/models
  HOBD     in the environment: the hobd to run (default: build/daemon/hobd)
left: the part of the CPUs' time that the other process did not use. kept: busy / quiet. ratio: kept / left.
foreign: CPUs' worth of work by everyone else; the figures mean nothing if it is more than a few hundredths."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HOBD = os.environ.get("HOBD", Path(__file__).resolve().parents[2] / "build" / "daemon" / "hobd")
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """What its threads, dead or alive, have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy_seconds():
    v = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICKS  # not idle, not waiting for disks


def watch(command, other):
    """The output of COMMAND; its CPU time and that of others, in CPUs, over the second half of its time (loading is
    behind it then)."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seen = []
    while p.poll() is None:
        try:
            seen.append((time.monotonic(), cpu_seconds(p.pid), cpu_seconds(other) if other else 0, busy_seconds()))
        except OSError:
            break
        time.sleep(0.02)
    out = p.stdout.read()
    if p.wait() or len(seen) < 4:
        sys.exit(f"busy: {command[0]}: no result")
    first, last = seen[len(seen) // 2], seen[-2]
    own, theirs, everyone = ((b - a) / (last[0] - first[0]) for a, b in zip(first[1:], last[1:]))
    return out, own, theirs, max(0, everyone - own - theirs)


def hob(args, work):
    tokens = {"prefill": ["-p", "512", "-n", "1", "-r", "9"], "decode": ["-p", "1", "-n", "256", "-r", "5"]}[work]
    command = [HOBD, "bench", "-m", args.model, "-t", str(args.threads), "-b", "1", "--json", *tokens]

    def speed(out):
        j = json.loads(out)
        return j["prefill"]["tok_s"] if work == "prefill" else j["decode"][0]["tok_s"]
    return command, speed


def llama(args, work):
    tokens = {"prefill": ["-p", "512", "-n", "0", "-r", "9"], "decode": ["-p", "0", "-n", "256", "-r", "5"]}[work]
    command = [f"{args.peer}/run", "llama-bench", "-m", f"/models/{args.model}", "-t", str(args.threads), "-o", "json",
               *tokens]
    return command, lambda out: json.loads(out)[0]["avg_ts"]


def measure(args, side, work):
    command, speed = side(args, work)
    rounds = []
    for _ in range(args.rounds):
        out, _, _, foreign_quiet = watch(command, None)
        quiet = speed(out)
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                 preexec_fn=lambda: os.sched_setaffinity(0, {args.cpu}))
        try:
            out, own, theirs, foreign = watch(command, other.pid)
        finally:
            other.kill()
            other.wait()
        busy, left = speed(out), 1 - theirs / os.cpu_count()
        rounds.append({"quiet": quiet, "busy": busy, "cpus_used": own, "left": left, "kept": busy / quiet,
                       "ratio": busy / quiet / left, "foreign": max(foreign, foreign_quiet)})
    return {k: round(statistics.median(r[k] for r in rounds), 3) for k in rounds[0]}


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("-c", "--cpu", type=int, default=1)
    p.add_argument("-r", "--rounds", type=int, default=3)
    p.add_argument("--peer")
    p.add_argument("model")
    args = p.parse_args()
    result = {}
    if args.peer:
        result["llama.cpp"] = {w: measure(args, llama, w) for w in ("prefill", "decode")}
        args.model = f"{args.peer}/models/{args.model}"
    result["hob"] = {w: measure(args, hob, w) for w in ("prefill", "decode")}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
