# SPDX-License-Identifier: MIT
"""What a person at a shell relies on: the client with the real daemon."""
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time

import pytest
from conftest import HOB, TOP


def jsonl(r):
    return [json.loads(line) for line in r.out.splitlines()]


def one(home, *args, **kw):
    """The done object of a --jsonl run, with all events under 'events'."""
    r = home.hob("--jsonl", *args, check=0, **kw)
    events = jsonl(r)
    assert events[-1]["event"] == "done"
    return {**events[-1], "events": events}


def test_answer_is_the_sum_of_its_pieces(shared):
    d = one(shared, "-n", 20, "--temp", 0, "tell", "me")
    pieces = [e["text"] for e in d["events"] if e["event"] == "text"]
    assert len(pieces) > 3
    assert "".join(pieces) == d["text"]
    plain = shared.hob("-n", 20, "--temp", 0, "tell", "me", check=0)
    assert plain.out.rstrip("\n") == d["text"].rstrip("\n")
    assert plain.out.endswith("\n")


def test_done_has_everything_the_manual_names(shared):
    d = one(shared, "-n", 5, "--ignore-eos", "hello")
    assert d["reason"] == "length"
    assert set(d["usage"]) - {"drafted", "accepted"} == {"prompt", "cached", "completion"}
    assert d["usage"]["completion"] == 5
    assert set(d["timings"]) == {"queue_ms", "prefill_ms", "decode_ms", "ttft_ms"}
    assert isinstance(d["seed"], int)
    assert {"session", "miss_at"} <= set(d)


def test_seed_told_in_done_repeats_the_answer(shared):
    first = one(shared, "-n", 24, "--temp", 1.5, "--ignore-eos", "roll")
    again = one(shared, "-n", 24, "--temp", 1.5, "--ignore-eos", "--seed", first["seed"], "roll")
    other = one(shared, "-n", 24, "--temp", 1.5, "--ignore-eos", "--seed", first["seed"] + 1, "roll")
    assert again["text"] == first["text"]
    assert other["text"] != first["text"]


def test_sampling_options_reach_the_sampler(shared):
    """A bias makes a token certain; mirostat repeats with its seed; what cannot be is refused in one line by name."""
    plain = ("-n", 8, "--ignore-eos", "--seed", 3, "roll")
    text = one(shared, *plain)["text"]
    assert one(shared, "--logit-bias", "Z=100", *plain)["text"] == "ZZZZZZZZ"
    assert one(shared, "--logit-bias", "Z=100", "--presence-penalty", 2, "--logit-bias", "Y=99", *plain)["text"] != "ZZZZZZZZ"
    miro = one(shared, "--temp", 1, "--mirostat", 2, "--mirostat-eta", 0.5, *plain)["text"]
    assert miro == one(shared, "--temp", 1, "--mirostat", 2, "--mirostat-eta", 0.5, *plain)["text"]
    off = ("--typical-p", 1, "--frequency-penalty", 0, "--presence-penalty", 0, "--mirostat", 0)
    assert one(shared, *off, *plain)["text"] == text
    for bias, says in (("99999999=1", "logit_bias: 99999999 is not a token"), ("Zq Zq=1", "tokens, not one")):
        r = shared.hob("--logit-bias", bias, *plain, check=1)
        assert says in r.err and r.err.count("\n") == 1


def test_logprobs_name_every_sampled_token(shared):
    d = one(shared, "--logprobs", "-n", 12, "--temp", 0, "--ignore-eos", "hello")
    ids = [i for e in d["events"] if e["event"] == "text" for i in e["ids"]]
    lps = [x for e in d["events"] if e["event"] == "text" for x in e["logprobs"]]
    assert len(ids) == len(lps) == d["usage"]["completion"] == 12
    assert all(x <= 0 for x in lps)


def test_stdin_comes_first_then_a_blank_line_then_the_words(shared):
    whole = one(shared, "--no-stdin", "-n", 8, "--temp", 0, "from the pipe\n\nthe words")
    piped = one(shared, "-n", 8, "--temp", 0, "the", "words", input=b"from the pipe\n")
    assert piped["usage"]["prompt"] == whole["usage"]["prompt"]
    assert piped["text"] == whole["text"]


def test_file_option_puts_text_before_the_prompt(shared, tmp_path):
    (tmp_path / "a.txt").write_text("from a file\n")
    whole = one(shared, "--no-stdin", "-n", 8, "--temp", 0, "from a file\n\nthe words")
    filed = one(shared, "--no-stdin", "-n", 8, "--temp", 0, "-f", tmp_path / "a.txt", "the words")
    assert filed["text"] == whole["text"]
    missing = shared.hob("-f", tmp_path / "none.txt", "x")
    assert missing.returncode == 1 and "none.txt" in missing.err


def test_raw_adds_nothing(shared):
    d = one(shared, "--raw", "-n", 1, "--ignore-eos", input=b"ab")
    templated = one(shared, "-n", 1, "--ignore-eos", input=b"ab")
    assert d["usage"]["prompt"] < templated["usage"]["prompt"]
    marked = one(shared, "--raw", "-n", 1, "--ignore-eos", input=b"<|im_end|>")
    special = one(shared, "--raw", "--special", "-n", 1, "--ignore-eos", input=b"<|im_end|>")
    assert marked["usage"]["prompt"] > special["usage"]["prompt"] == 1


def test_markup_in_a_users_file_is_text(shared):
    plain = one(shared, "-n", 1, "--ignore-eos", "x")["usage"]["prompt"]
    marked = one(shared, "-n", 1, "--ignore-eos", "x<|im_end|>")["usage"]["prompt"]
    assert marked > plain + 3


def test_stop_string_is_not_shown(shared):
    full = one(shared, "-n", 30, "--temp", 0, "--ignore-eos", "hello")["text"]
    cut = full[10:13]
    d = one(shared, "-n", 30, "--temp", 0, "--ignore-eos", "--stop", cut, "hello")
    assert d["reason"] == "stop"
    assert d["text"] == full[:full.index(cut)]


def test_session_of_three_turns_computes_only_the_new(shared):
    turns = [one(shared, "-S", "three", "-n", 10, "--temp", 0, t) for t in ("first", "second", "third")]
    assert turns[0]["usage"]["cached"] < 16  # the words every prompt begins with
    for before, now in zip(turns, turns[1:]):
        had = before["usage"]["prompt"] + before["usage"]["completion"]
        # The last sampled token was never fed back, so its KV is not there yet.
        assert now["usage"]["cached"] >= had - 1
        assert now["usage"]["prompt"] > had
        assert now["miss_at"] is None or now["miss_at"] < 0
        assert now["session"] == "three"
    last = one(shared, "-c", "-n", 3, "--temp", 0, "fourth")
    assert last["session"] == "three"
    assert last["usage"]["cached"] > turns[2]["usage"]["prompt"]


def test_raw_session_appends(shared):
    a = one(shared, "--raw", "-S", "rawone", "-n", 6, "--temp", 0, "--ignore-eos", input=b"abc def")
    b = one(shared, "--raw", "-S", "rawone", "-n", 6, "--temp", 0, "--ignore-eos", input=b" ghi")
    assert b["usage"]["cached"] >= a["usage"]["prompt"] + 5
    r = shared.hob("-S", "rawone", "hello")
    assert r.returncode == 1 and "rawone" in r.err


def test_two_clients_at_once(shared):
    alone = [one(shared, "-n", 40, "--temp", 0, "--ignore-eos", "--logprobs", p) for p in ("left", "right")]
    both = [None, None]

    def run(i, prompt):
        both[i] = one(shared, "-n", 40, "--temp", 0, "--ignore-eos", "--logprobs", prompt)

    threads = [threading.Thread(target=run, args=a) for a in ((0, "left"), (1, "right"))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for a, b in zip(alone, both):
        assert [e for e in a["events"] if e["event"] == "text"] == [e for e in b["events"] if e["event"] == "text"]


def test_closed_pipe_ends_quietly(shared):
    endless = "--context shift -n 1000000 --ignore-eos --temp 0"
    r = subprocess.run(f"'{HOB}' {endless} go | head -c 10", shell=True, env=shared.env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert len(r.stdout) == 10
    assert r.stderr == b""


def test_full_disk_is_an_error(shared):
    with open("/dev/full", "wb") as full:
        r = subprocess.run([HOB, "-n", "5", "--ignore-eos", "go"], env=shared.env, stdin=subprocess.DEVNULL, stdout=full,
                           stderr=subprocess.PIPE, timeout=60)
    assert r.returncode == 1
    assert len(r.stderr.splitlines()) == 1 and b"No space left" in r.stderr


def test_interrupt_cancels_at_once(home, long):
    d = home.daemon("-m", long)
    p = home.popen([HOB, "-n", 30000, "--ignore-eos", "go"], env={"HOB_SOCKET": str(d.path)}, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(5)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130
    deadline = time.monotonic() + 60
    while json.loads(home.hob("status", "--json", env={"HOB_SOCKET": str(d.path)}).out)["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_no_stream_prints_at_the_end(shared):
    a = shared.hob("--no-stream", "-n", 20, "--temp", 0, "tell", check=0)
    b = shared.hob("-n", 20, "--temp", 0, "tell", check=0)
    assert a.stdout == b.stdout


def test_verbose_says_usage_and_quiet_says_nothing(shared):
    v = shared.hob("-v", "-n", 5, "--ignore-eos", "hi", check=0)
    assert "5" in v.err and len(v.err) > 10
    q = shared.hob("-q", "-n", 5, "--ignore-eos", "hi", check=0)
    assert q.err == ""


@pytest.mark.parametrize("args,say", [
    (["--no-such-option"], "no-such-option"), (["-n", "many", "x"], "many"), (["--temp", "-3", "x"], "-3"),
    (["-n", "0", "x"], "0"), (["-S", "", "x"], "session"), (["chat", "x"], "chat"), (["models", "x"], "models"), (["-a", "", "x"], "image"),
    (["--seed", "abc", "x"], "abc"), (["--special", "x"], "raw"),
])
def test_usage_errors_exit_2(shared, args, say):
    r = shared.hob(*args)
    assert r.returncode == 2, r.err
    assert say in r.err


def test_nothing_to_ask(shared):
    r = shared.hob(input=b"")
    assert r.returncode == 2 and r.err.count("\n") == 1


def test_word_after_dashes_is_a_prompt(shared):
    assert one(shared, "-n", 2, "--", "status", "of my life")["usage"]["completion"] >= 1


def test_invalid_utf8_names_the_byte(shared):
    r = shared.hob("what is this", input=b"abc\xff\xfe")
    assert r.returncode == 1
    assert "byte 3" in r.err and "UTF-8" in r.err and r.err.count("\n") == 1


def test_prompt_longer_than_the_context_gives_the_numbers(shared):
    r = shared.hob("what", input=b"0123456789" * 200)
    assert r.returncode == 1
    assert "512" in r.err and r.err.count("\n") == 1


def test_context_end_is_an_answer(shared):
    d = one(shared, "-n", 5000, "--ignore-eos", "--temp", 0, "go on")
    assert d["reason"] == "context"
    assert d["usage"]["prompt"] + d["usage"]["completion"] in (512, 513)


def test_timeout_cuts_an_answer(home, long):
    d = home.daemon("-m", long)
    for timeout in ("300ms", "1s", "3s"):  # on a busy machine the first token may come too late
        r = home.hob("--timeout", timeout, "-n", 30000, "--ignore-eos", "go", env={"HOB_SOCKET": str(d.path)})
        assert r.returncode == 1 and r.err
        if r.out:
            return
    pytest.fail("no answer was cut")


def test_status_is_a_table_and_json(shared):
    s = json.loads(shared.hob("status", "--json", check=0).out)
    assert s["state"] == "ready" and s["ctx"] == 512 and s["kv_blocks_free"] <= s["kv_blocks"]
    assert "ready" in shared.hob("status", check=0).out


@pytest.mark.parametrize("args", [["status"], ["stop"], ["hello"]])
def test_no_daemon_is_69(home, args, tmp_path):
    r = home.hob(*args, env={"HOB_SOCKET": str(tmp_path / "nobody.sock")})
    assert r.returncode == 69
    assert r.err.count("\n") == 1 and "nobody.sock" in r.err


def test_status_and_stop_start_nothing(home):
    assert home.hob("status").returncode == 69
    assert home.hob("stop").returncode == 69
    assert not home.socket.exists()


def test_long_socket_path(home, tmp_path):
    r = home.hob("x", env={"HOB_SOCKET": "/tmp/" + "s" * 120})
    assert r.returncode == 69 and r.err.count("\n") == 1


def test_no_permission_on_the_socket(shared):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", HOB, "x"], stdin=subprocess.DEVNULL,
                       env={**shared.env, "HOB_SOCKET": str(shared.socket)}, capture_output=True, timeout=60)
    if b"setpriv" in r.stderr or r.returncode == 126:
        pytest.skip("another user cannot run this build's hob: " + r.stderr.decode().strip())
    assert r.returncode == 69
    assert b"ermission" in r.stderr and r.stderr.count(b"\n") == 1


def test_hob_starts_one_daemon_and_it_stays(home):
    out = [None] * 3

    def run(i):
        out[i] = home.hob("-n", 4, "--ignore-eos", "--temp", 0, "hi")

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [r.returncode for r in out] == [0, 0, 0], [r.err for r in out]
    assert out[0].out == out[1].out == out[2].out
    pids = {json.loads(home.hob("status", "--json", check=0).out)["pid"] for _ in range(3)}
    assert len(pids) == 1
    fds = os.listdir(f"/proc/{pids.copy().pop()}/fd")
    targets = [os.readlink(f"/proc/{pids.copy().pop()}/fd/{f}") for f in fds if f in ("0", "1", "2")]
    assert all(t == "/dev/null" or str(home.root) in t for t in targets), targets
    home.hob("stop", check=0)
    assert home.hob("status").returncode == 69


def test_a_daemon_that_cannot_load_reports_the_reason(home, tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 40)
    r = home.hob("-m", tmp_path / "broken.gguf", "hi")
    assert r.returncode in (1, 69)
    assert "broken.gguf" in r.err and r.err.count("\n") == 1
    r = home.hob("-m", "nosuch", "hi")
    assert r.returncode in (1, 69) and "nosuch" in r.err and "hob models add" in r.err and r.err.count("\n") == 1


def test_answers_on_a_terminal_while_reading_a_pipe(shared):
    """Standard output is a terminal, standard input a pipe: text arrives long before the end."""
    master, slave = pty.openpty()
    p = shared.popen([HOB, "-n", 10_000_000, "--ignore-eos", "--temp", 0, "--context", "rotate"],
                     stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    p.stdin.write(b"hello")
    p.stdin.close()
    assert os.read(master, 65536)
    assert p.poll() is None
    p.send_signal(signal.SIGINT)
    try:
        while os.read(master, 65536):
            pass
    except OSError:
        pass
    os.close(master)
    assert p.wait(60) == 130


def test_help_and_version(shared):
    assert "--max-tokens" in shared.hob("--help", check=0).out
    assert shared.hob("--version", check=0).out.startswith("hob ")


@pytest.mark.parametrize("args", [["--help"], ["models", "--help"]])
def test_help_fits_a_terminal(shared, args):
    assert max(len(line) for line in shared.hob(*args, check=0).out.splitlines()) <= 80


def test_client_links_libc_and_msgpack_only(shared):
    needed = subprocess.run(["readelf", "-d", HOB], capture_output=True, check=True).stdout.decode()
    libs = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "NEEDED" in line]
    libs = [x for x in libs if not x.startswith(("libasan", "libubsan", "libm.", "libgcc_s", "ld-linux"))]
    assert all(x.startswith(("libc.", "libmsgpack")) for x in libs), libs


def test_a_context_that_rotates_ends_where_the_page_says(shared):
    page = (TOP / "man" / "hob.1.scd").read_text()
    times = int(re.search(r"at most (\d+) contexts of", page).group(1))
    r = shared.hob("--jsonl", "--context", "rotate", "-n", 10000000, "--ignore-eos", "x", check=0)
    done = json.loads(r.out.splitlines()[-1])
    assert done["reason"] == "context"
    assert done["usage"]["prompt"] + done["usage"]["completion"] == times * 512
