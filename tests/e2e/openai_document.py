# SPDX-License-Identifier: MIT
"""Answers of hob-http against the schemas of OpenAI's own OpenAPI document, if the test data or HOB_TEST_OPENAPI has it."""
import json
import os
from functools import lru_cache
from pathlib import Path

from conftest import DATA

PATH = Path(os.environ.get("HOB_TEST_OPENAPI", DATA / "openai-openapi.json"))

try:
    from jsonschema import Draft202012Validator
    REASON = None if PATH.exists() else f"no OpenAPI document of OpenAI at {PATH} (HOB_TEST_OPENAPI)"
except ImportError:
    REASON = "no Python module jsonschema (python3-jsonschema)"

OBJECTS = {"chat.completion": "CreateChatCompletionResponse", "chat.completion.chunk": "CreateChatCompletionStreamResponse",
           "text_completion": "CreateCompletionResponse", "model": "Model", "response": "Response"}
# Of "list": by the path.
LISTS = {"/v1/models": "ListModelsResponse", "/v1/embeddings": "CreateEmbeddingResponse"}
# Schemas whose objects may have no members but those of the document, and hob-http's own.
CLOSED = {"CreateChatCompletionResponse": (), "CreateChatCompletionStreamResponse": (), "CreateCompletionResponse": (), "CompletionUsage": (),
          "ChatCompletionResponseMessage": ("reasoning_content",), "ChatCompletionStreamResponseDelta": ("reasoning_content",),
          "ChatCompletionMessageToolCall": (), "ChatCompletionMessageToolCallChunk": (), "ChatCompletionTokenLogprob": (), "ErrorResponse": (),
          "Error": (), "Model": (), "ListModelsResponse": (), "CreateEmbeddingResponse": (), "Embedding": ()}


def with_null(v):
    """The document has "nullable" of OpenAPI 3.0 in places, which JSON Schema does not know."""
    if isinstance(v, list):
        return [with_null(x) for x in v]
    if not isinstance(v, dict):
        return v
    own = {k: with_null(x) for k, x in v.items() if k != "nullable"}
    return {"anyOf": [own, {"type": "null"}]} if v.get("nullable") is True else own


def close(v):
    """Permit no other members in the objects that @v describes; those behind a $ref have a line of their own in CLOSED."""
    if isinstance(v, list):
        for x in v:
            close(x)
    elif isinstance(v, dict):
        if isinstance(v.get("properties"), dict):
            v.setdefault("additionalProperties", False)
            close(list(v["properties"].values()))
        for key in ("items", "anyOf", "oneOf"):
            close(v.get(key))


@lru_cache(None)
def document():
    schemas = with_null(json.loads(PATH.read_text()))["components"]["schemas"]
    # The chunks of a text completion have the same schema as the whole; the document forgets the null before the last one.
    reason = schemas["CreateCompletionResponse"]["properties"]["choices"]["items"]["properties"]["finish_reason"]
    reason["enum"].append(None)
    reason["type"] = ["string", "null"]
    for name, own in CLOSED.items():
        schemas[name]["properties"].update({key: {"type": "string"} for key in own})
        close(schemas[name])
    return {"components": {"schemas": schemas}}


@lru_cache(None)
def validator(name):
    return Draft202012Validator({**document(), "$ref": f"#/components/schemas/{name}"})


@lru_cache(None)
def event_schemas():
    """The name of the schema of each event of a response, by the event's type."""
    schemas, found = document()["components"]["schemas"], {}
    for one in schemas["ResponseStreamEvent"]["anyOf"]:
        name = one["$ref"].rsplit("/", 1)[1]
        found[schemas[name]["properties"]["type"]["enum"][0]] = name
    return found


def schema_of(value, path=None):
    """The name of the schema for an object; None: it is none of OpenAI's."""
    if isinstance(value.get("error"), dict) and "type" not in value:
        return "ErrorResponse"
    if "deleted" in value:
        return None
    if value.get("object") == "list":
        return LISTS.get(path)
    if str(value.get("type", "")).startswith("response."):
        return event_schemas()[value["type"]]
    return OBJECTS.get(value.get("object"))


def check(value, path=None):
    """Assert that @value, an answer or an event of a stream, has the form of the document."""
    if REASON or not isinstance(value, dict):
        return
    name = schema_of(value, path)
    if not name:
        return
    errors = [f"{e.json_path}: {e.message[:300]}" for e in validator(name).iter_errors(value)]
    assert not errors, (name, errors, value)
