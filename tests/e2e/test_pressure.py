# SPDX-License-Identifier: MIT
"""When memory is short. No kernel is made to say so here: a pipe in MEMORY_PRESSURE_WATCH says it, as systemd allows."""
import json
import os
import re
import time
from pathlib import Path

import pytest
from conftest import Home, mktiny

BLOCK = 16 * 2 * 8 * 128 * 2 * 32  # bytes of KV: layers, K and V, heads, dimensions, f16, tokens


@pytest.fixture
def wide(tmp_path):
    """A home with a model whose KV is large."""
    h = Home(tmp_path, mktiny(tmp_path / "wide.gguf", "--layers", 16, "--kv-heads", 8, "--heads", 8, "--head-dim", 128))
    yield h
    h.stop()


def status(home):
    return json.loads(home.hob("status", "--json", check=0).out)


def memory(p):
    return int(re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{p.pid}/status").read_text()).group(1)) << 10


def test_cold_blocks_go_back_to_the_system(wide):
    pipe = wide.root / "pressure"
    os.mkfifo(pipe)
    p = wide.daemon("--cache-bytes", "0", env={"MEMORY_PRESSURE_WATCH": str(pipe)})
    ask = ("--raw", "--temp", "0", "-n", "8", " ".join(str(i * i) for i in range(90)))
    said = wide.hob(*ask, check=0).out
    blocks, before = status(wide)["kv_blocks_unused"], memory(p)
    assert blocks >= 8
    with open(pipe, "wb") as f:
        f.write(b"x")
    deadline = time.monotonic() + 60
    while status(wide)["cache"]["shed"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    shed = status(wide)["cache"]["shed"]
    assert shed == (blocks + 3) // 4
    assert before - memory(p) > shed * BLOCK * 3 // 4
    assert wide.hob(*ask, check=0).out == said


def test_the_service_manager_may_not_want_it(home):
    home.daemon(env={"MEMORY_PRESSURE_WATCH": "/dev/null"})
    home.hob("hi", check=0)


def test_a_watch_that_fails_is_no_reason_to_fail(home):
    p = home.daemon("-v", env={"MEMORY_PRESSURE_WATCH": str(home.root / "nowhere")})
    home.hob("hi", check=0)
    assert "memory pressure is not watched" in p.log.read_text()
