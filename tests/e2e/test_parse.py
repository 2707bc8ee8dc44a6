# SPDX-License-Identifier: MIT
"""hobd parse: the parts of an answer. tests/output has the tests of the parser itself."""
import json
import subprocess

import pytest
from conftest import DATA, HOBD

TOOLS = [{"type": "function", "function": {"name": name, "description": name, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "c"}, "days": {"type": "integer", "description": "d"}},
    "required": ["city"]}}} for name in ("weather", "history")]
ASK = [{"role": "user", "content": "And in Oslo?"}]
TURNS = """{% for m in messages %}<{{ m.role }}>
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}
{{ m.content or '' }}
{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>
{% endfor %}<end>
{% endfor %}
{% if add_generation_prompt %}<assistant>
{% if think %}<think>
{% endif %}{% endif %}
"""


def parse(*args, code=0, **request):
    r = subprocess.run([HOBD, "parse", *map(str, args)], input=json.dumps(request), capture_output=True, text=True, timeout=60)
    assert r.returncode == code, r.stderr
    return (json.loads(r.stdout), r.stderr) if code == 0 else r.stderr


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text(TURNS)
    return path


CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>'


@pytest.mark.parametrize("stream", [(), ("--stream", 1), ("--stream", 7)])
def test_parts_of_an_answer(template, stream):
    answer = f"<think>\nHm – é\n</think>\nI look.\n{CALL}\n{CALL.replace('weather', 'history')}<end>\n"
    got, err = parse("--template", template, *stream, messages=ASK, tools=TOOLS, answer=answer)
    arguments = {"city": "Oslo", "days": 2}
    assert not err and got == {"content": "I look.", "thinking": "Hm – é", "partial": False, "tool_calls": [
        {"name": "weather", "arguments": arguments}, {"name": "history", "arguments": arguments}]}


def test_the_prompt_may_open_the_thinking(template):
    request = {"messages": ASK, "answer": "Hm.\n</think>\nYes."}
    assert parse("--template", template, think=True, **request)[0]["thinking"] == "Hm."
    assert parse("--template", template, **request)[0] == {
        "content": "Hm.\n</think>\nYes.", "thinking": "", "tool_calls": [], "partial": False}


def test_a_cut_call(template):
    got, _ = parse("--template", template, messages=ASK, tools=TOOLS, answer="A" + CALL[:-25])
    assert got["partial"] is True and got["content"] == "A"
    assert got["tool_calls"][0]["name"] == "weather" and got["tool_calls"][0]["arguments"].startswith('{"city":"Oslo"')
    got, _ = parse("--template", template, messages=ASK, tools=TOOLS, answer="A" + CALL[:20])
    assert got == {"content": "A" + CALL[:20], "thinking": "", "tool_calls": [], "partial": False}


def test_a_malformed_call_is_text_with_a_warning(template):
    bad = CALL.replace('": ', '" ')
    got, err = parse("--template", template, messages=ASK, tools=TOOLS, answer=bad + CALL)
    assert "malformed" in err and err.count("\n") == 1
    assert got["content"] == bad and got["tool_calls"] == [{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}]


def test_without_tools_calls_are_text(template):
    got, _ = parse("--template", template, messages=ASK, answer=CALL)
    assert got["content"] == CALL and got["tool_calls"] == []


def test_the_template_of_a_model(tiny):
    got, _ = parse("-m", tiny, messages=ASK, tools=TOOLS, answer=" a\n<b> ")
    assert got == {"content": " a\n<b> ", "thinking": "", "tool_calls": [], "partial": False}


def test_requests_that_cannot_be_read(template):
    assert "no answer" in parse("--template", template, messages=ASK, code=1)
    assert "no answer" in parse("--template", template, messages=ASK, answer=3, code=1)
    # A conversation that the template refuses does not matter: only the end of the prompt does.
    assert parse("--template", template, messages=[{"role": "x"}], answer="a")[0]["content"] == "a"
    assert parse("--template", template, answer="a")[0]["content"] == "a"


def test_templates_that_mention_a_form_only():
    """Real templates that leave calls to the text of the turn."""
    folder = DATA / "templates"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    for name, answer in (
            ("LFM2-8B-A1B", '<|tool_call_start|>[weather(city="Oslo", days=2)]<|tool_call_end|>Done.<|im_end|>'),
            ("LFM2.5-Instruct", "Done.<|tool_call_start|>[weather(city='Oslo', days=2)]<|tool_call_end|><|im_end|>\n"),
            ("MiroThinker", "Done.\n\n<use_mcp_tool>\n<server_name>s</server_name>\n<tool_name>weather</tool_name>\n<arguments>\n"
                            '{"city": "Oslo",\n "days": 2}\n</arguments>\n</use_mcp_tool>'),
            ("ibm-granite-granite-3.3-2B-Instruct",
             '<think>x</think><response>Done.</response><|tool_call|>[{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}]')):
        got, err = parse("--template", folder / f"{name}.jinja", "--stream", 3, messages=ASK, tools=TOOLS, answer=answer)
        assert not err and got["content"] == "Done.", name
        assert got["tool_calls"] == [{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}], name
