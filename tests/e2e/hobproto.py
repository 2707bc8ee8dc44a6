# SPDX-License-Identifier: MIT
"""An independent client of hob-protocol(7), written from the manual page, with Python's msgpack."""
import json
import socket
import struct

import msgpack


class Closed(Exception):
    pass


class Peer:
    """A raw connection: frames out and in, no rules kept."""

    def __init__(self, path, timeout=60):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(timeout)
        self.s.connect(str(path))
        self.buf = b""

    def send_bytes(self, b):
        self.s.sendall(b)

    def send(self, message):
        body = msgpack.packb(message, use_bin_type=True)
        self.send_bytes(struct.pack("<I", len(body)) + body)

    def _read(self, n):
        while len(self.buf) < n:
            piece = self.s.recv(65536)
            if not piece:
                raise Closed()
            self.buf += piece
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def recv(self):
        (n,) = struct.unpack("<I", self._read(4))
        assert n <= 64 << 20
        return msgpack.unpackb(self._read(n), raw=False)

    def close(self):
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Client(Peer):
    """A connection that has said hello."""

    def __init__(self, path, timeout=60, user=None):
        super().__init__(path, timeout)
        self.send({"type": "hello", "version": 1, "features": [], "software": "hobproto.py", **({"user": user} if user else {})})
        self.hello = self.recv()
        assert self.hello["event"] == "hello", self.hello
        self.last = 0

    def request(self, kind, **keys):
        self.last += 1
        self.send({"type": kind, "id": self.last, **keys})
        return self.last

    def generate(self, prompt=None, kind="generate", **keys):
        """Send; returns the id. A string is one user message; with raw=True it is the text."""
        if prompt is not None and keys.get("raw"):
            keys["prompt"] = prompt
        elif prompt is not None:
            keys["messages"] = [{"role": "user", "content": prompt}]
        return self.request(kind, **keys)

    def events(self, *ids):
        """Events of these requests until each has ended."""
        live = set(ids)
        while live:
            e = self.recv()
            if e.get("id") not in ids:
                continue
            yield e
            if e["event"] in ("done", "error", "tokens", "detokenized", "status", "stopping", "sessions", "ok"):
                live.discard(e["id"])

    def answer(self, prompt=None, **keys):
        return Answer(list(self.events(self.generate(prompt, **keys))))

    def vectors(self, texts, kind="embed", **keys):
        return Vectors(list(self.events(self.request(kind, texts=texts, **keys))))

    def warm(self, prompt=None, **keys):
        return self.answer(prompt, kind="warm", **keys)

    def ask(self, kind, **keys):
        """The last event of a request that is not streamed."""
        return list(self.events(self.request(kind, **keys)))[-1]

    def sessions(self):
        """The daemon's list, newest first, all its pages; an error is an assertion."""
        found, after = [], {}
        while True:
            e = self.ask("session.list", **after)
            assert e["event"] == "sessions", e
            found += json.loads(e["sessions"])
            if "next" not in e:
                return found
            after = {"after": e["next"]}

    def session(self, name):
        """What it holds; an error is an assertion."""
        e = self.ask("session.show", name=name)
        assert e["event"] == "sessions", e
        return json.loads(e["sessions"])


class Answer:
    def __init__(self, events):
        self.events = events
        self.end = events[-1]
        texts = [e for e in events if e["event"] == "text"]
        self.text = "".join(e["text"] for e in texts)
        self.ids = [i for e in texts for i in e.get("ids", [])]
        # The bits, not the value: equal means bit-equal here.
        self.logprobs = [struct.pack("<f", x) for e in texts for x in e.get("logprobs", [])]

    @property
    def usage(self):
        return self.end["usage"]


class Vectors:
    """What answers embed or rank: rows of bytes, so that equal means bit-equal."""

    def __init__(self, events):
        self.events = events
        self.end = events[-1]
        self.rows, self.tokens, self.cached, self.method = [], [], 0, None
        for e in events:
            if e["event"] not in ("embeddings", "scores"):
                continue
            values, n = e["vectors" if e["event"] == "embeddings" else "scores"], len(e["tokens"])
            size = len(values) // n
            assert e["first"] == len(self.rows) and size * n == len(values) and size % 4 == 0, e
            self.rows += [values[i * size:(i + 1) * size] for i in range(n)]
            self.tokens += e["tokens"]
            self.cached += e["cached"]
            self.method = e.get("method")

    @property
    def floats(self):
        return [struct.unpack(f"<{len(r) // 4}f", r) for r in self.rows]
