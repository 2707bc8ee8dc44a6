# SPDX-License-Identifier: MIT
"""hob infill: what belongs between two texts, as editors ask for it."""
import json
import re

import pytest
from conftest import Home, Said


@pytest.fixture(scope="module")
def desk(tmp_path_factory, coder):
    h = Home(tmp_path_factory.mktemp("home"), coder)
    h.d = h.daemon()
    yield h
    h.stop()


def write(home, prefix, suffix):
    a, b = home.root / "prefix", home.root / "suffix"
    a.write_bytes(prefix)
    b.write_bytes(suffix)
    return ["--prefix-file", a, "--suffix-file", b]


def infill(home, prefix, suffix, *args, **kw):
    return Said(home.hob("infill", "--jsonl", "--logprobs", "-n", 24, *write(home, prefix, suffix), *args, **kw))


def test_the_tokens_are_as_the_order_says(desk):
    """The same as raw text in which the special tokens are written out."""
    want = desk.ask("--raw", "--special", "<fim_prefix>int a = <fim_suffix>;\n}\n<fim_middle>", n=24, temp=0)
    got = infill(desk, b"int a = ", b";\n}\n", "--ignore-eos")
    assert got.prompt == want.prompt
    n = min(len(got.bits[0]), len(want.bits[0]))
    assert n > 1 and got.bits[0][:n] == want.bits[0][:n] and got.bits[1][:n] == want.bits[1][:n]


def test_one_pipe_says_the_same_as_two_files(desk):
    text = "fänger = 1\nx = \ny = 2\n".encode()
    for at in (0, 1, len(text), text.index(b"\ny")):
        files = infill(desk, text[:at], text[at:])
        piped = Said(desk.hob("infill", "--jsonl", "--logprobs", "-n", 24, "--at", at, input=text))
        assert piped.bits == files.bits and piped.prompt == files.prompt
    a, b = write(desk, text[:12], text[12:])[1::2]
    for args, given in ((("--prefix-file", "-", "--suffix-file", b), text[:12]),
                        (("--suffix-file", "-", "--prefix-file", a), text[12:])):
        assert Said(desk.hob("infill", "--jsonl", "--logprobs", "-n", 24, *args, input=given)).bits == \
            infill(desk, text[:12], text[12:]).bits


def test_one_text_may_be_missing_or_empty(desk):
    a = write(desk, b"x = ", b"")[1]
    want = infill(desk, b"x = ", b"").bits
    assert Said(desk.hob("infill", "--jsonl", "--logprobs", "-n", 24, "--prefix-file", a)).bits == want
    assert Said(desk.hob("infill", "--jsonl", "--logprobs", "-n", 24, "--suffix-file", a)).bits == \
        infill(desk, b"", b"x = ").bits
    r = desk.hob("infill", *write(desk, b"", b""), check=2)
    assert "both texts are empty" in r.err and not r.out
    assert "both texts are empty" in desk.hob("infill", "--at", 0, check=2).err


def test_text_alone_goes_to_standard_output(desk):
    files = write(desk, b"int a = ", b";\n")
    said = Said(desk.hob("infill", "--jsonl", "--logprobs", *files))
    assert desk.hob("infill", *files, check=0).out == said.text  # no newline of ours
    assert desk.hob("infill", "--no-stream", *files, check=0).out == said.text
    assert said.usage["completion"] <= 256
    greedy = Said(desk.hob("infill", "--jsonl", "--logprobs", "--seed", 99, *files))
    assert greedy.bits == said.bits
    hot = Said(desk.hob("infill", "--jsonl", "--logprobs", "--seed", 99, "--temp", 2, *files))
    assert hot.bits != said.bits


def first_lines(text, n):
    lead = len(text) - len(text.lstrip())
    lead = text.rfind("\n", 0, lead) + 1
    return text[:lead] + "\n".join(text[lead:].split("\n")[:n])


def test_max_lines(desk):
    compared = 0
    for seed in range(40):
        args = [b"a\n", b"", "--ignore-eos", "--temp", 3, "--top-k", 0, "--top-p", 1, "--min-p", 0, "--seed", seed, "-n", 400]
        whole = infill(desk, *args).text
        if first_lines(whole, 3) == whole:
            continue
        for n in (1, 2, 3):
            cut = infill(desk, *args, "--max-lines", n)
            assert cut.text == first_lines(whole, n)
            assert cut.done["reason"] == "stop"
        compared += 1
        if compared == 4:
            break
    assert compared


def test_it_stops_at_the_suffix(desk):
    """Where the model writes what follows anyway. A suffix changes the answer, so the place is looked for."""
    c = desk.client()
    for seed in range(200):
        keys = dict(prefix="a", max_tokens=60, temperature=3.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed, ignore_eos=True)
        for suffix in ("e", "t", "a"):
            free = c.answer(kind="infill", suffix=suffix, **keys)
            raw = c.answer(f"<fim_prefix>a<fim_suffix>{suffix}<fim_middle>", raw=True, special=True,
                           **{k: v for k, v in keys.items() if k != "prefix"})
            assert free.end["event"] == raw.end["event"] == "done", (free.end, raw.end)
            if suffix in raw.text:
                assert free.text == raw.text[:raw.text.index(suffix)] and free.end["reason"] == "stop"
                return
    raise AssertionError("no answer had it")


def test_a_second_keystroke_is_nearly_free(desk):
    before = "".join(f"let value_{i} = compute({i});\n" for i in range(10)).encode()
    first = infill(desk, before + b"let x", b"")
    second = infill(desk, before + b"let xy", b"")
    assert second.prompt == first.prompt + 1
    assert second.cached >= first.prompt - 8 > 100
    # One line changed in the middle: what is before it is known.
    third = infill(desk, before.replace(b"value_8", b"worth_8") + b"let xy", b"")
    assert second.prompt // 2 < third.cached < second.prompt


def test_a_long_buffer_is_cut_and_typing_on_is_found(desk):
    text = "".join(f"let value_{i} = compute({i});\n" for i in range(500)).encode()
    cached, cuts = [], []
    for n in range(9000, 9040, 4):
        got = infill(desk, text[:n], b"\n}\n")
        assert got.prompt <= 512 - 24
        cuts.append(got.done["cut_prefix"])
        assert text[cuts[-1] - 1:cuts[-1]] == b"\n" and "cut_suffix" not in got.done
        cached.append(got.cached / got.prompt)
    assert len(set(cuts)) <= 3
    assert sum(c > 0.9 for c in cached) >= 7
    both = infill(desk, text, text)
    assert both.done["cut_prefix"] > 12000 and both.done["cut_suffix"] > 12000
    r = desk.hob("infill", "-v", "-n", 4, *write(desk, text, text), check=0)
    assert re.search(r"without the first \d+ bytes of the prefix and the last \d+ of the suffix", r.err), r.err


def test_ten_megabytes(desk):
    line = "for (int i = 0; i < n; i++) sum += a[i]; /* ä € */\n".encode()
    big = line * (10_000_000 // len(line))
    got = infill(desk, big, big)
    assert got.prompt <= 512 and got.done["cut_prefix"] > 9_900_000 < got.done["cut_suffix"]
    spaces = infill(desk, b" " * 10_000_000, b"\n" * 10_000_000)
    assert spaces.prompt <= 512


def test_nul_is_a_character_and_bad_bytes_are_refused(desk):
    assert infill(desk, b"a\0b", b"\0").prompt == 3 + 4
    for prefix, suffix, name, at in ((b"\x7fELF\xff\xfe", b"x", "prefix", 4), (b"x", b"\xc3", "suffix", 0)):
        r = desk.hob("infill", *write(desk, prefix, suffix), check=1)
        assert f"{name}: invalid UTF-8 at byte {at}" in r.err and not r.out
    assert "invalid UTF-8 at byte 1" in desk.hob("infill", "--at", 0, input=b"x\xff", check=1).err


def test_wrong_usage(desk):
    files = write(desk, b"a", b"b")
    for args, part in (([], "--prefix-file"), (["--at", 3, *files], "--at splits"), (["--at", 9], "has 3 bytes"),
                       (["--at", 2], "inside a UTF-8 character"), (["--at", -1], "--at"), ([*files, "-S", "x"], "--session"),
                       ([*files, "-c"], "--continue"), ([*files, "-s", "x"], "--system"), ([*files, "word"], "word"),
                       ([*files, "--raw"], "--raw"), ([*files, "--max-lines", 0], "--max-lines"),
                       ([*files, "--logprobs"], "--jsonl"), (["--prefix-file", "-", "--suffix-file", "-"], "both"),
                       ([*files, "--context", "shift"], "--context"), ([*files, "--json"], "--json")):
        r = desk.hob("infill", *args, input="aä".encode(), check=2)
        assert part in r.err and r.err.count("\n") == 1 and not r.out, r.err
    assert "infill" in desk.hob("--max-lines", 3, "hi", check=2).err
    r = desk.hob("infill", "--prefix-file", desk.root / "none", check=1)
    assert "none" in r.err and "No such file" in r.err
    assert "Is a directory" in desk.hob("infill", "--prefix-file", desk.root, check=1).err


def test_a_model_without_the_tokens(shared):
    r = shared.hob("infill", *write(shared, b"a", b"b"), check=1)
    assert "does not support infill" in r.err and r.err.count("\n") == 1 and not r.out
    r = shared.hob("infill", "--jsonl", *write(shared, b"a", b"b"), check=1)
    assert json.loads(r.out)["code"] == "EOPNOTSUPP"


def test_the_configuration_of_conversations_does_not_count(desk):
    conf = desk.root / "config" / "hob" / "hob.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    want = infill(desk, b"x = ", b"\n").bits
    conf.write_text('system = "be kind"\nsession = s\ntemp = 5\nstop = "e"\ncontext = shift\npriority = batch\nwait = yes\n')
    try:
        assert infill(desk, b"x = ", b"\n").bits == want
        assert desk.client().sessions() == []
        conf.write_text("nonsense = 1\n")
        assert "nonsense" in desk.hob("infill", *write(desk, b"a", b"b"), check=2).err
    finally:
        conf.unlink()


def test_it_starts_a_daemon(homes, coder):
    home = homes(coder)
    assert home.hob("infill", "-n", 4, *write(home, b"a", b"b"), check=0).err == ""
    assert home.status()["state"] == "ready"


@pytest.mark.parametrize("keys,part", [
    (dict(prefix="a", messages=[{"role": "user", "content": "x"}]), "messages"), (dict(prefix="a", raw=True), "raw"),
    (dict(prefix="a", session="s"), "session"), (dict(prefix="a", max_lines=0), "max_lines"),
    (dict(prefix="", suffix=""), "empty"), (dict(), "empty"), (dict(prefix=1), "prefix"),
    (dict(prefix="a", stop=["x"] * 16), "stop"), (dict(prefix="a", special=True), "special"),
])
def test_the_protocol_refuses_by_name(desk, keys, part):
    e = desk.client().answer(kind="infill", **keys).end
    assert e["event"] == "error" and e["code"] == "EINVAL" and part in e["message"], e


def test_the_protocol(desk):
    c = desk.client()
    assert "infill" in c.hello["features"]
    e = c.answer("x", prefix="a", max_tokens=2).end
    assert e["code"] == "EINVAL" and "infill" in e["message"]
    a = c.answer(kind="infill", prefix=b"bytes", suffix="text", max_tokens=3, ignore_eos=True)
    assert a.end["event"] == "done" and a.usage["completion"] == 3
    e = c.answer(kind="infill", prefix=b"a\xff", suffix="").end
    assert e["code"] == "EINVAL" and "prefix" in e["message"]
