# SPDX-License-Identifier: MIT
"""Fail each call of the C library that hobd and its clients make, once at each site, and see what they do.

usage: sweep.py [--seconds N] [--depth N] [--effect once|from] [--part K/N] [--keep DIR] [SCENARIO…]

tests/faults.sh builds what this needs. A site is a function and the path to its call: the return addresses up to
--depth functions of the program itself (default 3). A scenario is repeated; each time the first call fails whose site
did not fail yet, until none is left. With --effect from, all later calls that need the same (memory, descriptors, disk,
network) fail too, until the step ends. With --part K/N only the sites of one of N parts fail, so that N processes can
share the work. After each fault the program must work, or refuse with a message and an exit status, and without faults
it must then have every turn that it acknowledged, once. HOB_BUILD names the build.
"""
import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "e2e")]
from conftest import BUILD, HOB, HOBD, mktiny  # noqa: E402
from control import FROM, ONCE, Control, Symbols  # noqa: E402
from scenarios import SCENARIOS, Findings  # noqa: E402

PROGRAMS = [HOBD, HOB] + [BUILD / "client" / n for n in ("hob-log", "hob-http", "hob-models", "hob-find", "hob-chat")]


def limits():
    """A program that asks for more than this in a loop fails instead of filling the machine."""
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def report(control, title, symbols, verbose):
    reached, tried, calls = Counter(), Counter(), Counter()
    for h, function, n, t, frames in control.sites():
        reached[function] += 1
        tried[function] += t > 0
        calls[function] += n
        if verbose:
            print(f"  {n:6} {t} {symbols.path((h, function, n, t, frames))}")
    print(f"{title}: {control.failed} faults, {sum(tried.values())} of {sum(reached.values())} sites failed, "
          f"{sum(calls.values())} calls while armed" + (f", {control.lost} sites not counted" if control.lost else ""))
    print("  " + ", ".join(f"{f} {tried[f]}/{n}" for f, n in reached.most_common()))


def part_of(text):
    """(0, 8) of "1/8"."""
    k, n = map(int, text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k - 1, n


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--effect", choices=("once", "from"), default="once")
    p.add_argument("--part", type=part_of, default=(0, 0), metavar="K/N")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--keep")
    p.add_argument("scenarios", nargs="*")
    a = p.parse_args()
    limits()
    deadline = time.monotonic() + a.seconds
    effect = FROM if a.effect == "from" else ONCE
    symbols, found = Symbols(PROGRAMS), Findings()
    with contextlib.ExitStack() as stack:
        root = Path(a.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="hob-faults-")))
        root.mkdir(exist_ok=True)
        model = mktiny(root / "tiny.gguf", "--seed", 7, "--layers", 1)
        controls = {}
        for name, (program, scenario) in SCENARIOS.items():
            if a.scenarios and name not in a.scenarios:
                continue
            if program not in controls:
                controls[program] = Control(root / f"{program}.faults", a.depth, a.part)
                if effect == FROM:  # without accept4() or epoll_wait() nobody can be answered
                    controls[program].only("memory", "descriptors", "disk", "locks", "processes", without="accept4")
            c, begun = controls[program], time.monotonic()
            c.disarm()
            failed, sites, before = c.failed, sum(1 for s in c.sites() if s[3]), len(found)
            folder = root / name
            folder.mkdir()
            whole = scenario(folder, model, c, effect, found.of(name, c, symbols), deadline)
            print(f"{name}: {c.failed - failed} faults at {sum(1 for s in c.sites() if s[3]) - sites} new sites, "
                  f"{len(found) - before} findings, {time.monotonic() - begun:.0f} s" + ("" if whole else ", not finished"), flush=True)
        for program, c in controls.items():
            report(c, program, symbols, a.verbose)
    print(f"{len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    os.environ.setdefault("ASAN_OPTIONS", "verify_asan_link_order=0:halt_on_error=1:exitcode=99:detect_stack_use_after_return=0")
    sys.exit(main())
