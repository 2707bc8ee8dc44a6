# SPDX-License-Identifier: MIT
"""hobd's other commands on small models."""
import json
import os
import re
import subprocess
from xml.etree import ElementTree

import pytest
from conftest import HOBD, TOP, mktiny
from terminal import on_terminal


def hobd(*args, input=b"", check=0):
    r = subprocess.run([HOBD, *map(str, args)], input=input, capture_output=True, timeout=300)
    if check is not None:
        assert r.returncode == check, r.stderr.decode()
    r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
    return r


def test_tokenize_and_back(tiny, tiny_spm):
    for model in (tiny, tiny_spm):
        text = "Hello, wörld!  two  spaces\n\ttabs 日本 🙂"
        ids = hobd("tokenize", "-m", model, input=text.encode()).out
        assert json.loads(ids)
        assert hobd("tokenize", "-m", model, "--detokenize", input=ids.encode()).out == text


def test_tokenize_special_and_bos(tiny, tiny_spm):
    text = b"<|im_end|>"
    assert len(json.loads(hobd("tokenize", "-m", tiny, input=text).out)) > 1
    assert len(json.loads(hobd("tokenize", "-m", tiny, "--special", input=text).out)) == 1
    plain = json.loads(hobd("tokenize", "-m", tiny_spm, input=b"a").out)
    assert json.loads(hobd("tokenize", "-m", tiny_spm, "--bos", input=b"a").out) == [1] + plain


def test_tokenize_refuses_bad_input(tiny):
    assert "byte 1" in hobd("tokenize", "-m", tiny, input=b"a\xff", check=1).err
    assert hobd("tokenize", "-m", tiny, "--detokenize", input=b"[1, 99999999]", check=1).err
    assert hobd("tokenize", "-m", tiny, "--detokenize", input=b"[1,", check=1).err


def test_template_refuses_a_day_that_does_not_exist(tiny):
    assert "no such day" in hobd("template", "-m", tiny, "--now", "2026-02-30T00:00:00", input=b"{}", check=2).err


def test_template(tiny, tmp_path):
    request = {"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": True}
    out = hobd("template", "-m", tiny, input=json.dumps(request).encode()).out
    assert out.endswith("<|im_start|>assistant\n") and "<|im_start|>user\nhi<|im_end|>\n" in out
    (tmp_path / "t.jinja").write_text("{{ strftime_now('%Y-%m-%d') }} {{ n + 1 }}")
    r = hobd("template", "--template", tmp_path / "t.jinja", "--now", "2026-11-20T12:00:00", input=b'{"n": 41}')
    assert r.out == "2026-11-20 42"
    (tmp_path / "e.jinja").write_text("a\n{{ raise_exception('no such role') }}")
    r = hobd("template", "--template", tmp_path / "e.jinja", input=b"{}", check=1)
    assert "no such role" in r.err and "line 2" in r.err


def on_a_terminal(*args, input=b""):
    return on_terminal([HOBD, *args], input)[0]


def test_no_control_characters_on_a_terminal(tiny, tmp_path):
    """What others wrote cannot command it; through a pipe it is as they wrote it."""
    evil, picture = b"a\x1b]0;b\x07c\xc2\x9bd\xe2\x80\xae", "a␛]0;b␇c\ufffdd\ufffd".encode()
    ids = hobd("tokenize", "-m", tiny, input=evil).out.encode()
    assert hobd("tokenize", "-m", tiny, "--detokenize", input=ids).stdout == evil
    assert on_a_terminal("tokenize", "-m", tiny, "--detokenize", input=ids) == picture
    (tmp_path / "t.jinja").write_bytes(evil)
    assert hobd("template", "--template", tmp_path / "t.jinja", input=b"{}").stdout == evil
    assert on_a_terminal("template", "--template", tmp_path / "t.jinja", input=b"{}") == picture
    path = b"/nowhere/" + evil
    # Errors quote names; they go through one place, whoever reads them.
    for args in (["inspect", evil], ["tokenize", "-m", path], ["serve", "-m", path], ["bench", "-m", path], [evil],
                 ["template", b"--template=" + evil], ["inspect", b"--" + evil]):
        r = subprocess.run([os.fsencode(HOBD), *map(os.fsencode, args)], capture_output=True, input=b"{}", timeout=60)
        assert r.returncode and picture in r.stderr, (args, r.stderr)
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", r.stderr), (args, r.stderr)
    (tmp_path / "e.jinja").write_bytes(b"{{ raise_exception('" + evil + b"') }}")
    assert picture in subprocess.run([HOBD, "template", "--template", tmp_path / "e.jinja"], input=b"{}", capture_output=True).stderr


def test_missing_and_irregular_files(tiny, tmp_path):
    """What is read once may be a pipe; what has no end is refused, and a model is a file."""
    script = f"'{HOBD}' template --template <(printf '{{{{ n + 1 }}}}') <<<'{{\"n\": 41}}'"
    assert subprocess.run(["bash", "-c", script], capture_output=True, timeout=60).stdout == b"42"
    says = "/dev/zero is a device, not a file"
    assert says in hobd("template", "--template", "/dev/zero", input=b"{}", check=1).err
    assert says in hobd("perplexity", "-m", tiny, "-f", "/dev/zero", check=1).err
    assert says in hobd("simulate", "/dev/zero", check=1).err
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    assert "more than 1048576 bytes" in hobd("template", "--template", tmp_path / "large", input=b"{}", check=1).err
    os.mkfifo(tmp_path / "pipe.gguf")
    for model in (tmp_path / "pipe.gguf", "/dev/zero", tmp_path):
        assert "regular file" in hobd("inspect", model, check=1).err


def test_a_configuration_is_a_file(home):
    """Both programs tell of a pipe in its place, and wait for nobody."""
    ways = {"hob.conf": lambda: home.hob("x", check=2),
            "hobd.conf": lambda: subprocess.run([HOBD, "serve"], env=home.env, capture_output=True, timeout=60)}
    for name, ask in ways.items():
        conf = home.root / "config" / "hob" / name
        conf.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(conf)
        assert f"{conf} is not a regular file" in ask().stderr.decode()
        conf.unlink()


def test_inspect(tiny, tmp_path):
    out = hobd("inspect", tiny).out
    assert "llama" in out and "token_embd.weight" in out and "Q8_0" in out
    (tmp_path / "no.gguf").write_bytes(b"nothing")
    assert "no.gguf" in hobd("inspect", tmp_path / "no.gguf", check=1).err


KINDS = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 TQ1_0 TQ2_0 "
KINDS = (KINDS + "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S").split()
WIDE = "Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS TQ1_0 TQ2_0 IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S".split()  # blocks of 256


@pytest.mark.parametrize("kind", KINDS)
def test_verify_agrees_with_an_independent_pass(tmp_path, kind):
    wide = ["--dim", 256, "--ffn", 512] if kind in WIDE else []
    model = mktiny(tmp_path / "v.gguf", "--type", kind, "--untied", "--seed", 3, *wide)
    r = hobd("verify", "-m", model, check=None)
    if "OpenBLAS" in r.err and r.returncode:
        pytest.skip("OpenBLAS is not installed")
    assert r.returncode == 0, r.err + r.out


def test_verify_notices_a_difference(tiny, tmp_path):
    """The bound means something: it is printed and is a number near zero."""
    out = hobd("verify", "-m", tiny).out
    assert "KL" in out


def test_perplexity_of_random_weights(tiny, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("some words to score, over and over. " * 80)
    p = json.loads(hobd("perplexity", "-m", tiny, "-f", text, "-c", 128, "--chunks", 3, "--json").out)
    assert p["chunks"] == 3 and p["tokens"] == 3 * 63 and p["ppl"] > 1 and p["stderr"] > 0
    for kv in ("f16", "q8"):
        q = json.loads(hobd("perplexity", "-m", tiny, "-f", text, "-c", 128, "--chunks", 3, "--kv-type", kv, "--json").out)
        assert q["ppl"] != p["ppl"] and abs(q["ppl"] / p["ppl"] - 1) < 0.05
    assert "q4" in hobd("perplexity", "-m", tiny, "-f", text, "--kv-type", "q4", check=2).err
    text.write_text("short")
    assert hobd("perplexity", "-m", tiny, "-f", text, "-c", 128, check=1).err


def test_bench_prints_the_named_fields(tiny):
    b = json.loads(hobd("bench", "-m", tiny, "-p", 64, "-n", 8, "-b", "1,4", "-t", 1, "--json").out)
    assert {"model", "cpu", "isa", "threads", "read_gbps", "int8_gops", "load_s", "prefill", "decode"} <= set(b)
    assert b["read_gbps"] > 0 and b["int8_gops"] > 0
    assert b["prefill"]["tokens"] == 64 and b["prefill"]["tok_s"] > 0
    assert [d["batch"] for d in b["decode"]] == [1, 4]
    for d in b["decode"]:
        assert d["depth"] == 0 and d["tok_s"] > 0
        assert d["share"] == pytest.approx(d["gbps"] / b["read_gbps"], rel=1e-4)
        assert d["joules_per_token"] is None or d["joules_per_token"] > 0


def test_bench_at_depth_reports_the_parts(tiny):
    args = ["bench", "-m", tiny, "-p", 64, "-n", 4, "-b", "1,3", "-t", 2, "--depth", "0,512", "--roofline", "-r", 2]
    b = json.loads(hobd(*args, "--json").out)
    assert [(d["depth"], d["batch"]) for d in b["decode"]] == [(0, 1), (0, 3), (512, 1), (512, 3)]
    parts = ["projections", "attention", "vectors", "logits", "waiting"]
    for d in [b["prefill"], *b["decode"]]:
        assert sum(d["ms"][p] for p in parts) == pytest.approx(d["ms"]["all"], rel=1e-3)
        assert all(d["ms"][p] > 0 for p in parts[:4])
    shallow, deep = b["decode"][0], b["decode"][2]
    assert shallow["weight_bytes"] > shallow["vocabulary_bytes"] > 0
    assert deep["kv_bytes"] == pytest.approx(shallow["kv_bytes"] * 514.5 / 2.5)
    out = hobd(*args).out
    assert "limits of this machine" in out and "barriers" in out and "J/token" in out


def test_bench_scales_over_threads(tiny, tmp_path):
    cpus = len(os.sched_getaffinity(0))
    args = ["bench", "-m", tiny, "-p", 32, "-n", 4, "-b", "1,2", "-r", 1, "--threads", f"1,{cpus + 1}"]
    b = json.loads(hobd(*args, "--json").out)
    assert [s["threads"] for s in b["scaling"]] == [1, cpus + 1] and b["cpus"] == cpus
    assert [s["oversubscribed"] for s in b["scaling"]] == [False, True]
    for s in b["scaling"]:
        assert s["read_gbps"] > 0 and s["int8_gops"] > 0 and s["prefill"]["tok_s"] > 0
        assert [d["batch"] for d in s["decode"]] == [1, 2]
    assert b["threads"] == 1 and b["prefill"] == b["scaling"][0]["prefill"]  # the most threads with a CPU each
    picture = tmp_path / "scaling.svg"
    out = hobd(*args, "--plot", picture).out
    assert f"{cpus + 1}*" in out and f"more threads than the {cpus} CPUs" in out
    titles = [t.text for t in ElementTree.parse(picture).findall(".//{*}text") if t.get("font-size") == "14"]
    assert titles == ["prefill, tok/s by threads", "decode of 1 at depth 0", "decode of 2 at depth 0"]
    assert "-t: '1,0' is not a list" in hobd(*args, "-t", "1,0", check=2).err


def test_bench_plots_every_decode(tiny, tmp_path):
    picture = tmp_path / "many.svg"
    hobd("bench", "-m", tiny, "-p", 8, "-n", 1, "-b", "1,2,3,4,5,6", "--depth", "0,1,2", "-r", 1, "-t", 1, "--plot", picture)
    svg = ElementTree.parse(picture)
    titles = [t.text for t in svg.findall(".//{*}text") if t.get("font-size") == "14"]
    assert sorted(titles[1:]) == sorted(f"decode of {b} at depth {d}" for b in range(1, 7) for d in range(3))
    places = [g.get("transform") for g in svg.findall("{*}g")]
    assert len(places) == 19 == len(set(places))
    right = max(int(p[len("translate("):].split()[0]) for p in places)
    assert right + 320 < int(svg.getroot().get("width"))


def test_bench_measures_passes_by_rows(tiny, tmp_path):
    args = ["bench", "-m", tiny, "-p", 32, "-n", 8, "-b", 1, "-r", 1, "-t", 1, "--rows", "1,4,32", "--depth", "0,512"]
    picture = tmp_path / "rows.svg"
    b = json.loads(hobd(*args, "--roofline", "--plot", picture, "--json").out)
    assert [(r["depth"], r["rows"]) for r in b["rows"]] == [(0, 1), (0, 4), (0, 32), (512, 1), (512, 4), (512, 32)]
    assert "rows" not in b["scaling"][0]
    for r in b["rows"]:
        assert r["ms"] > 0 and r["kv_bytes"] > 0
        assert r["gbps"] == pytest.approx((r["weight_bytes"] + r["kv_bytes"]) / r["ms"] * 1e-6, rel=1e-4)
        assert r["share"] == pytest.approx(max(r["gbps"] / b["read_gbps"], r["gops"] / b["int8_gops"]), rel=1e-4)
        one = next(x for x in b["rows"] if x["rows"] == 1 and x["depth"] == r["depth"])
        cost, a = r["ms"] / one["ms"], r["break_even"]
        if a:  # 0: the pass costs no more than one of one row; None: more than a row each
            assert sum(a ** k for k in range(r["rows"])) == pytest.approx(cost, rel=1e-3)
        else:
            assert cost <= 1.001 if a == 0 else cost > r["rows"]
    circles = ElementTree.parse(picture).findall(".//{*}circle")
    assert len(circles) == 2 * len(b["rows"])
    assert "break-even" in hobd(*args).out
    assert "--rows: '33' is not a list" in hobd("bench", "-m", tiny, "--rows", 33, check=2).err
    assert "/nowhere/at/all.svg" in hobd("bench", "-m", tiny, "-p", 8, "-n", 1, "-b", 1, "-r", 1, "--plot",
                                         "/nowhere/at/all.svg", check=1).err


def test_the_speed_table_is_markdown(tiny, tmp_path):
    """tests/bench/table.py, with a peer that is fast to run."""
    said = {"llama-bench": """case "$*" in *--version*) echo "version: 12 (ab)" >&2 ;; *"-p 0"*) echo '{"avg_ts": 2}' ;; *) echo '{"avg_ts": 4}' ;; esac""",
            "llama-batched-bench": """echo loading; echo '{"speed_tg": 0.5}'"""}
    for name, script in said.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    argv = [TOP / "tests/bench/table.py", "--hobd", HOBD, "--peer", tmp_path / "llama-bench", "-r", 1, "-p", 32, "-n", 2, "-t", 1,
            "--depth", 64, tiny]
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in r.stdout.splitlines() if line.startswith("|")]
    assert "llama.cpp 12 (ab) ran in turn" in r.stdout and rows[0] == ["model", "tokens per second", "hob", "llama.cpp", "ratio"]
    peers = {"prefill 32": "4.0", "decode 1": "2.0", "decode 16": "0.5", "prefill 64": "4.0", "decode 1 at depth 64": "2.0"}
    assert {row[1]: row[3] for row in rows[2:7]} == peers
    assert all(float(row[2]) > 0 and float(row[4]) > 0 for row in rows[2:7])
    assert rows[7][:4] == ["threads", "prefill 32", "decode 1", "decode 16"] and rows[9][0] == "1" and "(100%)" in rows[9][1]


def test_bench_refuses_what_does_not_fit(tiny):
    assert "context of 512" in hobd("bench", "-m", tiny, "--depth", 513, check=1).err
    assert "--depth: '1,x'" in hobd("bench", "-m", tiny, "--depth", "1,x", check=2).err
    assert "-b: '0' is not a list" in hobd("bench", "-m", tiny, "-b", 0, check=2).err


COMMANDS = ["serve", "bench", "perplexity", "verify", "tokenize", "template", "parse", "inspect", "simulate"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_refuses_unknown_options(command):
    assert command in hobd(command, "--help").out
    r = hobd(command, "--no-such-thing", check=2)
    assert r.err.count("\n") == 1 and "--no-such-thing" in r.err and not r.out
    if command != "serve":
        assert r.err.startswith(f"hobd {command}: unknown option '--no-such-thing'; hobd {command} --help")


@pytest.mark.parametrize("args,says", [
    (["bench", "-x"], "unknown option '-x'"), (["bench", "--json=3"], "'--json=3' takes no value"),
    (["bench", "--model"], "'--model' needs a value"), (["bench", "-p", "0"], "-p: '0' is not between 1 and"),
    (["perplexity", "-c", "many"], "-c: 'many' is not a whole number"), (["perplexity", "-f"], "'-f' needs a value"),
    (["verify", "-xy"], "unknown option '-x'"), (["verify"], "hobd verify --help"), (["simulate"], "TRACE is missing"),
    (["simulate", "--requests", "x", "t"], "--requests: 'x' is not a whole number"), (["inspect"], "FILE is missing"),
    (["tokenize"], "-m FILE is missing"), (["template"], "either -m FILE or --template FILE"),
    (["parse"], "either -m FILE or --template FILE"), (["parse", "-m", "x", "--stream", "0"], "--stream: '0' is not between 1"),
    (["template", "--template", "x", "--now", "soon"], "not 'soon'"), (["perplexity", "-m", "x"], "-f TEXT")])
def test_wrong_usage_is_one_line_of_the_command(args, says):
    r = hobd(*args, check=2)
    assert r.err.startswith(f"hobd {args[0]}: ") and says in r.err and r.err.count("\n") == 1 and not r.out


@pytest.mark.parametrize("args", [[c, "--help"] for c in COMMANDS] + [["--help"]])
def test_help_fits_a_terminal(args):
    assert max(len(line) for line in hobd(*args).out.splitlines()) <= 80


def test_failed_output_is_an_error(tiny, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("some words to score, over and over. " * 80)
    bench = ["bench", "-m", tiny, "-p", 8, "-n", 1, "-b", 1, "-r", 1]
    for args in (["--help"], ["--version"], ["serve", "--help"], bench, [*bench, "--json"], ["verify", "-m", tiny],
                 ["perplexity", "-m", tiny, "-f", text, "-c", 64, "--chunks", 1], ["inspect", tiny], ["inspect", "--supported"]):
        with open("/dev/full", "wb") as full:
            r = subprocess.run([HOBD, *map(str, args)], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
        err = r.stderr.decode()
        assert r.returncode == 1 and err.count("\n") == 1 and "standard output: No space left" in err, (args, err)
