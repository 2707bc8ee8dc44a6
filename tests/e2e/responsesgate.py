# SPDX-License-Identifier: MIT
"""What the tests of /v1/responses share."""
import pytest
from hobproto import Client
from httpgate import Gateway
from test_calls import SWITCH, WEATHER, make

PATH = "/v1/responses"
BODY = {"input": "Once upon a time", "max_output_tokens": 8, "temperature": 0}
TOOLS = [{"type": "function", "name": "weather", "description": "d", "parameters": WEATHER, "strict": True},
         {"type": "function", "name": "now", "parameters": None}]
NAMED = {"type": "function", "name": "weather"}
ID = "resp_[0-9a-f]{48}"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A model that can call tools; the prompt opens no thought."""
    h = make(tmp_path_factory, "")
    g = Gateway(h)
    g.home = h
    yield g
    h.stop()


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """The prompt opens a thought, unless it is told not to."""
    h = make(tmp_path_factory, SWITCH)
    g = Gateway(h)
    g.home = h
    yield g
    h.stop()


def post(gateway, key=None, **more):
    r = gateway.post(PATH, {**BODY, **more}, key)
    assert r.status == 200, r.body
    return r.json


def text_of(r):
    return "".join(p["text"] for o in r["output"] if o["type"] == "message" for p in o["content"])


def sessions(socket):
    with Client(socket) as c:
        return {s["name"] for s in c.sessions()}


def messages(socket, r):
    with Client(socket) as c:
        return [(m["role"], m["content"]) for m in c.session(r["id"])["messages"]]


def stored(gateway, r):
    return gateway.get(f"{PATH}/{r['id']}").json
