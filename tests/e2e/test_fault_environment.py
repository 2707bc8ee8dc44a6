# SPDX-License-Identifier: MIT
"""Few descriptors, little memory, a client that stands still, and files that change."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HOB, HOBD
from hobproto import Client, Closed
from test_faults import DOC, KEYS, users

SANITIZED = b"__asan" in HOBD.read_bytes() or b"__tsan" in HOBD.read_bytes()


def try_to_start(home, *wrap):
    """(whether a turn was answered, its status, what it said last, in the log or to the client)"""
    d = home.daemon("--threads", "1", wrap=wrap, wait=False)
    deadline, end = time.monotonic() + 60, None
    while d.poll() is None and not end and time.monotonic() < deadline:
        try:
            with Client(home.socket, timeout=30) as c:
                end = c.answer("hi", session="s", **KEYS).end
        except (OSError, Closed, AssertionError):
            time.sleep(0.01)
    if end:
        d.terminate()
    status, log = d.wait(60), d.log.read_text()
    assert "assert" not in log and "only in memory: sessions" not in log, log
    served = end is not None and end["event"] == "done"
    return served, status, end["message"] if end and not served else log


@pytest.mark.parametrize("n", [4, 6, 8, 10, 11, 13, 16])
def test_few_descriptors(home, n):
    served, status, said = try_to_start(home, "prlimit", f"--nofile={n}:{n}")
    if served:
        assert status == 0, said
    else:
        assert status in (0, 1) and "Too many open files" in said, (status, said)


@pytest.mark.parametrize("megabytes", [20, 40, 104, 150])
def test_little_address_space(home, megabytes):
    if SANITIZED:
        pytest.skip("sanitizers need the address space")
    served, status, said = try_to_start(home, "prlimit", f"--as={megabytes << 20}")
    if served:
        assert status == 0, said
    else:
        assert status in (0, 1) and ("memory" in said or "cannot start a thread" in said), (status, said)


def test_memory_of_its_group_is_used_up(home):
    """The kernel may kill hobd then; what it acknowledged is there at the next start."""
    top = Path("/sys/fs/cgroup/memory") if Path("/sys/fs/cgroup/memory").exists() else Path("/sys/fs/cgroup")
    group = top / f"hob-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if "memory/" in str(group) else "memory.max"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"no group can be made here: {e}")
    try:
        if not (group / limit).exists():
            pytest.skip("groups have no limit of memory here")
        (group / limit).write_text(str(12 << 20))
        d = home.daemon("--threads", "1", "--kv-bytes", "64M", wrap=["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"], wait=False)
        kept = []
        try:
            c = None
            while c is None and d.poll() is None:
                try:
                    c = Client(home.socket, timeout=30)
                except OSError:
                    time.sleep(0.01)
            for i in range(300 if c else 0):
                a = c.answer(f"{i} " + DOC, session=f"g{i // 3}", **KEYS)
                if a.end["event"] != "done":
                    break
                kept.append(i)
        except (Closed, OSError):
            pass
        if d.poll() is None:
            d.terminate()
        assert d.wait(60) in (0, 1, -signal.SIGKILL), d.log.read_text()
        home.daemon()
        for g in {i // 3 for i in kept}:
            there = users(home, f"g{g}")
            assert [w.split()[0] for w in there][:3] == [str(i) for i in range(3 * g, 3 * g + 3) if i in kept or i < len(there) + 3 * g]
    finally:
        home.stop()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def test_a_client_stands_still(home):
    """SIGSTOP in the middle of an answer: others are served, and it gets all when it continues."""
    seconds = float(os.environ.get("HOB_TEST_STOPPED", 1))  # 60: as a user might
    home.daemon()
    command = [HOB, "--raw", "--temp", "0", "-n", "200", "--ignore-eos", "a long answer"]
    want = home.hob(*command[1:], check=0).out
    p = home.popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = p.stdout.read1(1)
    p.send_signal(signal.SIGSTOP)
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end or n < 3:
        home.hob("-n", "2", "hi", check=0)
        n += 1
    p.send_signal(signal.SIGCONT)
    assert (first + p.stdout.read()).decode() == want and p.wait(60) == 0


@pytest.mark.parametrize("how", ["cut", "written"])
def test_the_model_is_changed_in_its_place(home, tiny, tmp_path, how):
    """hobd has copied what it needs of the file: nothing that it serves changes."""
    (home.models / "default.gguf").unlink()
    file = home.models / "default.gguf"
    shutil.copy(tiny, file)
    home.daemon("--packed-file", "no")
    before = home.ask("x").bits
    if how == "cut":
        os.truncate(file, 0)
    else:
        file.write_bytes(os.urandom(file.stat().st_size))
    assert home.ask("x").bits == before and home.ask("y " + DOC).done
    assert "model_changed" in home.status()


def test_the_packed_weights_are_cut(home):
    """They are mapped: hobd ends with a message, and the next makes them anew."""
    p = home.daemon("--packed-file", "yes")
    before = home.ask("x").bits
    packed = home.root / "cache" / "hob" / "packed"
    while not list(packed.glob("*.hobw")):
        time.sleep(0.01)
    p = home.restart(p, "--packed-file", "yes")
    assert home.ask("x").bits == before
    (file,) = packed.glob("*.hobw")
    os.truncate(file, 0)
    r = home.hob("-n", "200", "--ignore-eos", "another prompt that is computed")
    assert p.wait(60) == 1 and "was truncated by another program" in p.log.read_text().splitlines()[-1]
    assert r.returncode == 0 or "the daemon closed the connection" in r.err  # hob starts another, before the first event
    assert home.ask("x").bits == before
