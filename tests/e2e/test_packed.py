# SPDX-License-Identifier: MIT
"""The packed weights' file across starts of the daemon."""
import json
import re
import struct
import time
from pathlib import Path

from conftest import Home, mktiny
from sparse_model import sparse_model

ASK = ("--raw", "--seed", "3", "-n", "16", "--temp", "0.7", "once upon a time")


def folder(home):
    return home.root / "cache" / "hob" / "packed"


def files(home):
    return sorted(folder(home).glob("*.hobw")) if folder(home).exists() else []


def wait_for_file(home):
    deadline = time.monotonic() + 60
    while not files(home):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return files(home)[0]


def status(home):
    return json.loads(home.hob("status", "--json", check=0).out)


def ask(home):
    return home.hob(*ASK, check=0).out


def stop(home, p):
    home.hob("stop", check=0)
    assert p.wait(60) == 0


def start(home, *args):
    p = home.daemon(*args)
    mapped = status(home)["weights_mapped"]
    return p, mapped


def test_second_start_maps_them(home):
    p, mapped = start(home)
    assert not mapped
    said = ask(home)
    weights = status(home)["weights_bytes"]
    wait_for_file(home)
    stop(home, p)
    p, mapped = start(home)
    assert mapped
    assert ask(home) == said
    assert status(home)["weights_bytes"] == weights
    stop(home, p)
    assert oct(folder(home).stat().st_mode & 0o777) == "0o700"
    assert sorted(f.suffix for f in folder(home).iterdir()) == [".hobw", ".id"]


def test_in_memory_only(home):
    p, mapped = start(home, "--packed-file", "no")
    ask(home)
    stop(home, p)
    assert [f.suffix for f in folder(home).iterdir()] == [".id"]
    (home.root / "config" / "hob").mkdir(parents=True, exist_ok=True)
    (home.root / "config" / "hob" / "hobd.conf").write_text("packed-file = no\n")
    p, mapped = start(home)
    assert not mapped
    stop(home, p)
    assert [f.suffix for f in folder(home).iterdir()] == [".id"]
    p, mapped = start(home, "--packed-file", "yes")
    wait_for_file(home)
    stop(home, p)


def test_damage_ends_the_daemon_and_the_next_repacks(home):
    p, _ = start(home)
    said = ask(home)
    path = wait_for_file(home)
    stop(home, p)
    raw = bytearray(path.read_bytes())
    image, = struct.unpack_from("<Q", raw, 48)
    raw[image + 5000] ^= 1
    path.write_bytes(raw)
    p = home.daemon(wait=False)
    assert p.wait(60) == 1
    assert "is wrong; the file was removed" in p.log.read_text()
    assert not path.exists()
    p, mapped = start(home)
    assert not mapped and ask(home) == said
    wait_for_file(home)
    stop(home, p)


def test_two_daemons_at_once(home):
    a = home.daemon(wait=False)
    # of the same packed weights, but with sessions of its own
    b = home.daemon(socket=home.run / "second.sock", wait=False, env={"XDG_STATE_HOME": str(home.root / "other")})
    home.wait_ready(a)
    home.wait_ready(b)
    wait_for_file(home)
    home.hob("stop", env={"HOB_SOCKET": str(b.path)}, check=0)
    assert b.wait(60) == 0
    stop(home, a)
    p, mapped = start(home)
    assert mapped
    ask(home)
    stop(home, p)
    assert len(files(home)) == 1


def test_model_behind_the_name_changes(home, tmp_path):
    p, _ = start(home)
    said = ask(home)
    old = wait_for_file(home)
    stop(home, p)
    link = home.models / "default.gguf"
    link.unlink()
    mktiny(link, "--seed", 8)
    p, mapped = start(home)
    assert not mapped and ask(home) != said
    stop(home, p)
    p, mapped = start(home)
    while len(files(home)) < 2:
        time.sleep(0.02)
    stop(home, p)
    assert old in files(home)  # its model is still there, under another path
    p, mapped = start(home)
    assert mapped and ask(home) != said
    stop(home, p)


def peak(p):
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{p.pid}/status").read_text()).group(1)) << 10


def test_weights_are_in_memory_once(tmp_path):
    """While they are packed, only a part of the file is in memory beside them, also of a large tensor."""
    small = mktiny(tmp_path / "small.gguf", "--layers", 1, "--dim", 1024, "--heads", 8, "--kv-heads", 2, "--head-dim", 128,
                   "--type", "Q4_0", "--untied")
    beside = []
    for name, ffn in (("narrow", 1024), ("wide", 131072)):
        (tmp_path / name).mkdir()
        total = sparse_model(small, tmp_path / name / "model.gguf", 1, ffn)
        h = Home(tmp_path / name, tmp_path / name / "model.gguf")
        p = h.daemon("--packed-file", "no", "--kv-bytes", "4M", "--ctx", "256", "--batch-tokens", "16")
        weights = h.status()["weights_bytes"]
        beside.append(peak(p) - weights)
        h.stop()
    assert total > 200 << 20 and weights > 200 << 20
    # Once in the image, and 16 MiB of the file with a margin for what the threads take.
    assert beside[1] - beside[0] < 32 << 20
