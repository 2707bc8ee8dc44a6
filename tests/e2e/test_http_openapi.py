# SPDX-License-Identifier: MIT
"""client/http/openapi.json, the description of hob-http's paths: that it is true, and random requests that follow it or break it."""
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import TOP
from httpgate import Gateway
from test_calls import make

FOLDER = TOP / "client" / "http"
DOCUMENT = FOLDER / "openapi.json"
DOC = json.loads(DOCUMENT.read_text())
FIELDS = re.compile(r'\{"(\w+)", (\w+),')
TABLES = {"ChatRequest": ("openai-chat.c", "openai-json.c", "fields-common.c"),
          "CompletionRequest": ("openai-completions.c", "openai-json.c", "fields-common.c"),
          "InfillRequest": ("infill.c", "fields-common.c"), "ResponsesRequest": ("responses-fields.c", "fields-common.c"),
          "MessagesRequest": ("anthropic-fields.c", "fields-common.c")}


def test_the_paths_are_those_of_the_program():
    routes = re.findall(r'\{"([A-Z]+)", "([^"]+)", API', (FOLDER / "http-routes.c").read_text())
    documented = {(m.upper(), re.sub(r"\{\w+\}", "*", path)) for path, item in DOC["paths"].items() for m in item}
    assert documented == set(routes)


@pytest.mark.parametrize("schema", TABLES)
def test_the_fields_are_those_of_the_program(schema):
    """But for those that are always refused. The first table with a field reads it."""
    found = {}
    for file in TABLES[schema]:
        for name, read in FIELDS.findall((FOLDER / file).read_text()):
            found.setdefault(name, read)
    assert set(DOC["components"]["schemas"][schema]["properties"]) == {name for name, read in found.items() if read != "field_refuse"}


def test_each_reference_has_its_object():
    for ref in re.findall(r'"\$ref": "#/([^"]+)"', DOCUMENT.read_text()):
        at = DOC
        for key in ref.split("/"):
            at = at[key]
        assert isinstance(at, dict)


def test_random_requests(tmp_path_factory):
    """schemathesis: no status but those of the document, each answer has its schema, and none is a server's error."""
    env = {**os.environ, "PYTHONPATH": os.environ.get("HOB_TEST_CLIENTS", "")}
    run = [sys.executable, "-m", "schemathesis.cli"]
    found = subprocess.run([sys.executable, "-c", "import schemathesis.cli"], env=env, capture_output=True)
    if found.returncode != 0:
        pytest.skip("no Python package schemathesis (HOB_TEST_CLIENTS)")
    h = make(tmp_path_factory, "")
    try:
        g = Gateway(h)
        folder = tmp_path_factory.mktemp("schemathesis")
        # Only the paths that the daemon cannot serve have this status in the document.
        (folder / "schemathesis.toml").write_text('[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "501"]\n')
        options = ["--url", f"http://127.0.0.1:{g.port}", "--max-examples", os.environ.get("HOB_SCHEMATHESIS", "20"), "--seed", "1",
                   "--request-timeout", "60", "--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--checks",
                   "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"]
        r = subprocess.run([*run, "run", DOCUMENT, *options], env={**env, "HOME": str(folder), "NO_COLOR": "1"}, cwd=folder,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        assert r.returncode == 0, r.stdout[-8000:] + r.stderr[-2000:]
        assert g.get("/health").status == 200
    finally:
        h.stop()
