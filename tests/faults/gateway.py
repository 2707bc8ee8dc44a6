# SPDX-License-Identifier: MIT
"""Requests to a hob-http in which calls fail, before a hobd in which none does."""
import http.client
import json
import re
import signal
import subprocess
import time

from conftest import Home
from httpgate import HOB_HTTP, JSON

ASK = {"messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 4, "temperature": 0}
TOOL = {"type": "function", "name": "look", "description": "Look something up.", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
REQUESTS = [
    ("GET", "/v1/models", None),
    ("GET", "/hob/status", None),
    ("GET", "/metrics", None),
    ("POST", "/tokenize", {"content": "some text"}),
    ("POST", "/v1/chat/completions", {**ASK, "n": 2, "logprobs": True, "top_logprobs": 2}),
    ("POST", "/v1/chat/completions", {**ASK, "stream": True, "logprobs": True, "stream_options": {"include_usage": True}}),
    ("POST", "/v1/chat/completions", {**ASK, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["yes"]}}}}),
    ("POST", "/v1/completions", {"prompt": "Once upon", "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": True}),
    ("POST", "/v1/completions", {"prompt": "Once upon", "max_tokens": 3, "temperature": 0, "stream": True}),
    ("POST", "/v1/messages", {**ASK, "model": "default", "system": "Be brief."}),
    ("POST", "/v1/messages", {**ASK, "model": "default", "stream": True}),
    ("POST", "/v1/responses", {"input": "Once upon a time", "max_output_tokens": 4, "temperature": 0, "tools": [TOOL], "tool_choice": "none"}),
    ("POST", "/v1/responses", {"input": "Once upon a time", "max_output_tokens": 4, "temperature": 0, "stream": True, "store": False}),
    ("POST", "/v1/chat/completions", {**ASK, "max_tokens": "many"}),
    ("GET", "/nowhere", None),
]
ENDS = ("[DONE]", "message_stop", "response.completed", "response.incomplete")
# What differs from one answer to the next: ids, times, numbers of tokens that were cached.
VARYING = re.compile(r'"(?:\w*id|call_id)":"[^"]*"|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?')


def events_of(body):
    """(name, data) of the events of a stream that may end early."""
    for block in body.decode(errors="replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        yield fields.get("event"), fields.get("data", "")


def text_of(data):
    """The text in the data of an event; "": none, or it is cut."""
    try:
        e = json.loads(data)
    except ValueError:
        return ""
    choice = (e.get("choices") or [{}])[0]
    delta = e.get("delta") or choice.get("delta") or choice.get("text") or ""
    return delta if isinstance(delta, str) else delta.get("content") or delta.get("text") or ""


def shape(body):
    """An answer without what varies, and whether it is whole; of a stream the text, since its pieces vary."""
    if b'"tokens_asked"' in body:  # a status
        return " ".join(sorted(json.loads(body))), True
    if body.startswith(b"# HELP"):  # metrics get rows and never lose any
        return "", True
    if not body.startswith((b"data: ", b"event: ", b": ")):
        return VARYING.sub("#", body.decode()), True
    events = [e for e in events_of(body) if e[1]]
    return "".join(text_of(data) for _, data in events), any(data == "[DONE]" or name in ENDS for name, data in events[-1:])


def names_error(status, body):
    """Whether an answer says that it is none."""
    text = body.decode(errors="replace")
    if status == 200:
        return '"error"' in text or "response.failed" in text
    return status >= 400 and ('"message"' in text or not text)


class Program:
    """hob-http with the library."""

    def __init__(self, home, library, control, hang):
        self.home, self.hang = home, hang
        self.env = {"LD_PRELOAD": str(library), "FAULT_CONTROL": str(control.path)}
        self.log = home.root / "hob-http.log"
        self.start()

    def start(self):
        self.at = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.p = self.home.popen([HOB_HTTP, "--listen", "127.0.0.1:0", "--socket", self.home.socket], env=self.env, stdin=subprocess.DEVNULL,
                                     stderr=log)
        end = time.monotonic() + self.hang
        while not (m := re.search(r"listening on http://127\.0\.0\.1:(\d+)\n", self.said())):
            assert time.monotonic() < end and self.p.poll() is None, self.said()
            time.sleep(0.005)
        self.port = int(m[1])

    def said(self):
        return self.log.read_text(errors="replace")[self.at:]

    def ask(self, method, path, body):
        """(status, body); None: the connection ended before the answer did."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.hang)
        try:
            c.request(method, path, body=body and json.dumps(body), headers=JSON if body else {})
            r = c.getresponse()
            return r.status, r.read()
        except (http.client.HTTPException, ConnectionError):
            return None
        finally:
            c.close()


def check(ended, answer, want):
    """What is wrong with an @answer during which a call failed; None: nothing."""
    if answer is None or ended:  # how a connection ends for which there is no memory or descriptor
        return None
    status, body = answer
    got, whole = shape(body) if status == 200 else ("", False)
    if status == want[0] and ((got, whole) == want[1] or status != 200):
        return None
    if names_error(status, body):
        return None
    if status == 200 and not whole and want[1][0].startswith(got):  # a stream that ends early, without its end
        return None
    return f"{status} {body[-300:]!r} instead of {want[0]} {want[1][0][-300:]}"


def gateway(library, calm_rounds, hang):
    """A scenario, as in scenarios.py: until @calm_rounds pass without a fault; @hang: seconds without an answer."""

    def scenario(folder, model, control, effect, say, deadline):
        home = Home(folder, model)
        home.daemon("--threads", 1)
        p, calm = Program(home, library, control, hang), 0
        wants = [expected(p, x) for x in REQUESTS]
        while calm < calm_rounds and time.monotonic() < deadline:
            calm += 1
            for request, want in zip(REQUESTS, wants):
                control.arm(effect)
                try:
                    answer = p.ask(*request)
                except TimeoutError:
                    say(f"{request[1]}: no answer", p.said())
                    answer = None
                if control.disarm():
                    calm = 0
                ended = p.p.poll() is not None
                line = " ".join(request[:2])
                wrong = check(ended, answer, want)
                if wrong:
                    say(f"{line}: {wrong}", p.said())
                if ended:
                    say(f"{line}: hob-http ended with status {p.p.returncode}", p.said())
                    p.start()
                elif p.ask("GET", "/v1/models", None) is None:
                    say(f"{line}: no answer behind it", p.said())
        p.p.send_signal(signal.SIGTERM)
        if p.p.wait(hang) or "anitizer" in p.log.read_text(errors="replace"):
            say(f"hob-http stopped with status {p.p.returncode}", p.said())
        home.stop()
        return calm == calm_rounds

    return scenario


def expected(p, request):
    """Status and shape of the answer without a fault: of the second one, which finds what the first has cached."""
    for _ in range(2):
        status, body = p.ask(*request)
    return status, shape(body) if status == 200 else None
