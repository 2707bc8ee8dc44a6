# SPDX-License-Identifier: MIT
"""Completions in real shells: what they offer is what --help tells, what the folders hold and what the daemon keeps."""
import os
import re
import select
import shlex
import shutil
import subprocess

import pytest
from conftest import HOB, HOBD, TOP
from httpgate import HOB_HTTP
from terminal import fork_on_terminal

DIR = TOP / "packaging" / "completions"
SHARED = {"model", "quiet", "verbose", "help", "version"}
NOT_IN_CHAT = {"template", "param", "continue", "fork", "warm", "detach", "n", "extract", "raw", "special", "no-stream", "no-stdin", "jsonl", "logprobs", "json",
               "watch", "tools"}
INFILL = {"prefix-file", "suffix-file", "at", "max-lines"}  # for nothing else
BATCH, MAP = {"out", "jobs", "ordered", "resume"}, {"jobs", "resume", "write", "null"}  # likewise, for batch and map
EMBED = {"dims", "pooling", "npy"}  # for nothing else
NOT_IN_BATCH = {"template", "param", "log", "no-log", "log-size", "log-age", "session", "continue", "fork", "wait", "detach", "warm", "n", "tool", "yes", "tool-rounds", "tool-timeout", "render", "no-stream",
                "no-stdin", "jsonl", "json", "watch"}
NOT_IN_MAP = NOT_IN_BATCH | {"file", "image", "audio", "tools", "tool-choice", "logprobs"}
DO = {"print", "no-context"}  # for nothing else
SPECIAL = INFILL | BATCH | MAP | EMBED | DO
NOT_IN_DO = (NOT_IN_CHAT - {"no-stdin"}) | {"system", "session", "context", "wait", "render", "stop", "ignore-eos", "schema", "grammar", "regex", "choice", "on-limit",
                                            "schema-lenient", "any-order", "compact", "tool", "tool-choice", "yes", "tool-rounds", "tool-timeout"}
NOT_IN_INFILL = (NOT_IN_CHAT - {"no-stream", "jsonl", "logprobs"}) | {"file", "image", "audio", "system", "session", "context", "wait", "render", "schema", "grammar",
                                                                      "regex", "choice", "on-limit", "schema-lenient", "any-order", "compact",
                                                                      "think", "think-budget", "tool", "tool-choice", "yes", "tool-rounds",
                                                                      "tool-timeout"}


def said(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True).stdout


def hob_options():
    """The options of hob's answers, with the letters they have."""
    found = re.findall(r"^  (?:-(\w), |    )?--([a-z-]+)", said(HOB, "--help"), re.M)
    assert len(found) > 20
    return {name: letter for letter, name in found}


def valued(name):
    return re.search(rf"--{name} [A-Z]", said(HOB, "--help")) is not None


COMMANDS = {"status": lambda all: {"json", "watch"}, "sessions": lambda all: {"json"}, "stop": lambda all: set(),
            "chat": lambda all: all - NOT_IN_CHAT - SPECIAL, "infill": lambda all: all - NOT_IN_INFILL - (SPECIAL - INFILL),
            "batch": lambda all: all - NOT_IN_BATCH - (SPECIAL - BATCH), "map": lambda all: all - NOT_IN_MAP - (SPECIAL - MAP), "templates": lambda all: set(),
            "do": lambda all: all - NOT_IN_DO - (SPECIAL - DO),
            "embed": lambda all: {"dims", "pooling", "jsonl", "npy", "priority", "timeout"}, "rank": lambda all: {"jsonl", "priority", "timeout"}}


MODELS = {"": {"json"}, "list": {"json"}, "add": {"copy", "link", "force", "system", "adapter-of"},
          "pull": {"sha256", "insecure-http", "force", "system"}, "rm": {"system", "adapter-of"}}


FIND = {"index": {"model", "dims", "prefix", "question-prefix", "max-size", "no-ignore", "list", "rm", "jsonl", "quiet", "help"},
        "find": {"answer", "number", "model", "jsonl", "quiet", "verbose", "help"}}


def models_options(verb):
    return MODELS[verb] | {"quiet", "help"}


def hobd_commands():
    return re.findall(r"^  ([a-z]+) ", said(HOBD, "--help"), re.M)


def hobd_options(command):
    found = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", said(HOBD, command, "--help"), re.M))
    return found | {"help"}


def need(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")


def split(line):
    """As readline does, at = and : too."""
    return [w for part in line.split(" ") for w in (re.findall(r"[=:]+|[^=:]+", part) or [""])]


def bash(home, line, cwd=None):
    words = split(line)
    name = words[0].rsplit("/", 1)[-1]
    script = "\n".join([
        f". {shlex.quote(str(DIR / 'hob.bash'))}",
        "set -u",
        "COMP_WORDS=(" + " ".join(map(shlex.quote, words)) + ")",
        f"COMP_CWORD={len(words) - 1} COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}",
        f"complete -p {name} >/dev/null",
        f"_{name} {shlex.quote(words[0])} {shlex.quote(words[-1])} {shlex.quote(words[-2])}",
        'printf "%s\\n" "${COMPREPLY[@]-}"'])
    r = subprocess.run(["bash", "--norc", "-c", script], env=home.env, cwd=cwd or home.root, capture_output=True, text=True)
    assert r.returncode == 0 and not r.stderr, r
    return [x for x in r.stdout.split("\n") if x]


def fish(home, line, cwd=None):
    r = subprocess.run(["fish", "--no-config", "-c", f"source {DIR / 'hob.fish'}; complete -C {shlex.quote(line)}"],
                       env=home.env, cwd=cwd or home.root, capture_output=True, text=True)
    assert r.returncode == 0 and not r.stderr, r
    return [x.split("\t")[0] for x in r.stdout.split("\n") if x]


class Typist:
    """An interactive shell on a terminal of its own, so large that nothing wraps or asks."""

    def __init__(self, home, argv, ready):
        self.pid, self.fd, self.side = fork_on_terminal(300, 400)
        if self.pid == 0:
            os.chdir(home.root)
            os.execvpe(argv[0], argv, {**home.env, "TERM": "xterm", "PS1": "> ", "INPUTRC": "/dev/null",
                                       "ZDOTDIR": str(home.root)})
        self.until(b"> ")
        # What is run is not hob but tells its arguments; what completes still finds the program in PATH.
        self.said(f"PATH={HOB.parent}:{HOBD.parent}:$PATH; {ready}; hob() {{ printf '<%s>' \"$@\"; }}\r")

    def until(self, mark):
        out = b""
        while not re.search(mark, out):
            assert select.select([self.fd], [], [], 60)[0], out
            out += os.read(self.fd, 65536)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", out.decode(errors="replace"))

    def said(self, keys):
        """What stands on the terminal from @keys until a command after it has run; the line is thrown away."""
        os.write(self.fd, keys.encode() + b"\x05\x15")
        os.write(self.fd, b"echo ma''rk\r")
        return self.until(b"mark\r\n")

    def words(self, keys):
        """The arguments that hob gets when @keys are typed, and Return."""
        return re.findall(r"<([^<>]+)>", self.said(keys + "\r"))

    def close(self):
        os.close(self.fd)
        os.close(self.side)
        os.waitpid(self.pid, 0)


def test_bash_offers_the_options_of_help(home):
    options = hob_options()
    assert bash(home, "hob --") == [f"--{o}" for o in options if o not in SPECIAL]
    for command, more in COMMANDS.items():
        assert {o[2:] for o in bash(home, f"hob {command} --")} == SHARED | more(set(options)), command
    for option in set(options) - {"help", "version"}:
        value = [{"param": "a=b", "out": "/nowhere/out", "log-size": "1M", "log-age": "1h", "pooling": "mean", "priority": "batch", "context": "shift", "on-limit": "cut", "think": "show"}.get(option, "1")] if valued(option) else []
        for command, others in (("chat", NOT_IN_CHAT | SPECIAL), ("infill", NOT_IN_INFILL | SPECIAL - INFILL), ("batch", NOT_IN_BATCH | SPECIAL - BATCH - MAP),
                                ("map", NOT_IN_MAP | SPECIAL - MAP), ("do", NOT_IN_DO | SPECIAL - DO)):
            r = home.hob(command, f"--{option}", *value, env={"HOB_SOCKET": "/nowhere"})
            assert (f"--{option} cannot be used with" in r.err) == (option in others), (command, option)
        r = home.hob(f"--{option}", *value, "x", env={"HOB_SOCKET": "/nowhere"})
        assert bool(re.search("can be used only with '(infill|batch|map|embed|do)'", r.err)) == (option in SPECIAL), option
        assert ("can be used only with 'do'" in r.err) == (option in DO), option


def test_options_of_models(home):
    told = set(re.findall(r"^  (?:-\w, |    )?--([a-z0-9-]+)", said(HOB, "models", "--help"), re.M))
    assert told == set.union(*MODELS.values()) | {"quiet", "help"}
    for verb in MODELS:
        line = f"hob models {verb} --".replace("  ", " ")
        assert {o[2:] for o in bash(home, line)} == models_options(verb), verb
        if shutil.which("fish"):
            assert {o[2:] for o in fish(home, line)} == models_options(verb), verb


def test_options_of_index_and_find(home):
    if (HOB.parent / "hob-find").exists():
        told = set(re.findall(r"^  (?:-\w, |    )--([a-z-]+)", said(HOB, "find", "--help"), re.M))
        assert told == set.union(*FIND.values())
    for command, options in FIND.items():
        assert {o[2:] for o in bash(home, f"hob {command} --")} == options, command
        if shutil.which("fish"):
            assert {o[2:] for o in fish(home, f"hob {command} --")} == options, command


def test_bash_completes_models(home, tiny):
    (home.models / "my model.gguf").symlink_to(tiny)
    (home.root / "here.gguf").symlink_to(tiny)
    assert bash(home, "hob models ") == ["list", "add", "pull", "rm"]
    assert bash(home, "hob models rm ") == ["default", "my\\ model"]
    assert bash(home, "hob models rm default m") == ["my\\ model"]
    assert bash(home, "hob models add h") == ["here.gguf"] and bash(home, "hob models add here.gguf h") == []
    assert bash(home, "hob models pull h") == bash(home, "hob models pull --sha256 ") == []
    if shutil.which("fish"):
        assert set(fish(home, "hob models rm ")) == {"default", "my model"}
        assert set(fish(home, "hob models ")) == {"list", "add", "pull", "rm"}


def test_templates_come_from_the_program(home):
    place = home.root / "config/hob/templates"
    place.mkdir(parents=True)
    (place / "my own.conf").write_text("prompt = x\n")
    (place / "cat.conf").write_text("prompt = x\n")
    hob = str(HOB)
    assert bash(home, f"{hob} -t c") == bash(home, f"{hob} --template=c") == bash(home, f"{hob} templates show c") == ["cat", "commit"]
    assert bash(home, f"{hob} templates edit my") == ["my\\ own"] and bash(home, f"{hob} templates show cat c") == []
    assert bash(home, "hob templates ") == ["list", "show", "edit"]
    if shutil.which("fish"):
        assert set(fish(home, f"{hob} -t c")) == set(fish(home, f"{hob} templates show c")) == {"cat", "commit"}
        assert set(fish(home, "hob templates ")) == {"list", "show", "edit"}


def test_bash_knows_which_options_take_a_value(home):
    for name, letter in hob_options().items():
        for spelled in [f"--{name}"] + ([f"-{letter}"] if letter else []):
            offered = bash(home, f"hob {spelled} s")
            assert ("status" in offered) != valued(name), spelled


def test_bash_offers_the_options_of_hobd(home):
    commands = hobd_commands()
    assert set(bash(home, "hobd ")) == set(commands)
    for command in commands:
        assert {o[2:] for o in bash(home, f"hobd {command} --")} == hobd_options(command), command
    assert bash(home, "hobd --") == bash(home, "hobd serve --")


def http_options():
    return set(re.findall(r"^  (?:-\w, |    )--([a-z-]+)", said(HOB_HTTP, "--help"), re.M))


def test_options_of_hob_http(home):
    told = http_options()
    assert {o[2:] for o in bash(home, "hob-http --")} == told and len(told) > 7
    assert bash(home, "hob-http ") == ["key"] and bash(home, "hob-http key ") == ["add"] and bash(home, "hob-http --listen ") == []
    if shutil.which("fish"):
        assert {o[2:] for o in fish(home, "hob-http --")} == told


def test_bash_offers_commands_and_models(home, tiny):
    (home.models / "my model.gguf").symlink_to(tiny)
    (home.root / "here.gguf").symlink_to(tiny)
    (home.root / "here.txt").write_text("")
    assert bash(home, "hob st") == ["status", "stop"]
    assert bash(home, "hob sessions r") == ["rename", "rm"]
    assert bash(home, "hob -- st") == []
    assert bash(home, "hob why st") == []
    assert bash(home, "hob -m de") == bash(home, "hob --model=de") == bash(home, "hobd -m de") == ["default"]
    assert bash(home, "hob --model m") == ["my\\ model"]
    assert bash(home, 'hob --model "m') == ["my model"]
    assert set(bash(home, "hob -m ")) == {"default", "my\\ model"}
    assert bash(home, "hob -m here") == bash(home, "hobd inspect here") == ["here.gguf"]
    assert bash(home, "hob -f here.t") == bash(home, "hob --file=here.t") == ["here.txt"]
    assert bash(home, "hob infill --suffix-file here.t") == ["here.txt"]
    assert bash(home, "hob --context s") == bash(home, "hob --context=s") == ["shift"]
    assert bash(home, "hob --think s") == ["show", "stderr"] and bash(home, "hob --tool-choice=re") == ["required"]
    assert bash(home, "hob --tool here.t") == bash(home, "hob --tools=here.t") == ["here.txt"]
    assert bash(home, "hob --tool status st") == ["status", "stop"]


def test_sessions_come_from_the_daemon(home):
    home.daemon()
    for name in ("notes", "no te", "a:b", 'q"\\x', "grüße"):
        home.hob("-S", name, "-n", "1", "x", check=0)
    hob = str(HOB)
    assert bash(home, f"{hob} -S not") == ["notes"]
    assert set(bash(home, f"{hob} --session=no")) == {"notes", "no\\ te"}
    assert bash(home, f"{hob} sessions show gr") == ["grüße"]
    assert bash(home, f"{hob} sessions rm q") == ['q\\"\\\\x']
    assert bash(home, f"{hob} -S a:") == ["b"]
    assert bash(home, f"{hob} sessions rename notes ") == []
    assert len(bash(home, f"{hob} sessions rm notes ")) == 5
    assert bash(home, f"{hob} -m nobody -S ") == []
    if shutil.which("fish"):
        assert set(fish(home, f"{hob} sessions show ")) == {"notes", "no te", "a:b", 'q"\\x', "grüße"}
        assert fish(home, f"{hob} sessions show notes ") == []
        assert fish(home, f"{hob} -m nobody -S ") == []


def test_without_a_daemon_nothing_is_said_and_nothing_started(home):
    hob = str(HOB)
    assert bash(home, f"{hob} -S ") == bash(home, f"{hob} sessions show ") == []
    if shutil.which("fish"):
        assert fish(home, f"{hob} -S ") == []
    assert not home.socket.exists() and not list(home.run.rglob("*"))


def test_fish_offers_the_options_of_help(home):
    need("fish")
    assert set(fish(home, "hob --")) == {f"--{o}" for o in set(hob_options()) - SPECIAL}
    for command, more in COMMANDS.items():
        assert {o[2:] for o in fish(home, f"hob {command} --")} == SHARED | more(set(hob_options())), command
    for name, letter in hob_options().items():
        if letter and name not in SPECIAL:
            assert f"-{letter}" in fish(home, "hob -"), letter
    commands = hobd_commands()
    assert set(fish(home, "hobd ")) == set(commands)
    for command in commands:
        assert {o[2:] for o in fish(home, f"hobd {command} --")} == hobd_options(command), command
    assert fish(home, "hob -m de") == ["default"]
    assert set(fish(home, "hob st")) == {"status", "stop"}
    assert set(fish(home, "hob sessions r")) == {"rename", "rm"}
    assert fish(home, "hob why st") == []


@pytest.fixture
def zsh(home):
    need("zsh")
    t = Typist(home, ["zsh", "-f", "-i"], f"fpath=({DIR} $fpath); autoload -U compinit; compinit -u -D; LISTMAX=999")
    yield t
    t.close()


def zsh_options(zsh, line):
    # Until the cursor has gone up again, since zsh lists nothing when more keys wait.
    os.write(zsh.fd, f"{line} --\t".encode())
    listed = zsh.until(rb"--help[^>]*\x1b\[\d*A")
    zsh.said("")
    return set(re.findall(r"(?<!\S)--([a-z-]*[a-z])", listed))


def test_zsh_offers_the_options_of_help(zsh):
    def offered(line):
        return zsh_options(zsh, line)

    assert offered("hob") == set(hob_options()) - SPECIAL
    for command in hobd_commands():
        if len(hobd_options(command)) > 1:
            assert offered(f"hobd {command}") == hobd_options(command), command
    for verb in MODELS:
        assert offered(f"hob models {verb}".rstrip()) - {"sha"} | ({"sha256"} if verb == "pull" else set()) == \
            models_options(verb), verb
    for command, options in FIND.items():
        assert offered(f"hob {command}") == options, command
    for command, more in COMMANDS.items():
        assert offered(f"hob {command}") == SHARED | more(set(hob_options())), command


def test_zsh_completes_hob_http(zsh):
    assert zsh_options(zsh, "hob-http") == http_options()
    zsh.said("hob-http() { printf '<%s>' \"$@\"; }\r")
    assert zsh.words("hob-http k\ta\tada") == ["key", "add", "ada"]
    assert zsh.words("hob-http --max-c\t7") == ["--max-connections=7"]


def test_zsh_completes_models_and_sessions(home, zsh):
    home.daemon()
    home.hob("-S", "no te", "-n", "1", "x", check=0)
    assert zsh.words("hob -m de\t") == ["-m", "default"]
    assert zsh.words("hob sess\tsho\tno\t") == ["sessions", "show", "no te"]
    assert zsh.words("hob mod\tr\tde\t") == ["models", "rm", "default"]
    assert zsh.words("hob -S n\t") == ["-S", "no te"]
    assert zsh.words("hob -m nobody -S n\t") == ["-m", "nobody", "-S", "n"]
    assert zsh.words("hob -t tr\t") == ["-t", "translate"]
    assert zsh.words("hob temp\tsh\ttr\t") == ["templates", "show", "translate"]
    assert zsh.words("hob --cont\text\ts\t") == ["--context=shift"]


def test_bash_completes_what_is_typed(home):
    home.daemon()
    home.hob("-S", "a:b c", "-n", "1", "x", check=0)
    t = Typist(home, ["bash", "--norc", "-i"], f". {DIR / 'hob.bash'}")
    assert t.words("hob --model=de\t") == ["--model=default"]
    assert t.words("hob --mod\tde\t") == ["--model", "default"]
    assert t.words("hob -S a:\t") == ["-S", "a:b c"]
    assert t.words("hob ses\tsh\ta\t") == ["sessions", "show", "a:b c"]
    assert t.words('hob -S "a\t') == ["-S", "a:b c"]
    t.close()
