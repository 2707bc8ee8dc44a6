# SPDX-License-Identifier: MIT
"""Images and sounds in the messages of hob-http's APIs: what reaches the daemon, and what is refused."""
import base64

import pytest
from httpgate import CHAT_PATH
from test_chat_messages import told

NO_ENCODER = "the model has no encoder of images and sounds"
TEXT = {"type": "text", "text": "what?"}
FILE = b"\x89PNG" + bytes(range(256)) * 4
B64 = base64.b64encode(FILE).decode()
URL = "data:image/png;base64," + B64
AUDIO = {"type": "input_audio", "input_audio": {"data": B64, "format": "wav"}}
SOURCE = {"type": "base64", "media_type": "image/png", "data": B64}
PARTS = [{"type": "text", "text": "what?"}, {"type": "image", "data": FILE}]


def test_images_of_openai(fake):
    got = told(fake, CHAT_PATH, [{"role": "user", "content": [TEXT, {"type": "image_url", "image_url": {"url": URL, "detail": "auto"}}, AUDIO, TEXT]}])
    assert got == [{"role": "user", "content": [*PARTS, {"type": "audio", "data": FILE}, TEXT]}]


def test_images_of_anthropic(fake):
    image = {"type": "image", "source": SOURCE, "cache_control": {"type": "ephemeral"}}
    got = told(fake, "/v1/messages", [{"role": "user", "content": [TEXT, image, {"type": "tool_result", "tool_use_id": "a", "content": [image]}]}])
    assert got == [{"role": "user", "content": PARTS}, {"role": "tool", "tool_call_id": "a", "content": PARTS[1:]}]


def url(u, **more):
    return {"type": "image_url", "image_url": {"url": u, **more}}


@pytest.mark.parametrize("part,says", [
    (url("http://localhost/x.png"), "fetches no URLs"), (url("https://example.com/x.png"), "fetches no URLs"), (url("file:///etc/passwd"), "fetches no URLs"),
    (url(""), "fetches no URLs"), (url(5), "no URL"), (url("data:image/png," + B64), "must have the form"), (url("data:text/plain;base64," + B64), "must have the form"),
    (url("data:image/png;base64"), "must have the form"), (url("data:image/png;base64,"), "empty"), (url("data:image/png;base64,AAA"), "not valid base64"),
    (url("data:image/png;base64,AAA\n"), "not valid base64"), (url("data:image/png;base64,A==="), "not valid base64"), (url("data:image/png;base64,AB=="), "not valid base64"),
    (url("data:image/png;base64,AA=A"), "not valid base64"), (url("data:image/png;base64,AA==AAAA"), "not valid base64"), (url("data:image/png;base64,A-_A"), "not valid base64"),
    (url(URL, detail="low"), "'detail'"), (url(URL, size=5), "'size'"), ({"type": "image_url", "image_url": URL}, "'image_url' must be an object"),
    ({"type": "input_audio", "input_audio": {"data": B64, "format": "aac"}}, "'format' must be"), ({"type": "input_audio", "input_audio": {"data": B64}}, "'format' must be"),
    ({"type": "input_audio", "input_audio": {"format": "wav"}}, "'data'"), ({"type": "video_url", "video_url": {"url": URL}}, "'video_url'"),
    ({"type": "file", "file": {"file_data": B64}}, "'file'")])
def test_refused_of_openai(gateway, part, says):
    gateway.post(CHAT_PATH, {"messages": [{"role": "user", "content": [TEXT, part]}]}).error(400, says)


@pytest.mark.parametrize("source,says", [({"type": "url", "url": "https://example.com/x.png"}, "fetches no images"), ({"type": "file", "file_id": "x"}, "fetches no images"),
                                         (None, "fetches no images"), ({**SOURCE, "media_type": "text/plain"}, "'media_type'"), ({**SOURCE, "data": "?"}, "not valid base64"),
                                         ({**SOURCE, "data": None}, "'data'"), ({**SOURCE, "size": 3}, "'size'")])
def test_refused_of_anthropic(gateway, source, says):
    r = gateway.post("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]})
    assert r.status == 400 and says in r.json["error"]["message"], r.body


def test_responses_take_images(gateway):
    for part, status, says in [({"type": "input_image", "image_url": URL}, 422, NO_ENCODER), (AUDIO, 422, NO_ENCODER),
                               ({"type": "input_image", "image_url": "http://x/y"}, 400, "fetches no URLs"), ({"type": "input_image", "file_id": "x"}, 400, "'file_id'"),
                               ({"type": "input_file", "file_data": B64}, 400, "'input_file'")]:
        r = gateway.post("/v1/responses", {"input": [{"role": "user", "content": [part]}], "store": False})
        assert says in r.error(r.status, says)["message"] and r.status == status, r.body


def test_the_gateway_says_that_the_model_has_no_encoder(gateway):
    gateway.post(CHAT_PATH, {"messages": [{"role": "user", "content": [TEXT, url(URL)]}]}).error(422, NO_ENCODER)
