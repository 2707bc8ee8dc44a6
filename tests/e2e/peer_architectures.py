# SPDX-License-Identifier: MIT
"""python3 tests/e2e/peer_architectures.py PEERDIR [--write] [VARIANT…]

Run the tiny model of each architecture through llama.cpp too, greedily, and compare every log-probability of the whole
vocabulary at every token: prints a table, and with --write keeps llama.cpp's tokens in architectures-greedy.json, up to
the first place where its two best are within 1e-3; those of other variants stay. Without a VARIANT: all of them.
PEERDIR/run COMMAND runs its programs, which see PEERDIR/models as /models; its server gets the port PEER_PORT. Needs a
build (HOB_BUILD, or build)."""
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from architectures import TOKENS, VARIANTS, arguments, context, prompts  # noqa: E402
from conftest import BUILD, mktiny  # noqa: E402

PORT = int(os.environ.get("PEER_PORT", 18431))
CLEAR = 1e-3


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as r:
        return json.loads(r.read())


class Server:
    def __init__(self, peer, model, ctx, log):
        self.p = subprocess.Popen([str(peer / "run"), "llama-server", "-m", f"/models/{model}", "-c", str(ctx), "--port", str(PORT),
                                   "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1", "-np", "1", "--no-warmup"],
                                  stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self):
        for _ in range(300):
            if self.p.poll() is not None:
                raise SystemExit("llama-server ended; see its log")
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1).status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("llama-server does not get ready")

    def __exit__(self, *_):
        self.p.terminate()
        self.p.wait()


def peer_answer(text):
    """Prompt ids, sampled ids, and for each of them {id: log-probability}."""
    ids = post("/tokenize", {"content": text, "add_special": True})["tokens"]
    a = post("/completion", {"prompt": ids, "n_predict": TOKENS, "temperature": 0, "samplers": ["temperature"], "n_probs": 1000,
                             "return_tokens": True, "cache_prompt": False})
    rows = [{x["id"]: x["logprob"] for x in c["top_logprobs"]} for c in a["completion_probabilities"]]
    return ids, a["tokens"][:len(rows)], rows


def our_rows(path, ctx, ids, first):
    r = subprocess.run([str(BUILD / "tests" / "support" / "logits"), str(path), str(ctx), str(first), *map(str, ids)],
                       capture_output=True, text=True, check=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


def compare(peer, variant, cases):
    name = f"architecture-{variant}.gguf"
    path = mktiny(peer / "models" / name, *arguments(variant))
    with open(peer / "models" / f"{name}.log", "w") as log, Server(peer, name, context(variant), log):
        answers = [(text, *peer_answer(text)) for text in prompts(variant)]
    n = clear = agree = 0
    worst = 0.0
    for text, ids, sampled, theirs in answers:
        ours = our_rows(path, context(variant), ids + sampled, len(ids) - 1)
        keep = None
        for i, (token, row, other) in enumerate(zip(sampled, ours, theirs)):
            best = sorted(other.values(), reverse=True)
            n += 1
            worst = max([worst] + [abs(row[k] - v) for k, v in other.items()])
            if best[0] - best[1] > CLEAR:
                clear += 1
                agree += row.index(max(row)) == token
            elif keep is None:
                keep = i
        cases.append({"variant": variant, "prompt": text, "n_prompt": len(ids), "ids": sampled[:keep]})
    print(f"| {variant} | {n} | {clear} | {agree} | {worst:.1e} |", flush=True)
    path.unlink()
    (peer / "models" / f"{name}.log").unlink()


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    cases = []
    print("| model | tokens compared | two best further apart than 1e-3 | same token | largest difference |\n|---|---|---|---|---|")
    asked = [a for a in sys.argv[2:] if a != "--write"] or VARIANTS
    for variant in asked:
        compare(Path(sys.argv[1]).resolve(), variant, cases)
    if "--write" in sys.argv[2:]:
        out = Path(__file__).parent / "architectures-greedy.json"
        cases += [c for c in json.loads(out.read_text()) if c["variant"] in VARIANTS and c["variant"] not in asked]
        cases.sort(key=lambda c: VARIANTS.index(c["variant"]))
        out.write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


if __name__ == "__main__":
    main()
