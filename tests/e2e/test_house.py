# SPDX-License-Identifier: MIT
"""The walls of the house: who may include whom, what stands at the top, what every file begins with."""
import re
import subprocess

import pytest
from conftest import TOP

MAY = {
    "libcommon": set(), "client": {"libcommon"}, "client/http": {"libcommon", "client"}, "kernels": set(),
    "client/find": {"libcommon", "client"},
    "daemon/model": {"kernels", "libcommon"}, "daemon/session": {"libcommon", "daemon/model"}, "daemon/jobs": {"libcommon"},
    "daemon/encoder": {"kernels", "libcommon", "daemon/model", "daemon/backend", "daemon/media"},
    "daemon/media": {"libcommon"}, "daemon/media/decode": {"libcommon", "daemon/media"},
    "daemon/sched": {"libcommon"}, "daemon/speculate": {"libcommon"}, "daemon/backend": {"kernels", "libcommon", "daemon/model"},
    # The state of the CUDA backend begins with that of the CPU's, which does all that the device does not.
    "daemon/backend/cpu": {"kernels", "libcommon", "daemon/model", "daemon/backend"},
    "daemon/backend/cuda": {"kernels", "libcommon", "daemon/model", "daemon/backend", "daemon/backend/cpu"},
    "daemon/reference": {"kernels", "libcommon", "daemon/model"},
    "daemon/cache/kv": {"libcommon", "daemon/model"},
    "daemon/cache/prefix": {"libcommon", "daemon/model", "daemon/cache/kv"},
    "daemon/cache/disk": {"libcommon", "daemon/model", "daemon/cache/prefix"},
    "daemon/cache/media": {"libcommon", "daemon/model", "daemon/media"},
    "daemon/cache/vectors": {"libcommon"},
    "daemon/text": {"libcommon", "daemon/model"}, "daemon/text/markup": {"libcommon", "daemon/text"},
    "daemon/text/grammar": {"libcommon", "daemon/text"},
    "daemon/text/schema": {"libcommon", "daemon/text"},
    "daemon/sample": {"libcommon", "kernels", "daemon/model"}, "daemon/output": {"libcommon", "daemon/text"},
    "daemon/cache": {"libcommon", "daemon/model", "daemon/jobs"},
    "daemon/sequence": {"libcommon", "daemon/model", "daemon/media", "daemon/cache", "daemon/text", "daemon/jobs", "daemon/sample", "daemon/output"},
    "daemon/request": {"libcommon", "kernels", "daemon/model", "daemon/cache", "daemon/text", "daemon/jobs", "daemon/sched",
                       "daemon/sample", "daemon/output", "daemon/session", "daemon/sequence", "daemon/speculate", "daemon/media", "daemon/encoder"},
    "daemon/engine": {"libcommon", "kernels", "daemon/model", "daemon/cache", "daemon/text", "daemon/jobs", "daemon/sched",
                      "daemon/session", "daemon/speculate", "daemon/request"},
    "daemon/io": {"libcommon", "daemon/engine", "daemon/jobs"},
    "daemon/simulate": {"libcommon", "daemon/cache", "daemon/sched"},
    "daemon/command": {"libcommon", "kernels", "daemon", "daemon/backend", "daemon/reference", "daemon/model", "daemon/text",
                       "daemon/output", "daemon/sample", "daemon/request", "daemon/engine", "daemon/simulate", "daemon/io",
                       "daemon/media", "daemon/encoder"},
    "daemon": {"libcommon", "daemon/command", "daemon/engine"},
}


def sources():
    return [p for room in ("libcommon", "client", "kernels", "daemon", "tests") for p in sorted((TOP / room).rglob("*.[ch]"))]


def room(path):
    """The innermost folder of @path that MAY names; else its top folder, or the one below daemon/."""
    parts = path.split("/")
    for n in range(len(parts) - 1, 1, -1):
        if "/".join(parts[:n]) in MAY:
            return "/".join(parts[:n])
    return "/".join(parts[:2]) if parts[0] == "daemon" and len(parts) > 2 else parts[0]


def test_every_folder_of_the_daemon_has_a_rule():
    folders = {f"daemon/{p.name}" for p in (TOP / "daemon").iterdir() if p.is_dir()}
    assert folders == {name for name in MAY if name.startswith("daemon/") and name.count("/") == 1}
    assert all((TOP / name).is_dir() for name in MAY)
    assert all(there in MAY for may in MAY.values() for there in may)


def permits(here, there):
    """A room may include itself and the rooms that MAY names, each with the rooms inside it."""
    return any(there == r or there.startswith(r + "/") for r in MAY[here] | {here})


def test_includes_follow_the_rule_of_the_house():
    wrong = []
    for p in sources():
        here = room(str(p.relative_to(TOP)))
        if here == "tests":
            continue
        for target in re.findall(r'^\s*#\s*include\s+"([^"]+)"', p.read_text(), re.M):
            there = room(target) if "/" in target else here
            if not permits(here, there):
                wrong.append(f"{p.relative_to(TOP)} includes {target}")
    assert not wrong


def test_the_cpu_backend_knows_no_other():
    assert not [p for p in (TOP / "daemon/backend/cpu").iterdir() if "backend/cuda" in p.read_text()]


def test_kernels_call_libc_only():
    for p in (TOP / "kernels").rglob("*.c"):
        calls = re.findall(r"\b(malloc|calloc|free|printf|fprintf|pthread_\w+|mmap)\s*\(", p.read_text())
        assert not calls, (p, calls)


def test_every_source_says_its_license():
    assert not [str(p) for p in sources() if "SPDX-License-Identifier: MIT" not in p.read_text().split("\n")[0]]


def test_top_level_is_the_design_card():
    r = subprocess.run(["git", "-C", str(TOP), "ls-tree", "--name-only", "HEAD"], capture_output=True, text=True)
    if r.returncode:
        pytest.skip("not a git checkout")
    allowed = {"daemon", "client", "libcommon", "kernels", "man", "tests", "packaging", "meson.build", "meson_options.txt",
               "README.md", "LICENSE"}
    assert {n for n in r.stdout.split() if not n.startswith(".")} <= allowed


def test_no_exit_outside_a_main():
    found = []
    for p in sources():
        text = p.read_text()
        if str(p).startswith(str(TOP / "tests")) or re.search(r"^int main\(", text, re.M):
            continue
        found += [f"{p.relative_to(TOP)}: {m}" for m in re.findall(r"\b(?:exit|_exit|abort)\s*\(", text)]
    assert not [f for f in found if "client/spawn.c: _exit" not in f and "daemon/command/serve-device.c: _exit" not in f]


def test_the_architecture_names_what_exists():
    """Every file that ARCHITECTURE.md names exists, and has the functions that it names before the file."""
    text = (TOP / "daemon" / "ARCHITECTURE.md").read_text()
    assert text.count("\n") < 400
    tests = {p.name for p in (TOP / "tests").rglob("*.c")}
    for name in re.findall(r"`([\w/.-]+\.[chd])`", text):
        assert (TOP / "daemon" / name).exists() or (TOP / name).exists() or name in tests, name
    hops = re.findall(r"((?:`\w+`(?: → |, )?)+) \(`([\w/.-]+\.c)`\)", text)
    assert len(hops) > 30
    for functions, name in hops:
        path = TOP / "daemon" / name if (TOP / "daemon" / name).exists() else TOP / name
        for f in re.findall(r"`(\w+)`", functions):
            assert re.search(rf"\b{f}\(", path.read_text()), (f, name)
