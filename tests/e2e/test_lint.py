# SPDX-License-Identifier: MIT
"""The parts of tests/lint.sh that take a few seconds: what reads the messages of strangers, as cppcheck sees it; the format."""
import subprocess

import pytest
from conftest import TOP


def lint(*what):
    r = subprocess.run(["sh", TOP / "tests" / "lint.sh", *what], capture_output=True, text=True, timeout=600)
    if r.returncode == 77:
        pytest.skip(r.stdout)
    return r


def test_quick():
    r = lint("quick")
    assert r.returncode == 0, r.stdout + r.stderr


def test_format():
    r = lint("format")
    assert r.returncode == 0, r.stdout + r.stderr


def test_finds(tmp_path):
    """A file with a fault is found."""
    (tmp_path / "x.c").write_text("int f(void)\n{\n    int a[2] = {0, 0};\n    return a[2];\n}\n")
    r = lint("cppcheck", "--", tmp_path)
    assert r.returncode == 1 and "arrayIndexOutOfBounds" in r.stdout + r.stderr, r.stdout + r.stderr
