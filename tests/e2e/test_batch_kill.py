# SPDX-License-Identifier: MIT
"""batch_kills.py, in its short form: 4 trials."""
import random

from batch_kills import trials
from conftest import HOB


def test_nothing_is_lost_or_doubled(home):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    assert len(trials(home.env, HOB, 4, seed)) == 4
