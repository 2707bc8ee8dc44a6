# SPDX-License-Identifier: MIT
"""kills.py, in its short form: about 20 kills."""
import random

from conftest import BUILD
from kills import trial


def test_nothing_is_lost_doubled_or_foreign(tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    kills, counts, read = trial(tmp_path, BUILD, 18, seed)
    assert kills >= 18 and counts["turn"] > 20 and read > 0
