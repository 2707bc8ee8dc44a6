#!/bin/sh
# SPDX-License-Identifier: MIT
# Install the test dependencies, build, and run all tests, or those whose names contain a NAME.
# usage: sh tests/run.sh [NAME…]
#   HOB_CPU=scalar|avx2|avx512|amx   limit the instruction set of all programs
#   HOB_TEST_SANITIZE=1              build with address and undefined-behaviour sanitizers (in build-asan)
#   HOB_TEST_SANITIZE=thread         with the thread sanitizer (in build-tsan); HOB_LOAD=0.2 makes the load tests smaller
#   HOB_TEST_DATA=DIR                real models and vectors (default: ../shared/data)
#   HOB_TEST_OPENAPI=FILE            OpenAI's OpenAPI document as JSON, for the answers of hob-http (default: openai-openapi.json in the data)
#   HOB_TEST_CLIENTS=DIR             Python packages of HTTP clients (pip install --target DIR openai anthropic litellm langchain-openai llm
#                                    schemathesis), unless Python finds them anyway
#   HOB_GBNF_VALIDATOR=COMMAND       llama.cpp's test-gbnf-validator (package llama.cpp-tests), which must judge GBNF grammars as hobd does
#   HOB_GBNF_EXAMPLES=DIR            llama.cpp's example grammars (grammars/ in its source)
#   HOB_SCHEMA_SUITE=DIR             the tests of JSON-Schema-Test-Suite (default: those of the package json-schema-test-suite)
#   HOB_TEST_DEB=DIR                 test the Debian packages in DIR too (packaging/build-deb.sh DIR), as root, with debootstrap and
#                                    systemd-nspawn
#   CI                               if set, a compiler warning is an error
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=packaging/need.sh disable=SC1091
. "$top/packaging/need.sh"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# quietly COMMAND…: if the command fails, print its output and exit.
quietly() {
    "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; echo "run: failed: $*" >&2; exit 1; }
}

# gcc includes the sanitizers' libraries. git: a test compares the checkout with the design.
need_to_build libcmocka-dev libopenblas0-pthread python3 python3-pytest python3-msgpack scdoc mandoc systemd valgrind \
    git tmux shellcheck spin cppcheck python3-pil python3-numpy chromium chromium-driver python3-selenium

build=$top/build
options="--buildtype=release"
if [ "${HOB_TEST_SANITIZE:-0}" = 1 ]; then
    build=$top/build-asan
    options="--buildtype=debugoptimized -Db_sanitize=address,undefined"
elif [ "${HOB_TEST_SANITIZE:-0}" = thread ]; then
    build=$top/build-tsan
    options="--buildtype=debugoptimized -Db_sanitize=thread"
    export TSAN_OPTIONS="${TSAN_OPTIONS:-exitcode=66}"
fi
werror=false
[ -z "${CI:-}" ] || werror=true
# The tests run in another directory.
[ -z "${HOB_TEST_DEB:-}" ] || { HOB_TEST_DEB=$(realpath "$HOB_TEST_DEB"); export HOB_TEST_DEB; }
[ -z "${HOB_TEST_DATA:-}" ] || { HOB_TEST_DATA=$(realpath "$HOB_TEST_DATA"); export HOB_TEST_DATA; }
[ -z "${HOB_TEST_OPENAPI:-}" ] || { HOB_TEST_OPENAPI=$(realpath "$HOB_TEST_OPENAPI"); export HOB_TEST_OPENAPI; }
[ -z "${HOB_GBNF_EXAMPLES:-}" ] || { HOB_GBNF_EXAMPLES=$(realpath "$HOB_GBNF_EXAMPLES"); export HOB_GBNF_EXAMPLES; }
[ -z "${HOB_TEST_CLIENTS:-}" ] || { HOB_TEST_CLIENTS=$(realpath "$HOB_TEST_CLIENTS"); export HOB_TEST_CLIENTS; }
set -- "$build" "$@"
reconfigure=
[ ! -f "$build/build.ninja" ] || reconfigure=--reconfigure
# shellcheck disable=SC2086 # options are words
quietly meson setup "$build" "$top" $reconfigure $options -Dtests=enabled -Dman=enabled -Dwerror=$werror
quietly meson compile -C "$build"
/usr/bin/python3 "$top/tests/run.py" "$@"
