# SPDX-License-Identifier: MIT
"""hob models: what is listed, and that a model gets its name whole and checked or not at all, whatever a server does."""
import base64
import fcntl
import hashlib
import http.server
import json
import os
import pty
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import termios
import threading

import pytest
from conftest import HOB, HOBD, Home, mktiny
from terminal import until_end


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        route = self.server.routes.get(self.path)
        try:
            route(self) if route else self.send(404, b"<html>no</html>")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for key, value in {"Content_Length": len(body), **headers}.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def cut(self):
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.routes, self.asked = {}, []
        self.go = threading.Event()  # what a slow route waits for
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server_port}"

    def ranges(self):
        return [h.get("Range") for _, h in self.asked]


def ranged(data, tag='"one"', cut=None, wait=None, **more):
    """A good server's route; each answer ends after @cut bytes of it, or waits there for @wait."""
    def route(h):
        m = re.fullmatch(r"bytes=(\d+)-", h.headers.get("Range", ""))
        same = h.headers.get("If-Range") in (None, tag)
        start = int(m.group(1)) if m and same else 0
        if start >= len(data):
            return h.send(416, Content_Range=f"bytes */{len(data)}")
        h.send_response(206 if start else 200)
        for key, value in more.items():
            h.send_header(key.replace("_", "-"), value)
        if start:
            h.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if tag:
            h.send_header("ETag", tag)
        h.send_header("Content-Length", str(len(data) - start))
        h.end_headers()
        body = data[start:]
        if cut is not None and cut < len(body):
            h.wfile.write(body[:cut])
            h.cut()
            if wait:
                wait.wait(60)
            return None
        h.wfile.write(body)
        return None
    return route


@pytest.fixture(scope="session")
def pulls():
    if b"without libcurl" in subprocess.run([HOB, "models", "pull", "x"], capture_output=True).stderr:
        pytest.skip("this hob was built without libcurl")


@pytest.fixture
def web(pulls):
    s = Server()
    yield s
    s.go.set()
    s.shutdown()
    s.server_close()


@pytest.fixture
def empty(tmp_path):
    """A home without models."""
    h = Home(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "HF_TOKEN"):
        h.env.pop(name, None)
    yield h
    h.stop()


def models(home, *args, **kw):
    return home.hob("models", *args, **kw)


def files(home):
    return sorted(p.name for p in home.models.iterdir())


def listed(home):
    return {m["name"]: m for m in json.loads(models(home, "--json", check=0).out)}


# --- list ---

def test_list(home, tiny):
    table = [line.split() for line in models(home, check=0).out.splitlines()]
    assert table[0] == ["name", "size", "type", "arch", "context", "template", "packed", "folder"]
    assert table[1] == ["default", "92.3K", "Q8_0", "llama", "512", "yes", "no", "user", "default"]
    shutil.copy(tiny, home.models / "a b.gguf")
    mktiny(home.models / "zoo.gguf", "--pre", "klingon")
    (home.models / "bad.gguf").write_bytes(b"GGUF" + b"\0" * 40)
    (home.models / "x.gguf.part").write_bytes(b"GGUF")
    r = models(home, "list", check=0)
    assert [line.split("  ")[0] for line in r.out.splitlines()] == ["name", "a b", "bad", "default", "zoo"]
    assert re.search(r"^bad .* broken$", r.out, re.M) and re.search(r"^zoo .* unsupported$", r.out, re.M)
    assert "zoo: " in r.err and "klingon" in r.err and "bad: " in r.err
    found = listed(home)
    one = found["default"]
    assert one == {"name": "default", "file": str(home.models / "default.gguf"), "folder": "user", "link": str(tiny),
                   "bytes": tiny.stat().st_size, "type": "Q8_0", "architecture": "llama", "encoder": None, "context": 512, "template": True,
                   "packed": False, "supported": True, "default": True, "loaded": False}
    assert found["a b"]["link"] is None and not found["a b"]["default"]
    assert not found["zoo"]["supported"] and "klingon" in found["zoo"]["why"]


def test_options_behind_words_in_every_environment(home, tiny):
    env = {"POSIXLY_CORRECT": "1"}
    assert models(home, "list", "--json", env=env, check=0).out == models(home, "list", "--json", check=0).out
    r = subprocess.run([HOBD, "inspect", tiny, "--json"], env={**os.environ, **env}, capture_output=True, text=True)
    assert r.returncode == 0 and json.loads(r.stdout)["supported"]


def test_list_tells_what_is_loaded_and_packed(home, tiny):
    (home.models / "other.gguf").symlink_to(tiny)
    home.hob("-n", "1", "hi", check=0)
    home.hob("stop", check=0)
    assert listed(home)["default"]["packed"] and not listed(home)["default"]["loaded"]
    p = home.daemon("-m", "default")
    assert {n: m["loaded"] for n, m in listed(home).items()} == {"default": True, "other": False}
    assert models(home, check=0).out.splitlines()[1].endswith("default, loaded")
    assert "a daemon still uses the model default" in models(home, "rm", "default", check=0).err
    home.restart(p, "-m", "other", socket=p.path)


def test_the_default_is_the_configured_one(home, tiny):
    (home.models / "other.gguf").symlink_to(tiny)
    (home.root / "config" / "hob").mkdir(parents=True)
    (home.root / "config" / "hob" / "hob.conf").write_text("model = other\n")
    assert {n: m["default"] for n, m in listed(home).items()} == {"default": False, "other": True}


def test_nothing_to_list(empty):
    r = models(empty, check=0)
    assert not r.out and "no models;" in r.err
    assert models(empty, "--json", check=0).out == "[]\n"
    empty.models.rmdir()
    assert models(empty, "--json", check=0).out == "[]\n"


@pytest.mark.parametrize("args, said", [
    (["foo"], "unknown subcommand 'foo' of 'models', use list, add, pull or rm"), (["list", "x"], "usage: hob models list"), (["add"], "usage: hob models add"),
    (["add", "a", "b", "c"], "usage: "), (["rm"], "usage: "), (["pull"], "usage: "), (["--zzz"], "unknown option '--zzz' of 'models'"),
    (["list", "--force"], "--force cannot be used with 'models list'"), (["rm", "--json", "x"], "--json cannot be used"),
    (["pull", "--link", "x"], "--link cannot be used"), (["add", "--copy", "--link", "x"], "--copy and --link cannot be used together"),
    (["pull", "x", "--sha256"], "needs a value"), (["pull", "x", "--sha256", "12"], "64 hexadecimal digits"),
])
def test_wrong_usage(empty, args, said):
    r = models(empty, *args, check=2)
    assert said in r.err and not r.out


# --- add and rm ---

def test_add_links_a_file_that_no_other_user_can_change(empty, tiny):
    own = empty.root / "My model.gguf"
    shutil.copy(tiny, own)
    r = models(empty, "add", own, check=0)
    assert "My model: 92.3K, Q8_0, llama, context 512" in r.err and not r.out
    there = empty.models / "My model.gguf"
    assert files(empty) == ["My model.gguf"] and there.read_bytes() == tiny.read_bytes()
    assert there.stat().st_ino == own.stat().st_ino or "cloned" in r.err
    own.unlink()
    assert empty.hob("-m", "My model", "-n", "1", "hi", check=0)
    models(empty, "add", there, "again.gguf", check=0)
    own.write_bytes(tiny.read_bytes())
    own.chmod(0o666)
    r = models(empty, "add", own, "open", check=0)
    assert "linked" not in r.err and (empty.models / "open.gguf").stat().st_ino != own.stat().st_ino
    empty.hob("stop", "-m", "My model")


def test_add_copies_and_links_as_told(empty, tiny):
    models(empty, "add", "--copy", tiny, "copy", check=0)
    models(empty, "add", "--link", os.path.relpath(tiny, os.getcwd()), "link", check=0)
    copy, link = empty.models / "copy.gguf", empty.models / "link.gguf"
    assert copy.stat().st_ino != tiny.stat().st_ino and copy.read_bytes() == tiny.read_bytes() and not copy.is_symlink()
    assert os.readlink(link) == str(tiny.resolve())
    assert files(empty) == ["copy.gguf", "link.gguf"]


@pytest.mark.parametrize("how", [[], ["--copy"], ["--link"]])
def test_add_replaces_only_by_force(empty, tiny, tiny_spm, how):
    there = empty.models / "m.gguf"
    there.write_bytes(b"precious")
    r = models(empty, "add", *how, tiny, "m", check=1)
    assert "already" in r.err and there.read_bytes() == b"precious" and files(empty) == ["m.gguf"]
    for source in (tiny, tiny_spm, tiny_spm):
        models(empty, "add", *how, "--force", source, "m", check=0)
        assert there.read_bytes() == source.read_bytes() and files(empty) == ["m.gguf"]
    assert tiny.stat().st_size > 1000


def test_a_model_is_not_replaced_with_a_link_to_itself(empty, tiny, tmp_path):
    models(empty, "add", "--copy", tiny, "m", check=0)
    (tmp_path / "same").symlink_to(empty.models)
    (tmp_path / "m.gguf").symlink_to(empty.models / "m.gguf")
    for path in (empty.models / "m.gguf", tmp_path / "same" / "m.gguf", tmp_path / "m.gguf"):
        r = models(empty, "add", "--link", "--force", path, check=1)
        assert "the file is already the model 'm'" in r.err
        assert (empty.models / "m.gguf").read_bytes() == tiny.read_bytes() and files(empty) == ["m.gguf"]
    models(empty, "add", "--link", empty.models / "m.gguf", "other", check=0)
    assert files(empty) == ["m.gguf", "other.gguf"]


def test_quiet_copies_show_no_bar(empty, tiny):
    for args, shown in ((["-q"], False), ([], True)):
        r, w = pty.openpty()
        p = empty.popen([HOB, "models", "add", "--copy", "--force", *args, tiny, "m"], stderr=w)
        assert (b"%" in until_end(p.wait, r, w)) == shown and p.returncode == 0
        os.close(r)
        os.close(w)


def test_add_refuses_what_is_no_model(empty, tiny, tmp_path):
    bad = tmp_path / "bad.gguf"
    for what, said in ((b"", "empty"), (b"<html>", "not a GGUF file"), (tiny.read_bytes()[:-1], "tensor")):
        bad.write_bytes(what)
        r = models(empty, "add", bad, check=1)
        assert said in r.err and str(bad) in r.err and r.err.count("\n") == 1
    r = models(empty, "add", mktiny(tmp_path / "k.gguf", "--pre", "klingon"), check=1)
    assert "hobd cannot run it" in r.err and "klingon" in r.err
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    assert "not a regular file" in models(empty, "add", fifo, check=1).err
    assert "not a regular file" in models(empty, "add", tmp_path, "x", check=1).err
    assert "No such file" in models(empty, "add", tmp_path / "none.gguf", check=1).err
    assert files(empty) == []


NAMES = ["a/b", "../x", "..", ".", ".hidden", "", "x" * 65, "x" * 10000, "new\nline", "esc\x1b[0m", b"\xff\xfe", "a.gguf.gguf", "/"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names(empty, pulls, tiny, name):
    before = sorted(empty.root.rglob("*"))
    for args in (["add", tiny], ["pull", "http://127.0.0.1:9/x.gguf"], ["rm"]):
        r = subprocess.run([HOB, "models", *args, name], env=empty.env, capture_output=True, timeout=60)
        assert r.returncode == 2 and b"name" in r.stderr and r.stderr.count(b"\n") == 1 and len(r.stderr) < 400, r
        assert b"\x1b" not in r.stderr
    assert sorted(empty.root.rglob("*")) == before


def test_rm(empty, tiny):
    for name in ("a", "b", "c"):
        models(empty, "add", "--link", tiny, name, check=0)
    (empty.models / "d.gguf.part").write_bytes(b"GGUF")
    (empty.models / "d.gguf.part.from").write_text("x")
    r = models(empty, "rm", "a", "nobody", "c.gguf", "d", check=1)
    assert r.err.count("\n") == 1 and "no model 'nobody'" in r.err
    assert files(empty) == ["b.gguf"] and tiny.exists()


def limited(home, *args, size, ignore):
    def before():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN if ignore else signal.SIG_DFL)
    return subprocess.run([HOB, "models", *map(str, args)], env=home.env, capture_output=True, text=True, timeout=60,
                          preexec_fn=before)


def test_an_add_that_fails_or_dies_half_way(empty, tiny):
    r = limited(empty, "add", "--copy", tiny, "m", size=20000, ignore=True)
    if r.returncode == 0:
        pytest.skip("the file system clones: nothing is written")
    assert r.returncode == 1 and "too large" in r.stderr and files(empty) == []
    r = limited(empty, "add", "--copy", tiny, "m", size=20000, ignore=False)
    assert r.returncode == -signal.SIGXFSZ and files(empty) == ["m.gguf.part"]
    assert listed(empty) == {}
    models(empty, "add", "--copy", tiny, "m", check=0)
    assert files(empty) == ["m.gguf"] and (empty.models / "m.gguf").read_bytes() == tiny.read_bytes()


def mounted(home, options, *args):
    """As models(), with an own mount over the models folder; also what was in it at the end."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    r = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o "$1" none "$2" || exit 99; d=$2; shift 2; "$@"; r=$?; '
                        'ls "$d"; exit $r', "sh", options, str(home.models), HOB, "models", *map(str, args)],
                       env=home.env, capture_output=True, text=True, timeout=60)
    if r.returncode == 99 or "unshare" in r.stderr:
        pytest.skip("cannot mount here: " + r.stderr.strip())
    return r


@pytest.mark.parametrize("args", [["add", "TINY"], ["add", "--copy", "TINY"], ["add", "--link", "TINY"], ["pull", "URL"]])
def test_a_folder_that_cannot_be_written(empty, tiny, web, args):
    web.routes["/tiny.gguf"] = ranged(tiny.read_bytes())
    args = [{"TINY": tiny, "URL": web.base + "/tiny.gguf"}.get(a, a) for a in args]
    r = mounted(empty, "ro", *args)
    assert r.returncode == 1 and "Read-only file system" in r.stderr and not r.stdout
    shutil.rmtree(empty.models)
    empty.models.write_text("")
    r = models(empty, *args, check=1)
    assert "not a directory" in r.err.lower()


def test_a_full_disk(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/tiny.gguf"] = ranged(data)
    web.routes["/chunked.gguf"] = chunked(data)
    for args in (["add", "--copy", tiny], ["pull", web.base + "/tiny.gguf"]):
        r = mounted(empty, "size=64k", *args)
        assert r.returncode == 1 and "no space in" in r.stderr and not r.stdout, r
    r = mounted(empty, "size=64k", "pull", web.base + "/chunked.gguf")
    assert r.returncode == 1 and "No space left" in r.stderr and ".gguf\n" not in r.stdout


def test_the_system_s_folder(empty, tiny, web):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    web.routes["/pulled.gguf"] = ranged(tiny.read_bytes())
    script = f"""mount -t tmpfs none /var/lib || exit 99; umask 077; set -e
        cp {tiny} /var/lib/own.gguf
        {HOB} models add --system /var/lib/own.gguf added
        {HOB} models pull --system {web.base}/pulled.gguf
        stat -c '%a %n' /var/lib/hob /var/lib/hob/models /var/lib/hob/models/*
        {HOB} models --json
        {HOB} models rm --system added
        ls /var/lib/hob/models"""
    r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=empty.env, capture_output=True, text=True, timeout=60)
    if r.returncode == 99 or "unshare" in r.stderr:
        pytest.skip("cannot mount here: " + r.stderr.strip())
    assert r.returncode == 0, r.stderr
    out = r.stdout.splitlines()
    assert out[:2] == ["755 /var/lib/hob", "755 /var/lib/hob/models"]
    assert out[2:4] == [f"644 /var/lib/hob/models/{n}.gguf" for n in ("added", "pulled")]
    assert [(m["name"], m["folder"], m["default"]) for m in json.loads(out[4]) if m["folder"] == "system"] == \
        [("added", "system", False), ("pulled", "system", False)]
    assert out[5:] == ["pulled.gguf"] and files(empty) == []


# --- pull ---

def chunked(data, whole=True):
    def route(h):
        h.send_response(200)
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        for at in range(0, len(data), 10000):
            piece = data[at:at + 10000]
            h.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if whole:
            h.wfile.write(b"0\r\n\r\n")
        else:
            h.cut()
    return route


def pulled(home, data, name="m.gguf"):
    return files(home) == [name] and (home.models / name).read_bytes() == data


def test_pull(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/dir/My%20model.gguf?download=true"] = ranged(data)
    r = models(empty, "pull", web.base + "/dir/My%20model.gguf?download=true", check=0)
    assert pulled(empty, data, "My model.gguf") and not r.out
    assert "pulled My model: 92.3K, Q8_0, llama, context 512" in r.err
    assert stat.S_IMODE((empty.models / "My model.gguf").stat().st_mode) & 0o077 == 0o044 & ~umask()
    assert empty.hob("-m", "My model", "-n", "1", "hi", check=0)
    empty.hob("stop", "-m", "My model")
    n = len(web.asked)
    assert "already" in models(empty, "pull", web.base + "/x.gguf", "My model", check=1).err and len(web.asked) == n


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


def test_pull_replaces_by_force_when_it_is_whole(empty, tiny, tiny_spm, web):
    models(empty, "add", "--copy", tiny, "m", check=0)
    web.routes["/bad.gguf"] = ranged(tiny_spm.read_bytes()[:-5])
    web.routes["/m.gguf"] = ranged(tiny_spm.read_bytes())
    models(empty, "pull", "--force", web.base + "/bad.gguf", "m", check=1)
    assert pulled(empty, tiny.read_bytes())
    models(empty, "pull", "--force", web.base + "/m.gguf", check=0)
    assert pulled(empty, tiny_spm.read_bytes())


def test_cut_connections_are_resumed(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = ranged(data, cut=30000)
    r = models(empty, "pull", web.base + "/m.gguf", "--sha256", hashlib.sha256(data).hexdigest().upper(), check=0)
    assert pulled(empty, data)
    assert web.ranges() == [None, "bytes=30000-", "bytes=60000-", "bytes=90000-"]
    assert web.asked[1][1]["If-Range"] == '"one"' and r.err.count("retrying") == 3


def test_a_server_that_never_gives_more(empty, tiny, web):
    data = tiny.read_bytes()
    more = []

    def route(h):
        ranged(data, cut=len(data) // 2 if not more else 0)(h)
        more.append(1)
    web.routes["/m.gguf"] = route
    r = models(empty, "pull", web.base + "/m.gguf", check=1)
    assert files(empty) == ["m.gguf.part", "m.gguf.part.from"] and "46.1K of m downloaded" in r.err
    assert listed(empty) == {}
    web.routes["/m.gguf"] = ranged(data)
    web.asked.clear()
    r = models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data) and web.ranges() == [f"bytes={len(data) // 2}-"] and "resuming after 46.1K" in r.err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_and_resumed(empty, tiny, web, how):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = slow(data, 50000, web.go)
    p = empty.popen([HOB, "models", "pull", web.base + "/m.gguf"], stderr=subprocess.PIPE)
    wait_for(lambda: (empty.models / "m.gguf.part").exists() and (empty.models / "m.gguf.part").stat().st_size == 50000)
    # Who comes second does no harm.
    r = models(empty, "pull", web.base + "/m.gguf", check=75)
    assert "another process is adding the model" in r.err
    assert models(empty, "add", tiny, "m", check=75).err == r.err.replace("hob: ", f"hob: {tiny}: ")
    assert models(empty, "rm", "m", check=75)
    p.send_signal(how)
    err = p.communicate(timeout=60)[1].decode()
    assert p.returncode == (130 if how == signal.SIGINT else -how)
    assert how != signal.SIGINT or "48.8K of m downloaded; run the same command to resume" in err
    assert files(empty) == ["m.gguf.part", "m.gguf.part.from"]
    assert "hob models rm 'm'" in models(empty, "add", tiny, "m", check=1).err
    web.go.set()
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data) and web.ranges()[-1] == "bytes=50000-"


def slow(data, n, go):
    """Sends @n bytes; then, until @go, no more."""
    def route(h):
        if go.is_set():
            return ranged(data)(h)
        h.send_response(200)
        h.send_header("Content-Length", str(len(data)))
        h.send_header("ETag", '"one"')
        h.end_headers()
        h.wfile.write(data[:n])
        h.wfile.flush()
        go.wait(60)
        h.close_connection = True
        return None
    return route


def wait_for(what):
    for _ in range(6000):
        if what():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")


def partly(home, web, data, n=40000, tag='"one"', url="/m.gguf"):
    """Leave a partial pull."""
    web.routes[url] = slow(data, n, web.go)
    p = home.popen([HOB, "models", "pull", web.base + url], stderr=subprocess.DEVNULL)
    wait_for(lambda: (home.models / "m.gguf.part").exists() and (home.models / "m.gguf.part").stat().st_size == n)
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130
    web.asked.clear()


def test_a_file_that_changed_is_read_anew(empty, tiny, tiny_spm, web):
    partly(empty, web, tiny.read_bytes())
    web.routes["/m.gguf"] = ranged(tiny_spm.read_bytes(), tag='"two"')
    r = models(empty, "pull", web.base + "/m.gguf", check=0)
    assert web.ranges() == ["bytes=40000-"] and web.asked[0][1]["If-Range"] == '"one"'
    assert "starting from the beginning" in r.err and pulled(empty, tiny_spm.read_bytes())


def test_a_server_that_ignores_what_if_range_says(empty, tiny, tiny_spm, web):
    partly(empty, web, tiny.read_bytes())
    data = tiny_spm.read_bytes()

    def route(h):
        start = int((h.headers.get("Range") or "bytes=0-")[6:-1])
        more = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        h.send(206 if start else 200, data[start:], ETag='"two"', **more)
    web.routes["/m.gguf"] = route
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert web.ranges() == ["bytes=40000-", None] and pulled(empty, data)


def test_a_server_that_knows_no_ranges(empty, tiny, web):
    data = tiny.read_bytes()
    partly(empty, web, data)
    web.routes["/m.gguf"] = lambda h: h.send(200, data, ETag='"one"')
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data)


def test_a_file_that_got_shorter(empty, tiny, web):
    partly(empty, web, tiny.read_bytes(), n=90000)
    data = mktiny(empty.root / "small.gguf", "--layers", 1).read_bytes()
    assert len(data) < 90000
    web.routes["/m.gguf"] = lambda h: h.send(416) if h.headers.get("Range") else h.send(200, data)
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data)


@pytest.mark.parametrize("content_range", ["bytes 0-9/10", "bytes 50000-94463/94464", "pages 1-2/3", "bytes 40000-99999/5", ""])
def test_the_wrong_part(empty, tiny, web, content_range):
    data = tiny.read_bytes()
    partly(empty, web, data)
    web.routes["/m.gguf"] = lambda h: h.send(206, data[40000:], Content_Range=content_range, ETag='"one"')
    models(empty, "pull", web.base + "/m.gguf", check=1)
    assert files(empty) == ["m.gguf.part", "m.gguf.part.from"]
    assert (empty.models / "m.gguf.part").read_bytes() == data[:40000]


def test_another_url_does_not_go_on_with_it(empty, tiny, tiny_spm, web):
    partly(empty, web, tiny.read_bytes())
    web.routes["/else.gguf"] = ranged(tiny_spm.read_bytes())
    r = models(empty, "pull", web.base + "/else.gguf", "m", check=1)
    assert f"pull of the model 'm' from {web.base}/m.gguf" in r.err and not web.asked
    assert (empty.models / "m.gguf.part").read_bytes() == tiny.read_bytes()[:40000]
    models(empty, "pull", "--force", web.base + "/else.gguf", "m", check=0)
    assert web.ranges() == [None] and pulled(empty, tiny_spm.read_bytes())


SECRET = "s3:cr%40t"  # "s3" is the user


def test_a_password_is_for_the_server_only(empty, tiny, web):
    """Not for another one that it names, nor for who reads a message or a file."""
    data = tiny.read_bytes()
    other = Server()
    other.routes["/m.gguf?sig=t0ken"] = ranged(data, cut=40000)
    web.routes["/m.gguf"] = lambda h: h.send(302, Location="/here")
    web.routes["/here"] = lambda h: h.send(302, Location=f"http://us3r:t0ken@127.0.0.1:{other.server_port}/m.gguf?sig=t0ken")
    url = web.base.replace("//", f"//{SECRET}@") + "/m.gguf"
    r = models(empty, "pull", url, check=0)
    basic = "Basic " + base64.b64encode(b"s3:cr@t").decode()
    assert {h.get("Authorization") for _, h in web.asked} == {basic} and pulled(empty, data)
    assert basic not in {h.get("Authorization") for _, h in other.asked}
    said = r.err
    other.routes.clear()
    said += models(empty, "pull", "--force", url, check=1).err
    web.routes["/m.gguf"] = lambda h: h.send(200, b"<html>", ETag='"one"')
    said += models(empty, "pull", "--force", url, check=1).err
    web.routes["/m.gguf"] = ranged(data[:50000], cut=40000)
    said += models(empty, "pull", "--force", url, "--sha256", "ab" * 32, check=1).err
    web.routes["/m.gguf"] = lambda h: h.send(302, Location="/m.gguf?a=t0ken")
    web.routes["/m.gguf?a=t0ken"] = lambda h: h.send(302, Location="ftp://us3r:t0ken@x/y")
    said += models(empty, "pull", "--force", url, check=1).err
    web.routes["/m.gguf"] = lambda h: h.send(403)
    said += models(empty, "pull", "--force", url, check=1).err
    said += models(empty, "pull", url.replace("http", "ftp"), check=2).err
    said += models(empty, "pull", "https:///" + SECRET + "@x y", check=2).err
    other.shutdown()
    other.server_close()
    assert not re.search("cr%40t|cr@t|t0ken|us3r", said), said


def test_a_password_is_in_no_file(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = ranged(data, cut=40000)
    url = web.base.replace("//", f"//{SECRET}@") + "/m.gguf"
    web.routes["/m.gguf"] = slow(data, 40000, web.go)
    p = empty.popen([HOB, "models", "pull", url], stderr=subprocess.DEVNULL)
    wait_for(lambda: (empty.models / "m.gguf.part").exists() and (empty.models / "m.gguf.part").stat().st_size == 40000)
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 130
    assert "cr" not in (empty.models / "m.gguf.part.from").read_text()
    web.routes["/m.gguf"] = ranged(data)
    web.asked.clear()
    models(empty, "pull", url.replace("cr%40t", "new"), check=0)  # it continues with another password
    assert web.ranges() == ["bytes=40000-"] and pulled(empty, data)


@pytest.mark.parametrize("note", ["", "hob pull 1\nurl URL\n", "hob pull 1\nurl URL\ntotal 5\ntag \"one\"\nend\n", "x" * 20000,
                                  "hob pull 1\nurl URL\ntotal -7\nsha256 zz\nend\n"])
def test_a_damaged_note_counts_for_nothing(empty, tiny, web, note):
    data = tiny.read_bytes()
    partly(empty, web, data)
    (empty.models / "m.gguf.part").write_bytes(b"GGUF" + b"x" * 40000)
    (empty.models / "m.gguf.part.from").write_text(note.replace("URL", web.base + "/m.gguf"))
    web.routes["/m.gguf"] = ranged(data)
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert web.ranges() == [None] and pulled(empty, data)


def test_chunks(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = chunked(data)
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data)
    web.routes["/n.gguf"] = chunked(data, whole=False)
    models(empty, "pull", web.base + "/n.gguf", check=1)
    assert "n.gguf" not in files(empty)


def test_wrong_lengths(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/short.gguf"] = lambda h: h.send(200, data[:-10])
    web.routes["/empty.gguf"] = lambda h: h.send(200)
    web.routes["/huge.gguf"] = lambda h: h.send(200, data, Content_Length=1 << 60)
    for name, said in (("short", "tensor"), ("empty", "empty"), ("huge", "no space in")):
        r = models(empty, "pull", f"{web.base}/{name}.gguf", check=1)
        assert said in r.err, r.err
        assert files(empty) == []
    web.routes["/more.gguf"] = lambda h: h.send(200, data + b"more", Content_Length=len(data))
    models(empty, "pull", web.base + "/more.gguf", "m", check=0)
    assert pulled(empty, data)


def test_pages_and_refusals(empty, web):
    web.routes["/page.gguf"] = lambda h: h.send(200, b"<!DOCTYPE html><html>please log in</html>", Content_Type="text/html")
    web.routes["/junk.gguf"] = lambda h: h.send(200, b"GGML" + b"\0" * 100000)
    web.routes["/login.gguf"] = lambda h: h.send(401)
    web.routes["/gone.gguf"] = lambda h: h.send(410, b"x" * 100000)
    web.routes["/odd.gguf"] = lambda h: h.send(204)
    for name, said in (("page", "web page"), ("junk", "not a GGUF file"), ("login", "HF_TOKEN"), ("gone", "no such file"),
                       ("nothing", "no such file"), ("odd", "status 204")):
        r = models(empty, "pull", f"{web.base}/{name}.gguf", check=1)
        assert said in r.err and r.err.count("\n") == 1, r.err
        assert files(empty) == []


def test_a_busy_server_is_asked_again(empty, tiny, web):
    data = tiny.read_bytes()
    tries = []

    def route(h):
        tries.append(1)
        h.send(503, b"later") if len(tries) < 2 else ranged(data)(h)
    web.routes["/m.gguf"] = route
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data) and len(tries) == 2


def test_no_server(empty, pulls):
    r = models(empty, "pull", "http://127.0.0.1:9/m.gguf", check=1)
    assert "127.0.0.1" in r.err and r.err.count("\n") == 1 and files(empty) == []


def test_sums(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = ranged(data)
    r = models(empty, "pull", web.base + "/m.gguf", "--sha256", "0" * 64, check=1)
    assert "SHA-256" in r.err and hashlib.sha256(data).hexdigest() in r.err and files(empty) == []
    # One that went wrong before it was interrupted is found as well.
    partly(empty, web, data)
    damaged = bytearray((empty.models / "m.gguf.part").read_bytes())
    damaged[30000] ^= 1
    (empty.models / "m.gguf.part").write_bytes(damaged)
    web.routes["/m.gguf"] = ranged(data)
    models(empty, "pull", web.base + "/m.gguf", "--sha256", hashlib.sha256(data).hexdigest(), check=1)
    assert web.ranges() == ["bytes=40000-"] and files(empty) == []
    models(empty, "pull", web.base + "/m.gguf", "--sha256", hashlib.sha256(data).hexdigest(), check=0)
    assert pulled(empty, data)


def test_what_this_hobd_cannot_run_waits_for_one_that_can(empty, web, tmp_path):
    data = mktiny(tmp_path / "k.gguf", "--pre", "klingon").read_bytes()
    web.routes["/m.gguf"] = ranged(data)
    r = models(empty, "pull", web.base + "/m.gguf", check=1)
    assert "klingon" in r.err and files(empty) == ["m.gguf.part", "m.gguf.part.from"]
    assert "klingon" in models(empty, "pull", web.base + "/m.gguf", check=1).err and len(web.asked) == 1
    models(empty, "rm", "m", check=0)
    assert files(empty) == []


def test_what_hobd_cannot_run_is_told_early(empty, tiny, web, tmp_path):
    """A gigabyte is announced and 40 MB come; the server would wait for ever then."""
    def begin(data):
        def route(h):
            h.send_response(200)
            h.send_header("Content-Length", str(1 << 30))
            h.send_header("ETag", '"one"')
            h.end_headers()
            h.wfile.write(data + bytes((40 << 20) - len(data)))
            h.wfile.flush()
            web.go.wait(60)
        return route
    web.routes["/m.gguf"] = begin(mktiny(tmp_path / "k.gguf", "--pre", "klingon").read_bytes())
    r = models(empty, "pull", web.base + "/m.gguf", check=1)
    assert "klingon" in r.err and files(empty) == [] and len(web.asked) == 1
    for i, data in enumerate([tiny.read_bytes(), tiny.read_bytes()[:20000]]):
        web.routes[f"/{i}.gguf"] = begin(data)
        p = empty.popen([HOB, "models", "pull", f"{web.base}/{i}.gguf"], stderr=subprocess.DEVNULL)
        part = empty.models / f"{i}.gguf.part"
        wait_for(lambda: part.exists() and part.stat().st_size == 40 << 20)
        p.send_signal(signal.SIGINT)
        assert p.wait(60) == 130


def test_redirects(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = lambda h: h.send(302, b"<html>there</html>", Location="/a/b")
    web.routes["/a/b"] = lambda h: h.send(307, Location=f"http://localhost:{web.server_port}/c?x=1")
    web.routes["/c?x=1"] = ranged(data, cut=60000)
    models(empty, "pull", web.base + "/m.gguf", check=0)
    assert pulled(empty, data)
    assert [p for p, _ in web.asked] == ["/m.gguf", "/a/b", "/c?x=1"] * 2
    web.routes["/loop.gguf"] = lambda h: h.send(302, Location="/loop.gguf")
    assert "too many redirects" in models(empty, "pull", web.base + "/loop.gguf", check=1).err
    for there, said in (("http://example.com/x", "is not authenticated"), ("file:///etc/passwd", "is not supported, only https"),
                        ("ftp://127.0.0.1/x", "is not supported, only https")):
        web.routes["/away.gguf"] = lambda h, there=there: h.send(302, Location=there)
        assert said in models(empty, "pull", web.base + "/away.gguf", check=1).err
    assert files(empty) == ["m.gguf"]


@pytest.mark.parametrize("url, said", [
    ("http://example.com/x.gguf", "--insecure-http"), ("http://127.0.0.1.example.com/x.gguf", "--insecure-http"),
    ("http://localhost.example.com/x.gguf", "--insecure-http"), ("file:///etc/passwd", "is not supported, only https"),
    ("ftp://127.0.0.1/x.gguf", "is not supported, only https"), ("x.gguf", "neither a URL nor"), ("", "neither a URL nor"),
    ("https://", "neither a URL nor"), ("hf:a/b", "hf:ORG/REPO/FILE"), ("hf:", "hf:ORG/REPO/FILE"), ("hf:a//b", "hf:ORG/REPO/FILE"),
    ("hf:a/b/../../../x", "hf:ORG/REPO/FILE"), ("https://127.0.0.1/", "give a NAME"), ("http://127.0.0.1/a%0Ab.gguf", "NAME"),
    ("http://127.0.0.1/a%2F..", "NAME"), ("http://127.0.0.1/a%00b.gguf", "NAME"), ("http://127.0.0.1/.gguf", "NAME"),
    ("https://127.0.0.1/" + "x" * 10000, "longer than"),
])
def test_urls_that_are_refused(empty, pulls, url, said):
    r = models(empty, "pull", url, check=2)
    assert said in r.err and r.err.count("\n") == 1 and len(r.err) < 400 and files(empty) == []


def hub(web, data, sha=None, cut=None):
    """As Hugging Face answers: a redirect that tells the sum, to another host, where the file is."""
    sha = sha or hashlib.sha256(data).hexdigest()
    cdn = Server()
    cdn.routes["/blob?sig=1"] = ranged(data, tag='"cdn"', cut=cut)
    web.routes["/me/tiny/resolve/main/q/m.gguf"] = lambda h: h.send(
        302, Location=f"http://localhost:{cdn.server_port}/blob?sig=1", X_Linked_Etag=f'"{sha}"', X_Linked_Size=len(data))
    return cdn


def test_hugging_face(empty, tiny, web):
    data = tiny.read_bytes()
    cdn = hub(web, data, cut=50000)
    env = {"HF_ENDPOINT": web.base + "/", "HF_TOKEN": "hf_secret"}
    r = models(empty, "pull", "hf:me/tiny/q/m.gguf", env=env, check=0)
    assert pulled(empty, data) and cdn.ranges() == [None, "bytes=50000-"] and "hf_secret" not in r.err
    assert {h.get("Authorization") for _, h in web.asked} == {"Bearer hf_secret"}
    assert {h.get("Authorization") for _, h in cdn.asked} == {None}
    web.routes["/me/tiny/resolve/v2/m.gguf"] = ranged(data)
    models(empty, "pull", "hf:me/tiny@v2/m.gguf", "other", env=env, check=0)
    models(empty, "rm", "m", "other", check=0)
    cdn.shutdown()
    cdn = hub(web, data, sha="ab" * 32)
    r = models(empty, "pull", "hf:me/tiny/q/m.gguf", env=env, check=1)
    assert "expected abab" in r.err and files(empty) == []
    n = len(cdn.asked)
    r = models(empty, "pull", "hf:me/tiny/q/m.gguf", "--sha256", "cd" * 32, env=env, check=1)
    assert "differs from --sha256" in r.err and files(empty) == [] and len(cdn.asked) == n + 1
    cdn.shutdown()


def test_the_token_is_for_one_server(empty, tiny, web):
    """Behind another port of the same machine may be another server."""
    other = Server()
    other.routes["/m.gguf"] = ranged(tiny.read_bytes())
    web.routes["/me/tiny/resolve/main/m.gguf"] = lambda h: h.send(302, Location="/here")
    web.routes["/here"] = lambda h: h.send(302, Location=other.base + "/m.gguf")
    models(empty, "pull", "hf:me/tiny/m.gguf", env={"HF_ENDPOINT": web.base, "HF_TOKEN": "hf_secret"}, check=0)
    assert [h.get("Authorization") for _, h in web.asked] == ["Bearer hf_secret"] * 2
    assert [h.get("Authorization") for _, h in other.asked] == [None]
    other.shutdown()
    other.server_close()


def test_an_empty_token_is_none(empty, tiny, web):
    web.routes["/me/tiny/resolve/main/m.gguf"] = ranged(tiny.read_bytes())
    models(empty, "pull", "hf:me/tiny/m.gguf", env={"HF_ENDPOINT": web.base, "HF_TOKEN": ""}, check=0)
    assert [h.get("Authorization") for _, h in web.asked] == [None]


def test_only_the_hub_is_believed_about_sums(empty, tiny, web):
    web.routes["/m.gguf"] = ranged(tiny.read_bytes(), X_Linked_Etag='"' + "ab" * 32 + '"')
    models(empty, "pull", web.base + "/m.gguf", check=0)


def test_a_proxy(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["http://example.invalid/m.gguf"] = ranged(data)
    models(empty, "pull", "--insecure-http", "http://example.invalid/m.gguf", env={"http_proxy": web.base}, check=0)
    assert pulled(empty, data)


def test_the_bar_fits_a_narrow_terminal(empty, tiny, web):
    data = tiny.read_bytes()
    web.routes["/m.gguf"] = slow(data, 50000, web.go)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    p = empty.popen([HOB, "models", "pull", web.base + "/m.gguf"], stderr=slave)
    out = b""
    while not re.search(rb"m \[=+ +\]  52%", out):
        out += os.read(master, 4096)
    p.send_signal(signal.SIGINT)
    out += until_end(p.wait, master, slave)
    assert p.returncode == 130
    os.close(master)
    os.close(slave)
    text = out.decode()
    shown = [s for s in re.split(r"[\r\n]", text) if "[=" in s]
    assert shown and all(len(s) < 40 for s in shown)
    assert re.search(r"\r +\r.*downloaded; run the same", text, re.S)


def test_quiet_and_not_on_a_terminal(empty, tiny, web):
    web.routes["/m.gguf"] = ranged(tiny.read_bytes())
    r = models(empty, "pull", "-q", web.base + "/m.gguf", check=0)
    assert not r.out and not r.err
