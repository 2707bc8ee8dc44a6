# SPDX-License-Identifier: MIT
"""hob sessions search: words in stored sessions, and what stays as it was."""
import json

from conftest import HOB
from terminal import on_terminal


def found(home, *words):
    r = home.hob("sessions", "search", *words)
    assert r.returncode == (0 if r.out else 1), (r.out, r.err)
    assert r.err == ("" if r.out else "hob: no session has these words\n")
    return [line.split(":")[0] for line in r.out.splitlines()]


def test_words(home):
    home.daemon()
    assert found(home, "anything") == []
    home.ask("-S", "a", "why is the Sky blue", n=2)
    home.ask("-S", "b", "about apples and Größe", n=2)
    home.ask("-S", "a", "and the sea/shore", n=2)
    home.ask("--raw", "-S", "r", "a raw sky text", n=2, input=None)
    assert found(home, "sky") == ["r", "a"]
    assert found(home, "sky", "SEA/sh") == ["a"]  # in two turns
    assert found(home, "größ") == ["b"] and found(home, "apples", "sky") == []
    assert found(home, "[", "sky") in ([], ["a"], ["r"], ["r", "a"]) and found(home, "pples") == []
    assert home.hob("sessions", "search", "blue", check=0).out == "a: why is the Sky blue\n"
    # The order of use stays, and with it what --continue takes.
    names = [s["name"] for s in json.loads(home.hob("sessions", "--json", check=0).out)]
    assert names == ["r", "a", "b"]
    assert home.hob("sessions", "search", "").err == "hob: sessions search: word 1: must not be empty\n"
    assert home.hob("sessions", "search").err == "hob: usage: hob sessions search WORD…\n"
    home.hob("stop", check=0)
    assert home.hob("sessions", "search", "sky").returncode == 69


def test_a_place_fits_the_terminal(home):
    home.daemon()
    home.ask("-S", "long", "start " * 30 + "\x1b[31m needle " + "word " * 40, n=2)
    line = f"stty cols 50; {HOB} sessions search needle"
    out = on_terminal(["sh", "-c", line], env={**home.env, "TERM": "xterm"})[0].decode()
    assert "needle" in out and "\x1b" not in out and max(map(len, out.splitlines())) <= 50 and out.count("\n") == 1, out
