# SPDX-License-Identifier: MIT
"""hobd's GBNF, construct by construct, llama.cpp's example grammars, and random grammars.

HOB_GBNF_VALIDATOR, the command of llama.cpp's test-gbnf-validator, must judge alike: two file names, of a grammar and a text, are added
to it. HOB_GBNF_EXAMPLES is the folder of llama.cpp's example grammars (grammars/ in its source)."""
import json
import os
import random
import shlex
import subprocess
from pathlib import Path

import gbnf_random
import pytest
from conftest import HOBD, data
from gbnf_examples import EXAMPLES
from gbnf_table import GROUPS, INVALID

FOLDER = os.environ.get("HOB_GBNF_EXAMPLES")
VALIDATOR = shlex.split(os.environ.get("HOB_GBNF_VALIDATOR", ""))
GRAMMARS, TEXTS = (200 if VALIDATOR else 50), 5
SECONDS = 4  # of the validator, for a text
TOO_LONG = "too long"


class Peers:
    """Both judges of a grammar: True if it accepts a text, else False; None if the grammar itself is refused."""

    def __init__(self, folder, grammar, model):
        self.path, self.text, self.model = folder / "grammar.gbnf", folder / "text", model
        self.path.write_bytes(grammar if isinstance(grammar, bytes) else grammar.encode())

    def hob(self, text):
        r = subprocess.run([HOBD, "constrain", "-m", self.model, "--grammar", self.path, "--json"], input=text.encode(),
                           capture_output=True, timeout=60)
        got = json.loads(r.stdout)
        assert r.returncode == (2 if got["error"] else 0 if got["accepted"] else 1) and not r.stderr, r
        return None if got["error"] else got["accepted"]

    def validator(self, text):
        """Its judgement, or TOO_LONG: it takes exponential time for an ambiguous grammar."""
        self.text.write_bytes(text.encode())
        r = subprocess.run(["timeout", str(SECONDS), *VALIDATOR, self.path, self.text], capture_output=True)
        for said, judged in ((b"string is valid", True), (b"string is invalid", False), (b"Failed to initialize", None)):
            if said in r.stdout:
                return judged
        assert r.returncode == 124, r
        return TOO_LONG


@pytest.fixture
def peers(tmp_path, tiny):
    return lambda grammar, model=tiny: Peers(tmp_path, grammar, model)


def needs_validator():
    if not VALIDATOR:
        pytest.skip("no llama.cpp validator (HOB_GBNF_VALIDATOR)")


def texts(yes, no):
    return [(t, True) for t in yes] + [(t, False) for t in no]


@pytest.mark.parametrize("group", GROUPS)
def test_each_construct_accepts_and_refuses(peers, group):
    for row in GROUPS[group]:
        judge = peers(row.grammar)
        for text, accepted in texts(row.yes, row.no):
            assert judge.hob(text) == accepted, (row.grammar, text)


def test_invalid_grammars_are_refused(peers):
    for grammar, _ in INVALID:
        assert peers(grammar).hob("a") is None, grammar


def test_the_validator_judges_the_table_alike(peers):
    """Rows with a reason are judged otherwise: a reason that is no longer true has to go."""
    needs_validator()
    for row in sum(GROUPS.values(), []):
        judge = peers(row.grammar)
        wrong = [t for t, accepted in texts(row.yes, row.no) if judge.validator(t) != accepted]
        assert bool(wrong) == bool(row.differs), (row.grammar, row.differs, wrong)


def test_the_validator_refuses_the_same_grammars(peers):
    needs_validator()
    for grammar, differs in INVALID:
        if differs is not None:
            assert (peers(grammar).validator("a") is not None) == bool(differs), grammar


@pytest.fixture
def examples():
    """Of each example grammar its bytes, and texts with whether it accepts them."""
    if not FOLDER:
        pytest.skip("no example grammars of llama.cpp (HOB_GBNF_EXAMPLES)")
    return [(Path(FOLDER, f"{name}.gbnf").read_bytes(), texts(*some)) for name, some in EXAMPLES.items()]


def test_example_grammars(peers, examples, tiny, tiny_spm):
    for grammar, cases in examples:
        for model in tiny, tiny_spm:
            judge = peers(grammar, model)
            assert [t for t, accepted in cases if judge.hob(t) != accepted] == [], grammar


def test_the_validator_judges_the_examples_alike(peers, examples):
    needs_validator()
    for grammar, cases in examples:
        judge = peers(grammar)
        assert [t for t, accepted in cases if judge.validator(t) != accepted] == [], grammar


def test_example_grammars_over_a_large_vocabulary(peers, examples):
    for grammar, cases in examples:
        judge = peers(grammar, data("vocab/llama3.gguf"))
        assert [t for t, accepted in cases if judge.hob(t) != accepted] == [], grammar


def random_texts(rng, grammar):
    some = [gbnf_random.text_of(rng, grammar) for _ in range(TEXTS)]
    return [t if i < 2 else gbnf_random.mutate(rng, t) for i, t in enumerate(some)]


def the_validator_agrees(judge, grammar, text, expected):
    """False: it gives no judgement, because it takes too long, or refuses a repetition of what may be empty."""
    said = judge.validator(text) if VALIDATOR else TOO_LONG
    if said is None:
        assert gbnf_random.repeats_empty(grammar)
    elif said != TOO_LONG:
        assert said == expected
    return said not in (None, TOO_LONG)


@pytest.mark.parametrize("part", range(10))
def test_random_grammars(peers, part):
    """A slow judge, and the validator if there is one, judge as hob does."""
    asked = n = 0
    for seed in range(part * GRAMMARS // 10, (part + 1) * GRAMMARS // 10):
        rng = random.Random(seed)
        grammar = gbnf_random.make(rng)
        judge = peers(gbnf_random.Writer(rng).grammar(grammar))
        for text in random_texts(rng, grammar):
            expected = gbnf_random.Judge(grammar, text).accepts()
            assert judge.hob(text) == expected, (seed, text)
            asked += the_validator_agrees(judge, grammar, text, expected)
            n += 1
    print(f"{n} texts, {asked} judged by the validator")
    assert asked > n * .7 or not VALIDATOR
