#!/bin/sh
# SPDX-License-Identifier: MIT
# Fail each call of the C library that hobd and its clients make, once at each site: tests/faults/sweep.py, which see.
# usage: sh tests/faults.sh [OPTION…] [SCENARIO…]
#   --seconds N          end after N seconds (default: 3600). Turns, requests and reload take seconds; start and stop, and hob log, which
#                        have many sites, take longer than 10 minutes on two busy cores: fewer with --depth 2
#   --effect from        all later calls that need the same thing fail, too, until the step ends
#   --depth N            a site is a path of N functions (default: 3)
#   --part K/N           fail only the sites of the K-th of N parts: N runs, one for each K, share the work
#   --verbose            print all sites
#   HOB_FAULT_LEAKS=1    hobd runs in valgrind, which finds leaks and uses of freed memory; takes twenty times as long
#   HOB_FAULT_HANG=N     seconds after which a program hangs (default: 60)
#   HOB_FAULT_CHECK=N    compare all sessions after every N starts (default: 20)
# It prints each failure with the path of the call that failed, and at the end the number of faults and sites.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=$top/build
[ -f "$build/build.ninja" ] || meson setup "$build" "$top" --buildtype=release -Dtests=enabled >/dev/null
meson compile -C "$build" >/dev/null
HOB_BUILD=$build exec /usr/bin/python3 "$top/tests/faults/sweep.py" "$@"
