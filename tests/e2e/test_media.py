# SPDX-License-Identifier: MIT
"""hob media: what images and sounds become, and the sentence for each that is broken."""
import io
import json
import math
import os
import random
import signal
import struct
import subprocess
import time
import zlib

import mediafiles as mf
import pytest
from conftest import BUILD, HOB, HOBD

Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
DECODE = BUILD / "daemon" / "hobd-decode"
pytestmark = pytest.mark.skipif(not DECODE.exists(), reason="built without images and sounds")


class Media:
    def __init__(self, root):
        self.root = root
        self.n = 0

    def put(self, data):
        self.n += 1
        path = self.root / f"file{self.n}"
        path.write_bytes(data)
        return path

    def many(self, files):
        """The lines of several files in one call."""
        paths = [self.put(f) for f in files]
        r = subprocess.run([HOB, "media", "--json", *paths], capture_output=True, timeout=120)
        lines = [json.loads(line) for line in r.stdout.splitlines()]
        assert [line["file"] for line in lines] == [str(p) for p in paths] and not r.stderr
        assert r.returncode == any("error" in line for line in lines)
        return lines

    def one(self, data):
        return self.many([data])[0]

    def pixels(self, data):
        out = self.root / "out.ppm"
        r = subprocess.run([HOB, "media", "-", "-o", out], input=data, capture_output=True, timeout=60)
        assert r.returncode == 0, r.stderr
        with Image.open(out) as image:
            return image.convert("RGB")

    def samples(self, data):
        out = self.root / "out.wav"
        r = subprocess.run([HOB, "media", "-", "-o", out], input=data, capture_output=True, timeout=60)
        assert r.returncode == 0, r.stderr
        body = out.read_bytes()
        assert body[:4] == b"RIFF" and struct.unpack("<HHI", body[20:28]) == (3, 1, 16000)
        assert struct.unpack("<I", body[40:44])[0] == len(body) - 44
        return struct.unpack(f"<{(len(body) - 44) // 4}f", body[44:])

    def error(self, data):
        return self.one(data)["error"]


@pytest.fixture
def media(tmp_path):
    return Media(tmp_path)


def noise(w, h, n=3, seed=1):
    r = random.Random(seed)
    return Image.frombytes({1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[n], (w, h), bytes(r.randrange(256) for _ in range(w * h * n)))


def picture(w=53, h=37):
    """Smooth, with edges: as JPEG sees photographs."""
    return Image.frombytes("RGB", (w, h), bytes(v & 255 for y in range(h) for x in range(w) for v in (x * 4 + y, (x * y) >> 2, 255 * (x > y))))


def on_white(image):
    white = Image.new("RGB", image.size, (255, 255, 255))
    rgba = image.convert("RGBA")
    white.paste(rgba, mask=rgba.getchannel("A"))
    return white


def same(a, b):
    assert a.size == b.size and a.tobytes() == b.tobytes()


def samples_of(kind, depth, w=19, h=13, seed=3):
    r = random.Random(seed)
    return [[r.randrange(1 << depth) for _ in range(w * mf.CHANNELS[kind])] for _ in range(h)]


@pytest.mark.parametrize("interlace", [False, True])
@pytest.mark.parametrize("kind,depth", [(0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (6, 8)])
def test_png_is_pillows(media, kind, depth, interlace):
    r = random.Random(depth)
    palette = mf.chunk(b"PLTE", bytes(r.randrange(256) for _ in range(3 << depth))) if kind == 3 else b""
    data = mf.png(samples_of(kind, depth), kind, depth, interlace, before=palette)
    same(media.pixels(data), on_white(Image.open(io.BytesIO(data))))


@pytest.mark.parametrize("interlace", [False, True])
@pytest.mark.parametrize("kind", [0, 2, 4, 6])
def test_of_16_bits_the_high_8_remain(media, kind, interlace):
    rows = samples_of(kind, 16)
    high = mf.png([[v >> 8 for v in row] for row in rows], kind)
    deep = mf.png(rows, kind, 16, interlace)
    same(media.pixels(deep), on_white(Image.open(io.BytesIO(high))))
    assert media.one(deep)["digest"] == media.one(high)["digest"]


def test_png_transparent_colors(media):
    rows = samples_of(3, 2)
    palette = bytes(range(0, 120, 10))
    data = mf.png(rows, 3, 2, before=mf.chunk(b"PLTE", palette) + mf.chunk(b"tRNS", bytes([0, 100, 200])))
    same(media.pixels(data), on_white(Image.open(io.BytesIO(data))))
    gray = mf.png([[1, 2, 3], [3, 2, 1]], 0, 8, before=mf.chunk(b"tRNS", struct.pack(">H", 2)))
    assert media.pixels(gray).getchannel("G").tobytes() == bytes([1, 255, 3, 3, 255, 1])
    rgb = mf.png([[1, 2, 3, 1, 2, 4]], 2, 8, before=mf.chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    assert media.pixels(rgb).tobytes() == bytes([255, 255, 255, 1, 2, 4])
    # All 16 bits count, not only the high ones.
    deep = mf.png([[0x0102, 0x0103]], 0, 16, before=mf.chunk(b"tRNS", struct.pack(">H", 0x0102)))
    assert media.pixels(deep).tobytes() == bytes([255, 255, 255, 1, 1, 1])


def test_alpha_is_on_white_as_pillow_pastes(media):
    every = Image.frombytes("RGBA", (256, 256), bytes(v for a in range(256) for c in range(256) for v in (c, 255 - c, c ^ 77, a)))
    same(media.pixels(mf.saved(every, format="PNG")), on_white(every))
    every_gray = every.convert("LA")
    same(media.pixels(mf.saved(every_gray, format="PNG")), on_white(every_gray))


@pytest.mark.parametrize("options", [dict(quality=85), dict(quality=30, progressive=True), dict(quality=95, subsampling=0), dict(subsampling=1),
                                     dict(subsampling=2, optimize=True)])
def test_jpeg_is_libjpegs(media, options):
    for image in (picture(), noise(50, 33), picture().convert("L")):
        data = mf.saved(image, format="JPEG", **options)
        same(media.pixels(data), Image.open(io.BytesIO(data)).convert("RGB"))


def test_jpeg_cmyk(media):
    every = Image.frombytes("CMYK", (64, 64), bytes(v for i in range(4096) for v in (i % 256, i // 7 % 256, i // 16, i * 3 % 256)))
    data = mf.saved(every, format="JPEG", quality=95)
    same(media.pixels(data), Image.open(io.BytesIO(data)).convert("RGB"))
    # YCCK: the Adobe marker says so. Its Y, Cb and Cr are those of an RGB file; K is all ink or none.
    at = data.index(b"Adobe")
    ycck = data[:at + 11] + b"\2" + data[at + 12:]
    same(media.pixels(ycck), Image.open(io.BytesIO(ycck)).convert("RGB"))


def test_webp_is_pillows(media):
    for image, options in [(noise(40, 30), dict(lossless=True)), (picture(), dict(quality=80)), (noise(40, 30, 4), dict(lossless=True, exact=True)),
                           (noise(21, 31, 4), dict(quality=60))]:
        data = mf.saved(image, format="WEBP", **options)
        same(media.pixels(data), on_white(Image.open(io.BytesIO(data))))


def test_of_an_animation_the_first_frame(media):
    frames = [noise(40, 30, 4, seed) for seed in range(3)]
    webp = mf.saved(frames[0], format="WEBP", save_all=True, append_images=frames[1:], lossless=True, exact=True)
    same(media.pixels(webp), on_white(frames[0]))
    opaque = [f.convert("RGB") for f in frames]
    apng = mf.saved(opaque[0], format="PNG", save_all=True, append_images=opaque[1:])
    assert b"fdAT" in apng
    same(media.pixels(apng), opaque[0])
    # A frame that is smaller than the image, at its place.
    part = mf.saved(noise(10, 8), format="WEBP", lossless=True)
    vp8l = part[part.index(b"VP8L"):]
    anmf = struct.pack("<I", 4)[:3] + struct.pack("<I", 3)[:3] + struct.pack("<I", 9)[:3] + struct.pack("<I", 7)[:3] + b"\x64\0\0\0" + vp8l
    body = (b"VP8X" + struct.pack("<IIHBHB", 10, 2, 39, 0, 29, 0) + b"ANIM" + struct.pack("<IIH", 6, 0xff0000ff, 0) + b"ANMF" +
            struct.pack("<I", len(anmf)) + anmf)
    white = Image.new("RGB", (40, 30), (255, 255, 255))
    white.paste(noise(10, 8), (8, 6))
    same(media.pixels(b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body), white)


@pytest.mark.parametrize("orientation", range(10))
def test_orientation(media, orientation):
    image = noise(23, 11)
    how = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE, 6: Image.ROTATE_270, 7: Image.TRANSVERSE,
           8: Image.ROTATE_90}.get(orientation)
    for big in (True, False):
        info = mf.exif(orientation, big)
        files = [mf.saved(image, format="PNG"), mf.saved(image, format="WEBP", lossless=True, exif=b"Exif\0\0" + info),
                 mf.saved(image, format="WEBP", lossless=True, exif=info), mf.saved(image, format="JPEG", exif=b"Exif\0\0" + info)]
        end = mf.chunks(files[0])[b"IEND"]
        files[0] = files[0][:end] + mf.chunk(b"eXIf", info) + files[0][end:]
        jpeg = Image.open(io.BytesIO(files[3])).convert("RGB")
        for data, want in zip(files, [image, image, image, jpeg]):
            same(media.pixels(data), want if how is None else want.transpose(how))


def test_exif_that_is_damaged_changes_nothing(media):
    image = noise(9, 5)
    plain = mf.saved(image, format="PNG")
    end = mf.chunks(plain)[b"IEND"]
    info = mf.exif(6)
    damaged = [info[:n] for n in range(33)] + [mf.exif(6, value_type=4), info.replace(b"\0\x2a", b"\0\x2b"), info[:4] + b"\xff\xff\xff\xff" + info[8:],
                                               info[:8] + b"\xff\xff" + info[10:20]]
    lines = media.many([plain] + [plain[:end] + mf.chunk(b"eXIf", d) + plain[end:] for d in damaged] +
                       [plain[:end] + mf.chunk(b"eXIf", info, crc=1) + plain[end:]])
    assert {(line["width"], line["height"], line["digest"]) for line in lines} == {(9, 5, lines[0]["digest"])}


def test_digest_is_of_the_pixels(media):
    image = noise(31, 17)
    other = image.copy()
    other.putpixel((30, 16), tuple(v ^ 1 for v in image.getpixel((30, 16))))
    flat = Image.new("RGB", (8, 2), (9, 9, 9))
    files = [mf.saved(image, format="PNG"), mf.saved(image, format="WEBP", lossless=True), mf.saved(image.convert("RGBA"), format="PNG"),
             mf.saved(image, format="PNG", compress_level=0), mf.saved(other, format="PNG"), mf.saved(flat, format="PNG"),
             mf.saved(flat.transpose(Image.TRANSPOSE), format="PNG")]
    d = [line["digest"] for line in media.many(files)]
    assert d[0] == d[1] == d[2] == d[3] and len(set(d[3:])) == 4 and all(len(x) == 32 for x in d)


def test_shapes(media):
    for size in [(1, 1), (1, 20000), (20000, 1), (3, 5)]:
        image = Image.new("RGB", size, (1, 2, 3))
        for kind in ("PNG", "JPEG") + (("WEBP",) if max(size) < 16384 else ()):
            line = media.one(mf.saved(image, format=kind))
            assert (line["width"], line["height"], line["kind"]) == (*size, "image")


def test_truncated_at_many_places(media):
    """Each is one sentence that begins with the format, or all pixels are there."""
    image = picture(40, 30)
    whole = {"PNG": mf.saved(image, format="PNG"), "JPEG": mf.saved(image, format="JPEG"), "WebP": mf.saved(image, format="WEBP", lossless=True)}
    whole["JPEG "] = mf.saved(image, format="JPEG", progressive=True)
    whole["PNG "] = mf.png(samples_of(2, 8), 2, interlace=True)
    for name, data in whole.items():
        cuts = sorted({*range(12, min(len(data), 60)), *range(60, len(data), 1 + len(data) // 40), len(data) - 1, len(data) - 2})
        for cut, line in zip(cuts, media.many([data[:n] for n in cuts])):
            assert line.get("error", "").startswith(f"image: {name.strip()}: "), (name, cut, line)
    lines = media.many([data[:n] for data in whole.values() for n in range(3)])
    assert {line["error"] for line in lines} == {"the file is empty", "neither an image (PNG, JPEG, WebP) nor a sound (WAV, FLAC, Ogg, MP3)"}


def flip(data, at, bit=1):
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1:]


def test_broken_png(media):
    good = mf.png(samples_of(2, 8), 2)
    at = mf.chunks(good)
    rows = samples_of(2, 8)
    short = zlib.compress(mf.scanlines(rows[:-1], 8))
    wrong_filter = zlib.compress(b"\7" + mf.scanlines(rows, 8)[1:])
    cases = {
        flip(good, at[b"IDAT"] + 12): "bad CRC in IDAT",
        flip(good, at[b"IHDR"] + 9): "bad CRC in IHDR",
        flip(good, at[b"IEND"] + 8): "bad CRC in IEND",
        good[:at[b"IEND"]]: "truncated: the last chunk, IEND, is missing",
        good[:at[b"IDAT"] + 20]: "truncated in IDAT",
        good[:at[b"IDAT"]] + mf.chunk(b"XXXX", b"x") + good[at[b"IDAT"]:]: "unknown chunk XXXX",
        good[:8] + good[at[b"IDAT"]:]: "the header, IHDR, is damaged",
        good[:at[b"IDAT"]] + good[8:]: "the header, IHDR, is damaged",
        mf.png(rows, 2, idat=short): "IDAT has too few pixels",
        mf.png(rows, 2, size=(0, 5)): "the image has no pixels",
        mf.png(rows, 2, size=(19, 14)): "IDAT has too few pixels",
        mf.png(samples_of(3, 8), 3): None,  # no palette
        mf.png(rows, 2, idat=wrong_filter): None,
        mf.png(rows, 2, idat=b"not deflated"): None,
        mf.png(rows, 2, 3, idat=short): None,  # depth
    }
    for (data, want), line in zip(cases.items(), media.many(list(cases))):
        assert line["error"] == f"image: PNG: {want}" if want else line["error"].startswith("image: PNG: "), (want, line)


def test_chunks_that_pixels_do_not_need_are_not_read(media):
    """A text that inflates to 200 MB, a wrong checksum, a profile that is none."""
    bomb = zlib.compress(bytes(200 << 20), 9)
    good = mf.png(samples_of(2, 8), 2)
    extra = [mf.chunk(b"zTXt", b"k\0\0" + bomb), mf.chunk(b"iTXt", b"k\0\1\0\0\0" + bomb), mf.chunk(b"iCCP", b"p\0\0" + bomb), mf.chunk(b"tEXt", b"x", crc=0),
             mf.chunk(b"gAMA", struct.pack(">I", 1)), mf.chunk(b"sBIT", b"\1\1\1")]
    start = time.monotonic()
    lines = media.many([good] + [mf.png(samples_of(2, 8), 2, before=e) for e in extra])
    assert {line["digest"] for line in lines} == {lines[0]["digest"]}
    assert time.monotonic() - start < 30


def test_bombs_are_refused_by_their_header(media):
    bomb = zlib.compress(bytes(1 << 20))
    limit = "pixels are over the limit of 64 MP"
    webp = b"VP8L" + struct.pack("<IBI", 10, 0x2f, 16383 | 16383 << 14) + bytes(5)
    jpeg = bytearray(mf.saved(Image.new("RGB", (8, 8)), format="JPEG"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5:at + 9] = struct.pack(">HH", 65500, 65500)
    for data, name in [(mf.png([[0]], 0, size=(50000, 50000), idat=bomb), "PNG: 50000x50000"),
                       (mf.png([[0]], 0, size=(64000001, 1), idat=bomb), "PNG: 64000001x1"),
                       (mf.png([[0]], 0, size=(0x7fffffff, 0x7fffffff), idat=bomb), "PNG: 2147483647x2147483647"),
                       (b"RIFF" + struct.pack("<I", len(webp) + 4) + b"WEBP" + webp, "WebP: 16384x16384"), (bytes(jpeg), "JPEG: 65500x65500")]:
        assert media.error(data) == f"image: {name} {limit}"
    most = mf.png([[0]], 0, 1, size=(8000, 8000), idat=zlib.compress(bytes(1001 * 8000)))
    assert media.one(most)["width"] == 8000


def tone(n, rate, channels=1):
    return [0.5 * math.sin(2 * math.pi * (300 + 200 * c) * i / rate) for i in range(n) for c in range(channels)]


@pytest.mark.parametrize("name,shown", [("flac", "FLAC"), ("vorbis", "Ogg"), ("opus", "Ogg"), ("mp3", "MP3"), ("wavex", "WAV"), ("rf64", "WAV"), ("ulaw", "WAV")])
def test_sounds(media, name, shown, tmp_path):
    """A second of a tone: the format, the length, and about the tone itself."""
    data = mf.sound(tmp_path / "s", name, tone(48000, 48000), 48000, 1)
    line = media.one(data)
    assert line["kind"] == "sound" and line["format"] == shown and line["seconds"] == line["samples"] / 16000
    assert 0.99 < line["seconds"] < 1.1
    got = media.samples(data)
    power = [abs(sum(v * complex(math.cos(w * i), math.sin(w * i)) for i, v in enumerate(got[2000:14000]))) / 6000
             for w in (2 * math.pi * f / 16000 for f in (300, 500))]
    assert abs(power[0] - 0.5) < 0.02 and power[1] < 0.01


def test_samples_of_the_right_rate_stay(media):
    r = random.Random(5)
    values = [r.randrange(-32768, 32768) for _ in range(5000)]
    mono = mf.wav(struct.pack("<5000h", *values))
    assert media.samples(mono) == tuple(v / 32768 for v in values)
    stereo = mf.wav(struct.pack("<5000h", *values), channels=2)
    assert media.samples(stereo) == tuple((a + b) / 65536 for a, b in zip(values[::2], values[1::2]))
    floats = mf.wav(struct.pack("<5000f", *(v / 32768 for v in values)), kind=3, bits=32)
    assert media.one(floats)["digest"] == media.one(mono)["digest"] != media.one(stereo)["digest"]


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 48000, 192000])
def test_other_rates(media, rate):
    """The number of samples, and a tone below both halves of the rates keeps its height."""
    got = media.samples(mf.wav(struct.pack(f"<{rate}h", *(int(32767 * v) for v in tone(rate, rate))), rate=rate))
    assert abs(len(got) - 16000) <= 1
    assert max(abs(a - b) for a, b in zip(got[1000:15000], tone(16000, 16000)[1000:15000])) < 1e-3


def test_broken_sounds(media, tmp_path):
    flac = mf.sound(tmp_path / "f", "flac", tone(20000, 16000), 16000, 1)
    cases = [
        (mf.wav(b""), "it has no samples"),
        (mf.wav(struct.pack("<3f", 0, float("nan"), 0), kind=3, bits=32), "sample 2 is not a finite number"),
        (mf.wav(struct.pack("<3f", 0, 0, float("-inf")), kind=3, bits=32), "sample 3 is not a finite number"),
        (mf.wav(bytes(100), size=12 * 3600 * 32000), "12:00:00 hours are over the limit of 30 min"),
        (mf.wav(bytes(100), rate=16000, size=1801 * 32000), "0:30:01 hours are over the limit of 30 min"),
        (mf.wav(bytes(100), size=200), "truncated: 100 of 200 bytes of sound"),
        (mf.wav(bytes(100))[:20], "truncated: it has no data chunk"),
        (mf.wav(bytes(100), rate=100), "100 samples a second; 1000 to 768000 can be read"),
        (mf.wav(bytes(100), rate=1000000), "1000000 samples a second; 1000 to 768000 can be read"),
        (mf.wav(bytes(100), channels=0), None),
        (mf.wav(bytes(100), kind=0x4242), None),
        (flac[:len(flac) // 2], None),
        (flac[:60], None),
        (flip(flac, len(flac) // 2, 64), None),
        (b"fLaC" + bytes(60), None),
        (b"OggS" + bytes(60), None),
        (b"ID3\4\0\0\0\0\0\0" + bytes(100), None),
    ]
    for (data, want), line in zip(cases, media.many([c for c, _ in cases])):
        name = {b"RIFF": "WAV", b"fLaC": "FLAC", b"OggS": "Ogg"}.get(data[:4], "MP3")
        assert line.get("error") == f"sound: {name}: {want}" if want else line.get("error", "").startswith(f"sound: {name}: "), (want, line)
    aiff = mf.sound(tmp_path / "a", "aiff", tone(100, 16000), 16000, 1)
    assert media.error(aiff).startswith("neither an image")


def test_sounds_of_a_pipe_have_no_length(media):
    for size in (0x7ffff000, 0xffffffff):
        assert media.one(mf.wav(struct.pack("<4h", 1, 2, 3, 4), size=size)).get("samples") == 4


def test_sounds_may_be_long(media):
    """30 minutes of 8 kHz; a minute more is refused, though only its samples say so."""
    assert media.one(mf.wav(bytes(1800 * 8000), rate=8000, bits=8))["seconds"] == 1800
    assert media.error(mf.wav(bytes(1860 * 8000), rate=8000, bits=8, size=0xffffffff)).endswith("over the limit of 30 min")


def children(pid):
    out = []
    for stat in (p for p in os.listdir("/proc") if p.isdigit()):
        try:
            with open(f"/proc/{stat}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    out.append(int(stat))
        except OSError:
            continue
    return out


def helpers(pid):
    """Those that start decoders; the keeper has started them."""
    return [h for keeper in children(pid) for h in children(keeper)]


def test_a_decoder_that_is_killed_is_a_sentence(media):
    """It is stopped first, so that it is found; the file after it is decoded."""
    slow = media.put(mf.png([[0]], 0, 1, True, size=(8000, 8000), idat=zlib.compress(bytes(1100 * 8000))))
    good = media.put(mf.png(samples_of(2, 8), 2))
    p = subprocess.Popen([HOBD, "media", slow, good], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    decoder, deadline = [], time.monotonic() + 60
    while not decoder and time.monotonic() < deadline and p.poll() is None:
        decoder = [d for h in helpers(p.pid) for d in children(h)]
    assert decoder, "no decoder was seen"
    os.kill(decoder[0], signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    assert err.decode() == f"hobd media: {slow}: image: PNG: the decoder was killed\n"
    assert out.decode().startswith(f"{good}: image: PNG, 19x13 pixels, digest ") and p.returncode == 1


def test_a_helper_that_is_killed_is_a_sentence(media):
    """The next file goes to the other one, or to a new one."""
    good = media.put(mf.png(samples_of(2, 8), 2))
    slow = media.put(mf.png([[0]], 0, 1, True, size=(8000, 8000), idat=zlib.compress(bytes(1100 * 8000))))
    p = subprocess.Popen([HOBD, "media", slow, good], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    helper, deadline = [], time.monotonic() + 60
    while not helper and time.monotonic() < deadline and p.poll() is None:
        helper = [h for h in helpers(p.pid) if children(h)]
    os.kill(helper[0], signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    assert [x for x in err.decode().splitlines() if "was started again" not in x] == [f"hobd media: {slow}: decoding: the other process has ended"]
    assert out.decode().startswith(f"{good}: image: PNG, 19x13 pixels, digest ") and p.returncode == 1


def test_command_line(media, tmp_path):
    good = media.put(mf.png(samples_of(2, 8), 2))
    sound = media.put(mf.wav(bytes(320)))

    def run(*args, **kw):
        r = subprocess.run([HOB, "media", *map(str, args)], capture_output=True, text=True, timeout=60, **kw)
        return r.returncode, r.stdout, r.stderr

    digest = media.one(good.read_bytes())["digest"]
    assert run(good) == (0, f"{good}: image: PNG, 19x13 pixels, digest {digest}\n", "")
    status, out, err = run(sound, "nofile", tmp_path)
    assert status == 1 and out.startswith(f"{sound}: sound: WAV, 0.010 s, 160 samples, digest ")
    assert err == f"hobd media: nofile: No such file or directory\nhobd media: {tmp_path}: Is a directory\n"
    for args, says in [([], "FILE is missing; see hob media --help"), ([good, "-o", "x.png"], "-o x.png: the name must end in .ppm (images) or .wav (sounds)"),
                       ([good, good, "-o", "x.ppm"], "-o: with one FILE only"), (["--nope", good], "unknown option '--nope'; hobd media --help lists them")]:
        assert run(*args) == (2, "", f"hobd media: {says}\n")
    assert run(good, "-o", tmp_path / "x.wav") == (1, "", f"hobd media: -o {tmp_path}/x.wav: this file is an image (.ppm)\n")
    r = subprocess.run([HOB, "-q", "media", good], capture_output=True, text=True)
    assert (r.returncode, r.stderr) == (2, "hob: the word 'media' must come first, options after it\n")


def test_a_lower_limit_of_the_caller_stays(media):
    data = io.BytesIO()
    noise(12, 12).save(data, "PNG")
    path = media.put(data.getvalue())
    for limit in ("--cpu=20", "--as=900000000"):
        r = subprocess.run(["prlimit", limit, "setpriv", "--bounding-set=-all", "--inh-caps=-all", HOB, "media", "--json", path],
                           capture_output=True, timeout=60)
        assert r.returncode == 0 and json.loads(r.stdout)["width"] == 12, r


def test_a_name_that_is_no_utf8(tmp_path):
    r = subprocess.run([HOB, "media", "--json", os.fsencode(tmp_path) + b"/no-\xff.png"], capture_output=True, timeout=60)
    assert r.returncode == 1 and not r.stderr
    line = json.loads(r.stdout)
    assert "no-" in line["file"] and "No such file" in line["error"]


def test_text_is_no_sound(media):
    assert media.error("hello, this is text".encode("utf-16")).startswith("neither an ")
