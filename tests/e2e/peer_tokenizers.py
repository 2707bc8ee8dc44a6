# SPDX-License-Identifier: MIT
"""python3 tests/e2e/peer_tokenizers.py PEERDIR VOCABULARY [COUNT [SEED]]

Ids of COUNT random texts (200) beside llama.cpp's, for each pre-tokenizer that hob knows: VOCABULARY, a GGUF file with a
byte-level BPE, is copied with each name in tokenizer.ggml.pre; a file with another kind of vocabulary is compared as it is. Prints the names that differ, with the shortest such
text. PEERDIR/run COMMAND runs llama.cpp's programs, which see PEERDIR/models as /models; peer-tokenize.c is compiled for
them. Needs a build (HOB_BUILD, or build)."""
import random
import re
import struct
import subprocess
import sys
import unicodedata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import BUILD, TOP  # noqa: E402

RANGES = [(0x41, 0x5a), (0x61, 0x7a), (0x30, 0x39), (0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e), (0xc0, 0x24f), (0x300, 0x36f),
          (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x5ff), (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff), (0x2000, 0x206f),
          (0x2150, 0x218f), (0x3000, 0x303f), (0x3040, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xff00, 0xffef), (0x1f300, 0x1f6ff)]
WORDS = ["the", " The", "don't", "I'LL", "we've", "'S", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", " a", "1", "12", "123", "1234", "12345678",
         "1,000.50", "x=y;", "//", "...", "!?", "/\n", "?\n", "\u4e2d\u6587", "\u65e5\u672c", "\ud55c\uad6d", "\xe9", "E\u0301",
         "\u0939\u093f\u0928\u094d\u0926\u0940", "<sentinel:12>", "IMGIMGABZ", "\xa0", "\u3000", "\u2028", "_", "$", "`", "^~", "ABCdef",
         "camelCase", "HTTPServer", "word word word", "\x85"]


def by_category():
    known = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category not in ("Cs", "Co", "Cn"):
            known.setdefault(category, []).append(code)
    return list(known.values())


def texts(count, seed):
    rng, categories = random.Random(seed), by_category()

    def piece():
        kind = rng.random()
        if kind < 0.35:
            return rng.choice(WORDS)
        if kind < 0.75:
            return chr(rng.randint(*rng.choice(RANGES)))
        if kind < 0.9:
            return chr(rng.choice(rng.choice(categories)))
        return rng.choice(" '\naB7")
    return ["".join(piece() for _ in range(rng.randint(1, 40))).replace("\0", "") for _ in range(count)]


def named(data, name):
    """The file with another pre-tokenizer. It has no tensors whose alignment would matter."""
    key = b"tokenizer.ggml.pre"
    at = data.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    old = struct.unpack_from("<Q", data, at)[0]
    return data[:at] + struct.pack("<Q", len(name)) + name.encode() + data[at + 8 + old:]


def names():
    """As the table in pretokenize.c has them."""
    source = (TOP / "daemon/text/tokenizer/pretokenize.c").read_text()
    table = source[source.index("} rules[] = {"):source.index("struct pretokenizer {")]
    return [name for row in re.findall(r'\{\{((?:"[^"]*",?\s*)+)\}', table) for name in re.findall(r'"([^"]*)"', row)]


def is_bytewise(data):
    key, model = b"tokenizer.ggml.model", b"gpt2"
    at = data.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    return data[at:].startswith(struct.pack("<Q", len(model)) + model)


def ids(out):
    """Lines of ids by the file's name."""
    found, lines = {}, None
    for line in out.decode().splitlines():
        if line.startswith("FILE "):
            lines = found.setdefault(Path(line[5:]).name, [])
        else:
            lines.append(line)
    return found


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    peer, data = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).read_bytes()
    some = texts(int(sys.argv[3]) if len(sys.argv) > 3 else 200, int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-w", "-o", peer / "models/peer-tokenize", TOP / "tests/e2e/peer-tokenize.c", "-ldl"], check=True)
    said = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in some)
    compared = different = 0
    cases = [(name, named(data, name)) for name in names()] if is_bytewise(data) else [(Path(sys.argv[2]).name, data)]
    for name, content in cases:
        path = peer / "models" / "pre.gguf"
        path.write_bytes(content)
        theirs = ids(subprocess.run([peer / "run", "/models/peer-tokenize", "/models/pre.gguf"], input=said, capture_output=True).stdout)
        ours = ids(subprocess.run([BUILD / "tests/support/tokenize", path], input=said, capture_output=True).stdout)
        pairs = list(zip(some, theirs.get("pre.gguf", []), ours.get("pre.gguf", [])))
        wrong = [p for p in pairs if p[1] != p[2]]
        compared, different = compared + len(pairs), different + len(wrong)
        if len(pairs) < len(some):
            print(f"{name}: llama.cpp gave {len(theirs.get('pre.gguf', []))} lines, hob {len(ours.get('pre.gguf', []))}")
        if wrong:
            text, a, b = min(wrong, key=lambda p: len(p[0]))
            print(f"{name}: {len(wrong)} of {len(pairs)} differ, as {text!r}: llama.cpp {a}, hob {b}")
    print(f"{len(cases)} names, {compared} texts compared, {different} different")
    for name in ("pre.gguf", "peer-tokenize"):
        (peer / "models" / name).unlink()


main()
