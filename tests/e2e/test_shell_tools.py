# SPDX-License-Identifier: MIT
"""hob --tool and --tools: real tools as children of hob, users at terminals, and daemons: one that follows a script, and hobd."""
import http.server
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import msgpack
import pytest
from conftest import HOB, TOP, Home, mktiny
from terminal import end_of, fork_on_terminal
from test_calls import SWITCH, make

EXAMPLES = TOP / "packaging" / "examples"
LISTED = [{"type": "function", "function": {"name": "say", "parameters": {"type": "object"}}}]


def text(s, **more):
    return {"event": "text", "id": 1, "text": s, **more}


def call(number, name, arguments, **more):
    return {"event": "tool_call", "id": 1, "call": number, "call_id": f"call_{number}", "name": name, "arguments": arguments, **more}


def done(reason="stop", **more):
    return {"event": "done", "id": 1, "reason": reason, "seed": 1, "usage": {"prompt": 3, "cached": 0, "completion": 2}, **more}


class Scripted:
    """A daemon that answers each connection with the next list of events, and keeps the requests."""

    features = ["generate", "tools", "thinking"]

    def __init__(self, path, answers):
        self.requests, self.answers = [], list(answers)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @staticmethod
    def read(f):
        n, = struct.unpack("<I", f.read(4))
        return msgpack.unpackb(f.read(n))

    def serve(self):
        while self.answers:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            with c, c.makefile("rwb") as f:
                assert self.read(f)["type"] == "hello"
                self.requests.append(self.read(f))
                hello = {"event": "hello", "version": 1, "features": self.features, "software": "script"}
                for e in [hello, *self.answers.pop(0)]:
                    body = msgpack.packb(e)
                    f.write(struct.pack("<I", len(body)) + body)
                f.flush()
                f.read()  # until hob closes

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # the thread that waits there would hold it
        self.listener.close()


@pytest.fixture
def desk(tmp_path):
    """A home with a tool `say`, and daemons by script: desk.script(answer…)."""
    home = Home(tmp_path)
    made = []

    def script(*answers):
        path = home.root / f"s{len(made)}"
        made.append(Scripted(path, answers))
        home.env["HOB_SOCKET"] = str(path)
        return made[-1]

    def tool(name, run):
        path = home.root / name
        path.write_text(f"#!/bin/sh\n[ \"$1\" = --describe ] && {{ echo '{{\"name\": \"{name}\"}}'; exit; }}\n{run}\n")
        path.chmod(0o755)
        return path

    home.script, home.tool = script, tool
    home.say = tool("say", "echo \"$HELLO\"; cat")
    yield home
    for d in made:
        d.close()
    home.stop()


def test_a_daemon_without_the_feature(desk, tmp_path):
    """An older daemon is named as such, whatever it says to the unknown keys."""
    (tmp_path / "t.json").write_text('[{"type": "function", "function": {"name": "f"}}]')
    unknown = [{"event": "error", "id": 1, "code": "EINVAL", "message": "generate: unknown key"}]
    for args, name in ((("--tools", tmp_path / "t.json"), "tools"), (("--tool", desk.say, "--yes"), "tools"),
                       (("--think", "off"), "thinking"), (("--think-budget", 3), "thinking"), (("--choice", "x"), "constraint")):
        desk.script(unknown).features = ["generate", *{"tools", "thinking", "constraint"} - {name}]
        r = desk.hob(*args, "--no-stdin", "?", check=2)
        assert f"the daemon has no feature '{name}', it is older than hob" in r.err and not r.out, r.err
    desk.script(unknown).features = ["generate"]
    assert "unknown key" in desk.hob("--no-stdin", "?", check=1).err


class User:
    """hob with a user at its terminal, which is its only one."""

    def __init__(self, home, *args, env=None, argv=None):
        argv = argv or [str(HOB), *map(str, args)]
        self.pid, self.fd, self.side = fork_on_terminal(24, 80)
        if self.pid == 0:
            os.execvpe(argv[0], argv, {**home.env, "TERM": "dumb", **(env or {})})
        self.at = 0
        self.seen = ""

    def until(self, mark):
        """What comes from the mark before until @mark."""
        begin = self.at
        while mark not in self.seen[begin:]:
            assert select.select([self.fd], [], [], 60)[0], (mark, self.seen)
            self.seen += os.read(self.fd, 65536).decode(errors="replace").replace("\r", "")
        self.at = self.seen.index(mark, begin) + len(mark)
        return self.seen[begin:self.at]

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def asked(self, keys):
        shown = self.until("e (edit): ")
        self.type(keys)
        return shown

    def end(self):
        """The rest, and the exit status."""
        rest, status = end_of(self.pid, self.fd, self.side)
        self.seen += rest.decode(errors="replace").replace("\r", "")
        os.close(self.fd)
        os.close(self.side)
        return status


def results(request):
    return [m["content"] for m in request["messages"] if m["role"] == "tool"]


def test_a_tool_runs_in_the_environment_of_the_user(desk):
    d = desk.script([call(0, "say", '{"a":1}'), done("tool_calls")], [text("all good"), done()])
    r = desk.hob("--tool", desk.say, "--yes", "hi", env={"HELLO": "my environment"}, check=0)
    assert r.out == "all good\n" and r.err == 'hob: say {"a": 1}\n'
    first, second = d.requests
    (listed,) = json.loads(first["tools"])
    assert listed["type"] == "function" and listed["function"]["name"] == "say"
    assert second["tools"] == first["tools"] and second["uuid"] != first["uuid"]
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][1]["tool_calls"] == [{"id": "call_0", "name": "say", "arguments": '{"a":1}'}]
    assert second["messages"][2] == {"role": "tool", "content": 'my environment\n{"a": 1}', "tool_call_id": "call_0", "name": "say"}


def test_a_cut_answer_runs_no_call(desk):
    """Neither a call that was cut nor a whole one before it."""
    d = desk.script([call(0, "say", '{"a":1}'), call(1, "say", '{"a'), done("length")])
    r = desk.hob("--tool", desk.say, "--yes", "hi", env={"HELLO": "it ran"})
    assert len(d.requests) == 1 and "it ran" not in r.out + r.err, (r.out, r.err)


def test_the_user_is_asked(desk):
    """y, n, e and a; what the model sees of each."""
    editor = desk.root / "editor"
    editor.write_text("#!/bin/sh\nprintf '{\"a\": 7}' >\"$1\"\n")
    editor.chmod(0o755)
    calls = [call(i, "say", f'{{"a":{i}}}') for i in range(5)]
    d = desk.script([*calls, done("tool_calls")], [call(0, "say", "{}"), done("tool_calls")], [text("end"), done()])
    user = User(desk, "--tool", desk.say, "hi", env={"EDITOR": str(editor)})
    assert 'say {"a": 0}\n' in user.asked("y\n")
    assert 'say {"a": 1}\n' in user.asked("n\n")
    assert 'say {"a": 2}\n' in user.asked("e\n")
    assert 'say {"a": 7}\n' in user.asked("y\n")
    assert 'say {"a": 3}\n' in user.asked("a\n")
    assert user.end() == 0, user.seen
    assert user.seen.endswith('hob: say {"a": 4}\nhob: say {}\nend\n'), user.seen
    assert results(d.requests[1]) == ['\n{"a": 0}', "error: the user refused this call",
                                      '[the user changed the arguments to {"a": 7}]\n\n{"a": 7}', '\n{"a": 3}', '\n{"a": 4}']


def test_text_of_the_model_reaches_no_terminal_raw(desk):
    name = "say"
    d = desk.script([text("\x1b[2Jx\n"), call(0, name, '{"a":"\\u001b[31m\\u009b\u202e"}'), call(1, "\x1b]0;t\x07", "{}"), done("tool_calls")],
                    [{"event": "warning", "id": 1, "message": "\x1b[1m"}, text("end"), done()])
    user = User(desk, "--tool", desk.say, "--think", "show", "hi")
    shown = user.asked("y\n")
    assert '{"a": "\\u001b[31m\\u009b\ufffd"}' in shown
    assert user.end() == 0 and "\x1b" not in user.seen and "\x07" not in user.seen, user.seen
    # The tool gets what was shown.
    assert json.loads(results(d.requests[1])[0])["a"] == "\x1b[31m\x9b\u202e"


def test_keys_that_were_typed_before_the_question_are_no_answer(desk):
    desk.script([call(0, "slow", "{}"), call(1, "slow", "{}"), done("tool_calls")], [text("end"), done()])
    go = desk.root / "go"
    slow = desk.tool("slow", f"echo begun >&2; while [ ! -e {go} ]; do sleep 0.01; done; echo made")
    slow.write_text(slow.read_text().replace(">&2", ">/dev/tty"))
    user = User(desk, "--tool", slow, "hi")
    user.asked("y\n")
    user.until("begun\n")
    user.type("y\ny\n")
    user.until("y\ny\n")  # what the terminal has echoed is in its queue
    go.touch()
    user.asked("n\n")
    assert user.end() == 0 and user.seen.endswith("end\n")


@pytest.mark.parametrize("how", ["question", "tool", "answer"])
def test_ctrl_c_ends_call_and_answer(desk, how):
    pid = desk.root / "pid"
    slow = desk.tool("slow", f"echo $$ >{pid}.new; mv {pid}.new {pid}; sleep 1000 & wait")
    answer = [text("one\n")] if how == "answer" else [call(0, "slow", "{}"), done("tool_calls")]
    desk.script(answer)
    user = User(desk, "--tool", slow, *(["--yes"] if how == "tool" else []), "hi")
    if how == "question":
        user.until("e (edit): ")
    elif how == "answer":
        user.until("one\n")
    else:
        while not pid.exists():
            time.sleep(0.01)
    user.type("\x03")
    assert user.end() == 130, user.seen
    if how == "tool":
        assert not os.path.exists(f"/proc/{pid.read_text().strip()}")


def test_a_signal_leaves_no_tool(desk):
    pid = desk.root / "pid"
    slow = desk.tool("slow", f"echo $$ >{pid}.new; mv {pid}.new {pid}; sleep 1000 & wait")
    desk.script([call(0, "slow", "{}"), done("tool_calls")])
    p = desk.popen([HOB, "--tool", slow, "--yes", "--no-stdin", "hi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not pid.exists():
        time.sleep(0.01)
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == 130
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")


def test_a_large_result_is_cut(desk):
    d = desk.script([call(0, "much", "{}"), done("tool_calls")], [text("end"), done()])
    desk.hob("--tool", desk.tool("much", "yes"), "--yes", "-q", "hi", check=0)
    (said,) = results(d.requests[1])
    assert said.startswith("y\ny\n") and said.endswith("\n[the output was cut after 262144 bytes]") and len(said) < 262144 + 50


def test_sessions(desk):
    d = desk.script([call(0, "say", "{}"), done("tool_calls", session="s")], [text("end"), done(session="s")])
    desk.hob("--tool", desk.say, "--yes", "-q", "-S", "s", "--fork", "t", "hi", check=0)
    first, second = d.requests
    assert first["session"] == "s" and first["fork"] == "t"
    assert second["session"] == "s" and "fork" not in second
    assert [m["role"] for m in second["messages"]] == ["tool"]


def test_a_chat(desk):
    d = desk.script([text("hm", channel="thinking"), call(0, "say", "{}"), done("tool_calls")], [text("it is"), done()], [text("two"), done()])
    path = desk.root / "said"
    lines = f"/tools\n/tools {desk.say}\n/tools\nwhat?\n/think show\n/think\nand?\n/save {path}\n/undo\n/tools {desk.say}\n"
    r = desk.hob("chat", "--yes", input=lines.encode(), check=1)
    assert r.out == "it is\ntwo\n", r.err
    assert "no tools; /tools PATH adds one" in r.err and f"say: {desk.say}" in r.err and "thinking: show" in r.err
    assert "removed: and?" in r.err and "another tool has the name say" in r.err
    assert [m["role"] for m in d.requests[2]["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert d.requests[2]["messages"][1]["thinking"] == "hm"
    assert path.read_text() == ("[user]\nwhat?\n\n[thinking]\nhm\n\n[call say]\n{}\n\n[tool say]\n\n{}\n\n"
                                "[assistant]\nit is\n\n[user]\nand?\n\n[assistant]\ntwo\n")
    r = desk.hob("chat", input=f"/tools {desk.say}\n".encode())
    assert r.returncode == 2 and "needs a yes at a terminal" in r.err
    r = desk.hob("chat", "--tool", desk.say, "--yes", input=b"/schema {}\n")
    assert r.returncode == 2 and "the chat has tools" in r.err
    assert "/think: must be" in desk.hob("chat", input=b"/think loud\n").err


def test_a_chat_on_a_terminal(desk):
    d = desk.script([call(0, "say", '{"a": 1}'), done("tool_calls")], [text("it is"), done()], [text("bye"), done()])
    user = User(desk, "chat", "--tool", desk.say, env={"TERM": "xterm"})
    user.until("> ")
    user.type("what?\r")
    assert 'say {"a": 1}' in user.asked("always\n")
    user.until("it is\n")
    user.until("> ")
    user.type("/tools\r")
    user.until("runs without a question")
    user.until("> ")
    user.type("more\r")
    user.until("bye\n")
    user.until("> ")
    user.type("\x04")
    assert user.end() == 0 and len(d.requests) == 3


def test_the_prompt_may_come_from_a_pipe(desk):
    """The question is asked on the terminal, and standard output has only the answer."""
    desk.script([call(0, "say", "{}"), done("tool_calls")], [text("end"), done()])
    line = f"echo text | {HOB} --tool {desk.say} 'what is it?' | tr a-z A-Z >{desk.root}/out"
    user = User(desk, argv=["sh", "-c", line])
    user.asked("y\n")
    assert user.end() == 0 and (desk.root / "out").read_text() == "END\n", user.seen


def test_a_list_of_tools(desk):
    path = desk.root / "tools.json"
    path.write_text(json.dumps(LISTED))
    d = desk.script([call(0, "say", '{"b":\n[1]}'), done("tool_calls")])
    r = desk.hob("--tools", path, "--tool-choice", "say", "hi", check=0)
    assert json.loads(r.out) == {"id": "call_0", "name": "say", "arguments": {"b": [1]}} and r.out.count("\n") == 1
    assert d.requests[0]["tool_choice"] == "named" and d.requests[0]["tool_name"] == "say"
    assert json.loads(d.requests[0]["tools"]) == LISTED
    r = desk.hob("--tools", path, "--tool-choice", "other", "hi")
    assert r.returncode == 2 and "no tool has the name other" in r.err


def test_a_daemon_without_tools_refuses(desk):
    """A daemon of before names the key that it does not know."""
    path = desk.root / "tools.json"
    path.write_text(json.dumps(LISTED))
    desk.script([{"event": "error", "id": 1, "code": "EINVAL", "message": "generate: unknown key 'tools'"}])
    r = desk.hob("--tools", path, "hi")
    assert r.returncode == 1 and r.out == "" and "'tools'" in r.err


def run(argv, arguments="", **env):
    return subprocess.run([str(a) for a in argv], input=arguments, env={**os.environ, **env}, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["weather", "grep-docs"])
def test_examples_describe_themselves(desk, name):
    described = json.loads(run([EXAMPLES / name, "--describe"]).stdout)
    assert described["name"] == name and described["parameters"]["required"]
    d = desk.script([text("end"), done()])
    desk.hob("--tool", EXAMPLES / name, "--yes", "hi", check=0)
    assert json.loads(d.requests[0]["tools"])[0]["function"] == described


def test_grep_docs(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.md").write_text("First\nSet the PORT here.\n")
    (tmp_path / "two.txt").write_text("port 80\n")
    (tmp_path / "link.txt").symlink_to("/etc/services")
    find = EXAMPLES / "grep-docs"
    assert run([find], '{"text": "port"}', DOCS=str(tmp_path)).stdout == "two.txt:1: port 80\na/one.md:2: Set the PORT here.\n"
    assert run([find], '{"text": "port", "file": "a/"}', DOCS=str(tmp_path)).stdout == "a/one.md:2: Set the PORT here.\n"
    assert run([find], '{"text": "p.rt"}', DOCS=str(tmp_path)).stdout == "no line matches\n"
    r = run([find], '{"text": "x"}', DOCS=str(tmp_path / "none"))
    assert r.returncode == 1 and "set DOCS" in r.stderr


def test_weather():
    if not shutil.which("curl") or not shutil.which("jq"):
        pytest.skip("no curl or no jq here")
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200 if len(asked) == 1 else 500)
            self.end_headers()
            self.wfile.write(b"Oslo: rain")

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {"WEATHER_URL": f"http://127.0.0.1:{server.server_port}", "no_proxy": "127.0.0.1"}
        r = run([EXAMPLES / "weather"], json.dumps({"city": "Os/lo?&../"}), **env)
        assert r.returncode == 0 and r.stdout == "Oslo: rain", r.stderr
        assert asked[0].startswith("/Os%2Flo%3F%26..%2F?format=")
        assert run([EXAMPLES / "weather"], '{"city": "x"}', **env).returncode != 0
        assert run([EXAMPLES / "weather"], "{}", **env).returncode != 0 and len(asked) == 2
        server.shutdown()


# --- with hobd and a small random model, whose calls are valid all the same ---

LOOKUP = {"name": "lookup", "description": "d", "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"], "additionalProperties": False}}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    home = make(tmp_path_factory, SWITCH)
    home.lookup = home.root / "lookup"
    home.lookup.write_text(f"#!/bin/sh\n[ \"$1\" = --describe ] && {{ cat <<'END'\n{json.dumps(LOOKUP)}\nEND\nexit; }}\ntee -a {home.root}/log\necho\n")
    home.lookup.chmod(0o755)
    yield home
    home.stop()


ONCE = ("--yes", "--tool-choice", "lookup", "--tool-rounds", "2", "--think-budget", "4", "-n", "120")


def test_calls_of_a_model(real):
    for seed in range(6):
        (real.root / "log").write_text("")
        r = real.hob("--tool", real.lookup, *ONCE, "--temp", "1.5", "--seed", seed, "--no-stdin", "what is it?", check=0)
        ran = (real.root / "log").read_text()
        first = json.loads(re.match(r"hob: lookup (.*)\n", r.err)[1])
        assert ran.startswith(json.dumps(first, ensure_ascii=False)) or json.loads(re.match(r"\{.*?\}", ran)[0]) == first
        assert len(first["city"]) <= 8 and first["unit"] in ("C", "F") and set(first) == {"city", "unit"}


def test_a_session_gets_the_answers_that_whole_conversations_get(real):
    args = ("--tool", real.lookup, *ONCE, "--temp", "0", "-q")
    whole = real.hob(*args, "--no-stdin", "what is it?", check=0).out
    assert whole and real.hob(*args, "--no-stdin", "-S", "one", "what is it?", check=0).out == whole
    shown = real.hob("sessions", "show", "one", check=0).out
    heads = re.findall(r"^\[(.*)\]$", shown, re.M)
    assert heads[:5] == ["user", "thinking", "call lookup", "tool lookup", "thinking"] and heads[-1] == "assistant", shown
    lines = b"what is it?\nand now?\n"
    path = real.root / "said"
    path.unlink(missing_ok=True)
    assert real.hob("chat", *args, "-S", "two", input=lines + f"/save {path}\n".encode(), check=0).out.startswith(whole)
    assert path.read_text().rstrip("\n") == real.hob("sessions", "show", "two", check=0).out.rstrip("\n")


def test_a_user_refuses_a_call_of_a_model(real):
    (real.root / "log").write_text("")
    user = User(real, "--tool", real.lookup, "--tool-choice", "lookup", "--tool-rounds", "1", "--think-budget", "4", "-n", "120", "what is it?")
    assert 'lookup {"city": ' in user.asked("n\n")
    assert user.end() == 0 and not (real.root / "log").read_text(), user.seen


def test_printed_calls_and_thinking(real):
    path = real.root / "tools.json"
    path.write_text(json.dumps([{"type": "function", "function": LOOKUP}]))
    r = real.hob("--tools", path, "--tool-choice", "lookup", "--think", "stderr", "--think-budget", "6", "--temp", "1.5", "--seed", "1",
                 "--no-stdin", "?", check=0)
    said = json.loads(r.out)
    assert said["name"] == "lookup" and said["arguments"]["unit"] in ("C", "F") and said["id"] and r.err.strip()
    hot = ("--temp", "1.5", "--seed", "1", "-n", "40", "--ignore-eos", "--no-stdin", "-q", "?")
    hidden = real.hob("--think-budget", "6", *hot, check=0)
    shown = real.hob("--think-budget", "6", "--think", "show", *hot, check=0)
    assert hidden.out and shown.out.endswith("\n\n" + hidden.out) and len(shown.out) > len(hidden.out) + 2
    events = [json.loads(line) for line in real.hob("--think", "off", "--jsonl", *hot, check=0).out.splitlines()]
    assert not [e for e in events if e.get("channel") == "thinking"] and events[-1]["text"]


def test_a_template_without_a_switch_is_refused(tmp_path_factory):
    home = make(tmp_path_factory, "")
    r = home.hob("--think", "off", "--no-stdin", "?")
    home.stop()
    assert r.returncode == 1 and r.out == "" and "cannot turn thinking off" in r.err


OFF_BY_DEFAULT = {
    "deepseek": "{% if thinking is defined and thinking %}<think>{% else %}</think>{% endif %}",
    "qwen": "{% if enable_thinking is defined and enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"}


@pytest.mark.parametrize("prompt", OFF_BY_DEFAULT.values(), ids=OFF_BY_DEFAULT)
def test_thinking_that_is_off_by_default_is_turned_on(tmp_path_factory, prompt):
    home = make(tmp_path_factory, prompt)
    hot = ("--temp", "1.5", "--seed", "1", "-n", "40", "--ignore-eos", "-q")
    once = (*hot, "--no-stdin", "?")
    default, off = home.hob(*once, check=0).out, home.hob("--think", "off", *once, check=0).out
    shown = home.hob("--think", "on", "--think-budget", "6", *once, check=0).out
    events = [json.loads(line) for line in home.hob("--think", "on", "--think-budget", "6", "--jsonl", *once, check=0).out.splitlines()]
    chat = home.hob("chat", *hot, "--think-budget", "6", input=b"/think on\n?\n", check=0).out
    home.stop()
    thought = "".join(e["text"] for e in events if e.get("channel") == "thinking")
    answer = events[-1]["text"]
    assert default == off and thought and answer
    assert shown.startswith(thought) and shown.rstrip("\n").endswith("\n\n" + answer.rstrip("\n")) and chat.startswith(thought)


def test_a_template_without_thinking_cannot_turn_it_on(tmp_path_factory):
    folder = tmp_path_factory.mktemp("silent")
    (folder / "t.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    home = Home(tmp_path_factory.mktemp("home"), mktiny(folder / "m.gguf", "--seed", 7, "--template", folder / "t.jinja"))
    d = home.daemon()
    r = home.hob("--think", "on", "--no-stdin", "?")
    off = home.hob("--think", "off", "-n", "2", "--no-stdin", "?")
    home.stop()
    assert d and off.returncode == 0
    assert r.returncode == 1 and r.out == "" and "the model's chat template has no thinking" in r.err


def test_options_of_schemas(real):
    schema = json.dumps({"type": "object", "properties": {"b": {"const": 1}, "a": {"type": "array", "uniqueItems": True, "items":
                         {"type": "integer"}, "maxItems": 2}}, "required": ["b", "a"], "additionalProperties": False})
    args = ("--schema", schema, "--think-budget", "0", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-n", "200", "--no-stdin", "?")
    assert real.hob(*args).returncode == 2
    seen = set()
    for seed in range(12):
        r = real.hob("--schema-lenient", "--any-order", "--compact", "--seed", seed, *args, check=0)
        assert "uniqueItems" in r.err and r.err.startswith("hob: ")
        assert not re.search(r"\s", r.out.rstrip("\n"))
        seen.add(next(iter(json.loads(r.out))))
    assert seen == {"a", "b"}


def test_the_examples_are_accepted(real):
    tools = [x for name in ("weather", "grep-docs") for x in ("--tool", EXAMPLES / name)]
    r = real.hob(*tools, "--yes", "--tool-choice", "required", "--tool-rounds", "1", "--think-budget", "2", "-n", "400", "--no-stdin", "?",
                 env={"WEATHER_URL": "http://127.0.0.1:1", "DOCS": str(real.root)}, check=0)
    assert "Traceback" not in r.err
