# SPDX-License-Identifier: MIT
"""What sweep.py repeats with faults. A scenario is called with (folder, model, control, effect, say, deadline); it returns
whether no site is left."""
import itertools
import json
import os
import re
import signal
import subprocess
import time

from conftest import BUILD, HOB, HOBD, Home
from control import FROM
from gateway import gateway
from hobproto import Client, Closed, Peer

VARYING = re.compile(r'"timings":\{[^}]*\}|"(?:seed|cached|uptime|\w+_ms)":[\d.]+')
LIBRARY = BUILD / "tests" / "faults" / "libfault.so"
KEYS = dict(max_tokens=3, temperature=0.9, seed=5, ignore_eos=True)
# valgrind knows no AVX-512, and makes calls that hobd gives up.
VALGRIND = ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite",
            "--soname-synonyms=somalloc=nouserintercepts"] if os.environ.get("HOB_FAULT_LEAKS") else []
HANG = float(os.environ.get("HOB_FAULT_HANG", 60))  # seconds after which a program hangs
CALM = 3  # repetitions without a fault, after which no site is left
CHECK = int(os.environ.get("HOB_FAULT_CHECK", 20))  # lives between two looks at all turns


class Findings(list):
    """What a fault did that it must not do; each once."""

    def of(self, scenario, control, symbols):
        def say(what, log=""):
            if "AddressSanitizer: CHECK failed" in log:  # of memory that the sanitizer itself needs
                return
            site = symbols.path(control.last_site())
            self.append((scenario, site, what))
            print(f"FOUND {scenario}: {what}\n    after {site}" + "".join(f"\n    | {x}" for x in excerpt(log.splitlines())), flush=True)
        return say


def excerpt(lines):
    """The end of a log, or the beginning of a sanitizer's report."""
    report = next((i for i, x in enumerate(lines) if "anitizer" in x or "runtime error" in x), None)
    return lines[-12:] if report is None else lines[max(0, report - 2):report + 30]


class Turns:
    """Turns of sessions; one that was not acknowledged is asked again under its UUID."""

    def __init__(self):
        self.n, self.kept, self.open = 0, {}, None

    def ask(self, c):
        """One turn; the code of its error, or None."""
        if not self.open:
            self.n += 1
            self.open = (f"s{self.n // 6}", f"turn {self.n} and more", f"uuid-{self.n}")
        name, words, uuid = self.open
        end = c.answer(words, session=name, uuid=uuid, logprobs=True, **KEYS).end
        if end["event"] == "error":
            return f"{end['code']}: {end['message']}"
        self.kept.setdefault(name, []).append(words)
        self.open = None
        return None

    def copy(self):
        return {name: list(words) for name, words in self.kept.items()}

    def forget(self, kept):
        """The daemon said that it keeps nothing."""
        self.kept, self.open = kept, None

    def check_last(self, c, say):
        """The session of the last turn."""
        self.check(c, say, list(self.kept)[-1:])

    def check(self, c, say, names=None):
        for name in self.kept if names is None else names:
            words = self.kept[name]
            end = c.ask("session.show", name=name)
            if end["event"] != "sessions":
                say(f"session {name} with {len(words)} acknowledged turns: {end}")
                continue
            there = [m["content"] for m in json.loads(end["sessions"])["messages"] if m["role"] == "user"]
            if self.open and self.open[0] == name and there[-1:] == [self.open[1]]:
                there.pop()
            if there != words:
                say(f"session {name} has {there}, acknowledged were {words}")
                self.kept[name] = there


class Daemon:
    """hobd with the library, one thread."""

    def __init__(self, folder, model, control, *args):
        self.home, self.control, self.args = Home(folder, model), control, args
        self.p, self.log = None, folder / "hobd.log"
        self.conf = folder / "config" / "hob" / "hobd.conf"
        self.conf.parent.mkdir(parents=True)
        self.conf.write_text("queue = 100\n")

    def start(self):
        env = {"LD_PRELOAD": str(LIBRARY), "FAULT_CONTROL": str(self.control.path), **({"HOB_CPU": "avx2"} if VALGRIND else {})}
        self.at = self.log.stat().st_size if self.log.exists() else 0
        self.p = self.home.daemon("--threads", 1, "--kv-bytes", "400K", *self.args, *(["--confine", "no"] if VALGRIND else []), env=env,
                                  wrap=VALGRIND, wait=False)
        return self

    def said(self):
        return self.log.read_text(errors="replace")[self.at:]

    def speaks(self, begun):
        """Whether it says more than @begun bytes, at once or soon: it may close a connection first."""
        end = time.monotonic() + 10
        while len(self.said()) == begun and time.monotonic() < end:
            time.sleep(0.01)
        return len(self.said()) > begun

    def connect(self):
        """A connection, or None if hobd ended."""
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            if self.p.poll() is not None:
                return None
            try:
                return Client(self.home.socket, timeout=HANG)
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.002)
            except AssertionError as e:
                return f"refused: {e}"
            except (Closed, ConnectionResetError, BrokenPipeError):
                return "closed at once"
        raise TimeoutError

    def stop(self, say, may_fail=False):
        """Stop it; its status is 0, or, if it @may_fail to start, 1 with a message."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            status = self.p.wait(HANG)
        except subprocess.TimeoutExpired:
            self.kill()
            say("hobd does not stop", self.said())
            return
        if may_fail and status == 1:
            self.ended_well(say, status)
        elif status or "anitizer" in self.said() or "==" in self.said():
            say(f"hobd stopped with status {status}", self.said())

    def kill(self):
        self.p.kill()
        self.p.wait()

    def ended_well(self, say, status):
        """Whether a hobd that ended by itself ended as it should: a message, a status."""
        lines = [x for x in self.said().splitlines() if x.startswith("hobd: ")]
        if status not in (1, 2) or not lines or "anitizer" in self.said():
            say(f"hobd ended with status {status}", self.said())


def faulty(daemon, turns, do):
    """One step with faults: None, or what became of it."""
    c = None
    try:
        c = daemon.connect()
        if c is None:
            return "not running"
        return c if isinstance(c, str) else do(c, turns)
    except (Closed, ConnectionResetError, BrokenPipeError):
        return "closed"
    except TimeoutError:
        return "hang"
    finally:
        if isinstance(c, Client):
            c.close()


def peer_ended(control, effect):
    """Whether the fault says that the peer closed its socket, which needs no message."""
    return effect == FROM or (control.last_site() or [0, ""])[1] in ("send", "recvmsg")


def running(do, *args, rest=0.0, check_every=100):
    """A scenario: a running hobd; do(client, turns) fails, and the next works."""

    def scenario(folder, model, control, effect, say, deadline):
        d, turns, calm = Daemon(folder, model, control, *args).start(), Turns(), 0
        d.turns = turns
        faulty(d, turns, lambda c, t: t.ask(c))
        for i in itertools.count(1):
            control.arm(effect)
            begun = len(d.said())
            what = faulty(d, turns, lambda c, t: do(d, c, t))
            if rest:
                time.sleep(rest)
            fired = control.disarm()
            if what == "hang":
                say("hobd does not answer", d.said())
            elif what and not fired:
                say(f"without a fault: {what}", d.said())
            elif what and ":" not in what and d.p.poll() is None and not peer_ended(control, effect) and not d.speaks(begun):
                say(f"{what}, and no message", d.said())
            again = None if d.p.poll() is not None else faulty(d, turns, lambda c, t: t.ask(c))
            if d.p.poll() is not None:
                say(f"hobd ended with status {d.p.returncode}", d.said())
                d.start()
                again = faulty(d, turns, lambda c, t: t.ask(c))
            if not again and fired:
                faulty(d, turns, lambda c, t: t.check_last(c, say))
            if again:
                say(f"without a fault: {again}", d.said())
                if again == "hang":
                    d.kill()
                    d.start()
            calm = 0 if fired else calm + 1
            if calm == CALM or time.monotonic() > deadline:
                break
            if i % check_every == 0:
                faulty(d, turns, lambda c, t: t.check(c, say))
        d.stop(say)
        d.start()
        faulty(d, turns, lambda c, t: t.check(c, say))
        d.stop(say)
        return calm == CALM

    return scenario


def turn(d, c, turns):
    return turns.ask(c)


def session_work(d, c, turns):
    """All that can be done to a session but a turn."""
    name, first = f"w{turns.n}", next(iter(turns.kept))
    out = [turns.ask(c)]
    for kind, keys in (("session.list", {}), ("session.fork", {"name": first, "to": name}), ("session.show", {"name": name}),
                       ("session.rename", {"name": name, "to": name + "x"}), ("session.remove", {"name": name + "x"}), ("status", {})):
        e = c.ask(kind, **keys)
        if e["event"] == "error":
            out.append(f"{e['code']}: {e['message']}")
    return next((x for x in out if x), None)


def other_requests(d, c, turns):
    """Requests without a session: constraint, tools, several answers, tokens."""
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]})
    out = []
    for keys in (dict(constraint={"type": "schema", "text": schema}, ignore_eos=False, max_tokens=40), dict(n=2), dict(stop=["zz"]), dict(raw=True, prompt="some text")):
        prompt = keys.pop("prompt", "hello there")
        end = c.answer(prompt, **{**KEYS, **keys}).end
        if end["event"] == "error":
            out.append(f"{end['code']}: {end['message']}")
    for kind, keys in (("tokenize", {"text": "a text"}), ("detokenize", {"ids": [5, 6, 7]})):
        e = c.ask(kind, **keys)
        if e["event"] == "error":
            out.append(f"{e['code']}: {e['message']}")
    return out[0] if out else None


def reloading(d, c, turns):
    turns.n += 0
    d.reloads = getattr(d, "reloads", 0) + 1
    d.conf.write_text(f"queue = {100 + d.reloads % 50}\nsession-count = {100 + d.reloads % 7}\n")
    at = len(d.said())
    d.p.send_signal(signal.SIGHUP)
    end = time.monotonic() + 0.3
    while time.monotonic() < end and len(d.said()) == at:
        time.sleep(0.002)
    return None


def hostile(d, c, turns):
    """Connections that end early, in each way."""
    for n in (0, 3, 7, 40):
        with Peer(d.home.socket, timeout=HANG) as p:
            p.send_bytes(b"\x40\0\0\0" + bytes(n))
    c.generate("to be cancelled", **{**KEYS, "max_tokens": 60})
    c.recv()
    return None


def life(*args):
    """A scenario: start on a disk with sessions and blocks, two turns, a write-out at the stop."""

    def scenario(folder, model, control, effect, say, deadline):
        d, turns, calm = Daemon(folder, model, control, *args), Turns(), 0
        d.start()
        faulty(d, turns, lambda c, t: [t.ask(c) for _ in range(4)])
        d.stop(say)
        for i in itertools.count(1):
            control.arm(effect)
            before = turns.copy()
            d.start()
            for _ in range(2):
                what = faulty(d, turns, turn_of)
                if what == "hang":
                    say("hobd does not answer", d.said())
                    d.kill()
            if effect == FROM and control.failed != control.before:
                control.persist = 0
                control.choice = 0
            status = d.p.poll()
            if status is None:
                d.stop(say, control.failed != control.before)
            elif what != "hang":
                d.ended_well(say, status)
            calm = 0 if control.disarm() else calm + 1
            if "sessions are kept only in memory" in d.said():
                turns.forget(before)
            if turns.open or i % CHECK == 0 or calm == CALM:
                d.start()
                again = faulty(d, turns, turn_of)
                if again:
                    say(f"started again without a fault: {again}", d.said())
                faulty(d, turns, lambda c, t: t.check(c, say))
                d.stop(say)
            if calm == CALM or time.monotonic() > deadline:
                return calm == CALM

    return scenario


def turn_of(c, turns):
    return turns.ask(c)


def client(*commands, setup=None):
    """A scenario: programs of the client before a hobd without faults. Each prints the same as ever, or says what failed."""

    def scenario(folder, model, control, effect, say, deadline):
        home = Home(folder, model)
        home.daemon("--threads", 1)
        if setup:
            setup(home)
        calm = 0
        want = [run(home, x) for _ in range(2) for x in commands][-len(commands):]
        for w in want:
            assert w[0] == 0, w
        while calm < CALM * len(commands) and time.monotonic() < deadline:
            for command, (_, out, _) in zip(commands, want):
                control.arm(effect)
                status, got, err = run(home, command, {"LD_PRELOAD": str(LIBRARY), "FAULT_CONTROL": str(control.path)})
                fired = control.disarm()
                calm = 0 if fired else calm + 1
                line = " ".join(map(str, command))
                if status is None:
                    say(f"{line}: hangs", err)
                elif status < 0 or status > 100 or "anitizer" in err:
                    say(f"{line}: status {status}", err)
                elif status and not err:
                    say(f"{line}: status {status} and no message")
                elif not status and got != out and not err:
                    say(f"{line}: status 0 and other output: {got[-200:]!r} instead of {out[-200:]!r}", err)
        home.stop()
        return calm >= CALM * len(commands)

    return scenario


def run(home, command, env={}):
    """(status, standard output without what differs from run to run, messages)"""
    argv = [str(x).replace("@", str(home.root)) for x in command]
    p = subprocess.Popen(argv, env={**home.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home.root)
    try:
        out, err = p.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        return None, out, err.decode(errors="replace")
    return p.returncode, VARYING.sub("", out.decode(errors="replace")), err.decode(errors="replace")


def with_log(home):
    home.hob("log", "on", check=0)
    for i in range(3):
        home.hob("-n", 3, f"question {i}", check=0)


def with_batch(home):
    (home.root / "IN").write_text("".join(json.dumps({"prompt": f"say {i}", "max_tokens": 2}) + "\n" for i in range(3)))


FIXED = (HOB, "--temp", "0", "-n", 4, "--ignore-eos", "--speculate", "off")  # the usage counts proposed tokens
SCENARIOS = {
    "turn": ("hobd", running(turn)),
    "idle": ("hobd", running(turn, rest=0.05)),
    "sessions": ("hobd", running(session_work)),
    "requests": ("hobd", running(other_requests)),
    "reload": ("hobd", running(reloading)),
    "hostile": ("hobd", running(hostile)),
    "life": ("hobd", life()),
    "hob": ("hob", client((*FIXED, "hello"), (*FIXED, "--jsonl", "hello"))),
    "manage": ("hob", client((HOB, "sessions", "--json"), (HOB, "status", "--json", "--version"), (HOB, "models"))),
    "log": ("hob", client((*FIXED, "hello"), (HOB, "log", "search", "question", "--json"), (HOB, "log", "show", "1"), (HOB, "log", "export", "1", "2"), setup=with_log)),
    "batch": ("hob", client((HOB, "batch", "--temp", "0", "@/IN"), setup=with_batch)),
    "gateway": ("hob-http", gateway(LIBRARY, CALM, HANG)),
}
