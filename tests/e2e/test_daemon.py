# SPDX-License-Identifier: MIT
"""The daemon's life: activation, readiness, drain, death, and what it says when it cannot start."""
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HOB, HOBD, listens, mktiny
from hobproto import Closed


def test_socket_activation(home, tiny, tmp_path):
    if not shutil.which("systemd-socket-activate"):
        pytest.skip("systemd-socket-activate is not installed")
    sock = tmp_path / "h.sock"
    home.popen(["systemd-socket-activate", "-l", sock, "-E", "XDG_STATE_HOME", "-E", "HOME", HOBD, "serve", "-m", tiny],
               stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not listens(sock):
        time.sleep(0.02)
    r = home.hob("-n", 5, "--ignore-eos", "hi", env={"HOB_SOCKET": str(sock)}, check=0)
    assert r.out
    home.hob("stop", env={"HOB_SOCKET": str(sock)}, check=0)
    assert sock.exists()


@pytest.mark.parametrize("args, reason", [(["-m", "nobody"], "no model 'nobody'"), (["--paralel", "3"], "--parallel"),
                                          (["-m", "/dev/null"], "not a regular file")])
def test_waiting_clients_get_the_reason_that_no_daemon_starts(home, tmp_path, args, reason):
    if not shutil.which("systemd-socket-activate"):
        pytest.skip("systemd-socket-activate is not installed")
    sock = tmp_path / "h.sock"
    home.popen(["systemd-socket-activate", "-l", sock, "-E", "XDG_STATE_HOME", "-E", "HOME", HOBD, "serve", *args],
               stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not listens(sock):
        time.sleep(0.02)
    r = home.hob("hi", env={"HOB_SOCKET": str(sock)}, check=1)
    assert reason in r.err


def threads_of(d, name):
    """The kernel's file @name of each thread of a daemon; those that verify the weights may end meanwhile."""
    found = {}
    for t in Path(f"/proc/{d.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[t.name] = (t / name).read_text()
    return found


def sandbox_of(d):
    """What the kernel says of a daemon, of each of its threads."""
    threads = threads_of(d, "status").values()
    assert len(threads) > 1
    return {tuple(line for line in t.splitlines() if line.startswith(("NoNewPrivs:", "Seccomp:"))) for t in threads}


def test_sandbox_is_on_by_default(home):
    if b"__asan" in HOBD.read_bytes():
        pytest.skip("a build with sanitizers has no sandbox")
    if not Path("/proc/sys/kernel/seccomp").exists():
        pytest.skip("this kernel has no seccomp filters")
    d = home.daemon()
    assert sandbox_of(d) == {("NoNewPrivs:\t1", "Seccomp:\t2")}
    d = home.restart(d, "--confine", "no")
    assert sandbox_of(d) == {("NoNewPrivs:\t0", "Seccomp:\t0")}


def notified(s):
    out = {}
    while True:
        for line in s.recv(65536).decode().splitlines():
            k, _, v = line.partition("=")
            out[k] = v
        if out.get("READY") == "1":
            return out


def test_notifies_ready_and_stopping(home, tmp_path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(str(tmp_path / "notify"))
    s.settimeout(60)
    d = home.daemon(env={"NOTIFY_SOCKET": str(tmp_path / "notify")}, wait=False)
    assert notified(s)["READY"] == "1"
    d.send_signal(signal.SIGTERM)
    while b"STOPPING=1" not in s.recv(65536):
        pass
    assert d.wait(60) == 0


def test_notifies_the_reason_of_a_failed_start(home, tmp_path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(str(tmp_path / "notify"))
    s.settimeout(60)
    home.daemon("-m", "nobody", env={"NOTIFY_SOCKET": str(tmp_path / "notify")}, wait=False)
    said = s.recv(65536).decode()
    assert said.startswith("STATUS=no model 'nobody'") and f"\nERRNO={errno.ENOENT}" in said


def test_sigterm_completes_accepted_requests(home, long):
    d = home.daemon("-m", long)
    p = home.popen([HOB, "-n", 60, "--ignore-eos", "--jsonl", "go"], env={"HOB_SOCKET": str(d.path)},
                   stdin=subprocess.DEVNULL, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while b'"text"' not in p.stdout.readline():
        pass
    d.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["usage"]["completion"] == 60
    assert d.wait(60) == 0
    assert not d.path.exists()


def test_stop_timeout_ends_long_requests(home, long):
    d = home.daemon("-m", long, "--stop-timeout", "300ms")
    p = home.popen([HOB, "-n", 30000, "--ignore-eos", "go"], env={"HOB_SOCKET": str(d.path)}, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(3)
    d.send_signal(signal.SIGTERM)
    assert d.wait(60) == 0
    p.communicate(timeout=60)
    assert p.returncode in (1, 69)


def test_killed_in_mid_answer_is_69(home, long):
    d = home.daemon("-m", long)
    p = home.popen([HOB, "-n", 30000, "--ignore-eos", "go"], env={"HOB_SOCKET": str(d.path)}, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(3)
    d.kill()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 69
    assert len(err.strip().splitlines()) == 1
    assert d.wait(60) == -signal.SIGKILL  # the client may see the end of its connection before
    # The dead one's socket is in the way of nobody.
    home.daemon("-m", long, socket=d.path)


def test_idle_exit(home):
    d = home.daemon("--idle-exit", "300ms", wait=False)
    while not listens(d.path):
        assert d.poll() is None, d.log.read_text()
        time.sleep(0.001)
    idle = home.client(d)
    assert d.wait(60) == 0
    with pytest.raises((Closed, ConnectionResetError)):
        idle.recv()


def test_two_daemons_on_one_socket(home):
    d = home.daemon()
    second = home.daemon(socket=d.path, wait=False)
    assert second.wait(60) == 1
    assert str(d.path) in d.log.read_text()
    assert home.hob("status").returncode == 0


@pytest.mark.parametrize("args,code,say", [
    (["--ctx", "-1"], 2, "ctx"), (["--kv-bytes", "lots"], 2, "lots"), (["--idle-exit", "5 parsecs"], 2, "parsecs"),
    (["--kv-type", "q3"], 2, "q3"), (["--nonsense"], 2, "nonsense"), (["--cache-bytes", "lots"], 2, "cache-bytes"),
    (["-m", "nosuch"], 1, "nosuch"), (["-m", "/nowhere/x.gguf"], 1, "/nowhere/x.gguf"), (["--threads", "100000"], 2, "threads"),
    (["--nice", "20"], 2, "nice"), (["--nice", "-21"], 2, "nice"), (["--nice", "--5"], 2, "nice"), (["--nice", ""], 2, "nice"), (["--numa", "2"], 2, "numa"),
    (["--device", "gpu"], 2, "gpu"), (["--device", "cuda:"], 2, "cuda:"), (["--device", "cuda:100"], 2, "cuda:100"), (["--device", "cuda:99"], 1, "cuda"),
    (["--device", "cuda:0,"], 2, "device 'cuda:0,' is none of"), (["--device", "cuda:1,0,1"], 2, "has the number 1 twice"), (["--device", "cuda:0,1,2,3,4"], 2, "has more than 4 numbers"),
    (["--device", "cuda:0,99"], 1, "cuda"),
    (["--socket", "/tmp/" + "x" * 200], 1, "limit"), (["--kv-bytes", "1K"], 1, "kv"),
])
def test_bad_options(home, args, code, say):
    r = subprocess.run([HOBD, "serve", *args], env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert r.returncode == code, r.stderr
    assert say.encode() in r.stderr


def test_configuration_file(home):
    conf = home.root / "config" / "hob"
    conf.mkdir(parents=True)
    (conf / "hobd.conf").write_text("# comment\nctx = 128\nparallel = 3\n")
    home.daemon("--parallel", 5)
    s = json.loads(home.hob("status", "--json", check=0).out)
    assert (s["ctx"], s["parallel"]) == (128, 5)
    home.stop()
    (conf / "hobd.conf").write_text("ctx = 128\nparalel = 3\n")
    r = subprocess.run([HOBD, "serve"], env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert r.returncode != 0
    assert b"hobd.conf:2" in r.stderr and b"'parallel'" in r.stderr


def patched(src, dst, old, new):
    b = src.read_bytes()
    assert old in b
    dst.write_bytes(b.replace(old, new))
    return dst


@pytest.mark.parametrize("what", ["architecture", "tokenizer", "pre", "truncated", "type", "notgguf"])
def test_unsupported_models_are_named(home, tiny, tmp_path, what):
    bad = tmp_path / "bad.gguf"
    if what == "architecture":
        patched(tiny, bad, b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba")
        say = ["mamba", "hobd inspect --supported"]
    elif what == "tokenizer":
        patched(tiny, bad, b"\x04\0\0\0\0\0\0\0gpt2", b"\x04\0\0\0\0\0\0\0gptx")
        say = ["gptx", "gpt2"]
    elif what == "pre":
        patched(tiny, bad, b"smollm", b"smullm")
        say = ["smullm", "smollm"]
    elif what == "truncated":
        bad.write_bytes(tiny.read_bytes()[:-1000])
        say = ["bad.gguf"]
    elif what == "type":
        name = b"blk.0.attn_q.weight"
        b = bytearray(tiny.read_bytes())
        at = b.index(name) + len(name) + 4 + 16
        b[at:at + 4] = (10).to_bytes(4, "little")
        bad.write_bytes(b)
        say = ["blk.0.attn_q.weight"]
    else:
        bad.write_bytes(b"#!/bin/sh\n" * 100)
        say = ["bad.gguf", "GGUF"]
    r = subprocess.run([HOBD, "serve", "-m", bad], env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert r.returncode == 1
    for s in say:
        assert s.encode() in r.stderr, r.stderr
    told = {(r.returncode, r.out, r.err) for r in (home.hob("-m", bad, "hi") for _ in range(8))}  # while it listens, and after its end
    assert len(told) == 1, told
    assert [(code, out) for code, out, _ in told] == [(1, "")]


def test_out_of_memory_at_load(home, tmp_path):
    if b"__asan" in HOBD.read_bytes():
        pytest.skip("the address sanitizer needs the address space")
    big = mktiny(tmp_path / "big.gguf", "--layers", 8, "--dim", 1024, "--ffn", 4096, "--type", "Q4_0")
    limit = 64 << 20
    r = subprocess.run(["prlimit", f"--data={limit}", HOBD, "serve", "-m", big], env=home.env, stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=60)
    assert r.returncode == 1, r.stderr
    assert b"memory" in r.stderr.lower()


def test_fault_in_a_mapped_file_is_reported(home):
    """Cutting a file while it is read would be a race; the signal it gives is not, and each thread can get it."""
    d = home.daemon()
    masks = threads_of(d, "status").values()
    blocked = [int(next(x for x in m.splitlines() if x.startswith("SigBlk")).split()[1], 16) for m in masks]
    assert len(blocked) > 2 and not any(b >> (signal.SIGBUS - 1) & 1 for b in blocked)
    d.send_signal(signal.SIGBUS)
    assert d.wait(60) == 1
    assert "truncated" in d.log.read_text().splitlines()[-1]


def test_nice(home):
    d = home.daemon("--threads", "3", "--nice", "7")
    assert home.client().answer("x", max_tokens=2).end["event"] == "done"
    stats = {t: stat.rpartition(")") for t, stat in threads_of(d, "stat").items()}
    nice = {t: int(values.split()[16]) for t, (_, _, values) in stats.items()}
    assert nice.pop(str(d.pid)) == os.getpriority(os.PRIO_PROCESS, 0)
    computes = [nice[t] for t, (name, _, _) in stats.items() if "(compute-" in name]
    assert computes == [7, 7]
    assert sum(n == 7 for n in nice.values()) >= 7  # and the engine's, and four of jobs


@pytest.mark.skipif(os.getuid() != 0, reason="gives up root's rights")
def test_refused_nice(home):
    """A process without rights may go back to a lower value than its own only within RLIMIT_NICE."""
    r = subprocess.run(["prlimit", "--nice=0:0", "nice", "-n", str(10 - os.nice(0)),
                        "setpriv", "--bounding-set", "-all", "--inh-caps", "-all", HOBD, "serve", "--nice", "-5", "--socket",
                        str(home.root / "s")], env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert r.returncode == 1
    assert b"nice value -5" in r.stderr


def test_most_threads(home):
    home.daemon("--threads", "1024")
    assert home.client().answer("x", max_tokens=2).end["event"] == "done"


def test_survives_running_out_of_descriptors(home):
    d = home.daemon("--idle-exit", "1h", wrap=["prlimit", "--nofile=40:40"])
    held = []
    for _ in range(60):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.setblocking(False)
        try:
            s.connect(str(d.path))
        except BlockingIOError:
            pass
        held.append(s)
    time.sleep(0.5)
    [s.close() for s in held]
    assert home.hob("-n", 3, "--ignore-eos", "hi", check=0).out
    ticks = sum(map(int, open(f"/proc/{d.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))
    assert ticks < 10 * os.sysconf("SC_CLK_TCK")
