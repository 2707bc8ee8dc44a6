#!/bin/sh
# SPDX-License-Identifier: MIT
# test-boot.sh runs this script as root in the bookworm that it boots. /debs has the packages, /tiny.gguf is a model.
set -eu

say() { printf '%s\n' "$*"; }
die() {
    say "FAILED: $*"
    journalctl -q --no-pager -n 40
    exit 1
}

conf=/etc/hob/hobd.conf
sock=/run/hob/default.sock

# as USER COMMAND…: run the command as this user, without root's environment.
as() {
    user=$1
    shift
    runuser -u "$user" -- env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="/home/$user" \
        XDG_RUNTIME_DIR="/run/user/$(id -u "$user")" "$@"
}
ask() {
    user=$1
    shift
    as "$user" hob --no-stdin -q -n 4 --ignore-eos --temp 0 "$@"
}
# told UNIT TEXT: check that the unit's journal has this text.
told() {
    journalctl --sync
    journalctl -q -o cat -u "$1" | grep -qF -- "$2" || die "the journal of $1 does not have: $2"
}
same() { [ "$1" = "$2" ] || die "$3: '$1' instead of '$2'"; }
# until_true COMMAND…: repeat the command until it succeeds, for at most a minute.
until_true() {
    for _ in $(seq 600); do
        ! "$@" || return 0
        sleep 0.1
    done
    die "still failing after a minute: $*"
}
pid_of() { systemctl show -P MainPID "$1"; }
cached() { sed -n 's/.*"cached":\([0-9]*\),"completion".*/\1/p'; }
long="Once upon a time there was a little girl who lived in a house by the sea, with a dog, a cat and a very old clock."

dpkg_does() { dpkg "$@" >/said.err 2>&1 || die "dpkg $*: $(cat /said.err)"; }

test_install() {
    dpkg_does -i /debs/*.deb
    same "$(systemctl is-enabled hob.socket || true)" disabled "hob.socket as installed"
    for user in alice bob carol; do useradd --create-home "$user"; done
    usermod -aG hob alice
    install -D -m 644 /tiny.gguf /usr/share/hob/models/default.gguf
    mkdir -p /etc/hob/prefixes
    echo "$long" >/etc/hob/prefixes/story.txt
    echo "verbose = yes" >$conf
    systemctl -q enable --now hob.socket
    same "$(stat -c '%U %G %a' $sock)" "hob hob 660" "$sock"
}

test_service() {
    first=$(ask alice hi)
    [ -n "$first" ] || die "an empty answer"
    ! as bob env HOB_SOCKET=$sock hob --no-stdin hi 2>/said.err || die "who is not in group hob may use $sock"
    grep -q "ermission denied" /said.err || die "who is not in group hob is not told: $(cat /said.err)"
    told hob.service "sandbox: system calls are limited"
    ! journalctl -q -o cat -u hob.service | grep "sandbox: .* not limited:" || die "a part of the sandbox is not active"
    grep -q '^Seccomp:.*2' "/proc/$(pid_of hob)/status" || die "no seccomp"
    until_true sh -c "hob status --json | grep -q '\"disk\": *true'"
    said=$(ask alice -s "$long" --jsonl hi | cached)
    [ "${said:-0}" -ge 32 ] || die "the administrator's prefix was not found: '$said' tokens"
    install -m 644 /tiny.gguf /var/lib/hob/models/default.gguf
    systemctl stop hob.service 2>/dev/null
    [ -S $sock ] || die "a stop of the service has taken the socket away"
    same "$(ask alice hi)" "$first" "the answer of the same model elsewhere"
    hob status --json | grep -q '"path": *"/var/lib/hob/models/default.gguf"' || die "the administrator's model is not first"
    say "hob.socket: starts hob.service, for group hob only, in its sandbox; a prefix is found; a stop leaves the socket"
}

test_warm() {
    ask alice -S kept "$long" >/dev/null
    systemctl stop hob.service 2>/dev/null
    said=$(ask alice -S kept --jsonl "and then?" | cached)
    [ "${said:-0}" -ge 32 ] || die "after a stop the session was read anew: '$said' tokens cached"
    echo "idle-exit = 1ms" >$conf
    systemctl stop hob.service 2>/dev/null
    for i in $(seq 100); do ask alice hi >/dev/null || die "activation $i"; done
    systemctl is-active -q hob.socket || die "hob.socket has failed"
    same "$(systemctl show -P NRestarts hob)" 0 "restarts of hob.service"
    n=$(journalctl --sync && journalctl -q -o cat -u hob.service | grep -c "no request for the time of --idle-exit")
    say "warm after a stop ($said tokens found); 100 requests in a row with --idle-exit 1ms: answered, by $n daemons"
}

test_reload() {
    echo "idle-exit = 0" >$conf
    systemctl stop hob.service 2>/dev/null
    ask alice hi >/dev/null
    printf 'idle-exit = 10min\nqueue = 7\nparallel = 3\n' >$conf
    systemctl reload hob.service
    told hob.service "SIGHUP: applied: idle-exit, queue"
    told hob.service "these settings need a restart: parallel"
    same "$(systemctl show -P StatusText hob)" "Serving default; a restart is pending" "the status after a reload"
    echo "qeueu = 7" >$conf
    systemctl reload hob.service
    wrong="$conf:1: unknown key 'qeueu', nearest is 'queue'"
    told hob.service "SIGHUP: nothing changes, hobd.conf is invalid: $wrong"
    ask alice hi >/dev/null || die "a wrong file at a reload has ended the daemon"
    systemctl stop hob.service 2>/dev/null
    fails hob "$wrong" -m default
    rm $conf
    say "reload: the log lists applied settings, settings that need a restart, and errors; a start reports a wrong key"
}

# fails UNIT TEXT OPTION…: check that client and journal show TEXT as the reason why the daemon does not start.
fails() {
    unit=$1
    why=$2
    shift 2
    ! ask alice "$@" hi 2>/said.err || die "answered, where it should not: $why"
    grep -qF -- "$why" /said.err || die "the user is told: $(cat /said.err)"
    until_true systemctl is-failed -q "$unit.service"
    told "$unit.service" "$why"
    systemctl status --no-pager --full "$unit.service" >/said.status || true
    grep -F "Status: " /said.status | grep -qF -- "$why" || die "systemctl status $unit does not say: $why: $(cat /said.status)"
    systemctl is-active -q "$unit.socket" || die "$unit.socket has failed"
}

test_models() {
    install -m 644 /tiny.gguf /var/lib/hob/models/tiny-1.5.gguf
    systemctl -q start hobd@tiny-1.5.socket hobd@none.socket
    ask alice hi >/dev/null
    before=$(pid_of hob)
    [ -n "$(ask alice -m tiny-1.5 hi)" ] || die "an empty answer"
    systemctl is-active -q hobd@tiny-1.5.service || die "who has answered?"
    same "$(pid_of hob)" "$before" "hob.service, which had nothing to do with it"
    fails hobd@none "no model 'none': tried /var/lib/hob/models/none.gguf and /usr/share/hob/models/none.gguf" -m none
    mkdir -m 711 /home/alice/models
    install -m 644 /tiny.gguf /home/alice/models/hers.gguf
    ln -s /home/alice/models/hers.gguf /var/lib/hob/models/hers.gguf
    systemctl -q start hobd@hers.socket
    fails hobd@hers "/var/lib/hob/models/hers.gguf: Permission denied" -m hers
    head -c 5000 /tiny.gguf >/var/lib/hob/models/cut.gguf
    systemctl -q start hobd@cut.socket
    fails hobd@cut "/var/lib/hob/models/cut.gguf: " -m cut
    say "hobd@NAME: a daemon a model; a model that is missing, out of reach or damaged is told to user and administrator"
}

replaced() { [ "$(pid_of hob)" != "$1" ] && systemctl is-active -q hob.service; }
test_watchdog() {
    mkdir -p /run/systemd/system/hob.service.d
    printf '[Service]\nWatchdogSec=2s\n' >/run/systemd/system/hob.service.d/test.conf
    systemctl daemon-reload
    systemctl stop hob.service 2>/dev/null
    ask alice hi >/dev/null
    before=$(pid_of hob)
    kill -STOP "$before"
    until_true replaced "$before"
    told hob.service "Watchdog timeout"
    ask alice -S kept hi >/dev/null || die "no answer after the watchdog"
    rm -r /run/systemd/system/hob.service.d
    systemctl daemon-reload
    say "watchdog: a daemon that stands still is replaced"
}

test_user() {
    # systemd-nspawn has mounted a fifo over /proc/kmsg and removed it. In a user namespace it stays, and over a removed file nothing
    # can be mounted, which ProtectKernelLogs= does.
    umount /proc/kmsg 2>/dev/null || true
    loginctl enable-linger carol
    until_true as carol systemctl --user is-active -q sockets.target 2>/said.err
    as carol mkdir -p /home/carol/.local/share/hob/models
    for name in default tiny; do
        install -o carol -m 600 /tiny.gguf "/home/carol/.local/share/hob/models/$name.gguf"
    done
    as carol systemctl --user -q enable --now hob.socket hobd@tiny.socket hobd@none.socket
    dir=/run/user/$(id -u carol)/hob
    same "$(stat -c '%U %a' "$dir" "$dir/default.sock" "$dir/tiny.sock" | tr '\n' ' ')" "carol 700 carol 600 carol 600 " "$dir"
    for name in default tiny; do
        [ -n "$(ask carol -m $name hi)" ] || die "an empty answer"
    done
    as carol systemctl --user is-active hob.service hobd@tiny.service >/dev/null || die "no units of the user's are active"
    as carol systemctl --user reload hob.service || die "reload of a user's service"
    ! ask carol -m none hi 2>/said.err || die "there is no such model"
    grep -q "no model 'none'" /said.err || die "the user is told: $(cat /said.err)"
    as carol systemctl --user stop hob.service 2>/dev/null
    [ -S "$dir/default.sock" ] || die "a stop of the user's service has taken the socket away"
    ask carol hi >/dev/null
    as carol hob stop
    until_true sh -c "! pgrep -u carol -f 'hobd serve$' >/dev/null"
    ask carol hi >/dev/null
    as carol systemctl --user -q disable --now hob.socket hobd@tiny.socket hobd@none.socket 2>/dev/null
    [ ! -e "$dir/default.sock" ] || die "the user's socket outlives its unit"
    say "user units: hob.socket and hobd@NAME.socket of a plain user, at the user's own places"
}

# Ask the gateway as a program of this machine does.
web() {
    curl -sS --max-time 60 --fail-with-body -H "Content-Type: application/json" "$@" 2>&1
}
chat='{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "temperature": 0, "ignore_eos": true}'
test_http() {
    same "$(systemctl is-enabled hob-http.socket || true)" disabled "hob-http.socket as installed"
    systemctl -q enable --now hob-http.socket
    systemctl stop hob.service 2>/dev/null
    said=$(web -d "$chat" http://127.0.0.1:8080/v1/chat/completions) || die "hob-http: $said"
    case $said in *'"completion_tokens":4'* | *'"completion_tokens": 4'*) ;; *) die "hob-http answers: $said" ;; esac
    systemctl is-active -q hob.service || die "a request through HTTP does not start hob.service"
    before=$(pid_of hob-http)
    said=$(web "http://[::1]:8080/v1/models") || die "/v1/models: $said"
    case $said in *tiny-1.5*) ;; *) die "/v1/models has no tiny-1.5: $said" ;; esac
    same "$(pid_of hob-http)" "$before" "the process of hob-http"
    grep -q '^Seccomp:.*2' "/proc/$before/status" || die "hob-http runs without seccomp"
    same "$(stat -c %U "/proc/$before")" hob-http "the user of hob-http"
    grep -q "^Groups:.*\b$(getent group hob | cut -d: -f3)\b" "/proc/$before/status" || die "hob-http is not in the group hob"

    chat_of_root=${chat%\}}', "session": "of-root"}'
    said=$(web -d "$chat_of_root" http://127.0.0.1:8080/v1/chat/completions) || die "a session of root: $said"
    case $(web http://127.0.0.1:8080/hob/sessions) in *of-root*) ;; *) die "root does not see its session" ;; esac
    said=$(as carol curl -sS --max-time 60 http://127.0.0.1:8080/hob/sessions) || die "sessions of carol: $said"
    case $said in *of-root*) die "carol sees a session of root: $said" ;; *'"sessions"'*) ;; *) die "sessions of carol: $said" ;; esac

    ! journalctl -q -o cat -u hob-http.service | grep "sandbox: .* not limited:" || die "a part of hob-http's sandbox is not active"
    ! journalctl -q -o cat -u hob-http.service | grep "need keys" || die "hob-http does not see the users of connections"

    key=$(hob-http key add ada --keys /etc/hob/keys) || die "hob-http key add"
    chgrp hob /etc/hob/keys
    chmod 640 /etc/hob/keys
    systemctl restart hob-http.service
    ! said=$(web -d "$chat" http://127.0.0.1:8080/v1/chat/completions) || die "answered without a key: $said"
    said=$(web -H "Authorization: Bearer $key" -d "$chat" http://127.0.0.1:8080/v1/chat/completions) || die "with a key: $said"
    systemctl stop hob-http.service 2>/dev/null
    said=$(web http://127.0.0.1:8080/health) || die "after a stop: $said"

    as carol systemctl --user -q start hob.socket
    systemctl -q stop hob-http.socket hob-http.service 2>/dev/null
    as carol systemctl --user -q enable --now hob-http.socket
    said=$(web -d "$chat" http://127.0.0.1:8080/v1/chat/completions) || die "hob-http of a user: $said"
    same "$(stat -c %U "/proc/$(as carol systemctl --user show -P MainPID hob-http)")" carol "the user of a user's hob-http"
    ! journalctl -q -o cat _COMM=hob-http | grep -e "not limited:" -e "need keys" || die "the sandbox of a user's hob-http is not active"
    as carol systemctl --user -q disable --now hob-http.socket hob.socket 2>/dev/null
    as carol systemctl --user -q stop hob-http.service hob.service 2>/dev/null
    systemctl -q start hob-http.socket
    say "hob-http.socket: starts hob-http.service, as a user of its own in a sandbox, which starts hobd; keys; a user's unit"
}

test_remove_http() {
    web http://127.0.0.1:8080/health >/dev/null || die "hob-http does not run"
    before=$(pid_of hob-http)
    dpkg_does -i /debs/hob-http_*.deb
    web http://127.0.0.1:8080/health >/dev/null || die "hob-http has not come back after an upgrade"
    [ "$(pid_of hob-http)" != "$before" ] || die "hob-http is not restarted by an upgrade"
    dpkg_does --purge hob-http
    ! pgrep -x hob-http >/dev/null || die "a gateway outlives the package"
    ! web http://127.0.0.1:8080/health >/dev/null || die "the socket of hob-http outlives the package"
    systemctl reset-failed
    for unit in hob-http.socket hob-http.service; do same "$(systemctl show -P LoadState $unit)" not-found "$unit"; done
    [ ! -e /etc/hob/keys ] || die "left: /etc/hob/keys"
    say "hob-http: an upgrade restarts it; a purge stops it and removes the keys"
}

test_remove() {
    ask alice hi >/dev/null
    ask alice -m tiny-1.5 hi >/dev/null
    before="$(pid_of hob) $(pid_of hobd@tiny-1.5) $(stat -c %i $sock)"
    dpkg_does -i /debs/hob_*.deb /debs/hobd_*.deb
    ask alice hi >/dev/null
    for unit in hob hobd@tiny-1.5; do
        systemctl is-active -q $unit.service || die "$unit.service has not come back after an upgrade"
        case " $before " in *" $(pid_of $unit) "*) die "$unit.service is not restarted by an upgrade" ;; esac
    done
    same "$(stat -c %i $sock)" "${before##* }" "the socket, over an upgrade"
    dpkg_does --purge hob hobd
    ! pgrep -u hob >/dev/null || die "a daemon outlives the package"
    [ ! -e /run/hob ] || die "left: /run/hob $(ls /run/hob)"
    say "an upgrade restarts what runs and keeps the socket; a purge stops everything"
}

test_install
test_service
test_warm
test_reload
test_models
test_watchdog
test_user
test_http
test_remove_http
test_remove
say passed
