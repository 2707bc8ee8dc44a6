/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights with AVX2. vpmaddubsw adds pairs of products into 16 bits: with 4-bit codes a whole block of 32
 * stays below 16 * 15 * 127 = 30,480 in each lane, so nothing saturates and one vpmaddwd per block widens. Codes of 8
 * bits are split into two such halves.
 */
#include "kernels/panel.h"
#include "kernels/x86/tiles.h"
#include "kernels/x86/v16.h"

#define MOST 4 /* tokens of a tile */

V __m256i spread(const void *p)
{
    return _mm256_set1_epi32(load_lane(p));
}

V __m256i widen(__m256i pairs, short factor)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(factor));
}

V __m256i dot_add(__m256i sum, __m256i codes, const int8_t *q)
{
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, spread(q)));
}

/* sum[t] = exact dot products of 8 rows' unsigned 4-bit codes at @w with @nt tokens' block. */
V void dot_q4(unsigned nt, __m256i *sum, const uint8_t *w, const int8_t *q, size_t k)
{
    const __m256i low = _mm256_set1_epi8(15);
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = _mm256_setzero_si256();
    UNROLL
    for (unsigned g = 0; g < 4; g++) {
        __m256i c = _mm256_loadu_si256((const __m256i *)(w + g * 64));
        __m256i lo = _mm256_and_si256(c, low), hi = _mm256_and_si256(_mm256_srli_epi16(c, 4), low);
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            sum[t] = dot_add(sum[t], lo, q + t * k + g * 4);
            sum[t] = dot_add(sum[t], hi, q + t * k + 16 + g * 4);
        }
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = widen(sum[t], 1);
}

/* The same with 8-bit codes. */
V void dot_q8(unsigned nt, __m256i *sum, const uint8_t *w, const int8_t *q, size_t k)
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i upper[MOST];
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = upper[t] = _mm256_setzero_si256();
    UNROLL
    for (unsigned g = 0; g < 8; g++) {
        __m256i c = _mm256_loadu_si256((const __m256i *)(w + g * 64));
        __m256i lo = _mm256_and_si256(c, low), hi = _mm256_and_si256(_mm256_srli_epi16(c, 4), low);
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            sum[t] = dot_add(sum[t], lo, q + t * k + g * 4);
            upper[t] = dot_add(upper[t], hi, q + t * k + g * 4);
        }
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = _mm256_add_epi32(widen(sum[t], 1), widen(upper[t], 16));
}

V __m256 scales(const uint8_t *p, unsigned half)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + half * 16)));
}

/* One block of 8 rows (@half 0: rows 0-7, 1: 8-15): acc[t] += what DESIGN says. */
V void block(unsigned nt, __m256 *acc, const uint8_t *w, unsigned half, const int8_t *q, size_t k, const float *d,
             const int16_t *s, size_t nb, enum kern_type type)
{
    __m256i sum[MOST];
    if (type == KERN_Q8_0)
        dot_q8(nt, sum, w + half * 32, q, k);
    else
        dot_q4(nt, sum, w + half * 32, q, k);
    __m256 dw = scales(w + (type == KERN_Q8_0 ? PANEL_Q8_0_D : PANEL_Q4_0_D), half);
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        __m256i s01 = spread(s + t * nb * 2);
        if (type == KERN_Q8_0) sum[t] = _mm256_sub_epi32(sum[t], widen(s01, PANEL_Q8_BIAS));
        if (type == KERN_Q4_0) sum[t] = _mm256_sub_epi32(sum[t], widen(s01, PANEL_Q4_BIAS));
        __m256 scale = _mm256_mul_ps(dw, _mm256_set1_ps(d[t * nb]));
        acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t]), scale, acc[t]);
    }
    if (type != KERN_Q4_1) return;
    __m256 mw = scales(w + PANEL_Q4_1_M, half);
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        __m256 offset = _mm256_mul_ps(mw, _mm256_set1_ps(d[t * nb]));
        acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(widen(spread(s + t * nb * 2), 1)), offset, acc[t]);
    }
}

V void tile(unsigned nt, float *out, size_t ld, const uint8_t *w, const struct kern_acts *x, size_t t0, unsigned rows,
            enum kern_type type)
{
    const size_t k = x->k, nb = k / KERN_BLOCK;
    const size_t bytes = type == KERN_Q8_0 ? PANEL_Q8_0 : type == KERN_Q4_0 ? PANEL_Q4_0 : PANEL_Q4_1;
    const int8_t *q = x->q + t0 * k;
    const float *d = x->d + t0 * nb;
    const int16_t *s = x->s + t0 * nb * 2;
    __m256 acc[2][MOST];
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (size_t b = 0; b < nb; b++, w += bytes, q += KERN_BLOCK, d++, s += 2) {
        if (t0 == 0) panel_prefetch(w, bytes);
        block(nt, acc[0], w, 0, q, k, d, s, nb, type);
        block(nt, acc[1], w, 1, q, k, d, s, nb, type);
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) v16_store_n(out + t * ld, v16_pair(acc[0][t], acc[1][t]), rows);
}

#define QUANT_TILE(np, nt, out, ld, w, stride, x, t, rows, type) tile(nt, (out) + (t) * (ld), ld, w, x, t, rows, type)
#define QUANT_TILES(bytes, type)                                 FOR_TILES_1(STEPS_TO_4, panel_stride(x->k / KERN_BLOCK, bytes), QUANT_TILE, type)

KERN_MATMUL(matmul_q8_0_avx2)
{
    QUANT_TILES(PANEL_Q8_0, KERN_Q8_0);
}

KERN_MATMUL(matmul_q4_0_avx2)
{
    QUANT_TILES(PANEL_Q4_0, KERN_Q4_0);
}

KERN_MATMUL(matmul_q4_1_avx2)
{
    QUANT_TILES(PANEL_Q4_1, KERN_Q4_1);
}

/* --- Q6_K --- */

V __m256 scales_i8(const uint8_t *p, unsigned half)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + half * 8))));
}

/* Codes of 4 columns, number @g of a half's four: @low in the low nibbles, the other 2 bits in @high. */
V __m256i codes_q6(__m256i low, __m256i high, unsigned g)
{
    high = g == 0 ? _mm256_slli_epi16(high, 4) : g == 1 ? _mm256_slli_epi16(high, 2) : high;
    if (g == 3) high = _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
}

/* sum[t] = exact dot products of half @h of 32 columns of 8 rows at @w. Two groups of 4 columns stay below
 * 4 * 63 * 127 = 32,004 in 16 bits. */
V void dot_q6(unsigned nt, __m256i *sum, const uint8_t *w, unsigned h, const int8_t *q, const int16_t *s, size_t k)
{
    __m256i high = _mm256_loadu_si256((const __m256i *)(w + PANEL_Q6_K_H + h * 64));
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        int bias = h ? -PANEL_Q6_BIAS * 65536 : -PANEL_Q6_BIAS & 0xffff; /* for one of the pair */
        sum[t] = _mm256_madd_epi16(spread(s + t * k / 16), _mm256_set1_epi32(bias));
    }
    UNROLL
    for (unsigned g = 0; g < 4; g += 2) {
        __m256i c0 = _mm256_loadu_si256((const __m256i *)(w + g * 64));
        __m256i c1 = _mm256_loadu_si256((const __m256i *)(w + g * 64 + 64));
        c0 = codes_q6(h ? _mm256_srli_epi16(c0, 4) : c0, high, g);
        c1 = codes_q6(h ? _mm256_srli_epi16(c1, 4) : c1, high, g + 1);
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            const int8_t *four = q + t * k + h * 16 + g * 4;
            __m256i pairs = dot_add(_mm256_maddubs_epi16(c0, spread(four)), c1, four + 4);
            sum[t] = _mm256_add_epi32(sum[t], widen(pairs, 1));
        }
    }
}

/* 32 columns of 8 rows (@half 0: rows 0-7, 1: 8-15). The products with the sub-scales and their sum are exact in
 * floats: kernels/ref/matmul.c says why. */
V void block_q6(unsigned nt, __m256 *acc, const uint8_t *w, unsigned i, unsigned half, const int8_t *q,
                const int16_t *s, const float *d, size_t k)
{
    const uint8_t *c = w + i * PANEL_Q6_K_32 + half * 32, *sc = w + PANEL_Q6_K_SC + i * 32;
    __m256i sum[2][MOST];
    dot_q6(nt, sum[0], c, 0, q, s, k);
    dot_q6(nt, sum[1], c, 1, q, s, k);
    __m256 sc0 = scales_i8(sc, half), sc1 = scales_i8(sc + 16, half), dw = scales(w + PANEL_Q6_K_D, half);
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        __m256 isum = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[0][t]), sc0);
        isum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[1][t]), sc1, isum);
        __m256 scale = _mm256_mul_ps(dw, _mm256_set1_ps(d[t * k / KERN_BLOCK]));
        acc[t] = _mm256_fmadd_ps(isum, scale, acc[t]);
    }
}

V void tile_q6(unsigned nt, float *out, size_t ld, const uint8_t *w, const struct kern_acts *x, size_t t0,
               unsigned rows)
{
    const size_t k = x->k;
    const int8_t *q = x->q + t0 * k;
    const float *d = x->d + t0 * k / KERN_BLOCK;
    const int16_t *s = x->s + t0 * k / 16;
    __m256 acc[2][MOST];
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (size_t b = 0; b < k / KERN_BLOCK; b++, q += KERN_BLOCK, d++, s += 2) {
        unsigned i = b % 8;
        if (t0 == 0) panel_prefetch(w + i * PANEL_Q6_K_32, PANEL_Q6_K_32);
        block_q6(nt, acc[0], w, i, 0, q, s, d, k);
        block_q6(nt, acc[1], w, i, 1, q, s, d, k);
        if (i == 7) w += PANEL_Q6_K;
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) v16_store_n(out + t * ld, v16_pair(acc[0][t], acc[1][t]), rows);
}

#define Q6_TILE(np, nt, out, ld, w, stride, x, t, rows, unused) tile_q6(nt, (out) + (t) * (ld), ld, w, x, t, rows)

KERN_MATMUL(matmul_q6_k_avx2)
{
    FOR_TILES_1(STEPS_TO_4, panel_stride(x->k / 256, PANEL_Q6_K), Q6_TILE, 0);
}
