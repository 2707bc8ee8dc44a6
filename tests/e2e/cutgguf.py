# SPDX-License-Identifier: MIT
"""Cut a GGUF file into parts, as llama-gguf-split does."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def text(s):
    return struct.pack("<Q", len(s)) + s


def skip_value(data, at, kind):
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        return at + SIZES[kind]
    element, n = struct.unpack_from("<IQ", data, at)
    at += 12
    if element != STRING:
        return at + n * SIZES[element]
    for _ in range(n):
        at = skip_value(data, at, STRING)
    return at


def read(data):
    """The bytes of all keys, their number, and each tensor's (name and shape, type, data)."""
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(n_keys):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at = skip_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
    keys, infos = data[24:at], []
    for _ in range(n_tensors):
        begin = at
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0]
        infos.append((data[begin:at], *struct.unpack_from("<IQ", data, at)))
        at += 12
    data = data[(at + 31) // 32 * 32:]
    ends = sorted(offset for _, _, offset in infos) + [len(data)]
    return keys, n_keys, [(head, kind, data[offset:ends[ends.index(offset) + 1]]) for head, kind, offset in infos]


def split_keys(no, count, tensors):
    return (text(b"split.no") + struct.pack("<IH", 2, no) + text(b"split.count") + struct.pack("<IH", 2, count) +
            text(b"split.tensors.count") + struct.pack("<Ii", 5, tensors))


def write(path, keys, n_keys, tensors):
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), n_keys) + keys
    body = b""
    for head, kind, data in tensors:
        body += b"\0" * (-len(body) % 32)
        out += head + struct.pack("<IQ", kind, len(body))
        body += data
    out += b"\0" * (-len(out) % 32)
    path.write_bytes(out + body)


def cut(source, stem, count):
    """Write STEM-00001-of-0000N.gguf and so on; return their paths."""
    keys, n_keys, tensors = read(source.read_bytes())
    paths = [stem.with_name(f"{stem.name}-{i + 1:05}-of-{count:05}.gguf") for i in range(count)]
    for i, path in enumerate(paths):
        mine = tensors[len(tensors) * i // count:len(tensors) * (i + 1) // count]
        own = split_keys(i, count, len(tensors))
        write(path, keys + own if i == 0 else own, n_keys + 3 if i == 0 else 3, mine)
    return paths
