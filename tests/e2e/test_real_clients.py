# SPDX-License-Identifier: MIT
"""Clients that people have, unchanged, before hob-http. Each answer has the types of the official client, and no member more.

The packages come from the directory HOB_TEST_CLIENTS, or from where Python finds them anyway (see tests/run.sh)."""
import json
import os
import shutil
import subprocess
import sys
from typing import Literal

import pytest
from httpgate import Gateway
from test_calls import TOOLS, WEATHER, check, make

FOLDER = os.environ.get("HOB_TEST_CLIENTS")
if FOLDER:
    sys.path.insert(0, FOLDER)
USER = [{"role": "user", "content": "Once upon a time"}]
NAMED = {"type": "function", "function": {"name": "weather"}}
# Members of hob-http in answers of OpenAI's API, one that OpenAI's server has but not its types, and those that the clients add themselves.
OWN = {"reasoning_content", "store", "parsed", "parsed_arguments", "parsed_output"}


def need(name):
    """The module @name; skips the test without it."""
    return pytest.importorskip(name, reason=f"no Python package {name} (HOB_TEST_CLIENTS)")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No proxy and no network: a client asks only hob-http."""
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    """hob-http before a model that can call tools."""
    h = make(tmp_path_factory, "")
    yield Gateway(h)
    h.stop()


def url(gateway):
    return f"http://127.0.0.1:{gateway.port}"


def openai_at(gateway):
    return need("openai").OpenAI(base_url=url(gateway) + "/v1", api_key="none", max_retries=0)


def anthropic_at(gateway):
    return need("anthropic").Anthropic(base_url=url(gateway), api_key="none", max_retries=0)


def members_beyond(model, at=""):
    """The names of members of a pydantic model that its type does not have."""
    if isinstance(model, (list, tuple)):
        return [n for m in model for n in members_beyond(m, at)]
    if not hasattr(model, "model_fields_set"):
        return []
    found = [f"{at}.{name}" for name in model.model_extra or {} if name not in OWN]
    return found + [n for name in type(model).model_fields for n in members_beyond(getattr(model, name), f"{at}.{name}")]


def strict(answer, kind=None):
    """Parse what the server sent again, with all types checked; the clients themselves accept almost anything."""
    parsed = (kind or type(answer)).model_validate_json(answer.to_json(exclude_unset=True), strict=True)
    assert not members_beyond(parsed), (members_beyond(parsed), answer)
    return answer


def test_openai_chat(gateway):
    client = openai_at(gateway)
    r = strict(client.chat.completions.create(model="default", messages=USER, max_tokens=8, temperature=0, user="u", store=False,
                                              metadata={"a": "b"}, n=2, stop=["zzz"], seed=1, response_format={"type": "text"}))
    assert len(r.choices) == 2 and r.choices[0].message.content and r.choices[0].finish_reason == "length"
    assert r.usage.completion_tokens == 16 and r.usage.prompt_tokens_details.cached_tokens >= 0 and r._request_id is None
    chunks = [strict(c) for c in client.chat.completions.create(model="default", messages=USER, max_tokens=8, temperature=0, stream=True,
                                                                stream_options={"include_usage": True})]
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == r.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == 8 and chunks[-2].choices[0].finish_reason == "length"
    with client.chat.completions.stream(model="default", messages=USER, max_tokens=8, temperature=0) as s:
        with pytest.raises(need("openai").LengthFinishReasonError) as e:
            s.get_final_completion()
    assert e.value.completion.choices[0].message.content == r.choices[0].message.content


def test_openai_errors(gateway):
    """Each status is the exception that programs catch."""
    openai, client = need("openai"), openai_at(gateway)
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="default", messages=[])
    assert e.value.param == "messages" and "messages" in e.value.message and e.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="default", messages=[{"role": "user", "content": "word " * 2000}])
    assert e.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="nothing", messages=USER)
    assert e.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as e:
        client.models.retrieve("nothing")
    assert e.value.code == "model_not_found"
    with pytest.raises(openai.UnprocessableEntityError) as e:
        client.embeddings.create(model="default", input="x")
    assert e.value.status_code == 422 and e.value.code == "not_supported"


def test_openai_probabilities(gateway):
    client = openai_at(gateway)
    more = {"model": "default", "max_tokens": 8, "temperature": 0}
    chat = strict(client.chat.completions.create(messages=USER, logprobs=True, top_logprobs=2, **more)).choices[0]
    assert all(len(t.top_logprobs) == 2 and t.top_logprobs[0].token == t.token for t in chat.logprobs.content)
    text = strict(client.completions.create(prompt="Once upon a time", logprobs=1, **more)).choices[0]
    assert "".join(text.logprobs.tokens) == text.text and len(text.logprobs.top_logprobs) == 8


def test_openai_responses(gateway):
    """A response, one that continues it, and both retrieved and removed."""
    openai, client = need("openai"), openai_at(gateway)
    more = {"model": "default", "max_output_tokens": 8, "temperature": 0}
    first = strict(client.responses.create(input="Once upon a time", **more))
    assert first.output_text and first.status == "incomplete" and first.incomplete_details.reason == "max_output_tokens"
    events = [strict(e) for e in client.responses.create(input="And then?", previous_response_id=first.id, stream=True, **more)]
    second = events[-1].response
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == second.output_text
    assert second.usage.input_tokens > first.usage.total_tokens and second.usage.input_tokens_details.cached_tokens > 0
    assert client.responses.retrieve(second.id) == second
    for r in (first, second):
        client.responses.delete(r.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(r.id)


def test_openai_completions_and_models(gateway):
    client = openai_at(gateway)
    r = strict(client.completions.create(model="default", prompt="Once upon a time", max_tokens=8, temperature=0))
    chunks = [strict(c, need("openai").types.Completion) if c.choices[0].finish_reason else c
              for c in client.completions.create(model="default", prompt="Once upon a time", max_tokens=8, temperature=0, stream=True)]
    assert "".join(c.choices[0].text for c in chunks) == r.choices[0].text
    assert [strict(m).id for m in client.models.list()] == ["default"]
    assert strict(client.models.retrieve("default")) == next(iter(client.models.list()))


def test_a_model_of_pydantic(gateway):
    """A pydantic model as the form of the answer."""
    pydantic, client = need("pydantic"), openai_at(gateway)

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=6)
        age: int = pydantic.Field(ge=0, le=120)
        happy: bool


    class Mood(pydantic.BaseModel):  # Anthropic's client removes limits from the schema
        happy: bool
        color: Literal["red", "green"]

    message = anthropic_at(gateway).messages.parse(model="default", messages=USER, output_format=Mood, max_tokens=200)
    assert isinstance(message.parsed_output, Mood)
    r = client.chat.completions.parse(model="default", messages=USER, response_format=Person, max_tokens=200, temperature=1, seed=2)
    strict(r, need("openai").types.chat.ChatCompletion)
    assert isinstance(r.choices[0].message.parsed, Person)


def test_openai_tools(caller):
    """A call, its result, and the answer; whole and as a stream."""
    openai, client = need("openai"), openai_at(caller)
    more = {"model": "default", "tools": TOOLS, "max_tokens": 300, "seed": 1, "temperature": 1.5, "extra_body": {"top_k": 0, "min_p": 0}}
    r = strict(client.chat.completions.create(messages=USER, tool_choice=NAMED, **more))
    call = r.choices[0].message.tool_calls[0]
    check({"id": call.id, "name": call.function.name, "arguments": call.function.arguments})
    assert r.choices[0].finish_reason == "tool_calls"
    messages = [*USER, r.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sun"}]
    again = strict(client.chat.completions.create(messages=messages, **{**more, "max_tokens": 8}))
    assert again.usage.prompt_tokens > r.usage.prompt_tokens and again.usage.prompt_tokens_details.cached_tokens > 0
    pieces = [strict(c) for c in client.chat.completions.create(messages=USER, tool_choice=NAMED, stream=True, **more)]
    calls = [t for c in pieces for t in c.choices[0].delta.tool_calls or []]
    assert "".join(t.function.arguments for t in calls) == call.function.arguments and calls[0].function.name == "weather"
    with client.chat.completions.stream(messages=USER, tool_choice=NAMED, **more) as s:
        joined = s.get_final_completion().choices[0].message.tool_calls[0]
    assert joined.function.arguments == call.function.arguments and joined.function.name == "weather"
    tool = openai.pydantic_function_tool(person_tool(), name="person")
    parsed = client.chat.completions.parse(messages=USER, tool_choice="required", **{**more, "tools": [tool]})
    assert 0 <= parsed.choices[0].message.tool_calls[0].function.parsed_arguments.age <= 9


def person_tool():
    pydantic = need("pydantic")

    class Person(pydantic.BaseModel):
        age: int = pydantic.Field(ge=0, le=9)
    return Person


def test_anthropic_messages(gateway):
    client = anthropic_at(gateway)
    more = {"model": "default", "messages": USER, "max_tokens": 8, "system": "be brief", "metadata": {"user_id": "u"}, "extra_body": {"temperature": 0}}
    r = strict(client.messages.create(**more))
    assert r.content[0].text and r.stop_reason == "max_tokens" and r.usage.output_tokens == 8
    with client.messages.stream(**more) as s:
        for event in s:
            if event.type in ("message_start", "message_delta", "content_block_start", "content_block_delta"):
                strict(event)
        assert s.get_final_message().content[0].text == r.content[0].text
    raw = [strict(e) for e in client.messages.create(**more, stream=True)]
    assert raw[0].type == "message_start" and raw[-1].type == "message_stop"
    assert "".join(e.delta.text for e in raw if e.type == "content_block_delta") == r.content[0].text
    n = strict(client.messages.count_tokens(model="default", messages=USER, system="be brief")).input_tokens
    assert n == r.usage.input_tokens + r.usage.cache_read_input_tokens
    assert [m.id for m in client.models.list()] == ["default"]


def test_anthropic_errors(gateway):
    anthropic, client = need("anthropic"), anthropic_at(gateway)
    with pytest.raises(anthropic.BadRequestError) as e:
        client.messages.create(model="default", messages=[], max_tokens=8)
    assert e.value.body["error"]["type"] == "invalid_request_error" and "messages" in e.value.body["error"]["message"]
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="nothing", messages=USER, max_tokens=8)


def test_anthropic_tools(caller):
    client = anthropic_at(caller)
    tools = [{"name": "weather", "description": "d", "input_schema": WEATHER}]
    more = {"model": "default", "tools": tools, "max_tokens": 300, "extra_body": {"temperature": 1, "seed": 1}}
    choice = {"type": "tool", "name": "weather"}
    r = strict(client.messages.create(messages=USER, tool_choice=choice, **more))
    use = r.content[-1]
    check({"id": use.id, "name": use.name, "arguments": json.dumps(use.input)})
    assert r.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sun"}]}
    messages = [*USER, {"role": "assistant", "content": r.content}, {"role": "user", "content": [result, {"type": "text", "text": "go"}]}]
    again = strict(client.messages.create(messages=messages, tool_choice={"type": "none"}, **{**more, "max_tokens": 8}))
    assert again.content[0].type == "text"
    with client.messages.stream(messages=USER, tool_choice=choice, **more) as s:
        assert s.get_final_message().content[-1].input == use.input


def test_litellm(gateway, caller):
    litellm = need("litellm")
    for model, base in [("openai/default", url(gateway) + "/v1"), ("anthropic/default", url(gateway))]:
        more = {"model": model, "api_base": base, "api_key": "none", "messages": USER, "max_tokens": 8, "temperature": 0}
        r = litellm.completion(**more)
        assert r.choices[0].message.content and r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 8
        chunks = list(litellm.completion(**more, stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == r.choices[0].message.content
    r = litellm.completion(model="openai/default", api_base=url(caller) + "/v1", api_key="none", messages=USER, tools=TOOLS, tool_choice=NAMED,
                           max_tokens=300, seed=1, temperature=1.5)
    call = r.choices[0].message.tool_calls[0]
    check({"id": call.id, "name": call.function.name, "arguments": call.function.arguments})
    with pytest.raises(litellm.exceptions.NotFoundError):
        litellm.completion(model="openai/nothing", api_base=url(gateway) + "/v1", api_key="none", messages=USER, num_retries=0)


def test_langchain(gateway, caller):
    chat = need("langchain_openai").ChatOpenAI
    at = {"base_url": url(gateway) + "/v1", "api_key": "none", "model": "default", "temperature": 0, "max_tokens": 8, "max_retries": 0}
    r = chat(**at).invoke("Once upon a time")
    assert r.content and r.response_metadata["finish_reason"] == "length" and r.usage_metadata["output_tokens"] == 8
    assert "".join(c.content for c in chat(**at).stream("Once upon a time")) == r.content
    person = person_tool()
    answer = chat(**{**at, "max_tokens": 200, "temperature": 1}, seed=1).with_structured_output(person, method="json_schema").invoke("x")
    assert isinstance(answer, person)
    model = chat(**{**at, "base_url": url(caller) + "/v1", "max_tokens": 300, **{"temperature": 1}}, seed=1)
    call = model.bind_tools(TOOLS, tool_choice="weather").invoke("x").tool_calls[0]
    check({"id": call["id"], "name": call["name"], "arguments": json.dumps(call["args"])})
    model = chat(**at, use_responses_api=True, use_previous_response_id=True)
    first = model.invoke("Once upon a time")
    again = model.invoke([("user", "Once upon a time"), first, ("user", "And then?")])
    assert first.text and again.usage_metadata["input_tokens"] > first.usage_metadata["total_tokens"]
    assert "".join(c.text for c in model.stream("Once upon a time")) == first.text


def test_llm(gateway, tmp_path):
    """Simon Willison's llm, with a file of OpenAI-compatible models."""
    need("llm")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: hob\n  model_name: default\n  api_base: {url(gateway)}/v1\n  api_key_name: none\n")
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "PYTHONPATH": FOLDER or "", "HOME": str(tmp_path)}
    expected = gateway.chat("Once upon a time").json["choices"][0]["message"]["content"]
    for more in ([], ["--no-stream"]):
        r = subprocess.run([sys.executable, "-m", "llm", "-m", "hob", "--key", "none", "-o", "max_tokens", "8", "-o", "temperature", "0",
                            *more, "Once upon a time"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert r.returncode == 0 and r.stdout.strip() == expected.strip(), (r.stdout, r.stderr)


def test_curl(gateway):
    if not shutil.which("curl"):
        pytest.skip("no curl")
    body = json.dumps({"messages": USER, "max_tokens": 8, "temperature": 0})
    curl = ["curl", "-sS", "--noproxy", "*", "--fail-with-body", url(gateway) + "/v1/chat/completions", "-H", "Content-Type: application/json"]
    whole = json.loads(subprocess.run([*curl, "-d", body], check=True, capture_output=True, timeout=60).stdout)
    stream = subprocess.run([*curl, "-N", "-H", "Transfer-Encoding: chunked", "-d", body[:-1] + ',"stream":true}'], check=True, capture_output=True,
                            timeout=60).stdout
    events = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == whole["choices"][0]["message"]["content"]
    bad = subprocess.run([*curl, "-d", "{"], capture_output=True, timeout=60)
    assert bad.returncode == 22 and json.loads(bad.stdout)["error"]["message"]
