# SPDX-License-Identifier: MIT
"""The wire, through the independent client: what a peer may do, and what one that lies meets."""
import socket
import struct
import time

import msgpack
import pytest
from hobproto import Client, Closed, Peer


def still_serves(home):
    a = home.client().answer("still here?", max_tokens=3, ignore_eos=True)
    assert a.end["event"] == "done"


def test_hello_tells_version_and_features(shared):
    c = shared.client()
    assert c.hello["version"] == 1
    assert isinstance(c.hello["features"], list)


def test_generate_streams_text_events_in_order(shared):
    a = shared.client().answer("hello", max_tokens=12, ignore_eos=True, temperature=0.0, logprobs=True)
    kinds = [e["event"] for e in a.events]
    assert kinds[-1] == "done" and "prefill" in kinds
    assert kinds.index("prefill") < kinds.index("text")
    assert all(e["index"] == 0 and e["channel"] == "answer" for e in a.events if e["event"] == "text")
    assert len(a.ids) == 12 == a.usage["completion"]


def test_typed_parts_are_the_same_as_a_string(shared):
    c = shared.client()
    keys = dict(max_tokens=8, temperature=0.0, ignore_eos=True, logprobs=True)
    a = c.answer("one two", **keys)
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}]
    b = c.answer(messages=[{"role": "user", "content": parts}], **keys)
    assert (a.ids, a.logprobs) == (b.ids, b.logprobs)
    bad = c.answer(messages=[{"role": "user", "content": [{"type": "image", "data": b"x"}]}])
    assert bad.end["event"] == "error" and "image" in bad.end["message"]


def test_many_requests_on_one_connection(shared):
    c = shared.client()
    alone = c.answer("same", max_tokens=16, temperature=0.0, ignore_eos=True, logprobs=True)
    ids = [c.generate("same", max_tokens=16, temperature=0.0, ignore_eos=True, logprobs=True) for _ in range(20)]
    got = {i: [] for i in ids}
    for e in c.events(*ids):
        if e["event"] == "text":
            got[e["id"]] += e["ids"]
        assert e["event"] != "error", e
    assert all(g == alone.ids for g in got.values())


def test_cancel_ends_with_done(shared):
    c = shared.client()
    i = c.generate("x", max_tokens=400, ignore_eos=True)
    for e in c.events(i):
        if e["event"] == "text":
            c.send({"type": "cancel", "id": i})
            break
    end = list(c.events(i))[-1]
    assert end["event"] == "done"
    assert end["reason"] in ("cancel", "context", "length")


def test_cancel_of_nothing_is_harmless(shared):
    c = shared.client()
    c.send({"type": "cancel", "id": 999})
    assert c.answer("x", max_tokens=2, ignore_eos=True).end["event"] == "done"


def test_duplicate_live_id_is_refused(shared):
    c = shared.client()
    i = c.generate("x", max_tokens=400, ignore_eos=True)
    c.last -= 1
    c.generate("y", max_tokens=4)
    kinds = []
    while True:
        e = c.recv()
        kinds.append(e["event"])
        if e["event"] == "error":
            assert e["id"] == i and e["code"] == "EINVAL"
            break
        assert e["event"] != "done"


def test_unknown_key_is_refused_by_name(shared):
    c = shared.client()
    a = c.answer("x", temprature=1.0)
    assert a.end["event"] == "error" and a.end["code"] == "EINVAL" and "temprature" in a.end["message"]
    assert c.answer("x", max_tokens=2, ignore_eos=True).end["event"] == "done"


@pytest.mark.parametrize("keys,say", [
    (dict(messages=[]), "empty"), (dict(prompt="x"), "raw"), (dict(), "messages"),
    (dict(messages=[{"role": "user"}]), "content"), (dict(messages=[{"role": "user", "content": 5}]), "content"),
    (dict(messages=[{"role": "user", "content": "x"}], top_p=2.0), "top_p"),
    (dict(messages=[{"role": "user", "content": "x"}], max_tokens=0), "max_tokens"),
    (dict(messages=[{"role": "user", "content": "x"}], stop="a"), "stop"),
    (dict(messages=[{"role": "user", "content": "x"}], session="a/b"), "session"),
    (dict(messages=[{"role": "user", "content": "x"}], session="s" * 10000), "session"),
])
def test_bad_requests_name_what_is_wrong(shared, keys, say):
    c = shared.client()
    a = Answerless(c, c.request("generate", **keys))
    assert a["event"] == "error" and a["code"] == "EINVAL" and say in a["message"], a
    still_serves(shared)


def Answerless(c, i):
    return list(c.events(i))[-1]


def test_invalid_utf8_on_the_wire(shared):
    c = shared.client()
    body = msgpack.packb({"type": "generate", "id": 5, "messages": [{"role": "user", "content": "ZZZZ"}]})
    body = body.replace(b"ZZZZ", b"Z\xff\xfeZ")
    c.send_bytes(struct.pack("<I", len(body)) + body)
    e = c.recv()
    assert e["event"] == "error" and "UTF-8" in e["message"] and "byte 1" in e["message"]
    still_serves(shared)


def closes(p):
    """Everything the daemon says until it closes."""
    said = []
    try:
        while True:
            said.append(p.recv())
    except (Closed, ConnectionResetError):
        return said


def test_other_version_is_told_and_closed(shared):
    with Peer(shared.socket) as p:
        p.send({"type": "hello", "version": 99, "features": []})
        said = closes(p)
    assert said[-1]["event"] == "error" and said[-1]["code"] == "EPROTO" and "99" in said[-1]["message"]
    still_serves(shared)


def test_no_hello_is_told_and_closed(shared):
    with Peer(shared.socket) as p:
        p.send({"type": "status", "id": 1})
        said = closes(p)
    assert said[-1]["event"] == "error" and said[-1]["code"] == "EPROTO"


@pytest.mark.parametrize("bytes_", [
    struct.pack("<I", (64 << 20) + 1), struct.pack("<I", 0xFFFFFFFF) + b"x" * 100,
    struct.pack("<I", 6) + b"\xdf\xff\xff\xff\xff\xa1", struct.pack("<I", 5) + b"\xdd\xff\xff\xff\xff",
    struct.pack("<I", 3000) + b"\x91" * 3000, struct.pack("<I", 4) + b"\xc1\xc1\xc1\xc1", struct.pack("<I", 0),
    struct.pack("<I", 1) + b"\x01", struct.pack("<I", 200000) + b"\xdc\xff\xff" + b"\xc0" * 199997,
], ids=["oversized", "huge", "lying-map", "lying-array", "deep", "reserved", "empty", "no-map", "trailing"])
@pytest.mark.parametrize("greeted", [False, True], ids=["before-hello", "after-hello"])
def test_garbage_closes_that_connection_only(shared, bytes_, greeted):
    bystander = shared.client()
    with (Client if greeted else Peer)(shared.socket) as p:
        p.send_bytes(bytes_)
        said = closes(p)
    assert said and said[-1]["event"] == "error" and said[-1]["message"]
    assert bystander.answer("x", max_tokens=2, ignore_eos=True).end["event"] == "done"


def test_bytes_one_at_a_time(shared):
    with Peer(shared.socket) as p:
        body = msgpack.packb({"type": "hello", "version": 1, "features": []})
        for b in struct.pack("<I", len(body)) + body:
            p.send_bytes(bytes([b]))
            time.sleep(0.001)
        assert p.recv()["event"] == "hello"


def wait_idle(home):
    deadline = time.monotonic() + 60
    while True:
        c = home.client()
        i = c.request("status")
        import json
        status = json.loads(list(c.events(i))[-1]["status"])
        if status["running"] == 0 and status["queued"] == 0:
            return status
        assert time.monotonic() < deadline, status
        time.sleep(0.02)


def test_disconnect_cancels_and_frees(shared):
    before = wait_idle(shared)
    for _ in range(5):
        c = shared.client()
        c.generate("x", max_tokens=450, ignore_eos=True)
        c.recv()
        c.close()
    after = wait_idle(shared)
    # what was computed stays in the cache, and nobody holds it
    free = [s["kv_blocks_free"] + s["kv_blocks_unused"] for s in (before, after)]
    assert free[0] == free[1]


def test_vanishing_in_every_state(shared):
    for message in ({"type": "hello", "version": 1}, None):
        p = Peer(shared.socket)
        if message:
            p.send(message)
        else:
            p.send_bytes(b"\x10\0\0\0par")
        p.close()
    c = shared.client()
    for _ in range(30):
        c.generate("x", max_tokens=100, ignore_eos=True)
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    wait_idle(shared)
    still_serves(shared)


def test_slow_reader_delays_no_other(shared):
    slow = shared.client()
    slow.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ids = [slow.generate("x", max_tokens=400, ignore_eos=True, logprobs=True) for _ in range(4)]
    for _ in range(5):
        still_serves(shared)
    ends = [e for e in slow.events(*ids) if e["event"] in ("done", "error")]
    assert [e["event"] for e in ends] == ["done"] * 4


def test_tokenize(shared):
    c = shared.client()
    e = list(c.events(c.request("tokenize", text="<|im_end|>")))[-1]
    assert e["event"] == "tokens" and len(e["ids"]) > 1
    e = list(c.events(c.request("tokenize", text="<|im_end|>", special=True)))[-1]
    assert len(e["ids"]) == 1


def test_tokenize_of_more_than_a_reply_holds_is_refused_at_once(shared):
    c = shared.client()
    e = list(c.events(c.request("tokenize", text="word " * (2 << 20))))[-1]
    assert e["event"] == "error" and e["code"] == "E2BIG" and "10485760 bytes" in e["message"]


def test_busy_session_is_told(shared):
    # A reader that does not read keeps its answer from ending.
    holder, c = shared.client(), shared.client()
    i = holder.generate("x", session="busy", max_tokens=30000, ignore_eos=True, context="rotate")
    while holder.recv()["event"] != "text":
        pass
    a = c.answer("y", session="busy", max_tokens=4)
    assert a.end["event"] == "error" and a.end["code"] == "EBUSY" and "busy" in a.end["message"]
    holder.send({"type": "cancel", "id": i})
    end = list(holder.events(i))[-1]
    assert end["event"] == "done" and end["reason"] == "cancel", end


def test_unknown_session_continue(home):
    home.daemon()
    a = home.client().answer("x", **{"continue": True})
    assert a.end["event"] == "error" and a.end["code"] == "ENOENT"
