# SPDX-License-Identifier: MIT
"""mutate.py: which mutants it makes, and that its reviewed list is about conditions that exist."""
import sys

from conftest import TOP

sys.path.insert(0, str(TOP / "tests"))
from mutate import WORDS, explained, mutate  # noqa: E402

TEXT = """
static const int sizes[] = {1 < 2, 3}; /* if (no < function) */
static int f(const char *s, int n)
{
    static const char text[] = "if (a < b)";
    assert(n < 7);
    for (int i = 0; i < n; i++)
        if (!s || (s[i] == text[i] && p->x >= 1 << 3)) return -1;
    bool last = n > 3 ? true : false;
    first = p->x = k == 2 ? 1 : 0;
    return g(n) < 0;
}
"""


def test_each_part_of_a_condition():
    text, made = mutate("x.c", TEXT, 10)
    kinds = {}
    for m in made:
        kinds.setdefault(m["what"], "")
        kinds[m["what"]] += WORDS[m["kind"]]
    assert kinds == {"i < n": "FM", "!s": "FT", "s[i] == text[i]": "FT", "p->x >= 1 << 3": "FTM", "n > 3": "FTM", "k == 2": "FT", "g(n) < 0": "FTM"}
    assert [m["id"] for m in made] == list(range(10, 10 + len(made)))
    assert "(mutant_(10) ? 0 : (mutant_(11) ? (i ) <= ( n) : (i < n)))" in text
    assert text.count("\n") == TEXT.count("\n")  # a survivor has the line of the source


def test_the_reviewed_list_is_about_what_exists():
    wrong = []
    for (file, kind, what), why in explained().items():
        made = mutate(file, (TOP / file).read_text(), 1)[1]
        if not why or not any(WORDS[m["kind"]] == kind and m["what"] == what for m in made):
            wrong.append((file, kind, what))
    assert not wrong
