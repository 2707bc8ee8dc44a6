# SPDX-License-Identifier: MIT
"""hob map: a prompt for each file."""
import struct

from conftest import BUILD
from write_orders import recorded


def files(folder, n=3):
    for i in range(n):
        (folder / f"f {i}.txt").write_text(f"the text of {i}\n\n")
    return [f"f {i}.txt" for i in range(n)]


def run(home, folder, *argv, **kw):
    import os
    here = os.getcwd()
    os.chdir(folder)
    try:
        return home.hob("map", *argv, "--temp", "0", "-n", "5", **kw)
    finally:
        os.chdir(here)


def test_answers_stand_under_headings(shared, tmp_path):
    names = files(tmp_path)
    r = run(shared, tmp_path, "Sum up: {} End of {}", *names, input=None, check=0)
    want = ""
    for i, name in enumerate(names):
        alone = shared.hob("--temp", "0", "-n", "5", f"Sum up: the text of {i} End of the text of {i}", input=None, check=0).out
        want += f"{chr(10) if i else ''}==> {name} <==\n{alone.removesuffix(chr(10))}\n"
    assert r.out == want and not r.err


def test_without_braces_the_text_comes_first(shared, tmp_path):
    files(tmp_path, 1)
    alone = shared.hob("--temp", "0", "-n", "5", "the text of 0\n\nWhat?", input=None, check=0).out
    assert run(shared, tmp_path, "What?", "f 0.txt", input=None, check=0).out.endswith(f"<==\n{alone}")


def test_names_from_standard_input(shared, tmp_path):
    names = files(tmp_path)
    by_words = run(shared, tmp_path, "x {}", *names, input=None, check=0).out
    assert run(shared, tmp_path, "x {}", "-0", input="\0".join(names).encode() + b"\0", check=0).out == by_words
    assert run(shared, tmp_path, "x {}", input="\n".join(names).encode(), check=0).out == by_words
    (tmp_path / "two\nlines").write_text("x")
    r = run(shared, tmp_path, "x {}", "--null", input=b"two\nlines", check=0)
    assert r.out.startswith("==> two lines <==\n")


def test_write(shared, tmp_path):
    names = files(tmp_path)
    assert run(shared, tmp_path, "x {}", "--write", *names, input=None, check=0).out == ""
    made = {n: (tmp_path / f"{n}.out").read_text() for n in names}
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names, *(f"{n}.out" for n in names)])
    r = run(shared, tmp_path, "y {}", "--write", names[0], input=None, check=1)
    assert "f 0.txt.out exists: give --resume" in r.err
    (tmp_path / "f 1.txt.out").unlink()
    run(shared, tmp_path, "x {}", "--write", "--resume", *names, input=None, check=0)
    assert {n: (tmp_path / f"{n}.out").read_text() for n in names} == made


def test_an_answer_is_on_the_disk_before_its_name(shared, tmp_path):
    """Otherwise a power failure may leave an empty file, which --resume would keep."""
    files(tmp_path, 1)
    log = tmp_path / "log"
    log.touch()
    run(shared, tmp_path, "x {}", "--write", "f 0.txt", input=None, check=0, env=recorded(BUILD, log))
    found, data, at = [], log.read_bytes(), 0
    inode = (tmp_path / "f 0.txt.out").stat().st_ino
    while at < len(data):  # struct record of tests/crash/record.h
        size, op, _, _, file = struct.unpack_from("<IHBBQ", data, at)
        found += [op] * (file == inode)
        at += size
    create, rename, write, ask, sync = 1, 4, 6, 8, 9
    assert found == [create, write, ask, sync, rename], found


def test_files_that_fail(shared, tmp_path):
    names = files(tmp_path, 2)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"a\xff")
    r = run(shared, tmp_path, "x {}", names[0], "nothing", "empty", "bytes", ".", names[1], input=None, check=1)
    assert r.out.count("==>") == 2
    assert r.err.splitlines() == ["hob: nothing: No such file or directory", "hob: empty is empty", "hob: bytes: invalid UTF-8 at byte 1",
                                  "hob: .: Is a directory", "hob: 4 of 6 failed"]


def test_usage(shared):
    for argv, why in (([], "map needs a prompt"), (["x", "f", "-0"], "give no files"), (["x", "--resume"], "--resume needs --write"),
                      (["x", "--out", "f"], "--out cannot be used with 'map'"), (["x", "-f", "y"], "--file cannot be used with 'map'")):
        r = shared.hob("map", *argv, input=b"")
        assert r.returncode == 2 and why in r.err and not r.out, (argv, r.err)
