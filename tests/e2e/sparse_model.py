# SPDX-License-Identifier: MIT
"""A large GGUF file that takes no room on the disk: a small one with more and wider layers, and zeros for weights."""
import re
import struct
from pathlib import Path

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of the types of values
BYTES = {0: (1, 4), 2: (32, 18), 8: (32, 34)}  # F32, Q4_0, Q8_0: values and bytes of a block
ALIGN = 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        out = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return out[0]

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, n = self.take("I"), self.take("Q")
            if inner == 8:
                for _ in range(n):
                    self.text()
            else:
                self.at += n * SIZES[inner]
        else:
            self.at += SIZES[kind]


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def tokenizer(path):
    """The keys of the tokenizer, as they are, and the number of tokens."""
    data = Path(path).read_bytes()
    r, out, n = Reader(data), [], 0
    r.at = 16
    for _ in range(r.take("Q")):
        start = r.at
        name, kind = r.text(), r.take("I")
        if name == "tokenizer.ggml.tokens":
            n = struct.unpack_from("<Q", data, r.at + 4)[0]
        r.skip(kind)
        if name.startswith("tokenizer."):
            out.append(data[start:r.at])
    return out, n


def sparse_model(small, out, layers, ffn):
    """Write @out from @small, a file with one layer: @layers layers with @ffn hidden values in the feed-forward network.
    Returns the bytes of all tensors."""
    data = bytearray(small.read_bytes())
    r = Reader(data)
    r.at = 8
    n_tensors, n_keys = r.take("Q"), r.take("Q")
    for _ in range(n_keys):
        name, kind = r.text(), r.take("I")
        if name.endswith(".block_count"):
            struct.pack_into("<I", data, r.at, layers)
        if name.endswith(".feed_forward_length"):
            struct.pack_into("<I", data, r.at, ffn)
        r.skip(kind)
    head, tensors = bytes(data[24:r.at]), []
    for _ in range(n_tensors):
        name = r.text()
        dims = [r.take("Q") for _ in range(r.take("I"))]
        if ".ffn_" in name and len(dims) == 2:
            dims[0 if ".ffn_down." in name else 1] = ffn
        tensors.append((name, dims, r.take("I")))
        r.take("Q")
    infos, offset, total, n = b"", 0, 0, 0
    for layer in range(layers):
        for name, dims, kind in tensors:
            if layer and not name.startswith("blk."):
                continue
            name = re.sub(r"^blk\.0\.", f"blk.{layer}.", name).encode()
            values, bytes_ = BYTES[kind]
            size = dims[0] // values * bytes_
            for d in dims[1:]:
                size *= d
            infos += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
            offset += (size + ALIGN - 1) // ALIGN * ALIGN
            total += size
            n += 1
    start = (24 + len(head) + len(infos) + ALIGN - 1) // ALIGN * ALIGN
    with open(out, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, n, n_keys) + head + infos)
        f.truncate(start + offset)
    return total
