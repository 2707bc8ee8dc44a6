# SPDX-License-Identifier: MIT
"""A real daemon that is stopped, restarted, killed or full while clients of hob-http wait for it."""
import contextlib
import json
import signal
import threading

import pytest
from httpgate import CHAT_PATH, JSON, Gateway, events_of, status

LONG = {"messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 400, "ignore_eos": True, "temperature": 0, "stream": True, "speculate": "off"}
MESSAGES = "/v1/messages"


def open_stream(g, path, **more):
    """A stream whose first event has arrived; returns the response."""
    c = g.http()
    c.request("POST", path, json.dumps({**LONG, **more}), JSON)
    r = c.getresponse()
    assert r.status == 200
    first = r.readline()
    return r, first


@pytest.mark.parametrize("path", [CHAT_PATH, MESSAGES])
def test_a_daemon_that_is_killed(homes, long, path):
    """The last event is an error in the API's form, and the response is complete. The next daemon answers the next request."""
    home = homes(long)
    d = home.daemon()
    g = Gateway(home)
    expected = g.chat().json["choices"]
    r, first = open_stream(g, path, max_tokens=30000)
    d.kill()
    d.wait(60)
    events = events_of(first + r.read())  # raises IncompleteRead if the last chunk is missing
    name, error = events[-1]
    assert error["error"]["message"] and error["error"]["type"] in ("server_error", "overloaded_error")
    assert (name, error.get("type")) == (("error", "error") if path == MESSAGES else (None, None))
    g.chat().error(503, "no daemon listens")
    home.daemon()
    assert g.chat().json["choices"] == expected


@pytest.mark.parametrize("path", [CHAT_PATH, MESSAGES])
def test_a_daemon_that_is_stopped(home, path):
    """It finishes its answers, or says why it does not; either way the stream ends as the API says."""
    d = home.daemon("--stop-timeout", "100ms")
    g = Gateway(home)
    r, first = open_stream(g, path)
    d.terminate()
    name, last = events_of(first + r.read())[-1]
    complete = last == "[DONE]" or (name == "message_stop")
    assert complete or last["error"]["message"]
    assert d.wait(60) == 0
    home.daemon()
    assert g.chat().status == 200


def test_a_whole_answer_of_a_daemon_that_is_killed(home):
    d = home.daemon()
    g = Gateway(home)
    d.send_signal(signal.SIGSTOP)
    found = []
    asks = [threading.Thread(target=lambda: found.append(g.chat())) for _ in range(4)]
    for t in asks:
        t.start()
    while b"hob_http_requests 5\n" not in g.get("/metrics").body:  # with this one
        pass
    d.kill()
    for t in asks:
        t.join(60)
    assert len(found) == 4
    for r in found:
        r.error(503, "")
        assert r.headers["Retry-After"]


def test_256_clients(home):
    """The daemon's limits hold: each client gets its answer, or 429 or 503 with Retry-After, as the only event or status."""
    home.daemon("--parallel", 4, "--queue", 16)
    g = Gateway(home)
    found, errors = [], []
    gate = threading.Barrier(256)

    def ask(i):
        try:
            gate.wait(60)
            body = {"messages": [{"role": "user", "content": f"story {i}"}], "max_tokens": 20, "ignore_eos": True, "stream": i % 2 == 0}
            found.append(g.post(CHAT_PATH if i % 3 else MESSAGES, body))
        except Exception as e:  # of the connection
            errors.append(repr(e))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(256)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not errors and len(found) == 256, errors[:3]
    answered = [r for r in found if r.status == 200]
    refused = [r for r in found if r.status != 200]
    assert len(answered) >= 20
    for r in refused:
        assert r.status in (429, 503) and r.headers["Retry-After"] and r.json["error"]["message"], (r.status, r.body)
    for r in answered:
        if r.headers["Content-Type"] == "text/event-stream":
            name, last = events_of(r.body)[-1]
            assert last == "[DONE]" or name == "message_stop", last
    assert g.chat().status == 200
    s = home.status()
    assert s["queued"] == 0 and s["running"] == 0, s


def test_connections_beyond_the_limit_of_the_gateway(shared):
    """256 connections on 64 places: 503 with Retry-After, and those that came first are served."""
    g = Gateway(shared, "--max-connections", 64)
    sockets = [g.connect() for _ in range(256)]
    request = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
               b'Content-Length: 15\r\n\r\n{"content":"a"}')
    for s in sockets:  # none is complete before the last connection is made
        with contextlib.suppress(OSError):
            s.sendall(request[:-1])
    for s in sockets[64:]:
        reply = s.recv(4096)
        assert status(reply) == 503 and b"Retry-After" in reply
        s.close()
    for s in sockets[:64]:
        s.sendall(request[-1:])
    for s in sockets[:64]:
        assert status(s.recv(4096)) == 200
        s.close()
