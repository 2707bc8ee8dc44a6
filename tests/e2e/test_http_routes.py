# SPDX-License-Identifier: MIT
"""The table of paths and methods."""
import re

import pytest
from conftest import TOP

ROUTES = re.findall(r'^    \{"(GET|POST|DELETE)", "([^"]+)"', (TOP / "client/http/http-routes.c").read_text(), re.M)


@pytest.mark.parametrize("method,path", ROUTES)
def test_another_method_is_refused_and_told(gateway, method, path):
    allowed = [m for m, p in ROUTES if p == path]
    assert method in allowed
    for other in {"GET", "POST", "PUT", "DELETE", "OPTIONS"} - set(allowed):
        r = gateway.ask(other, path)
        assert r.status == 405 and r.headers["Allow"] == ", ".join(allowed), (other, path)


@pytest.mark.parametrize("path", ["/v1", "/v1/chat/completions/", "/V1/models", "/hob", "/hob/session/", "//health", "/health%2f"])
def test_an_unknown_path(gateway, path):
    gateway.get(path).error(404, "no such path")


def test_the_page_has_all_paths():
    """Each path is in hob-http(1), except the files of the page, and other names of a path."""
    man = re.sub(r"\*_\w+_\*?", "*", (TOP / "man/hob-http.1.scd").read_text())
    aliases = {"/v1/health", "/models"}
    assert not [p for m, p in ROUTES if p not in aliases and not p.startswith("/page/") and f"{m} {p}" not in man]
