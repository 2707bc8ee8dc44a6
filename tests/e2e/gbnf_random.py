# SPDX-License-Identifier: MIT
"""Random grammars: as trees, written in GBNF, texts of them, and a slow judge of texts that shares no code with hob.

A tree is a tuple: ("text", s), ("class", negated, [(first, last)]), ("any",), ("rule", number), ("all", [tree]), ("one", [tree])
or ("times", tree, least, most); most is None without a limit. A grammar is a list of trees, of which the first is the root. A rule
names later ones, or any one behind a character, so that none begins with itself."""
import sys

sys.setrecursionlimit(20000)  # for the judge

ALPHABET = "abc01-]^\\\"#. \n\té日😀"
ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
LONGEST = 40  # of a text, in characters
COUNTS = [(0, None), (1, None), (0, 1), (2, 2), (0, 2), (1, 3), (2, None), (0, 0), (1, 1), (3, 4)]


class Maker:
    def __init__(self, rng, rules):
        self.rng, self.rules = rng, rules

    def text(self):
        return ("text", "".join(self.rng.choice(ALPHABET) for _ in range(self.rng.randrange(1, 4))))

    def klass(self):
        ranges = []
        for _ in range(self.rng.randrange(1, 4)):
            first, last = sorted(self.rng.choice(ALPHABET) for _ in range(2))
            ranges.append((first, first) if self.rng.random() < .6 else (first, last))
        return ("class", self.rng.random() < .3, ranges)

    def leaf(self, rule):
        kind = self.rng.randrange(8)
        if kind < 3:
            return self.text()
        if kind < 5:
            return self.klass()
        if kind == 5:
            return self.rng.choice([("any",), ("text", ""), self.klass(), self.text()])
        if kind == 6 and rule + 1 < self.rules:
            return ("rule", self.rng.randrange(rule + 1, self.rules))
        # The way out comes first, so that sampled texts end.
        return ("one", [self.text(), ("all", [self.klass(), ("rule", self.rng.randrange(self.rules))])])

    def tree(self, rule, depth):
        kind = self.rng.randrange(7) if depth else 0
        if kind < 2:
            return self.leaf(rule)
        if kind < 4:
            return ("all", [self.tree(rule, depth - 1) for _ in range(self.rng.randrange(1, 4))])
        if kind < 5:
            return ("one", [self.tree(rule, depth - 1) for _ in range(self.rng.randrange(2, 4))])
        return ("times", self.tree(rule, depth - 1), *self.rng.choice(COUNTS))


def make(rng):
    rules = rng.randrange(1, 5)
    maker = Maker(rng, rules)
    return [maker.tree(rule, 3) for rule in range(rules)]


class Writer:
    """Writes a grammar in one of many ways: escapes, white space, comments, the forms of repetitions, the order of rules."""

    def __init__(self, rng):
        self.rng = rng

    def space(self, nested):
        kinds = [" "] * 6 + ["  ", "\t"] + (["\n", " # a ) comment\n  "] if nested else [])
        return self.rng.choice(kinds)

    def character(self, c, special):
        if self.rng.random() < .1:
            code = ord(c)
            forms = [f"\\U{code:08x}"] + [f"\\u{code:04X}"] * (code < 0x10000) + [f"\\x{code:02x}"] * (code < 0x100)
            return self.rng.choice(forms)
        return ESCAPES[c] if c in ESCAPES and c in special else "\\" + c if c in special else c

    def klass(self, tree):
        # A '-' or '^' that has a meaning where it stands is written as an escape.
        def one(c):
            return f"\\x{ord(c):02x}" if c in "-^" else self.character(c, "\\]\n")
        ranges = [one(a) + (f"-{one(b)}" if a != b else "") for a, b in tree[2]]
        return "[" + "^" * tree[1] + "".join(ranges) + "]"

    def counts(self, least, most):
        exact = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most), exact)
        return self.rng.choice([short, exact, exact.replace(",", " , ")])

    def tree(self, tree, nested, inside=""):
        """@inside: "times" or "all", where some trees need a group."""
        kind = tree[0]
        if kind == "text":
            return '"' + "".join(self.character(c, '"\\\n') for c in tree[1]) + '"'
        if kind == "class":
            return self.klass(tree)
        if kind == "any":
            return "."
        if kind == "rule":
            return name(tree[1])
        group = inside == "times" or (kind == "one" and inside) or self.rng.random() < .1
        nested = nested or group
        if kind == "times":
            text = self.tree(tree[1], nested, "times") + self.rng.choice(["", " "]) + self.counts(*tree[2:])
        elif kind == "all":
            text = self.space(nested).join(self.tree(t, nested, "all") for t in tree[1])
        else:
            text = (" |" + self.rng.choice([" ", "\n  "])).join(self.tree(t, nested, "one") for t in tree[1])
        return f"({self.space(True)}{text}{self.space(True)})" if group else text

    def grammar(self, grammar):
        lines = [f"{name(i)} ::= {self.tree(t, False)}" + self.rng.choice(["", " ", " # end"]) for i, t in enumerate(grammar)]
        self.rng.shuffle(lines)
        return self.rng.choice(["\n", "\n\n", "\n# between\n"]).join(lines)


def name(rule):
    return "root" if rule == 0 else f"r-{rule}"


def text_of(rng, grammar):
    """A text of the grammar; the beginning of one if it is long."""
    some = [sample(rng, grammar, grammar[0]) for _ in range(4)]
    return max((t for t in some if len(t) <= LONGEST), key=len, default=some[0][:LONGEST])


def sample(rng, grammar, tree, depth=0):
    kind = tree[0]
    if kind == "text":
        return tree[1]
    if kind == "class":
        fitting = [c for c in ALPHABET + "xyz" if holds(tree, c)]
        return rng.choice(fitting) if fitting else "z"
    if kind == "any":
        return rng.choice(ALPHABET)
    if kind == "rule":
        return sample(rng, grammar, grammar[tree[1]], depth + 1)
    if kind == "all":
        return "".join(sample(rng, grammar, t, depth) for t in tree[1])
    if kind == "one":
        return sample(rng, grammar, tree[1][0] if depth > 3 else rng.choice(tree[1]), depth)
    least, most = tree[2:]
    times = rng.randrange(least, (least + 3 if most is None else most) + 1) if depth <= 3 else least
    return "".join(sample(rng, grammar, tree[1], depth) for _ in range(times))


def mutate(rng, text):
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + rng.choice(ALPHABET) + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1:]
    if kind == 2:
        return text[:at] + rng.choice(ALPHABET) + text[at + 1:]
    return text[:at]


def holds(klass, c):
    return any(a <= c <= b for a, b in klass[2]) != klass[1]


class Judge:
    """Judges a text by the set of places where a match of a tree can end."""

    def __init__(self, grammar, text):
        self.grammar, self.s, self.known = grammar, text, {}

    def accepts(self):
        return len(self.s) in self.ends(self.grammar[0], 0)

    def ends(self, tree, at):
        key = id(tree), at
        if key not in self.known:
            self.known[key] = self.find(tree, at)
        return self.known[key]

    def all_ends(self, tree, places):
        return set().union(*(self.ends(tree, p) for p in places))

    def find(self, tree, at):
        kind = tree[0]
        if kind == "text":
            return {at + len(tree[1])} if self.s.startswith(tree[1], at) else set()
        if kind in ("class", "any"):
            return {at + 1} if at < len(self.s) and (kind == "any" or holds(tree, self.s[at])) else set()
        if kind == "rule":
            return self.ends(self.grammar[tree[1]], at)
        if kind == "one":
            return set().union(*(self.ends(t, at) for t in tree[1]))
        if kind == "all":
            places = {at}
            for t in tree[1]:
                places = self.all_ends(t, places)
            return places
        return self.repeated(tree, at)

    def repeated(self, tree, at):
        _, body, least, most = tree
        places = {at}
        for _ in range(least):
            places = self.all_ends(body, places)
        found, i = set(places), least
        while places and (most is None or i < most):
            places = self.all_ends(body, places) - found
            found |= places
            i += 1
        return found


def may_be_empty(grammar, tree):
    return 0 in Judge(grammar, "").ends(tree, 0)


def repeats_empty(grammar):
    """Whether something that may be empty is repeated without a limit, or nothing is: llama.cpp refuses some of these grammars."""
    def has(tree):
        if tree[0] in ("all", "one"):
            return any(has(t) for t in tree[1])
        if tree[0] != "times":
            return False
        return has(tree[1]) or (tree[3] is None and may_be_empty(grammar, tree[1])) or tree[1] == ("text", "")
    return any(has(t) for t in grammar)
