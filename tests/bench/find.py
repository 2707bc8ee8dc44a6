# SPDX-License-Identifier: MIT
"""How long hob find takes over an index of many chunks: the search itself, and the whole command without the embedding of
the question, which a scripted daemon gives at once.

usage: find.py BUILD [CHUNKS [DIM]]     (100,000 chunks of 384 values)
"""
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from embedpeer import EmbedPeer  # noqa: E402

LINES, CHUNKS_OF_A_FILE = 24, 25


def plant(top, chunks):
    """Files of chunks that end at blank lines."""
    for f in range(-(-chunks // CHUNKS_OF_A_FILE)):
        path = top / f"d{f // 100}" / f"f{f}.txt"
        path.parent.mkdir(exist_ok=True)
        with open(path, "w") as out:
            for c in range(min(CHUNKS_OF_A_FILE, chunks - f * CHUNKS_OF_A_FILE)):
                n = f * CHUNKS_OF_A_FILE + c
                out.write("".join(f"w{n * 7 % 9973} w{n}\n" for _ in range(LINES - 1)) + "\n")


def main():
    build = Path(sys.argv[1]).resolve()
    chunks, dim = (int(x) for x in (sys.argv[2:] + ["100000", "384"][len(sys.argv) - 2:]))
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        top = root / "tree"
        top.mkdir()
        plant(top, chunks)
        env = dict(os.environ, HOME=str(root), XDG_CACHE_HOME=str(root / "cache"), XDG_CONFIG_HOME=str(root / "config"),
                   HOB_SOCKET=str(root / "peer.sock"))
        subprocess.run([build / "tests" / "client" / "bench-find", top, str(dim)], env=env, check=True)
        (index,) = (root / "cache" / "hob" / "index").iterdir()
        with sqlite3.connect(index / "index.db") as db:
            (probe,) = db.execute("SELECT value FROM meta WHERE key = 'probe'").fetchone()
        sizes = {p.name: p.stat().st_size for p in index.iterdir()}
        print(f"{sizes['vectors-1'] / 1e6:.1f} MB of vectors, {sizes['index.db'] / 1e6:.1f} MB of database")
        peer = EmbedPeer(root / "peer.sock", dim)
        known = peer.vector
        peer.vector = lambda text: probe if text.startswith("The quick brown") else known(text)
        search, rest = [], []
        for _ in range(21):
            began = time.perf_counter()
            r = subprocess.run([build / "client" / "hob", "find", "-v", "where", "is", "the", "retry", "limit", "set"], cwd=top, env=env,
                               capture_output=True, text=True, check=True)
            took = (time.perf_counter() - began) * 1000
            embed, compared = re.search(r"embedded in ([\d.]+) ms, .* compared in ([\d.]+) ms", r.stderr).groups()
            search.append(float(compared))
            rest.append(took - float(embed))
        peer.close()
        for name, ms in (("search in the command", search), ("whole command without the embedding", rest)):
            print(f"{name}: {statistics.median(ms):.1f} ms (median), {min(ms):.1f} ms (best)")


main()
