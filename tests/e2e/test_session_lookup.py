# SPDX-License-Identifier: MIT
"""Requests of hob-http about one session, before a daemon that does what the test says."""
import json

from httpgate import DONE, begin, rest
from responsesgate import PATH, text_of


def test_a_session_that_is_in_use(fake):
    """A request about it is repeated."""
    s = fake.gateway.connect()
    head = b"GET %b HTTP/1.0\r\n\r\n"
    # the id of a response of this daemon
    t, call = begin(fake, stream=False, path=PATH, messages=None, max_tokens=None, input="x")
    note = call.request["note"]
    call.event("done", **DONE)
    r = json.loads(rest(t)[2])
    s.sendall(head % f"{PATH}/{r['id']}".encode())
    for _ in range(3):
        call = fake.call()
        assert (call.request["type"], call.request["name"]) == ("session.show", r["id"])
        call.event("error", code="EBUSY", message="session is in use")
        assert call.ended()
    session = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "note": note,
               "outcome": {"reason": "cancel", "usage": {"prompt": 5, "cached": 2, "completion": 1}}}
    fake.call().event("sessions", sessions=json.dumps(session))
    got = json.loads(rest(s)[2])
    assert (got["status"], got["id"], text_of(got), got["output"][0]["status"]) == ("cancelled", r["id"], "y", "incomplete")


def test_a_client_that_leaves_while_its_response_is_looked_up(fake):
    t, call = begin(fake, stream=False, path=PATH, messages=None, max_tokens=None, input="x")
    call.event("done", **DONE)
    r = json.loads(rest(t)[2])
    s = fake.gateway.connect()
    s.sendall(f"GET {PATH}/{r['id']} HTTP/1.0\r\n\r\n".encode())
    call = fake.call()
    s.close()
    assert call.ended()
    assert fake.gateway.get("/health").status == 200
