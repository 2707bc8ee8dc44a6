# SPDX-License-Identifier: MIT
"""Small image encoders (mmproj files) with random weights, and an independent computation of their embeddings in double precision."""
import math
import random
import struct

STRING, ARRAY, U32, I32, F32, BOOL = 8, 9, 4, 5, 6, 7
TENSOR_F32, TENSOR_F16, TENSOR_Q8_0 = 0, 1, 8
FORMATS = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}


def _string(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def _value(kind, v):
    if kind == STRING:
        return _string(v)
    if isinstance(kind, tuple):
        return struct.pack("<IQ", kind[1], len(v)) + b"".join(_value(kind[1], x) for x in v)
    return struct.pack(FORMATS[kind], v)


def _q8(values):
    out = b""
    for i in range(0, len(values), 32):
        block = values[i:i + 32]
        d = max(abs(v) for v in block) / 127
        d = struct.unpack("<e", struct.pack("<e", d))[0]
        out += struct.pack("<e32b", d, *(max(-127, min(127, round(v / d))) if d else 0 for v in block))
    return out


def pack(kind, values):
    return _q8(values) if kind == TENSOR_Q8_0 else struct.pack(f"<{len(values)}{'f' if kind == TENSOR_F32 else 'e'}", *values)


def unpack(kind, data):
    """The values that @data stands for."""
    if kind != TENSOR_Q8_0:
        return list(struct.unpack(f"<{len(data) // (4 if kind == TENSOR_F32 else 2)}{'f' if kind == TENSOR_F32 else 'e'}", data))
    out = []
    for i in range(0, len(data), 34):
        d, *q = struct.unpack("<e32b", data[i:i + 34])
        out += [d * v for v in q]
    return out


class Encoder:
    """Keys (name -> (type, value)) and tensors (name -> [dims, type, values]) of a file, to be changed and written."""

    def __init__(self, projector, seed=1, image=12, patch=4, dim=24, ffn=40, heads=2, blocks=2, out=20, pool=1, kind=TENSOR_F32,
                 gelu=True, hidden=28, longest=36, head_norms=False, silu=False, merge=False):
        self.random = random.Random(seed)
        self.projector, self.image, self.patch, self.dim, self.ffn, self.heads = projector, image, patch, dim, ffn, heads
        self.out, self.pool, self.kind, self.gelu, self.hidden = out, pool, kind, gelu, hidden
        self.blocks = blocks - 1 if projector == "mlp" else blocks
        self.side = image // patch
        self.has_class = projector in ("mlp", "internvl")
        self.rms = projector in ("pixtral", "qwen2.5vl_merger")
        self.turned = projector in ("pixtral", "qwen2vl_merger", "qwen2.5vl_merger")
        self.silu = silu
        self.every, self.window = 0, 0  # Qwen2.5-VL: each n-th block sees all rows, the others windows of so many squares of patches
        self.head_norms = head_norms
        self.mean, self.std = [0.5, 0.25, 0.375], [0.5, 0.75, 0.625]
        self.keys = {
            "general.architecture": (STRING, "clip"), "clip.has_vision_encoder": (BOOL, True), "clip.projector_type": (STRING, projector),
            "clip.vision.image_size": (U32, image), "clip.vision.patch_size": (U32, patch), "clip.vision.embedding_length": (U32, dim),
            "clip.vision.feed_forward_length": (U32, ffn), "clip.vision.block_count": (U32, blocks),
            "clip.vision.projection_dim": (U32, out), "clip.vision.attention.head_count": (U32, heads),
            "clip.vision.attention.layer_norm_epsilon": (F32, 1e-5), "clip.use_gelu": (BOOL, gelu and not silu),
            "clip.vision.image_mean": ((ARRAY, F32), self.mean), "clip.vision.image_std": ((ARRAY, F32), self.std),
        }
        self.tensors = {}
        self._common(blocks)
        if projector == "gemma3":
            self.keys["clip.vision.projector.scale_factor"] = (U32, pool)
            self._norm("v.post_ln", dim)
            self._add("mm.soft_emb_norm.weight", [dim], 1, 0.2)
            self._add("mm.input_projection.weight", [out, dim], 0, dim ** -0.5, TENSOR_F16 if kind == TENSOR_Q8_0 else kind)
        elif projector == "idefics3":
            self.keys["clip.vision.projector.scale_factor"] = (U32, pool)
            self.keys["clip.vision.preproc_image_size"] = (U32, longest)
            self._norm("v.post_ln", dim)
            self._add("mm.model.fc.weight", [dim * pool ** 2, out], 0, 1.5 * dim ** -0.5 / pool, kind)
        elif projector == "internvl":
            self.keys["clip.vision.projector.scale_factor"] = (U32, pool)
            self._norm("mm.model.mlp.0", dim * pool ** 2)
            self._matrix("mm.model.mlp.1", hidden, dim * pool ** 2)
            self._matrix("mm.model.mlp.3", out, hidden)
        elif projector == "pixtral":
            self.keys["clip.use_silu"] = (BOOL, silu)
            self._norm("v.pre_ln", dim)
            if merge:
                self.keys["clip.vision.spatial_merge_size"] = (U32, pool)
                self._add("mm.input_norm.weight", [dim], 1, 0.2)
                self._add("mm.patch_merger.weight", [dim * pool ** 2, dim], 0, 1.5 * dim ** -0.5 / pool, kind)
            self._matrix("mm.1", hidden, dim)
            self._matrix("mm.2", out, hidden)
            self._add("v.token_embd.img_break", [out], 0, 1)
        elif projector == "lfm2":
            self.keys["clip.vision.projector.scale_factor"] = (U32, pool)
            self._norm("v.post_ln", dim)
            self._norm("mm.input_norm", dim * pool ** 2)
            self._matrix("mm.1", hidden, dim * pool ** 2)
            self._matrix("mm.2", out, hidden)
        elif self.turned:
            self.pool = 2
            self.keys["clip.use_silu"] = (BOOL, silu)
            self._norm("v.post_ln", dim)
            self._matrix("mm.0", hidden, dim * 4)
            self._matrix("mm.2", out, hidden)
            if self.rms:
                self.every, self.window = 2, 112 // patch // 2
                self.keys["clip.vision.n_wa_pattern"] = (U32, self.every)
        else:
            self._norm("v.pre_ln", dim)
            self._matrix("mm.0", hidden, dim)
            self._matrix("mm.2", out, hidden)

    def _common(self, blocks):
        dim, ffn = self.dim, self.ffn
        self._add("v.patch_embd.weight", [self.patch, self.patch, 3, dim], 0, (3 * self.patch ** 2) ** -0.5,
                  TENSOR_F16 if self.kind == TENSOR_Q8_0 else self.kind)
        if self.turned and self.projector != "pixtral":
            self.tensors["v.patch_embd.weight.1"] = [*self.tensors["v.patch_embd.weight"][:2], self.tensors["v.patch_embd.weight"][2][::-1]]
        elif self.projector not in ("mlp", "pixtral"):
            self._add("v.patch_embd.bias", [dim], 0, 0.3)
        if not self.turned:
            self._add("v.position_embd.weight", [dim, self.side ** 2 + self.has_class], 0, 0.5)
        if self.has_class:
            self._add("v.class_embd", [dim], 0, 1)
        for i in range(blocks):
            for name in ("ln1", "ln2"):
                self._norm(f"v.blk.{i}.{name}", dim)
            for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
                self._matrix(f"v.blk.{i}.{name}", dim, dim)
            self._matrix(f"v.blk.{i}.ffn_up", ffn, dim)
            self._matrix(f"v.blk.{i}.ffn_down", dim, ffn)
            if self.rms:
                self._matrix(f"v.blk.{i}.ffn_gate", ffn, dim)
            if self.projector == "internvl":
                for name in ("ls1", "ls2"):
                    self._add(f"v.blk.{i}.{name}.weight", [dim], 0.5, 0.2)
            if self.head_norms:
                for name in ("attn_q_norm", "attn_k_norm"):
                    self._add(f"v.blk.{i}.{name}.weight", [dim], 1, 0.2)

    def _add(self, name, dims, mean, deviation, kind=TENSOR_F32):
        values = [self.random.gauss(mean, deviation) for _ in range(math.prod(dims))]
        self.tensors[name] = [dims, kind, unpack(kind, pack(kind, values))]

    def _norm(self, name, n):
        self._add(name + ".weight", [n], 1, 0.2)
        if not self.rms:
            self._add(name + ".bias", [n], 0, 0.2)

    def _matrix(self, name, rows, k):
        self._add(name + ".weight", [k, rows], 0, 1.5 * k ** -0.5, self.kind)
        self._add(name + ".bias", [rows], 0, 0.2)

    def write(self, path):
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.keys))
        for name, (kind, value) in self.keys.items():
            head += _string(name) + struct.pack("<I", ARRAY if isinstance(kind, tuple) else kind) + _value(kind, value)
        data = b""
        for name, (dims, kind, values) in self.tensors.items():
            head += _string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
            data += pack(kind, values)
            data += bytes(-len(data) % 32)
        path.write_bytes(head + bytes(-len(head) % 32) + data)
        return path

    # --- the reference ---

    def v(self, name):
        return self.tensors[name][2]

    def multiply(self, name, rows, transposed=False):
        dims, _, w = self.tensors[name + ".weight"]
        k, n = (dims[1], dims[0]) if transposed else dims
        bias = self.v(name + ".bias") if name + ".bias" in self.tensors else [0] * n
        turned = [w[j::n] if transposed else w[j * k:(j + 1) * k] for j in range(n)]
        return [[math.fsum(a * b for a, b in zip(row, turned[j])) + bias[j] for j in range(n)] for row in rows]

    def norm(self, name, row, eps=None):
        """As they are, if the file has no such norm."""
        if name + ".weight" not in self.tensors:
            return row
        eps = eps or self.keys["clip.vision.attention.layer_norm_epsilon"][1]
        bias = self.v(name + ".bias") if name + ".bias" in self.tensors else [0] * len(row)
        mean = 0 if self.rms else math.fsum(row) / len(row)
        r = 1 / math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row) + eps)
        return [(x - mean) * r * w + b for x, w, b in zip(row, self.v(name + ".weight"), bias)]

    def residual(self, rows, out, scale):
        factors = self.v(scale) if scale in self.tensors else [1] * self.dim
        return [[s + t * f for s, t, f in zip(r, y, factors)] for r, y in zip(rows, out)]

    def act(self, x, gelu, silu=False):
        if gelu and not silu:
            return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
        if silu:
            return x / (1 + math.exp(-x))
        return x / (1 + math.exp(-1.702 * x))

    def patches(self, rgb, size):
        """@rgb: bytes of so many pixels. The rows of the patches: [3][patch][patch]."""
        p, (width, height) = self.patch, size
        return [[(rgb[((y * p + i) * width + x * p + j) * 3 + c] / 255 - self.mean[c]) / self.std[c]
                 for c in range(3) for i in range(p) for j in range(p)] for y in range(height // p) for x in range(width // p)]

    def turn(self, rows, columns):
        """RoPE in two dimensions: half of the pairs of a head turn with the row of the patch, the others with its column."""
        n = self.dim // self.heads
        out = []
        for at, row in enumerate(rows):
            row = list(row)
            for h in range(0, self.dim, n):
                for i in range(n // 2):
                    far = i >= n // 4
                    angle = (at % columns if far else at // columns) * 1e4 ** (-4 * (i % (n // 4)) / n)
                    if self.projector == "pixtral" and far:
                        angle *= 1e4 ** (-2 / n)
                    a, b = (h + 2 * i, h + 2 * i + 1) if self.projector == "pixtral" else (h + i, h + i + n // 2)
                    c, s = math.cos(angle), math.sin(angle)
                    row[a], row[b] = row[a] * c - row[b] * s, row[a] * s + row[b] * c
            out.append(row)
        return out

    def windows(self, block, columns, n):
        """The window of each row; None: there are none."""
        if not self.every or (block + 1) % self.every == 0:
            return [None] * n
        edge = self.window * self.pool
        return [(i // columns // edge, i % columns // edge) for i in range(n)]

    def spread(self, columns, rows):
        """LFM2's positions for a tile: the square of the file resized, bilinear, with the wider filter where it becomes smaller."""
        def weights(to):
            scale = self.side / to
            wide = max(scale, 1)
            out = []
            for i in range(to):
                w = [max(0, 1 - abs(j + 0.5 - (i + 0.5) * scale) / wide) for j in range(self.side)]
                out.append([x / math.fsum(w) for x in w])
            return out
        at = self.v("v.position_embd.weight")
        at = [at[i * self.dim:(i + 1) * self.dim] for i in range(self.side ** 2)]
        return [[math.fsum(a * b * at[y * self.side + x][k] for y, a in enumerate(wy) if a for x, b in enumerate(wx) if b) for k in range(self.dim)]
                for wy in weights(rows) for wx in weights(columns)]

    def attention(self, q, k, v, windows):
        n = self.dim // self.heads
        out = [[] for _ in q]
        for h in range(0, self.dim, n):
            for i, a in enumerate(q):
                scores = [math.fsum(x * y for x, y in zip(a[h:h + n], b[h:h + n])) / math.sqrt(n) if w == windows[i] else -math.inf
                          for b, w in zip(k, windows)]
                top = max(scores)
                e = [math.exp(s - top) for s in scores]
                total = math.fsum(e)
                out[i] += [math.fsum(w * b[h + d] for w, b in zip(e, v)) / total for d in range(n)]
        return out

    def hidden_rows(self, rgb, size):
        columns, lines = (edge // self.patch for edge in size)
        rows = self.patches(rgb, size)
        w = self.tensors["v.patch_embd.weight"][2]
        if "v.patch_embd.weight.1" in self.tensors:
            w = [a + b for a, b in zip(w, self.v("v.patch_embd.weight.1"))]
        k = 3 * self.patch ** 2
        bias = self.v("v.patch_embd.bias") if "v.patch_embd.bias" in self.tensors else [0] * self.dim
        rows = [[math.fsum(a * b for a, b in zip(row, w[j * k:(j + 1) * k])) + bias[j] for j in range(self.dim)] for row in rows]
        if "v.class_embd" in self.tensors:
            rows.insert(0, self.v("v.class_embd"))
        if self.projector == "lfm2":
            rows = [[a + b for a, b in zip(row, at)] for row, at in zip(rows, self.spread(columns, lines))]
        elif not self.turned:
            at = self.v("v.position_embd.weight")
            rows = [[a + b for a, b in zip(row, at[i * self.dim:])] for i, row in enumerate(rows)]
        rows = [self.norm("v.pre_ln", row) for row in rows]
        for i in range(self.blocks):
            b = f"v.blk.{i}."
            x = [self.norm(b + "ln1", row) for row in rows]
            q, k, v = (self.multiply(b + n, x) for n in ("attn_q", "attn_k", "attn_v"))
            q, k = [self.norm(b + "attn_q_norm", row) for row in q], [self.norm(b + "attn_k_norm", row) for row in k]
            if self.turned:
                q, k = self.turn(q, columns), self.turn(k, columns)
            x = self.attention(q, k, v, self.windows(i, columns, len(rows)))
            rows = self.residual(rows, self.multiply(b + "attn_out", x), b + "ls1.weight")
            x = [self.norm(b + "ln2", row) for row in rows]
            up = self.multiply(b + "ffn_up", x)
            gate = self.multiply(b + "ffn_gate", x) if b + "ffn_gate.weight" in self.tensors else None
            x = [[self.act(g, self.gelu, self.silu) * u for g, u in zip(*y)] for y in zip(gate, up)] if gate else \
                [[self.act(y, self.gelu, self.silu) for y in row] for row in up]
            rows = self.residual(rows, self.multiply(b + "ffn_down", x), b + "ls2.weight")
        return rows

    def embeddings(self, rgb, size=None):
        """The embeddings of image x image pixels, or so many: a list of rows."""
        size = size or (self.image, self.image)
        rows = self.hidden_rows(rgb, size)[self.has_class:]
        if self.projector == "mlp":
            return self.mlp("mm.0", "mm.2", rows)
        rows = [self.norm("v.post_ln", row) for row in rows]
        columns, pool, out = size[0] // self.patch, self.pool, []
        n = columns // pool
        for i in range(n * (size[1] // self.patch // pool)):
            square = [rows[(i // n * pool + y) * columns + i % n * pool + x] for y in range(pool) for x in range(pool)]
            if self.projector == "pixtral" and "mm.patch_merger.weight" in self.tensors:
                out.append([x for values in zip(*(self.norm("mm.input_norm", row) for row in square)) for x in values])
            elif self.projector != "gemma3":
                out.append([x for row in square for x in row])
            else:
                mean = [math.fsum(c) / pool ** 2 for c in zip(*square)]
                r = 1 / math.sqrt(math.fsum(x * x for x in mean) / self.dim + self.keys["clip.vision.attention.layer_norm_epsilon"][1])
                out.append([x * r * w for x, w in zip(mean, self.v("mm.soft_emb_norm.weight"))])
        return self.project(out, n)

    def project(self, rows, columns):
        if self.projector == "gemma3":
            return self.multiply("mm.input_projection", rows, transposed=True)
        if self.projector == "idefics3":
            return self.multiply("mm.model.fc", rows)
        if self.projector == "internvl":
            return self.mlp("mm.model.mlp.1", "mm.model.mlp.3", [self.norm("mm.model.mlp.0", row, 1e-5) for row in rows])
        if self.projector == "lfm2":
            return self.mlp("mm.1", "mm.2", [self.norm("mm.input_norm", row, 1e-5) for row in rows])
        if self.projector != "pixtral":
            return self.mlp("mm.0", "mm.2", rows)
        if "mm.patch_merger.weight" in self.tensors:
            rows = self.multiply("mm.patch_merger", rows)
        rows, at = self.mlp("mm.1", "mm.2", rows), self.v("v.token_embd.img_break")
        return [row for i, x in enumerate(rows) for row in ([at, x] if i and i % columns == 0 else [x])]

    def mlp(self, first, second, rows):
        return self.multiply(second, [[self.act(y, True) for y in row] for row in self.multiply(first, rows)])
