# SPDX-License-Identifier: MIT
"""soak.py, in its short form: some seconds of all kinds of requests and faults, and each answer again without a cache."""
import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, TOP

KINDS = ("plain", "several", "constrained", "tools", "image", "adapter", "infill", "embed", "rank", "context", "turn")


@pytest.mark.skipif(os.geteuid() != 0, reason="several users take root")
def test_each_answer_is_that_of_a_daemon_without_a_cache():
    r = subprocess.run([sys.executable, TOP / "tests" / "bench" / "soak.py", "--build", BUILD, "--minutes", "0.07", "--few", "--any-growth",
                        "--json", "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, (r.stdout, r.stderr)
    found = json.loads(r.stdout.splitlines()[-1])
    assert found["other"] == found["failed"] == 0 and found["compared"] >= found["distinct"] > 100, r.stdout
    assert set(KINDS) <= set(found["kinds"]) and found["drafted"] > 0 and found["evictions"] > 0, r.stdout
