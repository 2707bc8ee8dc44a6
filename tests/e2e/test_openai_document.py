# SPDX-License-Identifier: MIT
"""httpgate.py holds each answer against OpenAI's document: that the comparison finds differences."""
import copy

import openai_document
import pytest
from httpgate import CHAT_PATH

pytestmark = pytest.mark.skipif(bool(openai_document.REASON), reason=str(openai_document.REASON))


@pytest.mark.parametrize("change", [
    lambda r: r.update(extra=1), lambda r: r.pop("created"), lambda r: r["choices"][0].pop("logprobs"), lambda r: r["usage"].update(extra=1),
    lambda r: r["choices"][0]["message"].update(content=5), lambda r: r["choices"][0].update(finish_reason="end")])
def test_a_difference_is_found(gateway, change):
    r = gateway.chat().json
    other = copy.deepcopy(r)
    change(other)
    openai_document.check(r, CHAT_PATH)
    with pytest.raises(AssertionError):
        openai_document.check(other, CHAT_PATH)
