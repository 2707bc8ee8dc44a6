# SPDX-License-Identifier: MIT
"""Joules, from counters that stand where the kernel's would, in a mount namespace of our own."""
import json
import os
import subprocess
import threading

import pytest
from conftest import HOBD

UNDER = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/class && mkdir /sys/class/powercap && '
         'mount --bind "$1" /sys/class/powercap || exit 99; shift; exec "$@"', "sh"]


class Package:
    """The counter of one package. It stands still until it runs."""

    def __init__(self, root):
        self.root = root / "powercap"
        zone = self.root / "intel-rapl:0"
        zone.mkdir(parents=True)
        (zone / "name").write_text("package-0\n")
        (zone / "max_energy_range_uj").write_text("65532610987\n")
        self.fd = os.open(zone / "energy_uj", os.O_RDWR | os.O_CREAT)
        self.uj, self.stop = 0, threading.Event()
        self.put()
        self.wrap = [*UNDER, str(self.root)]
        if subprocess.run([*self.wrap, "true"], capture_output=True).returncode:
            pytest.skip("no mount namespace")

    def put(self):
        os.pwrite(self.fd, b"%016d" % self.uj, 0)

    def run(self):
        while not self.stop.wait(0.002):
            self.uj += 200000
            self.put()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def __exit__(self, *args):
        self.stop.set()
        self.thread.join()


@pytest.fixture
def package(tmp_path):
    return Package(tmp_path)


def test_joules_of_an_answer(home, package):
    home.daemon(wrap=package.wrap)
    home.hob("-n", 1, "once the model is loaded, the idle power was measured", check=0)
    with package:
        for _ in range(100):  # on a busy machine the counter may stand for a whole answer
            said = home.hob("--jsonl", "-n", 200, "--ignore-eos", "tell me", check=0).out
            energy = json.loads(said.splitlines()[-1])["energy"]
            assert set(energy) == {"prompt_j", "token_j", "saved_j"} and all(j >= 0 for j in energy.values())
            if energy["prompt_j"] + energy["token_j"] > 0:
                break
        else:
            pytest.fail("no energy")
        again = home.hob("-v", "-n", 20, "--ignore-eos", "tell me", check=0).err
    assert ", energy " in again and "J prompt" in again and "J/token" in again
    status = json.loads(home.hob("status", "--json", check=0).out)
    assert set(status["energy"]) == {"joules", "joules_saved", "idle_watts", "joules_prompt_token", "joules_answer_token"}
    assert status["energy"]["joules"] > 0 and status["uids"][0]["joules"] > 0
    assert "energy:\n  joules: " in home.hob("status", check=0).out


def test_bench_takes_the_idle_power_off(tiny, package):
    with package:
        for _ in range(20):  # on a busy machine the counter may stand for the time of the measurement
            r = subprocess.run([*package.wrap, HOBD, "bench", "-m", tiny, "-p", "32", "-n", "4", "-b", "1", "-r", "1", "-t", "1", "--json"],
                               capture_output=True, check=True)
            b = json.loads(r.stdout)
            if b["idle_watts"] > 0:
                break
    assert b["idle_watts"] > 0
    for run in (b["prefill"], b["decode"][0]):
        assert run["joules_per_token"] >= 0


def test_one_word_says_that_it_is_unknown(home, tmp_path):
    (tmp_path / "empty").mkdir()
    wrap = [*UNDER, str(tmp_path / "empty")]
    if subprocess.run([*wrap, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace")
    home.daemon(wrap=wrap)
    r = home.hob("-v", "--jsonl", "-n", 4, "hi", check=0)
    assert "energy" not in json.loads(r.out.splitlines()[-1]) and r.err.endswith("energy unknown\n")
    assert json.loads(home.hob("status", "--json", check=0).out)["energy"] is None
    assert "energy: unknown\n" in home.hob("status", check=0).out
