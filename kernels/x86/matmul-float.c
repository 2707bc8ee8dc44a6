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

V void tile(unsigned nt, float *out, size_t ld, const uint8_t *w, size_t bytes, load_fn load, const float *x, size_t k,
            unsigned rows, bool first)
{
    v16 acc[TILE_MAX];
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[t] = v16_set1(0);
    for (size_t i = 0; i < k; i++, w += bytes) {
        if (first) panel_prefetch(w, bytes);
        v16 c = load(w);
        UNROLL
        for (unsigned t = 0; t < nt; t++) acc[t] = v16_fma(c, v16_set1(x[t * k + i]), acc[t]);
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) v16_store_n(out + t * ld, acc[t], rows);
}

#define FLOAT_TILE(nt, out, ld, panel, x, t, rows, bytes, load)                                                        \
    tile(nt, (out) + (t) * (ld), ld, panel, bytes, load, (x)->f + (t) * (x)->k, (x)->k, rows, (t) == 0)

KERN_MATMUL(X86(matmul_f32))
{
    FOR_TILES(FLOAT_TILE, 64, column_f32);
}

KERN_MATMUL(X86(matmul_f16))
{
    FOR_TILES(FLOAT_TILE, 32, column_f16);
}

KERN_MATMUL(X86(matmul_bf16))
{
    FOR_TILES(FLOAT_TILE, 32, column_bf16);
}
