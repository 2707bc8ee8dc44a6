# SPDX-License-Identifier: MIT
"""Small encoders of sounds (mmproj files) with random weights, sounds, and an independent computation of their spectra and embeddings with numpy
in double precision."""
import math
import random

import numpy as np
from mmprojfiles import BOOL, F32, STRING, TENSOR_F16, TENSOR_F32, U32, Encoder

RATE, WINDOW, HOP = 16000, 400, 160
CHUNK, PLACES = 3000, 1500  # frames of a chunk, and rows of the transformer
FLOOR = 5.960464477539063e-08


class SoundEncoder(Encoder):
    """Keys and tensors of a file, as in mmprojfiles.Encoder."""

    def __init__(self, projector, seed=1, bins=80, dim=24, ffn=40, heads=2, blocks=2, out=20, stack=8, hidden=28, kind=TENSOR_F32, taps=TENSOR_F16):
        self.random = random.Random(seed)
        self.projector, self.bins, self.dim, self.ffn, self.heads = projector, bins, dim, ffn, heads
        self.blocks, self.out, self.hidden, self.kind = blocks, out, hidden, kind
        self.stack, self.rms = 1 if projector == "qwen2a" else stack, False
        self.keys = {
            "general.architecture": (STRING, "clip"), "clip.has_audio_encoder": (BOOL, True), "clip.projector_type": (STRING, projector),
            "clip.audio.num_mel_bins": (U32, bins), "clip.audio.embedding_length": (U32, dim), "clip.audio.feed_forward_length": (U32, ffn),
            "clip.audio.block_count": (U32, blocks), "clip.audio.projection_dim": (U32, out), "clip.audio.attention.head_count": (U32, heads),
            "clip.audio.attention.layer_norm_epsilon": (F32, 1e-5),
        }
        self.tensors = {}
        for i, width in enumerate((bins, dim)):
            self._add(f"a.conv1d.{i + 1}.weight", [3, width, dim], 0, 1.5 * (3 * width) ** -0.5, taps)
            self._add(f"a.conv1d.{i + 1}.bias", [1, dim], 0, 0.2)
        self._add("a.position_embd.weight", [dim, PLACES], 0, 0.5)
        self._norm("a.post_ln", dim)
        for i in range(blocks):
            b = f"a.blk.{i}."
            for name in ("ln1", "ln2"):
                self._norm(b + name, dim)
            for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
                self._matrix(b + name, dim, dim)
            del self.tensors[b + "attn_k.bias"]
            self._matrix(b + "ffn_up", ffn, dim)
            self._matrix(b + "ffn_down", dim, ffn)
        self._projector()

    def _projector(self):
        wide = self.dim * self.stack
        if self.projector == "qwen2a":
            self._matrix("mm.a.fc", self.out, self.dim)
            return
        self.keys["clip.audio.projector.stack_factor"] = (U32, self.stack)
        both = self.projector == "ultravox"
        self._add("mm.a.mlp.1.weight", [wide, self.hidden * (1 + both)], 0, 1.5 * wide ** -0.5, self.kind)
        self._add("mm.a.mlp.2.weight", [self.hidden, self.out], 0, 1.5 * self.hidden ** -0.5, self.kind)
        if both:
            self._add("mm.a.norm_pre.weight", [wide], 1, 0.2)
            self._add("mm.a.norm_mid.weight", [self.hidden], 1, 0.2)

    # --- the reference ---

    def embeddings(self, samples, pooled=False):
        """A row for each embedding. @pooled: Voxtral as llama.cpp computes it."""
        return np.concatenate([self.chunk(mel, pooled) for mel in spectrogram(samples, self.bins)])

    def array(self, name):
        dims, _, values = self.tensors[name]
        return np.array(values).reshape(dims[::-1])

    def product(self, name, rows):
        out = rows @ self.array(name + ".weight").T
        return out + self.array(name + ".bias") if name + ".bias" in self.tensors else out

    def layer_norm(self, name, rows):
        eps = self.keys["clip.audio.attention.layer_norm_epsilon"][1]
        rows = rows - rows.mean(1, keepdims=True)
        return rows / np.sqrt((rows ** 2).mean(1, keepdims=True) + eps) * self.array(name + ".weight") + self.array(name + ".bias")

    def rms_norm(self, name, rows):
        return rows / np.sqrt((rows ** 2).mean(1, keepdims=True) + 1e-6) * self.array(name + ".weight")

    def convolve(self, i, rows, stride):
        w = self.array(f"a.conv1d.{i}.weight")  # [out][in][3]
        rows = np.pad(rows, ((1, 1), (0, 0)))
        out = sum(rows[j:len(rows) - 2 + j:stride] @ w[:, :, j].T for j in range(3))
        return gelu(out + self.array(f"a.conv1d.{i}.bias").ravel())

    def attention(self, q, k, v):
        n = self.dim // self.heads
        out = np.empty_like(q)
        for h in range(0, self.dim, n):
            scores = q[:, h:h + n] @ k[:, h:h + n].T / math.sqrt(n)
            e = np.exp(scores - scores.max(1, keepdims=True))
            out[:, h:h + n] = e @ v[:, h:h + n] / e.sum(1, keepdims=True)
        return out

    def chunk(self, mel, pooled):
        rows = self.convolve(2, self.convolve(1, mel, 1), 2) + self.array("a.position_embd.weight")
        for i in range(self.blocks):
            b = f"a.blk.{i}."
            x = self.layer_norm(b + "ln1", rows)
            rows = rows + self.product(b + "attn_out", self.attention(*(self.product(b + "attn_" + n, x) for n in "qkv")))
            rows = rows + self.product(b + "ffn_down", gelu(self.product(b + "ffn_up", self.layer_norm(b + "ln2", rows))))
        if pooled or self.projector == "qwen2a":
            rows = (rows[0::2] + rows[1::2]) / 2
        rows = self.layer_norm("a.post_ln", rows)
        if self.projector == "qwen2a":
            return self.product("mm.a.fc", rows)
        rows = rows[:len(rows) // self.stack * self.stack].reshape(-1, self.dim * self.stack)
        if self.projector == "voxtral":
            return self.product("mm.a.mlp.2", gelu(self.product("mm.a.mlp.1", rows)))
        both = self.product("mm.a.mlp.1", self.rms_norm("mm.a.norm_pre", rows))
        rows, gate = both[:, :self.hidden], both[:, self.hidden:]
        return self.product("mm.a.mlp.2", self.rms_norm("mm.a.norm_mid", rows * gate / (1 + np.exp(-gate))))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def mel_filters(bins):
    """[bins][201]: triangles on Slaney's scale, of area 1 in Hz."""
    def to_hz(m):
        return m * 200 / 3 if m < 15 else 1000 * math.exp((m - 15) * math.log(6.4) / 27)
    top = 15 + math.log(8) * 27 / math.log(6.4)  # 8000 Hz
    edges = [to_hz(top * i / (bins + 1)) for i in range(bins + 2)]
    hz = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    return np.array([np.maximum(0, np.minimum((hz - a) / (b - a), (c - hz) / (c - b))) * 2 / (c - a)
                     for a, b, c in zip(edges, edges[1:], edges[2:])])


def spectrogram(samples, bins):
    """The chunks, each [3000][bins]. One mirrored half of a window stands before the sound, silence follows it."""
    padded = np.concatenate([np.array(samples), np.zeros(max(0, WINDOW // 2 + 1 - len(samples)))])
    padded = np.concatenate([padded[WINDOW // 2:0:-1], padded, np.zeros(30 * RATE + WINDOW // 2)])
    frames = (len(padded) - WINDOW) // HOP + 1
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.array([np.abs(np.fft.rfft(padded[i * HOP:i * HOP + WINDOW] * hann)) ** 2 for i in range(frames)])
    mel = np.log10(np.maximum(power @ mel_filters(bins).T, FLOOR))
    mel = (np.maximum(mel, mel.max() - 8) + 4) / 4
    return [mel[i:i + CHUNK] for i in range(0, frames - CHUNK + 1, CHUNK)]
