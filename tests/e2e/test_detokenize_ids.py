# SPDX-License-Identifier: MIT
"""POST /detokenize before the real daemon."""
import pytest


def test_detokenize(gateway):
    text = "Hello <|im_end|> w\u00f6rld\n"
    ids = gateway.post("/tokenize", {"content": text, "parse_special": True}).json["tokens"]
    assert gateway.post("/detokenize", {"tokens": ids}).json == {"content": text}
    assert gateway.post("/detokenize", {"tokens": [], "model": "default"}).json == {"content": ""}


@pytest.mark.parametrize("body,says", [({}, "'tokens'"), ({"tokens": "x"}, "'tokens'"), ({"tokens": [1, "a"]}, "'tokens[1]'"),
                                       ({"tokens": [1, 2, -3]}, "'tokens[2]'"), ({"tokens": [2**31]}, "'tokens[0]'"), ({"tokens": [1.5]}, "'tokens[0]'"),
                                       ({"tokens": [1, 2**31 - 1]}, "ids[1]: no token 2147483647")])
def test_ids_that_are_none(gateway, body, says):
    gateway.post("/detokenize", body).error(400, says)


def test_more_than_a_message_holds(gateway):
    gateway.post("/detokenize", {"tokens": [1] * 100000}).error(413, "")
    gateway.post("/detokenize", {"tokens": [1], "model": "nothing"}).error(404, "nothing")
