# SPDX-License-Identifier: MIT
"""The JSON-Schema-Test-Suite, of the package json-schema-test-suite, through hobd constrain --cases: nothing invalid is accepted."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HOBD, TOP

sys.path.insert(0, str(TOP / "tests" / "bench"))
import maskbench  # noqa: E402

SUITE = Path(os.environ.get("HOB_SCHEMA_SUITE", "/usr/share/json-schema-test-suite/tests"))
CONTENT = "optional/content.json"  # contentEncoding and contentMediaType, which draft 7 may assert and 2020-12 only annotates
ENOUGH = {"draft7": .85, "draft2020-12": .8}  # of the instances; the others are of schemas that are refused, or in a form that is not written


@pytest.mark.parametrize("draft", ENOUGH)
def test_nothing_invalid_is_accepted(tiny, tmp_path, draft):
    if not (SUITE / draft).is_dir():
        pytest.skip(f"no {SUITE / draft}")
    cases = [c for c in maskbench.suite(SUITE / draft) if not c["id"].startswith(CONTENT)]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(c) + "\n" for c in cases))
    r = subprocess.run([HOBD, "constrain", "-m", tiny, "--cases", path], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    n, wrong, *_ = maskbench.judge(cases, [json.loads(line) for line in r.stdout.splitlines()])
    assert n["invalid accepted"] == 0, wrong
    assert n["right"] >= ENOUGH[draft] * n["tests"], (n, wrong)
