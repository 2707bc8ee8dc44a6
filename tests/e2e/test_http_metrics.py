# SPDX-License-Identifier: MIT
"""The counters for Prometheus."""


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
