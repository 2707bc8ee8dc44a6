# SPDX-License-Identifier: MIT
"""The units as the build makes them, and every script of the repository, as their own checkers see them."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, HOBD, TOP
from httpgate import HOB_HTTP

UNITS = TOP / "packaging" / "systemd"
SECURITY = TOP / "packaging" / "doc" / "SECURITY.md"


def run(*argv, **more):
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, **more)


def exposure(path, *options, **more):
    r = run("systemd-analyze", *options, "security", "--offline=true", path, **more)
    if "--offline" in r.stderr or "Failed to initialize manager" in r.stderr:
        pytest.skip("systemd-analyze cannot do it here: " + r.stderr)
    return float(re.search(r"exposure level for \S+: ([0-9.]+)", r.stdout).group(1)), r.stdout + r.stderr


@pytest.mark.parametrize("name", ["hob", "hobd@", "hob-http"])
def test_exposure(name):
    level, said = exposure(BUILD / "packaging" / "systemd" / f"{name}.service")
    assert level <= 0.5, said
    text = (UNITS / f"{name}.service.in").read_text()
    assert "\nPrivateUsers=no\n" in text  # peers' uids
    assert ("\nProcSubset=all\n" in text) == (name != "hob-http")  # memory's figures


@pytest.mark.parametrize("name,most", [("hob", 1.0), ("hobd@", 1.0), ("hob-http", 0.9)])
def test_exposure_of_a_users_units(tmp_path, name, most):
    level, said = exposure(BUILD / "packaging" / "systemd" / "user" / f"{name}.service", "--user",
                           env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert level <= most, said
    assert str(most) in SECURITY.read_text()
    # what a user's manager ignores would only lower the figure
    assert not re.search(r"(?m)^(IPAddressDeny|DevicePolicy)=", (UNITS / "user" / f"{name}.service.in").read_text())


def test_a_users_unit_in_a_users_manager(tiny):
    """All settings of the unit at work: the socket, sessions over a restart, a reload, root as a client."""
    manager = Path("/lib/systemd/systemd")
    if os.geteuid() != 0 or not manager.exists() or not shutil.which("unshare"):
        pytest.skip("needs root, systemd and unshare")
    if b"__asan" in HOBD.read_bytes() or b"__tsan" in HOBD.read_bytes():
        pytest.skip("a build with sanitizers needs libraries that the unit does not show")
    r = run("unshare", "-mpf", "--kill-child", "--mount-proc", "sh", TOP / "tests" / "e2e" / "user-manager.sh", BUILD, UNITS / "user", tiny, 61234, timeout=120)
    for group in Path("/sys/fs/cgroup").glob("**/hob-test-units"):
        for folder in [*sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True), group]:
            folder.rmdir()
    if r.returncode == 77 or "unshare failed" in r.stderr:
        pytest.skip(r.stdout.splitlines()[-1] if r.returncode == 77 else r.stderr)
    assert r.returncode == 0, r.stdout + r.stderr
    lines = r.stdout.splitlines()
    assert "active" in lines and "running" in lines and any(x.startswith("kept ") for x in lines), r.stdout
    assert {"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "another network", "hobd: SIGHUP: applied: queue"} <= set(lines)
    assert r.stderr.count("limit of --max-tokens") == 2


def test_security_lists_the_calls_of_the_filter():
    rules = (TOP / "daemon" / "io" / "sandbox-calls.c").read_text().split("sock_filter program[]")[1]
    of_device = (TOP / "daemon" / "io" / "sandbox-calls.c").read_text().split("sock_filter device[]")[1].split("};")[0]
    device = set(re.findall(r"\bALLOW\((\w+)\)", of_device))
    always = set(re.findall(r"\bALLOW\((\w+)\)", rules))
    sometimes = set(re.findall(r"\b(?:ALLOW_\w+|RULE)\((\w+)", rules)) | {"fcntl"}  # SANDBOX_FCNTL
    listed = SECURITY.read_text().split("### System calls of hobd after its start")[1].split("`strace")[0].split("\n\n")[2]
    gpu = re.search(r"With a GPU.*?: also (.*?), (and of ioctl.*?)\n\n", SECURITY.read_text(), re.S)
    assert device == set(re.findall(r"\w+", gpu[1]))
    assert set(re.findall(r"\b(?:ALLOW_\w+|RULE)\((\w+)", of_device)) == set(re.findall(r"\bof\s(\w+)", gpu[2])) & {"ioctl", "socket"}
    assert len(always) > 50 and set(re.split(r",\s+", listed.strip())) == always | {f"({n})" for n in sometimes}


def test_security_says_what_the_man_page_says():
    """Limits with an option: the default in SECURITY.md is that of hobd(8)."""
    man = (TOP / "man" / "hobd.8.scd").read_text()
    text = SECURITY.read_text()
    for option, default, written in (("ctx", "32768", "32768"), ("parallel", "16", "16"), ("cache-bytes", "4G", "4 GiB"), ("media-cache", "256M", "256 MiB"),
                                     ("vector-cache", "64M", "64 MiB"), ("session-bytes", "1G", "1 GiB"), ("session-count", "10000", "10000"),
                                     ("disk-reserve", "256M", "256 MiB"), ("queue", "256", "256"), ("queue-timeout", "10min", "10 min")):
        about = man.split(f"\n*--{option}* _")[1].split("\n*--")[0]
        assert default in about.split("Default:")[1] or default in about, option
        row = next(line for line in text.splitlines() if f"`--{option}`" in line and line.startswith("|"))
        assert written in row, row


@pytest.mark.parametrize("user", [False, True])
def test_verify(tmp_path, user):
    sources, built = (UNITS, BUILD / "packaging" / "systemd")
    if user:
        sources, built = sources / "user", built / "user"
    names = []
    for name in ("hob", "hobd@", "hob-http"):
        # What the build is to install as /usr/bin/hobd is not there yet.
        text = (built / f"{name}.service").read_text()
        (tmp_path / f"{name}.service").write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={HOB_HTTP if name == 'hob-http' else HOBD}", text))
        shutil.copy(sources / f"{name}.socket", tmp_path)
        names += [tmp_path / f"{name.replace('@', '@x')}.{kind}" for kind in ("service", "socket")]
    r = run("systemd-analyze", "verify", "--man=no", *(["--user"] if user else []), *names,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    if "Failed to initialize manager" in r.stderr:
        pytest.skip("systemd-analyze verify cannot run here: " + r.stderr)
    assert r.returncode == 0 and "hob" not in r.stdout + r.stderr, r.stdout + r.stderr


@pytest.mark.parametrize("where,mode", [(UNITS, "0660"), (UNITS / "user", "0600")])
def test_sockets(where, mode):
    for name in ("hob", "hobd@"):
        text = (where / f"{name}.socket").read_text()
        assert f"\nSocketMode={mode}\n" in text and ("\nSocketGroup=hob\n" in text) == (mode == "0660")
        assert int(re.search(r"TriggerLimitBurst=(\d+)", text).group(1)) >= 100


@pytest.mark.parametrize("path", [UNITS / "hob.service.in", UNITS / "hobd@.service.in", UNITS / "hob-http.service.in",
                                  UNITS / "user" / "hob.service.in", UNITS / "user" / "hobd@.service.in", UNITS / "user" / "hob-http.service.in"])
def test_the_filter_lets_the_program_enter_its_sandbox(path):
    """@system-service of systemd 252 has none of these calls."""
    text = path.read_text()
    allowed = set(re.search(r"(?m)^SystemCallFilter=@system-service (.+)$", text)[1].split())
    assert {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= allowed
    assert "\nSystemCallErrorNumber=EPERM\n" in text


def test_the_sockets_of_the_gateway_have_one_for_questions_about_users():
    for where in (UNITS, UNITS / "user"):
        assert "\nListenNetlink=inet-diag\n" in (where / "hob-http.socket").read_text()


def test_shellcheck():
    r = subprocess.run(["git", "-C", str(TOP), "ls-files"], capture_output=True, text=True)
    if r.returncode:
        pytest.skip("not a git checkout")
    scripts = [p for p in (TOP / n for n in r.stdout.splitlines()) if p.is_file() and not p.is_symlink()
               and re.match(rb"#!\s*/(usr/)?bin/(env )?(ba)?sh\b", p.read_bytes()[:32])]
    assert scripts
    r = run("shellcheck", *scripts)
    assert r.returncode == 0, r.stdout


@pytest.mark.parametrize("script", ["test-deb.sh", "test-boot.sh"])
def test_package(script):
    if not os.environ.get("HOB_TEST_DEB"):
        pytest.skip("HOB_TEST_DEB is not set (to a folder with the Debian packages)")
    r = run("sh", TOP / "packaging" / script, os.environ["HOB_TEST_DEB"], env={**os.environ, "HOB_BUILD": str(BUILD)})
    if r.returncode == 77:
        pytest.skip(r.stdout)
    assert r.returncode == 0, r.stdout + r.stderr
