# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2154
# For the scripts that try the packages in a Debian bookworm of its own: sourced, not run. They set top (the checkout), tmp (a
# folder to work in), root (the bookworm's place in it) and base (what is copied to it; empty: to be made).

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { say "FAILED: $*"; exit 1; }
skip() { say "skipped: $*"; exit 77; }

# Makes a model.
mktiny() { printf '%s\n' "${HOB_BUILD:-$top/build}/tests/support/mktiny"; }

# alone BASE ARG…: go on (with these arguments) in namespaces of our own, with which all mounts and processes end.
alone() {
    [ -z "${HOB_DEB_INSIDE:-}" ] || return 0
    [ "$(id -u)" = 0 ] || skip "needs root, for a chroot"
    [ -n "$1" ] || command -v debootstrap >/dev/null 2>&1 || skip "debootstrap is not installed, and no BASE is given"
    unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces here"
    [ -x "$(mktiny)" ] || skip "no $(mktiny) (meson setup build -Dtests=enabled && meson compile -C build)"
    shift
    HOB_DEB_INSIDE=1 exec unshare --mount --pid --fork --kill-child --mount-proc sh "$0" "$@"
}

# quietly COMMAND…: what it says is shown only when it fails, and then we end.
quietly() {
    "$@" >"$tmp/log" 2>&1 </dev/null || { cat "$tmp/log"; die "$*"; }
}

in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
apt() { quietly in_root apt-get -qq -y --no-install-recommends "$@"; }

# find_deb DIR NAME: its path.
find_deb() {
    found=$(find "$1" -maxdepth 1 -name "$2_*.deb")
    [ -f "$found" ] || die "$1 should have one $2_*.deb" >&2
    printf '%s\n' "$found"
}

# begin: tmp is not kept, and base exists.
begin() {
    trap 'leave_root; rm -rf --one-file-system "$tmp"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    [ -n "$base" ] || { make_base && base=$tmp/base; }
}

# make_base: what make_root copies, from the mirror that this machine uses.
make_base() {
    # shellcheck disable=SC2016 # apt's words, not the shell's
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
        awk '$2 == "bookworm" { print $1; exit }')
    say "debootstrap --variant=minbase bookworm, from ${mirror:=http://deb.debian.org/debian}"
    quietly debootstrap --variant=minbase bookworm "$tmp/base" "$mirror"
}

# make_root BASE: a minimal bookworm that can be used with in_root, in which nothing is started.
make_root() {
    quietly cp -a "$1" "$root"
    apt-config dump | grep -E '^Acquire::(http|https)::(Proxy|Timeout)' >"$root/etc/apt/apt.conf.d/90machine" || true
    echo 'APT::Sandbox::User "root";' >>"$root/etc/apt/apt.conf.d/90machine"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    apt update
}

# leave_root: before anything removes it, the machine's devices among the rest.
leave_root() { umount --recursive --lazy "$root/proc" "$root/dev" 2>/dev/null || true; }

# add_debs DEB…: put into /debs, and what they depend on installed.
add_debs() {
    mkdir "$root/debs"
    cp "$@" "$root/debs"
    for deb in "$@"; do
        apt satisfy "$(dpkg-deb -f "$deb" Depends)"
    done
}
