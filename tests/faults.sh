#!/bin/sh
# SPDX-License-Identifier: MIT
# Fail each call of the C library that hobd and its clients make, once at each site: tests/faults/sweep.py, which see.
# usage: sh tests/faults.sh [OPTION…] [SCENARIO…]
#   --seconds N          end after N seconds (default: 3600). All scenarios take about 15 minutes on two cores.
#   --effect from        all later calls that need the same thing fail, too, until the step ends
#   --depth N            a site is a path of N functions (default: 3)
#   --verbose            print all sites
#   HOB_FAULT_LEAKS=1    with the address sanitizer, which finds leaks and uses of freed memory; takes four times as long
#   HOB_FAULT_HANG=N     seconds after which a program hangs (default: 10)
#   HOB_FAULT_CHECK=N    compare all sessions after every N starts (default: 20)
# It prints each failure with the path of the call that failed, and at the end the number of faults and sites.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=$top/build
options="--buildtype=release"
if [ "${HOB_FAULT_LEAKS:-0}" = 1 ]; then
    build=$top/build-asan
    options="--buildtype=debugoptimized -Db_sanitize=address,undefined"
    export LSAN_OPTIONS="suppressions=$top/tests/support/lsan-suppressions.txt:print_suppressions=0"
fi
# shellcheck disable=SC2086 # options are words
[ -f "$build/build.ninja" ] || meson setup "$build" "$top" $options -Dtests=enabled >/dev/null
meson compile -C "$build" >/dev/null
HOB_BUILD=$build exec /usr/bin/python3 "$top/tests/faults/sweep.py" "$@"
