#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes daemon/text/template/jinja-unicode-tables.c to standard output, from the Unicode data of this Python."""

ALL = range(0x110000)


def ranges(test):
    out, start = [], None
    for c in ALL:
        if test(chr(c)):
            if start is None:
                start = c
        elif start is not None:
            out.append((start, c - 1))
            start = None
    if start is not None:
        out.append((start, 0x10FFFF))
    return out


def mapping(change):
    simple, special = [], []
    for c in ALL:
        if 0xD800 <= c < 0xE000:
            continue
        to = change(chr(c))
        if len(to) > 1:
            special.append((c, [ord(x) for x in to]))
        elif ord(to) != c:
            simple.append((c, ord(to) - c))
    out = []
    for c, delta in simple:
        if out:
            first, last, d, stride = out[-1]
            if d == delta and c - last <= 2 and (first == last or c - last == stride):
                out[-1] = (first, c, d, c - last)
                continue
        out.append((c, c, delta, 1))
    return out, special


def table(kind, name, rows, count):
    print(f"\nconst struct {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 118:
            print(line)
            line = "   "
        line += f" {row},"
    print(line)
    print("};")
    print(f"const size_t {count} = sizeof({name}) / sizeof({name}[0]);")


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Made by tests/text/template/make-unicode.py: do not edit. */")
    print('#include "daemon/text/template/jinja-unicode.h"')
    print("\n/* clang-format off */")
    tests = {
        "alpha": str.isalpha,
        "numeric": str.isnumeric,
        "digit": str.isdigit,
        "decimal": str.isdecimal,
        "cased": lambda c: c.isupper() or c.islower() or c.istitle(),
        "upper": str.isupper,
        "lower": str.islower,
        "unprintable": lambda c: not c.isprintable(),
    }
    for name, test in tests.items():
        table("character_range", f"jj_{name}_ranges", [f"{{{a:#x}, {b:#x}}}" for a, b in ranges(test)], f"jj_n_{name}")
    for name, change in {"upper": str.upper, "lower": str.lower, "title": str.title}.items():
        simple, special = mapping(change)
        table("jj_case_range", f"jj_to_{name}_ranges", [f"{{{a:#x}, {b:#x}, {d}, {s}}}" for a, b, d, s in simple],
              f"jj_n_to_{name}")
        table("jj_case_special", f"jj_to_{name}_specials",
              ["{%#x, {%s}}" % (c, ", ".join(f"{x:#x}" for x in to)) for c, to in special], f"jj_n_to_{name}_specials")


if __name__ == "__main__":
    main()
