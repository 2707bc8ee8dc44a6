#!/bin/sh
# SPDX-License-Identifier: MIT
# How long the small things take, beside llama.cpp on the same model: one Markdown table of medians, by hyperfine.
# usage: latency.sh [-r RUNS] [PEERDIR [MODEL]]
#   -r N      runs of each (50); of llama.cpp 5, as it takes long
#   PEERDIR   as for table.py; without it llama.cpp is left out
#   MODEL     a name in PEERDIR/models (smollm2.gguf), or a path; without PEERDIR: the model `default` of the user
#   HOB, HOBD in the environment: the programs to run (default: those in build/)
# Warm means: a daemon runs and has read the same prompt before; llama-cli loads the model each time, from the page
# cache. Both run with as many threads as there are CPUs.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
hob=${HOB:-$top/build/client/hob}
hobd=${HOBD:-$top/build/daemon/hobd}
threads=$(getconf _NPROCESSORS_ONLN)
runs=50

usage() {
    sed -n 's/^# \{0,1\}//; 2,9p' "$0" >&2
    exit 2
}

while getopts r: o; do
    case $o in
    r) runs=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 2 ] || usage
command -v hyperfine >/dev/null || { echo "latency: no hyperfine: apt-get install hyperfine" >&2; exit 2; }
for p in "$hob" "$hobd"; do
    [ -x "$p" ] || { echo "latency: no $p: build first, or set HOB and HOBD" >&2; exit 2; }
done
peer=
model=${XDG_DATA_HOME:-$HOME/.local/share}/hob/models/default.gguf
if [ $# -ge 1 ]; then
    peer=$(cd "$1" && pwd)
    model=${2:-smollm2.gguf}
    [ "${model#/}" != "$model" ] || model=$peer/models/$model
fi
[ -r "$model" ] || { echo "latency: no $model" >&2; exit 2; }

work=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null; } || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

export HOB_SOCKET="$work/s" XDG_CONFIG_HOME="$work/config" XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache"
"$hobd" serve -m "$model" --socket "$HOB_SOCKET" --threads "$threads" -q &
daemon=$!
until "$hob" status >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { echo "latency: hobd did not start" >&2; exit 1; }
    sleep 0.1
done
for s in alpha beta gamma; do "$hob" -S $s -n 1 hi >/dev/null 2>&1; done
"$hob" -n 1 hi >/dev/null 2>&1

# The median of COMMAND in ms; $1: runs.
median() {
    n=$1
    shift
    hyperfine -N --style none --warmup 2 --runs "$n" --export-json "$work/json" "$@" >/dev/null </dev/null
    sed -n 's/^ *"median": *\([0-9.e-]*\),*$/\1/p' "$work/json" | awk '{ printf "%.2f", $1 * 1000 }'
}

# The most memory that COMMAND had, in kB (or what Python has, if that is more).
resident() {
    python3 - "$@" <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
END
}

cat >"$work/complete" <<END
. '$top/packaging/completions/hob.bash'
COMP_WORDS=('$hob' -S al) COMP_CWORD=2
_hob '$hob' al -S
[ "\${COMPREPLY[*]}" = alpha ]
END

python3 "$top/tests/bench/wire.py" "$hob" "$runs" >"$work/wire"
start=$(sed -n 's/^ms //p' "$work/wire")
memory=$(sed -n 's/^kB //p' "$work/wire")
first=$(median "$runs" "'$hob' -q -n 1 hi")
status=$(median "$runs" "'$hob' status")
bare=$(median "$runs" "bash --norc -c :")
offered=$(median "$runs" "bash --norc '$work/complete'")

echo "| what | hob | llama.cpp |"
echo "|---|---|---|"
echo "| from exec to the request on the wire, ms | $start | - |"
their_ms=- their_kb=-
if [ -n "$peer" ]; then
    name=$(basename "$model")
    their_ms=$(median 5 "'$peer/run' llama-cli -m '/models/$name' -t $threads -n 1 -st --simple-io --no-warmup -p hi")
    their_kb=$(resident "$peer/run" llama-cli -m "/models/$name" -t "$threads" -n 1 -st --simple-io --no-warmup -p hi)
fi
echo "| \`hob hi\`, warm, one token and the end; llama-cli the same, ms | $first | $their_ms |"
echo "| memory of the client, kB: private when it asks; llama-cli: resident at most | $memory | $their_kb |"
echo "| \`hob status\`, ms | $status | - |"
echo "| completing the name of a session in bash (and bash itself, of this), ms | $offered ($bare) | - |"
if [ -n "$peer" ]; then
    awk -v a="$their_ms" -v b="$first" 'BEGIN { printf "\nllama-cli takes %.0f times as long until its first token.\n", a / b }'
fi
