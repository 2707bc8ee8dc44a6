#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The speed of answers with proposed tokens (--speculate auto) by that without (off): a line for each kind of work.
usage: speculate.py [-t THREADS] [-r ROUNDS] [--only WORD[,WORD…]] [--json OUT] [--draft FILE | --mtp] HOBD MODEL
Each round asks the same with auto and with off, in turn, of the same daemon, and checks that tokens, logprobs and text
are equal. A round has a salt of its own, so that no answer of a round before can be looked up. The prompts are raw text
that a small model continues by copying: "edit" has a program, then the first lines of the same program with a name
replaced, so that the model goes on with the copy; "copy" the same without a new name. A larger model that copies is made
by copy_model.py. The times are those of decoding. speculate_peer.py asks llama.cpp's server the same.
With --draft the daemon has that draft model, and there are three more kinds, in which only the draft model proposes (--speculate draft):
"draft", greedy prose; "draft-warm", prose at temperature 0.8; "draft-chat", a question of each of the six kinds of prompts, greedy.
With --mtp the model's own layer that predicts later tokens proposes, in the same three kinds; mtp_model.py makes a model whose layer is right.
--json: also write the lines as JSON to this file.
ratio: the median over the rounds of off / auto; low, high: the least and the most; a step: tokens of an answer by steps."""
import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = '''import csv
import sys


class Account:
    """An account of a customer, with a balance in cents."""

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        if amount > self.balance:
            raise ValueError("the balance is too low")
        self.balance -= amount
        self.history.append(("withdraw", amount))

    def transfer(self, other, amount):
        self.withdraw(amount)
        other.deposit(amount)

    def report(self):
        lines = [f"account of {self.owner}: {self.balance} cents"]
        for kind, amount in self.history:
            lines.append(f"  {kind:10} {amount:8}")
        return "\\n".join(lines)


class Bank:
    """All accounts, by the name of their owner."""

    def __init__(self):
        self.accounts = {}

    def open(self, owner, balance=0):
        if owner in self.accounts:
            raise KeyError(f"{owner} has an account already")
        self.accounts[owner] = Account(owner, balance)
        return self.accounts[owner]

    def close(self, owner):
        account = self.accounts.pop(owner)
        if account.balance != 0:
            self.accounts[owner] = account
            raise ValueError("the account is not empty")

    def total(self):
        return sum(account.balance for account in self.accounts.values())

    def load(self, path):
        with open(path, newline="") as f:
            for row in csv.DictReader(f):
                account = self.accounts.get(row["owner"])
                if account is None:
                    account = self.open(row["owner"])
                if row["kind"] == "deposit":
                    account.deposit(int(row["amount"]))
                elif row["kind"] == "withdraw":
                    account.withdraw(int(row["amount"]))
                else:
                    raise ValueError(f"unknown kind {row['kind']}")

    def save(self, path):
        with open(path, "w", newline="") as f:
            out = csv.DictWriter(f, ["owner", "kind", "amount"])
            out.writeheader()
            for owner in sorted(self.accounts):
                for kind, amount in self.accounts[owner].history:
                    out.writerow({"owner": owner, "kind": kind, "amount": amount})

    def report(self):
        lines = [self.accounts[owner].report() for owner in sorted(self.accounts)]
        lines.append(f"total: {self.total()} cents")
        return "\\n".join(lines)


def main(argv):
    if len(argv) < 2:
        print("usage: bank.py FILE [OWNER]", file=sys.stderr)
        return 2
    bank = Bank()
    bank.load(argv[1])
    if len(argv) > 2:
        account = bank.accounts.get(argv[2])
        if account is None:
            print(f"bank.py: no account of {argv[2]}", file=sys.stderr)
            return 1
        print(account.report())
    else:
        print(bank.report())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
'''

STORY = """The lighthouse of Saint Orrin stands on a rock that the sea covers twice a day. For ninety years its keepers rowed over in the
morning and back in the evening, and when the weather was bad they stayed for weeks. The last of them was Edda Marrow, who had
learned the work from her father. She wrote down every ship that passed, its name, its colour and the hour, in grey books that
filled two shelves. When the light became automatic in 1974, the harbour office wanted to burn the books, but the teacher of the
village school carried them home. In 1998 a student of the university found that the books had the only complete record of the
cold currents of that coast. Because the fog comes when the current turns, and Edda had noted each fog, the student could tell
the temperature of the sea for forty years. The books are now in the museum of the county, in a room with a view of the rock.
"""
RECORDS = [{"id": i, "name": f"sensor-{i:02}", "unit": "celsius", "place": {"building": "north", "floor": 2, "room": "204"}, "active": True,
            "limits": {"low": 5, "high": 40}, "interval_seconds": 60} for i in range(1, 41)]
RENAME = ("balance", "credit")


def edit(name):
    old, new = name
    there = SOURCE.replace(old, new)
    head = there[:there.index("    def deposit")]
    return f"The file bank.py:\n\n{SOURCE}\nThe same file, with the name {old} replaced by {new}:\n\n{head}"


def speak(kind, i):
    """Prompt @i of ten of one of the six kinds of Spec-Bench."""
    topics = ["a garden", "an old clock", "the moon", "a bakery", "rain", "a train", "bees", "salt", "a bridge", "paper"]
    t = topics[i]
    facts = [s.strip() for s in STORY.replace("\n", " ").split(". ") if s.strip()]
    if kind == "conversation":
        return [{"role": "user", "content": f"Write a short blog post about {t}."},
                {"role": "assistant", "content": f"{t.capitalize()} is something that many people pass without a look. I stopped and looked at {t} for an hour."},
                {"role": "user", "content": "Rewrite it so that every sentence begins with the same letter."}]
    if kind == "translation":
        return [{"role": "user", "content": f"Translate German to English: Gestern haben wir lange von dem Thema gesprochen, wie wichtig {t} fuer das Dorf ist. Nummer {i}."}]
    if kind == "summarization":
        return [{"role": "user", "content": "Summarize:\n" + STORY + f"\nSummarize it in {i + 2} sentences."}]
    if kind == "questions":
        return [{"role": "user", "content": f"Where do people first write of {t}, and why?"}]
    if kind == "mathematics":
        return [{"role": "user", "content": f"A farmer has {12 + i} crates with {7 + i} apples each. She sells {20 + 3 * i} apples and gives away {i + 1} crates. How many apples are left? Explain each step."}]
    return [{"role": "user", "content": "Text:\n" + " ".join(f + "." for f in facts[i % 4:] + facts[:i % 4]) + "\nQuestion: Who wrote the books, and what was found in them? Quote the text."}]


SIX = ["conversation", "translation", "summarization", "questions", "mathematics", "retrieval"]
GREEDY = {"temperature": 0}
WARM = {"temperature": 0.8, "seed": 7}


def works():
    """Name -> a list of connections' work, each a list of (request keys) to be asked one after the other."""
    raw = {"raw": True, "ignore_eos": True}
    quote = STORY + "\nThe same text again, word by word:\n\n" + STORY[:120]
    listed = [json.dumps(r) for r in RECORDS]
    table = "[\n" + ",\n".join(listed[:3]) + ",\n"
    turns = [{"raw": True, "ignore_eos": True, "prompt": p, "max_tokens": 160, "session": "s", **GREEDY} for p in
             (STORY + "\nThe text again:\n\n" + STORY[:60], "\n\nOnce more, the same text:\n\n" + STORY[:60], "\n\nAnd again:\n\n" + STORY[:60])]
    prose = [dict(raw, prompt="It was late in the autumn when the old painter came back to the town where he was born, and", max_tokens=400, **WARM)]
    out = {"edit": [[dict(raw, prompt=edit(RENAME), max_tokens=1000, **GREEDY)]],
           "copy": [[dict(raw, prompt=edit(("balance", "balance")), max_tokens=1000, **GREEDY)]],
           "quote": [[dict(raw, prompt=quote, max_tokens=200, **GREEDY)]],
           "session": [turns],
           "json": [[dict(raw, prompt="Forty records of sensors as JSON:\n" + table, max_tokens=1200, **GREEDY)]],
           "prose": [prose],
           "hostile": [[dict(raw, prompt=hostile(), max_tokens=300, temperature=1.3, seed=3)]],
           "crowd": [[dict(raw, prompt=f"Client {i}. " + (quote if i % 4 == 0 else prose[0]["prompt"]), max_tokens=150, **WARM)]
                     for i in range(16)]}
    start = "The village lies between two hills, and the road that leads there from the coast is old. In the first house of it"
    out["draft"] = [[dict(raw, prompt=start, max_tokens=300, **GREEDY)]]
    out["draft-warm"] = [[dict(raw, prompt=start, max_tokens=300, **WARM)]]
    out["draft-chat"] = [[dict(messages=speak(kind, i), max_tokens=150, **GREEDY) for i, kind in enumerate(SIX)]]
    for kind in SIX:
        out[kind] = [[dict(messages=speak(kind, i), max_tokens=200, **GREEDY) for i in range(10)]]
    return out


def hostile():
    """Near-copies: each pair of words is followed by all the others."""
    words = "red blue green black white brown".split()
    return " ".join(f"{a} {b} {c}" for a in words for b in words for c in words)


def pack(v):
    """@v in MessagePack, without the packages that others have."""
    if v is None or isinstance(v, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[v]
    if isinstance(v, int):
        return struct.pack(">Bq", 0xD3, v)
    if isinstance(v, float):
        return struct.pack(">Bd", 0xCB, v)
    if isinstance(v, str):
        b = v.encode()
        return struct.pack(">BI", 0xDB, len(b)) + b
    if isinstance(v, dict):
        return struct.pack(">BI", 0xDF, len(v)) + b"".join(pack(k) + pack(x) for k, x in v.items())
    return struct.pack(">BI", 0xDD, len(v)) + b"".join(map(pack, v))


NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
LENGTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


def unpack(b, at=0):
    """The value at @at, and where the next one is."""
    c = b[at]
    at += 1
    if c < 0x80 or c >= 0xE0:
        return c if c < 0x80 else c - 256, at
    if c in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[c], at
    if c in NUMBERS:
        return struct.unpack_from(NUMBERS[c], b, at)[0], at + struct.calcsize(NUMBERS[c])
    if c in LENGTHS:
        n = struct.unpack_from(LENGTHS[c], b, at)[0]
        at += struct.calcsize(LENGTHS[c])
    else:
        n = c & (31 if 0xA0 <= c < 0xC0 else 15)
    if 0xA0 <= c < 0xC0 or 0xC4 <= c < 0xDC:
        return (b[at:at + n] if c in (0xC4, 0xC5, 0xC6) else b[at:at + n].decode()), at + n
    out = []
    for _ in range(n if c < 0x80 or 0x90 <= c < 0xA0 or c in (0xDC, 0xDD) else 2 * n):
        v, at = unpack(b, at)
        out.append(v)
    return (out if 0x90 <= c < 0xA0 or c in (0xDC, 0xDD) else dict(zip(out[::2], out[1::2]))), at


class Client:
    """A connection to hobd; see hob-protocol(7)."""

    def __init__(self, path, timeout):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(timeout)
        self.s.connect(path)
        self.last = 0
        self.send({"type": "hello", "version": 1, "features": [], "software": "speculate.py"})
        self.recv()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def send(self, message):
        b = pack(message)
        self.s.sendall(struct.pack("<I", len(b)) + b)

    def read(self, n):
        b = b""
        while len(b) < n:
            more = self.s.recv(n - len(b))
            if not more:
                raise OSError("the daemon closed the connection")
            b += more
        return b

    def recv(self):
        return unpack(self.read(struct.unpack("<I", self.read(4))[0]))[0]

    def request(self, kind, **keys):
        self.last += 1
        self.send({"type": kind, "id": self.last, **keys})
        return self.last

    def events(self, *ids):
        live = set(ids)
        while live:
            e = self.recv()
            yield e
            if e["event"] in ("done", "error", "status"):
                live.discard(e["id"])

    def ask(self, kind):
        return list(self.events(self.request(kind)))[-1]


def start(hobd, model, threads, root, draft):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_"))}
    env.update({f"XDG_{k}_HOME": f"{root}/{k.lower()}" for k in ("STATE", "CACHE", "DATA", "CONFIG")})
    p = subprocess.Popen([hobd, "serve", "-m", model, "--socket", f"{root}/socket", "-q", "--threads", str(threads), *(["--draft", draft] if draft else [])],
                         env=env, stderr=open(f"{root}/log", "wb"))
    while p.poll() is None:
        try:
            with Client(f"{root}/socket", 600) as c:
                if json.loads(c.ask("status")["status"])["state"] == "ready":
                    return p
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"speculate: {Path(root, 'log').read_text()}")


def run(sock, work, mode, salt):
    """Ask the lists of @work side by side: what was said, seconds of decoding, and the sums of usage."""
    said, ms, sums = [], 0, {"completion": 0, "drafted": 0, "accepted": 0}
    with Client(sock, 900) as c:
        t = time.monotonic()
        for nth in range(max(len(w) for w in work)):
            ids = []
            for k, w in enumerate(work):
                if nth < len(w):
                    keys = dict(w[nth], salt=salt, logprobs=True, speculate=mode)
                    if "session" in keys:
                        keys["session"] = f"{keys['session']}-{salt}-{mode}-{k}"
                    ids.append(c.request("generate", **keys))
            got = {i: [[], [], ""] for i in ids}
            for e in c.events(*ids):
                if e["event"] == "error":
                    sys.exit(f"speculate: {e}")
                if e["event"] == "text":
                    got[e["id"]][0] += e.get("ids", [])
                    got[e["id"]][1] += e.get("logprobs", [])
                    got[e["id"]][2] += e["text"]
                if e["event"] == "done":
                    ms += e["timings"]["decode_ms"]
                    for key in sums:
                        sums[key] += e["usage"].get(key, 0)
            said += [got[i] for i in ids]
        if len(work) > 1:
            ms = (time.monotonic() - t) * 1000
    return said, ms, sums


def measure(sock, name, work, rounds):
    ratios, sums = [], {}
    fast = "draft" if name.startswith("draft") else "auto"
    run(sock, work, "off", f"{name}-first")
    for r in range(rounds):
        salt, times, all_said = f"{name}-{r}-{os.getpid()}", {}, {}
        for mode in (fast, "off") if r % 2 else ("off", fast):
            all_said[mode], times[mode], usage = run(sock, work, mode, f"{salt}-{mode}")
            if mode == fast:
                sums = usage
        if all_said[fast] != all_said["off"]:
            sys.exit(f"speculate: {name}: the answers differ")
        ratios.append(times["off"] / times[fast])
    steps = sums["completion"] - sums["accepted"]
    return {"work": name, "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "tokens": sums["completion"],
            "drafted": sums["drafted"], "accepted": sums["accepted"], "a_step": sums["completion"] / max(steps, 1)}


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("-t", "--threads", type=int, default=2)
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("--only", default="")
    p.add_argument("--json", metavar="OUT")
    p.add_argument("--draft", default="none")
    p.add_argument("--mtp", dest="draft", action="store_const", const=None)
    p.add_argument("hobd")
    p.add_argument("model")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as root:
        d = start(o.hobd, o.model, o.threads, root, o.draft)
        lines = []
        try:
            for name, work in works().items():
                if name not in o.only.split(",") if o.only else o.draft == "none" and name.startswith("draft"):
                    continue
                m = measure(f"{root}/socket", name, work, o.rounds)
                print(f"{m['work']:14} {m['ratio']:5.2f}x ({m['low']:.2f} to {m['high']:.2f})  {m['tokens']:5} tokens, "
                      f"drafted {m['drafted']}, accepted {m['accepted']}, {m['a_step']:.2f} a step", flush=True)
                lines.append(m)
            if o.json:
                Path(o.json).write_text("".join(json.dumps(m) + "\n" for m in lines))
        finally:
            d.terminate()
            d.wait(60)


if __name__ == "__main__":
    main()
