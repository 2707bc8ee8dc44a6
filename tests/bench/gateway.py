#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What hob-http costs beside hobd's own socket, and hobd behind hob-http beside llama-server: one Markdown table.

    gateway.py                                   # with the installed default model
    gateway.py --only first --only streams
    gateway.py --peer "PEERDIR/run llama-server" --peer-models /models PEERDIR/models/default.gguf

PEERDIR is as for table.py. The parts:
  first       time to the first token of a prompt that is cached, in turn through the socket and through hob-http: medians
  streams     16 streams of 64 tokens from cached prompts, tokens per second: 16 processes of hob, 16 connections to the
              socket and 16 to hob-http, in turn, medians; the connections belong to this process, which only reads them.
              A round in which other processes use more than a twentieth of a CPU is repeated
  memory      of hob-http: at its start, and with 1000 open streams that are silent, before a daemon that this program
              plays, since hobd permits fewer connections of one user
  disconnect  steps of hobd that end between a client's disconnection in the middle of a prefill and the first status
              without its sequence; 1 is the step during which the client disconnected
  crowd       64 clients at once, new prompts of about 100 tokens, 32 tokens each: tokens per second of all together and
              time to the first token; also of the peer, which has the same threads and the same number of slots
"""
import argparse
import asyncio
import json
import os
import random
import re
import resource
import select
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import msgpack

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from busy import busy_seconds, cpu_seconds  # noqa: E402
from hobproto import Client, Peer  # noqa: E402

PARTS = ("first", "streams", "memory", "disconnect", "crowd")
WORDS = "river stone cloud garden winter letter music silver window forest bridge candle market ocean paper summer".split()
FIRST = re.compile(rb'"text": ?"[^"]')  # in an event of a stream: a text that is not empty
LENGTH = re.compile(rb'"finish_reason": ?"length"')  # all tokens came
HTTP_END, SOCKET_END = b"data: [DONE]", msgpack.packb("event") + msgpack.packb("done")
HELLO = {"type": "hello", "version": 1, "features": [], "software": "gateway.py"}
SLOTS, CROWD, CROWD_TOKENS = 16, 64, 32
STREAMS, STREAM_TOKENS = 16, 64
OTHERS_MAX = 0.05


def prompt(rng, n):
    """A text of somewhat more than @n tokens."""
    return f"{rng.randrange(10**6)} " + " ".join(rng.choice(WORDS) for _ in range(n))


def generation(text, n):
    return {"prompt": text, "max_tokens": n, "temperature": 0, "ignore_eos": True}


def http_request(text, n, path="/v1/completions", **more):
    body = json.dumps({**generation(text, n), "stream": True, **more}).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


class Others:
    """CPU time of processes that do not belong to this program, from the start on."""

    def __init__(self, server):
        self.server, self.began, self.start = server, time.perf_counter(), self.seconds(server)

    def seconds(self, server):
        return busy_seconds() - sum(cpu_seconds(p.pid) for p in server.processes) - sum(os.times()[:4])

    def cpus(self):
        return (self.seconds(self.server) - self.start) / (time.perf_counter() - self.began)


def frame(message):
    body = msgpack.packb(message)
    return len(body).to_bytes(4, "little") + body


def socket_request(text, n):
    """As hob-http sends it: the request does not wait for the daemon's hello."""
    return frame(HELLO) + frame({"type": "generate", "id": 1, "raw": True, **generation(text, n)})


def port_of(process):
    """hob-http names it in its first line."""
    line = process.stderr.readline()
    found = re.search(r":(\d+)$", line.strip())
    return int(found[1]) if found else sys.exit(f"gateway: {line}{process.stderr.read()}")


class Hob:
    name = "hob"

    def __init__(self, o, root, daemon=True):
        self.socket, self.hob = root / "s", o.build / "client" / "hob"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
        self.env.update({f"XDG_{k}_HOME": str(root / k.lower()) for k in ("STATE", "CACHE", "CONFIG")}, HOB_SOCKET=str(self.socket))
        self.processes = []
        if daemon:
            self.start([o.build / "daemon" / "hobd", "serve", "-q", "-m", o.model, "--socket", self.socket, "--threads", str(o.threads),
                        "--parallel", str(SLOTS)])
            self.wait_ready()
        self.gate = self.start([o.build / "client" / "hob-http", "--socket", self.socket, "--listen", "127.0.0.1:0"],
                               stderr=subprocess.PIPE, text=True)
        self.port = port_of(self.gate)

    def start(self, argv, **keys):
        self.processes.append(subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, **keys))
        return self.processes[-1]

    def wait_ready(self):
        """Until the model is loaded, and what is computed can be kept on disk: the first start hashes and packs the model."""
        while True:
            try:
                status = self.status()
                if status["state"] == "ready" and status["cache"]["disk"]:
                    return
            except OSError:
                assert self.processes[0].poll() is None, "hobd ended"
            time.sleep(0.05)

    def status(self):
        with Client(self.socket) as c:
            return json.loads(c.ask("status")["status"])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def connect_socket(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(self.socket))
        return s

    def stop(self):
        for p in reversed(self.processes):
            p.terminate()
            p.wait()


class Llama:
    name = "llama-server"

    def __init__(self, o):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        model = f"{o.peer_models}/{Path(o.model).name}" if o.peer_models else o.model
        argv = [*o.peer, "-m", model, "-t", str(o.threads), "--port", str(self.port), "--parallel", str(SLOTS), "-c", str(SLOTS * 1024),
                "--kv-unified"]
        self.processes = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return
            except OSError:
                assert self.processes[0].poll() is None, "llama-server ended"
            time.sleep(0.1)

    def stop(self):
        self.processes[0].terminate()
        self.processes[0].wait()


class Table:
    def __init__(self):
        print("| measurement | value |\n|---|---|")

    def add(self, text, value):
        print(f"| {text} | {value} |", flush=True)


# first

def http_first(h, text):
    began = time.perf_counter()
    with h.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(http_request(text, 2))
        got = b""
        while not FIRST.search(got):
            piece = s.recv(65536)
            assert piece, got
            got += piece
        took = time.perf_counter() - began
        while s.recv(65536):
            pass
    return took


def socket_first(h, text):
    began = time.perf_counter()
    with Peer(h.socket) as p:
        p.send_bytes(socket_request(text, 2))
        while not (e := p.recv()).get("text"):
            assert e["event"] not in ("error", "done"), e
        took = time.perf_counter() - began
        while p.recv()["event"] != "done":
            pass
    return took


def first(h, t, o, rng):
    text, times = prompt(rng, 100), {http_first: [], socket_first: []}
    for side in [socket_first, http_first] * 3:
        side(h, text)
    others = Others(h)
    for _ in range(o.times):
        for side, found in times.items():
            found.append(side(h, text) * 1000)
    through, own = times.values()
    t.add(f"first token of a cached prompt through the socket, ms (median of {o.times})", f"{statistics.median(own):.2f}")
    t.add("the same through hob-http", f"{statistics.median(through):.2f}")
    t.add("difference of a pair, ms (median)", f"{statistics.median(a - b for a, b in zip(through, own)):.2f}")
    t.add("CPUs that other processes used meanwhile", f"{others.cpus():.2f}")


# streams

def drain(connections, end):
    """Read all until each has sent @end."""
    poll, live = select.epoll(), {}
    for s in connections:
        live[s.fileno()] = (s, b"")
        poll.register(s, select.EPOLLIN)
    while live:
        for fd, _ in poll.poll():
            s, tail = live[fd]
            piece = s.recv(65536)
            assert piece, "a stream was cut"
            if end in tail + piece:
                poll.unregister(fd)
                del live[fd]
            else:
                live[fd] = (s, piece[-len(end):])
    poll.close()


def by_hob(h, texts):
    argv = [h.hob, "--raw", "--no-stdin", "-q", "-n", str(STREAM_TOKENS), "--temp", "0", "--ignore-eos"]
    clients = [subprocess.Popen([*argv, "--", x], env=h.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for x in texts]
    assert not any([p.wait() for p in clients]), "hob failed"


def by_connections(connect, request, end):
    def run(h, texts):
        connections = []
        for x in texts:
            connections.append(connect(h))
            connections[-1].sendall(request(x, STREAM_TOKENS))
        drain(connections, end)
        for s in connections:
            s.close()
    return run


def middle(values):
    v = sorted(values)
    return statistics.median(v), v[0], v[-1]


def stream_speed(h, side, texts):
    before, began = h.status()["tokens_generated"], time.perf_counter()
    side(h, texts)
    took = time.perf_counter() - began
    made = h.status()["tokens_generated"] - before
    assert made == STREAMS * STREAM_TOKENS, f"{side.__name__}: {made} tokens"
    return made / took


def streams(h, t, o, rng):
    texts = [prompt(rng, 100) for _ in range(STREAMS)]
    sides = {"hob": by_hob, "connections to the socket": by_connections(Hob.connect_socket, socket_request, SOCKET_END),
             "streams through hob-http": by_connections(Hob.connect, http_request, HTTP_END)}
    rounds, tries = [], 0
    while len(rounds) < o.rounds + 1:  # the first one fills the cache
        others = Others(h)
        found = [stream_speed(h, side, texts) for side in sides.values()]
        tries += 1
        if not rounds or others.cpus() < OTHERS_MAX:
            rounds.append(found)
        elif tries > 4 * o.rounds:
            sys.exit(f"gateway: streams: other processes used {others.cpus():.2f} CPUs")
    found = [statistics.median(v) for v in zip(*rounds[1:])]
    for name, v in zip(sides, found):
        t.add(f"{STREAMS} {name}, {STREAM_TOKENS} tokens each: tokens per second (median of {o.rounds})", f"{v:.0f}")
    for i, by in enumerate(["hob", "the socket"]):
        t.add(f"hob-http, by {by} (median; lowest, highest)", "{:.3f} ({:.3f}, {:.3f})".format(*middle(r[2] / r[i] for r in rounds[1:])))


# memory

def memory_of(pid):
    """kB: resident, and proportional."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return [int(re.search(rf"^{key}: +(\d+) kB", text, re.M)[1]) for key in ("Rss", "Pss")]


def play(listener, client):
    """The daemon's part of one stream: a beginning, and then silence. @client reads what has come of it."""
    s, _ = listener.accept()
    s.settimeout(60)
    s.recv(65536)
    text = [{"event": "text", "id": 1, "text": f"{word} "} for word in WORDS]
    s.sendall(b"".join(map(frame, [{"event": "hello", "version": 1, "features": [], "software": "gateway.py"},
                                   {"event": "prefill", "id": 1, "done": 0, "total": 100, "cached": 0}, *text])))
    got = b""
    while WORDS[-1].encode() not in got:
        piece = client.recv(65536)
        assert piece, got
        got += piece
    return s


def memory(o, t, root):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    h = Hob(o, root, daemon=False)
    open_, request = [], http_request("x", 100)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(h.socket))
            listener.listen(16)
            listener.settimeout(60)
            found = [memory_of(h.gate.pid)]
            for _ in range(o.idle):
                open_.append(h.connect())
                open_[-1].sendall(request)
                open_.append(play(listener, open_[-1]))
            found.append(memory_of(h.gate.pid))
    finally:
        for s in open_:
            s.close()
        h.stop()
    t.add("memory of hob-http at its start, resident (proportional), MB", "{:.1f} ({:.1f})".format(*(x / 1024 for x in found[0])))
    t.add(f"with {o.idle} silent streams", "{:.1f} ({:.1f})".format(*(x / 1024 for x in found[1])))
    t.add("a stream, kB", f"{(found[1][0] - found[0][0]) / o.idle:.1f} ({(found[1][1] - found[0][1]) / o.idle:.1f})")


# disconnect

def disconnect_once(h, text, stream):
    """Steps and ms from the disconnection to the first status without the sequence, and the ms of a step."""
    with Client(h.socket) as c:
        def status():
            return json.loads(c.ask("status")["status"])
        start = status()
        s = h.connect()
        s.sendall(http_request(text, 1, stream=stream))
        while (now := status())["steps"] < start["steps"] + 2:
            pass
        assert now["running"] == 1, "the prompt is too short"
        began = time.perf_counter()
        s.close()
        while (then := status())["running"] > 0:
            pass
        return then["steps"] - now["steps"], (time.perf_counter() - began) * 1000, then["step_ms"]


def disconnect(h, t, o, rng):
    found = [disconnect_once(h, prompt(rng, 6000), i % 2 == 0) for i in range(o.disconnects)]  # streams and whole answers
    steps, ms, step_ms = zip(*found)
    t.add(f"steps until a disconnected client's sequence is free, largest of {o.disconnects}", max(steps))
    t.add("the same, ms (median; a step at that time)", f"{statistics.median(ms):.0f} ({statistics.median(step_ms):.0f})")


# crowd

async def one_of_crowd(port, text, go):
    """Seconds from the connection to the first token."""
    await go.wait()
    began, took = time.perf_counter(), None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(http_request(text, CROWD_TOKENS))
    async for line in reader:
        if took is None and FIRST.search(line):
            took = time.perf_counter() - began
        if LENGTH.search(line):
            break
    else:
        raise AssertionError("a stream was cut")
    while await reader.read(65536):
        pass
    writer.close()
    return took


async def all_of_crowd(port, texts):
    go = asyncio.Event()
    tasks = [asyncio.create_task(one_of_crowd(port, x, go)) for x in texts]
    await asyncio.sleep(0)
    began = time.perf_counter()
    go.set()
    return await asyncio.gather(*tasks), time.perf_counter() - began


def crowd(server, t, *_):
    rng = random.Random(2)  # the same prompts for both
    asyncio.run(all_of_crowd(server.port, [prompt(rng, 90) for _ in range(4)]))
    others = Others(server)
    times, took = asyncio.run(all_of_crowd(server.port, [prompt(rng, 90) for _ in range(CROWD)]))
    times = sorted(x * 1000 for x in times)
    t.add(f"{CROWD} clients of {server.name}, {SLOTS} slots: tokens per second", f"{CROWD * CROWD_TOKENS / took:.0f}")
    t.add("first token, ms: p50, p99", f"{statistics.median(times):.0f}, {statistics.quantiles(times, n=100)[98]:.0f}")
    t.add("CPUs that other processes used meanwhile", f"{others.cpus():.2f}")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", default="default", help="a name or the path of a .gguf file (default: default)")
    p.add_argument("--build", type=Path, default=TOP / "build")
    p.add_argument("--only", action="append", choices=PARTS, metavar="PART", help="repeatable")
    p.add_argument("--peer", type=shlex.split, metavar="COMMAND", help="runs llama-server")
    p.add_argument("--peer-models", metavar="DIR", help="where the peer finds the file (default: the same path)")
    p.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all CPUs")
    p.add_argument("-r", "--rounds", type=int, default=3, help="of streams (default: 3)")
    p.add_argument("--times", type=int, default=30, help="of first (default: 30)")
    p.add_argument("--idle", type=int, default=1000, help="streams of memory (default: 1000)")
    p.add_argument("--disconnects", type=int, default=10, help="default: 10")
    o = p.parse_args()
    if o.peer and not Path(o.model).is_file():
        p.error(f"no file {o.model}: the peer needs a path")
    return o


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the servers end
    o, t, rng = options(), Table(), random.Random(1)
    wanted = o.only or PARTS
    with tempfile.TemporaryDirectory() as d:
        if "memory" in wanted:
            memory(o, t, Path(d))
    with tempfile.TemporaryDirectory() as d:
        h = Hob(o, Path(d)) if set(wanted) - {"memory"} else None
        try:
            for part in (first, streams, disconnect, crowd):
                if part.__name__ in wanted:
                    part(h, t, o, rng)
        finally:
            if h:
                h.stop()
    if o.peer and "crowd" in wanted:
        llama = Llama(o)
        try:
            crowd(llama, t)
        finally:
            llama.stop()


if __name__ == "__main__":
    main()
