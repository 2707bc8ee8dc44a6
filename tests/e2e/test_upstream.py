# SPDX-License-Identifier: MIT
"""A daemon that ends, or is none. It is a fake, so nothing depends on time."""
import json

import pytest
from httpgate import DONE, begin, rest


def test_a_daemon_that_dies_before_the_answer(fake):
    s, call = begin(fake, stream=False)
    call.event("prefill", done=1, total=5, cached=0)
    call.close()
    status, head, body = rest(s)
    assert status == 503 and "Retry-After" in head and "closed the connection" in json.loads(body)["error"]["message"]


def test_a_daemon_that_stops_is_asked_again(fake):
    """The next connection reaches the daemon that the service manager starts."""
    s, call = begin(fake, stream=False)
    call.event("error", code="ESHUTDOWN", message="the daemon is stopping")
    again = fake.call()
    assert again.request["messages"] == call.request["messages"]
    again.event("text", text="here")
    again.event("done", **DONE)
    status, _, body = rest(s)
    assert status == 200 and json.loads(body)["choices"][0]["message"]["content"] == "here"


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\1\0\0\0\xc1", b"\4\0\0\0abcd"])
def test_a_peer_that_is_no_daemon(fake, garbage):
    s, call = begin(fake, stream=False)
    call.send_bytes(garbage)
    status, _, body = rest(s)
    assert status == 503 and json.loads(body)["error"]["message"]
    assert call.ended()


def test_an_answer_that_nobody_asked_for(fake):
    s, call = begin(fake, stream=False)
    call.event("text", text="x", index=3)
    assert rest(s)[0] == 500
    assert call.ended()


def test_no_daemon(fake):
    fake.s.close()
    fake.gateway.chat().error(503, "no daemon listens")
    fake.gateway.post("/tokenize", {"content": "x"}).error(503, "no daemon listens")
