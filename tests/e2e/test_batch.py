# SPDX-License-Identifier: MIT
"""hob batch: lines in, lines out; what is refused before the first; a million lines. Also client/batch/batch-run.c."""
import fcntl
import json
import os
import re
import resource
import select
import subprocess
import time

from conftest import HOB


def results(r):
    return [json.loads(line) for line in r.out.splitlines()]


def lines(*objects):
    return "".join(json.dumps(o) + "\n" for o in objects).encode()


def test_each_line_gets_the_answer_that_hob_gives(shared):
    asked = [("Once upon a time", 5), ("The sea", 9), ("One two three", 2)]
    r = shared.hob("batch", "--temp", "0", input=lines(*({"id": p, "prompt": p, "max_tokens": n} for p, n in asked)), check=0)
    found = {x["id"]: x for x in results(r)}
    for prompt, n in asked:
        alone = shared.hob("--temp", "0", "-n", n, prompt, input=None, check=0).out
        assert found[prompt]["text"].removesuffix("\n") == alone.removesuffix("\n")
        assert found[prompt]["usage"]["completion"] <= n and found[prompt]["reason"] in ("stop", "length")
    assert not r.err


def test_order(shared):
    many = lines(*({"prompt": "x", "max_tokens": 1 + (7 * i) % 30, "ignore_eos": True, "temp": 0} for i in range(60)))
    ordered = results(shared.hob("batch", "--ordered", "--jobs", "7", input=many, check=0))
    assert [x["line"] for x in ordered] == [x["id"] for x in ordered] == list(range(1, 61))
    # A daemon may answer the short lines as fast as they come; a long first one, of some contexts, ends behind some of them.
    long = lines({"prompt": "x", "max_tokens": 2000, "context": "rotate", "ignore_eos": True, "temp": 0})
    free = results(shared.hob("batch", "--speculate", "off", "--jobs", "61", input=long + many, check=0))
    assert sorted(x["line"] for x in free) == list(range(1, 62)) and free[0]["line"] != 1
    assert next(x for x in free if x["line"] == 1)["usage"]["completion"] == 2000
    assert {x["line"] - 1: x["text"] for x in free if x["line"] > 1} == {x["line"]: x["text"] for x in ordered}


def test_broken_lines_are_results(shared):
    text = b'{"id":"a","prompt":"x"\n[1]\n\n   \n7\n{"prompt":"\xff"}\n{"prompt":"ok","max_tokens":1}\nnull\n{"id":{},"prompt":"x"}'
    r = shared.hob("batch", "--ordered", input=text, check=1)
    found = {x["line"]: x.get("error", {}).get("message") for x in results(r)}
    assert set(found) == {1, 2, 5, 6, 7, 8, 9} and found[7] is None
    assert "not JSON" in found[1] and "a list" in found[2] and "neither an object" in found[5] and "UTF-8 at byte 11" in found[6]
    assert "'id' must be a string" in found[9]
    assert r.err == "hob: 6 of 7 failed\n"


def test_usage(shared, tmp_path):
    for argv, why in ((["a", "b"], "unexpected argument 'b' of 'batch'"), (["--resume"], "--resume needs --out"), (["--null"], "only with 'map'"),
                      (["-S", "x"], "--session cannot be used with 'batch'"), (["--jobs", "0"], "--jobs"), (["--jobs", "1025"], "--jobs"),
                      (["--think", "stderr"], "--think stderr cannot"), (["--regex", "a", "--stop", "b"], "--stop cannot be used with --regex")):
        r = shared.hob("batch", *argv, input=None)
        assert r.returncode == 2 and why in r.err and not r.out, (argv, r.err)
    r = shared.hob("batch", tmp_path / "nothing", check=1)
    assert "nothing: No such file" in r.err
    assert shared.hob("batch", input=b"", check=0).out == ""


def test_keys_of_hob_conf(home):
    """Those of sessions, and a time limit that counts the time in the queue, are for single requests."""
    conf = home.root / "config" / "hob"
    conf.mkdir(parents=True)
    (conf / "hob.conf").write_text("session = s\ntimeout = 1ms\npriority = infill\nmax-tokens = 3\nignore-eos = yes\nno-stream = yes\n")
    found = results(home.hob("batch", input=lines(*({"prompt": "x"} for _ in range(40))), check=0))
    assert [x["usage"]["completion"] for x in found] == [3] * 40
    assert json.loads(home.hob("sessions", "--json", check=0).out) == []


def test_without_a_daemon(home):
    r = home.hob("batch", input=lines({"prompt": "x"}), env={"HOB_SOCKET": "/nowhere"}, check=69)
    assert "no daemon at /nowhere" in r.err and not r.out


def test_a_model_that_cannot_be_loaded_fails_once(home):
    """It is no failure of each line."""
    (home.models / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    r = home.hob("batch", "-m", "broken", input=lines(*({"prompt": "x"} for _ in range(20))))
    assert r.returncode == 1 and not r.out and r.err.count("\n") == 1, (r.returncode, r.out, r.err)


def test_nothing_left_to_do_has_a_speed(shared, tmp_path):
    out = tmp_path / "out.jsonl"
    for _ in range(4):
        r = shared.hob("batch", "-v", "--out", out, "--resume", input=lines({"id": 1, "prompt": "x", "max_tokens": 2}), check=0)
        assert re.search(r" \d+ tokens/s$", r.err.strip()), r.err


def test_a_million_lines_take_little_memory(home, tmp_path):
    """None can be sent, so that no daemon is needed: each is an error line."""
    (tmp_path / "in").write_text('{"prompt":""}\n' * 1_000_000)
    argv = [HOB, "batch", "-q", tmp_path / "in", "--out", tmp_path / "out"]
    r = subprocess.run(argv, env={**home.env, "HOB_SOCKET": "/nowhere"}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (48 << 20, 48 << 20)))
    assert r.returncode == 1, r.stderr
    assert sum(1 for _ in open(tmp_path / "out")) == 1_000_000


def test_it_reads_no_faster_than_results_are_read(shared):
    p = shared.popen([HOB, "batch", "--jobs", "4"], env={"HOB_SOCKET": str(shared.socket)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    fcntl.fcntl(p.stdin, fcntl.F_SETFL, os.O_NONBLOCK)
    sent, line = 0, b'{"prompt":""}\n' * 64
    while select.select([], [p.stdin], [], 1.5)[1] and sent < 100_000_000:
        try:
            sent += os.write(p.stdin.fileno(), line)
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < 1_000_000, "it takes input without an end"
    p.kill()
    p.wait()


def test_a_full_disk_leaves_whole_lines(shared, tmp_path):
    """A limit of the size of files ends the writing like a full disk does, in the middle of a line."""
    import signal
    (tmp_path / "in").write_bytes(lines(*({"prompt": "x", "max_tokens": 8, "temp": 0} for _ in range(100))))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3001, 3001))
    argv = [HOB, "batch", tmp_path / "in", "--out", tmp_path / "out"]
    r = subprocess.run(argv, env=shared.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=limit, timeout=60)
    assert r.returncode == 1 and "cannot write" in r.stderr and "--resume" in r.stderr, r
    kept = (tmp_path / "out").read_bytes()
    assert kept.endswith(b"\n") and 0 < len(kept) <= 3001
    before = [json.loads(x)["line"] for x in kept.splitlines()]
    shared.hob("batch", tmp_path / "in", "--out", tmp_path / "out", "--resume", check=0)
    after = [json.loads(x)["line"] for x in (tmp_path / "out").read_text().splitlines()]
    assert after[:len(before)] == before and sorted(after) == list(range(1, 101))


def test_a_closed_pipe_ends_quietly(shared):
    many = lines(*({"prompt": "x", "max_tokens": 2} for _ in range(300)))
    p = shared.popen([HOB, "batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(many[:2000])
    p.stdin.flush()
    p.stdout.readline()
    p.stdout.close()
    try:
        p.stdin.write(many[2000:])
        p.stdin.close()
    except BrokenPipeError:
        pass
    assert p.wait(60) == 0 and p.stderr.read() == b""
