# SPDX-License-Identifier: MIT
"""The manual pages beside what --help tells: the same options, and the same defaults."""
import re
import shutil
import subprocess

import pytest
from conftest import HOB, HOBD, TOP, Home
from httpgate import HOB_HTTP


def page(name):
    return (TOP / "man" / f"{name}.scd").read_text()


def section(text, head):
    return re.search(rf"^# {head}\n(.*?)(?=^# [A-Z' ]+\n|\Z)", text, re.M | re.S).group(1)


def entries(text, pattern):
    """Option -> what is said of it."""
    parts = re.split(pattern, text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def help_options(command):
    """Option -> its line."""
    out = subprocess.run([HOBD, command, "--help"], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^ +(?:-\w, )?--([a-z-]+)(.*)$", out, re.M))


def default(text):
    """What stands behind "default", when that is one word."""
    m = re.search(r"[Dd]efault: ([^\s]+?)(?:\)$|\.\s|\.?$)", text, re.M)
    return m.group(1).strip("_") if m else None


SERVE = {k: v for k, v in help_options("serve").items() if k not in ("help", "version")} if HOBD.exists() else {}
KEY = r"^\*([a-z-]+)\* = "
OPTION = r"^\*(?:-\w, )?--([a-z-]+)\*"
BOTH = "*--parallel* _N_, *--batch-tokens* _N_\n"  # two in one entry


def test_every_option_is_a_key():
    assert set(SERVE) > {"model", "kv-type"}
    assert set(entries(section(page("hobd.conf.5"), "KEYS"), KEY)) == set(SERVE) - {"system"}


@pytest.mark.parametrize("command", ["serve", "bench", "perplexity", "verify", "tokenize", "constrain", "template", "parse", "inspect", "media", "encode", "embed", "simulate"])
def test_every_option_is_in_the_page(command):
    text = section(page("hobd.8"), command.upper()).replace(BOTH, BOTH.replace(", ", "\n"))
    said = entries(text, OPTION)
    assert set(said) == set(help_options(command)) - {"help", "version"}


@pytest.mark.parametrize("where", ["hobd.8", "hobd.conf.5"])
def test_defaults_agree(where):
    said = entries(section(page("hobd.8"), "SERVE"), OPTION) if where == "hobd.8" else \
        entries(section(page("hobd.conf.5"), "KEYS"), KEY)
    compared = 0
    for key, line in SERVE.items():
        mine, its = default(line), default(said.get(key, ""))
        if mine and its:
            assert mine == its, key
            compared += 1
    assert compared >= 12


def test_the_example_is_a_configuration(tmp_path):
    """It is read to its end: all that is missing then is the model."""
    text = re.search(r"^```\n(.*?)^```", section(page("hobd.conf.5"), "EXAMPLE"), re.M | re.S).group(1)
    home = Home(tmp_path)
    conf = tmp_path / "config" / "hob"
    conf.mkdir(parents=True)
    (conf / "hobd.conf").write_text(text)
    r = subprocess.run([HOBD], env=home.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and re.search(r"^model = (\S+)", text, re.M).group(1) in r.stderr, r.stderr


@pytest.mark.parametrize("name", ["hob.1", "hob-find.1", "hob-http.1", "hob-log.1", "hob-models.1", "hobd.8", "hobd.conf.5", "hob-protocol.7"])
def test_the_page_is_well_made(name, tmp_path):
    if not shutil.which("scdoc") or not shutil.which("mandoc"):
        pytest.skip("scdoc or mandoc is not installed")
    made = subprocess.run(["scdoc"], input=page(name).encode(), capture_output=True)
    assert made.returncode == 0, made.stderr
    (tmp_path / name).write_bytes(made.stdout)
    r = subprocess.run(["mandoc", "-T", "lint", "-W", "error", tmp_path / name], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout


def test_the_picture_is_of_its_source():
    """README shows way.svg; what one edits is way.dot."""
    doc = TOP / "packaging" / "doc"
    r = subprocess.run(["sh", doc / "way.sh", "-c"], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert "packaging/doc/way.svg" in (TOP / "README.md").read_text()


def test_the_tests_that_readme_names_exist():
    named = set(re.findall(r"`(test[-_][\w-]+)(\*)?(?:\.py)?`", (TOP / "README.md").read_text()))
    assert len(named) > 20
    have = {p.stem for p in (TOP / "tests").rglob("test[-_]*.[cp]*")}
    for name, more in named:
        assert any(h == name or (more and h.startswith(name)) for h in have), name


def hob_help():
    return subprocess.run([HOB, "--help"], capture_output=True, text=True, check=True).stdout


def test_every_option_of_hob_is_in_the_page():
    text = section(page("hob.1"), "OPTIONS")
    said = set(re.findall(r"\*--([a-z-]+)\*", "\n".join(re.findall(r"^\*-.*$", text, re.M))))
    told = re.findall(r"^  (?:-\w, |    )--([a-z-]+)", hob_help(), re.M)
    assert said == set(told) | {"image"}
    first = [o for o in re.findall(r"^\*(?:-\w\*, \*)?--([a-z-]+)\*.*\n\t", text, re.M) if o != "image"]
    assert first == sorted(first, key=told.index)


def test_every_key_of_hob_conf_is_in_the_page(tmp_path):
    """What is an option and no key is refused as such, in the file's line."""
    said = set(re.findall(r"\*([a-z-]+)\*", section(page("hob.1"), "CONFIGURATION").split("overrides the file:")[1].split("An option without")[0]))
    home = Home(tmp_path)
    conf = tmp_path / "config" / "hob"
    conf.mkdir(parents=True)
    keys = set()
    for option in re.findall(r"^  (?:-\w, |    )--([a-z-]+)", hob_help(), re.M):
        (conf / "hob.conf").write_text(f"# a comment\n{option} = 1\n")
        r = home.hob("status")
        if "can be set only on the command line" in r.err:
            assert r.returncode == 2 and f"{conf}/hob.conf:2: '{option}'" in r.err
        else:
            keys.add(option)
    assert keys == said


def test_a_wrong_key_of_hob_conf_names_the_nearest(tmp_path):
    home = Home(tmp_path)
    conf = tmp_path / "config" / "hob"
    conf.mkdir(parents=True)
    for line, says in [("tempp = 1", "unknown key 'tempp', nearest is 'temp'"), ("temp = warm", "temp: 'warm' is not a number"),
                       ("priority = high", "priority: must be infill, interactive or batch"), ("xyzzy = 1", "unknown key 'xyzzy'"),
                       ("temperature = 1", "unknown key 'temperature', nearest is 'temp'")]:
        (conf / "hob.conf").write_text(f"\n{line}\n")
        r = home.hob("hi", check=2)
        assert r.err == f"hob: {conf}/hob.conf:2: {says}\n", r.err


def test_every_option_of_hob_http_is_in_the_page():
    out = subprocess.run([HOB_HTTP, "--help"], capture_output=True, text=True, check=True).stdout
    told = re.findall(r"^  (?:-\w, |    )--([a-z-]+)", out, re.M)
    text = section(page("hob-http.1"), "OPTIONS")
    assert re.findall(r"^(?:\*-\w\*, )?\*--([a-z-]+)\*", text, re.M) == told and len(told) > 7
    defaults = dict(re.findall(r"--([a-z-]+) .*\(default: ([^)\s]+)\)", out))
    said = entries(text, r"^(?:\*-\w\*, )?\*--([a-z-]+)\*")
    assert len(defaults) > 2 and all(default(said[k]) == v for k, v in defaults.items())


@pytest.mark.parametrize("program", [[HOB], [HOB, "models"], [HOB, "log"], [HOBD], [HOB_HTTP]] +
                         [[HOBD, c] for c in ("serve", "bench", "perplexity", "verify", "tokenize", "constrain", "template", "parse", "inspect", "media", "embed", "simulate")],
                         ids=lambda p: "-".join([p[0].name, *p[1:]]))
def test_help_has_80_columns(program):
    out = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True).stdout
    assert [line for line in out.splitlines() if len(line) > 80] == []


def test_the_links_of_readme_lead_somewhere():
    text = (TOP / "README.md").read_text()
    heads = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 8
    for link in links:
        assert link[1:] in heads if link.startswith("#") else "://" in link or (TOP / link).exists(), link


def test_commands_of_chat(tmp_path):
    """/help and the page: the same commands, with a value, without one, or with one that may be left out."""
    out = Home(tmp_path).hob("chat", input=b"/help\n", check=0).err
    shown = {name: bool(value) + (value[:1] == "[") for head in re.findall(r"^/.*?(?=  |$)", out, re.M)
             for name, value in re.findall(r"(/\w+) ?([^,]*)", head)}
    text = section(page("hob.1"), "COMMANDS").split("\n*chat*\n")[1].split("begin it with a space.")[1].split("\n*models*\n")[0]
    told = {}
    for name, value in re.findall(r"\*(/[a-z]+)\* ?(\[|_|)", text):
        told.setdefault(name, ["", "_", "["].index(value))
    assert {"/think", "/tools", "/schema", "/quit"} <= set(shown) and shown == told
    values = re.search(r"\*/think\* \[(.*?)\]", text).group(1).replace("*", "").split("|")
    assert values == re.search(r"/think .*: (.*\n.*)", out).group(1).replace(" or ", ", ").replace(",", " ").split()
