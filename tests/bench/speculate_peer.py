#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What speculation gives llama.cpp's server in the work of speculate.py: a line for each kind.
usage: speculate_peer.py [-t THREADS] [-r ROUNDS] [--only WORD[,WORD…]] [--type TYPE[,TYPE…]] [--draft FILE] [--port PORT]
                         LLAMA-SERVER MODEL
LLAMA-SERVER may have several words, and MODEL is the file's path as that program sees it. Two servers run, one without
speculation and one with --spec-type TYPE (ngram-simple; with --draft: draft-simple), and are asked in turn. The times are
those of decoding; "crowd" is 16 clients at once, measured from the first question to the last answer. The kind "session"
is left out: the server has no sessions.
ratio: the median over the rounds of without / with; changed: answers whose text speculation has changed."""
import argparse
import atexit
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from speculate import works  # noqa: E402


class Server:
    def __init__(self, o, port, options):
        self.url = f"http://127.0.0.1:{port}"
        argv = [*o.server.split(), "-m", o.model, "--port", str(port), "-t", str(o.threads), "-c", "32768", "--parallel", "16", "--kv-unified",
                "--no-webui", *options]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        while True:
            assert self.process.poll() is None, "the server has ended: " + " ".join(argv)
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)

    def ask(self, keys):
        """The text of an answer, and its milliseconds of decoding."""
        same = {k: keys[k] for k in ("temperature", "seed", "ignore_eos") if k in keys}
        body = {**same, "cache_prompt": False, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
        chat = "messages" in keys
        body.update({"messages": keys["messages"], "max_tokens": keys["max_tokens"]} if chat else
                    {"prompt": keys["prompt"], "n_predict": keys["max_tokens"]})
        path = "/v1/chat/completions" if chat else "/completion"
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=900) as f:
            answer = json.load(f)
        return answer["choices"][0]["message"]["content"] if chat else answer["content"], answer["timings"]["predicted_ms"]

    def run(self, work):
        """All texts of the lists of @work, and milliseconds."""
        if len(work) == 1:
            said = [self.ask(keys) for keys in work[0]]
            return [text for text, _ in said], sum(ms for _, ms in said)
        texts = [None] * len(work)

        def one(i):
            texts[i] = [self.ask(keys)[0] for keys in work[i]]

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(work))]
        begin = time.monotonic()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return texts, (time.monotonic() - begin) * 1000


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("-t", "--threads", type=int, default=2)
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("--only", default="")
    p.add_argument("--type", default="")
    p.add_argument("--draft")
    p.add_argument("--port", type=int, default=8590)
    p.add_argument("server")
    p.add_argument("model")
    o = p.parse_args()
    plain = Server(o, o.port, [])
    fast = Server(o, o.port + 1, ["--spec-type", o.type or ("draft-simple" if o.draft else "ngram-simple"), *(["-md", o.draft] if o.draft else [])])
    for name, work in works().items():
        if name == "session" or (name not in o.only.split(",") if o.only else not o.draft and name.startswith("draft")):
            continue
        ratios, changed, answers = [], 0, 0
        for r in range(o.rounds + 1):
            got = {}
            for server in (fast, plain) if r % 2 else (plain, fast):
                got[server] = server.run(work)
            if r == 0:
                continue
            ratios.append(got[plain][1] / got[fast][1])
            changed += sum(a != b for a, b in zip(got[plain][0], got[fast][0]))
            answers += len(got[plain][0])
        print(f"{name:14} {statistics.median(ratios):5.2f}x ({min(ratios):.2f} to {max(ratios):.2f})  {changed} of {answers} answers changed", flush=True)


if __name__ == "__main__":
    main()
