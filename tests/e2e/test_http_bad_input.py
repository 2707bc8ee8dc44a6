# SPDX-License-Identifier: MIT
"""Requests that no client of an API sends, over raw sockets: the reply is one error, and the next client gets its answer."""
import contextlib
import http.client
import json
import socket
import time

import pytest
from httpgate import CHAT, CHAT_PATH, DONE, Gateway, status

TOKENIZE = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"content":"a"}'
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\nf\r\n" + BODY + b"\r\n0\r\n\r\n"
LENGTH = b"Content-Length: 15\r\n"
NEXT = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/tokenize"]


@pytest.fixture(scope="module")
def hasty(shared):
    """Waits only a second for a request."""
    return Gateway(shared, "--request-timeout", "1s")


def replies(raw):
    """The statuses."""
    return [int(part[:3]) for part in raw.split(b"HTTP/1.1 ")[1:]]


def wait_alone(g):
    """Until the connection that asks is the only one."""
    for _ in range(600):
        # The time limit of a request may end this one, too.
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            if b"hob_http_connections 1\n" in g.get("/metrics").body:
                return
        time.sleep(0.1)
    raise AssertionError("a connection is still open")


def refused(raw, *allowed):
    """One error, whose header libmicrohttpd may send twice, and no reply to a request that the first one hides."""
    found = replies(raw)
    assert set(found) <= set(allowed) and len(found) <= 2 and b'"object":"list"' not in raw, raw
    assert not found or b"Connection: close" in raw


@pytest.mark.parametrize("fields", [
    b"Transfer-Encoding:\r\n chunked\r\n", b"Transfer-Encoding:\r\n\tchunked\r\n" + LENGTH, b"X: y\r\n Transfer-Encoding: chunked\r\n" + LENGTH,
    b"Content-Length: 1\r\n 5\r\n", b"X: y\r\n z\r\n" + LENGTH, b" X: y\r\n" + LENGTH, b": y\r\n" + LENGTH, LENGTH + b":\r\n", LENGTH + b": y\r\n",
    b"X: a\nY: b\r\n" + LENGTH, b"X: a\rTransfer-Encoding: chunked\r\n" + LENGTH, LENGTH + b"X: a\n", b"X: a\0b\r\n" + LENGTH,
    b"Content-Length: 15\0\r\n", b"X\0: a\r\n" + LENGTH, b"Content-Length: 15, 15\r\n", b"Content-Length: 0x0f\r\n", b"Content-Length: 15.0\r\n",
    b"Content-Length:\r\n", b"Transfer-Encoding: chunked, chunked\r\n", b"Transfer-Encoding: \"chunked\"\r\n", b"Transfer-Encoding: chunked;a=b\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n", b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"transfer-encoding: chunked\r\n" + LENGTH, b"Host: localhost\r\n" + LENGTH,
    b"Host: evil.example\r\n" + LENGTH, b"X y\r\n" + LENGTH], ids=repr)
def test_two_readings_of_a_header(gateway, fields):
    """Request smuggling: what follows could be a body or a request."""
    refused(gateway.raw(TOKENIZE + fields + b"\r\n" + NEXT), 400, 501)


def test_lines_without_cr(gateway):
    refused(gateway.raw((TOKENIZE + LENGTH).replace(b"\r\n", b"\n") + b"\n" + BODY + NEXT), 400)
    refused(gateway.raw(b"GET /health HTTP/1.1\nHost: localhost\r\n\r\n" + NEXT), 400)


def test_the_first_of_two_bodies(gateway):
    """The same bytes without a doubt in them."""
    assert replies(gateway.raw(TOKENIZE + LENGTH + b"\r\n" + BODY + NEXT)) == [200, 200]
    assert replies(gateway.raw(TOKENIZE + CHUNKED + NEXT)) == [200, 200]
    assert replies(gateway.raw(TOKENIZE + b"X: \r\nY:\r\nZ:\t z \r\n" + LENGTH + b"\r\n" + BODY + NEXT)) == [200, 200]


def test_old_http_has_no_chunks(gateway):
    old = TOKENIZE.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\n"
    refused(gateway.raw(old + CHUNKED + NEXT), 400)
    assert replies(gateway.raw(old + LENGTH + b"\r\n" + BODY + NEXT)) == [200, 200]


@pytest.mark.parametrize("chunks", [
    b"f \r\n", b" f\r\n", b"+f\r\n", b"\r\n", b"g\r\n", b"0xf\r\n", b"-f\r\n", b"1000000000000000f\r\n",
    b"ffffffffffffffff\r\n", b"f;" + b"x" * 50000,
    b"e\r\n"], ids=lambda b: repr(b[:20]))
def test_bad_chunks(hasty, chunks):
    refused(hasty.raw(TOKENIZE + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + BODY + b"\r\n0\r\n\r\n" + NEXT), 400, 413)


def test_no_connection_remains(hasty):
    """An extension of a chunk fills the memory of the connection: libmicrohttpd neither reads on nor ends it by itself."""
    for _ in range(4):
        hasty.raw(TOKENIZE + b"Transfer-Encoding: chunked\r\n\r\nf;" + b"x" * 50000)
    wait_alone(hasty)


@pytest.mark.parametrize("line", [b"GET /health HTTP/2.0", b"PRI * HTTP/2.0", b"GET /health HTTP/1", b"GET /health", b"GET", b"", 
                                  b"GET /health http/1.1",
                                  b"GET /health HTTP/1.1 x", b"GET /a b HTTP/1.1", b"\0\xff\xfe", b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3",
                                  b"GET http://localhost/health HTTP/1.1", b"CONNECT example:80 HTTP/1.1", b"OPTIONS * HTTP/1.1",
                                  b"GET /health%00 HTTP/1.1",
                                  b"GET /health%0d%0aX:1 HTTP/1.1", b"GET //health HTTP/1.1", b"GET /../health HTTP/1.1"], ids=repr)
def test_lines_that_are_no_request(gateway, line):
    reply = gateway.raw(line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert not reply or replies(reply)[0] in (400, 404, 405, 505), reply


@pytest.mark.parametrize("data", [
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10000000 + b"\r\n\r\n", b"GET /" + b"x" * 10000000 + b" HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 200000 + b"\r\n", b"\r\n" * 5000000,
    TOKENIZE + b"Transfer-Encoding: chunked\r\n\r\nf\r\n" + BODY + b"\r\n0\r\nX: " + b"x" * 10000000 + b"\r\n\r\n"], ids=lambda b: repr(b[:20]))
def test_ten_megabytes_of_header(shared, data):
    """The connection's memory is bounded."""
    g = Gateway(shared, "--request-timeout", "5s")
    before = memory(g)
    reply = g.raw(data)
    assert not reply or status(reply) in (400, 414, 431), reply[:200]
    assert memory(g) < before + 4096 and g.get("/health").status == 200


def memory(g):
    """Resident, in KiB."""
    with open(f"/proc/{g.p.pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def test_a_long_body_is_refused_before_it_is_sent(gateway):
    """With Expect, as curl does; and if it is much too long."""
    assert status(gateway.raw(TOKENIZE + b"Expect: 100-continue\r\nContent-Length: 40000000\r\n\r\n")) == 413
    assert status(gateway.raw(TOKENIZE + b"Content-Length: 9000000000000\r\n\r\n")) == 413


@pytest.mark.parametrize("change", [{"Content-Type": "text/plain"}, {"Host": "evil.example"}, {}])
def test_a_client_that_sends_all_first_sees_the_error(gateway, change):
    """Most HTTP clients read no response before the body is sent: an early end of the connection would hide it."""
    body = json.dumps({"content": "x" * (40000000 if not change else 3000000)})
    r = gateway.ask("POST", "/tokenize" if change else CHAT_PATH, body, {"Content-Type": "application/json", **change})
    r.error({"Content-Type": 415, "Host": 403}[next(iter(change))] if change else 413, "")


def test_a_long_body_needs_no_pauses(shared):
    """More than libmicrohttpd reads in one iteration of the event loop; the edges of the socket's epoll are all in the first."""
    g = Gateway(shared, "--max-body", "64M", "--request-timeout", "20s")
    g.ask("POST", "/tokenize", b" " * 50000000 + b"[]").error(400, "not a JSON object")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\\ud800", b"\\u0000", b"\0", b"\n"], ids=repr)
def test_text_that_is_not_utf8(gateway, path, text):
    body = b'{"max_tokens":1,"prompt":"%b","content":"%b","messages":[{"role":"user","content":"%b"}]}' % (text, text, text)
    r = gateway.ask("POST", path, body)
    assert r.status == 400 and "JSON" in r.json["error"]["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [
    b"[" * 100000, b'{"a":' * 100000, b'{"messages":' + b"[" * 1000 + b"]" * 1000 + b"}", b"", b"null", b"[]", b'"x"', b"{", b"{}{}", b"NaN",
    b'{"a":1,"a":2}',
    b'{"max_tokens":1e999}', b'{"max_tokens":123456789012345678901234567890}', b"\xef\xbb\xbf{}", b"[" + b"1," * 3000000 + b"1]"],
    ids=lambda b: repr(b[:20]))
def test_json_that_is_deep_or_broken(gateway, path, body):
    r = gateway.ask("POST", path, body)
    assert r.status in (400, 413) and r.json["error"]["message"]


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "User-Agent", "Cookie", "X-Ünknown"])
def test_bytes_in_fields(gateway, name):
    field = name.encode() + b": \xff\xfe\x80=\xc3;;=\r\n"
    assert replies(gateway.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + field + b"\r\n"))[0] in (200, 400)


def test_every_path_answers_every_method(gateway):
    for path in [*PATHS, "/health", "/v1/models", "/metrics", "/nothing"]:
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "FOO"):
            r = gateway.ask(method, path)
            known = path in ("/health", "/v1/models", "/metrics") and method in ("GET", "HEAD")
            assert r.status == (200 if known else 404 if path == "/nothing" else 405), (method, path, r.status)
            assert "Access-Control-Allow-Origin" not in r.headers
            assert (r.body == b"") == (method == "HEAD")
            if r.status == 405:
                assert method not in r.headers["Allow"].split(", ")


def test_requests_in_a_row_without_waiting(gateway):
    """Pipelining: the replies have the order of the requests, streams among them."""
    stream = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 3, "stream": True}).encode()
    post = CHAT + b"Content-Length: %d\r\n\r\n" % len(stream) + stream
    reply = gateway.raw(TOKENIZE + LENGTH + b"\r\n" + BODY + post + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + post + NEXT)
    assert replies(reply) == [200, 200, 404, 200, 200]
    assert reply.count(b"data: [DONE]\n\n") == 2 and reply.index(b'"tokens"') < reply.index(b"[DONE]") < reply.index(b"no such path")


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /health HTTP/1.1\r\n", TOKENIZE, TOKENIZE + LENGTH + b"\r\n{",
                                  CHAT + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n{"],
                         ids=lambda b: repr(b[-20:]))
def test_a_client_that_sends_slowly_or_stops(hasty, sent):
    """Slowloris, in each part of a request: one byte from time to time keeps no connection."""
    with hasty.connect() as s:
        s.sendall(sent)
        s.settimeout(0.1)
        for _ in range(600):
            try:
                s.sendall(b"x")
                assert s.recv(1000) == b""
                break
            except socket.timeout:
                continue
            except OSError:
                break
        else:
            raise AssertionError("the connection is still open")
    assert hasty.get("/health").status == 200


@pytest.mark.parametrize("sent", [b"", b"GET", TOKENIZE, TOKENIZE + LENGTH + b"\r\n{"], ids=lambda b: repr(b[-20:]))
def test_half_a_request_and_a_half_closed_socket(hasty, sent):
    with hasty.connect() as s:
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1000) == b""


def test_a_half_closed_socket_ends_an_answer(fake):
    """As hob-http(1) says."""
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
    with fake.gateway.connect() as s:
        s.sendall(CHAT + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        call = fake.call()
        call.event("text", text="word")
        got = b""
        while b"word" not in got:
            piece = s.recv(4096)
            assert piece, got
            got += piece
        s.shutdown(socket.SHUT_WR)
        assert call.ended()
        while s.recv(4096):
            pass


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_takes_nothing(fake, stream):
    """Its connection ends after a time, also when the daemon is done."""
    g = Gateway(fake.home, "--request-timeout", "200ms")
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": stream}).encode()
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", g.port))
        s.sendall(CHAT + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        call = fake.call()
        try:
            for _ in range(2000):
                call.event("text", text="x" * 8000)
            call.event("done", **DONE)
        except OSError:
            assert stream  # the daemon's side ends while it still writes
        wait_alone(g)
