# SPDX-License-Identifier: MIT
"""Images and sounds for tests, whole and broken, made by hand where no library makes them."""
import ctypes
import ctypes.util
import io
import struct
import zlib

# Adam7: first row, first column, step of rows, step of columns
PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of the color types of PNG


def chunk(name, body=b"", crc=None):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body) if crc is None else crc)


def scanlines(rows, depth):
    """Rows of samples as bytes, each behind the filter "none"."""
    out = b""
    for row in rows:
        if depth == 16:
            out += b"\0" + b"".join(struct.pack(">H", v) for v in row)
        elif depth == 8:
            out += b"\0" + bytes(row)
        else:
            per, line = 8 // depth, b""
            for i in range(0, len(row), per):
                part = list(row[i:i + per]) + [0] * (per - len(row[i:i + per]))
                line += bytes([sum(v << (8 - depth * (k + 1)) for k, v in enumerate(part))])
            out += b"\0" + line
    return out


def adam7(rows, n):
    """The rows of the seven passes; a pixel has @n samples."""
    out, width = [], len(rows[0]) // n
    for y0, x0, dy, dx in PASSES:
        if x0 >= width:
            continue
        for row in rows[y0::dy]:
            out.append([v for x in range(x0, width, dx) for v in row[x * n:(x + 1) * n]])
    return out


def png(rows, kind, depth=8, interlace=False, before=b"", after=b"", size=None, idat=None):
    """@rows: lists of samples; @before, @after: chunks around IDAT; @size: what the header says instead."""
    n = CHANNELS[kind]
    w, h = size or (len(rows[0]) // n, len(rows))
    data = zlib.compress(scanlines(adam7(rows, n) if interlace else rows, depth)) if idat is None else idat
    half = len(data) // 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, interlace)) + before +
            chunk(b"IDAT", data[:half]) + chunk(b"IDAT", data[half:]) + after + chunk(b"IEND"))


def chunks(data):
    """Name -> offset of each chunk of a PNG."""
    at, out = 8, {}
    while at + 8 <= len(data):
        out.setdefault(data[at + 4:at + 8], at)
        at += 12 + struct.unpack(">I", data[at:at + 4])[0]
    return out


def exif(orientation, big=True, value_type=3):
    order = ">" if big else "<"
    return ((b"MM" if big else b"II") + struct.pack(order + "HIH", 42, 8, 2) + struct.pack(order + "HHIHH", 0x010f, 3, 1, 7, 0) +
            struct.pack(order + "HHIHH", 0x0112, value_type, 1, orientation, 0) + struct.pack(order + "I", 0))


def saved(image, **kw):
    out = io.BytesIO()
    image.save(out, **kw)
    return out.getvalue()


def wav(samples, rate=16000, channels=1, kind=1, bits=16, size=None):
    """@samples: bytes; @size: what the header says instead."""
    size = len(samples) if size is None else size
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits)
    return (b"RIFF" + struct.pack("<I", min(36 + size, 0xffffffff)) + b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" +
            struct.pack("<I", size) + samples)


class Info(ctypes.Structure):
    _fields_ = [("frames", ctypes.c_int64), ("rate", ctypes.c_int), ("channels", ctypes.c_int), ("format", ctypes.c_int),
                ("sections", ctypes.c_int), ("seekable", ctypes.c_int)]


SOUNDS = {"flac": 0x170002, "vorbis": 0x200060, "opus": 0x200064, "mp3": 0x230082, "wavex": 0x130006, "rf64": 0x220002, "aiff": 0x020002,
          "ulaw": 0x010010}


def sound(path, name, frames, rate, channels):
    """Write the floats @frames with libsndfile. Returns the bytes of the file."""
    lib = ctypes.CDLL(ctypes.util.find_library("sndfile") or "libsndfile.so.1")
    lib.sf_open.restype = ctypes.c_void_p
    lib.sf_close.argtypes = [ctypes.c_void_p]
    lib.sf_writef_float.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    lib.sf_writef_float.restype = ctypes.c_int64
    info = Info(rate=rate, channels=channels, format=SOUNDS[name])
    f = lib.sf_open(str(path).encode(), 0x20, ctypes.byref(info))
    assert f, name
    data = (ctypes.c_float * len(frames))(*frames)
    assert lib.sf_writef_float(f, data, len(frames) // channels) == len(frames) // channels
    lib.sf_close(f)
    return path.read_bytes()
