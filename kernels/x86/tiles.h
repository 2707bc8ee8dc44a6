/* SPDX-License-Identifier: MIT */
#pragma once
/* How a matmul cuts its tokens: tiles of a constant number of them, one accumulator register (AVX2: two) a token. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first tile brings its panel from memory, in one stream that goes on into the next panel. Without a prefetch the
 * stream is 10 to 20% slower (Ice Lake, one token); 2 and 4 KiB ahead are alike, 1 KiB is too little. */
#define PANEL_AHEAD 4096

static inline __attribute__((always_inline)) void panel_prefetch(const uint8_t *w, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)w + PANEL_AHEAD + i, _MM_HINT_T0);
}

/* What @p's four bytes are as a lane. */
static inline __attribute__((always_inline)) int32_t load_lane(const void *p)
{
    int32_t lane;
    memcpy(&lane, p, sizeof(lane));
    return lane;
}

/* Run TILE(nt, out, ld, panel, x, t, rows, …) over the tokens of @x in the body of a KERN_MATMUL; nt is a constant.
 * FOR_TILES_8: at most 8 of them, where a token takes two accumulators. */
#define TILE_STEP(nt, TILE, ...)                                                                                       \
    {                                                                                                                  \
        TILE(nt, out, ld, panel, x, t, rows, __VA_ARGS__);                                                             \
        t += nt;                                                                                                       \
        continue;                                                                                                      \
    }

#ifdef __AVX512F__
#define TILE_MAX 12
#define FOR_TILES(TILE, ...)                                                                                           \
    for (size_t t = 0; t < x->n;) {                                                                                    \
        size_t left = x->n - t;                                                                                        \
        if (left >= 12 && left != 16) TILE_STEP(12, TILE, __VA_ARGS__) /* 16 is better as 8 + 8 */                     \
        TILES_TO_8(TILE, __VA_ARGS__)                                                                                  \
    }
#define FOR_TILES_8(TILE, ...)                                                                                         \
    for (size_t t = 0; t < x->n;) {                                                                                    \
        size_t left = x->n - t;                                                                                        \
        TILES_TO_8(TILE, __VA_ARGS__)                                                                                  \
    }
#define TILES_TO_8(TILE, ...)                                                                                          \
    if (left >= 8) TILE_STEP(8, TILE, __VA_ARGS__)                                                                     \
    if (left >= 4) TILE_STEP(4, TILE, __VA_ARGS__)                                                                     \
    if (left >= 2) TILE_STEP(2, TILE, __VA_ARGS__)                                                                     \
    TILE_STEP(1, TILE, __VA_ARGS__)
#else
#define TILE_MAX 4
#define FOR_TILES(TILE, ...)                                                                                           \
    for (size_t t = 0; t < x->n;) {                                                                                    \
        size_t left = x->n - t;                                                                                        \
        if (left >= 4) TILE_STEP(4, TILE, __VA_ARGS__)                                                                 \
        if (left >= 2) TILE_STEP(2, TILE, __VA_ARGS__)                                                                 \
        TILE_STEP(1, TILE, __VA_ARGS__)                                                                                \
    }
#define FOR_TILES_8 FOR_TILES
#endif
