#!/bin/sh
# SPDX-License-Identifier: MIT
# Run the units of users in a service manager of a user (systemd --user), as root, in namespaces of its own: test_units.py.
# usage: unshare -mpf --kill-child --mount-proc sh user-manager.sh BUILD UNITS MODEL UID
# BUILD has hobd and hob, UNITS the sockets; /srv, /run, /dev/shm and /dev/mqueue are replaced in the namespace.
# It prints what the programs print. 77: this machine cannot do it.
set -eu
build=$1 units=$2 model=$3 uid=$4
home=/srv/home
skip() { echo "skipped: $*"; exit 77; }

# The manager needs control groups of its own.
for at in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [ -f "$at/cgroup.procs" ] || continue
    mkdir -p "$at/hob-test-units" || skip "no control group in $at"
    echo $$ >"$at/hob-test-units/cgroup.procs" || skip "no control group in $at"
    chown -R "$uid" "$at/hob-test-units"
done
mount --make-rprivate / || skip "no mounts"
mkdir -p /dev/mqueue
for at in /run /srv /dev/shm; do mount -t tmpfs -o mode=755 none "$at"; done
mount -t mqueue none /dev/mqueue || skip "no message queues"
chmod 1777 /dev/shm
mkdir -p /run/systemd/system /run/systemd/unit-root "/run/user/$uid" /srv/bin "$home/.config/systemd/user" "$home/.config/hob" "$home/.local/share/hob/models"
cp "$build/daemon/hobd" "$build/client/hob" /srv/bin
cp "$model" "$home/.local/share/hob/models/default.gguf"
cp "$units/hob.socket" "$home/.config/systemd/user"
sed 's|^ExecStart=[^ ]*|ExecStart=/srv/bin/hobd|' "$build/packaging/systemd/user/hob.service" >"$home/.config/systemd/user/hob.service"
printf '[Service]\nStandardError=append:%s/log\nEnvironment=HOME=%s\n' "$home" "$home" >>"$home/.config/systemd/user/hob.service"
chown -R "$uid:$uid" "$home" "/run/user/$uid"
chmod 700 "/run/user/$uid" "$home"

user() { (cd "$home" && env -i PATH="$PATH" HOME="$home" XDG_RUNTIME_DIR="/run/user/$uid" TERM=dumb setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"); }
user /lib/systemd/systemd --user >/dev/null 2>&1 &
i=0
until user systemctl --user is-system-running --quiet 2>/dev/null; do
    i=$((i + 1))
    [ $i -lt 50 ] || skip "systemd --user does not start"
    sleep 0.1
done
user systemctl --user start hob.socket
user timeout 60 /srv/bin/hob -S kept -n 2 --ignore-eos hello
user systemctl --user show -P ActiveState -P SubState hob.service
user systemctl --user restart hob.service
user timeout 60 /srv/bin/hob sessions
echo "queue = 77" >"$home/.config/hob/hobd.conf"
chown "$uid" "$home/.config/hob/hobd.conf"
user systemctl --user reload hob.service
HOB_SOCKET=/run/user/$uid/hob/default.sock timeout 60 /srv/bin/hob -n 2 --ignore-eos "from root"
grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$(user systemctl --user show -P MainPID hob.service)/status"
user readlink "/proc/$(user systemctl --user show -P MainPID hob.service)/ns/net" | grep -qvx "$(readlink /proc/self/ns/net)" && echo "another network"
cat "$home/log"
