# SPDX-License-Identifier: MIT
"""POST /tokenize before the real daemon."""
from hobproto import Client


def test_tokenize(gateway, shared):
    with Client(shared.socket) as c:
        for special in (False, True):
            text = "Hello <|im_end|> w\u00f6rld"
            assert gateway.post("/tokenize", {"content": text, "parse_special": special}).json == \
                {"tokens": c.ask("tokenize", text=text, special=special)["ids"]}
    gateway.post("/tokenize", {}).error(400, "'content'", "content")
    gateway.post("/tokenize", {"content": "x", "with_pieces": True}).error(400, "'with_pieces'")
