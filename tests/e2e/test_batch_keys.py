# SPDX-License-Identifier: MIT
"""The keys of a line: what they set, what is refused by name, how they stand to the command line (options-copy.c)."""
import json

import pytest


def ask(home, *objects, argv=()):
    text = "".join(json.dumps(o) + "\n" for o in objects).encode()
    r = home.hob("batch", "--ordered", *argv, input=text)
    return [json.loads(line) for line in r.out.splitlines()]


def test_options_under_both_spellings(shared):
    a, b, c, d = ask(shared, *({"prompt": "x", "ignore-eos": True, "temp": 0, key: 3} for key in
                               ("max-tokens", "max_tokens", "max_completion_tokens")), {"prompt": "x", "temperature": "0", "max_tokens": 3, "ignore_eos": True})
    assert a["text"] == b["text"] == c["text"] == d["text"] and a["usage"]["completion"] == 3


@pytest.mark.parametrize("key, value, why", [
    ("session", "s", "'session' cannot be used in a line"), ("tool", "/bin/true", "'tool' cannot be used"), ("warm", True, "'warm' cannot"),
    ("n", 2, "'n' must be 1"), ("stream", True, "'stream' cannot be honoured"), ("model", "other", "'model' is 'other', but this batch uses 'default'"),
    ("tempp", 1, "unknown key 'tempp', nearest is 'temp'"), ("temp", "hot", "'temp': 'hot' is not a number"), ("temp", [1], "'temp' must be a string"),
    ("max_tokens", 0, "'max_tokens'"), ("stop", {}, "'stop' must be"), ("jobs", 3, "'jobs' cannot be used"), ("quiet", True, "'quiet' cannot"),
    ("think", "stderr", "'think'"), ("file", "/nowhere/x", "/nowhere/x"), ("special", True, "--special needs --raw"), ("prompt", 7, "'prompt' must be a string"),
    ("prompt", "", "'prompt' is empty"), ("messages", [], "cannot be used together"), ("response_format", {"type": "xml"}, "unknown type 'xml'"),
    ("stop", ["a", 1, {}], "'stop' must be a list of strings"), ("system", "a\0b", "'system' contains a NUL"), ("regex", "(", "regex"),
    ("logit_bias", {"5": "x"}, "'logit_bias'"), ("tool_choice", {"x": 1}, "'tool_choice'"), ("", 1, "unknown key ''")])
def test_what_cannot_be_honoured_is_named(shared, key, value, why):
    found, = ask(shared, {"id": 1, "prompt": "x", "max_tokens": 1, key: value})
    assert why in found["error"]["message"], found


def test_null_and_false_are_as_if_missing(shared):
    found, = ask(shared, {"prompt": "x", "max_tokens": 2, "session": None, "stream": False, "n": 1, "logprobs": False, "schema": None, "model": "default"})
    assert "error" not in found and "ids" not in found


def test_a_line_replaces_the_command_line(shared):
    argv = ("--regex", "[ab]{4}", "-n", "6")
    a, b, c = ask(shared, {"prompt": "x"}, {"prompt": "x", "choice": ["up", "down"]}, {"prompt": "x", "schema": {"type": "boolean"}}, argv=argv)
    assert set(a["text"]) <= set("ab") and len(a["text"]) == 4 and b["text"] in ("up", "down") and c["text"] in ("true", "false")


def test_constraints_of_openai(shared):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0}}, "required": ["a"], "additionalProperties": False}
    found, = ask(shared, {"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}})
    assert 0 <= json.loads(found["text"])["a"] <= 9


def test_files_and_logprobs(shared, tmp_path):
    (tmp_path / "f.txt").write_text("from a file")
    a, b = ask(shared, {"prompt": "end", "file": str(tmp_path / "f.txt"), "max_tokens": 3, "temp": 0, "logprobs": True, "ignore_eos": True},
               {"prompt": "from a file\n\nend", "max_tokens": 3, "temp": 0, "logprobs": True, "ignore_eos": True})
    assert len(a["ids"]) == len(a["logprobs"]) == 3 and (a["text"], a["ids"], a["logprobs"]) == (b["text"], b["ids"], b["logprobs"])


def test_stop_and_biases_of_the_line_replace(shared):
    argv = ("--stop", "a", "--logit-bias", "5=1", "--temp", "0", "-n", "20", "--raw")
    with_stop, without = ask(shared, {"prompt": "x"}, {"prompt": "x", "stop": [], "logit_bias": {}}, argv=argv)
    plain, = ask(shared, {"prompt": "x"}, argv=argv[4:])
    assert without["text"] == plain["text"] and "a" not in with_stop["text"]
