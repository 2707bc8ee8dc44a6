# SPDX-License-Identifier: MIT
"""GET /hob/status."""
import json

from httpgate import Gateway, run_http


def test_it_is_the_status_of_the_daemon(gateway, shared):
    r = gateway.get("/hob/status?model=default").json
    assert r["state"] == "ready" and set(r) == set(json.loads(shared.hob("status", "--json", check=0).out))
    gateway.get("/hob/status?model=none").error(404, "none")


def test_a_key_does_not_see_what_others_cached(home):
    home.daemon()
    keys = home.root / "keys"
    key = run_http(home, "key", "add", "ada", "--keys", keys).stdout.strip()
    g = Gateway(home, "--keys", keys)
    assert g.get("/hob/status").status == 401
    r = g.get("/hob/status", {"Authorization": f"Bearer {key}"}).json
    assert r["state"] == "ready" and {"running", "queued", "parallel", "tokens_generated"} <= set(r)
    assert not [k for k in r if "cache" in k or "peers" in k or "uids" in k or "prompt" in k or "rolling" in k or "computed" in k], r
