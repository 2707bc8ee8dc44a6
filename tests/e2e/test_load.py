# SPDX-License-Identifier: MIT
"""Many at once: no request is lost or waits forever, and other requests change no bit of an answer.

HOB_LOAD (1) makes the numbers of clients and requests smaller, for a daemon built with a sanitizer.
"""
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import conftest
from hobproto import Answer, Client, Closed, Peer

LOAD = float(os.environ.get("HOB_LOAD", "1"))
GARBAGE = (b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", struct.pack("<I", 5) + b"\xc1\xc1\xc1\xc1\xc1", struct.pack("<I", 1 << 31),
           b"\x00\x00\x00\x00", struct.pack("<I", 100) + b"\x81\xa4type")


def some(n):
    return max(8, int(n * LOAD))


def is_sanitized():
    return any(s in conftest.HOBD.read_bytes() for s in (b"__tsan_init", b"__asan_init"))


@pytest.fixture
def quiet(home):
    """After the test the daemon ends well, and a sanitizer has said nothing."""
    yield home
    for p in home.procs:
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
        assert p.wait(60) == 0
    log = (home.root / "hobd.log").read_text(errors="replace")
    assert "Sanitizer" not in log, log[:8000]


QUESTIONS = [dict(prompt=f"{word} " * (3 + 7 * i), seed=i, temperature=1.0 if i % 2 else 0.0, max_tokens=8 + 3 * i,
                  ignore_eos=True, logprobs=True)
             for i, word in enumerate(["tell me of the sea", "why", "a b c d", "one more thing", "hello", "count to ten"])]


def bits(a):
    assert a.end["event"] == "done", a.end
    return (a.ids, a.logprobs, a.text)


def alone(home):
    with home.client() as c:
        return [bits(c.answer(salt="alone", **dict(q))) for q in QUESTIONS]


def together(*functions):
    """Run all of them at once; the first exception is the test's."""
    wrong = []

    def run(f):
        try:
            f()
        except BaseException as e:  # noqa: B902
            wrong.append(e)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join(240)
        assert not t.is_alive(), "a request waits forever"
    if wrong:
        raise wrong[0]


class Crowd:
    """Clients of all kinds, and what the honest ones should hear."""

    def __init__(self, home, expected):
        self.home, self.expected, self.heard = home, expected, 0
        self.lock = threading.Lock()
        self.over = threading.Event()

    def honest(self, i):
        with self.home.client(timeout=200) as c:
            for k in range(2):
                q = (i + k) % len(QUESTIONS)
                assert bits(c.answer(**dict(QUESTIONS[q]))) == self.expected[q], f"client {i}, question {q}"
                with self.lock:
                    self.heard += 1

    def vanishing(self, i):
        rnd = random.Random(i)
        c = self.home.client(timeout=200)
        for _ in range(rnd.randrange(1, 4)):
            c.generate("gone " * rnd.randrange(1, 60), max_tokens=200, ignore_eos=True)
        for _ in range(rnd.randrange(0, 6)):
            c.recv()
        c.close()

    def stalling(self, i):
        c = self.home.client(timeout=200)
        c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.generate("slow", max_tokens=300, ignore_eos=True, logprobs=True)
        self.over.wait(200)
        c.close()

    def garbling(self, i):
        p = Peer(self.home.socket, timeout=200) if i % 2 else self.home.client(timeout=200)
        try:
            p.send_bytes(GARBAGE[i % len(GARBAGE)])
            p.s.shutdown(socket.SHUT_WR)
            while True:
                p.recv()
        except (Closed, OSError):
            pass
        p.close()

    def come(self, n):
        kinds = [self.honest] * 5 + [self.vanishing, self.stalling, self.garbling]
        left = n

        def run(i):
            def one():
                nonlocal left
                try:
                    kinds[i % len(kinds)](i)
                finally:
                    with self.lock:
                        left -= kinds[i % len(kinds)] != self.stalling
                        if left <= sum(kinds[k % len(kinds)] == self.stalling for k in range(n)):
                            self.over.set()
            return one

        together(*[run(i) for i in range(n)])


def settle(home):
    """Until nothing runs any more; the status."""
    for _ in range(6000):
        s = home.status()
        if s["running"] == 0 and s["queued"] == 0:
            return s
        time.sleep(0.01)
    raise AssertionError(f"something runs still: {s}")


def rss(p):
    (line,) = [x for x in open(f"/proc/{p.pid}/status") if x.startswith("VmRSS")]
    return int(line.split()[1]) << 10


def test_256_clients_at_once(quiet):
    p = quiet.daemon("--kv-bytes", "16M", "--queue", 1024)
    expected = alone(quiet)
    sizes = []
    for _ in range(4 if LOAD >= 1 else 2):
        crowd = Crowd(quiet, expected)
        n = some(256)
        crowd.come(n)
        assert crowd.heard == 2 * sum(i % 8 < 5 for i in range(n))
        s = settle(quiet)
        assert s["kv_blocks_free"] + s["kv_blocks_unused"] == s["kv_blocks"]
        sizes.append((rss(p) - s["cache"]["bytes_memory"], s["cache"]["bytes_memory"]))
    if not is_sanitized():  # the first round is to warm up
        assert sizes[-1][0] - sizes[0][0] < 2 << 20, sizes


def test_many_requests_through_one_connection(quiet):
    quiet.daemon()
    n, window = some(10000), 64
    with quiet.client(timeout=200) as c:
        want = c.answer("x", max_tokens=1, temperature=0.0, logprobs=True)
        live, heard = {}, 0
        for i in range(n + window):
            if i < n:
                kind = ("tokenize", "status", "generate", "generate")[i % 4]
                if kind == "generate":
                    j = c.generate("x", max_tokens=1, temperature=0.0, logprobs=True)
                else:
                    j = c.request(kind, **({"text": f"number {i}"} if kind == "tokenize" else {}))
                live[j] = (kind, [])
            while len(live) >= window or (i >= n and live):
                e = c.recv()
                kind, events = live[e["id"]]
                events.append(e)
                if e["event"] in ("done", "error", "tokens", "status"):
                    heard += 1
                    del live[e["id"]]
                    assert e["event"] == {"generate": "done"}.get(kind, {"tokenize": "tokens"}.get(kind, kind)), e
                    assert kind != "generate" or bits(Answer(events)) == bits(want)
        assert heard == n
    settle(quiet)


def test_a_queue_kept_full(quiet):
    quiet.daemon("--parallel", 2, "--queue", 4)
    expected = alone(quiet)
    counts = {"done": 0, "EBUSY": 0, "75": 0, "0": 0}
    lock = threading.Lock()

    def count(key):
        with lock:
            counts[key] += 1

    def ask(i):
        def one():
            with quiet.client(timeout=200) as c:
                done = 0
                while done < some(100):
                    q = (i + done) % len(QUESTIONS)
                    a = c.answer(**dict(QUESTIONS[q]))
                    if a.end["event"] == "done":
                        assert bits(a) == expected[q]
                        done += 1
                        count("done")
                    else:
                        assert a.end["code"] == "EBUSY" and a.text == "", a.end
                        count("EBUSY")
                        time.sleep(0.002)
        return one

    def command():
        """Until it was refused once."""
        for _ in range(1000):
            r = quiet.hob("-n", 4, "hello")
            assert r.returncode in (0, 75), r.err
            count(str(r.returncode))
            if r.returncode or counts["done"] == 16 * some(100):
                return

    def watch():
        with quiet.client(timeout=200) as c:
            while counts["done"] < 16 * some(100):
                s = json.loads(c.ask("status")["status"])
                assert s["state"] == "ready" and s["running"] <= 2 and s["rolling"]["batch"] <= 2, s

    together(command, watch, *[ask(i) for i in range(16)])
    assert counts["done"] == 16 * some(100) and counts["EBUSY"], counts
    settle(quiet)


def test_short_steps_give_a_batch_more_slots(quiet):
    """Twelve times --parallel where steps are as short as those of this model, until somebody else comes; the answers are as alone."""
    quiet.daemon("--parallel", 2, "--kv-bytes", "16M")
    keys = dict(prompt="tell me of the sea", temperature=0.0, ignore_eos=True, logprobs=True)
    with quiet.client(timeout=200) as c, quiet.client(timeout=200) as other:
        want = bits(c.answer(**keys, max_tokens=300))
        live = {c.generate(**keys, max_tokens=300, priority="batch"): [] for _ in range(60)}
        most = 0
        while any(not events or events[-1]["event"] != "done" for events in live.values()):
            e = c.recv()
            live[e["id"]].append(e)
            if e["event"] == "text" and most <= 8:
                most = max(most, json.loads(other.ask("status")["status"])["running"])
        assert 8 < most <= 24
        assert all(bits(Answer(events)) == want for events in live.values())
    settle(quiet)


OTHER = """
import os, sys
os.setgid(65534), os.setuid(65534)
sys.path.insert(0, sys.argv[1])
from hobproto import Client
c = Client(sys.argv[2], timeout=200)
print("ready", flush=True)
sys.stdin.readline()
a = c.answer("hello", max_tokens=8, temperature=0.0, ignore_eos=True, logprobs=True)
print(a.end["event"], a.ids)
"""


def test_one_floods_another_asks_once(quiet):
    if os.geteuid() != 0:
        pytest.skip("two users take root")
    place = Path(tempfile.mkdtemp(prefix="hob-load-"))
    try:
        place.chmod(0o755)
        shutil.copy(Path(conftest.__file__).parent / "hobproto.py", place)
        (place / "hobproto.py").chmod(0o644)
        p = quiet.daemon("--parallel", 4, "--queue", 300, socket=place / "sock")
        (place / "sock").chmod(0o666)
        with Client(place / "sock", timeout=200) as c:
            want = c.answer("hello", max_tokens=8, temperature=0.0, ignore_eos=True, logprobs=True)
            q = subprocess.Popen([sys.executable, "-c", OTHER, place, place / "sock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert q.stdout.readline() == "ready\n"
            flood = [c.generate(f"flood {i}", max_tokens=48, ignore_eos=True) for i in range(some(200))]
            ended = 0
            while ended < 4:
                ended += c.recv()["event"] == "done"
            q.stdin.write("\n")
            q.stdin.flush()
            while not select.select([q.stdout], [], [], 0)[0] and ended < len(flood):
                ended += c.recv()["event"] == "done"
            assert q.stdout.read() == f"done {want.ids}\n"
            if len(flood) == 200:
                assert ended < 190, "it was served last"
            while ended < len(flood):
                e = c.recv()
                assert e["event"] != "error", e
                ended += e["event"] == "done"
        assert p.poll() is None
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("stop", ["30s", "50ms"])
def test_sigterm_with_30_in_flight(quiet, stop):
    # When that has passed the process ends as it is, without waiting for its threads.
    options = os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"
    p = quiet.daemon("--parallel", 8, "--stop-timeout", stop, env={"TSAN_OPTIONS": options} if stop == "50ms" else {})
    clients = [quiet.client(timeout=100) for _ in range(30)]
    ids = [c.generate("go on", max_tokens=60, temperature=0.0, ignore_eos=True) for c in clients]
    for c, i in zip(clients, ids):
        next(c.events(i))  # queued, or begun: accepted
    p.send_signal(signal.SIGTERM)
    texts = set()
    for c, i in zip(clients, ids):
        a = Answer(list(c.events(i)))
        if a.end["event"] == "done":
            assert a.end["reason"] == "length"
            texts.add(a.usage["completion"])
        else:
            assert stop == "50ms" and a.end["code"] == "ESHUTDOWN" and a.end["message"], a.end
        with pytest.raises((Closed, ConnectionResetError)):
            c.recv()
    assert texts <= {60}
    assert p.wait(60) == 0
