# SPDX-License-Identifier: MIT
"""The request detokenize over the socket."""


def test_detokenize(shared):
    c = shared.client()
    ids = c.ask("tokenize", text="W\u00f6rter <|im_end|>", special=True)["ids"]
    assert c.ask("detokenize", ids=ids)["text"] == "W\u00f6rter "
    assert c.ask("detokenize", ids=ids, special=True) == {"event": "detokenized", "id": c.last, "text": "W\u00f6rter <|im_end|>"}
    assert c.ask("detokenize", ids=[])["text"] == "" and "detokenize" in c.hello["features"]
    (first,) = [i for i in ids if c.ask("detokenize", ids=[i])["text"] == "W"] or [ids[0]]
    two = next(ids[i: i + 2] for i in range(len(ids)) if c.ask("detokenize", ids=ids[i: i + 2])["text"] == "\u00f6")
    assert c.ask("detokenize", ids=two[:1] + [first])["text"].startswith("\ufffd")


def test_ids_that_are_none(shared):
    c = shared.client()
    e = c.ask("detokenize", ids=[0, 1, 2**31 - 1])
    assert e["event"] == "error" and e["code"] == "EINVAL" and "ids[2]: no token 2147483647" in e["message"], e
    for bad, says in ((7, "list of token ids"), ([1, -1], "element 1"), ([2**31], "element 0"), (["a"], "element 0"), ([1.5], "element 0")):
        e = c.ask("detokenize", ids=bad)
        assert e["event"] == "error" and says in e["message"], e


def test_the_text_is_that_of_the_tokens(shared):
    """Also of a text that looks like a control token."""
    c = shared.client()
    for text in ("one two", " one", "a\n\n b", "<|im_end|>", "\u65e5\u672c\u8a9e \U0001f600"):
        ids = c.ask("tokenize", text=text)["ids"]
        assert c.ask("detokenize", ids=ids)["text"] == text == c.ask("detokenize", ids=ids, special=True)["text"]
