# SPDX-License-Identifier: MIT
"""hob-http as an HTTP server: methods, framing, limits. No answer of a model is needed."""
import contextlib
import json
import socket
import time

import pytest
from httpgate import CHAT, JSON, Gateway, status


def test_health_and_methods(gateway):
    assert gateway.get("/health").json == {"status": "ok"}
    head = gateway.ask("HEAD", "/health")
    assert head.status == 200 and head.headers["Content-Length"] == "15" and head.body == b""
    for method, path, allow in [("OPTIONS", "/v1/chat/completions", "POST"), ("GET", "/v1/messages", "POST"), ("DELETE", "/health", "GET")]:
        r = gateway.ask(method, path)
        assert r.status == 405 and r.headers["Allow"] == allow and "Access-Control-Allow-Origin" not in r.headers
    gateway.get("/v1/nothing").error(404, "/v1/nothing")
    gateway.get("/%ff%00x").error(404, "no such path")


def test_errors_have_the_form_of_the_api(gateway):
    e = gateway.post("/v1/messages", {}).json
    assert e["type"] == "error" and e["error"]["type"] == "invalid_request_error" and "messages" in e["error"]["message"]
    gateway.post("/v1/chat/completions", {}).error(400, "'messages' is missing", "messages")


@pytest.mark.parametrize("chunks", [b"0x2\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n", b"2\r\n{}XX0\r\n\r\n", b"zz\r\n{}\r\n0\r\n\r\n",
                                    b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n"])
def test_bad_chunks_are_refused(gateway, chunks):
    reply = gateway.raw(CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(reply) in (400, 413) and reply.count(b"HTTP/1.1") == 1


def test_good_chunks(gateway):
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}).encode()
    chunks = b"".join(b"%x;x=y\r\n%b\r\n" % (len(p), p) for p in (body[:1], body[1:7], body[7:])) + b"0\r\nT: x\r\n\r\n"
    assert status(gateway.raw(CHAT + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)) == 200


@pytest.mark.parametrize("request_line", [b"GET /health HTTP/1.1\r\n\r\n", b"GET /health HTTP/3.7\r\nHost: localhost\r\n\r\n",
                                          b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"])
def test_a_request_that_is_none(gateway, request_line):
    reply = gateway.raw(request_line)
    assert not reply or status(reply) in (400, 405, 505)


def test_old_and_pipelined_requests(gateway):
    reply = gateway.raw(b"GET /health HTTP/1.0\r\n\r\n")
    assert status(reply) == 200 and reply.endswith(b'{"status":"ok"}')
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    reply = gateway.raw(one + b"\r\n" + one + b"\r\n" + one + b"Connection: close\r\n\r\n")
    assert reply.count(b"HTTP/1.1 200") == 3 and reply.count(b'{"status":"ok"}') == 3


def test_a_stream_to_an_old_client_ends_with_the_connection(gateway):
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stream": True}).encode()
    reply = gateway.raw(CHAT.replace(b"1.1", b"1.0") + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert b"chunked" not in reply and reply.endswith(b"data: [DONE]\n\n")


def test_keep_alive(gateway):
    c = gateway.http()
    for text in ("a", "b"):
        c.request("POST", "/tokenize", json.dumps({"content": text}), JSON)
        assert c.getresponse().read().startswith(b'{"tokens":[')
    c.close()


def test_expect_continue(gateway):
    with gateway.connect() as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 15\r\n"
                  b"Expect: 100-continue\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 100 ")
        s.sendall(b'{"content":"a"}')
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_limits(shared):
    g = Gateway(shared, "--max-body", "1K", "--max-connections", 4)
    g.post("/tokenize", {"content": "x" * 2000}).error(413, "longer than 1024 bytes")
    chunks = b"".join(b"200\r\n%b\r\n" % (b"x" * 512) for _ in range(4)) + b"0\r\n\r\n"
    reply = g.raw(CHAT + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert status(reply) == 413 and b"longer than 1024 bytes" in reply
    assert status(g.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10000000)) == 431
    assert status(g.raw(b"GET /health?" + b"x" * 100000)) in (414, 431)
    many, deadline = [], time.monotonic() + 60
    while len(many) < 4:  # the gateway may not have seen yet that a connection has ended
        s = g.connect()
        with contextlib.suppress(OSError):
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reply = s.recv(4096)
        assert status(reply) == 200 or time.monotonic() < deadline, reply
        if status(reply) == 200:
            many.append(s)
        else:
            s.close()
    reply = g.raw(b"")
    assert status(reply) == 503 and b"Retry-After" in reply
    assert json.loads(reply.split(b"\r\n\r\n")[1])["error"]["message"] == "too many connections"
    for s in many:
        s.close()


def test_large_bodies_share_a_budget(shared):
    """Of eight times --max-body, one user gets half: the fifth body waits, a small one does not."""
    g = Gateway(shared, "--max-body", "1M", "--request-timeout", "10min")
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n"

    def ask_until(status, seconds):
        deadline = time.monotonic() + seconds
        while (r := g.ask("POST", "/tokenize", b" " * 1040000 + b"[]")).status != status and time.monotonic() < deadline:
            time.sleep(0.01)
        return r

    for _ in range(60):
        many = [g.connect() for _ in range(4)]
        for s in many:
            with contextlib.suppress(OSError):
                s.sendall(head + b" " * 1048000)
        r = ask_until(503, 2)  # as soon as all four have arrived
        if r.status == 503:
            break
        for s in many:  # one of the questions came before the end of the fourth body, which was refused then
            s.close()
    r.error(503, "requests in work have ")
    assert r.headers["Retry-After"] == "1"
    assert g.post("/tokenize", {"content": "a"}).status == 200
    for s in many:
        s.close()
    ask_until(400, 120).error(400, "not a JSON object")


def test_a_request_that_never_ends_is_closed(shared):
    """The connection ends although bytes of the request still arrive."""
    g = Gateway(shared, "--request-timeout", "1s")
    with g.connect() as s:
        s.settimeout(0.05)
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(1200):
            try:
                s.sendall(b"x")
                assert s.recv(1) == b""
                break
            except socket.timeout:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
        else:
            raise AssertionError("the connection is still open")
    assert g.raw(b"") == b""
