#!/bin/sh
# SPDX-License-Identifier: MIT
# Boot a separate bookworm with systemd, and use the packages in DIR in it as an administrator and as users.
# usage: sh packaging/test-boot.sh DIR [BASE]
#   DIR, BASE, HOB_BUILD   as for test-deb.sh
# Needs systemd-nspawn (package systemd-container). The exit status is 0 (passed), 1 (failed), 2 (usage) or 77 (cannot run
# here).
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=packaging/bookworm.sh disable=SC1091
. "$top/packaging/bookworm.sh"
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: sh packaging/test-boot.sh DIR [BASE]" >&2
    exit 2
fi
base=${2:-}
command -v systemd-nspawn >/dev/null 2>&1 || skip "systemd-nspawn is not installed (package systemd-container)"
alone "$base" "$@"
tmp=$(mktemp -d)
root=$tmp/root
begin
hob_deb=$(find_deb "$1" hob)
hobd_deb=$(find_deb "$1" hobd)
http_deb=$(find_deb "$1" hob-http)
make_root "$base"
add_debs "$hob_deb" "$hobd_deb" "$http_deb"
apt install systemd systemd-sysv dbus libpam-systemd dbus-user-session procps curl
quietly "$(mktiny)" -o "$root/tiny.gguf"
cp "$top/packaging/test-boot-inside.sh" "$root/inside.sh"
rm "$root/usr/sbin/policy-rc.d"
cat >"$root/etc/systemd/system/test-boot.service" <<'END'
[Unit]
After=dbus.socket systemd-logind.service
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=sh /inside.sh
StandardOutput=file:/said
StandardError=inherit
[Install]
WantedBy=multi-user.target
END
quietly in_root systemctl enable test-boot.service
leave_root
# The default filter of systemd-nspawn does not allow the landlock calls. The machine's ports may be in use.
systemd-nspawn --private-network --quiet --directory="$root" --register=no --keep-unit --console=pipe \
    --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" --boot >"$tmp/log" 2>&1 </dev/null ||
    true
[ -f "$root/said" ] || { cat "$tmp/log"; die "systemd-nspawn cannot boot systemd here"; }
sed "s/^/test-boot: /" "$root/said"
tail -n 1 "$root/said" | grep -qx passed || exit 1
