# SPDX-License-Identifier: MIT
"""Bodies that are not a request."""
import pytest

DEEP = b"[" * 200 + b"]" * 200


@pytest.mark.parametrize("body,status,says", [
    (b"", 400, "invalid JSON"), (b"{", 400, "invalid JSON"), (b"[]", 400, "not a JSON object"), (b"1", 400, ""), (b'{"content":"a"}x', 400, "invalid JSON"),
    (b'{"content":"\xff"}', 400, "invalid JSON"), (b'{"content":"\\ud800"}', 400, "invalid JSON"), (b'{"content":"a\\u0000"}', 400, "invalid JSON"),
    (b'{"content":"a","content":"b"}', 400, "duplicate"), (b'{"content":' + DEEP + b"}", 400, "nested deeper"),
    (b'{"content":"' + b"[" * 200 + b'\\"["}', 200, ""), (b'{"content":[' + b"1," * 300000 + b"1]}", 413, "values"),
    (b'{"content":1e999}', 400, "invalid JSON"), (b'{"content":99999999999999999999999}', 400, "invalid JSON")])
def test_body(gateway, body, status, says):
    r = gateway.ask("POST", "/tokenize", body)
    if status == 200:
        assert len(r.json["tokens"]) > 10
    else:
        r.error(status, says)
