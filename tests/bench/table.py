#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print the first table of packaging/doc/speed.md for this machine as Markdown: hobd, a table of its speed by threads, and llama.cpp beside it.

Both programs read the same files with the same number of threads and run in turn; the values are medians of the rounds.
The peer is optional. Its llama-batched-bench is looked for beside its llama-bench.

    table.py default                                       # hobd alone, the installed default model
    table.py --peer /usr/bin/llama-bench x.gguf y.gguf
    table.py --peer "PEERDIR/run llama-bench" --peer-models /models PEERDIR/models/x.gguf

PEERDIR is a folder with "run", a program that runs its arguments where llama.cpp is installed, and "models", which is
/models there. For Debian's llama.cpp in a chroot (as root):
    debootstrap --variant=minbase sid PEERDIR/root
    chroot PEERDIR/root apt-get install llama.cpp-tools llama.cpp-tools-extra
    mkdir -p PEERDIR/models PEERDIR/root/models && mount --bind PEERDIR/models PEERDIR/root/models
    mount -t proc proc PEERDIR/root/proc
    printf '#!/bin/sh\\nexec chroot "%s" "$@"\\n' PEERDIR/root >PEERDIR/run && chmod +x PEERDIR/run
"""
import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BATCH = 16


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL", help="path of a .gguf file; without --peer also a model's name")
    p.add_argument("--hobd", default=TOP / "build" / "daemon" / "hobd", type=Path, help="default: build/daemon/hobd")
    p.add_argument("--peer", type=shlex.split, metavar="COMMAND", help="runs llama-bench")
    p.add_argument("--peer-models", metavar="DIR", help="where the peer finds the files (default: the same paths)")
    p.add_argument("-r", "--rounds", type=int, default=3, help="default: 3")
    p.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the table (default: all CPUs)")
    p.add_argument("--scaling", metavar="LIST", help="thread counts, such as 1,2,4 (default: powers of two and --threads)")
    p.add_argument("-p", "--prefill", type=int, default=512, metavar="N", help="prompt tokens (default: 512)")
    p.add_argument("-n", "--decode", type=int, default=32, metavar="N", help="steps of a decode (default: 32)")
    p.add_argument("--depth", type=int, metavar="N", help="also prefill N tokens, and decode behind them")
    p.add_argument("--no-scaling", action="store_true", help="print no table of the speed by threads")
    o = p.parse_args()
    if o.rounds < 1 or o.threads < 1:
        p.error("rounds and threads are at least 1")
    if not os.access(o.hobd, os.X_OK):
        p.error(f"no {o.hobd}: build first, or give --hobd")
    for m in o.models if o.peer else []:
        if not Path(m).is_file():
            p.error(f"no file {m}: the peer needs paths")
    return o


def run(argv):
    """Standard output, or None and a line on standard error: the other measurements continue."""
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if r.returncode == 0:
        return r.stdout
    print(f"table: {shlex.join(map(str, argv))}: {(r.stderr.strip() or 'failed').splitlines()[-1]}", file=sys.stderr)
    return None


def lines(text):
    return [json.loads(line) for line in (text or "").splitlines() if line.startswith("{")]


class Table:
    def __init__(self, o):
        self.o = o
        self.values = {}  # (model, work) -> side -> values; the order is that of the table
        self.machine = {"cpu": "?", "isa": "?", "read_gbps": 0, "int8_gops": 0}

    def add(self, model, work, side, value):
        self.values.setdefault((model, work), {"hob": [], "peer": []})[side].append(value)

    def bench(self, model, threads, prefill, depth, batches, repeat=1):
        out = run([self.o.hobd, "bench", "-m", model, "-t", threads, "-p", prefill, "-n", self.o.decode, "--depth", depth,
                   "-b", batches, "-r", repeat, "--json"])
        return json.loads(out) if out else None

    def hob(self, model, prefill, depth, batches):
        b = self.bench(model, self.o.threads, prefill, depth, batches)
        if not b:
            return
        for key in ("read_gbps", "int8_gops"):
            self.machine[key] = max(self.machine[key], b[key])
        self.machine.update(cpu=b["cpu"], isa=b["isa"])
        self.add(model, f"prefill {prefill}", "hob", b["prefill"]["tok_s"])
        for d in b["decode"]:
            at = f" at depth {depth}" if depth else ""
            self.add(model, f"decode {d['batch']}{at}", "hob", d["tok_s"])

    def peer(self, model, prefill, depth, batches):
        o, path = self.o, model
        if o.peer_models:
            path = f"{o.peer_models}/{Path(model).name}"
        common = ["-m", path, "-t", o.threads]
        at = f" at depth {depth}" if depth else ""
        for work, args in ((f"prefill {prefill}", ["-p", prefill, "-n", 0]),
                           (f"decode 1{at}", ["-p", 0, "-n", o.decode, *(["-d", depth] if depth else [])])):
            for x in lines(run([*o.peer, *common, "-r", 1, "-o", "jsonl", *args])):
                self.add(model, work, "peer", x["avg_ts"])
        if str(BATCH) not in batches.split(","):
            return
        batched = [*o.peer[:-1], o.peer[-1].replace("llama-bench", "llama-batched-bench")]
        out = run([*batched, *common, "-c", BATCH * (o.decode + 1), "-npp", 1, "-ntg", o.decode, "-npl", BATCH,
                   "--output-format", "jsonl"])
        for x in lines(out):
            self.add(model, f"decode {BATCH}", "peer", x["speed_tg"])

    def measure(self):
        o = self.o
        works = [(o.prefill, 0, f"1,{BATCH}")] + ([(o.depth, o.depth, "1")] if o.depth else [])
        for i in range(o.rounds):
            for model in o.models:
                print(f"table: round {i + 1}, {model}", file=sys.stderr)
                for work in works:
                    self.hob(model, *work)
                    if o.peer:
                        self.peer(model, *work)

    def print(self):
        o, m = self.o, self.machine
        with_peer = "" if not o.peer else f" llama.cpp {peer_version(o)} ran in turn with hob."
        print(f"{m['cpu']}, {m['isa']}, {count(o.threads, 'thread')}, {datetime.date.today()}; "
              f"medians of {count(o.rounds, 'round')}.{with_peer} "
              f"This machine reads {m['read_gbps']:.1f} GB/s and does {m['int8_gops']:.0f} Gop/s of int8.\n")
        print("| model | tokens per second | hob |" + (" llama.cpp | ratio |" if o.peer else ""))
        print("|---|---|---|" + ("---|---|" if o.peer else ""))
        for (model, work), v in self.values.items():
            hob, peer = (statistics.median(v[s]) if v[s] else None for s in ("hob", "peer"))
            row = f"| {title(model)} | {work} | {cell(hob)} |"
            if o.peer:
                row += f" {cell(peer)} | {f'{hob / peer:.2f}' if hob and peer else '-'} |"
            print(row)

    def print_scaling(self):
        o = self.o
        threads = o.scaling or ",".join(str(n) for n in sorted({*(1 << k for k in range(11) if 1 << k < o.threads), o.threads}))
        for model in o.models:
            b = self.bench(model, threads, o.prefill, 0, f"1,{BATCH}", o.rounds)
            if not b:
                continue
            first = b["scaling"][0]
            print(f"\n{title(model)} by threads, tokens per second and share of linear scaling:\n")
            print(f"| threads | prefill {o.prefill} | decode 1 | decode {BATCH} | memory, GB/s | int8, Gop/s |\n|---|---|---|---|---|---|")
            for s in b["scaling"]:
                times = s["threads"] / first["threads"]
                speeds = [(s["prefill"], first["prefill"]), *zip(s["decode"], first["decode"])]
                shown = " | ".join(f"{cell(x['tok_s'])} ({100 * x['tok_s'] / y['tok_s'] / times:.0f}%)" for x, y in speeds)
                over = " (more than CPUs)" if s["oversubscribed"] else ""
                print(f"| {s['threads']}{over} | {shown} | {s['read_gbps']:.1f} | {s['int8_gops']:.0f} |")


def title(model):
    return Path(model).name.removesuffix(".gguf")


def count(n, noun):
    return f"{n} {noun}" + ("" if n == 1 else "s")


def cell(x):
    return "-" if x is None else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def peer_version(o):
    r = subprocess.run([*o.peer, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = [line.split("version:")[1].strip() for line in (r.stdout + r.stderr).splitlines() if "version:" in line]
    return found[0] if found else "of an unknown version"


def main():
    o = options()
    t = Table(o)
    t.measure()
    if not t.values:
        sys.exit("table: nothing was measured")
    t.print()
    if not o.no_scaling:
        t.print_scaling()


if __name__ == "__main__":
    main()
