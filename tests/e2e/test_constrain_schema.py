# SPDX-License-Identifier: MIT
"""hobd constrain: JSON Schemas against texts, token by token."""
import json

import pytest
from conftest import data
from test_constrain import constrain, judge

PERSON = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer", "minimum": 0},
                                           "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["name"]}


@pytest.fixture
def schema(tmp_path):
    def write(value):
        path = tmp_path / "schema.json"
        path.write_text(json.dumps(value))
        return path
    return write


@pytest.mark.parametrize("text, accepted", [
    ('{"name": "Ann", "age": 3}', True), ('{"name":"Ann","tags":["é","\\u00e9"],"more":null}', True), ('{"name": "ann"}', False),
    ('{"age": 3}', False), ('{"name": "Ann", "age": -3}', False), ('{"name": "Ann",', False), ('{\n  "name": "Ann"\n}', True)])
def test_a_text_is_judged_by_a_schema(tiny, schema, text, accepted):
    code, got = judge(tiny, text, "--schema", schema(PERSON))
    assert (code, got["accepted"], got["error"]) == (0 if accepted else 1, accepted, None)


def test_options_change_the_written_form(tiny, schema):
    path = schema(PERSON)
    assert judge(tiny, '{"age":1,"name":"A"}', "--schema", path)[0] == 1
    assert judge(tiny, '{"age":1,"name":"A"}', "--schema", path, "--any-order")[0] == 0
    assert judge(tiny, '{"name": "A"}', "--schema", path, "--compact")[0] == 1
    assert judge(tiny, '{"name":"A"}', "--schema", path, "--compact")[0] == 0
    assert constrain(tiny, "", "--regex", "a", "--compact")[0] == 2


def test_a_schema_that_cannot_be_enforced_is_refused_by_name(tiny, schema):
    path = schema({"properties": {"a": {"type": "string", "format": "regex"}}})
    why = 'format cannot be enforced at #/properties/a/format: the format "regex"'
    assert constrain(tiny, "{}", "--schema", path) == (2, "", f"hobd constrain: {path}: {why}\n")
    code, out, err = constrain(tiny, '{"a":"("}', "--schema", path, "--schema-lenient")
    assert (code, out) == (0, "accepted\n") and '#/properties/a/format: format: the format "regex"' in err


def test_a_shortcut_that_fails_changes_no_answer(tmp_path):
    """Masks look for expressions with fewer limits, to save time. Here that search is not decided."""
    schema = {"type": "string", "pattern": r"^\s{2,2}[一-鿿]+(?:[é-漢]+.){12,312}$", "maxLength": 31}
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"id": "a", "schema": schema, "tests": [{"valid": True, "data": "  漢" + "é漢" * 12}] * 3}) + "\n")
    code, out, err = constrain(data("vocab/gpt-2.gguf"), "", "--cases", cases)
    assert code == 0 and json.loads(out)["results"] == [True] * 3


def test_cases_give_a_line_each(tiny, tmp_path):
    cases = tmp_path / "cases.jsonl"
    lines = [{"id": "a", "schema": PERSON, "tests": [{"valid": True, "data": {"age": 1, "name": "Bob"}},
                                                     {"valid": False, "data": {"name": 1}}]},
             {"id": "b", "schema": {"pattern": "\\bx"}, "tests": [{"valid": True, "data": 1}]},
             {"id": "c", "schema": {"const": [1, "a b", {}]}, "tests": [{"valid": True, "data": [1, "a b", {}]}]}]
    cases.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = constrain(tiny, "", "--cases", cases)
    a, b, c = (json.loads(line) for line in out.splitlines())
    assert code == 0 and not err
    assert (a["id"], a["compiled"], a["error"], a["results"]) == ("a", True, None, [True, False]) and len(a["mask_us"]) == 3
    assert sum(a["mask_counts"]) > 0 and a["mask_counts"][-1] > 0 and 2 ** (len(a["mask_counts"]) / 2) > a["mask_us"][2]
    assert not b["compiled"] and "pattern cannot be enforced at #/pattern" in b["error"] and b["results"] == []
    assert c["results"] == [True]
    cases.write_text("{")
    assert constrain(tiny, "", "--cases", cases)[0] == 2
