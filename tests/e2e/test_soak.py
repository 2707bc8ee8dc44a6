# SPDX-License-Identifier: MIT
"""soak.py, in its short form: some seconds of all kinds of requests and faults, and each answer again without a cache."""
import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, TOP

KINDS = ("plain", "several", "constrained", "tools", "image", "adapter", "infill", "embed", "rank", "context", "turn")
EMULATION = BUILD / "tests" / "backend" / "cuda" / "emulation"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="several users take root")


def soak(*more, build=BUILD, env=None):
    return subprocess.run([sys.executable, TOP / "tests" / "bench" / "soak.py", "--build", build, "--any-growth", "--json", "-", *more],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})


def test_each_answer_is_that_of_a_daemon_without_a_cache():
    r = soak("--few", "--minutes", "0.07")
    assert r.returncode == 0, (r.stdout, r.stderr)
    found = json.loads(r.stdout.splitlines()[-1])
    assert found["other"] == found["failed"] == 0 and found["compared"] >= found["distinct"] > 100, r.stdout
    assert set(KINDS) <= set(found["kinds"]) and found["drafted"] > 0 and found["evictions"] > 0, r.stdout


def test_a_run_without_images_says_so_and_fails(tmp_path):
    """As with a daemon whose hobd-decode does not start: it refuses them all."""
    (tmp_path / "daemon").mkdir()
    (tmp_path / "tests").mkdir()
    shutil.copy(BUILD / "daemon" / "hobd", tmp_path / "daemon" / "hobd")
    (tmp_path / "daemon" / "hobd-decode").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "daemon" / "hobd-decode").chmod(0o755)
    (tmp_path / "tests" / "support").symlink_to(BUILD / "tests" / "support")
    r = soak("--minutes", "0.07", build=tmp_path)
    assert r.returncode == 1, (r.stdout, r.stderr)
    never = [line for line in r.stdout.splitlines() if line.startswith("without any answer: ")]
    assert never and "image" in never[0] and "0 with another answer, 0 failed" in r.stdout, r.stdout


@pytest.mark.skipif(not (EMULATION / "libcuda.so.1").exists(), reason="needs a build with -Dcuda=enabled")
@pytest.mark.parametrize("settings,status,where", [("major=9", 0, 1), ("major=9,fail=cuStreamSynchronize:60:700", 1, 2)])
def test_each_answer_of_a_gpu_is_the_cpus(settings, status, where):
    """An emulated one: few requests. If it fails in between, the answers are right, but not its own."""
    r = soak("--few", "--minutes", "0.15", "--device", "cuda", env={"LD_LIBRARY_PATH": str(EMULATION), "HOB_FAKE_CUDA": settings})
    assert r.returncode == status, (r.stdout, r.stderr)
    found = json.loads(r.stdout.splitlines()[-1])
    assert found["other"] == found["failed"] == 0 and found["compared"] >= found["distinct"] > 10, r.stdout
    assert found["isa"][0] == "fake, sm_90" and len(found["isa"]) == where, r.stdout
    assert "left out on cuda: the fault memory" in r.stdout
