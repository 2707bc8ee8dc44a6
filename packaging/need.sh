# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For the scripts that install what they need: sourced, not run. debian/control says the same of a build.
build_packages="gcc libc6-dev meson pkg-config libcurl4-openssl-dev libedit-dev libjansson-dev libmd-dev libmsgpack-dev
    libpcre2-dev libsystemd-dev libxxhash-dev"

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "neither root nor sudo for: $*" >&2
        return 1
    fi
}

# need PACKAGE…: install those that are missing. What apt says is shown only when it fails.
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

# need_to_build PACKAGE…: the same for what a build needs, and those.
need_to_build() {
    # shellcheck disable=SC2086 # a list of names
    need $build_packages "$@"
}
