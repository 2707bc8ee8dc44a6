# SPDX-License-Identifier: MIT
"""The limits of the log, and its switch in hob.conf (client/log/: limits, switch, write, store)."""
import json
import sqlite3
import subprocess
import time

import pytest
from conftest import BUILD
from test_log import database, exported
from test_shell_tools import desk, done, text  # noqa: F401

LOG = BUILD / "client" / "hob-log"
if not LOG.exists():
    pytest.skip("hob was built without SQLite", allow_module_level=True)


def write(home, number, prompt="p", size=0, age_ms=0, check=0, **more):
    """What hob does behind an answer."""
    x = {"uuid": f"u{number}", "began_ms": int(time.time() * 1000) + number, "kind": "chat", "status": 0, "prompt": prompt, **more}
    line = json.dumps({k: v for k, v in x.items() if v is not None}).encode()
    r = subprocess.run([LOG, "log", "write", str(size), str(age_ms)], input=line, env=home.env, capture_output=True, text=False)
    assert r.returncode == check, r.stderr
    return r.stderr.decode()


def test_size(desk):
    words = " ".join(f"word{i}" for i in range(20000))
    for i in range(1, 31):
        write(desk, i, words, size=2 << 20)
    xs = exported(desk)
    assert 3 <= len(xs) < 20 and xs[-1]["uuid"] == "u30" and [x["id"] for x in xs] == list(range(31 - len(xs), 31))
    assert database(desk).stat().st_size <= 2 << 20
    # One that is larger than the limit is the only one, and stays until the next.
    write(desk, 31, words * 20, size=1 << 20)
    assert [x["uuid"] for x in exported(desk)] == ["u31"]
    write(desk, 32, "small", size=1 << 20)
    assert [x["uuid"] for x in exported(desk)] == ["u32"] and database(desk).stat().st_size < 1 << 20


def test_age_removes_whole_conversations(desk):
    day = 86400000
    now = int(time.time() * 1000)
    write(desk, 1, "obsolete", began_ms=now - 9 * day)
    write(desk, 2, "begun", began_ms=now - 9 * day)
    write(desk, 3, "and continued", began_ms=now - day, conversation="u2", follows="u2")
    write(desk, 4, "new", age_ms=7 * day)
    assert [x["prompt"] for x in exported(desk)] == ["begun", "and continued", "new"]
    assert b"obsolete" not in database(desk).read_bytes()
    write(desk, 5, "newer", age_ms=day // 2)
    assert [x["prompt"] for x in exported(desk)] == ["new", "newer"]


def test_the_keys(desk):
    conf = desk.root / "config" / "hob" / "hob.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("log = yes\nlog-age = 1h\nlog-size = 0\n")
    write(desk, 1, "old", began_ms=1000)
    desk.script([text("yes"), done()])
    assert desk.hob("hi", check=0).err == ""
    assert [x["prompt"] for x in exported(desk)] == ["hi"]
    for line, says in (("log = maybe", "log: 'maybe' is not yes or no"), ("log-size = 5", "log-size: '5' is not 0 or at least 1M"),
                       ("log-size = x", "log-size: 'x' is not a size (bytes, or 512M, 4G)"), ("no-log = yes", "'no-log' can be set only on the command line")):
        conf.write_text(line + "\n")
        r = desk.hob("hi")
        assert (r.returncode, r.err) == (2, f"hob: {conf}:1: {says}\n")


@pytest.mark.parametrize("before, on, off", [
    (None, "log = yes\n", "log = no\n"),
    ("", "log = yes\n", "log = no\n"),
    ("# mine\ntemp = 0\n", "# mine\ntemp = 0\nlog = yes\n", "# mine\ntemp = 0\nlog = no\n"),
    ("temp = 0", "temp = 0\nlog = yes\n", "temp = 0\nlog = no\n"),
    ("  log=no # x\nlog-size = 4M\nlog = no", "log = yes\nlog-size = 4M\n", "log = no\nlog-size = 4M\n"),
])
def test_on_and_off(desk, before, on, off):
    conf = desk.root / "config" / "hob" / "hob.conf"
    if before is not None:
        conf.parent.mkdir(parents=True)
        real = desk.root / "dotfile"
        real.write_text(before)
        real.chmod(0o640)
        conf.symlink_to(real)
        if " # x" in before:
            real.write_text(before.replace(" # x", ""))
    r = desk.hob("log", "on", check=0)
    assert conf.read_text() == on and str(database(desk)) in r.err
    assert conf.is_symlink() == (before is not None) and conf.stat().st_mode & 0o777 == (0o600 if before is None else 0o640)
    desk.hob("log", "off", check=0)
    assert conf.read_text() == off and not list(conf.parent.glob("hob.conf.*"))


def test_on_with_a_broken_file(desk):
    """It says what is wrong, and changes nothing."""
    conf = desk.root / "config" / "hob" / "hob.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("nonsense\n")
    r = desk.hob("log", "on")
    assert r.returncode == 2 and f"{conf}:1: " in r.err and conf.read_text() == "nonsense\n"


@pytest.mark.parametrize("line, says", [
    (b"", "not JSON"), (b"[]", "not an object"), (b"{}", "uuid is missing"), (b'{"uuid":{}}', "uuid has the wrong type"),
    (b'{"uuid":"a","began_ms":1,"kind":"chat","status":0,"steps":"x"}', "steps has the wrong type"),
    (b'{"uuid":"a"', "not JSON"), (b"{" * 100, "not JSON"),
])
def test_a_wrong_exchange_is_refused(desk, line, says):
    r = subprocess.run([LOG, "log", "write", "0", "0"], input=line, env=desk.env, capture_output=True)
    assert r.returncode == 1 and says in r.stderr.decode() and r.stderr.count(b"\n") == 1


def test_what_a_newer_hob_sends_is_kept_out(desk):
    assert write(desk, 1, novelty={"a": [1, "x"]}, also="y") == ""
    assert "novelty" not in exported(desk)[0]


def test_a_killed_writer_leaves_a_whole_database(desk):
    write(desk, 1)
    for i in range(2, 40):
        p = subprocess.Popen([LOG, "log", "write", "0", "0"], stdin=subprocess.PIPE, env=desk.env)
        p.stdin.write(json.dumps({"uuid": f"u{i}", "began_ms": 1, "kind": "chat", "status": 0, "prompt": "word " * 30000}).encode())
        p.stdin.close()
        time.sleep(i * 0.0005)
        p.kill()
        p.wait()
    assert exported(desk)[0]["uuid"] == "u1"
    with sqlite3.connect(database(desk)) as c:
        assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        c.execute("INSERT INTO words(words) VALUES('integrity-check')")
    c.close()
