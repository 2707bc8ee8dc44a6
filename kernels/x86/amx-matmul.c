/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights with AMX. A wide block's codes (avx512-codes.h: 8 rows of 64 bytes, 4 columns x 16 rows each) are
 * a B tile as they are, the same 32 columns of up to 16 tokens an A tile: one TDPBSUD gives the exact int32 sums of 16
 * tokens x 16 rows. The rest is done with AVX-512, one fma chain an output. The codes are widened once for all tokens,
 * a chunk of the columns at a time.
 */
#include "kernels/x86/amx-tile.h"
#include "kernels/x86/avx512-codes.h"
#include "kernels/x86/tiles.h"

#define FROM         16 /* tokens; AVX-512 multiplies fewer */
#define TOKENS       16 /* of a tile */
#define CHUNK_BLOCKS 32 /* 18 to 26 KiB of codes and scales */

/* Tile numbers; _REST: for the last tokens, fewer than 16. */
#define TILE_C      0
#define TILE_A      1
#define TILE_B      2
#define TILE_C_REST 3
#define TILE_A_REST 4

/* @depth: columns of a product, 32, or 16 where these have a sub-scale. */
static void configure(size_t rest, unsigned depth)
{
    struct tile_config f = {.palette = 1};
    f.rows[TILE_C] = f.rows[TILE_A] = TOKENS;
    f.rows[TILE_C_REST] = f.rows[TILE_A_REST] = (uint8_t)rest;
    f.rows[TILE_B] = (uint8_t)(depth / 4);
    f.row_bytes[TILE_C] = f.row_bytes[TILE_B] = 64;
    f.row_bytes[TILE_A] = (uint16_t)depth;
    if (rest) f.row_bytes[TILE_C_REST] = 64, f.row_bytes[TILE_A_REST] = (uint16_t)depth;
    TILE_CONFIGURE(&f);
}

/* Write sums[t][row] of 16 tokens, or of the last ones (@rest). */
V void product(bool rest, int32_t sums[][KERN_ROWS], const int8_t *q, size_t k, const uint8_t *codes)
{
    TILE_LOAD(TILE_B, codes, 64);
    if (rest) {
        TILE_ZERO(TILE_C_REST);
        TILE_LOAD(TILE_A_REST, q, k);
        TILE_DPBSUD(TILE_C_REST, TILE_A_REST, TILE_B);
        TILE_STORE(TILE_C_REST, sums, 64);
    } else {
        TILE_ZERO(TILE_C);
        TILE_LOAD(TILE_A, q, k);
        TILE_DPBSUD(TILE_C, TILE_A, TILE_B);
        TILE_STORE(TILE_C, sums, 64);
    }
}

V void widen(enum kern_type type, uint8_t *to, const uint8_t *panel, size_t b, size_t blocks)
{
    for (size_t i = b; i < b + blocks; i++, to += wide_bytes(type)) {
        const struct packed p = packed_at(type, panel, i);
        struct raw raw = {0};
        UNROLL
        for (unsigned j = 0; j < 8; j++) {
            const unsigned g = packed_order(type, j);
            packed_load(type, &raw, p, g);
            _mm512_store_si512(to + g * 64, packed_codes(type, raw, g));
        }
        for (unsigned s = 0; s < wide_scales(type); s++)
            _mm512_store_ps(to + WIDE_SCALES + s * 64, packed_scales(type, p, (enum scale)s));
    }
}

/* f * (s[0] + s[1]), or of one of both, in each lane. */
V __m512i sum_of(int f0, int f1, const int16_t *s)
{
    __m512i f = _mm512_set1_epi32((int)((unsigned)f1 << 16 | (f0 & 0xffff)));
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), f, _mm512_set1_epi32(load_lane(s)));
}

/* One block (ARITHMETIC.md, matrix products) added to acc, for one token and panel. @sums: the dot products of the
 * block, or of its first half; @second: of its other half. */
V __m512 add_block(enum kern_type type, __m512 acc, const int32_t *sums, const int32_t *second, const uint8_t *scale,
                   const int16_t *s, float dx)
{
    const int bias = packed_bias(type);
    const __m512 d = _mm512_set1_ps(dx), dw = _mm512_mul_ps(_mm512_load_ps(scale), d);
    __m512i sum = _mm512_load_si512(sums);
    if (has_halves(type)) { /* exact in floats (kernels/ref/matmul.c) */
        __m512i other = _mm512_load_si512(second);
        __m512 f0 = _mm512_cvtepi32_ps(_mm512_add_epi32(sum, sum_of(-bias, 0, s)));
        __m512 f1 = _mm512_cvtepi32_ps(_mm512_add_epi32(other, sum_of(0, -bias, s)));
        __m512 isum = _mm512_mul_ps(f0, _mm512_load_ps(scale + 64 * SCALE_SUB0));
        isum = _mm512_fmadd_ps(f1, _mm512_load_ps(scale + 64 * SCALE_SUB1), isum);
        acc = _mm512_fmadd_ps(isum, dw, acc);
        if (!has_offset(type)) return acc;
        const __m512i minima = _mm512_load_si512(scale + 64 * SCALE_MINIMA);
        const __m512i msum = _mm512_madd_epi16(minima, _mm512_set1_epi32(load_lane(s)));
        return _mm512_fmadd_ps(_mm512_cvtepi32_ps(msum), _mm512_mul_ps(_mm512_load_ps(scale + 64 * SCALE_HALVES_M), d),
                               acc);
    }
    if (bias) sum = _mm512_add_epi32(sum, sum_of(-bias, -bias, s));
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), dw, acc);
    if (!has_offset(type)) return acc;
    const __m512 mw = _mm512_mul_ps(_mm512_load_ps(scale + 64 * SCALE_M), d);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum_of(1, 1, s)), mw, acc);
}

/* Wide blocks of one panel: @n of them, of which the first is block @first of the panel. */
struct chunk {
    const uint8_t *wide;
    size_t first, n;
};

/* The rows of one panel in the result: row i of token t is at[t * ld + i], for the rows i of @rows. */
struct result {
    float *at;
    size_t ld;
    __mmask16 rows;
};

/* Add the products of @c and tokens t … t + nt - 1 to the result. The chunk with the first block starts at 0. */
V void tokens(enum kern_type type, struct result out, struct chunk c, const struct kern_acts *x, size_t t, size_t nt)
{
    const size_t k = x->k, nb = k / KERN_BLOCK;
    const uint8_t *wide = c.wide;
    _Alignas(64) int32_t sums[2][TOKENS][KERN_ROWS];
    _Alignas(64) float acc[TOKENS][KERN_ROWS];
    for (size_t i = 0; i < nt; i++)
        _mm512_store_ps(acc[i],
                        c.first ? _mm512_maskz_loadu_ps(out.rows, out.at + (t + i) * out.ld) : _mm512_setzero_ps());
    for (size_t j = 0; j < c.n; j++, wide += wide_bytes(type)) {
        const int8_t *q = x->q + t * k + (c.first + j) * KERN_BLOCK;
        product(nt < TOKENS, sums[0], q, k, wide);
        if (has_halves(type)) product(nt < TOKENS, sums[1], q + 16, k, wide + 256);
        for (size_t i = 0; i < nt; i++) {
            const size_t at = (t + i) * nb + c.first + j;
            __m512 a = _mm512_load_ps(acc[i]);
            a = add_block(type, a, sums[0][i], sums[1][i], wide + WIDE_SCALES, x->s + at * 2, x->d[at]);
            _mm512_store_ps(acc[i], a);
        }
    }
    for (size_t i = 0; i < nt; i++) _mm512_mask_storeu_ps(out.at + (t + i) * out.ld, out.rows, _mm512_load_ps(acc[i]));
}

V void matmul(enum kern_type type, float *out, size_t ld, const uint8_t *panel, const struct kern_acts *x,
              unsigned rows)
{
    const size_t nb = x->k / KERN_BLOCK, whole = x->n / TOKENS * TOKENS;
    _Alignas(64) uint8_t wide[CHUNK_BLOCKS * WIDE_MOST];
    configure(x->n - whole, has_halves(type) ? 16 : 32);
    for (unsigned r = 0; r < rows; r += KERN_ROWS, panel += packed_panel(type, nb)) {
        const struct result to = {out + r, ld, v16_mask(rows - r < KERN_ROWS ? rows - r : KERN_ROWS)};
        for (size_t b = 0; b < nb; b += CHUNK_BLOCKS) {
            const struct chunk c = {wide, b, nb - b < CHUNK_BLOCKS ? nb - b : CHUNK_BLOCKS};
            widen(type, wide, panel, b, c.n);
            for (size_t t = 0; t < whole; t += TOKENS) tokens(type, to, c, x, t, TOKENS);
            if (whole < x->n) tokens(type, to, c, x, whole, x->n - whole);
        }
    }
    TILE_RELEASE();
}

#define MATMUL(type, name, unused)                                                                                     \
    KERN_MATMUL(X86(matmul_##name));                                                                                   \
    KERN_MATMUL(X86(matmul_##name))                                                                                    \
    {                                                                                                                  \
        if (x->n < FROM)                                                                                               \
            matmul_##name##_avx512(out, ld, panel, x, rows);                                                           \
        else                                                                                                           \
            matmul(KERN_##type, out, ld, panel, x, rows);                                                              \
    }

KERN_QUANTIZED(MATMUL, )

/* All other functions are those of AVX-512. */
extern const struct kernels X86(kernels);
const struct kernels X86(kernels) = KERN_TABLE_WITH(avx512, X86_SUFFIX, X86_TITLE);
