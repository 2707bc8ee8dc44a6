#!/bin/sh
# SPDX-License-Identifier: MIT
# Run hobd and llama.cpp on the same models in turn, and print one Markdown table of medians and ratios.
# usage: compare.sh [-q] [-r ROUNDS] [-t THREADS] PEERDIR [MODEL…]
#   -q        quick: prompts of 512 tokens and decoding only; without it also 4096 tokens, and decoding behind them
#   -r N      rounds (3); each runs both sides once
#   -t N      threads of both sides (the CPUs that are online)
#   PEERDIR   a folder with "run", a program that runs its arguments where llama.cpp is installed, and "models", which
#             is /models there
#   MODEL     names of files in PEERDIR/models (default: those of at least 50 MB)
#   HOBD      in the environment: the hobd to run (default: build/daemon/hobd)
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
hobd=${HOBD:-$top/build/daemon/hobd}
rounds=3
threads=$(getconf _NPROCESSORS_ONLN)
quick=
steps=32

usage() {
    sed -n 's/^# \{0,1\}//; 3,11p' "$0" >&2
    cat >&2 <<'END'

PEERDIR can be any folder. For Debian's llama.cpp in a chroot (as root):
    debootstrap --variant=minbase sid PEERDIR/root
    chroot PEERDIR/root apt-get install llama.cpp-tools llama.cpp-tools-extra
    mkdir -p PEERDIR/models PEERDIR/root/models && mount --bind PEERDIR/models PEERDIR/root/models
    mount -t proc proc PEERDIR/root/proc
    printf '#!/bin/sh\nexec chroot "%s" "$@"\n' PEERDIR/root >PEERDIR/run && chmod +x PEERDIR/run
and .gguf files in PEERDIR/models.
END
    exit 2
}

while getopts qr:t: o; do
    case $o in
    q) quick=1 ;;
    r) rounds=$OPTARG ;;
    t) threads=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
peer=$(cd "$1" 2>/dev/null && pwd) || { echo "compare: no folder $1" >&2; usage; }
shift
"$peer/run" llama-bench --help >/dev/null 2>&1 || { echo "compare: $peer/run llama-bench does not run" >&2; usage; }
[ -x "$hobd" ] || { echo "compare: no $hobd: build first, or set HOBD" >&2; exit 2; }
if [ $# = 0 ]; then
    # shellcheck disable=SC2046 # a list of names
    set -- $(cd "$peer/models" && find . -name '*.gguf' -size +50000k | sed 's,^\./,,' | sort)
    [ $# -ge 1 ] || { echo "compare: no .gguf file in $peer/models" >&2; usage; }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# keep MODEL WORK SIDE VALUE: an empty value is a run that failed; why is said, the others go on.
keep() {
    if [ -n "$4" ]; then
        echo "$1|$2|$3|$4" >>"$work/results"
    else
        echo "compare: $1, $2: no result of $3" >&2
        tail -n 1 "$work/err" >&2
    fi
}

# hob MODEL TOKENS DEPTH BATCHES: both kinds of work in one process, as loading takes a while.
hob() {
    "$hobd" bench -m "$peer/models/$1" -t "$threads" -p "$2" -n "$steps" --depth "$3" -b "$4" -r 1 --json \
        >"$work/out" 2>"$work/err" || :
    keep "$1" "prefill $2" hob "$(sed -n 's/.*"prefill":{"tokens":[0-9]*,"tok_s":\([0-9.]*\).*/\1/p' "$work/out")"
    for b in $(echo "$4" | tr , ' '); do
        keep "$1" "$(decode_name "$b" "$3")" hob \
            "$(sed -n "s/.*{\"batch\":$b,\"depth\":$3,\"tok_s\":\([0-9.]*\).*/\1/p" "$work/out")"
    done
    sed -n 's/.*"read_gbps":\([0-9.]*\),"int8_gops":\([0-9.]*\).*/\1 \2/p' "$work/out" >>"$work/limits"
}

decode_name() {
    if [ "$2" != 0 ]; then
        echo "decode 1 at depth $2"
    else
        echo "decode $1"
    fi
}

# llama_bench MODEL WORK ARGUMENT…
llama_bench() {
    model=$1 what=$2
    shift 2
    "$peer/run" llama-bench -m "/models/$model" -t "$threads" -r 1 -o jsonl "$@" >"$work/out" 2>"$work/err" || :
    keep "$model" "$what" peer "$(sed -n 's/.*"avg_ts": \([0-9.]*\).*/\1/p' "$work/out")"
}

batched_bench() {
    "$peer/run" llama-batched-bench -m "/models/$1" -t "$threads" -c $((16 * (steps + 1))) -npp 1 -ntg $steps -npl 16 \
        --output-format jsonl >"$work/out" 2>"$work/err" || :
    keep "$1" "decode 16" peer "$(sed -n 's/.*"speed_tg": \([0-9.]*\).*/\1/p' "$work/out")"
}

round=0
while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    for model in "$@"; do
        echo "compare: round $round, $model" >&2
        hob "$model" 512 0 1,16
        llama_bench "$model" "prefill 512" -p 512 -n 0
        llama_bench "$model" "decode 1" -p 0 -n "$steps"
        batched_bench "$model"
        [ -z "$quick" ] || continue
        hob "$model" 4096 4096 1
        llama_bench "$model" "prefill 4096" -p 4096 -n 0
        llama_bench "$model" "decode 1 at depth 4096" -p 0 -n "$steps" -d 4096
    done
done

version=$("$peer/run" llama-bench --version 2>&1 | sed -n 's/^.*version: *//p' | head -n 1)
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "${cpu:-$(uname -m)}, $threads threads, $(date +%Y-%m-%d); medians of $rounds rounds in turn; llama.cpp ${version:-?}."
sort -g "$work/limits" | awk '{ if ($1 > g) g = $1; if ($2 > i) i = $2 }
    END { printf "This machine reads %.1f GB/s and does %.0f Gop/s of int8.\n\n", g, i }'
awk -F'|' '
function median(key,    n, i, j, t, v) {
    n = count[key]
    if (!n) return ""
    for (i = 1; i <= n; i++) v[i] = value[key, i]
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function cell(x) { return x == "" ? "-" : sprintf(x < 100 ? "%.1f" : "%.0f", x) }
{
    row = $1 "|" $2
    if (!(row in seen)) { seen[row] = 1; rows[++n_rows] = row }
    value[row "|" $3, ++count[row "|" $3]] = $4 + 0
}
END {
    print "| model | tok/s | hob | llama.cpp | ratio |\n|---|---|---|---|---|"
    for (i = 1; i <= n_rows; i++) {
        split(rows[i], part, "|")
        h = median(rows[i] "|hob"); p = median(rows[i] "|peer")
        printf "| %s | %s | %s | %s | %s |\n", part[1], part[2], cell(h), cell(p),
            h == "" || p == "" || p == 0 ? "-" : sprintf("%.2f", h / p)
    }
}' "$work/results"
