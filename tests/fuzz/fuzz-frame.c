/* SPDX-License-Identifier: MIT */
/* A stream of frames in pieces, and the scan of their bodies: the bodies are the same in all pieces, and msgpack-c
 * reads what the scan accepts. Byte 0: the size of the pieces. */
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <msgpack.h>
#include <string.h>
#include <xxhash.h>

const char *const fuzz_seeds[] = {
    "hex:03020000008001020000008101",
    "hex:010600000081a161920102",
    "hex:0500000000ffffff7f00",
    "hex:070c00000082a174a568656c6c6fa1690103000000dc0001",
    "hex:40160000008ac0c2c3ccffcdffffceffffffffd0ffd1ffffc403ffff",
    NULL,
};

enum { BODY_MAX = 4096 };

static void scan(const char *body, size_t n)
{
    msgpack_unpacked u;
    size_t at = 0;
    int r = proto_scan(body, n);
    if (r < 0) {
        fuzz_refused(r);
        return;
    }
    msgpack_unpacked_init(&u);
    FUZZ_CHECK(msgpack_unpack_next(&u, body, n, &at) == MSGPACK_UNPACK_SUCCESS && at == n);
    msgpack_unpacked_destroy(&u);
}

/* Feeds @data in pieces of @piece bytes. Returns a hash of the bodies; *end is the result of the last call. */
static uint64_t bodies(const uint8_t *data, size_t size, size_t piece, bool take, int *end)
{
    struct frame_decoder d = {.max = BODY_MAX};
    uint64_t hash = 0;
    const char *body;
    size_t len;
    int r = 0;
    for (size_t at = 0; at < size && r >= 0; at += piece) {
        r = frame_feed(&d, data + at, size - at < piece ? size - at : piece);
        while (r >= 0 && (r = frame_peek(&d, &body, &len)) > 0) {
            char *memory = NULL;
            FUZZ_CHECK(len <= BODY_MAX);
            hash = XXH3_64bits_withSeed(body, len, hash + len + 1);
            if (take) FUZZ_CHECK(frame_take(&d, &memory, &body) == 0 && body[len] == 0);
            scan(body, len);
            if (!take) frame_pop(&d);
            free(memory);
        }
    }
    frame_decoder_fini(&d);
    FUZZ_CHECK(r == 0 || r == -EMSGSIZE);
    *end = r;
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int whole, pieces;
    if (size < 2) return 0;
    scan((const char *)data + 1, size - 1);
    uint64_t a = bodies(data + 1, size - 1, size, false, &whole);
    uint64_t b = bodies(data + 1, size - 1, 1 + data[0] % 64, data[0] & 64, &pieces);
    FUZZ_CHECK(whole == pieces && (a == b || whole < 0));
    return 0;
}
