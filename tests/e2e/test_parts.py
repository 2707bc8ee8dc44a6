# SPDX-License-Identifier: MIT
"""Models in parts: read as one file, with all errors that their parts can have; added, pulled, listed and removed as one."""
import json
import subprocess
import time

import pytest
from conftest import BUILD, HOBD, Home, mktiny
from cutgguf import cut, read, split_keys, write
from test_models import Server, files, listed, models, ranged
from test_packed import ask, start, stop, wait_for_file

LOGITS = BUILD / "tests" / "support" / "logits"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return mktiny(tmp_path_factory.mktemp("parts") / "whole.gguf", "--arch", "qwen3")


@pytest.fixture
def parts(whole, tmp_path):
    return cut(whole, tmp_path / "m", 3)


@pytest.fixture
def empty(tmp_path):
    h = Home(tmp_path)
    yield h
    h.stop()


@pytest.fixture
def web():
    if b"without libcurl" in subprocess.run([BUILD / "client" / "hob", "models", "pull", "x"], capture_output=True).stderr:
        pytest.skip("hob was built without libcurl")
    s = Server()
    yield s
    s.shutdown()
    s.server_close()


def logits(path):
    r = subprocess.run([LOGITS, path, "64", "0", *map(str, range(20, 40))], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    return r.stdout


def verify(path):
    return subprocess.run([HOBD, "verify", "-m", path], capture_output=True, text=True, timeout=60)


def inspect(path):
    return json.loads(subprocess.run([HOBD, "inspect", "--json", path], capture_output=True, text=True, timeout=60).stdout)


def test_the_bits_of_the_whole_file(whole, parts):
    assert logits(parts[0]) == logits(whole)
    assert inspect(parts[0])["parts"] == 3 and inspect(parts[0])["supported"]
    assert inspect(parts[0])["bytes"] == sum(p.stat().st_size for p in parts)
    out = subprocess.run([HOBD, "inspect", parts[0]], capture_output=True, text=True).stdout
    assert " in 3 parts\n" in out and f"\ntensors: {len(read(whole.read_bytes())[2])}, " in out


def test_links_and_other_names(whole, parts, tmp_path):
    """The others are found by the name of the first, and where its link leads, as in Hugging Face's cache."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.gguf").symlink_to(parts[0])
    assert logits(tmp_path / "there" / "x.gguf") == logits(whole)
    parts[0].rename(tmp_path / "m.gguf")
    assert logits(tmp_path / "m.gguf") == logits(whole)


def refused(path, why):
    r = verify(path)
    assert r.returncode == 1 and not r.stdout and r.stderr.count("\n") == 1 and why in r.stderr, r.stderr
    assert not inspect(path)["supported"]


def test_what_parts_can_lack(whole, parts, tmp_path):
    first, second, third = parts
    bytes_of = [p.read_bytes() for p in parts]
    refused(second, f"part 2 of 3 of a split model: name its first part, {first}")
    third.unlink()
    refused(first, f"{first}: part 3 of 3 is missing: {third} does not exist")
    assert not inspect(first)["complete"] and inspect(first)["architecture"] == "qwen3"
    third.write_bytes(bytes_of[1])
    refused(first, f"{third}: this is part 2 of 3, not part 3 of 3 of {first}")
    third.write_bytes(whole.read_bytes())
    refused(first, f"{third}: this is part 1 of 1, not part 3 of 3 of {first}")
    third.write_bytes(bytes_of[2][:-1])
    refused(first, f"{third}: at byte ")
    _, _, tensors = read(bytes_of[2])
    n = len(read(whole.read_bytes())[2])
    write(third, split_keys(2, 3, n + 1), 3, tensors)
    refused(first, f"{third}: a part of another model: key 'split.tensors.count' is {n + 1}, in {first} {n}")
    write(third, split_keys(2, 3, n), 3, tensors[1:])
    refused(first, f"{first}: the 3 parts have {n - 1} tensors, but key 'split.tensors.count' is {n}")
    write(third, split_keys(2, 3, n), 3, tensors[1:] + read(bytes_of[1])[2][:1])
    refused(first, "appears twice")
    for count, no, why in ((2000, 0, "key 'split.count' is 2000; the limit is 1024 parts"),
                           (3, 7, "key 'split.no' is 7, but 'split.count' is 3"), (0, 1, "'split.count' is 0")):
        keys, n_keys, mine = read(whole.read_bytes())
        write(first, keys + split_keys(no, count, n), n_keys + 3, mine)
        refused(first, why)


def test_served_packed_and_watched(parts, empty):
    """The fingerprint covers all parts: packed weights of one set are not those of another."""
    (empty.models / "default.gguf").symlink_to(parts[0])
    p, mapped = start(empty)
    said = ask(empty)
    assert not mapped
    wait_for_file(empty)
    stop(empty, p)
    p, mapped = start(empty)
    assert mapped and ask(empty) == said
    data = parts[2].read_bytes()
    parts[2].write_bytes(data[:-64] + bytes(64))
    for _ in range(100):
        if "changed after it was loaded" in empty.hob("status", check=0).out:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the change of part 3 is not told")
    stop(empty, p)
    p, mapped = start(empty)
    assert not mapped
    stop(empty, p)


@pytest.mark.parametrize("how", [[], ["--copy"], ["--link"]])
def test_add_and_remove(whole, parts, empty, how):
    r = models(empty, "add", *how, parts[0], check=0)
    assert "m: " in r.err and " in 3 parts, " in r.err
    assert files(empty) == ["m-00002-of-00003.gguf", "m-00003-of-00003.gguf", "m.gguf"]
    assert list(listed(empty)) == ["m"] and listed(empty)["m"]["supported"]
    assert logits(empty.models / "m.gguf") == logits(whole)
    models(empty, "add", *how, parts[0], check=1)
    models(empty, "add", "--force", *how, parts[0], check=0)
    assert logits(empty.models / "m.gguf") == logits(whole)
    models(empty, "add", "--force", *how, whole, "m", check=0)
    assert files(empty) == ["m.gguf"]
    models(empty, "add", "--force", *how, parts[0], "m", check=0)
    models(empty, "rm", "m", check=0)
    assert files(empty) == []


def test_add_refuses_an_incomplete_one(parts, empty):
    parts[1].unlink()
    assert "part 2 of 3 is missing" in models(empty, "add", parts[0], check=1).err
    assert "name its first part" in models(empty, "add", parts[2], check=1).err
    assert files(empty) == []


def offer(web, parts):
    for p in parts:
        web.routes["/" + p.name] = ranged(p.read_bytes())


def test_pull(whole, parts, empty, web):
    offer(web, parts)
    assert "name the first part" in models(empty, "pull", f"{web.base}/{parts[1].name}", check=2).err
    assert "--sha256 is for one file" in models(empty, "pull", "--sha256", "0" * 64, f"{web.base}/{parts[0].name}", check=2).err
    r = models(empty, "pull", f"{web.base}/{parts[0].name}?download=true", check=1)
    assert not files(empty), r.err
    r = models(empty, "pull", f"{web.base}/{parts[0].name}", check=0)
    assert "pulled m: " in r.err and " in 3 parts" in r.err
    assert files(empty) == ["m-00002-of-00003.gguf", "m-00003-of-00003.gguf", "m.gguf"]
    assert logits(empty.models / "m.gguf") == logits(whole)
    models(empty, "pull", "--force", f"{web.base}/{parts[0].name}", check=0)
    assert logits(empty.models / "m.gguf") == logits(whole)


def test_a_pull_that_ends_in_the_middle(whole, parts, empty, web):
    offer(web, parts[:2])
    models(empty, "pull", f"{web.base}/{parts[0].name}", check=1)
    assert not listed(empty) and "m.gguf.part" in files(empty)
    n = len(web.asked)
    offer(web, parts)
    models(empty, "pull", f"{web.base}/{parts[0].name}", check=0)
    assert [path for path, _ in web.asked[n:]] == [f"/{parts[2].name}"]
    assert logits(empty.models / "m.gguf") == logits(whole)
    models(empty, "rm", "m", check=0)
    offer(web, parts[:1])
    web.routes.pop(f"/{parts[1].name}")
    models(empty, "pull", f"{web.base}/{parts[0].name}", check=1)
    models(empty, "rm", "m", check=0)
    assert files(empty) == []
