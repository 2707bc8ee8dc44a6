# SPDX-License-Identifier: MIT
"""Tokens a second of 16 sequences with 8 different adapters beside those without.

usage: adapters.py BUILD MODEL.gguf [--type F32|F16|BF16] [--rank N] [--threads N] [--tokens N] [--rounds N]

Makes 8 random adapters of all attention and feed-forward matrices, serves MODEL with them, and asks for 16 answers at
once, in turns without and with adapters (two requests of each). Prints the medians and their quotient. Answers of
adapters are compared with those of one request alone.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

SEQUENCES, ADAPTERS = 16, 8


def ask(build, env, n, tokens, adapter):
    more = ["--adapter", f"a{adapter}"] if adapter is not None else []
    return subprocess.Popen([str(build / "client/hob"), "--raw", "--temp", "0", "--ignore-eos", "--speculate", "off", "-n", str(tokens),
                             "--jsonl", *more, f"This is story number {n}. It begins with"],
                            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def ends(processes):
    """The texts, and the time from the first token of the last answer to begin until all have ended."""
    texts, begins, done = [], [], []
    for p in processes:
        text = ""
        for line in p.stdout.read().splitlines():
            event = json.loads(line)
            if event["event"] == "text":
                text += event["text"]
            last = event
        if p.wait():
            raise SystemExit("a request failed")
        texts.append(text)
        done.append(last)
    return texts, done


def decode_rate(done, tokens):
    """Tokens a second while all sequences decode: of the mean time of an answer."""
    usage = [d["timings"]["decode_ms"] for d in done]
    return SEQUENCES * tokens / (statistics.mean(usage) / 1000)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build", type=Path)
    p.add_argument("model", type=Path)
    p.add_argument("--type", default="F16")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--tokens", type=int, default=32)
    p.add_argument("--rounds", type=int, default=3)
    o = p.parse_args()
    build = o.build.resolve()
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ, HOB_SOCKET=f"{d}/s", XDG_STATE_HOME=d, XDG_CACHE_HOME=d)
        args = [build / "daemon/hobd", "serve", "-m", o.model.resolve(), "--threads", o.threads, "--ctx", 512, "--quiet",
                "--cache-bytes", 0, "--packed-file", "no", "--parallel", SEQUENCES]
        for i in range(ADAPTERS):
            subprocess.run([build / "tests/support/mklora", "--seed", str(i + 1), "--rank", str(o.rank), "--type", o.type,
                            "-o", f"{d}/a{i}.gguf", o.model.resolve()], check=True)
            args += ["--adapter", f"a{i}={d}/a{i}.gguf"]
        daemon = subprocess.Popen([str(a) for a in args], env=env)
        try:
            while not Path(f"{d}/s").exists():
                time.sleep(0.05)
            alone, _ = ends([ask(build, env, 3, o.tokens, 3 % ADAPTERS)])
            rates = {False: [], True: []}
            for _ in range(o.rounds):
                for adapted in (False, True):
                    texts, done = ends([ask(build, env, n, o.tokens, n % ADAPTERS if adapted else None)
                                        for n in range(SEQUENCES)])
                    rates[adapted].append(decode_rate(done, o.tokens))
                    if adapted and texts[3] != alone[0]:
                        raise SystemExit("an answer differs from that alone")
        finally:
            daemon.terminate()
            daemon.wait()
    plain, adapted = (statistics.median(rates[x]) for x in (False, True))
    print(f"{o.model.name}, {SEQUENCES} sequences, {ADAPTERS} adapters of rank {o.rank} in {o.type}, {o.threads} threads: "
          f"{adapted:.1f} tokens/s, without {plain:.1f}: {adapted / plain:.3f}")


if __name__ == "__main__":
    main()
