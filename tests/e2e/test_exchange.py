# SPDX-License-Identifier: MIT
"""A request between a client and a daemon that do something unexpected. The daemon is a fake, so nothing depends on time."""
import json
import socket
import threading

import pytest
from httpgate import CHAT_PATH as CHAT
from httpgate import DONE, begin, events_of, rest


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("began", [False, True])
def test_a_client_that_closes_the_connection_cancels(fake, stream, began):
    """In the queue, and in the middle of a long prefill."""
    s, call = begin(fake, stream)
    if began:
        call.event("prefill", done=10, total=10000, cached=0)
        if stream:
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
    s.close()
    assert call.ended()


def test_a_client_that_resets_the_connection_cancels(fake):
    s, call = begin(fake)
    call.event("text", text="word")
    s.recv(4096)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()
    assert call.ended()


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_an_error_in_the_middle_of_a_stream(fake, path):
    s, call = begin(fake, path=path)
    call.event("prefill", done=1, total=5, cached=0)
    call.event("text", text="word")
    call.event("error", code="ENOMEM", message="out of memory")
    status, _, body = rest(s)
    name, data = events_of(body)[-1]
    assert status == 200 and data["error"]["message"] == "out of memory" and name == (None if path == CHAT else "error")


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_a_daemon_that_dies_in_the_middle_of_a_stream(fake, path):
    s, call = begin(fake, path=path)
    call.event("prefill", done=1, total=5, cached=0)
    call.close()
    status, _, body = rest(s)
    name, data = events_of(body)[-1]
    assert status == 200 and "closed the connection" in data["error"]["message"]


def test_a_slow_reader_pauses_only_its_own_stream(fake):
    """The daemon writes until its socket is full: then the gateway has stopped reading. Another stream continues."""
    slow, flood = begin(fake)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    flood.s.settimeout(2)
    sent = 0
    with pytest.raises(socket.timeout):
        while True:
            flood.event("text", text="x" * 1000)
            sent += 1000
            assert sent < 64 << 20, "the gateway buffers without a limit"
    other, call = begin(fake)
    call.event("text", text="quick")
    call.event("done", **DONE)
    assert rest(other)[2].endswith(b"data: [DONE]\n\n")
    slow.close()
    flood.s.settimeout(60)
    assert flood.ended()


def test_a_slow_reader_gets_everything(fake):
    """As the client reads, the answer continues."""
    s, call = begin(fake)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)

    def write():
        for i in range(300):
            call.event("text", text=f"{i:05d} " * 3000)
        call.event("done", **DONE)

    t = threading.Thread(target=write)
    t.start()
    events = events_of(rest(s)[2])
    t.join()
    text = "".join(d["choices"][0]["delta"].get("content", "") for _, d in events[:-1])
    assert text == "".join(f"{i:05d} " * 3000 for i in range(300))


def test_the_gateway_ends_with_open_streams(fake):
    s, call = begin(fake)
    call.event("text", text="word")
    s.recv(4096)
    fake.gateway.p.terminate()
    assert fake.gateway.p.wait(60) == 0
    assert call.ended()
    s.close()


def test_pings_during_a_long_prefill(fake):
    """A stream that is silent for 10 seconds has begun and gets a sign of life, in a form that the clients of its API ignore."""
    asked = [(CHAT, {}, b": ping\n\n"), ("/v1/messages", {}, b'event: ping\ndata: {"type":"ping"}\n\n'),
             ("/v1/responses", {"messages": None, "max_tokens": None, "input": "x"}, b": ping\n\n")]
    streams = [begin(fake, path=path, **more) for path, more, _ in asked]
    for (s, call), (_, _, ping) in zip(streams, asked):
        s.settimeout(60)
        got = b""
        while ping not in got:
            piece = s.recv(65536)
            assert piece, got
            got += piece
        call.event("prefill", done=5, total=5, cached=2)
        call.event("text", text="x")
        call.event("done", **DONE)
        while piece := s.recv(65536):
            got += piece
        assert events_of(got.partition(b"\r\n\r\n")[2].replace(b": ping\n\n", b""))
