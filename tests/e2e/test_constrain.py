# SPDX-License-Identifier: MIT
"""hobd constrain: grammars and regular expressions against texts, token by token."""
import json
import random
import re
import subprocess

import pytest
from conftest import HOBD

JSON = r'''
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
'''


def constrain(model, text, *options):
    r = subprocess.run([HOBD, "constrain", "-m", model, *options], input=text.encode(), capture_output=True, timeout=60)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def judge(model, text, *options):
    code, out, err = constrain(model, text, "--json", *options)
    assert not err and code in (0, 1, 2)
    return code, json.loads(out)


@pytest.fixture(params=["tiny", "tiny_spm"])
def vocabulary(request):
    return request.getfixturevalue(request.param)


def some_value(rng, depth):
    kind = rng.randrange(6 if depth else 4)
    if kind == 0:
        return rng.choice([True, False, None])
    if kind == 1:
        return rng.choice([0, -1, 12.5, 1e9, rng.randrange(10**9)])
    if kind < 4:
        return "".join(rng.choice('ab "\\\n\té日😀{}[],:') for _ in range(rng.randrange(12)))
    if kind == 4:
        return [some_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {some_value(rng, 0).__str__(): some_value(rng, depth - 1) for _ in range(rng.randrange(4))}


def test_a_json_grammar_judges_as_json_loads(vocabulary, tmp_path):
    """Documents that Python wrote, and the same with one character changed."""
    grammar = tmp_path / "json.gbnf"
    grammar.write_text(JSON)
    rng = random.Random(5)
    refused = 0
    for i in range(60):
        text = json.dumps({"x": some_value(rng, 4)}, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < .5)
        if i % 2:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice('"{}[],:x\\1 ') + text[at + rng.randrange(2):]
        try:
            valid = isinstance(json.loads(text), dict)
        except ValueError:
            valid = False
        code, got = judge(vocabulary, text, "--grammar", grammar)
        if valid and not got["accepted"]:  # the grammar allows less white space, and fewer digits
            assert re.search(r"  |\S |: *\s|\d{16}", text), text
        else:
            assert got["accepted"] == valid, text
        assert code == (0 if got["accepted"] else 1)
        assert got["error"] is None and 0 <= got["at"] <= len(text.encode()) and got["compile_us"] > 0
        assert got["accepted"] or got["at"] < len(text.encode()) or not valid
        assert set(got["mask_us"]) == {"p50", "p99", "max"} and got["tokens"] > 0
        refused += not valid
    assert refused > 5


@pytest.mark.parametrize("re_, text, said, code", [
    ("[0-9]{3}", "123", "accepted\n", 0),
    ("[0-9]{3}", "12", "incomplete\n", 1),
    ("[0-9]{3}", "12a", "refused at byte 2\n", 1),
    ("é+", "éé", "accepted\n", 0),
    ("é+", "éa", "refused at byte 2\n", 1),
    ("é+", "è", "refused at byte 1\n", 1),
    ("a|b*", "", "accepted\n", 0),
])
def test_the_answer_is_one_line(vocabulary, re_, text, said, code):
    assert constrain(vocabulary, text, "--regex", re_) == (code, said, "")
    got = judge(vocabulary, text, "--regex", re_)
    assert got[0] == code and got[1]["accepted"] == (code == 0)


@pytest.mark.parametrize("options, why", [
    (["--regex", r"(a)\1"], r"--regex: character 4: a back reference, \1, is not supported"),
    (["--regex", "[^\\x00-\\x{10FFFF}]"], "no text satisfies the constraint"),
    (["--grammar", "GRAMMAR"], "GRAMMAR: line 2, column 5: ']' does not belong here"),
])
def test_a_constraint_that_cannot_be_enforced_is_refused(tiny, tmp_path, options, why):
    grammar = tmp_path / "bad.gbnf"
    grammar.write_text('root ::= "a" |\n "b"]\n')
    options = [str(grammar) if o == "GRAMMAR" else o for o in options]
    why = why.replace("GRAMMAR", str(grammar))
    assert constrain(tiny, "a", *options) == (2, "", f"hobd constrain: {why}\n")
    code, got = judge(tiny, "a", *options)
    assert code == 2 and got["error"] == why and not got["accepted"]


@pytest.mark.parametrize("options", [[], ["--regex", "a", "--grammar", "b"], ["--regex", "a", "b"], ["--nothing"]])
def test_wrong_usage(tiny, options):
    code, out, err = constrain(tiny, "", *options)
    assert code == 2 and not out and err.startswith("hobd constrain: ")


def test_only_a_constraint_that_cannot_be_enforced_exits_with_2(tiny, tmp_path):
    assert constrain(tiny, "a", "--regex", "(")[0] == 2
    command = [HOBD, "constrain", "-m", tiny, "--regex", "a+"]
    with open("/dev/full", "wb") as full:
        assert subprocess.run(command, input=b"a", stdout=full, stderr=subprocess.DEVNULL).returncode == 1
    assert subprocess.run(command, input=b"\xff", capture_output=True).returncode == 1


def test_blank_lines_between_cases(tiny, tmp_path):
    case = json.dumps({"id": 1, "schema": {"type": "integer"}, "tests": [{"data": 1}, {"data": "x"}]})
    (tmp_path / "cases").write_text(f"\n{case}\n \n{case}\n\n")
    code, out, err = constrain(tiny, "", "--cases", str(tmp_path / "cases"))
    assert code == 0 and not err and [json.loads(line)["results"] for line in out.splitlines()] == [[True, False]] * 2
