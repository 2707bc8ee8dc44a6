# SPDX-License-Identifier: MIT
"""Answers of models whose vocabularies do not merge: unigram, WordPiece, RWKV, PLaMo 2."""
import json
import re
import subprocess

import pytest

from conftest import HOBD, mktiny

EXACT = ["t5", "rwkv", "plamo2"]  # their tokens are the text again; this "t5" has no character map


@pytest.fixture(params=[*EXACT, "bert"])
def kind(request):
    return request.param


@pytest.fixture
def model(tmp_path, kind):
    return mktiny(tmp_path / f"{kind}.gguf", "--seed", 8, "--type", "F32", "--tokenizer", kind)


def tokenize(model, *args, text):
    return subprocess.run([HOBD, "tokenize", "-m", model, *args], input=text, capture_output=True, check=True, text=True).stdout


def test_text_and_back(model, kind):
    text = "the little One said: W\u00f6rter and \u65e5\u672c  \U0001f600 12\n\"<|im_end|>\""
    back = tokenize(model, "--detokenize", text=tokenize(model, text=text))
    assert back == (text if kind in EXACT else 'the little one said : worter and 12 " < | im _ end | > "')


def test_an_answer(homes, model, kind):
    home = homes(model)
    home.daemon()
    said = home.ask("the little", n=40)
    assert said.text and home.ask("the little", n=40).bits == said.bits
    back = tokenize(model, "--detokenize", text=json.dumps(said.bits[0]))
    assert back.strip() == said.text.strip()
    first = home.hob("-S", "talk", "-n", 8, "the little", check=0).out
    assert first.strip()
    assert home.hob("-S", "talk", "-n", 8, "and then", check=0).out.strip()


def test_a_constraint(homes, model, kind):
    """A form with forced text comes out whole. WordPiece has tokens for it too, but not for two spaces or line ends."""
    home = homes(model)
    home.daemon()
    form = r'\{"name": "[a-z]{1,8}", "age": [1-9][0-9]?\}' if kind != "bert" else r"( the| and){2,5}"
    for seed in range(3):
        said = home.ask("--raw", "--regex", form, "once", n=80, seed=seed, temp=1.2)
        assert re.fullmatch(form, said.text) or (kind == "bert" and re.fullmatch(form, " " + said.text)), said.text
