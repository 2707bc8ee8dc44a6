#!/bin/sh
# SPDX-License-Identifier: MIT
# Install, use, upgrade and purge the packages in DIR (from sh packaging/build-deb.sh DIR) in a separate bookworm.
# usage: sh packaging/test-deb.sh [--build] DIR [BASE]
#   --build     first build the packages into DIR, from the last commit, in another bookworm without other packages
#   BASE        a directory from debootstrap --variant=minbase bookworm, which is copied (default: run debootstrap)
#   HOB_BUILD   a build with tests, for tests/support/mktiny (default: build)
# The exit status is 0 (passed), 1 (failed), 2 (usage) or 77 (cannot run here; the output has the reason).
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=packaging/bookworm.sh disable=SC1091
. "$top/packaging/bookworm.sh"
build=
if [ "${1:-}" = --build ]; then
    build=$1
    shift
fi
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: sh packaging/test-deb.sh [--build] DIR [BASE]" >&2
    exit 2
fi
dir=$1
base=${2:-}
# shellcheck disable=SC2086 # a word or none
alone "$base" $build "$@"
tmp=$(mktemp -d)
root=$tmp/builder
begin

# The user has no login session, so this script makes the runtime directory.
as_user() { in_root setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/plain XDG_RUNTIME_DIR=/home/plain/run "$@"; }
# List all files except those of the package manager, the user's home, and directories that change by themselves.
list() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./run -o -path ./tmp -o -path ./home \
        -o -path ./var/log -o -path ./var/cache/apt -o -path ./var/lib/apt -o -path ./var/lib/dpkg \
        -o -path ./var/cache/ldconfig -o -path ./var/cache/debconf \) -prune -o -print) | sort
}

if [ -n "$build" ]; then
    make_root "$base"
    quietly git clone -q --no-local --depth 1 "$top" "$root/src"
    say "building $(git -C "$root/src" log -1 --format='%h (%s)')"
    quietly in_root sh /src/packaging/build-deb.sh /debs
    mkdir -p "$dir"
    cp "$root/debs"/* "$dir"
    leave_root
    rm -rf --one-file-system "$root"
fi
hob_deb=$(find_deb "$dir" hob)
hobd_deb=$(find_deb "$dir" hobd)
http_deb=$(find_deb "$dir" hob-http)
cuda_deb=$(find "$dir" -maxdepth 1 -name 'hob-cuda_*.deb') # none, where nvcc was not there
root=$tmp/root
make_root "$base"
quietly in_root useradd --uid 1000 --create-home plain
mkdir "$root/home/plain/run"
chown 1000:1000 "$root/home/plain/run"
chmod 700 "$root/home/plain/run"
# shellcheck disable=SC2086 # one or none
add_debs "$hob_deb" "$hobd_deb" "$http_deb" $cuda_deb
apt install systemd curl
list >"$tmp/before"
cp "$root/etc/passwd" "$tmp/passwd"
cp "$root/etc/group" "$tmp/group"

apt install "/debs/${hob_deb##*/}" "/debs/${hobd_deb##*/}" "/debs/${http_deb##*/}"
say "installed: hob, hobd and hob-http $(dpkg-deb -f "$hobd_deb" Version)"
in_root getent passwd hob >/dev/null || die "no user hob"
[ -d "$root/var/lib/hob/models" ] || die "no /var/lib/hob/models"

units="hob.service hob.socket hobd@tiny.service hobd@tiny.socket hob-http.service hob-http.socket"
# shellcheck disable=SC2086 # a list of names
in_root systemd-analyze verify --man=no $units >"$tmp/log" 2>&1 || { cat "$tmp/log"; die "systemd-analyze verify"; }
# shellcheck disable=SC2086
as_user systemd-analyze verify --user --man=no $units >>"$tmp/log" 2>&1 || { cat "$tmp/log"; die "systemd-analyze verify --user"; }
! grep -i hob "$tmp/log" || die "systemd-analyze verify: a warning about a unit"
say "systemd-analyze verify: clean, system and user: $units"
for unit in hob hobd@ hob-http; do
    quietly in_root systemd-analyze security --no-pager --offline=true --threshold=10 /lib/systemd/system/$unit.service
done
say "systemd-analyze security: the exposure of hob, hobd@ and hob-http is at most 1.0"

as_user hob media - <"$top/packaging/doc/page.png" >"$tmp/media" || die "hob media"
grep -q 'image: PNG, .* digest' "$tmp/media" || { cat "$tmp/media"; die "hob media of page.png"; }

quietly "$(mktiny)" -o "$tmp/tiny.gguf"
models=/home/plain/.local/share/hob/models
quietly as_user mkdir -p $models
install -o 1000 -g 1000 "$tmp/tiny.gguf" "$root$models/default.gguf"

# Use hob as a user does: the client starts the daemon.
use() {
    as_user hob -q --no-stdin -n 8 --temp 0 --seed 1 --raw -S kept "once upon" >"$tmp/answer" || die "hob does not answer"
    [ -s "$tmp/answer" ] || die "an empty answer"
    as_user hob status >"$tmp/status" || die "hob status"
    quietly as_user hob stop
    ! as_user hob status >/dev/null 2>&1 || die "the daemon is still there after hob stop"
}
# The same through hob-http, which a connection to its socket starts.
use_http() {
    http=/home/plain/run/http.sock
    as_user systemd-socket-activate -l $http -E HOME -E XDG_RUNTIME_DIR hob-http >"$tmp/http" 2>&1 &
    for _ in $(seq 100); do
        [ ! -S "$root$http" ] || break
        sleep 0.1
    done
    as_user hob -q --no-stdin -n 1 --raw "the daemon runs" >/dev/null || die "hob does not answer"
    as_user curl -sS --fail-with-body --unix-socket $http -H "Content-Type: application/json" \
        -d '{"model": "default", "prompt": "once upon", "max_tokens": 8}' http://localhost/v1/completions >"$tmp/answer" 2>&1 ||
        { cat "$tmp/http"; die "hob-http does not answer: $(cat "$tmp/answer")"; }
    grep -q '"completion_tokens": *8' "$tmp/answer" || die "hob-http answers: $(cat "$tmp/answer")"
    kill $!
    wait $! 2>/dev/null || true
    rm -f "$root$http"
    quietly as_user hob stop
}
use
use_http
# Without a GPU: hob-cuda says what is missing, auto does without, and the units are still right.
use_cuda() {
    as_user hobd serve --device cuda --socket /home/plain/run/cuda.sock >"$tmp/cuda" 2>&1 && die "hobd serves with a GPU that is not there"
    grep -q "$1" "$tmp/cuda" || { cat "$tmp/cuda"; die "hobd serve --device cuda does not say: $1"; }
}
use_cuda "(package hob-cuda) is not installed"
if [ -n "$cuda_deb" ]; then
    apt install --no-install-recommends "/debs/${cuda_deb##*/}"
    use_cuda "there is no CUDA driver"
    # shellcheck disable=SC2086
    in_root systemd-analyze verify --man=no $units >"$tmp/log" 2>&1 || { cat "$tmp/log"; die "systemd-analyze verify, with hob-cuda"; }
    mkdir -p "$root/home/plain/.config/hob"
    echo "device = auto" >"$root/home/plain/.config/hob/hobd.conf"
    use
    rm -r "$root/home/plain/.config/hob"
    apt purge hob-cuda
    say "hob-cuda: installed, without a GPU, and purged"
fi
grep -q "^state: ready" "$tmp/status" || die "hob status says: $(cat "$tmp/status")"
apt install --reinstall "/debs/${hob_deb##*/}" "/debs/${hobd_deb##*/}" "/debs/${http_deb##*/}"
use
use_http
as_user hob -q --no-stdin -n 1 --raw -S kept " more" >/dev/null || die "the session is missing after the upgrade"
quietly as_user hob stop
say "used as a plain user, directly and through HTTP, reinstalled, used again"

quietly in_root hob-http key add ada --keys /etc/hob/keys
apt remove hob-http
[ -s "$root/etc/hob/keys" ] || die "the removal of hob-http has removed the keys of the clients"
[ -z "$(in_root find / -xdev -path /proc -prune -o -name '*hob-http*' ! -path '/debs/*' \
    ! -path '/var/lib/dpkg/*' ! -path '/var/lib/systemd/*' -print)" ] || die "the removal of hob-http has left files"
apt purge hob-http
[ ! -e "$root/etc/hob/keys" ] || die "the purge of hob-http has left the keys of the clients"
use
say "removed hob-http, which keeps the keys of clients, and purged it; hob is used again"

# Make the files that a system daemon and its administrator leave.
install -D "$tmp/tiny.gguf" "$root/var/lib/hob/models/ours.gguf"
mkdir -p "$root/var/cache/hob/packed" "$root/var/lib/hob/ours/1000"
: >"$root/var/cache/hob/packed/x"
: >"$root/var/lib/hob/ours/secret"
apt purge hob hobd
list >"$tmp/after"
LC_ALL=C comm -13 "$tmp/before" "$tmp/after" >"$tmp/more"
printf '%s\n' ./var/lib/hob ./var/lib/hob/models ./var/lib/hob/models/ours.gguf | cmp -s - "$tmp/more" ||
    { cat "$tmp/more"; die "purge left these files; only the administrator's model should remain"; }
LC_ALL=C comm -23 "$tmp/before" "$tmp/after" >"$tmp/less"
[ ! -s "$tmp/less" ] || { cat "$tmp/less"; die "purge removed these files, which do not belong to the packages"; }
for file in passwd group; do
    grep -vE '^hob(-http)?:' "$root/etc/$file" | cmp -s - "$tmp/$file" || die "/etc/$file has changes other than the users hob and hob-http"
done
[ -n "$(find "$root/home/plain/.local/state/hob" -type f)" ] || die "the user's sessions are missing"
say "purged: the user hob, the administrator's model and the plain user's files remain"
say "passed"
