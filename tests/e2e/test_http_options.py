# SPDX-License-Identifier: MIT
"""The command line of hob-http."""
import pytest
from conftest import Home
from httpgate import run_http as run


@pytest.mark.parametrize("args,says", [(["--nope"], "unknown option"), (["--listen"], "needs a value"), (["serve"], "unexpected argument"),
                                       (["--max-body", "x"], "'x'"), (["key", "add"], "needs a NAME"), (["--listen", "localhost"], "not ADDRESS:PORT"), (["--listen", "127.0.0.1:99999"], "not ADDRESS:PORT")])
def test_wrong_usage(tmp_path, args, says):
    r = run(Home(tmp_path), *args)
    assert r.returncode == 2 and says in r.stderr, r


def test_help_and_version(tmp_path):
    home = Home(tmp_path)
    assert "--request-timeout TIME" in run(home, "--help").stdout
    assert run(home, "--version").stdout.startswith("hob-http ")
