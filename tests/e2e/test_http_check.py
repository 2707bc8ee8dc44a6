# SPDX-License-Identifier: MIT
"""The header of a request: the end of its body, Host, Content-Type."""
import pytest
from httpgate import CHAT, status


@pytest.mark.parametrize("field", [
    b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"Content-Length: 2\r\nContent-Length: 3", b"Content-Length: +2",
    b"Content-Length: -2", b"Content-Length: 2 2", b"Content-Length : 2", b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: identity, chunked", b"Content-Length: 99999999999999999999999",
    b"Content-Length: 2\r\nContent-Length: 2"])
def test_an_ambiguous_end_of_the_body_is_refused(gateway, field):
    """The connection ends, so that the rest is not taken for a request."""
    assert status(gateway.raw(CHAT + field + b"\r\n\r\n{}GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")) in (400, 413, 501)


@pytest.mark.parametrize("host,ok", [("localhost:80", True), ("127.0.0.1", True), ("[::1]:9", True), ("evil.example", False),
                                     ("127.evil.example", False), ("localhost.evil.example", False)])
def test_a_page_of_another_site_has_no_access(gateway, host, ok):
    r = gateway.get("/health", {"Host": host})
    assert r.status == (200 if ok else 403)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""])
def test_only_json_is_accepted(gateway, kind):
    gateway.ask("POST", "/tokenize", b'{"content":"a"}', {"Content-Type": kind}).error(415, "application/json")


def test_the_type_may_have_a_charset(gateway):
    assert gateway.ask("POST", "/tokenize", b'{"content":"a"}', {"Content-Type": "Application/JSON; charset=utf-8"}).status == 200
