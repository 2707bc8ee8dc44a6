# SPDX-License-Identifier: MIT
"""The output file of hob batch, and what --resume makes of it (batch-done.c)."""
import json
import subprocess

from conftest import HOB


def write(path, *objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects))
    return path


def prompts(n):
    return [{"id": f"p{i}", "prompt": "x", "max_tokens": 2, "temp": 0} for i in range(n)]


def numbers(path):
    return [json.loads(x)["line"] for x in path.read_text().splitlines()]


def test_resume_makes_what_is_missing(shared, tmp_path):
    inp, out = write(tmp_path / "in", *prompts(9), {"id": "bad"}), tmp_path / "out"
    shared.hob("batch", inp, "--out", out, check=1)
    whole = out.read_text().splitlines(keepends=True)
    assert sorted(numbers(out)) == list(range(1, 11))
    out.write_text("".join(whole[:4]) + whole[4][:-9])
    r = shared.hob("batch", inp, "--out", out, "--resume")
    assert "its last line is incomplete" in r.err and out.read_text().startswith("".join(whole[:4]))
    assert sorted(numbers(out)) == list(range(1, 11))
    before = out.read_text()
    shared.hob("batch", inp, "--out", out, "--resume", check=0)  # also the error is there
    assert out.read_text() == before


def test_openai_lines_are_known_again(shared, tmp_path):
    inp = write(tmp_path / "in", *({"custom_id": f"c{i}", "url": "/v1/completions", "method": "POST", "body": {"prompt": "x", "max_tokens": 1}} for i in range(4)))
    shared.hob("batch", inp, "--out", tmp_path / "out", check=0)
    before = (tmp_path / "out").read_text()
    shared.hob("batch", inp, "--out", tmp_path / "out", "--resume", check=0)
    assert (tmp_path / "out").read_text() == before and before.count("\n") == 4


def test_an_output_is_not_overwritten(shared, tmp_path):
    inp, out = write(tmp_path / "in", *prompts(2)), tmp_path / "out"
    out.write_text("mine\n")
    for argv, why in (([], "has results already"), (["--resume"], "line 1 is not one of hob batch")):
        r = shared.hob("batch", inp, "--out", out, *argv)
        assert r.returncode in (1, 2) and why in r.err and out.read_text() == "mine\n", r.err
    out.write_text("no end")
    assert "not one of hob batch" in shared.hob("batch", inp, "--out", out, "--resume").err and out.read_text() == "no end"
    out.write_text("{}\n")
    assert "no 'line'" in shared.hob("batch", inp, "--out", out, "--resume").err
    before = inp.read_text()
    assert "is the input and the output" in shared.hob("batch", inp, "--out", inp, "--resume", check=2).err and inp.read_text() == before
    assert "is not a file" in shared.hob("batch", inp, "--out", "/dev/null", check=2).err


def test_another_input_is_noticed(shared, tmp_path):
    inp, out = write(tmp_path / "in", *prompts(3)), tmp_path / "out"
    shared.hob("batch", inp, "--out", out, check=0)
    write(inp, *reversed(prompts(3)))
    r = shared.hob("batch", inp, "--out", out, "--resume", check=1)
    assert "line 1 has another id than in the output" in r.err and len(numbers(out)) == 3


def test_two_at_once_are_refused(shared, tmp_path):
    p = shared.popen([HOB, "batch", "--out", tmp_path / "out"], stdin=subprocess.PIPE)
    p.stdin.write(b'{"prompt":"x","max_tokens":1}\n')
    p.stdin.flush()
    while not (tmp_path / "out").exists() or not (tmp_path / "out").read_text():
        assert p.poll() is None
    r = shared.hob("batch", "--out", tmp_path / "out", "--resume", input=b"", check=2)
    assert "another hob batch is writing it" in r.err
    p.stdin.close()
    assert p.wait(60) == 0
