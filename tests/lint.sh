#!/bin/sh
# SPDX-License-Identifier: MIT
# Check the code with static analysers: cppcheck, clang-tidy, gcc's, shellcheck; and its format, with clang-format 14, Debian 12's.
# usage: sh tests/lint.sh [cppcheck|tidy|analyzer|shell|format|quick]… [-- FOLDER…]
#   quick    cppcheck of libcommon and daemon/io, which the tests run too
#   FOLDER   what cppcheck and clang-tidy check, below the top (default: client daemon libcommon; clang-tidy takes about 5 minutes of a CPU)
# Without a name, all of them. The exit status is 0 (clean), 1 (findings), 2 (usage) or 77 (a tool is missing).
# clang-tidy needs a configured build folder (HOB_BUILD, default build) for the options of the compiler.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath "${HOB_BUILD:-$top/build}")
cd "$top"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0

tool() {
    command -v "$1" >/dev/null 2>&1 || { echo "lint: skipped: $1 is not installed"; exit 77; }
}

check() { # FOLDER…
    tool cppcheck
    cppcheck --enable=warning,performance,portability --std=c11 --quiet --error-exitcode=1 -I. -D__x86_64__ -D__linux__ \
        --library=posix --library=tests/cppcheck.cfg \
        --suppressions-list=tests/cppcheck.txt --suppress=unmatchedSuppression "$@" || status=1
}

tidy() { # FOLDER…
    tool clang-tidy
    [ -f "$build/compile_commands.json" ] || { echo "lint: skipped: no configured build in $build"; exit 77; }
    find "$@" -name '*.c' | sort >"$tmp/all"
    # Without -Dcuda=enabled its sources have no options, and their headers are not generated.
    without='^$'
    grep -q backend/cuda "$build/compile_commands.json" || without='backend/cuda/'
    grep -v "$without" "$tmp/all" >"$tmp/files"
    xargs -n 16 clang-tidy -p "$build" --quiet <"$tmp/files" || status=1
}

analyzer() { # of libcommon and daemon/io: the parts that read what strangers send. With -O1, initial values go unseen.
    tool gcc
    for f in libcommon/*.c daemon/io/*.c; do
        gcc -std=c11 -D_GNU_SOURCE -DHOB_VERSION='""' -I. -O0 -fanalyzer -Werror -c -o "$tmp/x.o" "$f" || status=1
    done
}

shell() {
    tool shellcheck
    find . -name '*.sh' -not -path './build*' >"$tmp/files"
    xargs shellcheck <"$tmp/files" || status=1
}

format() { # as .clang-format has it
    tool clang-format
    clang-format --version | grep -q 'version 14\.' || { echo "lint: skipped: clang-format is not version 14, which formats otherwise"; exit 77; }
    git ls-files '*.c' '*.h' '*.cu' '*.cuh' >"$tmp/files"
    xargs clang-format --dry-run -Werror <"$tmp/files" || status=1
}

names=
while [ $# -gt 0 ]; do
    case $1 in
    --) shift; break ;;
    cppcheck | tidy | analyzer | shell | format | quick) names="$names $1" ;;
    *) sed -n '4,8s/^# //p' "$top/tests/lint.sh" >&2; exit 2 ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- client daemon libcommon
for name in ${names:-cppcheck tidy analyzer shell format}; do
    case $name in
    cppcheck) check "$@" ;;
    tidy) tidy "$@" ;;
    analyzer) analyzer ;;
    shell) shell ;;
    format) format ;;
    quick) check libcommon daemon/io ;;
    esac
done
exit $status
