# SPDX-License-Identifier: MIT
"""hob log: what is in it, how it is listed, searched, shown, exported and removed (client/log/: record, record-json,
record-send, list, row, show, export, remove)."""
import json
import os
import subprocess
import sqlite3
import threading

import pytest
from conftest import HOB, BUILD
from terminal import on_terminal
from test_shell_tools import call, desk, done, text  # noqa: F401

if not (BUILD / "client" / "hob-log").exists():
    pytest.skip("hob was built without SQLite", allow_module_level=True)


def database(home):
    return home.root / "state" / "hob" / "log.db"


def turn_on(home):
    home.hob("log", "on", check=0)


def exported(home, *args):
    return [json.loads(line) for line in home.hob("log", "export", *args, check=0).out.splitlines()]


def said(home, prompt, answer="yes", *args, **kw):
    """A logged exchange with a scripted daemon."""
    home.script([text(answer), done()])
    return home.hob("--log", *args, prompt, **kw)


# --- what is in it ---

def test_nothing_is_logged_while_it_is_off(desk):
    desk.script([text("a"), done()], [text("a"), done()])
    desk.hob("secret", check=0)
    assert not (desk.root / "state").exists()
    turn_on(desk)
    desk.hob("--no-log", "secret", check=0)
    assert not database(desk).exists()
    assert desk.hob("log", check=0).out == ""


def test_an_exchange(desk):
    turn_on(desk)
    desk.script([text("thought", channel="thinking"), text("all "), text("good"), done("length")])
    desk.hob("-s", "be brief", "-n", 7, "--temp", "0.5", "--stop", "x", "how are", "you", input=b"piped", check=0)
    (x,) = exported(desk)
    assert x["prompt"] == "piped\n\nhow are you" and x["answer"] == "all good" and x["thinking"] == "thought"
    assert x["system"] == "be brief" and x["model"] == "default" and x["kind"] == "chat" and x["id"] == 1
    assert x["options"] == {"max_tokens": 7, "temperature": 0.5, "stop": ["x"]}
    assert x["reason"] == "length" and x["status"] == 0 and x["seed"] == 1
    assert x["usage"] == {"prompt": 3, "cached": 0, "completion": 2}
    assert "follows" not in x and x["conversation"] == x["uuid"] and "steps" not in x


def test_the_rounds_of_tools_are_one_exchange(desk):
    turn_on(desk)
    d = desk.script([call(0, "say", '{"a":"apple"}'), done("tool_calls")], [text("all good"), done()])
    desk.hob("--tool", desk.say, "--yes", "hi", env={"HELLO": "pear"}, check=0)
    (x,) = exported(desk)
    assert x["prompt"] == "hi" and x["answer"] == "all good" and x["rounds"] == 2
    assert x["uuid"] == d.requests[1]["uuid"]
    one, two = x["steps"]
    assert one["role"] == "assistant" and one["tool_calls"] == [{"id": "call_0", "name": "say", "arguments": '{"a":"apple"}'}]
    assert two["role"] == "tool" and "pear" in two["content"] and two["tool_call_id"] == "call_0"
    for word in ("apple", "pear", "say"):
        assert desk.hob("log", "search", word, check=0).out.startswith("@1 ")
    assert desk.hob("log", "search", "role").returncode == 1  # a key of the JSON is no text
    shown = desk.hob("log", "show", "1", check=0).out
    assert '[call say]\n{"a":"apple"}\n' in shown and "[tool say]\n" in shown and shown.index("[tool say]") < shown.index("[assistant]\nall good")


def test_printed_calls_are_logged(desk, tmp_path):
    (tmp_path / "t.json").write_text('[{"type": "function", "function": {"name": "f"}}]')
    desk.script([call(0, "f", '{"a":1}'), done("tool_calls")])
    desk.hob("--log", "--tools", tmp_path / "t.json", "hi", check=0)
    assert exported(desk)[0]["tool_calls"] == [{"id": "call_0", "name": "f", "arguments": '{"a":1}'}]


def test_failures_are_logged(desk):
    turn_on(desk)
    desk.script([text("half"), {"event": "error", "id": 1, "code": "EIO", "message": "the disk is gone"}])
    assert desk.hob("hi").returncode == 1
    desk.env["HOB_SOCKET"] = str(desk.root / "none")
    assert desk.hob("my prompt").returncode == 69
    a, b = exported(desk)
    assert a["answer"] == "half" and a["error"] == "the disk is gone" and a["status"] == 1
    assert b["prompt"] == "my prompt" and b["status"] == 69
    assert [line.split(None, 3)[-1] for line in desk.hob("log").out.splitlines()] == ["(failed) my prompt", "(failed) hi"]


def test_several_answers(desk):
    desk.script([text("first", index=0), text("second", index=1), done(index=0, more=True), done(index=1)])
    desk.hob("--log", "--n", 2, "hi", check=0)
    (x,) = exported(desk)
    assert x["answer"] == "first" and [o["answer"] for o in x["others"]] == ["second"]
    assert desk.hob("log", "search", "second", check=0).out


def test_a_chat_is_a_chain(desk):
    turn_on(desk)
    desk.script([text("one!"), done()], [text("two!"), done()], [text("three!"), done()])
    desk.hob("chat", input=b"one\ntwo\n/undo\nthree\n", check=0)
    a, b, c = exported(desk)
    assert [x["prompt"] for x in (a, b, c)] == ["one", "two", "three"] and "steps" not in c
    assert b["follows"] == a["uuid"] and c["follows"] == a["uuid"]
    assert {x["conversation"] for x in (a, b, c)} == {a["uuid"]}


def test_infill_raw_and_warm(home, coder):
    home.daemon("-m", coder)
    turn_on(home)
    home.hob("infill", "--at", 3, "-n", 2, input=b"abcdef", check=0)
    home.hob("--raw", "-n", 2, "just text", check=0)
    home.hob("--warm", "just text", check=0)
    a, b = exported(home)
    assert (a["kind"], a["prompt"], a["suffix"]) == ("infill", "abc", "def")
    assert (b["kind"], b["prompt"]) == ("raw", "just text")


# --- the commands ---

def test_search_takes_words_not_syntax(desk):
    said(desk, "why is the sky blue", "because of Rayleigh's scattering")
    said(desk, "naïve Größe", "a NEAR miss OR not")
    for words in (["sky"], ["SKY", "blue"], ["sky blue"], ["scatter"], ["rayleigh's"], ["blue", "because"]):
        assert desk.hob("log", "search", *words, check=0).out.startswith("@1 "), words
    for words in (["naive"], ["große"], ["OR", "NEAR"], ["not"]):
        assert desk.hob("log", "search", *words, check=0).out.startswith("@2 "), words
    for word in ('"', '""', "*", "a*b", "NEAR(", "(", ")", "AND", "col:x", "-x", "^sky", "sky AND", "a OR", "{prompt}:", "'", "\\", "+",
                 "\x01", "😀", "x" * 10000, " ", "", "prompt:sky", "sky NOT blue", '"sky', "sky^2", "?1"):
        r = desk.hob("log", "search", "--", word)
        assert r.returncode in (0, 1) and r.err in ("", "hob: no exchange has these words\n"), (word, r.err)
    r = subprocess.run([HOB, "log", "search", b"\xff"], env=desk.env, capture_output=True)
    assert r.returncode == 2 and r.stderr == b"hob: word 1 is not UTF-8\n"
    assert desk.hob("log", "search", "green").returncode == 1


def test_list_and_limits_of_lists(desk):
    for i in range(3):
        said(desk, f"prompt {i}\nwith lines")
    lines = desk.hob("log", check=0).out.splitlines()
    assert [line.split(None, 3)[0] for line in lines] == ["@3", "@2", "@1"] and lines[0].endswith("just now    prompt 2 with lines")
    assert desk.hob("log", "list", "-n", 1, check=0).out.count("\n") == 1
    assert [json.loads(x)["id"] for x in desk.hob("log", "--json", "-n", 2, check=0).out.splitlines()] == [3, 2]
    assert [json.loads(x)["id"] for x in desk.hob("log", "search", "--json", "prompt", "1", check=0).out.splitlines()] == [2]


def test_text_reaches_no_terminal_raw(desk):
    said(desk, "hi \x1b[31mred", "\x1b]0;t\x07 word")
    script = f"{HOB} log; {HOB} log search word; {HOB} log show 1"
    out, status = on_terminal(["sh", "-c", script], env={**desk.env, "TERM": "xterm", "NO_COLOR": "1"})
    assert status == 0 and b"red" in out and b"word" in out and b"\x1b" not in out and b"\x07" not in out


def test_remove(desk):
    for prompt in ("apple", "banana", "cherry"):
        said(desk, prompt, f"answer about {prompt}")
    r = desk.hob("log", "rm", "@2", "99", "1")
    assert r.returncode == 1 and r.err == "hob: no exchange @99 in the log\n"
    assert [x["id"] for x in exported(desk)] == [3]
    assert desk.hob("log", "search", "apple").returncode == 1
    raw = database(desk).read_bytes()
    assert b"cherry" in raw and b"apple" not in raw and b"banana" not in raw  # neither as text nor in the index
    said(desk, "date")
    assert [x["id"] for x in exported(desk)] == [3, 4]  # no number comes again
    desk.hob("log", "rm", "--all", check=0)
    assert exported(desk) == [] and b"cherry" not in database(desk).read_bytes()


@pytest.mark.parametrize("args, says", [
    (["show", "x"], "hob: 'x' is not an exchange of the log, such as @12\n"),
    (["show", "0"], "hob: '0' is not an exchange of the log, such as @12\n"),
    (["rm"], "hob: usage: hob log rm ID…, or hob log rm --all, which removes every exchange\n"),
    (["rm", "--all", "1"], "hob: --all cannot be used with an exchange\n"),
    (["search"], "hob: usage: hob log search [-n N] [--json] WORD…\n"),
    (["list", "--all"], "hob: --all cannot be used with 'log list'\n"),
    (["list", "-n", "x"], "hob: --limit: 'x' is not a whole number\n"),
    (["lost"], "hob: unknown subcommand 'lost' of 'log', use list, search, show, rm, export, on or off (to send it as a prompt: hob -- log lost …)\n"),
])
def test_wrong_usage(desk, args, says):
    r = desk.hob("log", *args)
    assert (r.returncode, r.err) == (2, says)


def test_what_is_not_there(desk):
    assert desk.hob("log", "show").err == "hob: the log is empty\n"
    said(desk, "hi")
    r = desk.hob("log", "show", 7)
    assert (r.returncode, r.err) == (1, "hob: no exchange @7 in the log\n")


def test_modes(desk):
    os.umask(0)
    try:
        said(desk, "hi", check=0)
        assert desk.hob("log", check=0).out
    finally:
        os.umask(0o022)
    assert database(desk).stat().st_mode & 0o777 == 0o600
    assert database(desk).parent.stat().st_mode & 0o777 == 0o700
    database(desk).chmod(0o644)
    said(desk, "again", check=0)
    assert len(exported(desk)) == 2 and database(desk).stat().st_mode & 0o777 == 0o600


def test_many_writers(home):
    home.daemon()
    turn_on(home)
    errors = []
    threads = [threading.Thread(target=lambda i=i: errors.extend(home.hob("-n", 2, f"prompt {i} {k}", check=0).err for k in range(5))) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not [e for e in errors if "log" in e], errors
    assert {x["prompt"] for x in exported(home)} == {f"prompt {i} {k}" for i in range(6) for k in range(5)}


# --- trouble ---

def one_warning(r, *parts):
    assert r.returncode == 0 and r.out == "yes\n", (r.returncode, r.out, r.err)
    assert r.err.startswith("hob: the exchange is not in the log: ") and r.err.count("\n") == 1, r.err
    assert all(p in r.err for p in parts), r.err


def test_a_damaged_database(desk):
    said(desk, "hi", check=0)
    desk.hob("log", check=0)
    path = database(desk)
    path.write_bytes(b"x" * 8192)
    one_warning(said(desk, "hi"), str(path), "is damaged; move it away")
    r = desk.hob("log")
    assert r.returncode == 1 and r.err == f"hob: {path} is damaged; move it away, and a new one begins with the next exchange\n"
    path.rename(path.with_suffix(".old"))
    assert said(desk, "hi").err == "" and len(exported(desk)) == 1


def test_a_database_of_a_newer_version_and_another_one(desk):
    said(desk, "hi", check=0)
    desk.hob("log", check=0)
    with sqlite3.connect(database(desk)) as c:
        c.execute("PRAGMA user_version=2")
    c.close()
    one_warning(said(desk, "hi"), "is from a newer hob (its version is 2, this hob reads 1)")
    assert desk.hob("log").returncode == 1
    with sqlite3.connect(database(desk)) as c:
        c.execute("PRAGMA application_id=5")
    c.close()
    one_warning(said(desk, "hi"), "is a database, but not the log of hob")


def test_a_held_database(desk):
    said(desk, "hi", check=0)
    desk.hob("log", check=0)
    c = sqlite3.connect(database(desk), isolation_level=None)
    c.execute("BEGIN EXCLUSIVE")
    r = said(desk, "hi")  # the writer keeps standard error until it gives up
    one_warning(r, "another program has held it for 10 seconds")
    c.close()


def test_no_space(desk):
    """The writer's files may not grow, as on a full disk."""
    said(desk, "hi", check=0)
    desk.hob("log", check=0)
    desk.script([text("yes"), done()])
    r = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 160; exec "$0" --log "$1"', HOB, "x" * 60000], env=desk.env,
                       capture_output=True, text=True, stdin=subprocess.DEVNULL)
    r.out, r.err = r.stdout, r.stderr
    one_warning(r, str(database(desk)))
    assert len(exported(desk)) == 1


def test_a_state_directory_that_cannot_be_made(desk):
    (desk.root / "state").write_text("a file")
    one_warning(said(desk, "hi"))


def test_not_installed(desk, tmp_path):
    here = tmp_path / "bin"
    here.mkdir()
    (here / "hob").write_bytes(HOB.read_bytes())
    (here / "hob").chmod(0o755)
    desk.script([text("yes"), done()])
    r = subprocess.run([here / "hob", "--log", "hi"], env=desk.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    r.out, r.err = r.stdout, r.stderr
    one_warning(r, "hob-log is not installed")
