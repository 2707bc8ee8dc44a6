# SPDX-License-Identifier: MIT
"""The files of the page at /: they come with a strict policy, and load nothing from elsewhere."""
import re

import pytest
from conftest import TOP, Home
from httpgate import Gateway, run_http

FILES = sorted(p.name for p in (TOP / "client/http/page").iterdir() if p.suffix in (".css", ".js", ".svg"))
TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
POLICY = {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "'self'",
          "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}


def headers_are_strict(r):
    assert dict(part.strip().split(" ", 1) for part in r.headers["Content-Security-Policy"].split(";")) == POLICY
    assert r.headers["X-Content-Type-Options"] == "nosniff" and r.headers["Referrer-Policy"] == "no-referrer"
    assert r.headers["Cross-Origin-Resource-Policy"] == r.headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_the_page(gateway):
    r = gateway.get("/")
    assert r.status == 200 and r.headers["Content-Type"] == "text/html; charset=utf-8"
    headers_are_strict(r)
    html = r.body.decode()
    assert html == (TOP / "client/http/page/index.html").read_text()
    assert not re.search(r"<style|<script(?! type=\"module\" src=\"/page/page.js\"></script>)|\sstyle=|\son\w+=|//(?! SPDX)", html)
    assert set(re.findall(r"(?:src|href)=\"/page/([^\"]+)\"", html)) == {"icon.svg", "page.css", "page.js"}


@pytest.mark.parametrize("name", FILES)
def test_a_file(gateway, name):
    r = gateway.get(f"/page/{name}")
    assert r.status == 200 and r.headers["Content-Type"] == TYPES[name.split(".")[1]]
    headers_are_strict(r)
    text = r.body.decode()
    assert text == (TOP / "client/http/page" / name).read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://(?!www\.w3\.org/2000/svg)|@import", text)
    imports = re.findall(r'^import .* from "/page/([^"]+)";$', text, re.M)
    assert len(imports) == len(re.findall(r"\bimport\b", text)) and set(imports) <= set(FILES)


def test_no_other_file(gateway):
    for path in ("/page/", "/page/none.js", "/page/../page/page.js", "/index.html", "/page/page.js/"):
        assert gateway.get(path).status == 404, path
    assert gateway.post("/", {}).status == 405
    assert gateway.ask("HEAD", "/").status == 200


def test_it_needs_no_key_and_is_open_to_links(tmp_path):
    home = Home(tmp_path)
    keys = home.root / "keys"
    run_http(home, "key", "add", "ada", "--keys", keys)
    for g in (Gateway(home, "--keys", keys), Gateway(home)):
        assert g.get("/", {"Sec-Fetch-Site": "cross-site"}).status == 200
        assert g.get("/page/page.js").status == 200
    assert g.get("/", {"Host": "evil.example"}).status == 403
    home.stop()
