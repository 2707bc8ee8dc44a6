#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""JSON Schemas with valid and invalid instances, judged by hobd constrain --cases: how many schemas compile, how many
instances are judged wrongly, and how long compiling and masks take.

  maskbench.py HOBD -m VOCABULARY CASES.jsonl [--results FILE] [--suite]

With --suite, CASES.jsonl is a folder of the JSON-Schema-Test-Suite, such as tests/draft2020-12; the remote documents of the
suite are not read. --results keeps what hobd printed. Exit status 1: an invalid instance was accepted.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import tempfile


def suite(folder):
    """The tests of the suite as cases; the id is the file's name and the group's description."""
    for path in sorted(pathlib.Path(folder).rglob("*.json")):
        for group in json.loads(path.read_text()):
            tests = [{"valid": t["valid"], "data": t["data"]} for t in group["tests"]]
            yield {"id": f"{path.relative_to(folder)}: {group['description']}", "schema": group["schema"], "tests": tests}


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))] if values else 0


def bound(counts, p):
    """An upper bound of the percentile: count i is of values below 2^(i/2)."""
    below = 0
    for i in sorted(counts):
        below += counts[i]
        if below > p * sum(counts.values()):
            return 2 ** (i / 2)
    return 0


def reason(error):
    """An error without its places and names, so that equal ones can be counted."""
    return re.sub(r'"[^"]*"', '"..."', re.sub(r"^.* cannot be enforced at #[^ ]*:", lambda m: m[0].split()[0] + ":", error))


def judge(cases, results):
    n = collections.Counter()
    wrong, refusals, compile_us, masks, counts = [], collections.Counter(), [], [], collections.Counter()
    for case, result in zip(cases, results, strict=True):
        assert case["id"] == result["id"], (case["id"], result["id"])
        n["schemas"] += 1
        n["tests"] += len(case["tests"])
        compile_us.append(result["compile_us"])
        none = not result["compiled"] and re.search("no value satisfies|no text satisfies", result["error"])
        if not result["compiled"] and not none:
            refusals[reason(result["error"])] += 1
            continue
        n["compiled"] += 1
        masks.append(result["mask_us"])
        counts.update(dict(enumerate(result["mask_counts"])))
        answers = result["results"] if result["compiled"] else [False] * len(case["tests"])
        before = len(wrong)
        for i, (test, accepted) in enumerate(zip(case["tests"], answers, strict=True)):
            n["valid" if test["valid"] else "invalid"] += 1
            n["right"] += accepted == test["valid"]
            if accepted != test["valid"]:
                kind = "invalid accepted" if accepted else "valid refused"
                n[kind] += 1
                wrong.append(f"{kind}: {case['id']}, test {i}: {json.dumps(test['data'])[:100]}")
        n["correct"] += len(wrong) == before
    return n, wrong, refusals, compile_us, masks, counts


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("hobd")
    a.add_argument("-m", "--model", required=True)
    a.add_argument("cases")
    a.add_argument("--results")
    a.add_argument("--suite", action="store_true")
    a.add_argument("--wrong", type=int, default=20, help="how many wrong judgements to print")
    o = a.parse_args()
    lines = list(suite(o.cases)) if o.suite else [json.loads(line) for line in open(o.cases)]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        f.flush()
        r = subprocess.run([o.hobd, "constrain", "-m", o.model, "--cases", f.name], capture_output=True, text=True, check=True)
    if o.results:
        pathlib.Path(o.results).write_text(r.stdout)
    n, wrong, refusals, compile_us, masks, counts = judge(lines, [json.loads(line) for line in r.stdout.splitlines()])
    print(f"schemas {n['schemas']}, compiled {n['compiled']} ({n['compiled'] / n['schemas']:.2%}), "
          f"all instances judged rightly {n['correct']} ({n['correct'] / n['schemas']:.2%})")
    print(f"instances {n['tests']}, judged rightly {n['right']}; of compiled schemas: invalid accepted {n['invalid accepted']} "
          f"of {n['invalid']}, valid refused {n['valid refused']} of {n['valid']}")
    print(f"compile us: p50 {percentile(compile_us, .5):.0f}, p99 {percentile(compile_us, .99):.0f}, max {max(compile_us):.0f}")
    for i, name in enumerate(("p50", "p99", "max")):
        v = [m[i] for m in masks]
        print(f"masks us: {name} of a schema: median {percentile(v, .5):.1f}, p99 {percentile(v, .99):.1f}, max {max(v):.1f}")
    print("masks us, of all {}: p50 < {:.0f}, p99 < {:.0f}".format(sum(counts.values()), bound(counts, .5), bound(counts, .99)))
    for why, count in refusals.most_common(30):
        print(f"{count:5d} {why}")
    for line in wrong[:o.wrong]:
        print(line)
    raise SystemExit(1 if n["invalid accepted"] else 0)


if __name__ == "__main__":
    main()
