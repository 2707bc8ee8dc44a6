#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file of the shape of LFM2 1.2B, Granite 4.0 H 1B or Qwen 3.5 2B with random weights, for measuring: hobd bench, llama-bench.
usage: recurrent_model.py [--type Q4_0|Q8_0] lfm2|granitehybrid|qwen35 VOCABULARY OUT
VOCABULARY is a GGUF file, whose tokenizer is taken over."""
import argparse
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from sparse_model import text, tokenizer  # noqa: E402

TYPES = {"F32": (0, 1, 4), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34)}  # number, values and bytes of a block
SHAPES = {
    "lfm2": dict(dim=2048, ffn=8192, heads=32, kv=8, layers=16, attention=[2, 5, 8, 10, 12, 14], taps=3),
    "granitehybrid": dict(dim=1536, ffn=4096, heads=12, kv=4, layers=40, attention=[5, 15, 25, 35], taps=4, inner=3072, state=128,
                          ssm_heads=48, groups=1),
    "qwen35": dict(dim=2048, ffn=6144, heads=8, kv=2, head=256, layers=24, attention=[3, 7, 11, 15, 19, 23], taps=4, inner=2048, state=128,
                   ssm_heads=16, groups=16),
}


def key(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return text(name) + struct.pack("<I?", 7, value)
    if isinstance(value, list):
        return text(name) + struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return text(name) + (struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value))


def keys(arch, s):
    values = {"context_length": 32768, "embedding_length": s["dim"], "block_count": s["layers"], "feed_forward_length": s["ffn"],
              "attention.head_count": s["heads"], "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e6,
              "attention.head_count_kv": [s["kv"] if i in s["attention"] else 0 for i in range(s["layers"])]}
    if arch == "lfm2":
        values["shortconv.l_cache"] = s["taps"]
    else:
        values |= {"ssm.conv_kernel": s["taps"], "ssm.inner_size": s["inner"], "ssm.state_size": s["state"], "ssm.group_count": s["groups"],
                   "ssm.time_step_rank": s["ssm_heads"]}
    if arch == "granitehybrid":
        values |= {"rope.scaling.finetuned": False, "logit_scale": 6.0, "residual_scale": 0.22, "embedding_scale": 12.0,
                   "attention.scale": 0.0078125}
    if arch == "qwen35":
        values |= {"attention.head_count_kv": s["kv"], "attention.key_length": s["head"], "attention.value_length": s["head"],
                   "full_attention_interval": 4, "rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0]}
    return [key("general.architecture", arch), key("general.name", "random")] + [key(f"{arch}.{k}", v) for k, v in values.items()]


def recurrent(arch, s):
    """(name, dimensions, F32 value, or None: random codes)"""
    dim = s["dim"]
    if arch == "lfm2":
        return [("shortconv.in_proj.weight", (dim, 3 * dim), None), ("shortconv.conv.weight", (s["taps"], dim), 0.3),
                ("shortconv.out_proj.weight", (dim, dim), None)]
    inner, heads = s["inner"], s["ssm_heads"]
    if arch == "qwen35":
        return [("attn_qkv.weight", (dim, 3 * inner), None), ("attn_gate.weight", (dim, inner), None),
                ("ssm_beta.weight", (dim, heads), None), ("ssm_alpha.weight", (dim, heads), None),
                ("ssm_conv1d.weight", (s["taps"], 3 * inner), 0.3), ("ssm_a", (heads,), -0.5), ("ssm_dt.bias", (heads,), 0.1),
                ("ssm_norm.weight", (s["state"],), 1.0), ("ssm_out.weight", (inner, dim), None)]
    channels = inner + 2 * s["groups"] * s["state"]
    return [("ssm_in.weight", (dim, inner + channels + heads), None), ("ssm_conv1d.weight", (s["taps"], channels), 0.3),
            ("ssm_conv1d.bias", (channels,), 0.1), ("ssm_dt.bias", (heads,), 0.1), ("ssm_a", (1, heads), -0.5), ("ssm_d", (1, heads), 1.0),
            ("ssm_norm.weight", (inner // s["groups"], s["groups"]), 1.0), ("ssm_out.weight", (inner, dim), None)]


def tensors(arch, s, vocab):
    dim, ffn, head = s["dim"], s["ffn"], s.get("head", s["dim"] // s["heads"])
    queries, gated = s["heads"] * head, 2 if arch == "qwen35" else 1
    out = [("token_embd.weight", (dim, vocab), None)]
    for i in range(s["layers"]):
        part = recurrent(arch, s)
        if i in s["attention"]:
            kv = s["kv"] * head
            part = [("attn_q.weight", (dim, gated * queries), None), ("attn_k.weight", (dim, kv), None), ("attn_v.weight", (dim, kv), None),
                    ("attn_output.weight", (queries, dim), None)]
            part += [("attn_q_norm.weight", (head,), 1.0), ("attn_k_norm.weight", (head,), 1.0)] if arch != "granitehybrid" else []
        norm = "post_attention_norm.weight" if arch == "qwen35" else "ffn_norm.weight"
        part += [("attn_norm.weight", (dim,), 1.0), (norm, (dim,), 1.0), ("ffn_gate.weight", (dim, ffn), None),
                 ("ffn_up.weight", (dim, ffn), None), ("ffn_down.weight", (ffn, dim), None)]
        out += [(f"blk.{i}.{name}", dims, value) for name, dims, value in part]
    return out + [("token_embd_norm.weight" if arch == "lfm2" else "output_norm.weight", (dim,), 1.0)]


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--type", choices=["Q4_0", "Q8_0"], default="Q4_0")
    p.add_argument("arch", choices=SHAPES)
    p.add_argument("vocabulary")
    p.add_argument("out")
    o = p.parse_args()
    kept, vocab = tokenizer(o.vocabulary)
    heads = keys(o.arch, SHAPES[o.arch]) + kept
    made, infos, offset, parts = tensors(o.arch, SHAPES[o.arch], vocab), b"", 0, []
    size = TYPES[o.type][2]
    block = random.Random(1).randbytes
    codes = b"".join(struct.pack("<e", 0.002 if size > 18 else 0.01) + block(size - 2) for _ in range(32768))
    for name, dims, value in made:
        number, values, size = TYPES["F32" if value else o.type]
        n = dims[0] // values * size * (dims[1] if len(dims) > 1 else 1)
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset)
        parts.append((n, struct.pack("<f", value) * (n // 4) if value else None))
        offset += n + -n % 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(made), len(heads)) + b"".join(heads) + infos
    with open(o.out, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for n, data in parts:
            while data is None and n > len(codes):
                n -= f.write(codes)
            f.write(data if data else codes[:n])
            f.write(bytes(-f.tell() % 32))


if __name__ == "__main__":
    main()
