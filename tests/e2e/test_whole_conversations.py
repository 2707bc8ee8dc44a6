# SPDX-License-Identifier: MIT
"""Clients that send the whole conversation with each request, as most do: with the thinking, calls and results of earlier turns.
Only what is new is computed. Each test prints its numbers (pytest -s)."""
import pytest
from conftest import Home, data, mktiny
from httpgate import Gateway
from test_calls import SWITCH, TOOLS, WEATHER, make

SYSTEM = "You know all rivers of the world and their lengths by heart."
QUESTION = "Is the weather of the north good for a walk along one of them?"
BODY = {"max_tokens": 300, "seed": 1, "temperature": 1, "top_k": 0}


class Chat:
    """OpenAI's chat completions."""

    path, NAMED = "/v1/chat/completions", {"type": "function", "function": {"name": "weather"}}

    def __init__(self, gateway, think=None):
        self.gateway = gateway
        self.body = {**BODY, "tools": TOOLS, **({"think_budget": think} if think else {})}
        self.messages = [{"role": "system", "content": SYSTEM}]

    def user(self, text):
        self.messages.append({"role": "user", "content": text})

    def ask(self, **more):
        """An answer, which becomes part of the conversation: the tokens of its prompt, how many were cached, and its own."""
        r = self.gateway.post(self.path, {**self.body, "messages": self.messages, **more})
        assert r.status == 200, r.body
        answer = r.json["choices"][0]["message"]
        del answer["refusal"]
        self.messages.append(answer)
        for call in answer.get("tool_calls", []):
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "sun"})
        u = r.json["usage"]
        return u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"], u["completion_tokens"], u["completion_tokens_details"]["reasoning_tokens"]


class Messages(Chat):
    """Anthropic's messages."""

    path, NAMED = "/v1/messages", {"type": "tool", "name": "weather"}

    def __init__(self, gateway, think=None):
        self.gateway = gateway
        self.body = {**BODY, "system": SYSTEM, "tools": [{"name": "weather", "description": "d", "input_schema": WEATHER}],
                     **({"thinking": {"type": "enabled", "budget_tokens": think}} if think else {})}
        self.messages = []

    def ask(self, **more):
        r = self.gateway.post(self.path, {**self.body, "messages": self.messages, **more})
        assert r.status == 200, r.body
        blocks, u = r.json["content"], r.json["usage"]
        self.messages.append({"role": "assistant", "content": blocks})
        results = [{"type": "tool_result", "tool_use_id": b["id"], "content": "sun"} for b in blocks if b["type"] == "tool_use"]
        if results:
            self.messages.append({"role": "user", "content": results})
        cached = u["cache_read_input_tokens"]
        return u["input_tokens"] + cached, cached, u["output_tokens"], None


class Responses(Chat):
    """OpenAI's responses without previous_response_id."""

    path, NAMED = "/v1/responses", {"type": "function", "name": "weather"}

    def __init__(self, gateway, think=None):
        self.gateway = gateway
        self.body = {**{k: v for k, v in BODY.items() if k != "max_tokens"}, "instructions": SYSTEM, "store": False,
                     "tools": [{"type": "function", "name": "weather", "description": "d", "parameters": WEATHER, "strict": True}],
                     **({"think_budget": think} if think else {})}
        self.messages = []

    def ask(self, **more):
        if "max_tokens" in more:
            more["max_output_tokens"] = more.pop("max_tokens")
        r = self.gateway.post(self.path, {**self.body, "input": self.messages, **more})
        assert r.status == 200, r.body
        self.messages += r.json["output"]
        self.messages += [{"type": "function_call_output", "call_id": o["call_id"], "output": "sun"} for o in r.json["output"] if o["type"] == "function_call"]
        u = r.json["usage"]
        return u["input_tokens"], u["input_tokens_details"]["cached_tokens"], u["output_tokens"], u["output_tokens_details"]["reasoning_tokens"]


def turns(chat):
    """A call, the answer to its result, and the answer to a second question."""
    chat.user(QUESTION)
    found = [chat.ask(tool_choice=chat.NAMED), chat.ask(max_tokens=20)]
    chat.user("and now?")
    found.append(chat.ask(max_tokens=20))
    for i, (prompt, cached, completion, thought) in enumerate(found):
        print(f"{chat.path} turn {i + 1}: {prompt} tokens of the prompt, {cached} cached, {completion} of the answer" +
              (f", {thought} of them thinking" if thought else ""))
    return found


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """The template keeps all thoughts."""
    h = make(tmp_path_factory, SWITCH)
    yield Gateway(h)
    h.stop()


@pytest.fixture(scope="module")
def coder(tmp_path_factory):
    """The template of Qwen3-Coder: calls have one form, so that an answer and its next prompt have the same text."""
    folder = tmp_path_factory.mktemp("coder")
    h = Home(tmp_path_factory.mktemp("home"),
             mktiny(folder / "m.gguf", "--seed", 7, "--ctx", 4096, "--template", data("templates/Qwen3-Coder.jinja")))
    h.daemon()
    yield Gateway(h)
    h.stop()


@pytest.mark.parametrize("api", [Chat, Messages, Responses])
def test_results_of_tools(coder, api):
    """All of the first turn is cached but its last token, which was not computed as an input. The words of the second answer are
    random: as text, they can have other tokens."""
    first, second, third = turns(api(coder))
    assert second[1] == first[0] + first[2] - 1 and third[1] >= second[0]


@pytest.mark.parametrize("api", [Chat, Messages, Responses])
def test_thinking(thinker, api):
    """A random model writes its calls with other spaces than the template, so that the first answer is cached up to its call."""
    first, second, third = turns(api(thinker, think=12))
    assert first[0] < second[1] < second[0]
    if first[3]:
        assert second[1] >= first[0] + first[3]
    assert third[1] >= second[0]
