# SPDX-License-Identifier: MIT
"""A scripted daemon that embeds: vectors of words, so that texts with common words are near. It also answers prompts."""
import hashlib
import math
import re
import socket
import struct
import threading

import msgpack

FEATURES = ["generate", "cancel", "constraint", "thinking", "tools", "media", "embed"]


def direction(word, dim, seed):
    out = []
    while len(out) < dim:
        block = hashlib.blake2b(f"{seed} {word} {len(out)}".encode()).digest()
        out += [x / 32768 for x in struct.unpack("<32h", block)]
    return out[:dim]


class EmbedPeer:
    """@texts: all that was embedded. @prompts: all that was to be answered. @fail: refuse with this
    message. @hold: wait for this event first. @asked: set with the first texts. @limit: refuse longer texts."""

    def __init__(self, path, dim=256, seed=0):
        self.dim, self.seed, self.texts, self.prompts, self.words = dim, seed, [], [], {}
        self.fail, self.hold, self.limit, self.asked = None, None, None, threading.Event()
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(str(path))
        self.server.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()

    def vector(self, text):
        v = list(direction("", self.dim, self.seed))
        for word in re.findall(r"\w+", text.lower()):
            if word not in self.words:
                self.words[word] = direction(word, self.dim, self.seed)
            v = [a + b for a, b in zip(v, self.words[word])]
        length = math.sqrt(sum(x * x for x in v))
        return struct.pack(f"<{self.dim}f", *(x / length for x in v))

    def accept(self):
        while True:
            try:
                c, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        def send(message):
            body = msgpack.packb(message, use_bin_type=True)
            c.sendall(struct.pack("<I", len(body)) + body)

        def read(n):
            out = b""
            while len(out) < n:
                piece = c.recv(n - len(out))
                if not piece:
                    raise EOFError
                out += piece
            return out

        try:
            while True:
                m = msgpack.unpackb(read(*struct.unpack("<I", read(4))), raw=False)
                if m["type"] == "hello":
                    send({"event": "hello", "version": 1, "features": FEATURES, "software": "embedpeer.py"})
                elif m["type"] == "embed":
                    self.embed(m, send)
                elif m["type"] == "generate":
                    self.prompts.append(m)
                    send({"event": "text", "id": m["id"], "index": 0, "text": "It is so [1]."})
                    self.done(m, send)
                else:  # also the "stop" at the end of a test
                    send({"event": "error", "id": m["id"], "code": "EOPNOTSUPP", "message": "this peer only embeds"})
        except (EOFError, OSError):
            c.close()

    def done(self, m, send):
        send({"event": "done", "id": m["id"], "index": 0, "reason": "stop",
              "usage": {"prompt": 1, "cached": 0, "completion": 1},
              "timings": {"queue_ms": 0.0, "prefill_ms": 0.0, "decode_ms": 0.0, "ttft_ms": 0.0}})

    def embed(self, m, send):
        self.asked.set()
        if self.hold:
            self.hold.wait(60)
        if self.fail:
            return send({"event": "error", "id": m["id"], "code": "EINVAL", "message": self.fail})
        texts = m["texts"]
        for at in range(0, len(texts), 100):
            part = texts[at:at + 100]
            if self.limit and max(map(len, part)) > self.limit:
                return send({"event": "error", "id": m["id"], "code": "E2BIG", "message": "texts: one is too long"})
            send({"event": "embeddings", "id": m["id"], "first": at, "vectors": b"".join(map(self.vector, part)),
                  "tokens": [len(t.split()) for t in part], "cached": 0})
            self.texts += part
        self.done(m, send)

    def close(self):
        self.server.close()
