#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes daemon/text/tokenizer/characters-tables.c to standard output. Needs a Python that has the Unicode data of VERSION,
as 3.13 has."""
import sys
import unicodedata

VERSION = "15.1.0"
HANGUL = range(0xAC00, 0xD7A4)  # their first letters are computed


def ranges(categories):
    out = []
    for c in range(0x110000):
        if unicodedata.category(chr(c)) not in categories:
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return [f"{{{a:#x}, {b:#x}}}" for a, b in out]


def lower():
    """First, last, step and difference of runs of characters that change alike. Only the first character of a lower-case
    text of several counts, as for U+0130."""
    out = []
    for c in range(0x110000):
        to = ord(chr(c).lower()[0]) - c if not 0xD800 <= c < 0xE000 else 0
        if not to:
            continue
        if out:
            first, last, step, delta = out[-1]
            if delta == to and c - last <= 2 and (first == last or c - last == step):
                out[-1] = (first, c, c - last, to)
                continue
        out.append((c, c, 1, to))
    return [f"{{{a:#x}, {b:#x}, {s}, {d}}}" for a, b, s, d in out]


def base():
    """The first character of the canonical decomposition."""
    out = []
    for c in range(0x110000):
        if c in HANGUL or 0xD800 <= c < 0xE000:
            continue
        to = ord(unicodedata.normalize("NFD", chr(c))[0])
        if to != c:
            out.append(f"{{{c:#x}, {to:#x}}}")
    return out


def table(kind, name, rows):
    print(f"\nconst struct {kind} characters_{name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 118:
            print(line)
            line = "   "
        line += f" {row},"
    print(line)
    print("};")
    print(f"const size_t characters_n_{name} = sizeof(characters_{name}) / sizeof(*characters_{name});")


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"this Python has the data of Unicode {unicodedata.unidata_version}, not {VERSION}")
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Made by tests/text/tokenizer/make-characters.py: do not edit. */")
    print('#include "daemon/text/tokenizer/characters.h"')
    print("\n/* clang-format off */")
    table("character_range", "control", ranges({"Cc", "Cf", "Co", "Cs"}))
    table("character_range", "mark", ranges({"Mn", "Mc", "Me"}))
    table("character_range", "punctuation", ranges({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}))
    table("character_case", "lower", lower())
    table("character_pair", "base", base())


if __name__ == "__main__":
    main()
