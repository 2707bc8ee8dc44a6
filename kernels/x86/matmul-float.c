/* SPDX-License-Identifier: MIT */
/* Weights of F32, F16, BF16: a panel is [k][16], one vector a column; one accumulator for each token of a tile. */
#include "kernels/x86/tiles.h"
#include "kernels/x86/v16.h"

typedef v16 (*load_fn)(const void *column);

V v16 column_f32(const void *p)
{
    return v16_load(p);
}

V v16 column_f16(const void *p)
{
    return v16_load_f16(p);
}

V v16 column_bf16(const void *p)
{
    return v16_load_bf16(p);
}

#ifdef __AVX512F__
#define MOST 12 /* tokens of a tile */
#else
#define MOST 4
#endif

/* The panels of a tile: columns of @bytes from @w on; the second panel is @stride further. */
struct columns {
    const uint8_t *w;
    size_t stride, bytes;
    load_fn load;
    bool first; /* no tile before has read them from memory */
};

V void tile(unsigned np, unsigned nt, float *out, size_t ld, struct columns c, const float *x, size_t k, unsigned rows)
{
    v16 acc[2][MOST];
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[0][t] = acc[1][t] = v16_set1(0);
    for (size_t i = 0; i < k; i++, c.w += c.bytes) {
        if (c.first) panel_prefetch(c.w, c.bytes);
        if (c.first && np > 1) panel_prefetch(c.w + c.stride, c.bytes);
        v16 w[2] = {c.load(c.w), c.load(np > 1 ? c.w + c.stride : c.w)};
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            v16 v = v16_set1(x[t * k + i]);
            UNROLL
            for (unsigned p = 0; p < np; p++) acc[p][t] = v16_fma(w[p], v, acc[p][t]);
        }
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        if (np > 1) v16_store(out + t * ld, acc[0][t]);
        v16_store_n(out + t * ld + (np - 1) * KERN_ROWS, acc[np - 1][t], rows - (np - 1) * KERN_ROWS);
    }
}

#define FLOAT_TILE(np, nt, out, ld, w, stride, x, t, rows, bytes, load)                                                \
    tile(np, nt, (out) + (t) * (ld), ld, (struct columns){w, stride, bytes, load, (t) == 0}, (x)->f + (t) * (x)->k,    \
         (x)->k, rows)
#ifdef __AVX512F__
#define FLOAT_TILES(bytes, load) FOR_TILES(STEPS_TO_12, STEPS_TO_12, kern_align(x->k *(bytes)), FLOAT_TILE, bytes, load)
#else
#define FLOAT_TILES(bytes, load) FOR_TILES_1(STEPS_TO_4, kern_align(x->k *(bytes)), FLOAT_TILE, bytes, load)
#endif

KERN_MATMUL(X86(matmul_f32))
{
    FLOAT_TILES(64, column_f32);
}

KERN_MATMUL(X86(matmul_f16))
{
    FLOAT_TILES(32, column_f16);
}

KERN_MATMUL(X86(matmul_bf16))
{
    FLOAT_TILES(32, column_bf16);
}
