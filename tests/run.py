# SPDX-License-Identifier: MIT
"""Run the cmocka programs of a build and the pytest items, and count test cases.

usage: run.py BUILD [NAME…]

Called by tests/run.sh. With NAMEs, only test cases whose name (program/case, or pytest id) contains one of them count;
programs without such a case are not run.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
TAP = re.compile(r"^(ok|not ok) \d+ (?:- )?(# ?SKIP ?)?(.*)$", re.I)
PLAN = re.compile(r"^1\.\.(\d+)$")


class Count:
    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []


def wanted(name, names):
    return not names or any(n in name for n in names)


def may_match(program, names):
    """Whether some case of the program can match: its name, or a name in its source."""
    if not names or any(n in program["name"] for n in names):
        return True
    stem = Path(program["cmd"][0]).name
    texts = [p.read_text() for p in TOP.glob(f"tests/**/{stem}.c")]
    return not texts or any(n.split("/")[-1] in t for n in names for t in texts)


def run_and_read(build, program):
    """The exit code and the output, both in one; a hung program is killed."""
    env = dict(os.environ, **program["env"])
    # A file, not a pipe: a process the program left behind cannot keep us reading.
    with tempfile.TemporaryFile() as out:
        try:
            # Its arguments name files as seen from the build directory, where meson test would run it.
            code = subprocess.run(program["cmd"], env=env, cwd=program.get("workdir") or build, stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=subprocess.STDOUT, timeout=900).returncode
        except (OSError, subprocess.TimeoutExpired) as e:
            out.write(f"\nrun: {e}\n".encode())
            code = -1
        out.seek(0)
        return code, out.read().decode(errors="replace")


def run_program(build, program, names, count):
    name = program["name"]
    start = time.monotonic()
    code, out = run_and_read(build, program)
    said, cases, planned, not_ok, failed_before = [], 0, 0, 0, count.failed
    counted_before = count.passed + count.failed + len(count.skipped)
    for line in out.splitlines():
        if m := PLAN.match(line):
            planned = int(m[1])
        m = TAP.match(line)
        if not m:
            said.append(line)
            continue
        result, skip, case = m.groups()
        skip = skip or "# SKIP" in case
        cases += 1
        not_ok += result != "ok"
        if wanted(f"{name}/{case}", names):
            if skip:
                reason = next((s for s in reversed(said) if "skipped:" in s), "no reason given")
                count.skipped.append((f"{name}/{case}", reason.split("skipped:")[-1].strip()))
            elif result == "ok":
                count.passed += 1
            else:
                count.failed += 1
        said = []
    if code == 77 and not cases:
        count.skipped.append((name, (said or ["no reason given"])[-1].split("skipped:")[-1].strip()))
    elif not cases or cases < planned or (code != 0 and not not_ok):
        # Crashed, or a sanitizer spoke after the last case.
        count.failed += 1
    if count.passed + count.failed + len(count.skipped) == counted_before:
        return  # no case of such a name after all
    bad = count.failed > failed_before
    print(f"{'FAIL' if bad else 'ok  '} {name} ({cases} cases, {time.monotonic() - start:.1f} s)", flush=True)
    if bad:
        print("\n".join("    " + s for s in out.splitlines()[-80:]), flush=True)


def run_pytest(build, names, count):
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        env = dict(os.environ, HOB_BUILD=str(build), PYTHONDONTWRITEBYTECODE="1")
        cmd = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--junitxml={report.name}",
               str(TOP / "tests" / "e2e")]
        if names:
            cmd += ["--names", "\n".join(names)]
        try:
            r = subprocess.run(cmd, env=env, cwd=TOP, stdin=subprocess.DEVNULL, timeout=2400)
        except subprocess.TimeoutExpired as e:
            print(f"FAIL {e}", flush=True)
            count.failed += 1
            return
        if r.returncode == 5:  # nothing selected
            return
        try:
            cases = list(ET.parse(report.name).iter("testcase"))
        except ET.ParseError:
            count.failed += 1
            return
        for c in cases:
            skip = c.find("skipped")
            if skip is not None:
                count.skipped.append((c.get("name"), skip.get("message", "no reason given")))
            elif c.find("failure") is not None or c.find("error") is not None:
                count.failed += 1
            else:
                count.passed += 1
        if r.returncode not in (0, 1):
            count.failed += 1


def sanitizers_write_to(folder):
    """Whatever process has something to report ends there, and leaves a file; nobody may look at its exit code or its log."""
    for tool in ("ASAN", "UBSAN"):
        options = os.environ.get(f"{tool}_OPTIONS", "")
        os.environ[f"{tool}_OPTIONS"] = f"{options}:halt_on_error=1:print_stacktrace=1:log_path={folder}/{tool.lower()}"
    passed_over = Path(__file__).parent / "support" / "lsan-suppressions.txt"
    os.environ["LSAN_OPTIONS"] = f"suppressions={passed_over}:print_suppressions=0"


def main():
    build, names = Path(sys.argv[1]), sys.argv[2:]
    # A shell's background job ignores SIGINT, and so would every program of ours whose test interrupts it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    listing = subprocess.run(["meson", "introspect", "--tests", str(build)], check=True, stdout=subprocess.PIPE)
    programs = sorted(json.loads(listing.stdout), key=lambda p: p["name"])
    count = Count()
    with tempfile.TemporaryDirectory() as reports:
        if os.environ.get("HOB_TEST_SANITIZE") == "1":
            sanitizers_write_to(reports)
        for p in programs:
            if may_match(p, names):
                run_program(build, p, names, count)
        run_pytest(build, names, count)
        for report in sorted(Path(reports).iterdir()):
            print(f"FAIL a sanitizer's report\n{report.read_text(errors='replace')}", flush=True)
            count.failed += 1
    for name, reason in count.skipped:
        print(f"skipped {name}: {reason}")
    if count.passed + count.failed + len(count.skipped) == 0:
        print("run: no test has such a name", file=sys.stderr)
        count.failed = 1
    print(f"{count.passed} passed, {count.failed} failed, {len(count.skipped)} skipped", flush=True)
    return 1 if count.failed else 0


sys.exit(main())
