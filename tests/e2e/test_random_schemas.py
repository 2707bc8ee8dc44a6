# SPDX-License-Identifier: MIT
"""Answers to random schemas at a high temperature, some cut by a limit: each parses and validates. HOB_RANDOM_SCHEMAS says how many
for each model. A schema may be refused: it has no value, cannot be enforced, or its shortest answer exceeds the limit."""
import json
import os
import random
from pathlib import Path

import pytest

RUNS = int(os.environ.get("HOB_RANDOM_SCHEMAS", "0"))
DEFAULT = Path(os.path.expanduser("~/.local/share/hob/models/default.gguf"))
PATTERNS = ["^[a-z]{2,5}$", "[0-9]+", "^(ab|cd)*$", "é|日", "^[^\\s]+ [^\\s]+$", "^.{3}$", "x.*y", "^\\d{3}-\\d{4}$", "[A-Z][a-z]+"]
NAMES = ["a", "b", "name", "größe", "x y", "items", "Id", 'q"uote']


def some_number(rng):
    return rng.choice([0, 1, -1, 3, 10, -25, 100, 0.5, -2.5, 1e3, 123456])


def string(rng, depth):
    s = {"type": "string"}
    kind = rng.randrange(5)
    if kind == 0:
        s["pattern"] = rng.choice(PATTERNS)
    elif kind == 1:
        s["format"] = rng.choice(["date", "ipv4", "uuid"])
    elif kind == 2:
        s["minLength"] = rng.randrange(4)
        s["maxLength"] = s["minLength"] + rng.randrange(12)
    elif kind == 3:
        s = {"enum": rng.sample(["red", "green", "", "naïve", 'a"b', "\n", "😀"], 3)}
    return s


def number(rng, depth):
    s = {"type": rng.choice(["integer", "integer", "number"])}
    low = some_number(rng)
    kind = rng.randrange(4)
    if kind == 0:
        s["minimum"] = low
    elif kind == 1:
        s.update(minimum=low, maximum=low + rng.randrange(1, 500))
    elif kind == 2:
        s["exclusiveMaximum"] = low
    elif s["type"] == "integer":
        s["multipleOf"] = rng.choice([1, 2, 5, 10])
    return s


def array(rng, depth):
    s = {"type": "array", "items": schema(rng, depth - 1)}
    if rng.random() < .3:
        s["prefixItems"] = [schema(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
    s["minItems"] = rng.randrange(3)
    if rng.random() < .7:
        s["maxItems"] = s["minItems"] + rng.randrange(3)
    if rng.random() < .15:
        return {"type": "array", "items": {"enum": [1, 2, "c"]}, "uniqueItems": True}
    return s


def object_(rng, depth):
    names = rng.sample(NAMES, rng.randrange(1, 5))
    s = {"type": "object", "properties": {n: schema(rng, depth - 1) for n in names},
         "required": [n for n in names if rng.random() < .6]}
    kind = rng.randrange(4)
    if kind == 0:
        s["additionalProperties"] = False
    elif kind == 1:
        s["additionalProperties"] = schema(rng, 0)
    elif kind == 2:
        s.update(patternProperties={"^k[0-9]$": schema(rng, 0)}, additionalProperties=False)
    if rng.random() < .2:
        s["maxProperties"] = max(len(s["required"]), rng.randrange(5))
    return s


def combined(rng, depth):
    kind = rng.randrange(6)
    if kind == 0:
        return {"anyOf": [schema(rng, depth - 1) for _ in range(rng.randrange(1, 4))]}
    if kind == 1:
        return {"oneOf": [string(rng, 0), number(rng, 0), {"type": "null"}]}
    if kind == 2:
        return {"allOf": [{"type": "string", "maxLength": 9}, {"pattern": rng.choice(PATTERNS)}]}
    if kind == 3:
        return {"type": ["string", "integer", "boolean"], "not": {"enum": ["", 0, 1, False]}}
    if kind == 4:
        return {"const": rng.choice([None, 17, "x", [1, {"a": "b"}], {"k": [True]}])}
    return {"if": {"type": "string"}, "then": {"minLength": 2, "maxLength": 6}, "else": {"type": ["boolean", "null"]}}


def schema(rng, depth):
    simple = [string, number, lambda r, d: {"type": r.choice(["boolean", "null"])}]
    deep = [array, object_, object_, combined]
    return rng.choice(simple + deep if depth > 0 else simple)(rng, depth)


def root(rng):
    s = object_(rng, 3) if rng.random() < .7 else schema(rng, 3)
    if rng.random() < .15:
        s = {"type": "object", "properties": {"v": s, "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
             "required": ["v", "next"], "additionalProperties": False}
    return s


@pytest.mark.parametrize("model", ["tiny", "default"])
def test_every_answer_is_valid(model, homes):
    jsonschema = pytest.importorskip("jsonschema", reason="no python3-jsonschema")
    if model == "default" and not DEFAULT.exists():
        pytest.skip("no default model")
    home = homes(DEFAULT if model == "default" else None)
    home.daemon()
    client = home.client()
    runs = RUNS or (80 if model == "tiny" else 6)
    answered, cut, bad, why = 0, 0, [], ([], [])
    for i in range(runs):
        rng = random.Random(i)
        s = root(rng)
        jsonschema.Draft202012Validator.check_schema(s)
        keys = {"max_tokens": rng.choice([12, 25, 60]) if i % 2 else 200, "temperature": 1.5, "seed": rng.randrange(2**32)}
        events = list(client.events(client.generate("Write an example.", constraint={"type": "schema", "text": json.dumps(s)}, **keys)))
        if events[-1]["event"] == "error":
            assert events[-1]["code"] == "EDOM", (i, s, events[-1])
            why["fit into" in events[-1]["message"]].append(events[-1]["message"])
            continue
        answered += 1
        text = "".join(e["text"] for e in events if e["event"] == "text")
        cut += events[-1]["usage"]["completion"] >= keys["max_tokens"] - 1
        try:
            value = json.loads(text)
            checker = jsonschema.FormatChecker(["date", "ipv4", "uuid"])
            jsonschema.Draft202012Validator(s, format_checker=checker).validate(value)
        except (ValueError, jsonschema.ValidationError) as e:
            bad.append((i, json.dumps(s), text, str(e)[:300]))
    print(f"{model}: {runs} schemas, {answered} answers, {cut} of them at their limit, {len(bad)} invalid; refused because of the "
          f"limit {len(why[1])}, otherwise {len(why[0])}")
    assert not bad, bad[:3]
    assert answered > runs / 2 and len(why[0]) < runs / 10, why
