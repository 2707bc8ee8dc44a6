# SPDX-License-Identifier: MIT
"""The official client of OpenAI before /v1/responses, unchanged."""
import os

import pytest
from responsesgate import NAMED, TOOLS, plain, thinker  # noqa: F401, two are fixtures
from test_calls import HOT, check


@pytest.fixture
def official(monkeypatch):
    """The class of the client; no proxy and no retries."""
    if folder := os.environ.get("HOB_TEST_CLIENTS"):
        monkeypatch.syspath_prepend(folder)
    module = pytest.importorskip("openai", reason="no Python package openai (HOB_TEST_CLIENTS)")
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return module


def client(module, gateway):
    return module.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", max_retries=0)


def typed(module, answer):
    """The answer has the types of the client, which itself does not compare them."""
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)
    return answer


def test_official_create_and_continue(official, gateway):
    c = client(official, gateway)
    first = typed(official, c.responses.create(model="default", input="tell me about rivers", max_output_tokens=16, instructions="be brief"))
    assert first.object == "response" and first.output_text and first.status == "incomplete"
    second = c.responses.create(model="default", input="more", previous_response_id=first.id, max_output_tokens=8, instructions="be brief")
    assert typed(official, second).usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 1
    got = typed(official, c.responses.retrieve(second.id))
    assert got == second
    items = list(c.responses.input_items.list(second.id, order="asc", limit=1))
    assert [type(i).__name__ for i in items] == ["ResponseInputMessageItem", "ResponseOutputMessage", "ResponseInputMessageItem"]
    c.responses.delete(second.id)
    with pytest.raises(official.NotFoundError):
        c.responses.retrieve(second.id)
    with pytest.raises(official.BadRequestError, match="background"):
        c.responses.create(model="default", input="x", background=True)
    with pytest.raises(official.UnprocessableEntityError, match="embeddings"):
        c.embeddings.create(model="default", input="x")
    assert c.models.retrieve("default").id == "default"


def test_official_stream(official, gateway):
    c = client(official, gateway)
    events = list(c.responses.create(model="default", input="Once", max_output_tokens=8, temperature=0, stream=True))
    assert events[0].type == "response.created" and events[-1].type == "response.incomplete"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == events[-1].response.output_text
    assert all(type(e).__name__ != "ResponseStreamEvent" and typed(official, e) for e in events)


def test_official_tools_and_types(official, plain):  # noqa: F811
    """parse() makes an object of the answer's text, and of the arguments of a call."""
    from pydantic import BaseModel

    class Weather(BaseModel):
        warm: bool
        days: int

    c = client(official, plain)
    more = {"model": "default", "temperature": 1, "extra_body": {"seed": 3}}
    said = c.responses.parse(input="?", text_format=Weather, max_output_tokens=80, **more).output_parsed
    assert isinstance(said, Weather)
    r = c.responses.create(input="?", tools=TOOLS, tool_choice=NAMED, max_output_tokens=300, parallel_tool_calls=False, **more)
    (call,) = typed(official, r).output
    check({"id": call.call_id, "name": call.name, "arguments": call.arguments})
    hot = {k: v for k, v in HOT.items() if k not in ("temperature", "top_p")}
    with c.responses.stream(model="default", input="?", tools=TOOLS[:1], tool_choice=NAMED, max_output_tokens=1000, temperature=HOT["temperature"],
                            top_p=HOT["top_p"], extra_body={**hot, "seed": 5}) as stream:
        arguments = "".join(e.delta for e in stream if e.type == "response.function_call_arguments.delta")
        (streamed,) = stream.get_final_response().output
    assert streamed.arguments == arguments and streamed.name == "weather"
    check({"id": streamed.call_id, "name": streamed.name, "arguments": arguments})
    answer = c.responses.create(input=[{"type": "function_call_output", "call_id": call.call_id, "output": "7"}], previous_response_id=r.id,
                                max_output_tokens=8, **more)
    whole = c.responses.create(input=[{"role": "user", "content": "?"}, *r.output, {"type": "function_call_output", "call_id": call.call_id,
                                                                                   "output": "7"}], max_output_tokens=8, **more)
    assert typed(official, answer).usage.input_tokens == whole.usage.input_tokens
    tool = official.pydantic_function_tool(Weather)["function"]
    parsed = c.responses.parse(input="?", tools=[{"type": "function", **tool}], tool_choice={"type": "function", "name": "Weather"},
                               max_output_tokens=200, **more)
    assert isinstance(parsed.output[0].parsed_arguments, (Weather, dict))


def test_official_thinking(official, thinker):  # noqa: F811
    c = client(official, thinker)
    more = {"model": "default", "input": "?", "max_output_tokens": 30, "reasoning": {"effort": "medium"}, "extra_body": {"think_budget": 6, "seed": 2}}
    r = typed(official, c.responses.create(**more))
    assert [o.type for o in r.output] == ["reasoning", "message"] and r.usage.output_tokens_details.reasoning_tokens >= 6
    events = [typed(official, e) for e in c.responses.create(stream=True, **more)]
    assert "".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == r.output[0].content[0].text
    back = c.responses.create(model="default", input=[{"role": "user", "content": "?"}, *r.output, {"role": "user", "content": "x"}],
                              max_output_tokens=4)
    assert typed(official, back).usage.input_tokens > r.usage.input_tokens
