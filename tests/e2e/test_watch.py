# SPDX-License-Identifier: MIT
"""hob status --watch in a real terminal: tmux, whose screen can be read."""
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from conftest import HOB

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


class Screen:
    """A shell in tmux, in a window of a given size."""

    def __init__(self, home, columns, rows):
        self.socket = str(home.root / "tmux.sock")
        self.env = {**home.env, "TERM": "xterm", "PS1": "$ ", "SHELL": "/bin/sh"}
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "-c", home.root, "env", "TERM=screen", "PS1=$ ", "sh")
        self.until(lambda s: "$" in s)

    def tmux(self, *args):
        r = subprocess.run(["tmux", "-S", self.socket, *map(str, args)], env=self.env, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def shown(self):
        return self.tmux("capture-pane", "-p")

    def cursor(self):
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def until(self, good):
        """What it shows when that is @good: the next look may find half of another picture."""
        deadline = time.monotonic() + 60
        while not good(shown := self.shown()):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
        return shown

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, line):
        self.keys("-l", line)
        self.keys("Enter")

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.env, capture_output=True)


@pytest.fixture
def screen(home):
    made = []

    def make(columns=40, rows=24):
        made.append(Screen(home, columns, rows))
        return made[-1]

    yield make
    for s in made:
        s.close()


WATCH = f"{shlex.quote(str(HOB))} status --watch 100ms"


def at_work(text):
    return "default: ready" in text and "sessions" in text


def lines(text):
    return [x for x in text.split("\n") if x.strip()]


@pytest.mark.parametrize("columns,rows", [(40, 24), (80, 24), (132, 50), (20, 6)])
def test_it_fits_the_window(home, screen, columns, rows):
    home.daemon()
    home.hob("-S", "one", "-n", "4", "x", check=0)
    s = screen(columns, rows)
    s.type(WATCH)
    shown = s.until(lambda t: "default: ready" in t and "running" in t and (rows < 24 or re.search(r"(?m)^ *uid +run ", t)))
    assert max(map(len, shown.split("\n"))) <= columns
    top = lines(shown)
    assert top[0].startswith("default: ready"), shown  # nothing has scrolled
    assert top[1].startswith("running"), shown
    if rows >= 24:
        assert any(x.split()[:2] == ["uid", "run"] for x in top), shown
        assert "WATCH" not in shown and "$" not in shown
    assert not s.cursor()


def test_it_draws_in_place_and_counts(home, screen):
    home.daemon()
    s = screen()
    s.type(WATCH)
    s.until(at_work)
    for i in range(3):
        home.hob("-n", "4", "x", check=0)
    shown = s.until(lambda t: re.search(r"requests +3\b", t))
    assert shown.count("default: ready") == 1
    assert sum("requests" in x for x in lines(shown)) == 1


@pytest.mark.parametrize("end", ["C-c", "q", "TERM"])
def test_the_terminal_is_as_it_was(home, screen, end):
    home.daemon()
    s = screen()
    s.type(f"stty -a >before; sh -c 'echo $$ >pid; exec {WATCH}'; echo end=$?; stty -a >after")
    s.until(at_work)
    assert not s.cursor()
    if end == "TERM":
        os.kill(int((home.root / "pid").read_text()), signal.SIGTERM)
    else:
        s.keys(end)
    shown = s.until(lambda t: "end=" in t)
    assert ("end=0" if end == "q" else "end=130") in shown, shown
    assert "default: ready" in shown  # the last picture stays above
    s.type("echo visible")
    s.until(lambda t: "\nvisible" in t)
    assert s.cursor()
    assert (home.root / "before").read_text() == (home.root / "after").read_text()


def test_a_window_that_changes(home, screen):
    home.daemon()
    s = screen(80, 24)
    s.type(WATCH.replace("100ms", "1h"))  # nothing but the new size makes it draw again
    s.until(at_work)
    s.tmux("resize-window", "-x", "40", "-y", "10")
    shown = s.until(lambda t: any(x.startswith("prefill/s") for x in lines(t)))
    assert max(map(len, shown.split("\n"))) <= 40


def test_the_daemon_exits(home, screen):
    d = home.daemon()
    s = screen()
    s.type(WATCH + "; echo end=$?")
    s.until(at_work)
    home.hob("stop", check=0)
    d.wait(60)
    shown = s.until(lambda t: "end=69" in t)
    assert "closed the connection" in shown or "no daemon" in shown, shown
    assert s.cursor()


def test_a_dumb_terminal_gets_blocks(home, screen):
    home.daemon()
    s = screen(60, 50)
    s.type("TERM=dumb " + WATCH)
    s.until(lambda t: t.count("default: ready") >= 2)


def test_closed_pipe(home):
    home.daemon()
    r = subprocess.run(["sh", "-c", f"{WATCH} | head -n 1; echo ok"], env=home.env, capture_output=True, text=True, timeout=60)
    assert r.stdout.startswith("default: ready") and r.stdout.endswith("ok\n") and r.stderr == ""


@pytest.mark.parametrize("args,why", [
    (["status", "--watch", "soon"], "--watch: 'soon' is not a time"),
    (["status", "--watch=1ms"], "--watch: '1ms' is less than 50ms"),
    (["status", "--watch=0"], "--watch: must be more than 0"),
    (["status", "2"], "unexpected argument '2' of 'status'"),
    (["--watch", "hi"], "--watch can be used only with 'status'"),
    (["sessions", "--watch"], "--watch cannot be used with 'sessions'")])
def test_wrong_usage(home, args, why):
    assert why in home.hob(*args, check=2).err
