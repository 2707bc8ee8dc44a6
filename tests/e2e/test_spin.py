# SPDX-License-Identifier: MIT
"""The models of tests/spin, checked by spin: each holds, and each of its mutants, which breaks one rule, is found."""
import os
import shutil
import subprocess

import pytest
from conftest import TOP

SPIN = TOP / "tests" / "spin"

# Which rule the mutant of this number breaks, and what hobd does about it.
REQUEST = {
    1: "a cancelled request whose blocks were read is ended before a step (engine.c: turn, start.c: sweep)",
    2: "a request that is saved is not ended by the sweep (start.c: is_live)",
    4: "the end of a request wakes the engine for those that wait for its session (request.c: push_last)",
    5: "preemption gives the slot back (finish.c: answer_preempt)",
    6: "a request whose job runs is freed when the job returns (finish.c: end)",
    7: "preemption gives the blocks back (finish.c: answer_preempt)",
    8: "a session serves one request at a time (session.c: use_for)",
}
LOG = {
    11: "the record is synced before `done` (save.c: append_to)",
    12: "a new log is synced before it is renamed (session-log.c: write_synced)",
    13: "after a failed fsync the log is written anew (save.c: append_to)",
    14: "a turn with the UUID of one before is not made again (turn.c: turn_replay)",
    15: "a part of a record is cut off before another is appended (load.c: mend)",
    16: "the directory is synced after the rename (session-log.c: session_log_publish)",
    17: "a record with a wrong checksum is not read (session-log.c: session_log_next)",
}
FAIR = {
    21: "after some time no request starts before one that lacks blocks (decide.c: fill_slots)",
    22: "a request that had its quantum is preempted for a user with a smaller account (preempt.c: preempt_reason)",
    23: "the account of a user that was absent is raised to the floor (decide.c: build_user_heap)",
}
RENAME = {
    31: "the new log says which one it replaces (session-log.c: session_log_write_head)",
    32: "a log that has changed since is not removed (open.c: finish_renames)",
    33: "a log that is written anew still says it (session-log.c: session_log_write_head)",
    34: "the new log is there before the old one is removed (save.c: move_log)",
}
MODELS = {"request": REQUEST, "session-log": LOG, "session-rename": RENAME, "fair": FAIR}


def compile_model(folder, name, *flags):
    for tool in ("spin", "gcc"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    subprocess.run(["spin", "-a", SPIN / f"{name}.pml"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["gcc", "-O0", "-w", "-DCOLLAPSE", *flags, "-o", f"{name}{len(flags)}", "pan.c"], cwd=folder, check=True)
    return folder / f"{name}{len(flags)}"


def errors(pan, mutant=0, *options):
    r = subprocess.run([pan, "-m20000", *options], cwd=pan.parent, env={**os.environ, "MUTANT": str(mutant)},
                       capture_output=True, text=True, timeout=600)
    assert "max search depth too small" not in r.stdout and "errors: " in r.stdout, r.stdout + r.stderr
    return int(r.stdout.split("errors: ")[1].split()[0]), r.stdout


@pytest.fixture(scope="module")
def pans(tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            made[name] = compile_model(tmp_path_factory.mktemp(name), name, "-DSAFETY")
        return made[name]

    return get


@pytest.mark.parametrize("name", MODELS)
def test_holds(pans, name):
    n, out = errors(pans(name))
    assert n == 0 and "Search not completed" not in out, out


@pytest.mark.parametrize("name,mutant", [(name, m) for name, mutants in MODELS.items() for m in mutants])
def test_finds_mutant(pans, name, mutant):
    n, out = errors(pans(name), mutant)
    assert n == 1, out


def test_requests_end(tmp_path):
    """No run is endless; but with preemption of sequences that have computed nothing, two preempt each other for ever. The
    model without that takes 20 s: HOB_SPIN_LONG=1 checks it, too."""
    pan = compile_model(tmp_path, "request", "-DNP", "-w")
    n, out = errors(pan, 3, "-l")
    assert n == 1 and "non-progress cycle" in out, out
    if os.environ.get("HOB_SPIN_LONG"):
        n, out = errors(pan, 0, "-l")
        assert n == 0, out
