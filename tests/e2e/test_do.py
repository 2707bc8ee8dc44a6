# SPDX-License-Identifier: MIT
"""hob do: users at terminals, and daemons that follow a script; one test with hobd and its constraint."""
import base64
import os
import re
import select
import signal
import subprocess
import termios
import time

import pytest
from conftest import HOB
from test_shell_tools import User, desk, done, text  # noqa: F401  desk is a fixture

QUESTION = "[y]es, run it  [n]o  [e]dit  [c]opy: "
NO_RUN = "[n]o  [e]dit: "


def user(home, *args, env=None):
    """A user at a terminal, in the home directory."""
    argv = ["sh", "-c", 'cd "$HOME" && exec "$@"', "sh", str(HOB), "do", *args]
    return User(home, argv=argv, env={"SHELL": "/bin/sh", **(env or {})})


def end(u):
    """What comes until hob exits, and its status."""
    status = u.end()
    return u.seen[u.at:], status


def press(u, key):
    """Type @key until hob takes it: on a busy machine it may read it together with the key before, and that is no answer."""
    for _ in range(60):
        u.type(key)
        if select.select([u.fd], [], [], 1)[0]:
            return
    raise AssertionError(u.seen)


@pytest.fixture
def do(desk):
    """do(command, arg…): a user at the terminal, and the requests of hob."""
    def start(command, *args, does="It does that.", env=None, reason="stop"):
        d = desk.script([text(command), done(reason)], [text(does), done()])
        d.features = ["generate", "constraint"]
        u = user(desk, *args, env=env)
        u.requests = d.requests
        return u

    desk.start = start
    return desk


def test_it_runs_after_a_key(do):
    u = do.start("echo ran >out; exit 7\n", "make", "a file", does="It writes a file.\n")
    shown = u.until(QUESTION)
    assert "\n  echo ran >out; exit 7\n\nIt writes a file.\n" in shown
    assert not (do.root / "out").exists()
    u.type("y")
    rest, status = end(u)
    assert status == 7 and (do.root / "out").read_text() == "ran\n"


def test_no_is_no(do):
    for key in ("n", "N", "\x04"):
        u = do.start("touch out", "x")
        u.until(QUESTION)
        u.type(key)
        assert end(u)[1] == 1 and not (do.root / "out").exists()
    u = do.start("touch out", "x")
    u.until(QUESTION)
    u.type("\x03")
    assert end(u)[1] == 130 and not (do.root / "out").exists()


def test_only_one_fresh_key_is_an_answer(do):
    """Keys before the question, pasted text, Enter and others are none."""
    u = do.start("touch out", "x")
    u.type("yyyy\r")
    u.until(QUESTION)
    time.sleep(0.2)
    for keys in ("yes\r", "\r", "q", "\x1b[A", " "):
        u.type(keys)
        time.sleep(0.2)
        assert not (do.root / "out").exists() and not select.select([u.fd], [], [], 0)[0], keys
    press(u, "y")
    assert end(u)[1] == 0 and (do.root / "out").exists()


@pytest.mark.parametrize("command, shown", [
    ("ls\nrm -r x", "ls<U+000A>rm -r x"), ("echo \x1b[2K\x1b[1Gsafe", "echo <U+001B>[2K<U+001B>[1Gsafe"), ("touch out #\u202etxt", "touch out #<U+202E>txt"),
    ("touch\u00a0out", "touch<U+00A0>out"), ("touch o\u200but", "touch o<U+200B>ut"), ("touch out\r#", "touch out<U+000D>#"), ("touch out\ufeff", "touch out<U+FEFF>"),
    ("touch \u2067out", "touch <U+2067>out"), ("touch\tout", "touch<U+0009>out")])
def test_what_is_not_shown_does_not_run(do, command, shown):
    u = do.start(command, "x")
    screen = u.until(NO_RUN)
    assert f"\n  {shown}\n" in screen and "does not run" in screen and "\x1b[2K" not in screen
    u.type("y")
    time.sleep(0.2)
    u.type("c")
    time.sleep(0.2)
    press(u, "n")
    rest, status = end(u)
    assert status == 1 and "\x1b]52" not in rest and not (do.root / "out").exists() and not (do.root / "o\u200but").exists()
    d = do.script([text(command), done()])
    d.features = ["generate", "constraint"]
    r = do.hob("do", "--print", "x", check=1)
    assert not r.out and shown in r.err and command not in r.err


def test_edit(do):
    editor = do.tool("editor", 'cp "$1" "$HOME/before"; cat "$HOME/after" >"$1"')
    (do.root / "after").write_text("touch mine\n")
    u = do.start("touch out", "x", does="It is old.", env={"EDITOR": str(editor), "VISUAL": ""})
    u.until(QUESTION)
    u.type("e")
    shown = u.until(QUESTION)
    assert "\n  touch mine\n" in shown and "It is old" not in shown
    assert (do.root / "before").read_text() == "touch out\n"
    # Two lines of the editor do not run either.
    (do.root / "after").write_text("touch a\ntouch b\n")
    u.type("e")
    assert "touch a<U+000A>touch b" in u.until(NO_RUN)
    (do.root / "after").write_text("touch 'd e'\n")
    u.type("e")
    u.until(QUESTION)
    u.type("y")
    assert end(u)[1] == 0 and (do.root / "d e").exists() and not (do.root / "out").exists() and not (do.root / "a").exists()


def test_copy(do):
    u = do.start("echo 'grüße' | cat", "x")
    u.until(QUESTION)
    u.type("c")
    rest, status = end(u)
    assert status == 0 and "OSC 52" in rest
    assert base64.b64decode(re.search(r"\x1b]52;c;([A-Za-z0-9+/=]*)\x1b\\", rest)[1]).decode() == "echo 'grüße' | cat"


def test_without_a_terminal(do):
    d = do.script([text("touch out\n"), done()])
    d.features = ["generate", "constraint"]
    r = subprocess.run(["setsid", "-w", str(HOB), "do", "x"], env=do.env, input=b"", capture_output=True)
    assert r.returncode == 2 and b"--print prints it" in r.stderr and not d.requests
    r = subprocess.run(["setsid", "-w", str(HOB), "do", "--print", "x"], env=do.env, input=b"", capture_output=True)
    assert r.returncode == 0 and r.stdout == b"touch out\n" and len(d.requests) == 1
    assert not (do.root / "out").exists()


def test_the_context_is_stated_and_can_be_off(do):
    def run(*args, env=None):
        d = do.script([text("ls"), done()])
        d.features = ["generate", "constraint"]
        r = do.hob("do", "--print", *args, env={"SHELL": "/bin/bash", **(env or {})}, check=0, input=b"some\n")
        return r.err, d.requests[0]

    err, request = run("list")
    system, user = request["messages"][0], request["messages"][-1]
    assert os.getcwd() in err and "/bin/bash" in err and "--no-context" in err
    assert system["content"].endswith(f"\nShell: /bin/bash\nCurrent directory: {os.getcwd()}") and "\nSystem: " in system["content"]
    assert user["content"] == "some\n\nlist"
    assert request["temperature"] == 0 and request["constraint"]["type"] == "regex"
    err, request = run("--no-context", "list", "--no-stdin")
    assert not err and os.getcwd() not in str(request) and "bash" not in str(request) and request["messages"][-1]["content"] == "list"
    (do.root / "config/hob").mkdir(parents=True)
    (do.root / "config/hob/hob.conf").write_text("no-context = yes\nsystem = other\nstop = x\nsession = s\n")
    err, request = run("list")
    assert not err and os.getcwd() not in str(request) and "other" not in str(request) and "session" not in request and "stop" not in request


def test_an_incomplete_or_empty_line_is_refused(do):
    for answer, message in (([text("touch ou"), done("length")], "the model's line is incomplete"), ([text("\n"), done()], "the model gave no command")):
        d = do.script(answer)
        d.features = ["generate", "constraint"]
        r = do.hob("do", "--print", "x", check=1)
        assert not r.out and message in r.err
    assert "say what the command shall do: hob do TEXT" in do.hob("do", "--print", check=2).err
    assert "--session cannot be used with 'do'" in do.hob("do", "-S", "s", "x", check=2).err
    assert "--print can be used only with 'do'" in do.hob("--print", "x", check=2).err


def test_without_an_explanation_the_user_is_still_asked(do):
    d = do.script([text("touch out"), done()], [{"event": "error", "id": 1, "code": "EBUSY", "message": "queue full"}])
    d.features = ["generate", "constraint"]
    u = user(do, "x")
    assert "queue full" in u.until(QUESTION)
    u.type("n")
    assert end(u)[1] == 1


def test_the_command_has_the_terminal_when_a_pipe_was_read(do):
    d = do.script([text("test -t 0 && echo a terminal"), done()], [text("x"), done()])
    d.features = ["generate", "constraint"]
    u = User(do, argv=["sh", "-c", f"echo piped | {HOB} do x"], env={"SHELL": "/bin/sh"})
    u.until(QUESTION)
    u.type("y")
    rest, status = end(u)
    assert status == 0 and "a terminal" in rest and d.requests[0]["messages"][-1]["content"] == "piped\n\nx"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_killed_at_the_question_it_leaves_the_terminal_as_it_was(do, how):
    if signal.getsignal(how) == signal.SIG_IGN:
        pytest.skip(f"{how.name} is ignored here, as under nohup, and hob would ignore it too")
    u = do.start("touch out", "x")
    u.until(QUESTION)
    assert not termios.tcgetattr(u.side)[3] & termios.ICANON
    os.kill(u.pid, how)
    assert os.waitstatus_to_exitcode(os.waitpid(u.pid, 0)[1]) == 130 and not (do.root / "out").exists()
    flags = termios.tcgetattr(u.side)[3]
    assert flags & termios.ICANON and flags & termios.ECHO


def test_a_real_model_gives_one_line(home):
    """The constraint of the daemon: whatever a random model says is one line of visible characters."""
    home.daemon()
    for seed in range(6):
        r = home.hob("do", "--print", "-q", "--temp", "1.5", "--seed", seed, "-n", "60", "x")
        assert r.returncode in (0, 1)
        if r.returncode == 0:
            assert r.out.count("\n") == 1 and r.out.strip() and r.out.rstrip("\n").isprintable(), r.out
        else:
            assert "the model's line is incomplete" in r.err or "has hidden characters" in r.err, r.err
