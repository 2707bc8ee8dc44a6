# SPDX-License-Identifier: MIT
"""End-to-end fixtures: real hobd, real hob, small models made on the spot, everything in directories of its own."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hobproto import Client  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HOB_BUILD", TOP / "build"))
HOB = BUILD / "client" / "hob"
HOBD = BUILD / "daemon" / "hobd"
MKTINY = BUILD / "tests" / "support" / "mktiny"
DATA = Path(os.environ.get("HOB_TEST_DATA", TOP.parent / "shared" / "data"))


def pytest_addoption(parser):
    parser.addoption("--names", dest="only", default="", help="run only items whose id contains one of these lines")


def pytest_collection_modifyitems(config, items):
    names = [n for n in config.getoption("only").split("\n") if n]
    if names:
        keep = [i for i in items if any(n in i.nodeid for n in names)]
        config.hook.pytest_deselected(items=[i for i in items if i not in keep])
        items[:] = keep


def data(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {name} in the test data")
    return path


def listens(path):
    """Whether a process listens at @path: the file exists a moment earlier."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return any(row[3] == "00010000" and row[-1] == str(path) for row in rows)


class Said:
    """What a client with --jsonl --logprobs printed: the numbers in it give back the same floats."""

    def __init__(self, r):
        assert r.returncode == 0, (r.returncode, r.out, r.err)
        self.events = [json.loads(line) for line in r.out.splitlines()]
        self.done = self.events[-1]
        assert self.done["event"] == "done", self.done
        texts = [e for e in self.events if e["event"] == "text"]
        self.text = "".join(e["text"] for e in texts)
        assert self.text == self.done["text"]
        self.bits = ([i for e in texts for i in e["ids"]], [x for e in texts for x in e["logprobs"]], self.text)
        self.usage = self.done["usage"]
        self.cached, self.prompt = self.usage["cached"], self.usage["prompt"]


class Home:
    """A user's home: environment, places, and whatever was started there."""

    def __init__(self, root, model=None):
        self.root = root
        self.run = root / "run"
        self.run.mkdir(mode=0o700)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HOB_")) or k == "HOB_CPU"}
        self.env.update(HOME=str(root), XDG_RUNTIME_DIR=str(self.run), LC_ALL="C.UTF-8", TERM="dumb",
                        XDG_DATA_HOME=str(root / "data"), XDG_STATE_HOME=str(root / "state"),
                        XDG_CACHE_HOME=str(root / "cache"), XDG_CONFIG_HOME=str(root / "config"))
        self.models = root / "data" / "hob" / "models"
        self.models.mkdir(parents=True)
        if model:
            (self.models / "default.gguf").symlink_to(model)
        self.procs = []

    @property
    def socket(self):
        return self.run / "hob" / "default.sock"

    def hob(self, *args, input=b"", check=None, timeout=120, env=None):
        """Run the client; input None gives it no standard input (/dev/null)."""
        r = subprocess.run([str(HOB), *map(str, args)], input=input, env={**self.env, **(env or {})},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
        if check is not None:
            assert r.returncode == check, (r.returncode, r.out, r.err)
        return r

    def popen(self, argv, **kw):
        p = subprocess.Popen([str(a) for a in argv], env={**self.env, **kw.pop("env", {})}, **kw)
        self.procs.append(p)
        return p

    def daemon(self, *args, socket=None, env=None, wrap=(), wait=True):
        """Start hobd with --socket and wait until it answers and has loaded."""
        path = socket or self.socket
        path.parent.mkdir(exist_ok=True, mode=0o700)
        log = open(self.root / "hobd.log", "ab")
        p = self.popen([*wrap, HOBD, "serve", "--socket", path, *args], env=env or {}, stdin=subprocess.DEVNULL,
                       stdout=log, stderr=log)
        p.log = self.root / "hobd.log"
        p.path = path
        if wait:
            self.wait_ready(p)
        return p

    def ask(self, *args, n=16, seed=5, temp=0.9, **kw):
        """An answer with every bit of it."""
        return Said(self.hob("--jsonl", "--logprobs", "-n", n, "--seed", seed, "--temp", temp, *args, **kw))

    def status(self):
        return json.loads(self.hob("status", "--json", check=0).out)

    def restart(self, p, *args, **kw):
        """Stop, which keeps everything, and start."""
        self.hob("stop", check=0, env={"HOB_SOCKET": str(p.path)})
        assert p.wait(60) == 0, p.log.read_text()
        return self.daemon(*args, **kw)

    def wait_ready(self, p, timeout=120):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            assert p.poll() is None, p.log.read_text()
            r = self.hob("status", env={"HOB_SOCKET": str(p.path)})
            if r.returncode == 0:
                return
            time.sleep(0.01)
        raise AssertionError("the daemon did not get ready: " + p.log.read_text())

    def client(self, p=None, **kw):
        return Client(p.path if p else self.socket, **kw)

    def stop(self):
        self.hob("stop")
        for p in self.procs:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in self.procs:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def mktiny(path, *args):
    subprocess.run([str(MKTINY), *map(str, args), "-o", str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A small byte-level BPE model with a ChatML template, context 512."""
    return mktiny(tmp_path_factory.mktemp("models") / "tiny.gguf", "--seed", 7)


@pytest.fixture(scope="session")
def tiny_spm(tmp_path_factory):
    """A small SentencePiece model in F32."""
    return mktiny(tmp_path_factory.mktemp("models") / "tinyspm.gguf", "--seed", 8, "--tokenizer", "llama", "--type", "F32")


@pytest.fixture(scope="session")
def coder(tmp_path_factory):
    """A small model with fill-in-the-middle tokens."""
    return mktiny(tmp_path_factory.mktemp("models") / "coder.gguf", "--seed", 7, "--fim", "texts")


@pytest.fixture(scope="session")
def long(tmp_path_factory):
    """A model slow enough to be caught in mid-answer: 30000 tokens take many seconds."""
    return mktiny(tmp_path_factory.mktemp("models") / "long.gguf", "--ctx", 32768, "--layers", 6, "--dim", 256, "--ffn", 512)


@pytest.fixture
def home(tmp_path, tiny):
    h = Home(tmp_path, tiny)
    yield h
    h.stop()


@pytest.fixture
def homes(tmp_path_factory, tiny):
    """Make as many homes as a test wants: homes(model)."""
    made = []

    def make(model=None):
        made.append(Home(tmp_path_factory.mktemp("home"), model or tiny))
        return made[-1]

    yield make
    for h in made:
        h.stop()


@pytest.fixture(scope="session")
def shared(tmp_path_factory, tiny):
    """A home with a daemon that many tests share; they leave it as they found it."""
    h = Home(tmp_path_factory.mktemp("home"), tiny)
    h.d = h.daemon()
    yield h
    h.stop()


@pytest.fixture(scope="session")
def gateway(shared):
    """hob-http before the shared daemon, without keys."""
    from httpgate import Gateway  # it uses names of this file
    return Gateway(shared)


@pytest.fixture
def fake(tmp_path):
    """hob-http before a daemon that does what the test says."""
    from httpgate import FakeDaemon, Gateway
    h = Home(tmp_path)
    d = FakeDaemon(h.socket)
    d.home, d.gateway = h, Gateway(h)
    yield d
    d.close()
    h.stop()
