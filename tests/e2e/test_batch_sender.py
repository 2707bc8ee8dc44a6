# SPDX-License-Identifier: MIT
"""What the daemon may do to a batch (batch-sender.c, batch-job.c): a full queue, an end in the middle."""
import json
import subprocess
import time

from conftest import HOB


def text(n, tokens=6):
    return "".join(json.dumps({"prompt": f"number {i}", "max_tokens": tokens, "temp": 0, "ignore_eos": True}) + "\n" for i in range(n)).encode()


def begin(p, n):
    """The first @n of 200 lines; a batch whose input is open cannot have ended."""
    p.stdin.write(text(200, 20))
    p.stdin.flush()
    return [p.stdout.readline() for _ in range(n)]


def rest(p, seen, n):
    """Write @n more lines; all results come, and the status is 0."""
    p.stdin.write(text(n, 20))
    p.stdin.close()
    assert results(b"".join([*seen, p.stdout.read()]).decode()) == list(range(1, 201 + n)) and p.wait(60) == 0


def results(out):
    found = [json.loads(x) for x in out.splitlines()]
    assert all("error" not in x for x in found), [x for x in found if "error" in x][:3]
    return sorted(x["line"] for x in found)


def test_a_full_queue_means_waiting(home):
    """Twelve times as many at a time as the daemon takes, and another one of the same user beside it."""
    home.daemon("--parallel", "2", "--queue", "3")
    others = [home.popen([HOB, "batch", "-q", "--jobs", "64"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for p in others:
        p.stdin.write(text(100))
        p.stdin.close()
    for p in others:
        assert results(p.stdout.read().decode()) == list(range(1, 101)) and p.wait(60) == 0


def test_a_queue_that_is_waited_in_too_long(home):
    """queue-timeout is the daemon's, so the line waits again; a line's own timeout is an error."""
    home.daemon("--parallel", "1", "--queue-timeout", "100ms")
    r = home.hob("batch", "-q", "--jobs", "32", input=text(60, 30), check=0)
    assert results(r.out) == list(range(1, 61))
    r = home.hob("batch", input=b'{"prompt":"x","timeout":"1ms","max_tokens":400,"ignore_eos":true}\n' * 3, check=1)
    assert all(json.loads(x)["error"]["code"] == "ETIMEDOUT" for x in r.out.splitlines()) and r.out.count("\n") == 3


def test_a_daemon_that_ends_is_started_again(home):
    home.env.pop("HOB_SOCKET", None)
    p = home.popen([HOB, "batch", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    seen = begin(p, 20)
    pid = json.loads(home.hob("status", "--json", check=0).out)["pid"]
    subprocess.run(["kill", "-9", str(pid)], check=True)
    rest(p, seen, 200)
    assert json.loads(home.hob("status", "--json", check=0).out)["pid"] != pid


def test_a_daemon_that_comes_back(home):
    """At HOB_SOCKET none is started: it is waited for."""
    d = home.daemon()
    p = home.popen([HOB, "batch", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"HOB_SOCKET": str(home.socket)})
    seen = begin(p, 10)
    d.kill()
    d.wait()
    time.sleep(0.3)
    home.daemon()
    rest(p, seen, 100)


def test_a_daemon_that_does_not_come_back(home, tmp_path):
    d = home.daemon()
    argv = [HOB, "batch", "--out", tmp_path / "out"]
    p = home.popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={"HOB_SOCKET": str(home.socket)})
    p.stdin.write(text(200, 20))
    p.stdin.flush()
    while not (tmp_path / "out").exists() or (tmp_path / "out").read_text().count("\n") < 5:
        time.sleep(0.001)
    d.kill()
    d.wait()
    p.stdin.write(text(100, 20))
    p.stdin.close()
    said = p.stderr.read().decode()
    assert p.wait(60) == 69 and "no daemon" in said and "--resume" in said, said
    assert (tmp_path / "out").read_bytes().endswith(b"\n")


def test_interrupt(shared, tmp_path):
    p = shared.popen([HOB, "batch", "--out", tmp_path / "out"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(text(50))
    p.stdin.flush()
    while not (tmp_path / "out").exists() or not (tmp_path / "out").read_text():
        time.sleep(0.001)
    p.send_signal(2)
    assert p.wait(60) == 130 and b"--resume" in p.stderr.read()
