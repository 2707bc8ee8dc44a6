# SPDX-License-Identifier: MIT
"""The shipped tools in a real terminal, tmux: a model calls them, and a user answers the questions with the keyboard."""
import json
import shlex

import pytest
from conftest import HOB, TOP
from test_calls import SWITCH, make
from test_watch import Screen, pytestmark  # noqa: F401 (skips without tmux)

EXAMPLES = TOP / "packaging" / "examples"
QUESTION = "(edit):"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    h = make(tmp_path_factory, SWITCH)
    docs = h.root / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("Take an umbrella.\n")
    editor = h.root / "editor"
    editor.write_text("#!/bin/sh\nprintf '{\"text\": \"UMBRELLA\"}' >\"$1\"\n")
    editor.chmod(0o755)
    h.env.update(DOCS=str(docs), EDITOR=str(editor), WEATHER_URL="http://127.0.0.1:1")
    h.env.pop("VISUAL", None)
    yield h
    h.stop()


@pytest.fixture(scope="module")
def screen(home):
    s = Screen(home, 120, 50)
    yield s
    s.close()


def asks(shown):
    return shown.rstrip().endswith(QUESTION)


def talk(screen, session, choice, answers, seed=1):
    """Runs hob with both tools, and answers each question with the next key. Returns the screen of each question."""
    tools = [x for name in ("weather", "grep-docs") for x in ("--tool", EXAMPLES / name)]
    words = [HOB, *tools, "--tool-choice", choice, "--tool-rounds", 1, "--think-budget", 2, "-n", 3000, "--temp", 1.5,
             "--seed", seed, "-S", session, "--no-stdin", "is it wet?"]
    end = f"end {session} {seed}"  # no other run's
    screen.type(f"printf '\\033c'; {shlex.join(map(str, words))}; echo; echo '{end}'=")
    asked = []
    while True:
        last = asked[-1] if asked else None
        shown = screen.until(lambda s: (asks(s) and s != last) or end + "=" in s)
        if end + "=" in shown:
            return asked
        asked.append(shown)
        screen.type(answers[min(len(asked), len(answers)) - 1])


def turn(home, session):
    """The calls of the session and their results."""
    c = home.client()
    messages = c.session(session)["messages"]
    c.ask("session.remove", name=session)
    calls = [x for m in messages for x in m.get("tool_calls", [])]
    return calls, [m["content"] for m in messages if m["role"] == "tool"]


def test_yes_no_and_edit(home, screen):
    (asked,) = talk(screen, "yes", "grep-docs", "y")
    (call,), (result,) = turn(home, "yes")
    assert call["name"] == "grep-docs" and "grep-docs {" in asked, asked
    assert set(json.loads(call["arguments"])) <= {"text", "file"} and "refused" not in result, result

    (asked,) = talk(screen, "no", "grep-docs", "n")
    (call,), (result,) = turn(home, "no")
    assert result == "error: the user refused this call", result

    asked = talk(screen, "edit", "grep-docs", "ey")
    (call,), (result,) = turn(home, "edit")
    assert len(asked) == 2 and '"UMBRELLA"' in asked[1] and "a.md:1: Take an umbrella." in result, result


def test_always(home, screen):
    """a answers for all later calls of the same tool, not of the other."""
    seen = set()
    for seed in range(6):
        asked = talk(screen, "always", "required", "a", seed)
        calls, results = turn(home, "always")
        if not asked:
            assert not results  # the answer was cut: no call runs
            continue
        names = {x["name"] for x in calls}
        assert len(calls) == len(results) and len(asked) == len(names), (asked, calls)
        assert not any("refused" in x for x in results)
        seen |= names
    assert "weather" in seen  # grep-docs is asked about above
