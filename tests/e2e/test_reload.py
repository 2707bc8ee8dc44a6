# SPDX-License-Identifier: MIT
"""What changes around a daemon that runs: its configuration, read again on SIGHUP, and the file of its model."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from conftest import HOB, TOP, mktiny

# Every key: a value at start, another one, and whether a daemon that runs takes it over.
KEYS = {
    "model": ("default", "other", False),
    "socket": ("/nowhere/a", "/nowhere/b", False),
    "ctx": ("256", "512", False),
    "parallel": ("4", "5", False),
    "threads": ("1", "2", False),
    "device": ("cpu", "auto", False),
    "numa": ("yes", "no", False),
    "nice": ("0", "3", False),
    "kv-bytes": ("4M", "8M", False),
    "kv-host-bytes": ("0", "1M", False),
    "state-share": ("33", "20", False),
    "kv-type": ("f16", "q8", False),
    "cache-bytes": ("1M", "2M", True),
    "packed-file": ("yes", "no", False),
    "session-bytes": ("1G", "2G", True),
    "session-count": ("10", "20", True),
    "disk-reserve": ("1M", "2M", True),
    "session-ttl": ("0", "30d", True),
    "mmproj": ("none", "/nowhere/b", False),
    "media-cache": ("1M", "2M", False),
    "vector-cache": ("1M", "2M", False),
    "prefixes": ("/nowhere/a", "/nowhere/b", False),
    "client-bytes": ("64M", "65M", False),
    "gateways": ("root", "none", False),
    "idle-exit": ("10min", "0", True),
    "queue": ("7", "8", True),
    "queue-timeout": ("1min", "2min", True),
    "batch-tokens": ("128", "256", False),
    "batch-window": ("0", "1ms", True),
    "draft": ("none", "/nowhere/b", False),
    "speculate": ("auto", "off", True),
    "stop-timeout": ("20s", "21s", True),
    "confine": ("yes", "no", False),
    "verbose": ("no", "yes", True),
}


class Configured:
    """A daemon with a configuration file."""

    def __init__(self, home, text=None, *args, target=None, **kw):
        """@text None: no file yet; @target: the file is a link to it."""
        self.home = home
        self.conf = home.root / "config" / "hob" / "hobd.conf"
        if text is not None:
            self.conf.parent.mkdir(parents=True)
            if target:
                self.conf.symlink_to(target)
            self.conf.write_text(text)
        self.d = home.daemon(*args, **kw)

    def log(self):
        return self.d.log.read_text()

    def reload(self, text):
        """Another text, and the lines of the log that it brings."""
        before, at = self.log(), time.monotonic()
        self.conf.write_text(text)
        self.d.send_signal(signal.SIGHUP)
        while not re.search(r"SIGHUP: (?!changed).*\n", self.log()[len(before):]):
            assert self.d.poll() is None and time.monotonic() < at + 60, self.log()
            time.sleep(0.01)
        self.home.status()  # it has done what it was about
        return self.log()[len(before):]


def text(values):
    return "".join(f"{k} = {v}\n" for k, v in values.items())


def names(log, what):
    m = re.search(rf"{what}: (.*)", log)
    return set(m.group(1).replace("verbose or quiet", "verbose").split(", ")) if m else set()


def test_every_key(home):
    """Each changes; what is taken over, and what waits, is what the manual says."""
    page = (TOP / "man" / "hobd.conf.5.scd").read_text()
    keys = re.findall(r"^\*([a-z-]+)\* = ", page, re.M)
    assert set(KEYS) == set(keys) - {"quiet", "adapter"}  # the latter needs a file at the start
    waits = {k for k, v in KEYS.items() if not v[2]} - {"socket"}  # which stands on the command line
    live = {k for k, v in KEYS.items() if v[2]}
    said = re.search(r"applies these keys without a restart: (.*?)\.", page, re.S).group(1)
    assert set(re.findall(r"\*([a-z-]+)\*", said)) - {"quiet"} == live
    c = Configured(home, text({k: v[0] for k, v in KEYS.items()}))
    waits.add("adapter")
    log = c.reload(text({k: v[1] for k, v in KEYS.items()} | {"adapter": "a=/nowhere/a"}))
    assert names(log, "applied") == live
    assert names(log, "need a restart") == waits
    status = home.status()
    assert status["queue"] == 8 and status["parallel"] == 4
    assert set(status["restart_pending"].split(", ")) == waits
    assert "restart_pending: model, " in home.hob("status", check=0).out
    # Back as it was: nothing waits any more.
    log = c.reload(text({k: v[0] for k, v in KEYS.items()}))
    assert names(log, "applied") == live and "need a restart" not in log
    assert "restart_pending" not in home.status() and home.status()["queue"] == 7
    assert "no setting to apply" in c.reload(text({k: v[0] for k, v in KEYS.items()}))


@pytest.mark.parametrize("wrong,says", [
    ("queue = 3\nparalell = 4\n", ":2: unknown key 'paralell', nearest is 'parallel'"),
    ("queue = 3\n\nctx = many\n", ":3: ctx: 'many' is not a whole number"),
    ("queue = 3\nkv-type = q9\n", ":2: kv-type: 'q9' is not f32, f16 or q8"),
    ("queue\n", ":1: expected 'key = value', not 'queue'"),
    ("queue = 3\nsystm = yes\n", ":2: unknown key 'systm'")])
def test_a_broken_file_changes_nothing(home, wrong, says):
    c = Configured(home, "queue = 9\n")
    log = c.reload(wrong)
    assert f"{c.conf}{says}" in log and "nothing changes" in log
    status = home.status()
    assert status["queue"] == 9 and status["reload_failed"] == f"{c.conf}{says}"
    assert "system" not in status["reload_failed"]
    assert "! configuration reload failed: " in watched(home)
    home.hob("-n", "2", "x", check=0)
    c.reload("queue = 9\n")
    assert "reload_failed" not in home.status()


@pytest.mark.parametrize("kind", ["pipe", "directory", "too large"])
def test_what_is_no_file_changes_nothing(home, kind):
    """A pipe that nobody writes into would hold up the daemon's main thread for good."""
    c = Configured(home, "queue = 9\n")
    c.conf.unlink()
    says = f"{c.conf} is not a regular file"
    if kind == "pipe":
        os.mkfifo(c.conf)
    elif kind == "directory":
        c.conf.mkdir()
    else:
        c.conf.write_bytes(b"\n" * ((1 << 20) + 1))
        says = f"{c.conf} has 1048577 bytes, the limit is 1048576"
    c.d.send_signal(signal.SIGHUP)
    at = time.monotonic()
    while says not in c.log():
        assert c.d.poll() is None and time.monotonic() < at + 60, c.log()
        time.sleep(0.01)
    status = home.status()
    assert status["queue"] == 9 and status["reload_failed"] == says
    c.conf.rmdir() if kind == "directory" else c.conf.unlink()
    assert names(c.reload("queue = 5\n"), "applied") == {"queue"}


def test_drafts_without_a_draft_model(home):
    c = Configured(home, "speculate = auto\n")
    log = c.reload("speculate = draft\nqueue = 9\n")
    says = "speculate: 'draft' needs a draft model (--draft), or a model with an MTP layer: the daemon has neither"
    assert says in log and "nothing changes" in log
    assert home.status()["reload_failed"] == says and home.status()["queue"] != 9
    assert home.hob("--raw", "-n", "5", "hi").returncode == 0


def test_the_command_line_wins_still(home):
    c = Configured(home, "queue = 9\n", "--queue", "11")
    assert "no setting to apply" in c.reload("queue = 5\n")
    assert home.status()["queue"] == 11


def test_a_file_that_comes_to_be(home):
    """A daemon that has none when it starts, and is confined, reads one that is made later."""
    c = Configured(home)
    c.conf.parent.mkdir(parents=True, exist_ok=True)
    assert names(c.reload("queue = 5\n"), "applied") == {"queue"}


def test_a_file_that_is_a_link(home):
    """As those who keep such files together have it."""
    kept = home.root / "kept" / "hobd.conf"
    kept.parent.mkdir()
    c = Configured(home, "queue = 9\n", target=kept)
    assert names(c.reload("queue = 5\n"), "applied") == {"queue"}


def test_idle_exit_comes_to_be(home):
    c = Configured(home, "idle-exit = 0\n")
    c.conf.write_text("idle-exit = 50ms\n")
    c.d.send_signal(signal.SIGHUP)
    assert c.d.wait(60) == 0


def test_no_cache_is_for_a_restart(home):
    c = Configured(home, "cache-bytes = 1M\n")
    assert names(c.reload("cache-bytes = 0\n"), "need a restart") == {"cache-bytes"}


def test_answers_go_on(home, tmp_path):
    c = Configured(home, "queue = 9\n")
    alone = home.ask("x", n=64).bits
    for i in range(3):
        with home.client() as client:
            asked = client.generate("x", max_tokens=64, ignore_eos=True)
            c.reload(f"queue = {20 + i}\n")
            assert list(client.events(asked))[-1]["event"] == "done"
    assert home.ask("x", n=64).bits == alone


def test_the_service_manager_is_told(home, tmp_path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(str(tmp_path / "notify"))
    s.settimeout(60)

    def heard(until):
        out = ""
        while until not in out:
            out += s.recv(65536).decode() + "\n"
        return out

    c = Configured(home, "queue = 9\n", env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    heard("READY=1")
    c.reload("queue = 10\nctx = 64\n")
    told = heard("READY=1")
    m = re.match(r"(?s).*RELOADING=1\nMONOTONIC_USEC=(\d+)\n.*READY=1\nSTATUS=Serving default; a restart is pending\n", told)
    assert m, told
    assert 0 <= time.monotonic() * 1e6 - int(m.group(1)) < 60e6
    c.reload("what\n")
    assert "STATUS=Serving default; hobd.conf is invalid" in heard("READY=1")


def watched(home):
    p = home.popen([HOB, "status", "--watch=1h"], stdout=subprocess.PIPE, text=True)
    out = p.stdout.readline() + p.stdout.readline()
    p.terminate()
    p.wait()
    return out


CHANGED = "model file changed after it was loaded; restart hobd to use it"


@pytest.mark.parametrize("how", ["replaced", "written", "link", "gone"])
def test_the_model_file_changes(home, tiny, tmp_path, how):
    """Answers come from what was loaded, and status says so."""
    file, link = tmp_path / "m.gguf", home.models / "default.gguf"
    link.unlink()
    shutil.copy(tiny, file)
    link.symlink_to(file)
    d = home.daemon()
    before = home.ask("x").bits
    assert "model_changed" not in home.status()
    other = mktiny(tmp_path / "other.gguf", "--seed", 99)
    says = CHANGED
    if how == "replaced":
        os.rename(other, file)
    elif how == "written":
        os.utime(file, ns=(1, 1))
    elif how == "link":
        link.unlink()
        link.symlink_to(other)
    else:
        file.unlink()
        says = "model file was removed after it was loaded"
    assert home.status()["model_changed"] == says
    assert f"model_changed: {says}" in home.hob("status", check=0).out
    assert f"! {says}\n" in watched(home)
    assert home.ask("x", "-m", "default").bits == before
    if how in ("replaced", "link"):
        home.restart(d)
        assert "model_changed" not in home.status()
        assert home.ask("x").bits != before
