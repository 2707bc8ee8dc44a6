# SPDX-License-Identifier: MIT
"""hob -c @ID: continues from an exchange of the log (client/log/: resume, earlier, conversation)."""
import pytest
from conftest import BUILD
from test_log import exported, said, turn_on
from test_shell_tools import call, desk, done, text  # noqa: F401

if not (BUILD / "client" / "hob-log").exists():
    pytest.skip("hob was built without SQLite", allow_module_level=True)


def roles(request):
    return [(m["role"], m["content"]) for m in request["messages"]]


def test_messages_are_sent_again(desk):
    turn_on(desk)
    desk.script([text("B1"), done()])
    desk.hob("-s", "sys", "-m", "other", "A1", check=0)
    d = desk.script([text("B2"), done()], [text("B3"), done()], [text("B4"), done()])
    desk.hob("-c", "@1", "A2", check=0)
    assert roles(d.requests[0]) == [("system", "sys"), ("user", "A1"), ("assistant", "B1"), ("user", "A2")]
    desk.hob("--continue=2", "-s", "new", "A3", check=0)
    assert roles(d.requests[1]) == [("system", "new"), ("user", "A1"), ("assistant", "B1"), ("user", "A2"), ("assistant", "B2"), ("user", "A3")]
    # Beside it: from the first one again.
    desk.hob("--continue", "@1", "-v", "A4", check=0)
    assert roles(d.requests[2])[-1] == ("user", "A4") and len(d.requests[2]["messages"]) == 4
    xs = exported(desk)
    assert [x["prompt"] for x in xs] == ["A1", "A2", "A3", "A4"] and {x["model"] for x in xs} == {"other"}
    assert [x.get("follows") for x in xs] == [None, xs[0]["uuid"], xs[1]["uuid"], xs[0]["uuid"]]
    assert {x["conversation"] for x in xs} == {xs[0]["uuid"]}
    desk.hob("log", "rm", 2, check=0)
    r = desk.hob("-c", "@3", "A5")
    assert (r.returncode, r.err) == (1, "hob: exchange @3 follows one that was removed from the log\n")


def test_calls_and_results_are_sent_again(desk):
    desk.script([call(0, "say", '{"a":1}'), done("tool_calls")], [text("good"), done()])
    desk.hob("--log", "--tool", desk.say, "--yes", "hi", env={"HELLO": "x"}, check=0)
    d = desk.script([text("B2"), done()])
    desk.hob("-c", "@1", "more", check=0)
    sent = d.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["tool_calls"] == [{"id": "call_0", "name": "say", "arguments": '{"a":1}'}]
    assert sent[2] == {"role": "tool", "content": 'x\n{"a": 1}', "tool_call_id": "call_0", "name": "say"}


def test_only_the_word_behind_it_is_a_number(desk):
    """hob -c 5 more, and a mention of somebody, are prompts of the last session, as before."""
    for args, prompt in ((["-c", "5", "more"], "5 more"), (["-c", "-q", "@1"], "@1"), (["-c", "--", "@1"], "@1"), (["-c", "@1st"], "@1st")):
        d = desk.script([text("yes"), done(session="s")])
        desk.hob(*args, check=0)
        assert d.requests[0]["continue"] is True and roles(d.requests[0]) == [("user", prompt)]


@pytest.mark.parametrize("args, status, says", [
    (["-c", "@9", "x"], 1, "hob: no exchange @9 in the log\n"),
    (["--continue=x", "x"], 2, "hob: --continue: 'x' is not an exchange of the log, such as @12\n"),
    (["-c", "@99999999999999999999", "x"], 2, "hob: --continue: '@99999999999999999999' is not an exchange of the log, such as @12\n"),
    (["-c", "@1", "--fork", "f", "x"], 2, "hob: --fork cannot be used with an exchange of the log\n"),
    (["-c", "@1", "-S", "f", "x"], 2, "hob: --session and --continue cannot be used together\n"),
    (["-c", "@1", "--raw", "x"], 2, "hob: exchange @1 is a conversation; leave out --raw\n"),
])
def test_what_cannot_be(desk, args, status, says):
    said(desk, "hi", check=0)
    r = desk.hob(*args)
    assert (r.returncode, r.err) == (status, says)


def test_without_a_log(desk):
    r = desk.hob("-c", "@1", "x")
    assert (r.returncode, r.err) == (1, "hob: the log is empty\n")


def test_same_bits_as_a_session_and_cached(home):
    home.daemon()
    turn_on(home)
    home.ask("--temp", "0", "first words of a conversation", n=8)
    a = home.ask("-c", "@1", "then more", n=8)
    home.ask("-S", "s", "--no-log", "--temp", "0", "first words of a conversation", n=8)
    b = home.ask("-S", "s", "--no-log", "then more", n=8)
    assert a.bits == b.bits and a.cached > 0


def test_raw_goes_on_as_text(home):
    home.daemon()
    turn_on(home)
    one = home.ask("--raw", "Once upon", n=4, input=None)
    two = home.ask("--raw", "-c", "@1", " a time", n=4, input=None)
    assert two.bits == home.ask("--raw", "--no-log", "Once upon" + one.text + " a time", n=4, input=None).bits
    r = home.hob("-c", "@1", "x")
    assert (r.returncode, r.err) == (2, "hob: exchange @1 is raw text; add --raw\n")
    assert exported(home)[1]["prompt"] == " a time"


def test_a_session_goes_on(home):
    home.daemon()
    turn_on(home)
    home.ask("-S", "s", "one", n=4)
    home.ask("-S", "s", "two", n=4)
    assert home.ask("-c", "@2", "three", n=4).done["session"] == "s"
    # Also when the daemon has exited: it starts again.
    home.hob("stop", check=0)
    assert home.ask("-c", "@3", "four", n=4).done["session"] == "s"
    # From an earlier turn: beside the session, with the same bits as in a fork of that time.
    r = home.hob("-c", "@1", "-n", 4, "--temp", 0, "--seed", 1, "two again")
    assert r.returncode == 0 and "the session 's' has later turns and stays as it is" in r.err
    xs = exported(home)
    assert "session" not in xs[4] and [m["content"] for m in xs[4]["earlier"]] == ["one", xs[0]["answer"]]
    # That one has all of its conversation, also without the session.
    home.hob("sessions", "rm", "s", check=0)
    assert home.hob("-c", "@5", "-n", 4, "and more").returncode == 0
    r = home.hob("-c", "@2", "x")
    assert r.returncode == 1 and "exchange @2" in r.err and r.err.count("\n") <= 2


def test_infill_cannot(home, coder):
    home.daemon("-m", coder)
    home.hob("infill", "--log", "--at", 3, "-n", 2, input=b"abcdef", check=0)
    r = home.hob("-c", "@1", "x")
    assert (r.returncode, r.err) == (1, "hob: exchange @1 is an infill, which cannot be continued\n")
