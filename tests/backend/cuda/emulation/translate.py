#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Translate a kernel file of CUDA C++ to C++ for the emulation (device.h).

usage: translate.py SOURCE OUTPUT DEPFILE ARCHITECTURE COMPILER [ARGUMENT...]

The compiler preprocesses SOURCE, with device.h before it. Of what CUDA adds to C++, macros of device.h leave marks,
which are replaced here: kernels become functions that take their argument by reference, and are listed; variables in
shared memory lie in a section of their own, which can be filled before each CTA; and an instruction

    asm("name.of.it {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(c))

becomes a call with the operands in the order of the text: ptx_name_of_it(a, b, c), which ptx.h defines.
"""
import bisect
import re
import subprocess
import sys

STRING = r'"((?:[^"\\]|\\.)*)"'


def closing(text, at):
    """The place behind the parenthesis that closes the one at @at."""
    depth = 0
    for m in re.compile(STRING + r"|[()]").finditer(text, at):
        depth += {"(": 1, ")": -1}.get(m.group(), 0)
        if depth == 0:
            return m.end()
    raise ValueError("a parenthesis is not closed: " + text[at:at + 80])


def split(text, by):
    """Parts of @text between the characters @by outside of parentheses and strings; "::" is two colons."""
    parts, depth, last = [], 0, 0
    for m in re.compile(STRING + r"|[][(){}]|" + re.escape(by)).finditer(text):
        depth += 1 if m.group() in "([{" else -1 if m.group() in ")]}" else 0
        if m.group() == by and depth == 0:
            parts.append(text[last:m.start()])
            last = m.end()
    return parts + [text[last:]]


def operands(part):
    """The expressions of a list of operands."""
    return [re.sub(r'^\s*"[^"]*"\s*', "", one) for one in split(part, ",") if one.strip()]


def instruction(inside):
    """C++ for the inside of asm(…)."""
    parts = split(inside, ":")
    text = "".join(re.findall(STRING, parts[0])).replace("\\n", "\n").replace("\\t", " ")
    values = [v for part in parts[1:3] for v in operands(part)]
    lines = [x for line in re.split(r"[;\n]", text) if (x := re.sub(r"^@!?\w+ ", "", line.strip(" {}")))]
    lines = [x for x in lines if not re.match(r"\.reg|\w+:$|bra ", x)]
    if not lines:
        return "(void)0"
    if len(lines) > 1:
        raise ValueError("more than one instruction: " + text)
    name, _, rest = lines[0].partition(" ")
    given = [m.group() for m in re.finditer(r"%\d+|\b-?\d+\b", rest)]
    called = [values[int(x[1:])] if x[0] == "%" else x for x in given]
    return "ptx_%s(%s)" % (re.sub(r"\W+", "_", name), ", ".join(called))


def replace_asm(text):
    out, last = [], 0
    for m in re.compile(r"\basm(?:\s+volatile)?\s*\(").finditer(text):
        if m.start() < last:
            continue
        end = closing(text, m.end() - 1)
        out += [text[last:m.start()], instruction(text[m.end():end - 1])]
        last = end
    return "".join(out) + text[last:]


def replace_kernels(text, kernels):
    """Kernels become static functions; @kernels gets (name, type of the argument, most threads)."""
    out, last = [], 0
    for m in re.compile(r'extern\s+"C"\s+emulated_kernel\s+void\b').finditer(text):
        bound, at = "1024", m.end()
        b = re.compile(r"\s*emulated_bounds\s*").match(text, at)
        if b:
            at = closing(text, b.end())
            bound = "emulated_first" + text[b.end():at]
        head = re.compile(r"\s*(\w+)\s*\(\s*const\s+emulated_argument\s+(struct\s+\w+)\s+(\w+)\s*\)").match(text, at)
        if not head:
            raise ValueError("not a kernel with one argument: " + text[m.start():at + 200])
        out += [text[last:m.start()], "static void %s(const %s &%s)" % head.groups()]
        last = head.end()
        if text[last:].lstrip()[0] == "{":
            kernels.append((head[1], head[2], bound))
    return "".join(out) + text[last:]


def depth_at(text):
    """A function that says in how many braces a place of @text is."""
    places, depths, depth = [], [], 0
    for m in re.finditer(STRING + r"|'(?:[^'\\]|\\.)'|[{}]", text):
        depth += {"{": 1, "}": -1}.get(m.group(), 0)
        places.append(m.start())
        depths.append(depth)
    return lambda at: depths[i - 1] if (i := bisect.bisect(places, at)) else 0


def replace_shared(text, module):
    """Shared memory of the launch; variables outside of functions, in a section; others, which each CTA enters."""
    text = re.sub(r"\bextern\s+emulated_shared\s+(?:__attribute__\s*\(\(aligned\(\d+\)\)\)\s*)?"
                  r"([\w\s]+?)\s*(\w+)\s*\[\s*\]\s*;", r"\1 *const \2 = (\1 *)emulated_room();", text)
    depth = depth_at(text)

    def variable(m):
        if depth(m.start()) == 0:
            return 'static __attribute__((section("emulated_%s"))) %s;' % (module, m[1])
        names = [re.search(r"(\w+)\s*(?:\[.*)?$", one, re.S)[1] for one in split(m[1], ",")]
        return "static %s; " % m[1] + " ".join("emulated_static(&%s, sizeof(%s));" % (n, n) for n in names)
    return re.sub(r"\b(?:static\s+)?emulated_shared\s+(?:static\s+)?([^;]+);", variable, text)


def table(kernels, module, architecture):
    """What lists the kernels for the driver."""
    begin, end = "__start_emulated_" + module, "__stop_emulated_" + module
    lines = ["extern \"C\" __attribute__((weak, visibility(\"hidden\"))) char %s[], %s[];" % (begin, end)]
    for name, kind, _ in kernels:
        lines.append("static void call_%s(const void *a) { %s(*(const %s *)a); }" % (name, name, kind))
    lines.append("static struct emulated_kernel_of list_%s[] = {" % module)
    for name, kind, bound in kernels:
        lines.append('    {"%s", %s, call_%s, sizeof(%s), %s, %s, %s},' %
                     (name, architecture, name, kind, bound, begin, end))
    lines.append("};\n__attribute__((constructor)) static void enter_%s()\n{" % module)
    lines.append("    emulated_enter(list_%s, sizeof(list_%s) / sizeof(*list_%s));\n}\n" % (module, module, module))
    return "\n".join(lines)


def main():
    source, output, depfile, architecture, *compiler = sys.argv[1:]
    module = re.sub(r"\W", "_", source.rsplit("/", 1)[-1].removesuffix(".cu")) + "_" + architecture
    text = subprocess.run([*compiler, "-D__CUDA_ARCH__=%s0" % architecture, "-E", "-x", "c++", "-MD", "-MF", depfile, "-MT", output, source],
                          stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    kernels = []
    text = replace_kernels(replace_shared(replace_asm(text), module), kernels)
    with open(output, "w", encoding="utf-8") as f:
        f.write(text + "\n" + table(kernels, module, architecture))


main()
