/* SPDX-License-Identifier: MIT */
#pragma once
/* Division of a matmul's tokens into tiles of constant sizes, one accumulator register (AVX2: two) a token and
 * panel. */
#include "kernels/kernels.h"
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first tile reads its panel from memory, in one stream that continues into the next panel. Without a prefetch the
 * stream is 10 to 20% slower (Ice Lake, one token); 2 and 4 KiB ahead are alike, 1 KiB is too little. */
#define PANEL_AHEAD 4096

static inline __attribute__((always_inline)) void panel_prefetch(const uint8_t *w, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)w + PANEL_AHEAD + i, _MM_HINT_T0);
}

/* The four bytes at @p as one lane. */
static inline __attribute__((always_inline)) int32_t load_lane(const void *p)
{
    int32_t lane;
    memcpy(&lane, p, sizeof(lane));
    return lane;
}

/*
 * The body of a KERN_MATMUL: TILE(np, nt, out, ld, w, stride, x, t, rows, …) for np panels at @w (@stride bytes apart)
 * and nt tokens from @t on; np and nt are constants, @rows <= 16 * np. Two panels share what is loaded of the
 * activations: loads are what limits a tile of one panel (Ice Lake: a pair is 1.4 times as fast with 512 bits).
 */
#define TILE_STEP(np, nt, TILE, ...)                                                                                   \
    {                                                                                                                  \
        TILE(np, nt, out, ld, w, stride, x, t, now, __VA_ARGS__);                                                      \
        t += nt;                                                                                                       \
        continue;                                                                                                      \
    }

#define STEPS_TO_8(np, left, TILE, ...)                                                                                \
    if (left >= 8) TILE_STEP(np, 8, TILE, __VA_ARGS__)                                                                 \
    STEPS_TO_4(np, left, TILE, __VA_ARGS__)
#define STEPS_TO_4(np, left, TILE, ...)                                                                                \
    if (left >= 4) TILE_STEP(np, 4, TILE, __VA_ARGS__)                                                                 \
    if (left >= 2) TILE_STEP(np, 2, TILE, __VA_ARGS__)                                                                 \
    TILE_STEP(np, 1, TILE, __VA_ARGS__)
#define STEPS_TO_12(np, left, TILE, ...)                                                                               \
    if (left >= 12 && left != 16) TILE_STEP(np, 12, TILE, __VA_ARGS__) /* 16 is better as 8 + 8 */                     \
    STEPS_TO_8(np, left, TILE, __VA_ARGS__)

/* Pairs of panels use STEPS2, the last single one (and all, for one token) STEPS1. */
#define FOR_TILES(STEPS2, STEPS1, panel_bytes, TILE, ...)                                                              \
    const size_t stride = panel_bytes;                                                                                 \
    for (const uint8_t *w = panel; rows;) {                                                                            \
        const bool two = rows > KERN_ROWS && x->n > 1;                                                                 \
        const unsigned np = two ? 2 : 1, now = rows < np * KERN_ROWS ? rows : np * KERN_ROWS;                          \
        for (size_t t = 0; two && t < x->n;) {                                                                         \
            size_t left = x->n - t;                                                                                    \
            STEPS2(2, left, TILE, __VA_ARGS__)                                                                         \
        }                                                                                                              \
        for (size_t t = 0; !two && t < x->n;) {                                                                        \
            size_t left = x->n - t;                                                                                    \
            STEPS1(1, left, TILE, __VA_ARGS__)                                                                         \
        }                                                                                                              \
        w += np * stride;                                                                                              \
        out += now;                                                                                                    \
        rows -= now;                                                                                                   \
    }

/* One panel at a time. */
#define FOR_TILES_1(STEPS, panel_bytes, TILE, ...)                                                                     \
    const size_t stride = panel_bytes;                                                                                 \
    for (const uint8_t *w = panel; rows;) {                                                                            \
        const unsigned now = rows < KERN_ROWS ? rows : KERN_ROWS;                                                      \
        for (size_t t = 0; t < x->n;) {                                                                                \
            size_t left = x->n - t;                                                                                    \
            STEPS(1, left, TILE, __VA_ARGS__)                                                                          \
        }                                                                                                              \
        w += stride;                                                                                                   \
        out += now;                                                                                                    \
        rows -= now;                                                                                                   \
    }
