# SPDX-License-Identifier: MIT
"""Lines of OpenAI's batch files, their results (batch-result.c), and messages (batch-messages.c)."""
import json

import pytest
from test_batch_keys import ask

URL = "/v1/chat/completions"


def openai(body, **more):
    return {"custom_id": "c", "method": "POST", "url": URL, "body": {"max_tokens": 4, "temperature": 0, **body}, **more}


def test_a_chat_line_has_the_result_of_a_chat(shared):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    chat, own = ask(shared, openai({"model": "default", "messages": messages, "user": "me"}),
                    {"messages": [messages[0], {"role": "user", "content": "Hello"}], "max_tokens": 4, "temp": 0})
    body = chat["response"]["body"]
    assert (chat["custom_id"], chat["id"], chat["error"], chat["response"]["status_code"]) == ("c", "batch_req_1", None, 200)
    assert body["choices"][0]["message"] == {"role": "assistant", "content": own["text"]} and body["object"] == "chat.completion"
    assert body["usage"]["prompt_tokens"] == own["usage"]["prompt"] and body["choices"][0]["finish_reason"] == own["reason"]


def test_a_completion_line_is_raw_text(shared):
    text, own = ask(shared, {"custom_id": "t", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": 4, "temperature": 0}},
                    {"prompt": "Once", "raw": True, "max_tokens": 4, "temp": 0})
    assert text["response"]["body"]["choices"][0]["text"] == own["text"] and own["usage"]["completion"] <= 4


@pytest.mark.parametrize("line, why", [
    (openai({}, url="/v1/embeddings"), "'url' must be"), (openai({"messages": [{"role": "user", "content": "x"}], "model": "gpt"}), "'model' is 'gpt'"),
    (openai({"messages": [{"role": "user", "content": "x"}], "logprobs": True}), "'logprobs'"), (openai({}), "neither 'prompt' nor 'messages'"),
    (openai({"messages": []}), "'messages'"), (openai({"messages": "x"}), "'messages' must be a list"), (openai({}, prompt="x"), "unknown key 'prompt' beside 'body'"),
    (openai({}, method="GET"), "'method' must be POST"), ({"custom_id": "c", "url": URL}, "no 'body'")])
def test_its_errors_have_its_form(shared, line, why):
    found, = ask(shared, line)
    assert found["custom_id"] == "c" and why in found["error"]["message"], found


@pytest.mark.parametrize("messages, why", [
    ([1], "messages[0]: not an object"), ([{"content": "x"}], "messages[0]: no 'role'"), ([{"role": "user", "content": 7}], "'content' must be"),
    ([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[1]: parts of the type 'image_url'"),
    ([{"role": "user", "content": "x", "weight": 0}], "messages[0]: 'weight' cannot be honoured"), ([{"role": "user", "content": [{}]}], "no 'type'"),
    ([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": 1}}]}], "'name' must be a string")])
def test_messages_that_are_refused(shared, messages, why):
    found, = ask(shared, {"id": "m", "messages": messages})
    assert found["id"] == "m" and why in found["error"]["message"], found


def test_many_messages_that_the_daemon_would_refuse(shared):
    """It closes a connection with more than 32 of them: they are not sent."""
    found = ask(shared, *({"messages": [{"role": "user", "content": ""}]} if i % 3 else {"prompt": "x", "max_tokens": 2} for i in range(150)))
    assert [x["line"] for x in found] == list(range(1, 151))
    assert all(("error" in x) == ((x["line"] - 1) % 3 != 0) for x in found)
    assert "the prompt is empty" in found[1]["error"]["message"]


def test_the_system_message_of_the_command_line(shared):
    hello = {"role": "user", "content": "Hello"}
    a, b, c = ask(shared, {"messages": [hello]}, {"messages": [{"role": "system", "content": "Be short."}, hello]}, {"prompt": "Hello"},
                  argv=("-s", "Be short.", "--temp", "0", "-n", "6"))
    assert a["text"] == b["text"] == c["text"] and a["usage"]["prompt"] == b["usage"]["prompt"] == c["usage"]["prompt"]
    d, = ask(shared, {"system": "x", "messages": [{"role": "system", "content": "Be short."}, hello]})
    assert "'system' cannot be used with 'messages'" in d["error"]["message"]


def test_an_id_is_a_string_or_a_number(shared):
    ids = ["a", 7, -1, 1.5, "ä\"\\\n", ""]
    assert [x["id"] for x in ask(shared, *({"id": i, "prompt": "x", "max_tokens": 1} for i in ids))] == ids
    assert [x["id"] for x in ask(shared, {"prompt": "x", "max_tokens": 1}, {"id": None, "prompt": "x", "max_tokens": 1})] == [1, 2]
