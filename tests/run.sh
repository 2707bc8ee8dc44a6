#!/bin/sh
# SPDX-License-Identifier: MIT
# Install what the tests need, build, run every test (or those whose name contains a NAME).
# usage: sh tests/run.sh [NAME…]
#   HOB_CPU=scalar|avx2|avx512|amx   limit the instruction set of everything that runs
#   HOB_TEST_SANITIZE=1              build with address and undefined-behaviour sanitizers (in build-asan)
#   HOB_TEST_DATA=DIR                real models and vectors (default: ../shared/data)
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
packages="gcc libc6-dev meson pkg-config libsystemd-dev libmsgpack-dev libxxhash-dev libpcre2-dev libjansson-dev
    libcmocka-dev libopenblas0-pthread python3 python3-pytest python3-msgpack scdoc systemd valgrind"

missing=
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "run: installing$missing" >&2
    $sudo apt-get -qq update >&2 </dev/null
    # shellcheck disable=SC2086 # a list of names
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >&2 </dev/null
fi

build=$top/build
options="--buildtype=release"
if [ "${HOB_TEST_SANITIZE:-0}" = 1 ]; then
    build=$top/build-asan
    options="--buildtype=debugoptimized -Db_sanitize=address,undefined"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
set -- "$build" "$@"
reconfigure=
[ ! -f "$build/build.ninja" ] || reconfigure=--reconfigure
# shellcheck disable=SC2086 # options are words
meson setup "$build" "$top" $reconfigure $options -Dtests=enabled >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
meson compile -C "$build" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
/usr/bin/python3 "$top/tests/run.py" "$@"
