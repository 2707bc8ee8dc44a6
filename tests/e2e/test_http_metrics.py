# SPDX-License-Identifier: MIT
"""The counters for Prometheus."""
import re
import time

import pytest
from httpgate import DONE, begin


def test_metrics(gateway):
    before = gateway.get("/metrics").body.decode()
    usage = gateway.chat("count these words").json["usage"]
    after = gateway.get("/metrics").body.decode()

    def value(text, name):
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    for name, key in (("hob_http_prompt_tokens_total ", "prompt_tokens"), ("hob_http_completion_tokens_total ", "completion_tokens")):
        assert value(after, name) - value(before, name) == usage[key]
    assert value(after, "hob_http_first_token_seconds_count") - value(before, "hob_http_first_token_seconds_count") == 1
    assert value(after, 'hob_http_responses_total{status="200"}') > value(before, 'hob_http_responses_total{status="200"}')


def test_proposed_tokens(gateway):
    before = numbers(gateway.get("/metrics").body.decode())
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "one two three four five six seven eight nine ten"}}}
    body = {"model": "default", "messages": [{"role": "user", "content": "count"}], "response_format": form, "max_tokens": 80}
    assert gateway.post("/v1/chat/completions", body).status == 200  # forced tokens are computed in any case
    after = numbers(gateway.get("/metrics").body.decode())
    drafted, accepted = (after[f"hob_http_{k}_tokens_total"] - before[f"hob_http_{k}_tokens_total"] for k in ("drafted", "accepted"))
    assert drafted >= accepted > 0


def numbers(text):
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


def test_the_form(gateway):
    """Each name has a help and a type, and the buckets of a histogram grow up to the count."""
    text = gateway.get("/metrics").body.decode()
    seen = numbers(text)
    names = {re.sub(r"(_bucket|_sum|_count)?(\{.*\})?$", "", name) if "_seconds" in name else name.split("{")[0] for name in seen}
    assert names == set(re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", text, re.M)) == set(re.findall(r"^# HELP (\S+) \S", text, re.M))
    for name in ("hob_http_first_token_seconds", "hob_http_next_token_seconds"):
        buckets = [v for k, v in seen.items() if k.startswith(name + "_bucket")]
        assert buckets == sorted(buckets) and buckets[-1] == seen[name + "_count"]
    assert seen["hob_http_cache_hit_ratio"] == pytest.approx(seen["hob_http_cached_tokens_total"] / seen["hob_http_prompt_tokens_total"], abs=1e-6)


def test_the_queue(fake):
    s, call = begin(fake)
    assert numbers(fake.gateway.get("/metrics").body.decode())["hob_http_queued"] == 0
    call.event("queued", position=3)
    wait(lambda: numbers(fake.gateway.get("/metrics").body.decode())["hob_http_queued"] == 1)
    call.event("prefill", done=0, total=5, cached=0)
    call.event("text", text="x")
    while b"data: " not in s.recv(65536):
        pass
    now = numbers(fake.gateway.get("/metrics").body.decode())
    assert now["hob_http_queued"] == 0 and now["hob_http_requests"] == 2
    call.event("done", **DONE)
    while s.recv(65536):
        pass


def wait(what):
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)
