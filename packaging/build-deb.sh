#!/bin/sh
# SPDX-License-Identifier: MIT
# Build the Debian packages of this checkout, uncommitted changes included, into OUTDIR (default: build-deb).
# usage: sh packaging/build-deb.sh [OUTDIR]
#   DEB_BUILD_OPTIONS   as for dpkg-buildpackage (default: nocheck; tests/run.sh runs the tests)
#   CC                  the compiler; CC="ccache gcc" makes a second build faster
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=packaging/need.sh disable=SC1091
. "$top/packaging/need.sh"
out=${1:-$top/build-deb}

say() { printf 'build-deb: %s\n' "$*" >&2; }

mkdir -p "$out"
out=$(cd "$out" && pwd)
tmp=$out/work # a fixed name: ccache needs the same path in each build
rm -rf "$tmp"
mkdir "$tmp"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# quietly COMMAND…: if the command fails, print its output and exit.
quietly() {
    "$@" >"$tmp/log" 2>&1 </dev/null || { cat "$tmp/log" >&2; say "failed: $*"; exit 1; }
}

DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-nocheck}
export DEB_BUILD_OPTIONS
need_to_build build-essential debhelper scdoc systemd
case $DEB_BUILD_OPTIONS in
*nocheck*) export DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-} nocheck" ;; # dpkg needs both variables
*) need libcmocka-dev ;;
esac

# dpkg needs debian/ at the top of the sources. Build from a copy of the files that git does not ignore, or, without git, of
# all files but builds.
version=$(dpkg-parsechangelog -l "$top/packaging/debian/changelog" -S Version)
src=$tmp/hob-$version
mkdir "$src"
if git -C "$top" rev-parse --show-toplevel >/dev/null 2>&1; then
    (cd "$top" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf -)
else
    tar -C "$top" --exclude='./build*' --exclude=./.git -cf - .
fi 2>"$tmp/log" | tar -C "$src" -xf -
[ -f "$src/meson.build" ] || { cat "$tmp/log" >&2; say "the sources could not be copied"; exit 1; }
mv "$src/packaging/debian" "$src/debian"
rm -rf "$src/.ci"

say "building"
# debhelper sets a temporary HOME. Keep the user's ccache directory.
[ -z "${HOME:-}" ] || export CCACHE_DIR="${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}"
cd "$src"
quietly dpkg-buildpackage -us -uc
for file in "$tmp"/hob*_"$version"*.*; do
    cp "$file" "$out"
    case $file in *.deb) printf '%s\n' "$out/${file##*/}" ;; esac
done
