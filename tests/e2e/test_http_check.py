# SPDX-License-Identifier: MIT
"""The header of a request: the end of its body, Host, Content-Type."""
import pytest
from httpgate import CHAT, JSON, Gateway, run_http, status


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


@pytest.mark.parametrize("origin,ok", [("http://HOST", True), ("https://HOST", True), ("http://evil.example", False), ("null", False),
                                       ("http://localhost:1", False), ("http://HOST.evil.example", False), ("HOST", False)])
def test_only_its_own_pages_may_send_requests(gateway, origin, ok):
    host = f"127.0.0.1:{gateway.port}"
    origin = origin.replace("HOST", host)
    for method, path, body in (("POST", "/tokenize", {"content": "a"}), ("GET", "/v1/models", None), ("GET", "/metrics", None)):
        r = gateway.ask(method, path, body, {**JSON, "Origin": origin})
        assert r.status == (200 if ok else 403), (method, path, r.body)
        assert not [h for h in r.headers if h.lower().startswith("access-control")]


@pytest.mark.parametrize("site,ok", [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)])
def test_a_request_that_a_page_causes_without_origin(gateway, site, ok):
    """An image, a script or a form of another site."""
    assert gateway.get("/v1/models", {"Sec-Fetch-Site": site}).status == (200 if ok else 403)
    assert gateway.get("/health", {"Sec-Fetch-Site": site}).status == 200


def test_no_preflight_succeeds(gateway):
    r = gateway.ask("OPTIONS", "/v1/chat/completions", None, {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
                                                             "Access-Control-Request-Headers": "content-type"})
    assert r.status == 405 and not [h for h in r.headers if h.lower().startswith("access-control")]


def test_a_configured_name(home):
    g = Gateway(home, "--host", "models.lan", "--host", "hob.example")
    for host, want in (("models.lan:81", 200), ("HOB.example", 200), ("lan", 403), ("models.lan.evil.example", 403), ("localhost", 200)):
        assert g.get("/v1/models", {"Host": host}).status == want, host
    assert g.get("/v1/models", {"Host": "models.lan", "Origin": "https://models.lan"}).status == 200
    assert g.get("/v1/models", {"Host": "models.lan", "Origin": "https://hob.example"}).status == 403


def test_with_keys_the_key_decides(home):
    keys = home.root / "keys"
    key = run_http(home, "key", "add", "ada", "--keys", keys).stdout.strip()
    g = Gateway(home, "--keys", keys)
    other = {"Host": "gateway.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert g.get("/v1/models", other).status == 401
    assert g.get("/v1/models", {**other, "Authorization": f"Bearer {key}"}).status == 200
