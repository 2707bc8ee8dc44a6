#!/bin/sh
# SPDX-License-Identifier: MIT
# Fuzz with libFuzzer: build the targets of tests/fuzz with clang and the address and undefined-behaviour sanitizers (in
# build-fuzz) and run all of them, or those that are named, in turn. The exit status is 1 if an input was found that
# fails; it is then in build-fuzz/found.
# usage: sh tests/fuzz.sh [MINUTES [NAME…]]   all targets together run so long (default: 10)
#        sh tests/fuzz.sh --coverage          the lines of libcommon, daemon/io, … that the corpora alone reach
#        sh tests/fuzz.sh --merge [NAME…]     put what was found since into tests/fuzz/corpus, minimized: an input must
#                                             reach an edge that no smaller one does
#   HOB_FUZZ_ARGS="-jobs=4"                   more arguments for libFuzzer
# With AFL++, whose driver calls LLVMFuzzerTestOneInput in a loop:
#   CC=afl-clang-fast AFL_USE_ASAN=1 AFL_USE_UBSAN=1 meson setup build-afl -Dfuzz=true --buildtype=plain -Dc_args=-O2
#   ninja -C build-afl fuzz && afl-fuzz -i tests/fuzz/corpus/frame -o found build-afl/tests/fuzz/fuzz-frame
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=packaging/need.sh disable=SC1091
. "$top/packaging/need.sh"
build=$top/build-fuzz
counters=$top/build-coverage
corpora=$top/tests/fuzz/corpus
export LLVM_PROFILE_FILE=/dev/null
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# quietly COMMAND…: if the command fails, print its output and exit.
quietly() {
    "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; echo "fuzz: failed: $*" >&2; exit 1; }
}

names_of() {
    sed -n "s|.*/fuzz-\([a-z-]*\)\.c$|\1|p" <<LIST
$(grep -l LLVMFuzzerTestOneInput "$top"/tests/fuzz/fuzz-*.c)
LIST
}

# The targets that were built.
built() {
    for name in $(names_of); do
        [ ! -x "$1/tests/fuzz/$2-$name" ] || echo "$name"
    done
}

build_targets() {
    [ -f "$build/build.ninja" ] || CC="${CC:-clang}" quietly meson setup "$build" "$top" -Dtests=enabled -Dman=disabled \
        -Doptimization=2 -Ddebug=false -Db_lundef=false -Dfuzz=true -Dc_args="-g1 -fno-omit-frame-pointer \
        -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" \
        -Dc_link_args='-fsanitize=address,undefined'
    quietly ninja -C "$build" fuzz fuzz-replays
}

# The programs that replay the corpora, without sanitizers.
build_counters() {
    [ -f "$counters/build.ninja" ] || CC="${CC:-clang}" quietly meson setup "$counters" "$top" -Dtests=enabled -Dman=disabled \
        -Doptimization=1 -Ddebug=false -Db_lundef=false -Dfuzz=true -Dc_args='-fprofile-instr-generate -fcoverage-mapping' \
        -Dc_link_args=-fprofile-instr-generate
    quietly ninja -C "$counters" fuzz-replays
}

# What a target needs: libvorbis does not free all of a damaged header; a file of a thousand frames shows no more than
# one of a few; a daemon takes longer.
arguments() {
    case $1 in
        sound) echo "-detect_leaks=0 -max_len=8192" ;;
        frame | values | render | json) echo "-max_len=256" ;;
        proto | calls | conf | kernel-files) echo "-max_len=1024" ;;
        image | gguf) echo "-max_len=8192" ;;
        schema | gbnf | template) echo "-max_len=4096" ;;
        *) echo "-max_len=1024" ;;
    esac
}

figure() {
    sed -n "s/^stat::$1: *//p" "$log" | tail -1
}

# fuzz NAME SECONDS: prints a line of figures. Returns 1 if an input fails.
fuzz() {
    status=0
    mkdir -p "$build/corpus/$1" "$build/found" "$corpora/$1"
    [ ! -x "$build/tests/fuzz/replay-$1" ] || HOB_FUZZ_SAVE=$build/corpus/$1 "$build/tests/fuzz/replay-$1" >"$log" 2>&1
    # shellcheck disable=SC2046,SC2086 # arguments are words
    "$build/tests/fuzz/fuzz-$1" -max_total_time="$2" -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$build/found/$1-" $(arguments "$1") ${HOB_FUZZ_ARGS:-} \
        "$build/corpus/$1" "$corpora/$1" >"$log" 2>&1 </dev/null || status=$?
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    files=$(find "$build/corpus/$1" -type f | wc -l)
    printf '%-14s %12s %9s %8s %7s %s\n' "$1" "$(figure number_of_executed_units)" "$(figure average_exec_per_sec)" \
        "${edges:--}" "$files" "$([ $status -eq 0 ] && echo ok || echo "FAILED (status $status)")"
    [ $status -eq 0 ] && return 0
    cp "$log" "$build/found/$1.log"
    tail -40 "$log" >&2
    return 1
}

# fuzz_all MINUTES NAME…
fuzz_all() {
    minutes=$1 failed=0 sum=0
    shift
    build_targets
    # shellcheck disable=SC2046 # names are words
    [ $# -gt 0 ] || set -- $(built "$build" fuzz)
    printf '%-14s %12s %9s %8s %7s\n' target executions 'a second' edges files
    for name; do
        fuzz "$name" $((minutes * 60 / $# > 0 ? minutes * 60 / $# : 1)) || failed=1
        n=$(figure number_of_executed_units)
        sum=$((sum + ${n:-0}))
    done
    printf '%-14s %12s\n' 'all' $sum
    return $failed
}

# merge NAME…
merge() {
    build_targets
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(built "$build" fuzz)
    for name; do
        rm -rf "$build/merged/$name"
        mkdir -p "$build/merged/$name" "$build/corpus/$name" "$corpora/$name"
        # shellcheck disable=SC2046
        quietly "$build/tests/fuzz/fuzz-$name" -merge=1 -use_counters=0 $(arguments "$name") "$build/merged/$name" "$corpora/$name" \
            "$build/corpus/$name"
        rm -f "$corpora/$name"/*
        find "$build/merged/$name" -type f -exec cp {} "$corpora/$name" \;
        printf '%-14s %6d files %8d bytes\n' "$name" "$(find "$corpora/$name" -type f | wc -l)" \
            "$(cat "$corpora/$name"/* | wc -c)"
    done
}

# The sums of the files of each folder, from llvm-cov's table.
by_folder() {
    awk -v folders='libcommon/ daemon/io/ daemon/text/ daemon/model/ daemon/cache/' '
        BEGIN { n = split(folders, folder, " ") }
        { for (i = 1; i <= n; i++) if (index($1, folder[i]) == 1) { lines[i] += $8; missed[i] += $9 } }
        END { for (i = 1; i <= n; i++) printf "%-14s %6d lines %6.2f%%\n", folder[i], lines[i], lines[i] ? 100 * (1 - missed[i] / lines[i]) : 0 }'
}

coverage() {
    build_counters
    rm -f "$counters"/*.profraw
    objects=
    for name in $(built "$counters" replay); do
        mkdir -p "$corpora/$name"
        HOB_FUZZ_RUNS=0 LLVM_PROFILE_FILE=$counters/$name.profraw quietly "$counters/tests/fuzz/replay-$name" "$corpora/$name"
        objects="$objects -object $counters/tests/fuzz/replay-$name"
    done
    quietly "${LLVM_PROFDATA:-llvm-profdata}" merge -sparse -o "$counters/all.profdata" "$counters"/*.profraw
    # shellcheck disable=SC2086 # arguments are words
    "${LLVM_COV:-llvm-cov}" report -instr-profile="$counters/all.profdata" $objects -show-functions=false >"$counters/report" 2>"$log"
    by_folder <"$counters/report"
    echo "each file: $counters/report"
}

need_to_build clang llvm libcmocka-dev
case ${1:-} in
    --coverage) coverage ;;
    --merge) shift; merge "$@" ;;
    '' | [0-9]*) minutes=${1:-10}; [ $# -eq 0 ] || shift; fuzz_all "$minutes" "$@" ;;
    *) sed -n 's/^# \{0,1\}//p' "$0" | sed -n 2,13p >&2; exit 2 ;;
esac
