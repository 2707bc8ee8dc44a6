# SPDX-License-Identifier: MIT
"""The events of a daemon as an answer."""
import json

from httpgate import DONE, begin, events_of, rest


def test_thinking_is_no_part_of_the_answer(fake):
    for stream in (False, True):
        s, call = begin(fake, stream)
        call.event("text", text="hm", channel="thinking")
        call.event("text", text="yes")
        call.event("done", **DONE)
        body = rest(s)[2]
        if stream:
            deltas = [d["choices"][0]["delta"] for _, d in events_of(body)[:-1]]
            assert {"reasoning_content": "hm"} in deltas and {"content": "yes"} in deltas
        else:
            message = json.loads(body)["choices"][0]["message"]
            assert message["content"] == "yes" and message["reasoning_content"] == "hm"
