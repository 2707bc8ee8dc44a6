# SPDX-License-Identifier: MIT
"""hob index and hob find: what is printed, from where, and what is said when something is wrong. A scripted daemon gives the
vectors; the whole command also runs with a real one where this build's daemon embeds."""
import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import BUILD, HOB, mktiny
from embedpeer import EmbedPeer
from terminal import on_terminal

PROBE = "The quick brown fox jumps over the lazy dog."

if not (BUILD / "client" / "hob-find").exists():
    pytest.skip("this build has no hob-find (needs SQLite)", allow_module_level=True)


@pytest.fixture
def peer(home):
    home.socket.parent.mkdir(exist_ok=True, mode=0o700)
    p = EmbedPeer(home.root / "peer.sock")
    home.env["HOB_SOCKET"] = str(home.root / "peer.sock")
    yield p
    p.close()


@pytest.fixture
def tree(home):
    top = home.root / "tree"
    (top / "src").mkdir(parents=True)
    (top / "fruit.txt").write_text("A list.\nApples are red.\nPears are green.\n")
    (top / "src" / "door.c").write_text("int main(void)\n{\n    open_door();\n}\n")
    return top


def hob(home, cwd, *args, check=0, **kw):
    r = subprocess.run([str(HOB), *map(str, args)], cwd=cwd, env={**home.env, **kw}, stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=60)
    r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
    assert r.returncode == check, (r.returncode, r.out, r.err)
    return r


def test_places_are_printed_like_grep(home, peer, tree):
    r = hob(home, tree, "index")
    assert "2 files (2 new or changed, 0 gone), 2 chunks" in r.err and not r.out
    assert hob(home, tree, "find", "apples", "red").out.splitlines()[0] == "fruit.txt:2:Apples are red."
    assert hob(home, tree / "src", "find", "pears green", "-n", "1").out == "../fruit.txt:3:Pears are green.\n"
    assert hob(home, tree / "src", "find", "-n1", "open door").out == "door.c:3:    open_door();\n"
    assert len(hob(home, tree, "find", "x").out.splitlines()) == 2
    line = json.loads(hob(home, tree, "find", "--jsonl", "-n", "1", "apples").out)
    assert (line["file"], line["line"], line["first"], line["last"], line["text"]) == ("fruit.txt", 2, 1, 3, "Apples are red.")
    assert 0 < line["score"] <= 1.001


def test_only_what_changed_is_embedded(home, peer, tree):
    hob(home, tree, "index")
    os.utime(tree / "fruit.txt", (1e9, 1e9))
    hob(home, tree, "index", "-q")
    before = len(peer.texts)
    (tree / "src" / "door.c").rename(tree / "src" / "gate.c")
    (tree / "new.txt").write_text("Plums are blue.\n")
    hob(home, tree / "src", "index")
    assert peer.texts[before:] == [PROBE, "Plums are blue.\n"]
    assert hob(home, tree, "find", "open door", "-n1").out.startswith("src/gate.c:3:")


def test_changed_and_removed_files_are_told(home, peer, tree):
    hob(home, tree, "index")
    (tree / "fruit.txt").write_text("A list.\nNo fruit.\n")
    os.utime(tree / "fruit.txt", (1e9, 1e9))
    (tree / "src" / "door.c").unlink()
    r = hob(home, tree, "find", "apples")
    assert r.out.splitlines() == ["fruit.txt:1:A list."]
    assert "gone since they were indexed: run hob index" in r.err and "1 are gone" in r.err
    assert "hob index" not in hob(home, tree, "find", "-q", "apples").err


def test_prefixes_are_kept(home, peer, tree):
    hob(home, tree, "index", "--prefix", "passage: ", "--question-prefix", "query: ", "-m", "default")
    assert all(t.startswith("passage: ") or t == PROBE for t in peer.texts)
    hob(home, tree, "find", "apples")
    assert "query: apples" in peer.texts
    assert "another --prefix" in hob(home, tree, "index", "--prefix", "x", check=1).err


def test_answer_with_sources(home, peer, tree):
    hob(home, tree, "index")
    r = hob(home, tree, "find", "-a", "which", "apples?", "-n", "1")
    assert r.out == "It is so [1].\n\nSources:\n[1] fruit.txt:1-3\n"
    system, user = peer.prompts[0]["messages"]
    assert system["role"] == "system" and "numbered excerpts" in system["content"]
    assert user["content"].startswith("[1] fruit.txt:1-3\nA list.\nApples") and user["content"].endswith("Question: which apples?")


def shown(home, cwd, *args, **env):
    """What hob writes to a terminal."""
    out, status = on_terminal([HOB, *args], cwd=cwd, env={**home.env, "TERM": "xterm", **env})
    assert status == 0, out
    return out.decode()


def test_a_terminal_gets_colors_and_no_escapes_of_files(home, peer, tree):
    (tree / "evil\x1b]0;x\x07\n.txt").write_text("red \x1b[2J apples\n")
    (tree / "fruit.txt").unlink()
    hob(home, tree, "index")
    out = shown(home, tree, "find", "-n1", "apples")
    assert "\x1b[1;31mapples\x1b[m" in out
    assert "\x1b]" not in out and "\x07" not in out and "\x1b[2J" not in out and out.count("\n") == 1
    plain = shown(home, tree, "find", "-n1", "apples", NO_COLOR="1")
    assert "\x1b" not in plain and "apples" in plain
    piped = hob(home, tree, "find", "-n1", "apples").out
    assert piped == "evil\x1b]0;x\x07\n.txt:1:red \x1b[2J apples\n"


def test_list_and_rm(home, peer, tree):
    assert hob(home, tree, "index", "--list").out.split() == ["FOLDER", "FILES", "CHUNKS", "SIZE", "MODEL", "DIMS", "STATE"]
    assert "there is no index" in hob(home, tree, "index", "--rm", check=1).err
    hob(home, tree, "index")
    index = json.loads(hob(home, home.root, "index", "--list", "--jsonl").out)
    assert (index["folder"], index["files"], index["chunks"], index["dims"], index["state"]) == (str(tree), 2, 2, 256, "ok")
    assert index["index"].startswith(str(home.root / "cache" / "hob" / "index"))
    modes = {p.name: p.stat().st_mode & 0o777 for p in Path(index["index"]).iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert " ok" in hob(home, tree, "index", "--list").out
    assert "removed the index" in hob(home, tree / "src", "index", "--rm").err
    assert not os.path.exists(index["index"])
    hob(home, tree, "index", "-q")
    tree.rename(home.root / "moved")
    assert " gone" in hob(home, home.root, "index", "--list").out
    hob(home, home.root, "index", "--rm", tree)
    (home.root / "moved").rename(tree)
    hob(home, tree, "find", "x", check=1)


def test_wrong_usage_is_told_in_one_line(home, peer, tree):
    cases = [(("find",), "usage: hob find"), (("find", "--dims", "3", "x"), "--dims cannot be used with 'find'"),
             (("find", "-m", "x", "y"), "-m of 'find'"), (("find", "-n", "0", "x"), "--number: '0'"),
             (("find", "-n", "1001", "x"), "--number: '1001'"), (("find", "--bogus", "x"), "unknown option '--bogus'"),
             (("find", "-a", "--jsonl", "x"), "cannot be used together"), (("index", "--dims", "x"), "--dims: 'x'"),
             (("index", "--max-size", "17M"), "--max-size: '17M'"), (("index", "a", "b"), "one folder at a time"),
             (("index", "--list", "--rm"), "cannot be used together"), (("index", "--rm", "--dims", "3"), "take no options"),
             (("index", "--jsonl"), "goes with --list"), (("index", "-m"), "needs a value"),
             (("index", "-m", ""), "the name is empty"), (("-q", "find", "x"), "must come first")]
    for args, said in cases:
        r = hob(home, tree, *args, check=2)
        assert said in r.err and r.err.count("\n") == 1 and not r.out, (args, r.err)
    for word in ("index", "find"):
        assert "hob find -a QUESTION" in hob(home, tree, word, "--help").out


def test_errors_tell_what_to_do(home, peer, tree):
    r = hob(home, tree, "find", "x", check=1)
    assert "hob index -m MODEL" in r.err and r.err.count("\n") == 1
    assert "no such" in hob(home, tree, "index", "nowhere", check=1).err.lower()
    assert "no such" in hob(home, tree, "index", "/no/where", check=1).err.lower()
    assert not (home.root / "cache" / "hob" / "index").exists()
    assert "is not a folder" in hob(home, tree, "index", "fruit.txt", check=1).err
    (tree / "empty").mkdir()
    hob(home, tree, "index", "empty")
    assert "is empty" in hob(home, tree / "empty", "find", "x", check=1).err
    hob(home, tree, "index")
    assert "another --model" in hob(home, tree, "index", "-m", "other", check=1).err
    assert "another --dims" in hob(home, tree, "index", "--dims", "3", check=1).err
    peer.seed, peer.words = 1, {}
    r = hob(home, tree, "find", "x", check=1)
    assert "another model" in r.err and f"hob index --rm {tree}" in r.err and r.err.count("\n") == 1
    peer.dim, peer.words = 32, {}
    assert "256 dims, now 32" in hob(home, tree, "find", "x", check=1).err
    peer.fail = "the model gives no embeddings"
    assert hob(home, tree, "find", "x", check=1).err == "hob: the model gives no embeddings\n"
    assert hob(home, tree, "find", "x", check=69, HOB_SOCKET=str(tree / "none")).err.count("\n") == 1


def test_a_damaged_index_is_told(home, peer, tree):
    hob(home, tree, "index")
    place = json.loads(hob(home, tree, "index", "--list", "--jsonl").out)["index"]
    for name, junk in (("vectors-1", b"x" * 100), ("index.db", b"y" * 9000), ("index.db", b"")):
        with open(f"{place}/{name}", "wb") as f:
            f.write(junk)
        r = hob(home, tree, "find", "apples", check=1)
        assert "is damaged" in r.err and f"hob index --rm {tree}" in r.err and r.err.count("\n") == 1, r.err
        assert "damaged" in hob(home, tree, "index", "--list").out or name == "vectors-1"
        hob(home, tree, "index", "--rm")
        hob(home, tree, "index")
        assert hob(home, tree, "find", "-n1", "apples").out.startswith("fruit.txt:2:")


def test_interrupted_indexing_goes_on(home, peer, tree):
    for i in range(700):
        (tree / f"f{i:04}.txt").write_text(f"number w{i}\n")
    peer.hold = threading.Event()
    p = subprocess.Popen([str(HOB), "index"], cwd=tree, env=home.env, stderr=subprocess.PIPE)
    assert peer.asked.wait(60)  # it has the lock of the index
    assert "another hob index works" in hob(home, tree, "index", check=75).err
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130
    peer.hold.set()
    peer.hold = None
    for _ in range(3):
        p = subprocess.Popen([str(HOB), "index"], cwd=tree, env=home.env, stderr=subprocess.DEVNULL)
        try:
            p.wait(0.15)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
    hob(home, tree, "index")
    assert hob(home, tree, "find", "-n1", "w699").out == "f0699.txt:1:number w699\n"
    expected = {p.read_text() for p in tree.rglob("*.*")} | {PROBE, "w699"}
    assert set(peer.texts) == expected
    assert json.loads(hob(home, tree, "index", "--list", "--jsonl").out)["chunks"] == 702


def test_a_text_too_long_for_the_model_is_shortened(home, peer, tree):
    for i in range(230):
        (tree / f"f{i:03}.txt").write_text(f"number w{i} " + ("long " * (100 if i % 50 == 7 else 1)) + "\n")
    peer.limit = 150
    r = hob(home, tree, "index")
    assert "232 chunks" in r.err and "too long" not in r.err
    assert hob(home, tree, "find", "-n1", "w57", "long").out.startswith("f057.txt:1:number w57 long")
    assert hob(home, tree, "find", "-n1", "w229").out.startswith("f229.txt:1:")


def test_search_gives_the_same_on_every_cpu(home, peer, tree):
    for i in range(200):
        (tree / f"f{i:03}.txt").write_text(" ".join(f"w{(i * k) % 50}" for k in range(20)) + "\n")
    hob(home, tree, "index")
    said = {hob(home, tree, "find", "--jsonl", "-n", "50", "w1 w7 w9", HOB_CPU=cpu).out for cpu in ("scalar", "avx2", "amx")}
    assert len(said) == 1 and len(re.findall("\n", said.pop())) == 50


def test_a_real_daemon_and_its_model(home):
    """With random weights only an equal text is sure to be nearest."""
    model = home.root / "mean.gguf"
    mktiny(model, "--seed", 5, "--arch", "qwen3", "--pooling", 1, "--ctx", 512)
    (home.models / "embed.gguf").symlink_to(model)
    tree = home.root / "tree"
    tree.mkdir()
    for i in range(60):
        (tree / f"f{i:02}.txt").write_text(f"the cat {i} sat on hill {i * 7} while rain fell\n")
    (tree / "long.txt").write_text("x" * 1000)
    try:
        r = hob(home, tree, "index", "-m", "embed")
        assert "61 files (61 new or changed, 0 gone), 61 chunks" in r.err
        for i in (0, 17, 59):
            text = (tree / f"f{i:02}.txt").read_text()
            first = json.loads(hob(home, tree, "find", "--jsonl", "-n", "1", text).out)
            assert first["file"] == f"f{i:02}.txt" and first["score"] > 0.99
    finally:
        hob(home, tree, "stop", "-m", "embed")


def test_a_model_without_embeddings_is_told(home, tree, tiny):
    try:
        r = hob(home, tree, "index", check=1)
        assert r.err.count("\n") == 1 and "hob: " in r.err, r.err
    finally:
        hob(home, tree, "stop")
