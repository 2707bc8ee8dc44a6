# SPDX-License-Identifier: MIT
"""hobd inspect: everything of a file shown, harmlessly, and what of it is supported."""
import json
import struct
import subprocess

from conftest import HOBD, mktiny


def inspect(path, check=0):
    r = subprocess.run([HOBD, "inspect", str(path)], capture_output=True, timeout=60)
    assert r.returncode == check, r.stderr.decode()
    return r.stdout.decode(), r.stderr.decode()


def test_a_supported_model(tmp_path):
    out, err = inspect(mktiny(tmp_path / "a.gguf", "--type", "Q4_1", "--untied"))
    assert not err and "not supported" not in out
    assert "general.architecture = llama" in out
    assert "tokenizer.ggml.token_type = [1, 1, 1, 1, 1, 1, … (" in out
    assert "Q4_1     64 x 96  blk.1.ffn_up.weight  3840 bytes" in out
    assert "Q4_1     16 x, " in out and "F32      5 x, " in out
    assert "supported: architecture llama: 2 layers, width 64, ffn 96, 4 heads of 16, 2 KV heads, context 512, untied" in out
    assert "supported: tokenizer gpt2, pre-tokenizer smollm, " in out
    assert "supported: chat template" in out


def test_what_is_not_supported_is_named(tmp_path):
    out, _ = inspect(mktiny(tmp_path / "a.gguf", "--arch", "rwkv7"))
    assert "not supported: architecture 'rwkv7' is not supported; 'hobd inspect --supported' lists those that are" in out
    out, _ = inspect(mktiny(tmp_path / "b.gguf", "--pre", "klingon"))
    assert "not supported: " in out and "klingon" in out
    out, _ = inspect(mktiny(tmp_path / "c.gguf", "--tokenizer", "hybriddna"))
    assert "not supported: " in out and "hybriddna" in out
    odd = tmp_path / "d.gguf"
    data = bytearray(mktiny(odd, "--type", "Q4_0").read_bytes())
    at = data.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight") + 4 + 16
    data[at] = 99
    odd.write_bytes(data)
    out, _ = inspect(odd)
    assert "type 99  64 x 64  blk.0.attn_q.weight  (size not known)" in out
    assert "not supported: tensor 'blk.0.attn_q.weight' is of type number 99" in out
    template = tmp_path / "t.jinja"
    template.write_text("{% for x in %}")
    out, _ = inspect(mktiny(tmp_path / "e.gguf", "--template", template))
    assert "not supported: chat template: " in out


def test_a_block_that_does_not_divide_a_row(tmp_path):
    """Types of 256 values a block in a model 64 wide; and a type that only ever holds activations."""
    def retyped(name, number):
        data = bytearray(mktiny(tmp_path / name, "--type", "F16").read_bytes())
        at = data.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight") + 4 + 16
        data[at] = number
        (tmp_path / name).write_bytes(data)
        return tmp_path / name
    for number, kind in ((10, "Q2_K"), (11, "Q3_K"), (12, "Q4_K"), (13, "Q5_K"), (14, "Q6_K"), (23, "IQ4_XS")):
        _, err = inspect(retyped("a.gguf", number), check=1)
        assert "tensor 'blk.0.attn_q.weight'" in err and f"has rows of 64 values, no multiple of {kind}'s 256" in err and err.count("\n") == 1
    out, _ = inspect(retyped("b.gguf", 9))
    assert "not supported: tensor 'blk.0.attn_q.weight' is of type Q8_1, which is not supported; supported: F32, F16, BF16, " in out


def test_a_part_of_a_split_model(tmp_path):
    """What llama-gguf-split leaves in the first part: all keys, and how many parts there are. Loading says the same."""
    def text(s):
        return struct.pack("<Q", len(s)) + s
    whole = mktiny(tmp_path / "a.gguf").read_bytes()
    keys = text(b"split.no") + struct.pack("<IH", 2, 0) + text(b"split.count") + struct.pack("<IH", 2, 2)
    keys += text(b"filler") + struct.pack("<I", 8) + struct.pack("<Q", pad := -(len(keys) + 26) % 32) + b"x" * pad
    n = struct.unpack_from("<Q", whole, 16)[0]
    part = tmp_path / "a-00001-of-00002.gguf"
    part.write_bytes(whole[:16] + struct.pack("<Q", n + 3) + keys + whole[24:])
    why = f"part 2 of 2 is missing: {tmp_path / 'a-00002-of-00002.gguf'} does not exist"
    out, _ = inspect(part)
    assert f"\nnot supported: {why}\n" in out
    r = subprocess.run([HOBD, "verify", "-m", part], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and not r.stdout and f"{part}: {why}\n" in r.stderr and r.stderr.count("\n") == 1


def test_text_in_a_file_is_harmless(tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("a\x1b[31m\x9b\n\"b\" " + "x" * 500)
    out, _ = inspect(mktiny(tmp_path / "a.gguf", "--template", template))
    assert "\x1b" not in out and "\x9b" not in out
    line = next(x for x in out.splitlines() if "chat_template" in x)
    assert 'a\\x1b[31m\\xc2\\n\\"b\\" xxx' in line or "a\\x1b[31m\\xc2\\x9b\\n" in line
    assert line.endswith(" bytes)") and len(line) < 200


def test_broken_files(tmp_path):
    whole = mktiny(tmp_path / "a.gguf").read_bytes()
    broken = tmp_path / "broken.gguf"
    for n in (0, 3, 20, 500, len(whole) - 1):
        broken.write_bytes(whole[:n])
        out, err = inspect(broken, check=1)
        assert not out
        assert err.startswith(f"hobd inspect: {broken}: ") and err.count("\n") == 1
    _, err = inspect(tmp_path / "nothing.gguf", check=1)
    assert "No such file" in err


def test_a_full_disk_is_told(tiny):
    with open("/dev/full", "w") as full:
        r = subprocess.run([HOBD, "inspect", str(tiny)], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert r.returncode == 1 and b"standard output" in r.stderr


def test_json_for_programs(tiny, tmp_path):
    klingon = mktiny(tmp_path / "k.gguf", "--pre", "klingon", "--type", "Q4_1")
    odd = mktiny(tmp_path / "o.gguf", "--arch", "rwkv7")
    (tmp_path / "t.jinja").write_text("{% for x in %}")
    template = mktiny(tmp_path / "t.gguf", "--template", tmp_path / "t.jinja")
    (tmp_path / "no.gguf").write_text("no")
    files = [tiny, klingon, odd, template, tmp_path / "no.gguf", tmp_path / "none"]
    r = subprocess.run([HOBD, "inspect", "--json", *files], capture_output=True, text=True, timeout=60)
    said = [json.loads(line) for line in r.stdout.splitlines()]
    assert r.returncode == 1 and not r.stderr and [s["file"] for s in said] == [str(f) for f in files]
    one = said[0]
    assert one["supported"] and one["template"] and not one["packed"] and one["context"] == 512 and "why" not in one
    assert one["bytes"] == tiny.stat().st_size and one["architecture"] == "llama" and one["tokenizer"] == "gpt2"
    assert one["type"] == max(one["types"], key=one["types"].get) == "Q8_0" and one["memory_bytes"] > 0
    assert said[1]["type"] == "Q4_1" and not said[1]["supported"] and "klingon" in said[1]["why"]
    assert said[2]["architecture"] == "rwkv7" and said[2]["context"] == 512 and said[2]["why"].startswith("architecture")
    assert said[3]["supported"] and not said[3]["template"] and "line 1" in said[3]["template_why"]
    assert said[4] == {"file": str(files[4]), "error": said[4]["error"]} and "not a GGUF" in said[4]["error"]
    assert "No such file" in said[5]["error"]
    r = subprocess.run([HOBD, "inspect", "--json", tiny], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and json.loads(r.stdout) == one
