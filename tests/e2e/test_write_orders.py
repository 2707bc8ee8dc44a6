# SPDX-License-Identifier: MIT
"""write_orders.py, in its short form: some hundred states of a short log, one of them for hobd."""
import random

from conftest import BUILD
from write_orders import run


def test_no_order_of_writes_loses_a_turn(tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    said = run(tmp_path, BUILD, seed, 300, 1, lives=3, requests=8)
    assert said[0].endswith(" 0 states wrong")
