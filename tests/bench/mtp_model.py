#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file of the Qwen 3.5 shape whose MTP layer is right: it predicts each next token of the model, greedy ones always.
usage: mtp_model.py [--layers N] [--dim N] [--ffn N] [--type F32|Q4_0|Q8_0] [--margin X] [--wrong SHARE] VOCABULARY OUT
VOCABULARY is a GGUF file, whose tokenizer is taken over. All weights but those of the embeddings and of the ends are zero; the times of a pass
are those of any weights. A fixed permutation f of the ordinary tokens says what follows: token i is followed by f(i). Each token has random signs, as
many as half of the width. The embedding of i is [signs of f(i); signs of f(f(i))]. The output matrix reads the first half, so that the model
says f(i). The MTP layer gets the state of i, which is its normed embedding, and the embedding of f(i). eh_proj makes [second half of the state;
second half of the embedding] of them, which are the signs of f(f(i)) and f(f(f(i))): its logits are right because of the state alone, and its own state is
right for the next token but one. A row of states that is another token's gives a wrong prediction.
--margin: of the right token's logit before the others, 12 unless told. --wrong: this share of the tokens has wrong signs in the second half."""
import argparse
import math
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from sparse_model import text, tokenizer  # noqa: E402

HEAD, STATE, TAPS, CTX = 64, 64, 4, 32768
SPECIAL = 3  # the first tokens of Llama's vocabulary: unknown, begin, end
TYPES = {"F32": (0, 4, 1), "Q4_0": (2, 18, 32), "Q8_0": (8, 34, 32)}  # number, bytes of a block, its values


def key(name, kind, value):
    if kind == "s":
        return text(name) + struct.pack("<I", 8) + text(value)
    if kind == "a":
        return text(name) + struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return text(name) + struct.pack("<I" + kind, {"I": 4, "f": 6}[kind], value)


def block(kind, values):
    """The bytes of 32 values that are 0 or of one size."""
    most = max(abs(v) for v in values)
    if kind == "F32":
        return struct.pack("<32f", *values)
    if kind == "Q4_0":
        q = [8 + (7 if v > 0 else -7 if v < 0 else 0) for v in values]
        return struct.pack("<e", most / 7) + bytes(q[i] | q[i + 16] << 4 for i in range(16))
    return struct.pack("<e32b", most / 127, *(127 if v > 0 else -127 if v < 0 else 0 for v in values))


def signed(kind, bits, n, size):
    """A row of @n signs of @size."""
    return b"".join(block(kind, [size if bits >> b + i & 1 else -size for i in range(32)]) for b in range(0, n, 32))


def row_bytes(kind, width):
    return width // TYPES[kind][2] * TYPES[kind][1]


class Ends:
    """The embeddings and the output matrix."""

    def __init__(self, o, vocab):
        rng = random.Random(1)
        order = list(range(SPECIAL, vocab))
        rng.shuffle(order)
        self.next = [SPECIAL] * vocab  # one cycle of all tokens but the first, which answers may not have
        for a, b in zip(order, order[1:] + order[:1]):
            self.next[a] = b
        self.half = o.dim // 2
        self.signs = [rng.getrandbits(self.half) for _ in range(vocab)]
        self.wrong = [rng.random() < o.wrong for _ in range(vocab)]
        self.kind, self.margin = o.type, o.margin

    def embedding(self, i):
        f, g = self.next[i], self.next[self.next[i]]
        return signed(self.kind, self.signs[f], self.half, 1.0) + signed(self.kind, self.signs[i if self.wrong[g] else g], self.half, 1.0)

    def output(self, i):
        return signed(self.kind, self.signs[i], self.half, self.margin / self.half) + block(self.kind, [0.0] * 32) * (self.half // 32)

    def projection(self, i):
        """Row @i of eh_proj: an identity of one half of the state, and of one of the embedding."""
        column = 2 * self.half + self.half + i if i < self.half else i
        out = [0.0] * 32
        out[column % 32] = 1.0
        zero = block(self.kind, [0.0] * 32)
        return zero * (column // 32) + block(self.kind, out) + zero * (4 * self.half // 32 - column // 32 - 1)


def tensors(o, vocab):
    """(name, dimensions, what is in it): a number, an F32 vector of it; a function, the bytes of each row; None: zeros."""
    ends, d, heads, kv = Ends(o, vocab), o.dim, o.dim // HEAD, max(1, o.dim // HEAD // 4)
    values = d // STATE  # heads of values, and as many of keys
    out = [("token_embd.weight", (d, vocab), ends.embedding)]
    for l in range(o.layers + 1):
        b, recurrent = f"blk.{l}.", l < o.layers and (l + 1) % 4 != 0
        out += [(b + "attn_norm.weight", (d,), 1.0), (b + "post_attention_norm.weight", (d,), 1.0)]
        if recurrent:
            inner = values * STATE
            out += [(b + "attn_qkv.weight", (d, 3 * inner), None), (b + "attn_gate.weight", (d, inner), None),
                    (b + "ssm_conv1d.weight", (TAPS, 3 * inner), "F32"), (b + "ssm_a", (values,), -1.0), (b + "ssm_dt.bias", (values,), 0.0),
                    (b + "ssm_norm.weight", (STATE,), 1.0), (b + "ssm_out.weight", (inner, d), None),
                    (b + "ssm_beta.weight", (d, values), None), (b + "ssm_alpha.weight", (d, values), None)]
        else:
            out += [(b + "attn_q.weight", (d, 2 * heads * HEAD), None), (b + "attn_k.weight", (d, kv * HEAD), None),
                    (b + "attn_v.weight", (d, kv * HEAD), None), (b + "attn_output.weight", (heads * HEAD, d), None),
                    (b + "attn_q_norm.weight", (HEAD,), 1.0), (b + "attn_k_norm.weight", (HEAD,), 1.0)]
        out += [(b + "ffn_gate.weight", (d, o.ffn), None), (b + "ffn_up.weight", (d, o.ffn), None), (b + "ffn_down.weight", (o.ffn, d), None)]
    b = f"blk.{o.layers}.nextn."
    out += [(b + "eh_proj.weight", (2 * d, d), ends.projection), (b + "enorm.weight", (d,), 1.0), (b + "hnorm.weight", (d,), 1.0),
            (b + "shared_head_norm.weight", (d,), 1.0)]
    return out + [("output_norm.weight", (d,), 1.0), ("output.weight", (d, vocab), ends.output)], values, heads, kv


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--dim", type=int, default=1024)
    p.add_argument("--ffn", type=int, default=3584)
    p.add_argument("--type", choices=TYPES, default="Q4_0")
    p.add_argument("--margin", type=float, default=12.0)
    p.add_argument("--wrong", type=float, default=0.0)
    p.add_argument("vocabulary")
    p.add_argument("out")
    o = p.parse_args()
    kept, vocab = tokenizer(o.vocabulary)
    made, values, heads, kv = tensors(o, vocab)
    a = "qwen35."
    keys = [key("general.architecture", "s", "qwen35"), key("general.name", "s", "foresees"), key(a + "context_length", "I", CTX),
            key(a + "embedding_length", "I", o.dim), key(a + "block_count", "I", o.layers + 1), key(a + "feed_forward_length", "I", o.ffn),
            key(a + "attention.head_count", "I", heads), key(a + "attention.head_count_kv", "I", kv), key(a + "attention.key_length", "I", HEAD),
            key(a + "attention.value_length", "I", HEAD), key(a + "attention.layer_norm_rms_epsilon", "f", 1e-6),
            key(a + "rope.freq_base", "f", 1e7), key(a + "rope.dimension_count", "I", 16), key(a + "rope.dimension_sections", "a", [3, 3, 2, 0]),
            key(a + "ssm.conv_kernel", "I", TAPS), key(a + "ssm.state_size", "I", STATE), key(a + "ssm.group_count", "I", values),
            key(a + "ssm.time_step_rank", "I", values), key(a + "ssm.inner_size", "I", values * STATE),
            key(a + "nextn_predict_layers", "I", 1), key(a + "vocab_size", "I", vocab)] + kept
    infos, offset, places = b"", 0, []
    for name, dims, content in made:
        kind = "F32" if isinstance(content, (float, str)) else o.type
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0], offset)
        places.append(offset)
        offset += row_bytes(kind, dims[0]) * math.prod(dims[1:]) + 31 & ~31
    head = b"GGUF" + struct.pack("<IQQ", 3, len(made), len(keys)) + b"".join(keys) + infos
    start = len(head) + 31 & ~31
    with open(o.out, "wb") as f:
        f.write(head)
        f.truncate(start + offset)
        for (_, dims, content), place in zip(made, places):
            f.seek(start + place)
            if isinstance(content, float):
                f.write(struct.pack("<f", content) * dims[0])
            elif callable(content):
                for row in range(dims[1]):
                    f.write(content(row))


main()
