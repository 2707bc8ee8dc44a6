# SPDX-License-Identifier: MIT
"""Vim, Neovim, Emacs and git, really driven, with a real daemon behind them."""
import json
import os
import shutil
import subprocess

import pytest
from conftest import HOB, TOP

PACKAGING = TOP / "packaging"
ANSWER = ["--temp", "0", "-n", "12"]


@pytest.fixture
def desk(homes, coder):
    home = homes(coder)
    home.daemon()
    home.env["PATH"] = f"{HOB.parent}:{os.environ['PATH']}"
    return home


def answer(home, prompt, text=None):
    """What hob itself says, as lines."""
    more = [] if text is not None else ["--no-stdin"]
    r = home.hob("-q", *ANSWER, *more, "--", prompt, input=(text or "").encode(), check=0)
    assert r.out.endswith("\n") and r.out.strip()
    return r.out[:-1].split("\n")


def infilled(home, text, at, *more):
    """The text with what hob itself puts there."""
    r = home.hob("-q", *ANSWER, "infill", "--at", at, *more, input=text.encode(), check=0)
    assert r.out and not r.err
    return (text.encode()[:at] + r.out.encode() + text.encode()[at:]).decode()


@pytest.fixture(params=["vim", "nvim"])
def vim(request, desk):
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param} here")
    if request.param == "vim" and b"+job" not in subprocess.run(["vim", "--version"], capture_output=True).stdout:
        pytest.skip("the vim here is a small one, without jobs")

    def run(lines, *commands, hob="hob"):
        path = desk.root / "text"
        path.write_text("".join(line + "\n" for line in lines))
        command = json.dumps([hob, "-q", *ANSWER])
        script = desk.root / "script.vim"
        wait = ["while g:hob_running", "sleep 20m", "endwhile"]
        script.write_text("\n".join([
            "set nomore encoding=utf-8", f"source {PACKAGING}/vim/plugin/hob.vim", f"let g:hob_command = {command}",
            f"edit {path}", *[c for command in commands for c in (wait if command == "WAIT" else [command])], "write",
            "redir! > messages", "silent messages", "redir END", "qall!"]) + "\n")
        argv = {"vim": ["vim", "-Nu", "NONE", "-i", "NONE", "-es", "-S", str(script)],
                "nvim": ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-S", str(script)]}[request.param]
        r = subprocess.run(argv, env=desk.env, cwd=desk.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        assert r.returncode == 0, (r.stdout, r.stderr)
        return path.read_text().split("\n")[:-1], (desk.root / "messages").read_text()

    return run


def test_vim_replaces_a_range(desk, vim):
    lines, _ = vim(["one", "zwei ü", "three", "four"], "2,3Hob tidy 'this' $HOME \"up\"")
    assert lines == ["one", *answer(desk, "tidy 'this' $HOME \"up\"", "zwei ü\nthree\n"), "four"]


def test_vim_leaves_the_text_when_hob_fails(vim):
    lines, said = vim(["one", "two"], "let g:hob_command += ['--nonsense']", "%Hob x", "HobInsert x", "WAIT")
    assert lines == ["one", "two"]
    assert said.count("nonsense") == 2
    lines, said = vim(["one"], "HobInsert x", hob="no-such-program")
    assert lines == ["one"] and "no-such-program" in said


def test_vim_streams_below(desk, vim):
    said = answer(desk, "go on")
    assert vim(["one", "two"], "1HobInsert go on", "WAIT")[0] == ["one", *answer(desk, "go on", "one\n"), "two"]
    assert vim(["one", "two"], "call cursor(1, 1)", "HobInsert go on", "WAIT")[0] == ["one", *said, "two"]
    # Edited meanwhile, above and below: the answer stays one.
    both = vim(["one", "two"], "call cursor(1, 1)", "HobInsert go on", "call append(0, ['a', 'b'])",
               "call append(line('$'), 'c')", "WAIT")[0]
    assert both == ["a", "b", "one", *said, "two", "c"]


def test_vim_streams_two_answers_at_once(desk, vim):
    lines, _ = vim(["one", "two"], "2HobInsert x", "1HobInsert y", "WAIT")
    assert lines == ["one", *answer(desk, "y", "one\n"), "two", *answer(desk, "x", "two\n")]


SLOW = """#!/usr/bin/python3
import subprocess, sys, time
said = subprocess.run(["hob", *sys.argv[1:]], stdout=subprocess.PIPE, check=True).stdout
for i in range(0, len(said), 5):
    sys.stdout.buffer.write(said[i:i + 5])
    sys.stdout.flush()
    time.sleep(0.02)
"""


def test_vim_streams_in_pieces(desk, vim):
    slow = desk.root / "slow"
    slow.write_text(SLOW)
    slow.chmod(0o755)
    lines, _ = vim(["one", "two"], "2HobInsert x", "1HobInsert y", "WAIT", hob=str(slow))
    assert lines == ["one", *answer(desk, "y", "one\n"), "two", *answer(desk, "x", "two\n")]


CODE = ["int a = ;", "zwei ü x", ""]


def test_vim_infills_at_the_cursor(desk, vim):
    text = "\n".join(CODE) + "\n"
    where = "call append('$', string(getpos('.')[1:2]))"
    for commands, at in ((("call cursor(1, 9)", "HobInfill"), 8), (("call cursor(2, 6)", "HobInfill!"), 10 + 7),
                         (("call cursor(3, 1)", "HobInfill"), 10 + 10), (("call cursor(1, 1)", "HobInfill"), 0)):
        lines, said = vim(CODE, *commands, "WAIT", where)
        want = infilled(desk, text, at)
        assert "\n".join(lines[:-1]) + "\n" == want, said
        line, col = json.loads(lines[-1])
        # On the last character that came.
        added = want.encode()[:at + len(want.encode()) - len(text.encode())]
        assert line == added.count(b"\n") + 1
        assert col == 1 or len(added.rpartition(b"\n")[2].decode()[:-1].encode()) == col - 1
    lines, _ = vim(CODE, "call cursor(1, 9)", "HobInfill --max-lines 1 -n 3", "WAIT")
    assert "\n".join(lines) + "\n" == infilled(desk, text, 8, "--max-lines", 1, "-n", 3)
    lines, _ = vim(CODE, "call cursor(2, 1)", 'call feedkeys("A\\<Plug>(hob-infill)\\<Esc>", "mx")', "WAIT")
    assert "\n".join(lines) + "\n" == infilled(desk, text, 19)


def test_vim_leaves_a_text_that_has_changed(vim):
    lines, said = vim(CODE, "call cursor(1, 9)", "HobInfill", "call append(0, 'new')", "WAIT")
    assert lines == ["new", *CODE] and "text has changed" in said
    lines, said = vim(CODE, "HobInfill --nonsense", "WAIT")
    assert lines == CODE and "nonsense" in said


def test_vim_stops(vim):
    lines, said = vim(["one"], "let g:hob_command += ['--ignore-eos', '-n', '400']", "HobInsert x", "HobStop", "WAIT")
    assert lines[0] == "one" and "hob" not in said.replace("hob.vim", "")


@pytest.fixture
def emacs(desk):
    if not shutil.which("emacs"):
        pytest.skip("no emacs here")

    def run(form):
        options = " ".join(json.dumps(o) for o in ["hob", "-q", *ANSWER])
        program = f"""(progn (setq hob-command '({options})) {form}
            (while hob--processes (accept-process-output nil 0.05))
            (princ (format "<<<%s>>>" (buffer-string))))"""
        r = subprocess.run(["emacs", "-Q", "--batch", "-l", str(PACKAGING / "emacs" / "hob.el"), "--eval", program],
                           env=desk.env, cwd=desk.root, capture_output=True, text=True, timeout=120)
        return r.stdout.partition("<<<")[2].rpartition(">>>")[0], r

    return run


def test_emacs_replaces_and_shows_a_region(desk, emacs):
    text, r = emacs('(insert "one\\nzwei ü\\nthree\\n") (hob-region 5 12 "tidy" t)')
    assert text == "one\n" + "\n".join(answer(desk, "tidy", "zwei ü\n")) + "\nthree\n", r
    text, r = emacs('(insert "one") (hob-region 1 4 "tidy") (set-buffer "*hob*")')
    assert text.rstrip("\n") == "\n".join(answer(desk, "tidy", "one")).rstrip("\n"), r


def test_emacs_streams(desk, emacs):
    text, r = emacs('(insert "one\\ntwo\\n") (hob-insert "go on" 1 5)')
    assert text == "one\n" + "\n".join(answer(desk, "go on", "one\n")) + "\ntwo\n", r
    text, r = emacs('(insert "[]") (backward-char) (hob-insert "go on") (goto-char 1) (insert "x")')
    assert text == "x[" + "\n".join(answer(desk, "go on")) + "\n]", r


def test_emacs_infills_at_point(desk, emacs):
    code = "ü = 1\nint a = ;\n"
    make = '(insert "ü = 1\\nint a = ;\\n") (goto-char 15)'
    assert emacs(f"{make} (hob-infill)")[0] == infilled(desk, code, 15)
    assert emacs(f'{make} (setq hob-infill-options (list "-n" "3")) (hob-infill)')[0] == infilled(desk, code, 15, "-n", 3)
    # A narrowed buffer is asked about as a whole; point is behind the answer.
    text, r = emacs(f'{make} (narrow-to-region 10 15) (hob-infill) (while hob--processes (accept-process-output nil 0.05)) '
                    '(insert "|") (widen)')
    end = len(infilled(desk, code, 15).encode()) - len(code.encode()) + 15
    want = infilled(desk, code, 15).encode()
    assert text == (want[:end] + b"|" + want[end:]).decode(), r


def test_emacs_tells_of_failure(emacs):
    _, r = emacs('(insert "one") (setq hob-command (list "hob" "--nonsense")) (hob-region 1 4 "x" t)')
    assert r.returncode != 0 and "nonsense" in r.stderr
    text, r = emacs('(insert "one") (setq hob-command (list "hob" "--nonsense")) (hob-insert "x")')
    assert text == "one" and "nonsense" in r.stderr, r


def test_emacs_compiles_without_a_warning(desk, emacs):
    copy = desk.root / "hob.el"
    copy.write_bytes((PACKAGING / "emacs" / "hob.el").read_bytes())
    r = subprocess.run(["emacs", "-Q", "--batch", "-f", "batch-byte-compile", str(copy)], env=desk.env, capture_output=True)
    assert r.returncode == 0 and b"Warning" not in r.stderr, r.stderr


@pytest.fixture
def repository(desk):
    if not shutil.which("git"):
        pytest.skip("no git here")
    desk.env.update(GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b",
                    GIT_EDITOR="true", GIT_CONFIG_NOSYSTEM="1")

    def git(*args, check=True):
        r = subprocess.run(["git", "-C", str(desk.root / "repo"), *args], env=desk.env, capture_output=True, text=True)
        assert r.returncode == 0 or not check, r
        return r.stdout

    (desk.root / "repo").mkdir()
    git("init", "-q")
    shutil.copy(PACKAGING / "git" / "prepare-commit-msg", desk.root / "repo" / ".git" / "hooks")
    (desk.root / "repo" / "file").write_text("Hello.\n")
    git("add", "file")
    return git


def test_git_hook_writes_a_message(desk, repository):
    repository("commit", "-q")
    said = repository("log", "-1", "--format=%B").strip()
    assert said and "Please enter" not in said
    (desk.root / "repo" / "file").write_text("Goodbye.\n")
    repository("commit", "-qam", "mine")
    assert repository("log", "-1", "--format=%B").strip() == "mine"


def test_git_hook_is_in_nobodys_way(desk, repository):
    desk.env["HOB_SOCKET"] = str(desk.root / "none")
    desk.env["GIT_EDITOR"] = "echo by hand >"
    repository("commit", "-q")
    assert repository("log", "-1", "--format=%B").strip() == "by hand"
