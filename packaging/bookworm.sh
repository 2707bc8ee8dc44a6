# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2154
# Functions for the scripts that test the packages in a separate Debian bookworm. Source this file; do not run it. The scripts
# set top (the checkout), tmp (a temporary directory), root (the bookworm in tmp) and base (the directory to copy to root; empty:
# run debootstrap).

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { say "FAILED: $*"; exit 1; }
skip() { say "skipped: $*"; exit 77; }

# Print the path of the program that generates a tiny model.
mktiny() { printf '%s\n' "${HOB_BUILD:-$top/build}/tests/support/mktiny"; }

# alone BASE ARG…: run this script again, with these arguments, in new mount and pid namespaces. All mounts and processes end
# with them.
alone() {
    [ -z "${HOB_DEB_INSIDE:-}" ] || return 0
    [ "$(id -u)" = 0 ] || skip "needs root, for a chroot"
    [ -n "$1" ] || command -v debootstrap >/dev/null 2>&1 || skip "debootstrap is not installed, and no BASE is given"
    unshare --mount --pid --fork true 2>/dev/null || skip "unshare cannot create namespaces here"
    [ -x "$(mktiny)" ] || skip "$(mktiny) is missing; to build it: meson setup build -Dtests=enabled && meson compile -C build"
    shift
    HOB_DEB_INSIDE=1 exec unshare --mount --pid --fork --kill-child --mount-proc sh "$0" "$@"
}

# quietly COMMAND…: if the command fails, print its output and exit.
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

# begin: remove tmp at exit; run debootstrap if base is empty.
begin() {
    trap 'leave_root; rm -rf --one-file-system "$tmp"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    [ -n "$base" ] || { make_base && base=$tmp/base; }
}

# make_base: make the directory that make_root copies, from this machine's Debian mirror.
make_base() {
    # shellcheck disable=SC2016 # apt's words, not the shell's
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
        awk '$2 == "bookworm" { print $1; exit }')
    say "debootstrap --variant=minbase bookworm, from ${mirror:=http://deb.debian.org/debian}"
    quietly debootstrap --variant=minbase bookworm "$tmp/base" "$mirror"
}

# make_root BASE: make a minimal bookworm for in_root. No services start in it.
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

# leave_root: unmount /proc and /dev of root. Call this before root is removed, which would delete the machine's devices.
leave_root() { umount --recursive --lazy "$root/proc" "$root/dev" 2>/dev/null || true; }

# add_debs DEB…: copy the packages into /debs and install their dependencies.
add_debs() {
    mkdir "$root/debs"
    cp "$@" "$root/debs"
    for deb in "$@"; do
        apt satisfy "$(dpkg-deb -f "$deb" Depends)"
    done
}
