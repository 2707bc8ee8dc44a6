# SPDX-License-Identifier: MIT
"""packaging/try.sh where everything is built: what it does with a model that is supplied."""
import subprocess

import pytest
from conftest import BUILD, TOP


@pytest.fixture
def supplied(home):
    """Run it with a model."""
    if BUILD != TOP / "build":
        pytest.skip("packaging/try.sh uses the build in build/, not this one")
    return lambda model, *args: subprocess.run(["sh", TOP / "packaging" / "try.sh", *args], capture_output=True, text=True,
                                               stdin=subprocess.DEVNULL, env={**home.env, "HOB_TRY_MODEL": str(model)})


def test_a_model_becomes_the_default(home, supplied, tiny_spm):
    r = supplied(tiny_spm, "hi")
    assert r.returncode == 0 and r.stdout, r.stderr
    assert (home.models / "default.gguf").resolve() == tiny_spm
    assert home.status()["state"] == "ready"


@pytest.mark.parametrize("what", ["missing", "no model", "of no architecture"])
def test_one_that_cannot_run_is_refused(home, supplied, tiny, tmp_path, what):
    bad = tmp_path / "bad.gguf"
    if what != "missing":
        bad.write_bytes(b"nothing" if what == "no model" else tiny.read_bytes().replace(b"llama", b"alpac"))
    r = supplied(bad)
    assert r.returncode == 1 and not r.stdout
    assert {"missing": "no such file", "no model": "cannot read this model", "of no architecture": "'alpac' is not supported"}[what] in r.stderr
    assert (home.models / "default.gguf").resolve() == tiny


def test_help(supplied):
    r = supplied("/nowhere", "--help")
    assert r.returncode == 0 and "usage: sh packaging/try.sh" in r.stdout and not r.stderr
