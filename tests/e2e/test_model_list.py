# SPDX-License-Identifier: MIT
"""The models that a client can name."""
from httpgate import Gateway


def test_models(shared, homes, tiny, tmp_path):
    """With --socket, the models of these sockets; without, all that have a socket or a file."""
    r = Gateway(shared).get("/v1/models").json
    assert [(m["id"], m["object"], m["owned_by"]) for m in r["data"]] == [("default", "model", "hob")] and r["object"] == "list"
    h = homes(tiny)
    (h.models / "other.gguf").symlink_to(tiny)
    (h.models / "other.mmproj.gguf").write_bytes(b"an image encoder")
    h.daemon(socket=h.run / "hob" / "live.sock")
    g = Gateway(h, sockets=[])
    ids = {m["id"] for m in g.get("/v1/models").json["data"]}
    assert {"default", "live", "other"} <= ids and "other.mmproj" not in ids
    assert g.chat(model="live").json["model"] == "live"
    g.chat(model="other").error(503, "no daemon runs for the model 'other'", "model")
    g.chat(model="../live").error(404, "../live", "model")
    g.chat(model="x" * 300).error(404, "xxx", "model")


def test_an_unknown_model(gateway):
    e = gateway.chat(model="gpt-9").error(404, "gpt-9", "model")
    assert e["code"] == "model_not_found"
    assert gateway.chat(model="default").status == 200
