#!/bin/sh
# SPDX-License-Identifier: MIT
# Build the C tests with the thread or memory sanitizer and run them.
# usage: sh tests/sanitize.sh thread|memory [NAME…]
#   NAME         programs whose path below tests/ begins with it (sched, session/test-threads); -NAME: but not this one. Default: those of
#                modules with threads (thread; the scheduler has none), those that pass no data through a library without instrumentation
#                (memory)
#   HOB_JOBS=N   how many compilers run at once (default: one a CPU)
# The memory sanitizer needs clang. The C library's functions are known to it, some by tests/support/msan-libc.c, and xxHash is compiled
# in; other libraries (jansson, msgpack, PCRE2, cmocka) are not instrumented, so that data from them looks uninitialized: a program that
# uses such data needs a build of these with -fsanitize=memory.
# tests/run.sh runs all tests with the address and the thread sanitizer (HOB_TEST_SANITIZE).
# It prints each program and the report of those that fail, and at the end "N passed, N failed". The exit status is 0, 1 (findings) or 2 (usage).
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
kind=${1:-}
[ $# -eq 0 ] || shift
case $kind in
thread)
    build=$top/build-tsan
    options="-Db_sanitize=thread"
    default="request/ jobs/ cache/ session/ sequence/ engine/ io/test-server backend/test-compute-pool backend/test-kv-memory backend/test-forward
        backend/test-timeslice backend/test-packed"
    export TSAN_OPTIONS="${TSAN_OPTIONS:-exitcode=66:second_deadlock_stack=1}"
    ;;
memory)
    build=$top/build-msan
    options="-Db_sanitize=memory -Db_lundef=false -Dc_args=-DXXH_INLINE_ALL -Dc_link_args=$build/msan-libc.o"
    # Without those that use what jansson and msgpack return.
    default="sched/ cache/ -cache/test-spill-engine jobs/ session/ sample/ speculate/ backend/test-compute-pool
        output/ -output/test-call-events -output/test-envelope -output/test-markup-parser -output/test-parser-memory -output/test-round-trip
        libcommon/ -libcommon/test-json-whole -libcommon/test-proto -libcommon/test-proto-absent -libcommon/test-proto-files
        -libcommon/test-proto-hostile -libcommon/test-proto-limits -libcommon/test-proto-memory -libcommon/test-proto-refuse
        -libcommon/test-proto-write"
    export CC=clang MSAN_OPTIONS="${MSAN_OPTIONS:-exitcode=66}"
    mkdir -p "$build"
    clang -O2 -D_GNU_SOURCE -fsanitize=memory -c -o "$build/msan-libc.o" "$top/tests/support/msan-libc.c"
    ;;
*)
    sed -n '4,9s/^# //p' "$0" >&2
    exit 2
    ;;
esac
# shellcheck disable=SC2086 # options and names are words
{
    [ -f "$build/build.ninja" ] || meson setup "$build" "$top" --buildtype=debugoptimized $options -Dtests=enabled -Dman=disabled >/dev/null
    [ $# -gt 0 ] || set -- $default
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Each line: a program, as seen from the build folder, and its arguments.
meson introspect "$build" --tests | python3 -c '
import json, os, sys
build, needed, names = sys.argv[1], sys.argv[2], sys.argv[3:]
files = {t["id"]: t["filename"] for t in json.load(open(build + "/meson-info/intro-targets.json"))}
with open(needed, "w") as out:
    for t in json.load(sys.stdin):
        program = os.path.relpath(t["cmd"][0], build)
        name = program.removeprefix("tests/")
        if any(name.startswith(n) for n in names) and "-" + name not in names:
            print(program, *t["cmd"][1:])
            print(*(os.path.relpath(f, build) for d in t["depends"] for f in files.get(d, [])), sep="\n", file=out)
' "$build" "$tmp/needed" "$@" | sort >"$tmp/tests"
[ -s "$tmp/tests" ] || { echo "sanitize: no test has such a name: $*" >&2; exit 2; }
sort -u "$tmp/needed" | xargs ninja -C "$build" -j "${HOB_JOBS:-$(nproc)}" >"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }

passed=0
failed=0
cd "$build"
while read -r program arguments; do
    # shellcheck disable=SC2086 # arguments are words
    if timeout 600 "./$program" $arguments >"$tmp/log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        echo "ok $program"
    else
        failed=$((failed + 1))
        echo "=== $program $arguments"
        cat "$tmp/log"
    fi
done <"$tmp/tests"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
