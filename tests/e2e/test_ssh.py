# SPDX-License-Identifier: MIT
"""hob on one machine, hobd on another: ssh -L forwards the Unix socket (hob(1), From another machine)."""
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time

import pytest
from conftest import HOB, listens

# sshd runs by its absolute path only; as root it needs /run/sshd.
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
OWN_RUN = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o mode=755 none /run && mkdir /run/sshd && exec "$@"', "sh"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Host:
    """An sshd for this user, with keys of its own."""

    def __init__(self, home):
        self.home, self.dir, self.port = home, home.root / "ssh", free_port()
        self.dir.mkdir(mode=0o700)
        wrap = [] if os.geteuid() or os.path.isdir("/run/sshd") else OWN_RUN
        if wrap and subprocess.run([*wrap, "true"], capture_output=True).returncode:
            pytest.skip("no /run/sshd, and no mount namespace to make it in")
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.dir / name], check=True)
        shutil.copy(self.dir / "user.pub", self.dir / "authorized")
        (self.dir / "known").write_text(f"[127.0.0.1]:{self.port} {(self.dir / 'host.pub').read_text()}")
        (self.dir / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.dir}/host\nAuthorizedKeysFile {self.dir}/authorized\n"
            f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n")
        self.log = self.dir / "log"
        with open(self.log, "wb") as log:
            self.sshd = home.popen([*wrap, SSHD, "-D", "-e", "-f", self.dir / "config"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def forward(self, here, there):
        """ssh -L, from the time on at which it listens."""
        argv = ["ssh", "-F", "none", "-p", self.port, "-i", self.dir / "user", "-o", f"UserKnownHostsFile={self.dir}/known",
                "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-o", "ConnectionAttempts=20",
                "-N", "-L", f"{here}:{there}", f"{pwd.getpwuid(os.geteuid()).pw_name}@127.0.0.1"]
        p = self.home.popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not listens(here):
            assert time.monotonic() < deadline and self.sshd.poll() is None, self.log.read_text()
            if p.poll() is not None:
                said = p.stderr.read().decode() + self.log.read_text()
                if "account is locked" in said:
                    pytest.skip("this user's account is locked for sshd")
                pytest.fail(said)
            time.sleep(0.01)
        return p


@pytest.fixture
def host(home):
    if not SSHD or not shutil.which("ssh"):
        pytest.skip("openssh-server or openssh-client is not installed")
    return Host(home)


def test_answers_and_sessions_through_ssh(home, host):
    home.daemon()
    here = home.root / "far.sock"
    host.forward(here, home.socket)
    assert here.stat().st_mode & 0o777 == 0o600
    far = {"HOB_SOCKET": str(here)}
    direct, through = home.ask("tell me"), home.ask("tell me", env=far)
    assert through.bits == direct.bits and through.cached > 0  # the same user at the daemon, who shares the cache
    text = b"once upon a time " * 20000
    assert home.hob("--raw", "-n", 1, "-v", input=text).err == home.hob("--raw", "-n", 1, "-v", input=text, env=far).err
    home.hob("-S", "kept", "-n", 2, "hi", env=far, check=0)
    assert [s["name"] for s in json.loads(home.hob("sessions", "--json", check=0).out)] == ["kept"]
    assert home.hob("status", "--json", env=far, check=0).out


def test_a_lost_connection_cancels_the_request(home, host):
    home.daemon()
    here = home.root / "far.sock"
    tunnel = host.forward(here, home.socket)
    p = home.popen([HOB, "--raw", "--ignore-eos", "-n", 100000, "--context", "rotate", "x"], env={"HOB_SOCKET": str(here)},
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(1)  # it streams
    tunnel.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=60)
    assert p.returncode not in (0, 2) and b"daemon" in err, (p.returncode, err)
    deadline = time.monotonic() + 60
    while home.status()["running"]:
        assert time.monotonic() < deadline, home.status()
        time.sleep(0.01)


def test_without_a_daemon_on_the_other_side(home, host):
    here = home.root / "far.sock"
    host.forward(here, home.socket)
    r = home.hob("hi", env={"HOB_SOCKET": str(here)})
    assert r.returncode == 69 and r.err.startswith("hob: "), (r.returncode, r.err)
    assert not home.socket.exists()  # hob has started none on this side
