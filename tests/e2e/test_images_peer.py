# SPDX-License-Identifier: MIT
"""Prompts with images beside llama.cpp: for each kind of encoder the same items, and greedy tokens that agree wherever llama.cpp's two best
logits are more than 1e-3 apart. All models are small and have random weights in F32.

HOB_MTMD is the command of peer-images.c, next to this file, built with libmtmd; its arguments are added. It can be left out: then the tests
are skipped. Each answer prints a line: tokens that agree, tokens that count, the largest difference of a log-probability."""
import json
import os
import random
import shlex
import struct
import subprocess

import pytest
from conftest import BUILD, Home, mktiny
from mmprojfiles import ARRAY, I32, U32, Encoder

Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
PEER = shlex.split(os.environ.get("HOB_MTMD", ""))
pytestmark = [pytest.mark.skipif(not PEER, reason="no llama.cpp with images (HOB_MTMD)"),
              pytest.mark.skipif(not (BUILD / "daemon" / "hobd-decode").exists(), reason="built without images and sounds")]

DIM, TOKENS, CLEAR = 64, 32, 1e-3
SIZES = [(50, 31), (20, 33)]


class Family:
    """A text model as those that come with an encoder; its template puts @before and @behind around a message."""

    def __init__(self, encoder, before, behind, controls=(), arch="llama", tokenizer="gpt2", pre="smollm", merges=(), sizes=SIZES, change=None):
        self.encoder, self.before, self.behind, self.sizes, self.change = encoder, before, behind, sizes, change
        self.args = ["--type", "F32", "--dim", DIM, "--ctx", 4096, "--seed", 3, "--arch", arch, "--tokenizer", tokenizer, "--pre", pre]
        for text in controls:
            self.args += ["--control", text]
        for pair in merges:
            self.args += ["--merge", pair]

    def text_model(self, folder):
        around = [json.dumps(s) for s in (self.before, self.behind)]
        (folder / "template").write_text("{% for m in messages %}{{ " + around[0] + " + m['content'] + " + around[1] + " }}{% endfor %}")
        return mktiny(folder / "text.gguf", *self.args, "--template", folder / "template")

    def mmproj(self, folder):
        """Of hob and of llama.cpp, which has the class behind the patches: each keeps its position."""
        e = Encoder(out=DIM, **self.encoder)
        if self.change:
            self.change(e)
        ours = e.write(folder / "mmproj.gguf")
        if "v.class_embd" not in e.tensors:
            return ours, ours
        at = e.tensors["v.position_embd.weight"]
        at[2] = at[2][e.dim:] + at[2][:e.dim]
        if e.projector == "mlp":
            class_first(e)
        return ours, e.write(folder / "peer-mmproj.gguf")


def class_first(e):
    """llama.cpp has the class in the last row, but leaves the first row out. Here the first row stands for the class: its patch is black, which
    adds nothing. All other patches are one row later. The last patch, which is black too, is in the row of the class: only its position counts."""
    at, c = e.tensors["v.position_embd.weight"], e.tensors["v.class_embd"]
    at[2] = [x + y for x, y in zip(at[2][-e.dim:], c[2])] + at[2][:-e.dim]
    c[2] = [0.0] * e.dim


def black_is_zero(e):
    e.mean[:] = [0.0] * 3


def without_class(e):
    del e.tensors["v.class_embd"]
    at = e.tensors["v.position_embd.weight"]
    at[0], at[2] = [e.dim, e.side ** 2], at[2][e.dim:]


def grids(e):
    without_class(e)
    e.keys["clip.vision.image_grid_pinpoints"] = ((ARRAY, I32), [12, 24, 24, 12, 24, 24])


def few_tiles(e):
    e.keys["clip.vision.preproc_max_tiles"] = (U32, 4)


CHATML = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")
VICUNA = {"before": "USER: ", "behind": " ASSISTANT:", "tokenizer": "llama"}
GRID = [(r, c) for r in range(1, 5) for c in range(1, 5)]
SMOLVLM = ["<end_of_utterance>", "<fake_token_around_image>", "<global-img>", *(f"<row_{r}_col_{c}>" for r, c in GRID)]
LFM2 = ["<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *(f"<|img_row_{r}_col_{c}|>" for r, c in GRID)]
GEMMA = {"before": "<start_of_turn>user\n", "behind": "<end_of_turn>\n<start_of_turn>model\n", "arch": "gemma3", "tokenizer": "llama",
         "controls": ["<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"]}
FAMILIES = {
    "gemma3": Family({"projector": "gemma3", "image": 24, "pool": 2}, **GEMMA),
    "gemma3 windows": Family({"projector": "gemma3", "image": 64, "pool": 2, "blocks": 1}, **GEMMA),  # 64 items; windows of 70
    "gemma3 wide": Family({"projector": "gemma3", "image": 80, "pool": 2, "blocks": 1}, **GEMMA),  # 100 items
    "llava 1.5": Family({"projector": "mlp", "gelu": False}, **VICUNA, change=without_class),
    "llava 1.5 class": Family({"projector": "mlp", "gelu": False}, **VICUNA, change=black_is_zero, sizes=[(12, 12)] * 2),
    "llava 1.6": Family({"projector": "mlp", "gelu": False}, **VICUNA, change=grids),
    "idefics3": Family({"projector": "idefics3", "image": 16, "pool": 2, "longest": 48}, "<|im_start|>User:", "<end_of_utterance>\nAssistant:",
                       SMOLVLM, merges=["\u010a \u010a"]),
    "internvl": Family({"projector": "internvl", "image": 16, "pool": 2}, *CHATML, ["<img>", "</img>"], arch="qwen2", pre="qwen2",
                       change=few_tiles),
    "pixtral": Family({"projector": "pixtral", "silu": True, "heads": 3}, "[INST]", "[/INST]", ["[INST]", "[/INST]", "[IMG_END]"], pre="tekken"),
    "pixtral merge": Family({"projector": "pixtral", "silu": True, "heads": 3, "merge": True, "pool": 2}, "[INST]", "[/INST]",
                            ["[INST]", "[/INST]", "[IMG_END]"], pre="tekken"),
    "lfm2": Family({"projector": "lfm2", "image": 64, "patch": 16, "pool": 2}, *CHATML, LFM2),
    "lfm2 tiles": Family({"projector": "lfm2", "image": 64, "patch": 16, "dim": 8, "ffn": 8, "blocks": 1, "pool": 2}, *CHATML, LFM2,
                         sizes=[(900, 610), (90, 50)]),
}
QWEN = dict(zip(("before", "behind"), CHATML)) | {"arch": "qwen2vl", "pre": "qwen2", "controls": ["<|vision_start|>", "<|vision_end|>"]}
FAMILIES |= {
    "qwen2vl": Family({"projector": "qwen2vl_merger", "gelu": False, "heads": 3}, **QWEN),
    "qwen2.5vl": Family({"projector": "qwen2.5vl_merger", "silu": True, "heads": 3, "image": 28, "patch": 14}, **QWEN,
                        sizes=[(150, 300), (420, 90)]),
}
TEXTS = [["what is it: ", " and why?"], ["", "the first\n\nand then the second ", "both of them"]]


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, tmp_path_factory):
    """A daemon, and the files of its peer."""
    family, folder = FAMILIES[request.param], tmp_path_factory.mktemp("peer")
    h = Home(folder, family.text_model(folder))
    h.name, h.family, h.folder = request.param, family, folder
    ours, h.peer = family.mmproj(folder)
    h.daemon("--mmproj", ours, "--kv-type", "f32")
    yield h
    h.stop()


def pictures(h):
    """The last of 3 x 3 patches of 4 pixels is black."""
    paths = []
    for i, size in enumerate(h.family.sizes):
        paths.append(h.folder / f"{i}.png")
        noise = Image.frombytes("RGB", (9, 7), random.Random(i).randbytes(9 * 7 * 3))
        noise = noise.resize(size, Image.BICUBIC)
        noise.paste(0, (8, 8, 12, 12))
        noise.save(paths[-1])
    return paths


def one_patch_later(path):
    """The same picture with its black patch before all others."""
    image, out = Image.open(path), Image.new("RGB", (12, 12))
    for i in range(8):
        x, y = i % 3 * 4, i // 3 * 4
        out.paste(image.crop((x, y, x + 4, y + 4)), ((i + 1) % 3 * 4, (i + 1) // 3 * 4))
    out.save(path.with_suffix(".later.png"))
    return path.with_suffix(".later.png")


def parts(texts, images):
    """A message: text, image, text, …"""
    out = []
    for i, text in enumerate(texts):
        out += [{"type": "text", "text": text}] * bool(text)
        out += [{"type": "image", "data": images[i].read_bytes()}] if i < len(images) else []
    return out


def peer_answer(h, texts, images, ids):
    path = h.folder / "prompt.txt"
    if h.family.change is black_is_zero:
        images = [one_patch_later(image) for image in images]
    path.write_text(h.family.before + "<__media__>".join(texts) + h.family.behind)
    r = subprocess.run([*PEER, h.folder / "text.gguf", h.peer, path, ",".join(map(str, ids)), *images], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def answer(h, texts, images):
    with h.client() as c:
        a = c.answer(messages=[{"role": "user", "content": parts(texts, images)}], max_tokens=TOKENS, temperature=0, logprobs=True)
    assert a.end["event"] == "done", a.end
    a.logprobs = [struct.unpack("<f", x)[0] for x in a.logprobs]
    return a


@pytest.mark.parametrize("texts", TEXTS, ids=["one", "two"])
def test_the_same_tokens(pair, texts):
    images = pictures(pair)
    n = len(texts) - 1
    a = answer(pair, texts, images[:n])
    peer = peer_answer(pair, texts, images[:n], a.ids)
    items = [len(x) if isinstance(x, list) else x for x in peer["items"]]
    clear = [(i, b) for i, b, gap in zip(a.ids, peer["best"], peer["gap"]) if gap > CLEAR]
    agree = sum(i == b for i, b in clear)
    far = max(abs(x - y) for x, y in zip(a.logprobs, peer["logprob"]))
    print(f"{pair.name}, {n} images: {agree} of {len(clear)} (of {len(a.ids)}), {far:.1e}; items {items}")
    assert a.usage["prompt"] == sum(items)
    assert sum(m["tokens"] for m in a.end["media"]) == sum(x for x in peer["items"] if isinstance(x, int))
    assert len(a.ids) >= TOKENS // 2 and len(clear) >= len(a.ids) // 2
    assert agree == len(clear) and far < 0.01
    # The answer depends on the images and their order.
    others = answer(pair, texts, images[::-1][:n])
    assert others.ids != a.ids or max(abs(x - y) for x, y in zip(a.logprobs, others.logprobs)) > 5 * far
