#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The decode speed of answers with a JSON Schema, by that of free answers with as many tokens: a line of JSON for each
schema and number of answers at a time.
usage: constrained.py [-t THREADS] [-n TOKENS] [-r ROUNDS] [--schema NAME] [--at-once N[,N...]] MODEL
  -n    most tokens of an answer (192);  -r  rounds (5): each asks with the schema and then without
  HOBD  in the environment: the hobd to run (default: build/daemon/hobd)
with_ms, free_ms: milliseconds of decoding for a token, of all answers on average; medians of the rounds.
speed: the median of free / with of the rounds; low, high: the least and the most. Forced tokens count as tokens."""
import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from hobproto import Client  # noqa: E402

HOBD = os.environ.get("HOBD", Path(__file__).resolve().parents[2] / "build" / "daemon" / "hobd")
TEXT = {"type": "string", "maxLength": 40}
SCHEMAS = {
    "records": {"type": "array", "items": {
        "type": "object", "required": ["name", "category", "price", "available"], "additionalProperties": False,
        "properties": {"name": TEXT, "category": {"enum": ["tool", "food", "clothing", "furniture"]},
                       "price": {"type": "number", "minimum": 0}, "available": {"type": "boolean"}}}},
    "text": {"type": "object", "required": ["story"], "additionalProperties": False,
             "properties": {"story": {"type": "string"}}},
}
TASKS = {"records": "List many articles of a general store as JSON, with name, category, price and availability. Store ",
         "text": "Tell a long story of a village as JSON. Village "}


def schema(name, tokens):
    """With limits that make most answers take all of their tokens, but keep the shortest answer well below them."""
    s = copy.deepcopy(SCHEMAS[name])
    if name == "records":
        s["minItems"] = tokens // 32
    else:
        s["properties"]["story"]["minLength"] = tokens * 5 // 2
    return s


def start(model, threads, at_once, root):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
    env.update({f"XDG_{k}_HOME": f"{root}/{k.lower()}" for k in ("STATE", "CACHE", "DATA", "CONFIG")})
    p = subprocess.Popen([HOBD, "serve", "-m", model, "--socket", f"{root}/socket", "-q", "--threads", str(threads),
                          "--parallel", str(at_once)], env=env, stderr=open(f"{root}/log", "wb"))
    while p.poll() is None:
        try:
            with Client(f"{root}/socket", 600) as c:
                if json.loads(c.ask("status")["status"])["state"] == "ready":
                    return p
        except OSError:
            pass
        time.sleep(0.2)
    sys.exit(f"constrained: {Path(root, 'log').read_text()}")


def answers(c, prompts, tokens, **keys):
    """Tokens of each answer, and milliseconds for one, of all on average."""
    ids = [c.generate(p, temperature=0.8, seed=i, max_tokens=n, **keys) for i, (p, n) in enumerate(zip(prompts, tokens))]
    done = {}
    for e in c.events(*ids):
        assert e["event"] != "error", e
        if e["event"] == "done":
            done[e["id"]] = e
    counts = [done[i]["usage"]["completion"] for i in ids]
    return counts, sum(done[i]["timings"]["decode_ms"] for i in ids) / sum(n - 1 for n in counts)


def measure(c, name, n, o):
    prompts = [TASKS[name] + str(i + 1) for i in range(n)]
    constraint = {"type": "schema", "text": json.dumps(schema(name, o.tokens))}
    rounds, tokens = [], 0
    for k in range(o.rounds + 1):
        counts, with_ms = answers(c, prompts, [o.tokens] * n, constraint=constraint)
        free, free_ms = answers(c, prompts, counts, ignore_eos=True)
        assert free == counts
        if k:  # the first one warms up
            rounds.append((with_ms, free_ms, free_ms / with_ms))
            tokens += sum(counts)
    with_ms, free_ms, speed = zip(*rounds)
    print(json.dumps({"schema": name, "at_once": n, "tokens": tokens // o.rounds, "with_ms": round(statistics.median(with_ms), 2),
                      "free_ms": round(statistics.median(free_ms), 2), "speed": round(statistics.median(speed), 3),
                      "low": round(min(speed), 3), "high": round(max(speed), 3)}), flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model")
    a.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    a.add_argument("-n", "--tokens", type=int, default=192)
    a.add_argument("-r", "--rounds", type=int, default=5)
    a.add_argument("--schema", choices=SCHEMAS)
    a.add_argument("--at-once", default="1,16")
    o = a.parse_args()
    numbers = [int(n) for n in o.at_once.split(",")]
    with tempfile.TemporaryDirectory() as root:
        p = start(o.model, o.threads, max(numbers), root)
        with Client(f"{root}/socket", 600) as c:
            for name in [o.schema] if o.schema else SCHEMAS:
                for n in numbers:
                    measure(c, name, n, o)
        p.terminate()
        p.wait(60)


if __name__ == "__main__":
    main()
