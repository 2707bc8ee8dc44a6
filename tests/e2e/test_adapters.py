# SPDX-License-Identifier: MIT
"""Adapters as a user has them: added to a model, named on the command line, in hob.conf and hobd.conf, by the gateway's
field, shown by the status, and refused with an error message."""
import json
import subprocess

import pytest
from conftest import BUILD, HOBD

MKLORA = BUILD / "tests" / "support" / "mklora"
ASK = ("--raw", "--no-stdin", "once upon a time")


@pytest.fixture
def adapter(tmp_path, tiny):
    def make(name, *args, base=tiny):
        path = tmp_path / f"{name}.gguf"
        subprocess.run([MKLORA, *map(str, args), "--size", "2", "-o", path, base], check=True)
        return path
    return make


def add(home, *args, status=0):
    r = home.hob("models", *args)
    assert r.returncode == status, (r.out, r.err)
    return r.out + r.err


def test_added_and_named(home, adapter):
    one = adapter("one", "--seed", 1)
    assert "hob -m 'default' --adapter 'one'" in add(home, "add", one, "--adapter-of", "default")
    add(home, "add", adapter("x", "--seed", 2, "--rank", 16, "--type", "F16"), "two", "--adapter-of", "default")
    assert "already exists" in add(home, "add", one, "--adapter-of", "default", status=1)
    assert sorted(p.name for p in (home.models / "default.adapters").iterdir()) == ["one.gguf", "two.gguf"]
    assert [m["name"] for m in json.loads(home.hob("models", "list", "--json", check=0).out)] == ["default"]
    p = home.daemon()
    plain, first, second = (home.ask(*a, *ASK) for a in ((), ("--adapter", "one"), ("--adapter", "two=0.5")))
    assert len({plain.text, first.text, second.text}) == 3
    assert first.cached == 0 and home.ask("--adapter", "one", *ASK).bits == first.bits
    status = home.status()
    assert [(a["name"], a["rank"], a["activated"]) for a in status["adapters"]] == [("one", 4, False), ("two", 16, False)]
    assert status["adapters_bytes"] == sum(a["bytes_memory"] for a in status["adapters"]) > 0
    assert "two" in home.hob("status", check=0).out
    (home.root / "config" / "hob").mkdir(parents=True, exist_ok=True)
    (home.root / "config" / "hob" / "hob.conf").write_text("adapter = one\n")
    assert home.ask(*ASK).bits == first.bits and home.ask("--adapter", "none", *ASK).bits == plain.bits
    add(home, "rm", "two", "--adapter-of", "default")
    p = home.restart(p)
    r = home.hob("--adapter", "two", *ASK)
    assert r.returncode == 1 and "no adapter 'two'; the model has: one" in r.err
    assert home.ask(*ASK).bits == first.bits  # from the disk


def test_by_option_and_file(home, adapter):
    one, two = adapter("one", "--seed", 1), adapter("two", "--seed", 2)
    (home.root / "config" / "hob").mkdir(parents=True, exist_ok=True)
    (home.root / "config" / "hob" / "hobd.conf").write_text(f"adapter = a={one}\nadapter = b={one}\n")
    home.daemon("--adapter", f"b={two}")
    assert [a["name"] for a in home.status()["adapters"]] == ["a", "b"]
    assert home.ask("--adapter", "a", *ASK).text != home.ask("--adapter", "b", *ASK).text


@pytest.mark.parametrize("value", ["x", "=f", "x=", "none=f", "a/b=f"])
def test_wrong_options_of_hobd(home, value):
    r = subprocess.run([HOBD, "serve", "--adapter", value], env=home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and "--adapter: " in r.stderr and len(r.stderr.splitlines()) == 1, r.stderr


def test_adapters_of_other_models(home, adapter, tiny_spm, tiny, tmp_path):
    wrong = adapter("wrong", base=tiny_spm)
    assert "no adapter 'one'" in add(home, "rm", "one", "--adapter-of", "default", status=1)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(adapter("whole").read_bytes()[:3000])
    assert "broken.gguf" in add(home, "add", broken, "--adapter-of", "default", status=1)
    assert "general.type" in add(home, "add", tiny, "m", "--adapter-of", "default", status=1)
    assert "no model 'other'" in add(home, "add", wrong, "--adapter-of", "other", status=1)
    assert "--adapter-of cannot be used with 'models list'" in add(home, "list", "--adapter-of", "default", status=2)
    assert "must be the name of a model" in add(home, "add", wrong, "--adapter-of", "a/b", status=2)
    r = subprocess.run([HOBD, "serve", "--adapter", f"b={broken}", "--socket", home.run / "s"], env=home.env,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "adapter 'b': " in r.stderr
    assert "no adapter 'one'" in add(home, "rm", "one", "--adapter-of", "default", status=1)
    (home.models / "default.adapters" / "broken.gguf").write_bytes(broken.read_bytes())
    p = home.daemon()  # an adapter of the folder is left out
    assert "served without an adapter: adapter 'broken'" in p.log.read_text()
    assert "the model has none" in home.hob("--adapter", "broken", *ASK).err


@pytest.mark.parametrize("value, why", [("", "must not be empty"), ("=1", "must be NAME or NAME=SCALE")])
def test_wrong_options_of_hob(home, value, why):
    r = home.hob("--adapter", value, *ASK)
    assert r.returncode == 2 and why in r.err


def test_refused_scales(home, adapter):
    home.daemon("--adapter", f"one={adapter('one')}")
    for scale in ("nan", "inf", "1x", ""):
        r = home.hob("--adapter", f"one={scale}", *ASK)
        assert r.returncode != 0 and f"adapter 'one': the scale '{scale}' is not a finite number" in r.err
