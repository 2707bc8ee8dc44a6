# SPDX-License-Identifier: MIT
"""Client and daemon under valgrind: no invalid access, nothing definitely lost, no descriptor left."""
import shutil
import subprocess

import pytest
from conftest import HOB, HOBD

VALGRIND = ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite", "--exit-on-first-error=no"]


@pytest.fixture
def valgrind():
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    if b"__asan" in HOBD.read_bytes():
        pytest.skip("this build has its own sanitizers")


def test_client(valgrind, shared):
    r = subprocess.run([*VALGRIND, HOB, "-v", "-S", "vg", "-n", "10", "--ignore-eos", "hi"], env=shared.env, input=b"text",
                       capture_output=True, timeout=120)
    assert r.returncode == 0, r.stderr.decode()


def test_daemon(valgrind, home):
    # valgrind knows no AVX-512, and makes calls that hobd gives up.
    d = home.daemon("--threads", 1, "--confine", "no", wrap=VALGRIND, env={"HOB_CPU": "avx2"})
    c = home.client(d)
    assert c.answer("hello <|im_end|>", max_tokens=6, ignore_eos=True, logprobs=True, session="s").end["event"] == "done"
    assert c.answer("again", max_tokens=3, ignore_eos=True, session="s").usage["cached"] > 0
    assert c.answer("x", bad=1).end["event"] == "error"
    c.generate("cut off", max_tokens=200, ignore_eos=True)
    c.recv()
    c.close()
    assert home.hob("-n", 3, "--ignore-eos", "hi", check=0, timeout=120).out
    d.terminate()
    assert d.wait(120) == 0, d.log.read_text()
