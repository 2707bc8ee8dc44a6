# SPDX-License-Identifier: MIT
"""Constrained answers, from the options of hob to the text: each is a text that the constraint allows."""
import json
import re

import pytest
from conftest import data

DATE = "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]"
LIST = 'root ::= "[" item (", " item)* "]"\nitem ::= [a-z]+ | "(" root ")"\n'


def test_each_option(shared, tmp_path):
    grammar = tmp_path / "list.gbnf"
    grammar.write_text(LIST)
    for seed in range(4):
        hot = ("--temp", 1.5, "--seed", seed)
        assert shared.hob("--choice", "yes", "--choice", "no way", *hot, "well?", check=0).out in ("yes\n", "no way\n")
        assert re.fullmatch(DATE, shared.hob("--regex", DATE, *hot, "when?", check=0).out.rstrip("\n"))
        out = shared.hob("--grammar", grammar, "--on-limit", "close", "-n", 40, *hot, "what?", check=0).out
        assert re.fullmatch(r"[a-z()\[\], ]+\n", out) and out.count("[") == out.count("]") and out.count("(") == out.count(")")


def test_a_constraint_that_cannot_be_enforced_is_refused(shared, tmp_path):
    bad = tmp_path / "bad.gbnf"
    bad.write_text('root ::= "a" other\n')
    for args, says in ((("--regex", "(a)\\1"), "regex: "), (("--grammar", bad), "grammar: "),
                       (("--regex", "[a-z]{50}", "--on-limit", "close", "-n", 5), "does not fit into 5 tokens")):
        r = shared.hob(*args, "x")
        assert r.returncode == 2 and r.out == "" and says in r.err and r.err.count("\n") == 1, (args, r.out, r.err)
    r = shared.hob("--grammar", tmp_path / "none.gbnf", "x")
    assert r.returncode == 1 and "--grammar: " in r.err and "none.gbnf" in r.err


PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0},
          "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}


def test_schema(shared, tmp_path):
    """Every answer is valid, also where the limit ends it."""
    file = tmp_path / "person.json"
    file.write_text(json.dumps(PERSON))
    for seed in range(12):
        schema = file if seed % 2 else json.dumps(PERSON)
        out = shared.hob("--schema", schema, "--temp", 1.5, "--seed", seed, "-n", 60 + 20 * seed, "who?", check=0).out
        person = json.loads(out)
        assert {"name", "age"} <= set(person) <= {"name", "age", "tags"} and len(person["name"]) <= 12, out
        assert isinstance(person["age"], int) and person["age"] >= 0 and set(person.get("tags", [])) <= {"a", "b"}, out


def test_a_schema_that_cannot_be_enforced_is_refused(shared):
    for schema, says in (('{"properties": {"a": {"type": "array", "uniqueItems": true}}}', "#/properties/a/uniqueItems"),
                         ('{"type": "nothing"}', "#/type"), ('{"type":', "not JSON"), ("false", "schema: ")):
        r = shared.hob("--schema", schema, "x")
        assert r.returncode == 2 and r.out == "" and says in r.err and r.err.count("\n") == 1, (schema, r.out, r.err)


def test_over_the_socket(shared):
    c = shared.client()
    assert "constraint" in c.hello["features"]
    i = c.generate("x", constraint={"type": "regex", "text": "a(b|"})
    (e,) = c.events(i)
    assert e["event"] == "error" and e["code"] == "EDOM" and e["message"].startswith("regex: ")
    i = c.generate("x", constraint={"type": "choice", "choices": ["left", "right"]}, n=4, temperature=2.0, seed=3, logprobs=True)
    texts = [""] * 4
    more = True
    while more:
        for e in c.events(i):
            if e["event"] == "text":
                texts[e["index"]] += e["text"]
            more = e.get("more", False)
    assert all(t in ("left", "right") for t in texts), texts
    alone = c.generate("x", constraint={"type": "choice", "choices": ["left", "right"]}, temperature=2.0, seed=3, logprobs=True)
    assert "".join(e["text"] for e in c.events(alone) if e["event"] == "text") == texts[0]


def test_keys_of_the_file_give_way(home):
    conf = home.root / "config" / "hob" / "hob.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("stop = e\nignore-eos = yes\n")
    home.daemon()
    assert home.hob("--choice", "here", "x", check=0).out == "here\n"


def test_in_a_session_and_after_a_restart(home):
    d = home.daemon()
    first = home.ask("-S", "s", "--regex", "[a-z]{3,9};", "hello", n=40)
    assert re.fullmatch("[a-z]{3,9};", first.text)
    again = home.ask("--regex", "[a-z]{3,9};", "hello", n=40)
    d = home.restart(d)
    assert home.ask("--regex", "[a-z]{3,9};", "hello", n=40).bits == again.bits == first.bits
    assert re.fullmatch("[0-9]+!", home.ask("-c", "--regex", "[0-9]+!", "--on-limit", "close", "and?", n=20).text)
    d.terminate()


def test_in_a_chat(shared, tmp_path):
    out = shared.hob("chat", "--choice", "a", input=b"one\ntwo\n", check=0).out
    assert out.split() == ["a", "a"]
    r = shared.hob("chat", "--choice", "a", input=b"/schema {}\n")
    assert r.returncode == 2 and "another constraint" in r.err


@pytest.mark.parametrize("name", ["stories260K.gguf", "stories15M-Q8_0.gguf"])
def test_real_models(homes, name):
    """SentencePiece vocabularies: a form with forced text comes out whole, the same with and without other answers."""
    home = homes(data(f"models/{name}"))
    home.daemon()
    form = r'\{"name": "[A-Z][a-z]{1,8}", "age": [1-9][0-9]?\}'
    args = ("--raw", "--regex", form, "Once upon a time")
    alone = home.ask(*args, n=80)
    assert set(json.loads(alone.text)) == {"name", "age"}
    assert home.ask(*args, n=80).bits == alone.bits
    for seed in range(10):
        said = home.ask("--raw", "--regex", form, "--on-limit", "close", "Once", n=30, seed=seed, temp=1.5)
        assert re.fullmatch(form, said.text), said.text
