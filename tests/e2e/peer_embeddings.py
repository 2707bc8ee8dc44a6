# SPDX-License-Identifier: MIT
"""python3 tests/e2e/peer_embeddings.py PEERDIR [VARIANT…]

Run the tiny model of each architecture that gives vectors or scores through llama.cpp's server too, on the same token ids, and
print the largest cosine distance and difference. PEERDIR as in peer_architectures.py. Needs a build (HOB_BUILD, or build).

llama.cpp has GELU's tanh form, from a table of f16, where BERT, ModernBERT and Jina have GELU itself; and all tokens of type 0."""
import json
import math
import os
import random
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import HOBD, mktiny  # noqa: E402

PORT = int(os.environ.get("PEER_PORT", 18433))
VARIANTS = ["bert", "nomic-bert", "jina-bert-v2", "jina-bert-v2-code", "modern-bert", "gemma-embedding", "qwen3-embedding", "bert-rank",
            "modern-bert-rank", "qwen3-rank"]


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as r:
        return json.loads(r.read())


def peer_rows(peer, name, texts):
    with open(peer / "models" / f"{name}.log", "w") as log:
        p = subprocess.Popen([str(peer / "run"), "llama-server", "-m", f"/models/{name}", "--embedding", "-c", "512", "-b", "512", "-ub", "512",
                              "--port", str(PORT), "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1", "-np", "1", "--no-warmup"],
                             stdout=log, stderr=subprocess.STDOUT)
        try:
            for _ in range(100):
                try:
                    if urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1).status == 200:
                        break
                except OSError:
                    time.sleep(0.1)
            out = [post("/embeddings", {"input": ids, "embd_normalize": -1})[0]["embedding"] for ids in texts]
            return [o[0] if isinstance(o[0], list) else o for o in out]
        finally:
            p.terminate()
            p.wait()


def our_rows(path, texts):
    r = subprocess.run([str(HOBD), "embed", "-m", str(path), "--jsonl", "--json", "--no-normalize", "-t", "1"], text=True, capture_output=True,
                       input="\n".join(json.dumps(t) for t in texts), check=True)
    rows = [json.loads(line) for line in r.stdout.splitlines()]
    return [x.get("embedding") or x["scores"] for x in rows]


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    peer, r = Path(sys.argv[1]).resolve(), random.Random(1)
    print("| model | texts | largest cosine distance | largest difference |\n|---|---|---|---|")
    for variant in sys.argv[2:] or VARIANTS:
        name = f"embeddings-{variant}.gguf"
        path = mktiny(peer / "models" / name, "--arch", variant, "--type", "F32", "--tokenizer", "llama", "--seed", 3)
        texts = [[r.randrange(5, 250) for _ in range(n)] for n in (1, 7, 33, 200, 400)]
        theirs, ours = peer_rows(peer, name, texts), our_rows(path, texts)
        scores = variant.endswith("-rank")  # the server gives the first one
        far = 0 if scores else max(1 - sum(a * b for a, b in zip(x, y)) / math.hypot(*x) / math.hypot(*y) for x, y in zip(theirs, ours))
        worst = max(abs(a - b) for x, y in zip(theirs, ours) for a, b in zip(x, y))
        print(f"| {variant} | {len(texts)} | {'-' if scores else f'{far:.1e}'} | {worst:.1e} |", flush=True)
        path.unlink()
        (peer / "models" / f"{name}.log").unlink()


if __name__ == "__main__":
    main()
