#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From exec to the request on the wire: hob is started against a socket of ours, and the time until the whole request
has come is taken; then its private memory. Medians of N runs as two lines, "ms N" and "kB N".
usage: wire.py HOB [N]"""
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time


def frames(fd):
    """The moment when two whole messages (hello, and the request) are there."""
    data = b""
    while True:
        more = fd.recv(65536)
        if not more:
            sys.exit("wire: hob ended before its request was sent")
        data += more
        at, n = 0, 0
        while len(data) >= at + 4 and len(data) >= at + 4 + struct.unpack_from("<I", data, at)[0]:
            at += 4 + struct.unpack_from("<I", data, at)[0]
            n += 1
        if n == 2:
            return time.monotonic()


def private(pid):
    return sum(int(n) for n in re.findall(r"^Private_\w+: +(\d+) kB", open(f"/proc/{pid}/smaps_rollup").read(), re.M))


def main(hob, n=200):
    times, sizes = [], []
    with tempfile.TemporaryDirectory() as d, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{d}/s")
        listener.listen()
        env = {**os.environ, "HOB_SOCKET": f"{d}/s"}
        for _ in range(n):
            # vfork and exec, so that our own size does not count.
            begin = time.monotonic()
            p = subprocess.Popen([hob, "hi"], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False)
            peer, _ = listener.accept()
            times.append((frames(peer) - begin) * 1000)
            sizes.append(private(p.pid))
            p.kill()  # first, or it comes back
            p.wait()
            peer.close()
    print(f"ms {statistics.median(times):.2f}\nkB {statistics.median(sizes):.0f}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
