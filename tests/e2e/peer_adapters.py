# SPDX-License-Identifier: MIT
"""python3 tests/e2e/peer_adapters.py PEERDIR [VARIANT…]

Greedy tokens of tiny models with adapters, in F32, beside those of llama.cpp's --lora with the same files: two adapters
of each VARIANT (peer_architectures.py) of all and of some matrices, each with two scales. PEERDIR is as there. Tokens
count up to the first place where llama.cpp's two best are within 1e-3. Exits with 1 if one differs. Needs a build
(HOB_BUILD, or build)."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import peer_architectures as peer  # noqa: E402
from architectures import TOKENS, arguments, context, prompts  # noqa: E402
from conftest import BUILD, Home, mktiny  # noqa: E402

USUAL = ["llama", "qwen2", "qwen3", "phi3", "gemma2", "falcon", "gpt2", "starcoder2"]
ADAPTERS = [("all", 8, None), ("some", 16, "attn_q,attn_qkv,attn_v,ffn_down,")]


class Server(peer.Server):
    """With the adapters @files, which no request has unless it says so."""

    def __init__(self, folder, model, ctx, log, files):
        self.p = subprocess.Popen([str(folder / "run"), "llama-server", "-m", f"/models/{model}", "-c", str(ctx), "--port",
                                   str(peer.PORT), "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1", "-np", "1", "--no-warmup",
                                   "--lora", ",".join(f"/models/{f.name}" for f in files), "--lora-init-without-apply"],
                                  stdout=log, stderr=subprocess.STDOUT)


def their_tokens(ids, lora):
    """Up to the first place where the two best are close."""
    a = peer.post("/completion", {"prompt": ids, "n_predict": TOKENS, "temperature": 0, "samplers": ["temperature"],
                                  "n_probs": 2, "return_tokens": True, "cache_prompt": False, "lora": lora})
    tokens = []
    for token, c in zip(a["tokens"], a["completion_probabilities"]):
        two = sorted(x["logprob"] for x in c["top_logprobs"])
        if len(two) > 1 and two[-1] - two[-2] < peer.CLEAR:
            break
        tokens.append(token)
    return tokens


def compare(folder, variant):
    model = mktiny(folder / "models" / f"adapted-{variant}.gguf", *arguments(variant))
    files = []
    for seed, (name, rank, only) in enumerate(ADAPTERS):
        files.append(folder / "models" / f"adapted-{variant}-{name}.gguf")
        subprocess.run([BUILD / "tests" / "support" / "mklora", "--seed", str(seed + 1), "--rank", str(rank), "--alpha", "16",
                        "--size", "1", *(["--only", only] if only else []), "-o", files[-1], model], check=True)
    same = differ = moved = 0
    with tempfile.TemporaryDirectory() as d, open(folder / "models" / f"adapted-{variant}.log", "w") as log, \
            Server(folder, model.name, context(variant), log, files):
        home = Home(Path(d), model)
        home.daemon("-m", model, "--kv-type", "f32", "--confine", "no", "--cache-bytes", 0, "--packed-file", "no",
                    *[x for f in files for x in ("--adapter", f"{f.stem.rsplit('-')[-1]}={f}")])
        for text in prompts(variant):
            ids = peer.post("/tokenize", {"content": text, "add_special": True})["tokens"]
            plain = their_tokens(ids, [])
            for i, (name, _, _) in enumerate(ADAPTERS):
                for scale in (1, 0.5):
                    theirs = their_tokens(ids, [{"id": i, "scale": scale}])
                    ours = home.ask("--raw", "--special", "--no-stdin", "--ignore-eos", "--adapter", f"{name}={scale}", text, n=TOKENS, temp=0)
                    equal = ours.bits[0][:len(theirs)] == theirs
                    same += len(theirs) if equal else 0
                    differ += not equal
                    moved += theirs != plain
        home.stop()
    for f in [model, *files]:
        f.unlink()
    print(json.dumps({"variant": variant, "tokens equal": same, "answers that differ": differ,
                      "answers that are not the model's own": moved}), flush=True)
    return not differ and same and moved


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    results = [compare(Path(sys.argv[1]).resolve(), v) for v in sys.argv[2:] or USUAL]
    sys.exit(0 if all(results) else 1)
