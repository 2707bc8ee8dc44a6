# SPDX-License-Identifier: MIT
"""hob chat on a terminal of 40 columns, and through pipes."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios

import pytest
from conftest import HOB
from terminal import end_of, fork_on_terminal

PROMPT = "\n> "


class Chat:
    """hob chat with a user at the terminal."""

    def __init__(self, home, *args, term="xterm", columns=40):
        self.pid, self.fd, self.side = fork_on_terminal(24, columns)
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would be inherited
            os.execve(str(HOB), [str(HOB), "chat", *args], {**home.env, "TERM": term})
        self.raw = ""
        self.until("> ")

    def until(self, mark):
        """What comes until @mark stands at its end, without escape sequences."""
        out = b""
        while True:
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", out.decode(errors="replace"))
            if text.endswith(mark):
                self.raw += out.decode(errors="replace")
                return text
            assert select.select([self.fd], [], [], 60)[0], out
            out += os.read(self.fd, 65536)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def say(self, keys):
        """Type a line, and read until the next prompt."""
        self.type(keys + "\r")
        return self.until(PROMPT)

    def end(self, keys="\x04"):
        self.type(keys)
        return end_of(self.pid, self.fd, self.side)[1]


@pytest.fixture
def warm(home):
    home.daemon()
    return home


def saved(path):
    return re.findall(r"^\[(user|assistant)\]\n(.*?)(?=\n\[(?:user|assistant)\]\n|\Z)", path.read_text(), re.M | re.S)


def test_a_conversation_is_what_the_daemon_would_have_kept(warm):
    """Turns sent whole and a session get the same answers, so the history that is sent is the right one."""
    lines = b"one two\nthree four\n"
    a = warm.hob("chat", "--temp", "0", "-n", "6", input=lines, check=0)
    b = warm.hob("chat", "--temp", "0", "-n", "6", "-S", "kept", input=lines, check=0)
    assert a.out and a.out == b.out
    shown = json.loads(warm.hob("sessions", "show", "kept", "--json", check=0).out)
    assert [m["content"] for m in shown["messages"] if m["role"] == "user"] == ["one two", "three four"]
    alone = warm.hob("--temp", "0", "-n", "6", "--no-stdin", "three four", check=0)
    assert not a.out.endswith(alone.out), "the second answer does not depend on the first turn"


def test_a_pipe_gets_answers_only(warm):
    r = warm.hob("chat", "-q", "--temp", "0", "-n", "4", input=b"hi\n\n   \n/help\n", check=0)
    assert r.out == warm.hob("--no-stdin", "-q", "--temp", "0", "-n", "4", "hi", check=0).out
    assert "/save FILE" in r.err and "> " not in r.err and "\x1b" not in r.out + r.err


def test_a_failure_sets_the_exit_status(home):
    r = home.hob("chat", input=b"hi\nthere\n", env={"HOB_SOCKET": str(home.root / "none")}, check=69)
    assert r.err.count("\n") == 1
    assert home.hob("chat", input=b"/nothing\n", check=2).err
    assert home.hob("chat", input=b"\xff\n").returncode == 1
    assert home.hob("chat", "why").returncode == 2
    assert home.hob("chat", "--jsonl").returncode == 2
    assert not home.socket.exists()


def test_lines_continue_after_a_backslash(warm):
    path = warm.root / "said.txt"
    warm.hob("chat", "-n", "2", input=f"one\\\ntwo\n/save {path}\n".encode(), check=0)
    assert saved(path)[0] == ("user", "one\ntwo\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert warm.hob("chat", input=f"/save {path}\n".encode()).returncode == 1


def test_undo_forgets_the_last_turn(warm):
    args = ("chat", "-q", "--temp", "0", "-n", "6")
    with_undo = warm.hob(*args, input=b"one\nnot this\n/undo\ntwo\n", check=0).out
    without = warm.hob(*args, input=b"one\ntwo\n", check=0).out
    dropped = warm.hob(*args, input=b"one\nnot this\n", check=0).out
    one = warm.hob(*args, input=b"one\n", check=0).out
    assert with_undo == dropped + without[len(one):]
    assert warm.hob("chat", input=b"/undo\n").returncode == 1
    assert "/undo cannot" in warm.hob("chat", "-S", "x", input=b"/undo\n").err


def test_commands_change_session_model_and_system(warm, tiny_spm):
    (warm.models / "other.gguf").symlink_to(tiny_spm)
    r = warm.hob("chat", "-n", "2", input=b"/session s1\nhi\n/session\nhi\n/sessions\n/model\n", check=0)
    assert "s1" in r.out and "the model is default" in r.err
    assert [s["name"] for s in json.loads(warm.hob("sessions", "--json").out)] == ["s1"]
    assert warm.hob("chat", input=b"/session a/b\n").returncode == 2
    args = ("-q", "--temp", "0", "-n", "6")
    assert warm.hob("chat", *args, input=b"/system be brief\nhi\n", check=0).out == \
        warm.hob(*args, "--no-stdin", "-s", "be brief", "hi", check=0).out
    assert warm.hob("chat", *args, input=b"/model other\nhi\n", check=0).out == \
        warm.hob(*args, "--no-stdin", "-m", "other", "hi", check=0).out
    warm.hob("stop", "-m", "other", check=0)


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_narrow_terminal(warm, term):
    chat = Chat(warm, "-n", "4", "--temp", "0", term=term)
    help_text = chat.say("/help")
    assert max(len(line) for line in help_text.splitlines()) <= 40
    assert "unknown command /nothing" in chat.say("/nothing")
    assert chat.say("hi")
    long_line = "word " * 30
    chat.say(long_line.strip())
    path = warm.root / "said.txt"
    chat.say(f"/save {path}")
    assert chat.end() == 0
    assert saved(path)[2] == ("user", long_line.strip() + "\n")


def test_keys_and_history(warm):
    path = warm.root / "said.txt"
    chat = Chat(warm, "-n", "2", "--temp", "0")
    chat.say("fürst")
    # Up: the line that was said can be changed.
    chat.say("\x1b[A zwei")
    chat.type("never sent\x03")
    chat.until(PROMPT)
    chat.say(f"/save {path}")
    assert chat.end() == 0
    assert [t for who, t in saved(path) if who == "user"] == ["fürst\n", "fürst zwei\n"]
    history = warm.root / "state" / "hob" / "chat-history"
    assert history.stat().st_mode & 0o777 == 0o600
    chat = Chat(warm, "-n", "2")
    assert "fürst zwei" in chat.say("\x1b[A\x1b[A")
    assert chat.end("/quit\r") == 0


def test_pasted_text_is_one_message(warm):
    path = warm.root / "said.txt"
    chat = Chat(warm, "-n", "2", columns=80)
    assert "\x1b[?2004h" in chat.raw
    chat.say("look: \x1b[200~int main(void)\r{\n\treturn ü;\x1b[31m\r}\x1b[201~ why?")
    chat.say(f"/save {path}")
    assert chat.end() == 0
    assert saved(path)[0] == ("user", "look: int main(void)\n{\n\treturn ü;31m\n} why?\n")


def test_ctrl_c_ends_the_answer_and_not_the_chat(warm):
    path = warm.root / "said.txt"
    chat = Chat(warm, "-n", "10000000", "--context", "rotate", "--ignore-eos", "--temp", "0", columns=200)
    for _ in range(2):
        chat.type("go on\r")
        out = b""
        while len(out) < 40:
            out += os.read(chat.fd, 4096)
        chat.type("\x03")
        chat.until(PROMPT)
    chat.say(f"/save {path}")
    assert chat.end() == 0
    assert [who for who, _ in saved(path)] == ["user", "assistant"] * 2


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_killed_at_the_prompt_it_leaves_the_terminal_as_it_was(home, how):
    c = Chat(home)
    assert not termios.tcgetattr(c.side)[3] & termios.ICANON
    os.kill(c.pid, how)
    rest, status = end_of(c.pid, c.fd, c.side)
    assert status == -how
    flags = termios.tcgetattr(c.side)[3]
    assert flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG
    assert rest.endswith(b"\x1b[?2004l")


def test_answers_go_where_standard_output_goes(warm):
    """A terminal to type at, a file for the answers: no prompt and no echo in it."""
    main, other = pty.openpty()
    with open(warm.root / "out", "wb") as out:
        p = subprocess.Popen([str(HOB), "chat", "-n", "3", "--temp", "0"], stdin=other, stdout=out, stderr=other,
                             env={**warm.env, "TERM": "xterm"})
    # A key that comes while no line is read is the terminal's, so each waits for its prompt.
    for keys in (b"hi\r", b"\x04"):
        out = b""
        while not out.endswith(b"> "):
            assert select.select([main], [], [], 60)[0], out
            out += os.read(main, 65536)
        os.write(main, keys)
    p.wait(60)
    assert p.returncode == 0
    os.close(main)
    os.close(other)
    assert (warm.root / "out").read_text() == warm.hob("-n", "3", "--temp", "0", "--no-stdin", "hi", check=0).out


def test_nobody_reads(warm):
    """What is typed after the reader has closed the pipe is not asked."""
    p = subprocess.Popen([HOB, "chat", "-q", "-n", "2", "-S", "alone"], env=warm.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(b"first\n")
    p.stdin.flush()
    assert p.stdout.read(1)
    p.stdout.close()
    p.stdin.write(b"second\n" * 20)
    p.stdin.close()
    assert p.wait(60) == 0 and p.stderr.read() == b""
    assert warm.status()["requests"] <= 2  # none, or one, that was on its way when the reader left


def test_it_comes_with_hob(home, tmp_path):
    alone = tmp_path / "bin" / "hob"
    alone.parent.mkdir()
    alone.write_bytes(HOB.read_bytes())
    alone.chmod(0o755)
    r = subprocess.run([str(alone), "chat"], env=home.env, capture_output=True, text=True)
    assert r.returncode == 1 and "hob-chat" in r.stderr
    linked = subprocess.run(["ldd", str(HOB)], capture_output=True, text=True).stdout
    assert "edit" not in linked
