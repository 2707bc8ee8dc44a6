#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/text/template/jinja-cases.json: the snippets below and the results of Python's Jinja2 (pip install jinja2).

The environment is Hugging Face's, with mutable lists. A snippet that fails has null for its text.
"""
import datetime
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import SandboxedEnvironment

NOW = datetime.datetime(2026, 11, 20, 12, 0, 0)
VARS = {
    "s": "hello world", "u": "Grüße, “Ünïcode” 🙂 ß", "e": "", "n": 5, "z": 0, "neg": -7, "f": 2.5, "big": 1e20, "tiny": 1.5e-7,
    "t": True, "no": False, "nil": None, "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "d": {"b": 2, "a": 1, "C": 3},
    "nested": {"x": {"y": [1, {"z": "deep"}]}, "items": [9], "keys": "k"},
    "msgs": [{"role": "user", "content": " hi ", "n": 2}, {"role": "assistant", "content": "yo", "n": 1},
             {"role": "user", "content": "<|im_end|>", "n": 3}],
    "html": "<a href=\"x\">&'</a>", "nl": "one\ntwo\n\nthree", "tools": [{"type": "function", "function": {
        "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "é"]}}}}}],
    "mixed": [1, "a", None, True, 2.0, [1], {"k": "v"}], "quote": "it's \"q\"", "tab": "a\tb\\c\u0001\u00e9\u2028", "num": "42",
    "fl": " 3.5 ", "words": "The quick-brown fox (jumps) <over> it", "dup": [1, 1.0, True, "a", "A", "a"],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}], "pairs": [["a", 1], ["b", 2]],
}

EXPRESSIONS = """
1 + 2 * 3 - 4 / 2
n[1:], nil[:2], d[0:1], range(3)[1:], d.nope[1:], (no)[::2], big[1:]
[{"a": {"b": 1}}, {}]|map(attribute="a.b", default="-")|list, [1]|map(attribute="a.b", default=2)|list, [1]|map(attribute=0, default=2)|list
[{"a": {"b": 1}}, {}]|groupby("a.b", default=0)|list, [{}]|map(attribute="a.b")|list, [{}]|groupby("a", default=none)|list
d|urlencode, [["a b", "/"], ("ü", 1)]|urlencode, {}|urlencode, [1]|urlencode, "a b/c?"|urlencode, nope|urlencode, 1|urlencode
dict(nope), dict(d.nope), dict({}, a=1), d.update(nope)
"{a.b}|{a[k]}".format(a=1), "{a.b.c}".format(a=1), "{0.x!r:>12}".format("q"), "{a.b:>5}".format(a=1), "{a.b!s:3}|".format(a=1)
"{} {0}".format(1, 2), "{0} {}".format(1, 2), "{0[0]} {}".format("ab", 2), "{:{}}{0}".format(1, 5), "{:+}".format("a"), "{!s:-}".format(1)
"{:#}".format("a"), "{:,}".format("a"), "{: }".format("a"), "{:-d}".format(5)
"12"|int(7, "x"), "1.5"|int(7, "x"), "x"|int(7, l), "12"|int(7, -4294967286), "11"|int(0, 2.0), "11"|int(0, 37)
[1, 2, 3]|batch(0)|list, []|batch(0)|list, [1, 2]|batch(-1)|list
l|sort("role"), l|sort(1), l|sort(1.0), l|sort(none), d|dictsort(reverse="x"), d|dictsort(reverse=1)
"%s" % nope, "x" % nope, "%r|" % nope, "%d" % nope, "%s %s" % nope, "%s" % (nope,), "%(a)s" % nope
-0.4|round(0, "ceil"), (-0.4)|round(0, "ceil"), (-2.5)|round(-7, "ceil"), (-0.0)|round(0, "floor")
7 // 2, -7 // 2, 7 // -2, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2
2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2, 2.0 ** 3
1 / 3, 10 / 2, 1e3, 1.0, 100000000000000000.0, 1e16, 123456789012345.678, 0.1 + 0.2, 1e-5, 0.0001
0x1f, 0o17, 0b101, 1_000, 1_0.5, 1e+3, 2E-2
"a" "b" 'c'
'it''s', "\\n\\t\\\\", "\\x41\\u00e9\\U0001F642", '\\q'
1 < 2 < 3, 1 < 2 > 3, 1 == 1.0, "a" < "b", [1,2] < [1,3], (1,2) == (1,2), [1] == (1,)
1 in l, 9 in l, "ell" in s, "b" in d, "q" not in d, 1 not in l, 1 in undefined_name
not 1, not 0, not not 1, not "" and 1
1 and 2, 0 and 2, 1 or 2, 0 or "", none or 3
t, no, nil, True, true, None, none, False
"yes" if t else "no", "yes" if no, ("x" if no else "y")
1 if no else 2 if no else 3
s[0], s[-1], s[1:4], s[::-1], s[::2], s[-3:], s[:-3], s[10:2], s[100:], s[5:1:-2], s[:100]
u[0], u[2], u[-1], u[2:5], u[::-1], u|length
l[0], l[-1], l[1:], l[::-1], l[::2], l[5:], l[-2:]
l[5], s[50], d.nope, d["nope"]
l.0, l[0:2][1], nested.x.y[1].z, nested["x"]["y"].0
nested["items"], nested["keys"], nested.items()|length
(1,), (), (1, 2), [1, (2,)], {"a": 1, 2: [3]}, {1: {2: 3}}
[], {}, [[]], {"a": {}}, [none, true, 1.5, "x"]
d, l, ls, mixed, nested
quote, [quote], ["'"], ['"'], ["\\\\"], [tab], [u]
"a" ~ 1 ~ none ~ true ~ 1.5 ~ l
"a" * 3, 3 * "ab", [1] * 2, (1,) * 3, "x" * 0, "x" * -1
[1] + [2], (1,) + (2,), "a" + "b"
-n, +n, -f, - -3, -true
n is defined, nope is defined, nope is undefined, nil is none, n is none
s is string, n is number, n is integer, f is float, t is boolean, t is number, t is integer, d is mapping, l is sequence
s is sequence, d is sequence, l is iterable, n is iterable, s is iterable, range is callable, n is callable
t is true, t is false, no is false, n is true
4 is even, 3 is odd, 9 is divisibleby 3, 9 is divisibleby(2)
n is eq 5, n is ne 5, n is lt 6, n is le 5, n is gt 5, n is ge 5, n is equalto 5, n is lessthan 3, n is greaterthan 3
1 is in [1, 2], 3 is not in [1, 2], "a" is in "abc"
s is lower, "ABC" is upper, "aBC" is upper, "1" is lower
n is sameas n, t is sameas true, nil is sameas none
not n is defined, n is not defined
"x"|upper is upper
-3|abs, (-3)|abs, -3.5|abs, 3|abs
s|upper, s|title, s|capitalize, "HELLO"|lower, words|title, "o'neil bill-e"|title, "ǆx ŉ ß"|title
u|upper, u|lower, u|capitalize, "ΑΣ ΑΣΑ Σ"|lower, "İ"|lower, "ﬁ"|upper
s.upper(), s.title(), "they're bill's"|title, "they're bill's".title(), s.capitalize(), "aBc".swapcase(), u.title()
"  x  "|trim, "xxaxx"|trim("x"), "  x "|trim|length, " x ".strip(), " x ".lstrip(), " x ".rstrip(), "xyx".strip("x"), "abc".lstrip("ba")
"\\u00a0x\\u2003"|trim
s|replace("l", "L"), s|replace("l", "L", 1), s.replace("o", "0"), s.replace("o", "0", 1), "aaa"|replace("", "-"), "ab".replace("", "-", 2)
s|length, l|length, d|length, l|count, nope|length
l|first, l|last, s|first, s|last, d|first, []|first, d|last
l|join, l|join(", "), ls|join("-"), "abc"|join("."), msgs|join(",", attribute="role"), d|join(",")
l|sort, l|sort(reverse=true), ls|sort, ls|sort(case_sensitive=true), msgs|map(attribute="n")|sort|list
msgs|sort(attribute="n")|map(attribute="n")|list, msgs|sort(attribute="role,n")|map(attribute="n")|list
dup|unique|list, ls|unique|list, ls|unique(true)|list, msgs|unique(attribute="role")|map(attribute="role")|list
l|sum, [1.5, 2]|sum, msgs|sum("n"), msgs|sum(attribute="n", start=10), []|sum
l|min, l|max, ls|min, ls|max, ls|max(case_sensitive=true), msgs|max(attribute="n"), []|min
l|reverse|list, s|reverse, (1,2)|reverse|list, d|reverse|list
l|list, s|list, d|list, (1,2)|list, nope|list
d|dictsort, d|dictsort(true), d|dictsort(by="value"), d|dictsort(reverse=true), d|dictsort(false, "value", true)
d|items|list, d.items()|list, d.keys()|list, d.values()|list, d.items(), d.keys(), d.values()
d.get("a"), d.get("q"), d.get("q", 7)
msgs|map(attribute="content")|list, l|map("string")|list, ls|map("upper")|join, ["a b"]|map("replace", " ", "_")|list
msgs|map(attribute="zz", default="-")|list, [[1,2],[3]]|map("first")|list, msgs|map(attribute="content")|map("trim")|list
l|select("odd")|list, l|reject("odd")|list, [0, 1, ""]|select|list, [0, 1, ""]|reject|list, l|select(">", 1)|list, l|select("gt", 1)|list
msgs|selectattr("role", "equalto", "user")|list|length, msgs|rejectattr("role", "==", "user")|map(attribute="content")|list
msgs|selectattr("role")|list|length, msgs|selectattr("zz", "defined")|list, msgs|selectattr("n", "in", [1, 3])|map(attribute="n")|list
tools|selectattr("function.name", "equalto", "f")|list|length
msgs|groupby("role")|map("first")|list, msgs|groupby("role")|length, (msgs|groupby("role"))[1].list|length, (msgs|groupby("role"))[0].grouper
[1,2,3,4,5]|batch(2)|list, [1,2,3]|batch(2, "x")|list, [1,2,3,4,5]|slice(2)|list, [1,2,3]|slice(2, "x")|list
"42"|int, "x"|int, "x"|int(7), "0x1f"|int(base=16), "1f"|int(0, 16), 3.9|int, "3.9"|int, none|int, " 12 "|int, "-5"|int, "1_000"|int, true|int, []|int
"2.5"|float, "x"|float, "x"|float(1.5), 3|float, " 1e3 "|float, none|float, "inf"|float, "nan"|float
2.5|round, 3.5|round, 2.675|round(2), 7|round, 1234.5678|round(-2), 2.1|round(0, "ceil"), 2.9|round(method="floor"), 42.55|round(1), 1250|round(-2)
3|string, none|string, l|string, 1.0|string, nope|string
nope|default("x"), e|default("x"), e|default("x", true), nil|default("x"), nope|d, none|d("y", true), 0|default(1, boolean=true)
nl|indent, nl|indent(2), nl|indent(2, true), nl|indent(2, first=true, blank=true), nl|indent("> "), "x\\n"|indent, ""|indent
html|escape, html|e, html|safe, html|escape|escape, html|forceescape, (html|safe) ~ "<", (html|safe) + "<", "<" + (html|e)
s|truncate(8), s|truncate(5, true), s|truncate(9, true, "…"), s|truncate(8, false, "", 0), s|truncate(50), "a b c d e f g h i j"|truncate(9)
s|wordcount, words|wordcount, "a_b-c"|wordcount
"%s %d %5.2f|%-5s|%05d|%x|%X|%o|%c|%%"|format("a", 3, 1.5, "b", 42, 255, 255, 8, "z")
"%s %s"|format(1, l), "%(a)s-%(b)d"|format(a=1, b=2), "%5s|%-5s|%.2s" % ("a", "b", "xyz"), "%s" % 3, "%r" % ("x",), "%+d % d %#x" % (1, 2, 255)
"%e %g %G %.3e" % (12345.678, 0.00001, 1e20, 2), "%s" % d, "%d" % 3.9, "%i" % true, "%5s" % none, "%*d" % (5, 3), "%.0f" % 2.5
"{} {}".format(1, "b"), "{0} {1} {0}".format("a", "b"), "{x} {y.a} {z[1]}".format(x=1, y=d, z=[1, 2]), "{{}}".format(), "{!r}".format("a")
"{:5}|{:<5}|{:>5}|{:^5}|{:*^7}".format("a", "b", "c", "d", "e"), "{:05d} {:+} {:,} {:x} {:b} {:.2f} {:e} {:%} {:g}".format(42, 3, 1234567, 255, 5, 3.14159, 12.5, 0.25, 1e10)
"{:5}|{:<5}|{:.3}|{:#x}|{:08.3f}|{:_}|{:c}".format(3, 4, "abcdef", 255, 3.14159, 1000000, 65), "{:{}}|".format("a", 4), "{:.1f}".format(2), "{}".format(1.0), "{:10.4}".format(3.14159265), "{:.3}".format(3.0)
tools|tojson, d|tojson, u|tojson, tab|tojson, mixed|tojson, f|tojson, big|tojson, tiny|tojson, nil|tojson, t|tojson, (1,2)|tojson, html|tojson
d|tojson(indent=2), nested|tojson(indent=4), tools|tojson(indent=1), []|tojson(indent=2), {}|tojson(indent=2), l|tojson(indent="\\t")
d|tojson(separators=(",", ":")), nested|tojson(separators=(", ", " = ")), d|tojson(sort_keys=true), u|tojson(ensure_ascii=true), u|tojson(true), d|tojson(indent=2, separators=(",", ":"))
{1: 2, none: 3, true: 4, 1.5: 5}|tojson, {"a": [1, {"b": none}]}|tojson
s.split(), "a,b,,c".split(","), "a,b,c".split(",", 1), " a  b ".split(), "a b c d".split(none, 2), "  a  b  c ".split(none, 1), "abc".split("x"), "".split(), "".split(","), "a<sep>b".split("<sep>")[1]
"a,b,c".rsplit(",", 1), "  a b  c ".rsplit(none, 1), "a b c".rsplit(), "x".rsplit(",")
nl.splitlines(), "a\\r\\nb\\rc\\n".splitlines(), "a\\nb".splitlines(true), "\\n".splitlines(), "".splitlines()
"a=b=c".partition("="), "a=b=c".rpartition("="), "abc".partition("="), "abc".rpartition("=")
s.startswith("he"), s.startswith(("x", "h")), s.startswith("w", 6), s.endswith("ld"), s.endswith(("x", "d")), s.endswith("o", 0, 5), "".startswith("")
s.find("o"), s.find("o", 5), s.find("zz"), s.rfind("o"), s.index("w"), s.count("l"), s.count("l", 4), "aaaa".count("aa"), "abc".count(""), u.find("Ü"), s.find("")
", ".join(ls), "".join([]), "-".join("abc"), ",".join(d)
"abc".isalpha(), "ab1".isalnum(), "12".isdigit(), "1.2".isdigit(), " ".isspace(), "".isalpha(), "ABC".isupper(), "abc".islower(), "Abc Def".istitle(), "é".isalpha(), "½".isnumeric(), "a".isascii(), "²".isdigit(), "²".isdecimal()
"a".center(5), "ab".center(5, "*"), "ab".center(6)|length, "a".ljust(3) ~ "|", "a".rjust(3), "7".zfill(3), "-7".zfill(4), "x"|center(5), "a\\tb".expandtabs(4)
"prefix-x".removeprefix("prefix-"), "x.txt".removesuffix(".txt"), "x".removeprefix("y")
range(3), range(3)|list, range(1, 6, 2)|list, range(5, 0, -2)|list, range(0)|list, range(10)[2:5]|list, range(3)|length, range(10)[-1], 3 in range(5)
dict(a=1, b=2), dict([("x", 1)], y=2), dict({"a": 1}), dict()
[1,2,3].index(2), [1,1].count(1), (1,2).index(2), [3,1].copy()
l|tojson|length, [l, d]|tojson
nope, nope ~ "x", [nope], nope|upper, nope == nope2, nope|join, "" == nope
none == false, 0 == false, 1 == true, "" == none, [] == [], {} == {}, {"a": 1} == {"a": 1.0}
"a" in ["a"], "a" in ("a", "b"), 1 in {1: 2}, none in [none]
(1, 2)[0], (1, 2, 3)[::-1], ((1, 2), 3)[0][1]
"abc"[1:][0], "a.b"|replace(".", ""), ("a", "b")|join, ["x"]|first|upper
1 if 2 > 1 else 0, "a" if s == "hello world" and n == 5 else "b"
[1, 2, 3][1:]|map("string")|join("+")
{"a": 1}.a, {"a": {"b": 2}}.a.b, {"a": 1}["a"], {1: "x"}[1]
msgs[0].role, msgs[0]["role"], msgs[-1].content, msgs[1:]|length, msgs[::-1][0].n, msgs[0:1][0].content|trim
msgs|last, msgs[0].items()|list, (msgs|first).content
1.0 == 1, 1e400 is defined, 5 % 2.5, 2 ** 0.5, -0.0, 0.0 * -1
"\\u00df".upper(), "ŐŰ".lower(), "straße"|upper, "ÀÉ"|capitalize
"x" ~ "y" * 2, 1 ~ 2 + 3, "a" ~ "b" == "ab", 1 + 2 ~ 3
n|string + "!", n|string|length, -1|abs, 2 + 3|string|int, not n == 5, l|length > 2 and n > 2
("a", 1) in [("a", 1)], [1, 2] in [[1, 2]], d == d.copy()
namespace(a=1).a, namespace({"x": 2}).x, namespace(a=1).b is defined
d.items()|map("join", "=")|join("&"), d.items()|map("last")|sum, d.keys()|join, d.values()|sum
"%s" % (1,), "%s,%s" % ("a", [1])
fl|float, fl|trim|float + 1, num|int + 1, num.isdigit()
html|urlencode, "a b/ü"|urlencode
true + true, true * 3, "a" * true, [1, 2, true].count(1), 3 - true
"ab" < "abc", "Z" < "a", [] < [0], (1, "a") < (1, "b"), "é" > "z"
"filter" is filter, "upper" is filter, "defined" is test, html|e is escaped, "x" is escaped
nested|attr("x") is defined, s|attr("upper") is callable, "a" is callable
range(5)|select("even")|map("string")|join(","), range(1, 4)|sum, range(3)|reverse|list, range(5)|batch(2)|map("list")|list
[3, 1, 2]|sort|first, [[2, "b"], [1, "a"]]|sort|first, [{"a": 2}, {"a": 1}]|sort(attribute="a")|first
["a", "b"]|map("upper")|map("lower")|list, ["x"]|map("default", "y")|list, [[1, 2]]|map("sum")|list, msgs|map("attr", "role")|list
"a" "b"|upper, ("a" ~ "b")|upper, "a" ~ "b"|upper
[[1, 2], [3, 4]]|map(attribute=1)|list, [{"a": {"b": 1}}]|map(attribute="a.b")|list, [[5]]|map(attribute="0")|list
l.index(1), ls|map("lower")|unique|sort|join
d|length == 3 and "a" in d and d["a"] == 1
(l|sort)[0], (ls|join("")).lower(), (s ~ s)[5:8]
"{% raw %}", "}}", "%}", {"a": {"b": {}}}
not (1 in l), not 1 in l, 1 not in l or 2 in l
loop is defined, caller is defined, varargs is defined
[1, 2, 3,], {"a": 1,}, dict(a=1,), (1, 2,)
""|default("x"), " "|default("x", true), []|default([1], true)
("%s" % u)|length, u|list|length
d.a + d["b"], d.a ~ d.b, d["C"] * 2
nl|replace("\\n", "\\\\n"), nl.split("\\n"), nl|trim|length
l|join(", ", none) is string, d|tojson|string|length
1 is divisibleby 1, "x" is string and not n is string, none is not none
9007199254740993 + 0.0, 9007199254740993 == 9007199254740992.0, 9223372036854775807, -9223372036854775807 - 1
10 // 3.0, -10 // 3.0, 1e308 * 10, 7.0 % 3, 0.1 * 3, 1e22, 1.5e300, 5e-324, 123456.789e3
"ab" is sequence, {} is iterable, (1,) is sequence, range(3) is sequence, [1]|map("string") is iterable
"x".join(["a", "b"])|upper, "a-b-c".split("-")|last, "a b".split()|map("capitalize")|join(" ")
"{0[a]}".format(d), "{0.a}".format({"a": 1}), "{:>{w}}".format("x", w=3), "{!s:>4}".format(1)
l|map("tojson")|join, l|select("in", [1, 2])|list, ls|select("upper")|list, ls|reject("lower")|list
"a" if not nope, nope if nope is defined else "fallback", (nope or "x"), nope is defined and nope.x
strftime_now("%Y-%m-%d"), strftime_now("%d %b %Y"), strftime_now("%H:%M:%S %A %B %j"), strftime_now("%-d/%-m %y %% %p %I")
"ABC" | lower | replace("b", "_"), s | replace("world", n | string), msgs | map(attribute="role") | unique | list
"é" ~ "é"|upper, "日本語"[1], "日本語"|list, "日本語"|reverse, "日本語".find("語"), "日本語"|length
"a\\u0000b"|length, ["a\\u0000b"], ["\\u200b", "\\ufeff", "\\ud7ff", "\\U0001F642", "\\u00ad"]
"x" in nope_undefined, nope_undefined|list, nope_undefined|tojson is defined if no else 1
l|slice(2)|list, []|batch(3)|list, l|batch(1)|list, "abcd"|batch(2)|list, "abcd"|slice(3)|list
"1,2;3".replace(";", ",").split(",")|map("int")|sum
s|center(21) ~ "|", "x"|center|length, s[:5]|upper ~ s[5:]
(d|dictsort)[0][0], d|dictsort|map("first")|join, (d|items|list)[0]
[1, [2, [3]]]|tojson, [1, [2, [3]]]|string, ({"a": (1, 2)})|tojson
"a{}b".format("X"), "{}{}".format("a", 1.50), "{:s}".format("q"), "{:d}".format(true), "{}".format(none), "{}".format(l)
"""

TEMPLATES = [
    "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in [] %}a{% else %}empty{% endfor %}{% for x in nope %}a{% else %}none{% endfor %}",
    "{% for x in l %}{{ x }}{% break %}{% else %}none{% endfor %}{% for x in l %}{% continue %}{% else %}none{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l %}{{ loop }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}{% for (a, b) in pairs %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for m in msgs if m.role == 'user' %}{{ loop.index }}/{{ loop.length }}:{{ m.content|trim }} {% endfor %}",
    "{% for m in msgs if m.role == 'nobody' %}x{% else %}nobody{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}@{{ loop.depth }}{% if n.c %}[{{ loop(n.c) }}]{% endif %}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ y }}{% endfor %}{% endfor %}",
    "{% for c in 'héy' %}[{{ c }}]{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% for x in l|reverse %}{{ x }}{{ loop.length }}{% endfor %}{% for x in l|map('string') %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }};{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(x=0, l=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(done=false) %}{% for m in msgs if not ns.done %}{{ m.role }}{% set ns.done = true %}{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% set t3 = 1, 2 %}{{ t3 }}",
    "{% set x %}hello {{ n }}{% endset %}{{ x }}|{{ x|length }}{% set y | upper %}abc{% endset %}{{ y }}",
    "{% set x | replace('a', 'b') | upper %}banana{% endset %}{{ x }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'x')|upper %}banana{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a is defined }}{{ c is defined }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}{% set a = 5 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% macro m(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m.name }}{{ m.arguments }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}",
    "{% macro m(x) %}<{{ caller() }}{{ x }}>{% endmacro %}{% call m(1) %}body {{ n }}{% endcall %}",
    "{% macro m(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(a, b) m(l) %}{{ a }}:{{ b }} {% endcall %}",
    "{% macro m() %}{{ caller is defined }}{{ caller() if caller is defined else 'no' }}{% endmacro %}{{ m() }}",
    "{% macro fact(n) %}{{ 1 if n <= 1 else n * (fact(n - 1)|int) }}{% endmacro %}{{ fact(10) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{{ late }}{% endmacro %}{% set late = 'L' %}{{ a() }}",
    "{% set x = 'out' %}{% macro m() %}{{ x }}{% set x = 'in' %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}\n{{ m(3) }}\n{{ m(4)|trim|upper }}",
    "{% macro outer() %}{% macro inner(x) %}({{ x }}){% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}",
    "{% macro t() %}{{ _t() }}{% endmacro %}{{ t is defined }}{{ t }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ [1,2]|map('string')|join }}{{ m(*[7]) }}{{ m(**{'a': 8}) }}{{ range(*[1, 4])|list }}",
    "{% if n > 3 %}a{% elif n > 2 %}b{% else %}c{% endif %}{% if z %}a{% elif n %}b{% endif %}{% if e %}x{% else %}y{% endif %}",
    "a {# comment #} b {#- strip -#} c\n  {# line #}\nd",
    "  {% if true %}  \n  x\n  {% endif %}\ny",
    "x\n  {%- if true -%}  \n  y \n {%- endif -%} \n z",
    "a\n  {%+ if true %}b{% endif +%}\nc",
    "a  {{- n -}}  b\n{{ n }}\nc {{ n -}}\n\n d",
    "{% raw %}{{ x }} {% if %}{# c #}{% endraw %}|{%- raw -%}  a {%- endraw -%} b",
    "{% raw %}\n{{ a }}\n{% endraw %}\nx",
    "line1\n{% set x = 1 %}\nline2\n    {% set y = 2 %}\nline3 {% set z2 = 3 %}\nend",
    "{{ 'a' }}\n{% if true %}\nb\n{% endif %}\n",
    "trailing newline\n", "two\n\n", "crlf\r\nx\r\n{% if true %}\r\ny\r\n{% endif %}\r\nz", "\n\nlead",
    "\t{% if true %}\n\t\tx\n\t{% endif %}\n", "{% if true %} x {% endif %}", "{{ '{{' }} {{ '%}' }} { { % }",
    "a{##}b{#-#}c{# x\ny #}\nd", "  {# c #}\n  {#- c -#}\n  x", "{{ {'a': {'b': 1}}['a']['b'] }}{{ {} }}{{{'a': 1}}}",
    "{%- for m in msgs -%}\n{{- '<|' + m.role + '|>' -}}\n  {{ m.content | trim }}\n{%- endfor -%}\n",
    "{% generation %}x{{ n }}{% endgeneration %}|{% for m in msgs %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "{% block foo %}in {{ n }}{% endblock %}{% block bar scoped %}x{% endblock bar %}",
    "{% block a %}A{{ n }}{% endblock %}{{ self.a() }}{{ self.b }}{{ self.b is defined }}|{{ self is defined }}",
    "{% for n in l %}{% block q %}{{ n }}{% endblock %}{% block r scoped %}{{ n }}{% endblock %}{% endfor %}",
    "{{ self.t() }}{% set x = 1 %}{% block t %}[{{ x }}]{% endblock %}{{ self.t() ~ self.nope }}{% macro m() %}{{ n }}{% endmacro %}{{ m() }}",
    "{% block a %}{% endblock %}{% block a %}{% endblock %}", "{{ self.x }}|{{ self['y'] }}", "{{ self.x() }}",
    "{% print n, s %}{% autoescape true %}{{ html }}{{ html|safe }}{{ '<' ~ html }}{% endautoescape %}{{ html }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.current }}",
    "{% set j = joiner() %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}{% set j = joiner('|') %}{{ j() }}a{{ j() }}b",
    "{% set q = [] %}{% for x in l %}{% set _ = q.append(x * 2) %}{% endfor %}{{ q }}{{ q.pop() }}{{ q.pop(0) }}{{ q }}",
    "{% set q = [3, 1, 2] %}{{ q.sort() }}{{ q }}{{ q.reverse() }}{{ q }}{{ q.insert(1, 9) }}{{ q }}{{ q.extend([7]) }}{{ q.remove(9) }}{{ q }}{{ q.clear() }}{{ q }}",
    "{% set m = {'a': 1} %}{% set _ = m.update({'b': 2}) %}{{ m }}{{ m.pop('a') }}{{ m }}{{ m.setdefault('z', 5) }}{{ m }}{{ m.popitem() }}",
    "{% set m = dict(d, **{'q': 1}) %}{{ m }}{% set m2 = dict(d) %}{{ m2 == d }}",
    "{{ 'a\\\nb' }}", "{{ 'tab\tnl\nx' }}",
    "{{ raise_exception('stop: ' ~ n) }}", "{{ nope.x }}", "{{ nope() }}", "{{ nope + 1 }}", "{{ none.x.y }}", "{{ d.q.r }}", "{{ 1 / 0 }}",
    "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ [1] + (2,) }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ {} < {} }}", "{{ -'a' }}",
    "{{ l|sort(attribute='x') }}", "{{ mixed|sort }}", "{{ 5|length }}", "{{ 5|list }}", "{{ nope|int }}", "{{ nope|abs }}", "{{ nope|tojson }}", "{{ range(3)|tojson }}",
    "{{ s.nope() }}", "{{ l.nope() }}", "{{ s() }}", "{{ 5() }}", "{{ x|nofilter }}", "{{ x is notest }}", "{% if false %}{{ x|nofilter }}{% endif %}ok",
    "{{ (x|nofilter) if false else 'ok' }}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for x in 5 %}{% endfor %}",
    "{% set a, b = 1 %}", "{% set a, b = (1, 2, 3) %}", "{% set d.x = 1 %}", "{{ s.split('') }}", "{{ ''.join([1]) }}", "{{ 'x' in 5 }}", "{{ 5 in 'x' }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{{ '%d' % 'a' }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % (1, 2) }}", "{{ '%q' % 1 }}", "{{ '{}'.format() }}", "{{ '{x}'.format() }}", "{{ '{'.format() }}",
    "{{ l.pop(9) }}", "{{ [].pop() }}", "{{ {}.pop('a') }}", "{{ l.index(99) }}", "{{ s.index('q') }}", "{{ {[]: 1} }}", "{{ d[[]] }}", "{{ range() }}", "{{ range(1, 2, 0) }}",
    "{{ l[1:'a'] }}", "{{ l[::0] }}", "{{ nope[0] }}", "{{ n[0] }}", "{{ n.x }}", "{{ none[0] }}", "{{ l['a'] }}", "{{ s['upper']() }}", "{{ d['items']()|list }}",
    "{% if %}{% endif %}", "{% for %}{% endfor %}", "{% endif %}", "{% if true %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{% unknown %}", "{{", "{%", "{{ 'abc }}", "{% raw %}x",
    "{{ a b }}", "{{ }}", "{% set %}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% macro %}{% endmacro %}", "{% include 'x' %}", "{% break %}", "{{ f(a=1, 2) }}", "{{ f(**a, *b) }}", "{{ x is }}", "{{ x | }}",
    "{{ 1 is odd is true }}", "{% for x in l %}{% endif %}{% endfor %}", "{% if a if b else c %}{% endif %}", "{{ $ }}", "{{ a ? b }}", "{{ !a }}", "{{ a & b }}", "{{ a.[0] }}", "{{ a..b }}",
    "{% call s %}{% endcall %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ l|map('nofilter')|list }}", "{{ l|select('notest')|list }}", "{{ msgs|selectattr()|list }}",
    "{{ l|batch }}", "{{ s|replace('a') }}", "{{ s|truncate(2) }}", "{{ 3|round(1, 'x') }}", "{{ d|dictsort(by='x') }}", "{{ s|upper(1) }}", "{{ s|indent(bogus=1) }}", "{{ l|items|list }}",
    "{{ loop.index }}", "{% for x in l %}{{ loop(x) }}{% endfor %}", "{{ l|map('string')|length }}", "{{ (l|map('string'))[0] }}", "{{ d.keys()[0] }}", "{{ l|map('upper')|first|length }}",
    "{{ undefined_function(1) }}", "{{ messages[0]['role'] }}", "{{ msgs[0].tool_calls is defined and msgs[0].tool_calls }}{{ msgs[0].tool_calls|length }}",
    "{% if msgs[0].tool_calls is not none %}a{% endif %}{% if not msgs[0].tool_calls %}b{% endif %}{% if msgs[0].x is iterable %}c{% endif %}",
    "{%- if tools %}{%- for tool in tools %}{{ tool | tojson }}\n{%- endfor %}{% endif %}", "{% set x = none %}{{ x }}{{ x or 'd' }}{{ x is none }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}{% set ns.l = [1] %}{% set ns.l = ns.l + [2] %}{{ ns.l }}",
    "{% set content = msgs[0].content if msgs[0].content is string else '' %}[{{ content }}]", "{% for m in msgs %}{% set content = m['content'] %}{{ loop.index0 % 2 == 0 }}{{ content }}{% endfor %}",
    "{% for m in msgs %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}{% endfor %}ok",
    "{% if msgs[0]['role'] == 'system' %}{% set loop_messages = msgs[1:] %}{% else %}{% set loop_messages = msgs %}{% endif %}{{ loop_messages|length }}",
    "{% set x = [1, 2, 3] %}{{ x[-1] }}{{ x[:-1] }}{{ x|last }}{% set y = x[1:] + [4] %}{{ y }}", "{{ 'a' if true }}{{ 'b' if false }}", "{{- 'x' }}  {{- 'y' -}}  {{ 'z' }}",
    "{% for i in range(3) -%}\n{{ i }}\n{%- endfor %}", "{% for x in l if x > 1 -%} {{ x }} {% endfor %}", "{%set x=1%}{{x}}{%if x==1%}y{%endif%}", "{% if n is number and not n is string %}ok{% endif %}",
    "{{ msgs | selectattr('role', 'equalto', 'user') | map(attribute='content') | map('trim') | join(', ') }}", "{% set a = 1 %}{% block b %}{{ a }}{% endblock %}",
    "{% for role, group in msgs|groupby('role') %}{{ role }}:{{ group|length }};{% endfor %}", "{% for g in msgs|groupby('role') %}{{ g.grouper }}{{ g.list|map(attribute='n')|list }}{% endfor %}",
    "{% for row in [1,2,3]|batch(2, 0) %}{{ row }}{% endfor %}", "{% for x in l %}{% if loop.first %}F{% endif %}{% if loop.last %}L{% endif %}{% endfor %}", "{{ '\\n' }}{{ \"\\\"\" }}{{ '\\'' }}",
    "{% for a in [1,2] %}{% for b in [1,2] if b != a %}{{ a }}{{ b }}{% endfor %}{% endfor %}", "{% for x in [1,2,3,4] if x is even %}{{ loop.index }}{{ loop.last }}{{ loop.revindex }}{% endfor %}",
    "{% for x in l %}{% set ns = namespace(v=x) %}{% set ns.v = ns.v * 2 %}{{ ns.v }}{% endfor %}", "{% set f2 = joiner %}{{ f2 is callable }}", "{% macro x(y) %}{{ y }}{% endmacro %}{% set z2 = x(1) ~ x(2) %}{{ z2 }}",
    "{{ [none, none]|sort }}", "{{ [nope, nope]|sort|length }}", "{{ {'a': none, 'b': none}|dictsort(by='value') }}", "{% macro m(a=b, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(b=3) }}",
    "{% set x = 5 %}{% macro m(x=x) %}{{ x }}{% endmacro %}{{ m() }}{{ m(1) }}", "{% for x in l %}{% macro mm() %}{{ x }}{% endmacro %}{{ mm() }}{% endfor %}", "{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}",
    "{% macro w() %}{{ caller('z') }}{% endmacro %}{% call(v) w() %}{{ v }}{% set leak = 1 %}{% endcall %}{{ leak is defined }}", "{% filter trim %}  {% set inner = 1 %}x  {% endfilter %}{{ inner is defined }}",
    "{% set x %}{% set hidden = 1 %}a{% endset %}{{ x }}{{ hidden is defined }}", "{%- set _ = namespace(a=[]) -%}{%- set _.a = _.a + ['x'] -%}{{ _.a|join }}", "{% if not (n == 5 and s) %}a{% else %}b{% endif %}",
    "{{ 'a' ~\n 'b' }}\n{{ [1,\n2] }}", "{% for x in l: %}{{ x }}{% endfor %}{% if n: %}y{% endif %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{{ 1, }}", "{{ (1) }}{{ (1,) }}", "{{ l[0], l[1] }}",
    "{{ s.upper().lower()[0].upper() }}{{ s.split()[0].upper() }}{{ 'a'.join(s.split(' ')) }}", "{{ s | upper | lower | title | length }}", "{{ 'x'.__class__ }}", "{{ ''.__class__.__mro__ }}", "{{ l.__len__() }}",
    "é{{ 'ü' }}🙂{# ö #}\n  {% if true %}ß{% endif %}", "{% set ünï = 1 %}{{ ünï }}", "{{ a1_b }}{% set a1_b = 2 %}{{ a1_b }}", "{{ _x is defined }}", "{%- -%}", "{{ - }}", "{% if true %}{% else %}{% elif true %}{% endif %}",
    "{% for x in l %}{{ x }}{% else %}{% break %}{% endfor %}", "{% for x in [1,2] %}{% for y in [1,2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{% else %}no{% endfor %}{% endfor %}",
    "{% macro m() %}{% for x in [1,2,3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% endmacro %}{{ m() }}", "{% set x = 1 %}{% set x = x + 1 %}{% set x = x * 10 %}{{ x }}",
    "{% for _ in range(3) %}.{% endfor %}{% for i in range(2, -1, -1) %}{{ i }}{% endfor %}", "{% set d2 = {'k': [1, 2]} %}{% for k, v in d2.items() %}{{ k }}{{ v[0] }}{% endfor %}{{ d2.k }}{{ d2['k'][1] }}",
    "{{ {'role': 'user', 'content': s}|tojson }}", "{{ '<|im_start|>' ~ msgs[0].role ~ '\\n' ~ msgs[0].content|trim ~ '<|im_end|>' }}", "{{ (msgs|map(attribute='content')|list)[1] }}", "{{ [s, s]|map('upper')|list|tojson }}",
    # as model cards have them
    "{%- macro render_type(p) -%}{%- if p.type == 'array' -%}{%- if p['items'] -%}{{ render_type(p['items']) }}[]{%- else -%}any[]{%- endif -%}{%- elif p.enum is defined and p.enum -%}\"{{ p.enum|join('\" | \"') }}\"{%- elif p.type is iterable and p.type is not string -%}{{ p.type|join(' | ') }}{%- else -%}{{ p.type|default('any') }}{%- endif -%}{%- endmacro -%}{%- for t in tools %}{%- set f = t.function %}type {{ f.name }} = (_: {\n{%- for k, p in f.parameters.properties.items() %}\n{{ k }}{% if k not in (f.parameters.required or []) %}?{% endif %}: {{ render_type(p) }},{% if p.default is defined %} // default: {{ p.default }}{% endif %}{%- endfor %}\n}) => any;{%- endfor %}{{ render_type({'type': 'array', 'items': {'type': ['string', 'null']}}) }}",
    "{%- set ns = namespace(multi=true, last=msgs|length - 1) %}{%- for m in msgs[::-1] %}{%- set i = (msgs|length - 1) - loop.index0 %}{%- if ns.multi and m.role == 'user' and m.content is string and not (m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}{%- set ns.multi = false %}{%- set ns.last = i %}{%- endif %}{%- endfor %}{{ ns.last }}",
    "{%- set c = '<think>\\nhm\\n</think>\\n\\nso' %}{%- if '</think>' in c %}{%- set r = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- set c = c.split('</think>')[-1].lstrip('\\n') %}{%- endif %}[{{ r }}][{{ c }}]",
    "{{ bos }}{%- for m in msgs -%}{%- set role = 'model' if m.role == 'assistant' else m.role -%}{{ '<start_of_turn>' + role + '\\n' + ('pre\\n' if loop.first else '') }}{%- if m.content is string -%}{{ m.content | trim }}{%- elif m.content is iterable -%}{%- for item in m.content -%}{{ item.text | trim }}{%- endfor -%}{%- else -%}{{ raise_exception('Invalid content type') }}{%- endif -%}{{ '<end_of_turn>\\n' }}{%- endfor -%}",
    "{%- set system_message = s %}{%- set user_messages = msgs | selectattr('role', 'equalto', 'user') | list %}{%- for m in msgs | rejectattr('role', 'equalto', 'tool') | rejectattr('role', 'equalto', 'tool_results') | selectattr('tool_calls', 'undefined') %}{%- if m == user_messages[-1] %}[LAST {{ system_message }}]{%- endif %}{{ '[INST] ' ~ m.content ~ '[/INST]' }}{%- endfor %}",
    "{%- for tool in tools %}{%- set tool = tool.function %}{{- '{\"type\": \"function\", \"function\": {' }}{%- for key, val in tool.items() if key != 'return' %}{%- if val is string %}{{- '\"' + key + '\": \"' + val + '\"' }}{%- else %}{{- '\"' + key + '\": ' + val|tojson }}{%- endif %}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- '}}' }}{%- if not loop.last %}, {% else %}]{% endif %}{%- endfor %}",
    "{%- if strftime_now is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- set today = strftime_now('%Y-%m-%d, %A, %B %d; %H:%M %j %-d') %}{{ date_string }} {{ today }}",
    "{%- for m in msgs %}{%- if loop.previtem is not defined or loop.previtem.role != m.role %}<{{ m.role }}>{%- endif %}{{ m.content|trim }}{%- if loop.nextitem is defined and loop.nextitem.role == m.role %}{{ '\\n' }}{%- else %}</{{ m.role }}>{%- endif %}{%- endfor %}",
    "{%- set call = {'name': 'f', 'arguments': {'a': [1, {'b': none}], 'c': 'x\"é<'}} %}{{ call.arguments | tojson }}{{ call|tojson(indent=2) }}{% for k, v in call.arguments|items %}{{ k }}={{ v | tojson(ensure_ascii=true) if v is not string else v }};{% endfor %}{{ call.arguments if call.arguments is string else call.arguments|tojson(separators=(',', ':')) }}",
    "{%- macro tag(name) -%}<{{ name }}>{{ caller() if caller else '' }}</{{ name }}>{%- endmacro -%}{%- call tag('tools') -%}{%- for t in tools -%}{{ t.function.name }}{%- endfor -%}{%- endcall -%}",
    "{{ html|e|list }}{% for c in '<é'|e %}{{ c }}{% endfor %}{{ '<'|e|first|e }}{{ ('<b>'|e)[1] }}{{ ('<'|e|list)[0] is escaped }}",
]


def environment():
    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, template):
    try:
        text = env.from_string(template).render(**json.loads(json.dumps(VARS)))
        text.encode()
        return text
    except Exception as e:  # whatever it is: the interpreter must refuse too
        print(f"{template!r}: {type(e).__name__}: {e}", file=sys.stderr)
        return None


def main():
    env = environment()
    cases = list(TEMPLATES)
    for line in EXPRESSIONS.strip().split("\n"):
        for expression in split(line):
            cases.append("{{ " + expression + " }}")
    out = {"now": NOW.isoformat(), "vars": VARS, "cases": [[t, render(env, t)] for t in cases]}
    # One case per line, so that a diff shows the changed cases.
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja-cases.json")
    with open(path, "w") as f:
        f.write('{"now": %s,\n"vars": %s,\n"cases": [\n' % (json.dumps(out["now"]), json.dumps(out["vars"], ensure_ascii=False)))
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in out["cases"]))
        f.write("\n]}\n")
    print(len(out["cases"]), "cases", file=sys.stderr)


def split(line):
    """At the commas outside of brackets and strings."""
    parts, depth, quote, start, i = [], 0, None, 0, 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = None
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(line[start:i].strip())
            start = i + 1
        i += 1
    return [p for p in parts + [line[start:].strip()] if p]


if __name__ == "__main__":
    main()
