# SPDX-License-Identifier: MIT
"""The status of an error of the daemon."""
import json

from httpgate import begin, rest


def test_the_status_of_an_error_before_the_stream(fake):
    for code, status in [("EBUSY", 429), ("EINVAL", 400), ("E2BIG", 400), ("EDOM", 400), ("ENOENT", 404), ("EPERM", 403), ("ETIMEDOUT", 408),
                         ("ECANCELED", 499), ("ENOMEM", 503), ("EDQUOT", 429), ("EOPNOTSUPP", 422), ("EIO", 500), ("EWHATEVER", 500)]:
        s, call = begin(fake)
        call.event("queued", position=1)
        call.event("error", code=code, message=f"the reason \u00e4 {code}")
        got, head, body = rest(s)
        assert got == status and json.loads(body)["error"]["message"] == f"the reason \u00e4 {code}"
        assert ("Retry-After: 1" in head) == (status in (429, 503))
