# SPDX-License-Identifier: MIT
"""The fields of /v1/responses that are refused, and those that change nothing."""
import json

import pytest
from responsesgate import BODY, PATH, post, stored, text_of


@pytest.mark.parametrize("body,says,param", [
    ({"background": True}, "not supported", "background"), ({"conversation": "c"}, "not supported", "conversation"),
    ({"prompt": {"id": "p"}}, "not supported", "prompt"), ({"top_logprobs": 2}, "needs 'include'", "top_logprobs"),
    ({"session": "s"}, "not supported", "session"), ({"max_tokens": 5}, "not supported", "max_tokens"), ({"n": 2}, "unknown field", "n"),
    ({"messages": []}, "unknown field", "messages"), ({"input": []}, "not empty", "input"), ({"input": ""}, "missing or empty", "input"),
    ({"input": 5}, "a string or a list", "input"), ({"input": ["x"]}, "not an object", "input[0]"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "'item_reference'", "input[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "fetches no URLs", "input[0].content[0]"),
    ({"input": [{"role": "robot", "content": "x"}]}, "'robot'", "input[0]"), ({"input": [{"content": "x"}]}, "no role", "input[0]"),
    ({"input": [{"role": "user", "content": "x", "name": "n"}]}, "'name'", "input[0]"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "n"}]}, "'arguments'", "input[0]"),
    ({"input": [{"type": "function_call_output", "output": "n"}]}, "id of the call", "input[0]"),
    ({"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "'encrypted_content'", "input[0]"),
    ({"instructions": ["x"]}, "a string", "instructions"), ({"store": 1}, "true or false", "store"), ({"metadata": {"a": 1}}, "strings", "metadata"),
    ({"include": [1]}, "a list of strings", "include"),
    ({"include": ["message.output_text.logprobs"], "top_logprobs": 21}, "0 to 20", "top_logprobs"), ({"truncation": "x"}, "auto or disabled", "truncation"),
    ({"text": {"verbosity": "low"}}, "medium", "text.verbosity"), ({"text": {"format": {"type": "xml"}}}, "json_schema", "text.format"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "'schema'", "text.format"), ({"text": {"x": 1}}, "'x'", "text"),
    ({"reasoning": {"effort": "high"}}, "none or medium", "reasoning.effort"), ({"reasoning": {"summary": "detailed"}}, "auto", "reasoning.summary"),
    ({"tools": [{"type": "web_search"}]}, "'web_search'", "tools[0]"), ({"tools": [{"type": "function", "name": "n", "x": 1}]}, "'x'", "tools[0]"),
    ({"tool_choice": {"type": "allowed_tools"}}, "auto, none, required", "tool_choice"), ({"tool_choice": "required"}, "'tools' is missing", "tool_choice"),
    ({"previous_response_id": 5}, "a string", "previous_response_id")])
def test_what_is_refused(gateway, body, says, param):
    gateway.post(PATH, {**BODY, **body}).error(404 if param == "" else 400, says, param)


def test_what_changes_nothing(gateway):
    plain = post(gateway, store=False)
    more = post(gateway, store=False, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"}, service_tier="auto", user="u",
                text={"verbosity": "medium"}, tool_choice="auto", parallel_tool_calls=True, max_tool_calls=3, background=False, tools=[],
                stream_options={"include_obfuscation": False}, safety_identifier="s", prompt_cache_retention="24h", previous_response_id=None)
    assert text_of(more) == text_of(plain)


@pytest.mark.parametrize("form", [{"type": "json_object"}, {"type": "json_schema", "name": "x", "strict": True, "schema": {
    "type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}}])
def test_a_format_of_the_text(gateway, form):
    r = post(gateway, text={"format": form}, max_output_tokens=60, temperature=1)
    said = json.loads(text_of(r))
    assert isinstance(said, dict) and (form["type"] == "json_object" or set(said) == {"a"}) and r["text"]["format"] == form
    assert stored(gateway, r) == r


def test_embeddings_are_not_there(gateway):
    r = gateway.post("/v1/embeddings", {"model": "default", "input": "x"})
    r.error(422, "embeddings")
