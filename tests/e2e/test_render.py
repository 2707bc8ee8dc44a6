# SPDX-License-Identifier: MIT
"""--render: colour on a terminal that wants it, and nothing anywhere else."""
import re
import subprocess

from conftest import HOB
from terminal import on_terminal

ARGS = ["--temp", "0", "-n", "60", "-q", "--no-stdin"]


def terminal(home, *args, env=None):
    """What hob writes to a terminal."""
    out, status = on_terminal([HOB, *ARGS, *args], env={**home.env, "TERM": "xterm", **(env or {})})
    assert status == 0, out
    return out.decode(errors="replace").replace("\r\n", "\n")


def test_colour_on_a_terminal_only(home):
    home.daemon()
    # A model of random weights writes marks soon enough.
    prompt = next(p for p in map(str, range(50))
                  if re.search(r"`\w|(?<!\w)[*_]\w", home.hob(*ARGS, p, check=0).out))
    plain = home.hob(*ARGS, prompt, check=0).out
    assert home.hob(*ARGS, "--render", prompt, env={"TERM": "xterm"}, check=0).out == plain
    coloured = terminal(home, "--render", prompt)
    assert "\x1b[0" in coloured and coloured.rindex("\x1b[0m") == coloured.rindex("\x1b")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert terminal(home, "--render", prompt, env=env) == plain
    assert terminal(home, prompt) == plain
    conf = home.root / "config" / "hob" / "hob.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text("render = yes\n")
    assert terminal(home, prompt) == coloured
    assert home.hob(*ARGS, prompt, check=0).out == plain
    said = subprocess.run([str(HOB), "chat", "-q", "--temp", "0", "-n", "60"], input=prompt + "\n", env=home.env,
                          capture_output=True, text=True)
    assert said.stdout == plain
