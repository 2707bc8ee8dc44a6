#!/bin/sh -eu
# SPDX-License-Identifier: MIT
# Build the fuzz targets as OSS-Fuzz does: with its $CC, $CFLAGS, $LIB_FUZZING_ENGINE and $SANITIZER into $OUT, each with
# its corpus as a zip file. In an image with packages of packaging/need.sh. To try it:
#   CC=clang CFLAGS='-O1 -g -fsanitize=address,fuzzer-no-link' LIB_FUZZING_ENGINE=-fsanitize=fuzzer OUT=/tmp/out \
#       sh tests/fuzz/oss-fuzz-build.sh
top=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-$top}/build-oss-fuzz
: "${CC:=clang}" "${CFLAGS:=-O1 -g}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}" "${OUT:?}"
export CC
mkdir -p "$OUT/lib"

# The flags come through c_args alone: meson would add those of the environment a second time.
flags=$CFLAGS
unset CFLAGS CXXFLAGS LDFLAGS
rm -rf "$work"
meson setup "$work" "$top" -Dtests=enabled -Dman=disabled -Dfuzz=true --buildtype=plain -Db_lundef=false \
    -Dc_args="$flags" -Dc_link_args="$flags" -Dfuzz-engine="$LIB_FUZZING_ENGINE"
ninja -C "$work" fuzz

for program in "$work"/tests/fuzz/fuzz-*; do
    if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
    name=$(basename "$program")
    cp "$program" "$OUT/$name"
    # The runner has none of the libraries.
    ldd "$program" | sed -n 's|.*=> \(/[^ ]*\) .*|\1|p' | grep -Ev '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*)\.so' |
        while read -r library; do cp -L "$library" "$OUT/lib/"; done
    if command -v patchelf >/dev/null; then patchelf --set-rpath "\$ORIGIN/lib" "$OUT/$name"; fi
    corpus=$top/tests/fuzz/corpus/${name#fuzz-}
    if [ -d "$corpus" ]; then (cd "$corpus" && zip -q -r "$OUT/${name}_seed_corpus.zip" .); fi
done
