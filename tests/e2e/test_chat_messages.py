# SPDX-License-Identifier: MIT
"""The messages of a chat."""
from test_openai_chat import BODY, CHAT


def test_roles_and_parts(gateway):
    def text(messages):
        r = gateway.post(CHAT, {**BODY, "messages": messages})
        assert r.status == 200, r.body
        return r.json["choices"][0]["message"]["content"]

    plain = text([{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two"}])
    assert plain == text([{"role": "developer", "content": "be brief"}, {"role": "user", "content": "one two", "name": "me"}])
    assert plain == text([{"role": "system", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
                          {"role": "user", "content": [{"type": "text", "text": "one two"}]}])
