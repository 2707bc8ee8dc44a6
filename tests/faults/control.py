# SPDX-License-Identifier: MIT
"""The control file of libfault.so (fault-control.h): which calls fail, and the sites that were reached."""
import bisect
import mmap
import re
import struct
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAGIC, SITES, FRAMES, MODULES, NAME = 0x746c6166, 1 << 14, 12, 64, 56
OFF, NTH, UNTRIED, ALL = range(4)
ONCE, FROM, SHORT, INTERRUPT = range(4)
FIELDS = {"choice": ("I", 4), "effect": ("I", 8), "error": ("i", 12), "functions": ("Q", 16), "left": ("q", 24), "tries": ("I", 32),
          "depth": ("I", 36), "clock_ns": ("q", 40), "persist": ("Q", 48), "calls": ("Q", 56), "failed": ("Q", 64), "last": ("Q", 72),
          "n_sites": ("I", 80), "lost": ("I", 84), "part": ("I", 88), "parts": ("I", 92)}
MODULES_AT, SITES_AT = 96, 96 + MODULES * (4 + NAME)
SITE = struct.Struct("<QIIII" + "II" * FRAMES)
ROWS = re.findall(r"^X\((\w+), (\w+),", (HERE / "fault-functions.h").read_text(), re.M)
FUNCTIONS = [name for name, _ in ROWS]


class Control:
    def __init__(self, path, depth=3, part=(0, 0)):
        self.path = path
        with open(path, "w+b") as f:
            f.truncate(SITES_AT + SITES * SITE.size)
            self.map = mmap.mmap(f.fileno(), 0)
        struct.pack_into("<I", self.map, 0, MAGIC)
        self.functions = (1 << 64) - 1
        self.tries, self.depth, self.before = 1, depth, 0
        self.part, self.parts = part

    def __getattr__(self, name):
        form, at = FIELDS[name]
        return struct.unpack_from("<" + form, self.map, at)[0]

    def __setattr__(self, name, value):
        if name in FIELDS:
            struct.pack_into("<" + FIELDS[name][0], self.map, FIELDS[name][1], value)
        else:
            super().__setattr__(name, value)

    def arm(self, effect=ONCE, choice=UNTRIED, error=0, left=0):
        self.before = self.failed
        self.effect, self.error, self.left, self.persist = effect, error, left, 0
        self.choice = choice

    def disarm(self):
        """Whether a call failed since arm()."""
        self.choice = OFF
        self.persist = 0
        return self.failed != self.before

    def only(self, *groups, without=None):
        """Only functions of these groups can fail."""
        self.functions = sum(1 << i for i, (name, group) in enumerate(ROWS) if group in groups and name != without)

    def sites(self):
        """(hash, function's name, reached, tried, [(module, offset)]) of all sites."""
        modules = {}
        for i in range(MODULES):
            h, name = struct.unpack_from(f"<I{NAME}s", self.map, MODULES_AT + i * (4 + NAME))
            modules[h] = name.split(b"\0")[0].decode()
        for i in range(SITES):
            h, function, reached, tried, n, *frames = SITE.unpack_from(self.map, SITES_AT + i * SITE.size)
            if h:
                yield h, FUNCTIONS[function], reached, tried, [(modules.get(frames[2 * k]), frames[2 * k + 1]) for k in range(n)]

    def last_site(self):
        return next((s for s in self.sites() if s[0] == self.last), None)


class Symbols:
    """Names of functions in the programs of a build."""

    def __init__(self, programs):
        self.tables = {}
        for p in programs:
            rows = []
            for line in subprocess.run(["nm", "-n", p], capture_output=True, text=True).stdout.splitlines():
                parts = line.split()
                if len(parts) == 3 and parts[1] in "tTwW":
                    rows.append((int(parts[0], 16), parts[2]))
            self.tables[Path(p).name[:15]] = rows

    def name(self, module, offset):
        rows = self.tables.get((module or "")[:15])
        if not rows:
            return module or "?"
        return rows[max(0, bisect.bisect_right(rows, (offset - 1, "\x7f")) - 1)][1]

    def path(self, site):
        return f"{site[1]}: " + " < ".join(self.name(*f) for f in site[4]) if site else "no call"
