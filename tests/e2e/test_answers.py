# SPDX-License-Identifier: MIT
"""Several answers to one prompt (--n), and answers that nobody waits for (--detach)."""
import json
import signal
import time

import pytest
from hobproto import Answer

ENDLESS = {"max_tokens": 10000000, "context": "rotate"}
SAMPLING = {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 11, "ignore_eos": True, "logprobs": True}


def by_index(events, n):
    """The events of each answer, as if it had been alone."""
    return [Answer([e for e in events if e["event"] in ("text", "done", "error") and e.get("index", 0) == i])
            for i in range(n)]


def bits(a):
    return (a.ids, a.logprobs, a.text)


def test_each_is_what_it_would_be_alone(home):
    home.daemon("--parallel", 4)
    c = home.client()
    assert {"answers", "detach"} <= set(c.hello["features"])
    one = c.answer("tell me", max_tokens=24, **SAMPLING)
    assert "more" not in one.end
    for n in (2, 6):  # also more than there are slots
        events = list(many(c, "tell me", n, max_tokens=24))
        all_ = by_index(events, n)
        assert bits(all_[0]) == bits(one)
        assert len({tuple(a.ids) for a in all_}) == n
        assert [e.get("more", False) for e in events if e["event"] == "done"] == [True] * (n - 1) + [False]
        assert {a.usage["completion"] for a in all_} == {24}
        assert {a.usage["prompt"] for a in all_} == {one.usage["prompt"]}
    again = by_index(list(many(c, "tell me", 3, max_tokens=24)), 3)
    assert [bits(a) for a in again] == [bits(a) for a in all_[:3]]


def many(c, prompt, n, **keys):
    """Events until the one that says no more."""
    i = c.generate(prompt, n=n, **{**SAMPLING, **keys})
    while True:
        e = c.recv()
        if e.get("id") != i:
            continue
        yield e
        if e["event"] in ("done", "error") and not e.get("more"):
            return


def test_shown_one_after_another(shared):
    args = ["--n", 3, "-n", 8, "--seed", 4, "--temp", 1.5, "--ignore-eos", "x"]
    r = shared.hob(*args, check=0)
    heads = [line for line in r.out.split("\n") if line.startswith("==> ")]
    assert heads == ["==> 1 of 3 <==", "==> 2 of 3 <==", "==> 3 of 3 <=="]
    lines = [json.loads(line) for line in shared.hob("--jsonl", *args, check=0).out.splitlines()]
    done = {e["index"]: e for e in lines if e["event"] == "done"}
    assert sorted(done) == [0, 1, 2]
    parts = r.out.split("==> ")[1:]
    for i, part in enumerate(parts):
        text = part.split(" <==\n", 1)[1]
        assert text.rstrip("\n") == done[i]["text"].rstrip("\n")
    alone = json.loads(shared.hob("--jsonl", *args[2:], check=0).out.splitlines()[-1])
    assert alone["text"] == done[0]["text"] and "index" not in alone


@pytest.mark.parametrize("args", [("--n", "0", "x"), ("--n", "33", "x"), ("--n", "2", "-S", "s", "x"), ("--n", "2", "-c", "x"),
                                  ("--detach", "x")])
def test_wrong_usage(shared, args):
    assert shared.hob(*args).returncode == 2


def test_refused_by_name(shared):
    c = shared.client()
    for keys, why in (({"n": 33}, "n: must be"), ({"n": 2, "session": "s"}, "n cannot be used with a session"),
                      ({"detach": True}, "detach needs session or continue")):
        e = c.answer("x", **keys).end
        assert (e["event"], e["code"]) == ("error", "EINVAL") and why in e["message"], e


def test_cancel_ends_all(shared):
    c = shared.client()
    i = c.generate("x", n=3, **ENDLESS, **SAMPLING)
    seen = set()
    while len(seen) < 3:
        e = c.recv()
        if e["event"] == "text":
            seen.add(e["index"])
    c.send({"type": "cancel", "id": i})
    ends = []
    while not ends or ends[-1].get("more"):
        e = c.recv()
        if e["event"] in ("done", "error"):
            ends.append(e)
    assert sorted(e["index"] for e in ends) == [0, 1, 2]
    assert {e["reason"] for e in ends} == {"cancel"}


# --- detach ---


def wait_for(home, name):
    """The session, once nobody uses it."""
    with home.client() as c:
        for _ in range(6000):
            if not any(s["name"] == name and s["busy"] for s in c.sessions()):
                return c.session(name)
            time.sleep(0.01)
    raise AssertionError(f"session {name} stays in use")


def test_detached_answer_is_in_the_session(home):
    home.daemon()
    asked = ["-n", 200, "--ignore-eos", "--seed", 3]
    assert not home.hob("--detach", "--jsonl", "-S", "other", *asked, "x", check=0).out
    r = home.hob("--detach", "-S", "later", *asked, "x", check=0)
    assert (r.out, r.err) == ("", "")
    home.hob("-S", "now", *asked, "x", check=0)
    later, now = wait_for(home, "later"), wait_for(home, "now")
    assert [m["role"] for m in later["messages"]] == ["user", "assistant"]
    assert later["messages"] == now["messages"]
    assert "failed" not in later
    assert home.hob("sessions", "show", "later", check=0).out == home.hob("sessions", "show", "now", check=0).out
    home.hob("--detach", "-c", "--wait", "-n", 4, "--ignore-eos", "y", check=0)
    assert len(wait_for(home, "now")["messages"]) + len(wait_for(home, "later")["messages"]) == 6


def test_client_that_vanishes_when_it_is_accepted(home):
    home.daemon()
    c = home.client()
    i = c.generate("x", session="gone", detach=True, max_tokens=300, ignore_eos=True)
    c.generate("x", session="dropped", max_tokens=300, ignore_eos=True)
    next(c.events(i))  # it is accepted
    c.close()
    kept = wait_for(home, "gone")
    assert len(kept["messages"]) == 2 and kept["messages"][1]["content"]


def test_failure_is_found_in_the_session(home):
    """Its deadline passes: in the queue, or in the middle of an answer that would go on for ever."""
    p = home.daemon("--parallel", 1, "--kv-bytes", "16M")
    with home.client() as c:
        i = c.generate("x", ignore_eos=True, timeout_ms=600000, **ENDLESS)
        assert next(c.events(i))["event"] != "error"
        c2 = home.client()
        late = c2.generate("x", session="late", detach=True, ignore_eos=True, timeout_ms=1000, **ENDLESS)
        assert next(c2.events(late))["event"] != "error"  # it is accepted
        c2.close()
        failed = wait_for(home, "late")["failed"]
        assert "time limit" in failed
    assert "[failed]" in home.hob("sessions", "show", "late", check=0).out
    home.restart(p)
    assert home.client().session("late")["failed"] == failed
    home.hob("-S", "late", "-n", 2, "x", check=0)
    assert "failed" not in home.client().session("late")


def test_sigterm_serves_it_first(home):
    p = home.daemon()
    home.hob("--detach", "-S", "s", "-n", 300, "--ignore-eos", "x", check=0)
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == 0
    home.daemon()
    kept = home.client().session("s")
    assert len(kept["messages"]) == 2 and "failed" not in kept


def test_stop_timeout_leaves_what_there_is(home):
    p = home.daemon("--stop-timeout", "1ms")
    home.hob("--detach", "-S", "s", "-n", 450, "--ignore-eos", "x", check=0)
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == 0
    home.daemon()
    kept = home.client().session("s")
    assert "stopped before" in kept.get("failed", "") or len(kept["messages"]) == 2, kept
