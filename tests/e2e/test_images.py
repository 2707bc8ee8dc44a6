# SPDX-License-Identifier: MIT
"""Images in prompts, from hob and the gateway to a small model with an image encoder of random weights: the same bits with and without caches."""
import base64
import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import BUILD, HOBD, Home, mktiny
from httpgate import CHAT_PATH, Gateway
from mmprojfiles import Encoder

Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
DIM, SIDE = 64, 3


def takes_mmproj():
    return "--mmproj" in subprocess.run([HOBD, "serve", "--help"], capture_output=True, text=True).stdout


pytestmark = [pytest.mark.skipif(not (BUILD / "daemon" / "hobd-decode").exists(), reason="built without images and sounds"),
              pytest.mark.skipif(not takes_mmproj(), reason="hobd serve has no --mmproj")]


def picture(folder, seed, kind="PNG", change=False):
    """A file with random pixels of @seed; @change: one pixel is another one."""
    pixels = bytearray(random.Random(seed).randbytes(20 * 16 * 3))
    pixels[100] ^= change
    path = folder / f"{seed}{'c' if change else ''}.{kind.lower()}"
    Image.frombytes("RGB", (20, 16), bytes(pixels)).save(path, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    return {"model": mktiny(folder / "text.gguf", "--dim", DIM, "--seed", 7), "mmproj": Encoder("mlp", out=DIM).write(folder / "mmproj.gguf"),
            "a": picture(folder, 1), "b": picture(folder, 2), "a in WebP": picture(folder, 1, "WEBP"), "a changed": picture(folder, 1, change=True)}


@pytest.fixture
def sees(tmp_path, files):
    """A home whose daemon has the encoder."""
    h = Home(tmp_path, files["model"])
    h.p = h.daemon("--mmproj", files["mmproj"])
    yield h
    h.stop()


def cold(tmp_path, files, *args):
    """The answer of a daemon that has seen nothing."""
    (tmp_path / "cold").mkdir()
    h = Home(tmp_path / "cold", files["model"])
    h.daemon("--mmproj", files["mmproj"])
    try:
        return h.ask(*args)
    finally:
        h.stop()


def counts(answer):
    return answer.usage["media_encoded"], answer.usage["media_cached"]


def test_an_image_is_encoded_once(sees, files, tmp_path):
    first = sees.ask("-a", files["a"], "what is it?")
    assert counts(first) == (1, 0)
    [m] = first.done["media"]
    assert (m["kind"], m["tokens"], m["cached"]) == ("image", SIDE * SIDE, False)
    other = sees.ask("-a", files["a"], "and what color?")
    assert counts(other) == (0, 1) and other.cached >= SIDE * SIDE
    assert sees.ask("-a", files["a"], "what is it?").bits == first.bits
    assert cold(tmp_path, files, "-a", files["a"], "and what color?").bits == other.bits


def test_the_same_pixels_in_another_file(sees, files):
    first = sees.ask("-a", files["a"], "what is it?")
    again = sees.ask("-a", files["a in WebP"], "what is it?")
    assert counts(again) == (0, 1) and again.bits == first.bits
    assert counts(sees.ask("-a", files["a changed"], "what is it?")) == (1, 0)


def test_order_matters(sees, files, tmp_path):
    ab = sees.ask("-a", files["a"], "-a", files["b"], "which?")
    ba = sees.ask("-a", files["b"], "-a", files["a"], "which?")
    assert counts(ab) == (2, 0) and counts(ba) == (0, 2) and ab.bits != ba.bits
    assert cold(tmp_path, files, "-a", files["b"], "-a", files["a"], "which?").bits == ba.bits


def test_verbose_names_each_image(sees, files):
    assert "image 1 of 1: 9 tokens, encoded in " in sees.hob("-v", "-n", 2, "-a", files["a"], "x", check=0).err
    r = sees.hob("-v", "-n", 2, "-a", files["a"], "-a", files["b"], "x", check=0)
    assert "image 1 of 2: 9 tokens (cached)" in r.err and "image 2 of 2: 9 tokens, encoded in " in r.err, r.err


def test_an_encoder_beside_its_model(tmp_path, files):
    h = Home(tmp_path, files["model"])
    assert "MODEL.mmproj" in h.hob("models", "add", files["mmproj"], "eye", check=1).err
    assert "no encoder" in h.hob("models", "add", files["model"], "eye.mmproj", check=1).err
    h.hob("models", "add", files["model"], "eye", check=0)
    assert "mlp" in h.hob("models", "add", files["mmproj"], "eye.mmproj", check=0).err
    listed = {m["name"]: m for m in json.loads(h.hob("models", "list", "--json", check=0).out)}
    assert listed["eye"]["encoder"] is None and listed["eye.mmproj"]["encoder"] == "mlp" and listed["eye.mmproj"]["supported"]
    h.daemon("-m", "eye")
    try:
        assert counts(h.ask("-a", files["a"], "what is it?")) == (1, 0)
    finally:
        h.stop()


def test_a_session_keeps_its_image(sees, files):
    sees.ask("-S", "s", "-a", files["a"], "what is it?")
    shown = sees.hob("sessions", "show", "s", check=0).out
    assert f"[user]\n[image: {files['a'].stat().st_size} bytes]\nwhat is it?\n" in shown, shown
    before = sees.ask("-S", "s", "--fork", "t", "and the color?")
    assert before.usage.get("media_encoded", 0) == 0
    sees.restart(sees.p, "--mmproj", files["mmproj"])
    after = sees.ask("-S", "s", "--fork", "u", "and the color?")
    assert after.bits == before.bits and after.usage.get("media_encoded", 0) == 0


def test_places_in_a_grid(tmp_path, files):
    """Qwen2-VL: a session keeps the grid of an image, and its KV is the same when it is computed again."""
    model = mktiny(tmp_path / "text.gguf", "--dim", DIM, "--seed", 7, "--arch", "qwen2vl", "--control", "<|vision_start|>", "--control", "<|vision_end|>")
    mmproj = Encoder("qwen2vl_merger", heads=3, out=DIM).write(tmp_path / "mmproj.gguf")
    h = Home(tmp_path, model)
    try:
        p = h.daemon("--mmproj", mmproj)
        [m] = h.ask("-S", "s", "-a", files["a"], "what is it?").done["media"]
        assert m["tokens"] == 12
        before = h.ask("-S", "s", "--fork", "t", "and the color?")
        assert before.cached > 0
        h.restart(p, "--mmproj", mmproj, "--cache-bytes", 0)
        after = h.ask("-S", "s", "--fork", "u", "and the color?")
        assert after.bits == before.bits and after.cached == 0
    finally:
        h.stop()


def test_the_gateway_gives_the_same(sees, files):
    told = sees.ask("-a", files["a"], "what is it?", temp=0)
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(files["a"].read_bytes()).decode()}}
    body = {"messages": [{"role": "user", "content": [part, {"type": "text", "text": "what is it?"}]}], "max_tokens": 16, "temperature": 0}
    r = Gateway(sees).post(CHAT_PATH, body)
    assert r.status == 200, r.body
    assert r.json["choices"][0]["message"]["content"].strip() == told.text.strip()


def test_stored_responses(sees, files):
    g = Gateway(sees)
    part = {"type": "input_image", "image_url": "data:image/png;base64," + base64.b64encode(files["a"].read_bytes()).decode()}
    body = {"input": [{"role": "user", "content": [part, {"type": "input_text", "text": "what is it?"}]}], "max_output_tokens": 4}
    first = g.post("/v1/responses", body)
    assert first.status == 200, first.body
    [item] = g.get(f"/v1/responses/{first.json['id']}/input_items").json["data"]
    image = {"type": "input_image", "detail": "auto", "image_url": None}
    assert item["content"] == [image, {"type": "input_text", "text": "what is it?"}], item
    texts = [{"type": "input_text", "text": t} for t in ("is é", "like ", " this?")]
    again = g.post("/v1/responses", {**body, "input": [{"role": "user", "content": [texts[0], part, texts[1], part, part, texts[2]]}]})
    [item] = g.get(f"/v1/responses/{again.json['id']}/input_items").json["data"]
    assert item["content"] == [texts[0], image, texts[1], image, image, texts[2]], item
    alone = g.post("/v1/responses", {**body, "input": [{"role": "user", "content": [part]}]})
    [item] = g.get(f"/v1/responses/{alone.json['id']}/input_items").json["data"]
    assert item["content"] == [image], item
    more = {"input": "and the color?", "previous_response_id": first.json["id"], "max_output_tokens": 4}
    assert g.post("/v1/responses", more).status == 200
    # The conversation would have to be sent again, without its image.
    g.post("/v1/responses", {**more, "instructions": "be brief"}).error(400, "images", "previous_response_id")


@pytest.mark.parametrize("data", [b"no image", b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_broken_files(sees, tmp_path, data):
    path = tmp_path / "broken.png"
    path.write_bytes(data)
    r = sees.hob("-a", path, "x", check=1)
    assert r.err.startswith("hob: ") and r.err.count("\n") == 1, r.err
    assert sees.ask("still here?").done["event"] == "done"


def test_broken_files_over_the_gateway(sees, files):
    """They are wrong requests, not errors of the server: clients do not try again."""
    g = Gateway(sees)
    for data, says in [(files["a"].read_bytes()[:-20], "truncated"), (b"GIF89a" + bytes(100), "neither an image")]:
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(data).decode()}}
        g.post(CHAT_PATH, {"messages": [{"role": "user", "content": [part, {"type": "text", "text": "what?"}]}], "max_tokens": 2}).error(400, says)


def test_text_that_looks_like_a_marker(sees):
    a = sees.ask("<image> <__media__> <start_of_image>")
    assert "media" not in a.done


def children(pid):
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ended(pid):
    """Also one that its parent has not waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_killed_helpers_are_started_again(sees, files):
    """hobd cannot start programs; the keeper, its only child, can."""
    [keeper] = children(sees.p.pid)
    assert Path(f"/proc/{keeper}/comm").read_text() == "hobd-keeper\n"
    for name in "a", "b":
        helpers = children(keeper)
        assert helpers
        for pid in helpers:
            os.kill(pid, signal.SIGKILL)
        while set(children(keeper)) & set(helpers):
            time.sleep(0.01)
        assert counts(sees.ask("-a", files[name], "what is it?")) == (1, 0)
    assert "a process that starts decoders has ended, and was started again" in sees.p.log.read_text()
    all_of_them = [keeper, *children(keeper)]
    for pid in all_of_them:
        os.kill(pid, signal.SIGKILL)
    while not all(map(ended, all_of_them)):
        time.sleep(0.01)
    r = sees.hob("-n", 2, "-a", files["a changed"], "what is it?")
    assert r.returncode and "the process that starts decoders has ended: files are refused until hobd starts again" in r.err
    assert sees.hob("-n", 2, "no image", check=0)


def test_a_stop_at_once_waits_for_no_decoder(tmp_path, files):
    """Threads of hobd use the helpers until it exits. Without the sandbox it could wait for the keeper, and the keeper for the helpers."""
    h = Home(tmp_path, files["model"])
    options = os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"  # its threads are not joined
    p = h.daemon("--mmproj", files["mmproj"], "--confine", "no", env={"TSAN_OPTIONS": options})
    [keeper] = children(p.pid)
    helpers = children(keeper)
    try:
        for pid in helpers:
            os.kill(pid, signal.SIGSTOP)
        with h.client(user="ada") as c:
            c.generate(messages=[{"role": "user", "content": [{"type": "image", "data": files["a"].read_bytes()}]}])
            while not [row for row in h.status()["peers"] if row.get("user") == "ada" and row["live"]]:
                time.sleep(0.01)
            p.send_signal(signal.SIGTERM)
            while h.socket.exists():
                time.sleep(0.01)
            time.sleep(0.2)
            assert p.poll() is None, "it did not wait for the answer"
            p.send_signal(signal.SIGTERM)
            assert p.wait(60) == 0
    finally:
        for pid in helpers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        h.stop()


def test_as_many_as_the_limit(sees, files):
    few = [{"type": "image", "data": files["a"].read_bytes()}]
    with sees.client() as c:
        e = c.answer(messages=[{"role": "user", "content": few * 129}]).end
        assert e["code"] == "EINVAL" and "128 images" in e["message"]
        e = c.answer(messages=[{"role": "user", "content": [*few * 20, {"type": "text", "text": "x"}]}], max_tokens=1).end
        assert e["event"] == "done" and e["usage"]["media_encoded"] + e["usage"]["media_cached"] == 20, e
