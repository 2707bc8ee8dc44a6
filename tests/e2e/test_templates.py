# SPDX-License-Identifier: MIT
"""hob -t and hob templates: files of a user, the system and hob, and what reaches the daemon."""
import stat

import pytest
from conftest import TOP
from test_shell_tools import User, desk, done, text  # noqa: F401  desk is a fixture

SHIPPED = ["commit", "explain", "review", "shell", "translate"]


@pytest.fixture
def templates(desk):
    """Makes a user's template; ask(…) is what the daemon got."""
    def make(name, body, where="config"):
        place = desk.root / where / "hob" / "templates"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.conf").write_text(body)
        return place / f"{name}.conf"

    def ask(*args, input=b"", check=0):
        d = desk.script([text("yes"), done()])
        r = desk.hob(*args, input=input, check=check)
        assert r.out == "yes\n"
        return d.requests[0]

    def refused(*args, input=b"", status=2):
        desk.script([text("yes"), done()])
        r = desk.hob(*args, input=input, check=status)
        assert not r.out and r.err.count("\n") == 1, r.err
        return r.err

    desk.make, desk.ask, desk.refused = make, ask, refused
    return desk


def said(request):
    return [(m["role"], m["content"]) for m in request["messages"]]


def test_the_prompt_and_its_variables(templates):
    templates.make("t", 'system = Be {tone}.\nparam = tone=brief\nprompt = """\n{1}: {input}\n  {{input}} {"a": 1}\n{to} {1}\n"""\n')
    got = said(templates.ask("-t", "t", "-p", "to=x y", "one", "two", "three", input=b"piped\n"))
    assert got == [("system", "Be brief."), ("user", 'one: piped\n\ntwo three\n  {input} {"a": 1}\nx y one')]
    got = said(templates.ask("--template=t", "-p", "to=a", "-p", "tone=loud", "-p", "to=b", "one", "w"))
    assert got == [("system", "Be loud."), ("user", 'one: w\n  {input} {"a": 1}\nb one')]


def test_text_of_the_user_is_never_a_template(templates):
    templates.make("t", "prompt = {1} {to} <{input}> {to}\n")
    got = said(templates.ask("-t", "t", "-p", "to={1}{input}{{1}}", "{to}", "{input}", input=b"{1} {to} {{x}} {nothing} \"\"\"\n"))
    assert got == [("user", '{to} {1}{input}{{1}} <{1} {to} {{x}} {nothing} """\n\n{input}> {1}{input}{{1}}')]


def test_without_input_in_the_prompt_the_text_comes_first(templates, tmp_path):
    templates.make("t", "prompt = Sum it up.\n")
    templates.make("o", "system = Be brief.\n")
    (tmp_path / "f").write_text("file\n")
    assert said(templates.ask("-t", "t", "-f", tmp_path / "f", "word", input=b"in")) == [("user", "in\n\nfile\n\nword\n\nSum it up.")]
    assert said(templates.ask("-t", "t")) == [("user", "Sum it up.")]
    assert said(templates.ask("-t", "o", "why?")) == [("system", "Be brief."), ("user", "why?")]
    assert "empty prompt" in templates.refused("-t", "o")


def test_images_stay_where_they_are(templates, tmp_path):
    (tmp_path / "i.png").write_bytes(b"\x89PNG.")
    (tmp_path / "f").write_text("file\n")
    templates.make("in", "prompt = Look: {input} What?\n")
    templates.make("before", "prompt = What?\n")
    for name, args, content in (("in", ["-a", tmp_path / "i.png", "word"], "Look: <image>word What?"),
                                ("in", ["-f", tmp_path / "f", "-a", tmp_path / "i.png"], "Look: file<image> What?"),
                                ("before", ["-a", tmp_path / "i.png"], "<image>What?"),
                                ("before", ["-f", tmp_path / "f", "-a", tmp_path / "i.png"], "file\n\n<image>What?")):
        d = templates.script([text("yes"), done()])
        d.features = ["generate", "media"]
        templates.hob("-t", name, *args, check=0)
        (m,) = d.requests[0]["messages"]
        assert "".join(p.get("text", "<image>") for p in m["content"]) == content


def test_options_of_a_template(templates, tmp_path):
    (tmp_path / "config" / "hob").mkdir(parents=True)
    (tmp_path / "config" / "hob" / "hob.conf").write_text("temp = 1\nsystem = from hob.conf\ntop-k = 7\n")
    path = templates.make("t", "temp = 0.5\nmax-tokens = 9\nseed = 3\nstop = a\nstop = b\nprompt = hi\n")
    got = templates.ask("-t", "t", "--seed", "4")
    assert (got["temperature"], got["max_tokens"], got["seed"], got["stop"], got["top_k"]) == (0.5, 9, 4, ["a", "b"], 7)
    assert said(got) == [("system", "from hob.conf"), ("user", "hi")]
    assert templates.ask("-t", "t", "--stop", "c")["stop"] == ["c"]
    # A relative path is one from the folder of the template; the command line's constraint replaces its own.
    (path.parent / "s.json").write_text('{"type": "string"}')
    templates.make("j", "schema = s.json\ncompact = yes\nprompt = hi\n")
    d = templates.script([text("yes"), done()], [text("yes"), done()])
    d.features = ["generate", "constraint"]
    templates.hob("-t", "j", check=0)
    templates.hob("-t", "j", "--choice", "x", check=0)
    first, second = (r["constraint"] for r in d.requests)
    assert (first["type"], first["text"]) == ("schema", '{"type": "string"}') and d.requests[0]["compact"] is True
    assert (second["type"], second["choices"]) == ("choice", ["x"]) and "compact" not in d.requests[1]


def test_a_template_offers_tools(templates):
    place = templates.make("t", "tool = ./mine\ntool-rounds = 2\nprompt = hi\n").parent
    (place / "mine").symlink_to(templates.say)
    d = templates.script([text("yes"), done()])
    templates.hob("-t", "t", "--yes", check=0)
    assert '"say"' in d.requests[0]["tools"]
    err = templates.refused("-t", "t")
    assert "needs a yes at a terminal" in err


def test_what_is_missing_or_wrong(templates):
    templates.make("mine", "prompt = {to} {2}\n")
    assert "no template has the name 'comit', nearest is 'commit' (see hob templates)" in templates.refused("-t", "comit", "x")
    assert "no template has the name 'zzzzzz' (see hob templates)" in templates.refused("-t", "zzzzzz", "x")
    assert "no template has the name '../mine'" in templates.refused("-t", "../mine", "x")
    assert "template 'mine': {to} has no value: give -p to=VALUE" in templates.refused("-t", "mine", "a", "b")
    assert "template 'mine': {2} has no value: it is word 2 of the command line, which has 1" in \
        templates.refused("-t", "mine", "-p", "to=x", "a")
    assert "template 'mine': -p: it has no variable {too}, nearest is {to}" in templates.refused("-t", "mine", "-p", "too=x", "a", "b")
    assert "--param: '1=x' is not NAME=VALUE" in templates.refused("-t", "mine", "-p", "1=x")
    assert "--param needs --template" in templates.refused("-p", "a=b", "x")
    assert "--template: must not be empty" in templates.refused("-t", "", "x")
    assert "--template cannot be used with 'status'" in templates.refused("status", "-t", "mine")
    assert "template 'commit' needs a text: standard input, a file or words" in templates.refused("-t", "commit")
    for body, message in (("promt = x\n", ":1: unknown key 'promt', nearest is 'prompt'"), ("\nyes = yes\n", ":2: 'yes' can be set only on the command line"),
                          ("prompt = \"\"\"\nx\n", ":1: the closing \"\"\" is missing"), ("temp = hot\n", ":1: temp: "), ("param = x\n", ":1: param: 'x' is not NAME=VALUE"),
                          ("prompt = {0}\n", "template 'bad': prompt: {0} is not a word"), ("prompt = x\nsystem = {input}\n", "template 'bad': system: {input} can be only in the prompt"),
                          ("schema = {}\nregex = x\nprompt = x\n", "--schema and --regex cannot be used together")):
        templates.make("bad", body)
        assert message in templates.refused("-t", "bad", "x"), body
    (templates.root / "config/hob/templates/dir.conf").mkdir()
    assert "is not a regular file" in templates.refused("-t", "dir", "x")


def test_the_first_folder_wins(templates):
    templates.make("commit", "prompt = service's\n", where="etc")
    templates.env["CONFIGURATION_DIRECTORY"] = str(templates.root / "etc" / "hob")
    assert said(templates.ask("-t", "commit"))[-1] == ("user", "service's")
    del templates.env["CONFIGURATION_DIRECTORY"]
    mine = templates.make("commit", "description = my own\nprompt = mine\n")
    assert said(templates.ask("-t", "commit"))[-1] == ("user", "mine")
    (mine.parent / ".hidden.conf").write_text("")
    (mine.parent / "other.txt").write_text("")
    (mine.parent / "broken.conf").write_text("what")
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in templates.hob("templates", check=0).out.splitlines()[1:]}
    assert sorted(rows) == sorted([*SHIPPED, "broken"])
    assert rows["commit"] == ["yours", "my own"] and rows["review"][0] == "hob" and "broken.conf:1: expected" in rows["broken"][1]
    r = templates.hob("templates", "show", "commit", check=0)
    assert r.out == mine.read_text() and str(mine) in r.err
    assert "use list, show or edit" in templates.refused("templates", "remove", "x")
    assert "usage: hob templates show NAME" in templates.refused("templates", "show")
    assert "nearest is 'commit'" in templates.refused("templates", "show", "comit")


def test_edit(templates):
    """The editor gets a copy of the template that is in use; what was not changed leaves no file."""
    path = templates.root / "config/hob/templates/commit.conf"
    editor = templates.tool("editor", 'cp "$1" "$HOME/before"; [ ! -f "$HOME/after" ] || cat "$HOME/after" >"$1"')

    def edit(name):
        u = User(templates, "templates", "edit", name, env={"VISUAL": str(editor)})
        status = u.end()
        return u.seen, status

    rest, status = edit("commit")
    assert status == 0 and not path.exists() and "nothing was changed" in rest
    assert (templates.root / "before").read_text() == (TOP / "client/templates/shipped/commit.conf").read_text()
    (templates.root / "after").write_text("prompt = mine\n")
    assert edit("commit")[1] == 0 and path.read_text() == "prompt = mine\n" and stat.S_IMODE(path.stat().st_mode) == 0o600
    (templates.root / "after").write_text("promt = mine\n")
    rest, status = edit("commit")
    assert status == 2 and path.read_text() == "promt = mine\n" and "the file is kept, but cannot be used: " in rest and "nearest is 'prompt'" in rest
    assert edit("new")[1] == 2 and "description = " in (templates.root / "before").read_text()
    assert "is not a name" in edit("../x")[0]
    templates.tool("editor", "false")
    assert edit("other")[1] == 1 and not (path.parent / "other.conf").exists()


def test_the_shipped_templates(templates):
    rows = templates.hob("templates", "list", check=0).out.splitlines()
    assert [line.split()[0] for line in rows[1:]] == SHIPPED and all(len(line.split()) > 4 for line in rows[1:])
    for name in SHIPPED:
        d = templates.script([text("yes"), done()])
        d.features = ["generate", "constraint"]
        templates.hob("-t", name, input=b"{input} text", check=0)
        assert "{input} text" in d.requests[0]["messages"][-1]["content"], name
    assert "into French:" in said(templates.ask("-t", "translate", "-p", "to=French", "hi"))[1][1]
