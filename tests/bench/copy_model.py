#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file of the 1.1B llama shape whose answers copy: they go on as the text did where its last three tokens stood before.
usage: copy_model.py [--type Q4_0|Q8_0] VOCABULARY OUT
VOCABULARY is a GGUF file, whose tokenizer is taken over. All weights but those of two layers are zero; the times of a pass are those of any
weights. Each token has an identity A of 256 random signs. In layer 0, of each KV head three heads look at the token 1, 2 and 3 places before
(q and k are constants, which RoPE turns) and store its signs as B1, B2 and B3. In layer 1 a query of A, B1 and B2 meets keys of B1, B2 and B3 in dimensions that RoPE
leaves alone, and fetches the signs of the token there, which the output matrix reads. So a continuation repeats what followed the same three tokens, or
the same two or one if there are no such three."""
import argparse
import math
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from sparse_model import text, tokenizer  # noqa: E402

LAYERS, DIM, FFN, HEADS, KV_HEADS, HEAD, CTX, TURNED = 22, 2048, 5632, 32, 4, 64, 32768, 16
TYPES = {"Q4_0": (2, 18), "Q8_0": (8, 34)}  # number, bytes of a block of 32
A, B1, B2, B3, COPY, ONE = 0, 256, 512, 768, 1024, 1280  # where the parts of the residual stream are
PER_HEAD = 256 // KV_HEADS
CONSTANT = 16.0


class Matrix:
    """Rows of @width weights; each is zero but for those that put() sets. The others of a block share its scale."""

    def __init__(self, kind, width):
        self.kind, self.bytes = kind, TYPES[kind][1]
        self.row = width // 32 * self.bytes
        self.blocks = {}

    def put(self, row, column, value):
        self.blocks.setdefault((row, column // 32), {})[column % 32] = value

    def block(self, values):
        if self.kind == "Q4_0":
            most = max(abs(v) for v in values.values()) / 7
            q = [8] * 32
            for i, v in values.items():
                q[i] = 8 + round(v / most)
            return struct.pack("<e", most) + bytes(q[i] | q[i + 16] << 4 for i in range(16))
        most = max(abs(v) for v in values.values()) / 127
        return struct.pack("<e32b", most, *(round(values.get(i, 0) / most) for i in range(32)))

    def write(self, f, start):
        for (row, at), values in self.blocks.items():
            f.seek(start + row * self.row + at * self.bytes)
            f.write(self.block(values))


class Signs:
    """Rows of the same 256 signs as in the embeddings, from a column on, times a factor."""

    def __init__(self, kind, width, signs, column, factor, one=0.0):
        self.zero, self.signs, self.column, self.one = Matrix(kind, width), signs, column, one
        self.factor = factor

    def write(self, f, start):
        m, q4 = self.zero, self.zero.kind == "Q4_0"
        scale = struct.pack("<e", self.factor / (7 if q4 else 127))
        for row, bits in enumerate(self.signs):
            f.seek(start + row * m.row + self.column // 32 * m.bytes)
            for b in range(0, 256, 32):
                s = [1 if bits >> (b + i) & 1 else -1 for i in range(32)]
                if q4:
                    f.write(scale + bytes(8 + 7 * s[i] | (8 + 7 * s[i + 16]) << 4 for i in range(16)))
                else:
                    f.write(scale + struct.pack("<32b", *(127 * x for x in s)))
            if self.one:
                f.seek(start + row * m.row + ONE // 32 * m.bytes)
                f.write(m.block({0: self.one}))


def layer_0(kind):
    """The heads 0, 1, 2 of each KV head look 1, 2, 3 places back."""
    q, k, v, o = (Matrix(kind, DIM) for _ in range(4))
    for g in range(KV_HEADS):
        for j in range(TURNED // 2):
            k.put(g * HEAD + 2 * j, ONE, 1.0)
        for back in (1, 2, 3):
            h = g * (HEADS // KV_HEADS) + back - 1
            for j in range(TURNED // 2):
                angle = -back * 10000.0 ** (-2 * j / TURNED)
                q.put(h * HEAD + 2 * j, ONE, 0.5 * math.cos(angle))
                q.put(h * HEAD + 2 * j + 1, ONE, 0.5 * math.sin(angle))
            for i in range(HEAD):
                o.put((B1, B2, B3)[back - 1] + g * HEAD + i, h * HEAD + i, 1.0)
        for i in range(HEAD):
            v.put(g * HEAD + i, A + g * PER_HEAD + i, 0.5)
    return q, k, v, o


def layer_1(kind):
    """One head of each KV head: 20, 16 and 12 signs of the three tokens meet."""
    q, k, v, o = (Matrix(kind, DIM) for _ in range(4))
    for g in range(KV_HEADS):
        h = g * (HEADS // KV_HEADS)
        at = TURNED
        for n, query, key in ((20, A, B1), (16, B1, B2), (12, B2, B3)):
            for i in range(n):
                k.put(g * HEAD + at, key + g * PER_HEAD + i, 4.5)
                q.put(h * HEAD + at, query + g * PER_HEAD + i, 4.5)
                at += 1
        for i in range(HEAD):
            v.put(g * HEAD + i, A + g * PER_HEAD + i, 0.8)
            o.put(COPY + g * HEAD + i, h * HEAD + i, 1.0)
    return q, k, v, o


def key(name, kind, value):
    if kind == "s":
        return text(name) + struct.pack("<I", 8) + text(value)
    return text(name) + struct.pack("<I" + kind, {"I": 4, "f": 6}[kind], value)


def tensors(kind, vocab):
    """(name, dimensions, what is in it); a number: an F32 vector of it."""
    signs = [random.Random(i).getrandbits(256) for i in range(vocab)]
    out = [("token_embd.weight", (DIM, vocab), Signs(kind, DIM, signs, A, 1.0, CONSTANT))]
    for i in range(LAYERS):
        q, k, v, o = (layer_0, layer_1)[i](kind) if i < 2 else (Matrix(kind, DIM) for _ in range(4))
        b = f"blk.{i}."
        out += [(b + "attn_norm.weight", (DIM,), 1.0), (b + "attn_q.weight", (DIM, HEADS * HEAD), q),
                (b + "attn_k.weight", (DIM, KV_HEADS * HEAD), k), (b + "attn_v.weight", (DIM, KV_HEADS * HEAD), v),
                (b + "attn_output.weight", (HEADS * HEAD, DIM), o), (b + "ffn_norm.weight", (DIM,), 1.0),
                (b + "ffn_gate.weight", (DIM, FFN), Matrix(kind, DIM)), (b + "ffn_up.weight", (DIM, FFN), Matrix(kind, DIM)),
                (b + "ffn_down.weight", (FFN, DIM), Matrix(kind, FFN))]
    return out + [("output_norm.weight", (DIM,), 1.0), ("output.weight", (DIM, vocab), Signs(kind, DIM, signs, COPY, 1 / 16))]


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--type", choices=TYPES, default="Q4_0")
    p.add_argument("vocabulary")
    p.add_argument("out")
    o = p.parse_args()
    kept, vocab = tokenizer(o.vocabulary)
    keys = [key("general.architecture", "s", "llama"), key("general.name", "s", "copies"), key("llama.context_length", "I", CTX),
            key("llama.embedding_length", "I", DIM), key("llama.block_count", "I", LAYERS), key("llama.feed_forward_length", "I", FFN),
            key("llama.attention.head_count", "I", HEADS), key("llama.attention.head_count_kv", "I", KV_HEADS),
            key("llama.attention.layer_norm_rms_epsilon", "f", 1e-5), key("llama.rope.freq_base", "f", 10000.0),
            key("llama.rope.dimension_count", "I", TURNED), key("llama.vocab_size", "I", vocab)] + kept
    made, infos, offset, places = tensors(o.type, vocab), b"", 0, []
    for name, dims, content in made:
        vector = isinstance(content, float)
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0 if vector else TYPES[o.type][0], offset)
        places.append(offset)
        offset += (dims[0] * 4 if vector else dims[0] // 32 * TYPES[o.type][1] * dims[1]) + 31 & ~31
    head = b"GGUF" + struct.pack("<IQQ", 3, len(made), len(keys)) + b"".join(keys) + infos
    start = len(head) + 31 & ~31
    with open(o.out, "wb") as f:
        f.write(head)
        f.truncate(start + offset)
        for (_, dims, content), place in zip(made, places):
            if isinstance(content, float):
                f.seek(start + place)
                f.write(struct.pack("<f", content) * dims[0])
            else:
                content.write(f, start + place)


main()
