# SPDX-License-Identifier: MIT
"""hob chat about files and about what is piped: users at terminals, and daemons that follow a script."""
from conftest import HOB
from test_chat import Chat, saved, warm  # noqa: F401  warm is a fixture
from test_shell_tools import User, desk, done, text  # noqa: F401  desk is a fixture

FAILED = [{"event": "error", "id": 1, "code": "EBUSY", "message": "queue full"}]


def said(request):
    """The contents of the messages, <image> for an image."""
    return ["".join(p.get("text", "<image>") for p in m["content"]) if isinstance(m["content"], list) else m["content"] for m in request["messages"]]


def chat(desk, command, *answers):
    """A user of a shell's command line, whose hob is at its prompt."""
    d = desk.script(*[a if isinstance(a, list) else [text(a), done()] for a in answers])
    d.features = ["generate", "media"]
    u = User(desk, argv=["sh", "-c", command.replace("hob", str(HOB))])
    u.requests = d.requests
    u.start = u.until("> ")
    return u


def test_a_pipe_is_what_the_chat_is_about(desk):
    u = chat(desk, "printf 'a {diff}\\n\\n' | hob chat", "first", "second", "third")
    assert "your first message begins with standard input (10 bytes); /file none removes it" in u.start
    u.type("/file\r")
    assert "file: standard input (10 bytes)" in u.until("> ")
    u.type("why?\r")
    u.until("first")
    u.until("> ")
    u.type("and?\r")
    u.until("second")
    u.until("> ")
    u.type("/undo\r")
    assert "removed: and?" in u.until("> ")
    u.type("/undo\r")
    assert "removed: why?" in u.until("> ")
    u.type("alone\r")
    u.until("third")
    u.until("> ")
    u.type("\x04")
    assert u.end() == 0
    assert [said(r) for r in u.requests] == [["a {diff}\n\nwhy?"], ["a {diff}\n\nwhy?", "first", "and?"], ["alone"]]
    history = (desk.root / "state" / "hob" / "chat-history").read_text()
    assert "why" in history and "diff" not in history


def test_an_empty_pipe_and_a_file_for_standard_input(desk):
    u = chat(desk, "hob chat </dev/null", "first")
    assert "standard input was empty" in u.start
    u.type("hi\r")
    u.until("first")
    u.until("> ")
    u.type("\x04")
    assert u.end() == 0 and said(u.requests[0]) == ["hi"]
    (desk.root / "f").write_text("text\n")
    u = chat(desk, f"hob chat -f {desk.root}/f <{desk.root}/f", "first")
    u.type("hi\r")
    u.until("first")
    u.until("> ")
    u.type("/quit\r")
    assert u.end() == 0 and said(u.requests[0]) == ["text\n\ntext\n\nhi"]


def test_without_a_terminal_for_both_the_pipe_has_the_lines(desk):
    u = User(desk, argv=["sh", "-c", f"printf 'one\\n/nothing\\n' | HOB_SOCKET={desk.root}/none {HOB} chat | cat"])
    assert u.end() == 0 and "standard input" not in u.seen and "no daemon" in u.seen


def test_a_binary_pipe_is_refused(desk):
    for data, message in (("'\\377'", "invalid UTF-8 at byte 0"), ("'a\\0b'", "a NUL at byte 1")):
        u = User(desk, argv=["sh", "-c", f"printf {data} | {HOB} chat"])
        assert u.end() == 1 and f"standard input{': ' if 'UTF' in message else ' is not text: '}{message}" in u.seen, u.seen


def test_files_of_the_command_line(desk, tmp_path):
    (tmp_path / "f").write_text("file\n")
    (tmp_path / "g").write_text("other")
    (tmp_path / "i.png").write_bytes(b"\x89PNG.")
    d = desk.script([text("yes"), done()], [text("yes"), done()])
    d.features = ["generate", "media"]
    r = desk.hob("chat", "-f", tmp_path / "f", "-a", tmp_path / "i.png", input=f"look\n/file {tmp_path}/g\nnow\n".encode(), check=0)
    assert r.out == "yes\nyes\n"
    first, second = d.requests
    assert said(first) == ["file\n\n<image>look"]
    assert said(second) == ["file\n\n<image>look", "yes", "other\n\nnow"]
    assert "No such file" in desk.hob("chat", "-f", tmp_path / "none", input=b"x\n", check=1).err
    (tmp_path / "empty").write_text("\n")
    assert "empty: the file is empty" in desk.hob("chat", input=f"/file {tmp_path}/empty\n".encode(), check=2).err
    r = desk.hob("chat", "-f", tmp_path / "f", input=b"/file none\n/file\n", check=0)
    assert "the next message has no files" in r.err


def test_a_message_without_an_answer_keeps_its_files(desk, tmp_path):
    (tmp_path / "f").write_text("file\n")
    (tmp_path / "i.png").write_bytes(b"\x89PNG.")
    u = chat(desk, f"hob chat -f {tmp_path}/f -a {tmp_path}/i.png", FAILED, "yes")
    u.type("first\r")
    assert "the next message has the files, images and sounds of this one" in u.until("\n> ")
    u.type("/file\r")
    assert f"file: {tmp_path}/f (5 bytes)\n" in u.until("\n> ")
    u.type("second\r")
    u.until("yes")
    u.until("> ")
    u.type("/file\r")
    assert "no files" in u.until("> ")
    u.type("\x04")
    assert u.end() == 0
    assert [said(r) for r in u.requests] == [["file\n\n<image>first"], ["file\n\n<image>second"]]


def test_a_new_model_continues_the_conversation_of_a_session(warm, tiny_spm):  # noqa: F811
    """The turns of the session, also of earlier chats, go to the new model; the session stays as it was."""
    (warm.models / "other.gguf").symlink_to(tiny_spm)
    args = ("-q", "--temp", "0", "-n", "6")
    warm.hob("-S", "s", *args, "--no-stdin", "-s", "be brief", "one", check=0)
    before = warm.hob("sessions", "show", "s", check=0).out
    path = warm.root / "said.txt"
    r = warm.hob("chat", "-S", "s", "--temp", "0", "-n", "6", input=f"/model other\ntwo\n/session\n".encode(), check=0)
    assert "continues without the session s" in r.err
    # The same as a chat that had these turns from the beginning, with the first answer of the first model.
    same = warm.hob("chat", *args, "-s", "be brief", input=f"one\n/model other\ntwo\n/save {path}\n".encode(), check=0)
    assert same.out.endswith(r.out) and r.out
    assert r.out != warm.hob(*args, "-m", "other", "-s", "be brief", "--no-stdin", "two", check=0).out
    assert warm.hob("sessions", "show", "s", check=0).out == before
    # A session without turns: its name is that of a session of the new model.
    r = warm.hob("chat", "-S", "new", *args, input=b"/model other\nhi\n", check=0)
    assert "new" in warm.hob("sessions", "-m", "other", check=0).out and "new" not in warm.hob("sessions", check=0).out
    warm.hob("stop", "-m", "other", check=0)


def test_ctrl_r_searches_the_history(warm):  # noqa: F811
    path = warm.root / "said.txt"
    c = Chat(warm, "-n", "2", "--temp", "0", columns=80)
    c.say("alpha one")
    c.say("beta two")
    c.type("\x12alp")
    c.until("p> ")  # the cursor is at the line that was found
    c.say("")
    c.say(f"/save {path}")
    assert c.end() == 0
    assert [t for who, t in saved(path) if who == "user"] == ["alpha one\n", "beta two\n", "alpha one\n"]
