# SPDX-License-Identifier: MIT
"""python3 tests/e2e/peer_types.py PEERDIR MODEL [TYPE…]

For each weight type, hob beside llama.cpp: the perplexity of MODEL requantized by llama-quantize, whose mixtures and
fallbacks for widths that are no multiple of 256 stay as they are, and where the two are more than 0.5% apart that of
the pass in f32; on a seeded model of one type throughout, the mean KL divergence from llama.cpp's logits to hob's and
to its own with other kernels (--no-repack), and from those of the pass in f32 to both; and whether hobd verify agrees
on both files. Prints a table. PEERDIR/run COMMAND runs llama.cpp's programs, which see PEERDIR/models as /models.
Needs a build (HOB_BUILD, or build)."""
import json
import math
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import BUILD, HOBD, mktiny  # noqa: E402

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4",
         "TQ1_0", "TQ2_0", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
MIXTURES = {"MXFP4": ["--tensor-type", "attn=mxfp4", "--tensor-type", "ffn=mxfp4", "Q8_0"]}  # llama-quantize's own is for experts only
TEXT = "/usr/share/common-licenses/GPL-3"
CTX, CHUNKS = 512, 8
SEEDED = ["--seed", 3, "--layers", 4, "--dim", 512, "--ffn", 768, "--heads", 8, "--kv-heads", 4, "--logit-size", 0.5,
          "--tokenizer", "llama"]
BOS, WINDOW = 1, 128  # of the seeded model
EXACT = ["-ctk", "f32", "-ctv", "f32", "-fa", "off"]  # keys and values as hobd perplexity and logits keep them


def run(*command, text=None, both=False):
    """What it prints, with @both also as errors."""
    r = subprocess.run([*map(str, command)], input=text, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT if both else subprocess.PIPE, text=True)
    if r.returncode:
        raise SystemExit(f"{' '.join(map(str, command))[:200]}: {r.returncode}\n{(r.stderr or r.stdout)[-1000:]}")
    return r.stdout


class Peer:
    def __init__(self, directory):
        self.command, self.models = directory / "run", directory / "models"
        shutil.copy(TEXT, self.models / "types.txt")

    def quantize(self, source, out, kind):
        how = MIXTURES.get(kind, [kind])
        run(self.command, "llama-quantize", "--allow-requantize", *how[:-1], f"/models/{source}", f"/models/{out}", how[-1])
        return self.models / out

    def perplexity(self, path, *options):
        return run(self.command, "llama-perplexity", "-m", f"/models/{path.name}", "-f", "/models/types.txt", *EXACT, *options, both=True)

    def logits(self, path, *options):
        """Tokens of each window, and the log-probabilities of its second half."""
        out = self.models / "types.logits"
        self.perplexity(path, "-c", WINDOW, "-b", WINDOW, "--chunks", 2, "--save-all-logits", f"/models/{out.name}", *options)
        data = out.read_bytes()
        out.unlink()
        assert data[:8] == b"_logits_"
        window, vocab, chunks = struct.unpack_from("<3i", data, 8)
        size, at = 4 + (vocab + 1) // 2 * 2, 20 + 4 * window * chunks  # a row: f32 step, f32 least, u16 codes
        ids = [struct.unpack_from(f"<{window}i", data, 20 + 4 * window * i) for i in range(chunks)]
        rows = []
        while at < len(data):
            step, least = struct.unpack_from("<2f", data, at)
            rows.append([step * code + least for code in struct.unpack_from(f"<{vocab}H", data, at + 8)])
            at += 2 * size
        return ids, rows


def our_rows(path, ids, *options):
    """Of the second half of a window."""
    text = run(BUILD / "tests" / "support" / "logits", *options, path, 2 * len(ids), len(ids) // 2, *ids)
    return [json.loads(line) for line in text.splitlines()]


def our_logits(path, windows, *options):
    """The last token of a window has none after it to be scored with: llama.cpp leaves it out."""
    return [row for ids in windows for row in our_rows(path, [BOS, *ids[1:]], *options)[:-1]]


def exact_perplexity(path):
    """Of a model that wants no BOS before a text, as the default one."""
    ids = json.loads(run(HOBD, "tokenize", "-m", path, text=Path(TEXT).read_text().removesuffix("\n")))
    rows = [row for i in range(CHUNKS) for row in our_rows(path, ids[i * CTX:][:CTX], "-r", "-n")]
    return math.exp(-sum(row[0] for row in rows) / len(rows))


def divergence(p, q):
    """Mean over rows of log-probabilities."""
    assert len(p) == len(q)
    return sum(math.exp(a) * (a - b) for x, y in zip(p, q) for a, b in zip(x, y)) / len(p)


def agrees(path):
    return subprocess.run([HOBD, "verify", "-m", path], capture_output=True).returncode == 0


def requantized(peer, kind):
    path = peer.quantize("types-source.gguf", f"types-{kind}.gguf", kind)
    ours = json.loads(run(HOBD, "perplexity", "-m", path, "-f", TEXT, "-c", CTX, "--chunks", CHUNKS, "--json"))["ppl"]
    theirs = float(re.search(r"Final estimate: PPL = ([\d.]+)", peer.perplexity(path, "-c", CTX, "--chunks", CHUNKS))[1])
    exact = exact_perplexity(path) if abs(ours / theirs - 1) > 0.005 else None
    verified = agrees(path)
    path.unlink()
    return ours, theirs, exact, verified


def seeded(peer, kind):
    path = mktiny(peer.models / f"types-seeded-{kind}.gguf", *SEEDED, "--type", kind)
    ids, theirs = peer.logits(path)
    _, other = peer.logits(path, "--no-repack")
    ours = our_logits(path, ids)
    exact = our_logits(path, ids, "-r")
    verified = agrees(path)
    path.unlink()
    return [divergence(*pair) for pair in ((theirs, ours), (theirs, other), (exact, ours), (exact, theirs))], verified


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    peer = Peer(Path(sys.argv[1]).resolve())
    shutil.copy(sys.argv[2], peer.models / "types-source.gguf")
    print("| type | perplexity: hob | llama.cpp | difference | f32 | KL: llama.cpp to hob | to itself | f32 to hob | f32 to llama.cpp | verify |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in sys.argv[3:] or TYPES:
        ours, theirs, exact, real = requantized(peer, kind)
        divergences, small = seeded(peer, kind)
        verified = "agrees" if real and small else "FAILED"
        print(f"| {kind} | {ours:.4f} | {theirs:.4f} | {100 * (ours / theirs - 1):+.2f}% | {f'{exact:.4f}' if exact else ''} |",
              *(f"{kl:.1e} |" for kl in divergences), verified, "|", flush=True)
    for name in ("types-source.gguf", "types.txt"):
        (peer.models / name).unlink()


main()
