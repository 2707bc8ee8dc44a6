# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Functions for scripts that install packages. Source this file; do not run it. debian/control lists the same packages.
build_packages="gcc libc6-dev meson pkg-config libcurl4-openssl-dev libedit-dev libjansson-dev libjpeg62-turbo-dev libmd-dev
    libmicrohttpd-dev libmsgpack-dev libpcre2-dev libsndfile1-dev libsoxr-dev libspng-dev libsqlite3-dev libsystemd-dev libwebp-dev
    libxxhash-dev zlib1g-dev"

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "root or sudo is needed to run: $*" >&2
        return 1
    fi
}

# need PACKAGE…: install the missing packages. Print the output of apt only if it fails.
need() {
    missing=
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    printf '%s: installing%s\n' "$(basename "$0" .sh)" "$missing" >&2
    # shellcheck disable=SC2086 # a list of names
    said=$({ as_root apt-get -qq update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends $missing; } 2>&1 </dev/null) || { printf '%s\n' "$said" >&2; return 1; }
}

# need_to_build PACKAGE…: install the build dependencies and these packages.
need_to_build() {
    # shellcheck disable=SC2086 # a list of names
    need $build_packages "$@"
}
