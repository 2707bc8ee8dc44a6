/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights with AVX-512 VNNI. A register is 4 columns of the panel's 16 rows, so vpdpbusd with the same 4
 * activations broadcast from memory adds them to 16 outputs; the int32 accumulator of a block starts at -bias * sum of
 * the activations, because the codes are unsigned. Per block one conversion, one product of the two scales, one fma.
 */
#include "kernels/panel.h"
#include "kernels/x86/tiles.h"
#include "kernels/x86/v16.h"

/* Four activations in each lane. */
V __m512i spread(const int8_t *q)
{
    return _mm512_set1_epi32(load_lane(q));
}

/* f0 * s[0] + f1 * s[1] in each lane. */
V __m512i start(int f0, int f1, const int16_t *s)
{
    __m512i f = _mm512_set1_epi32((int)((unsigned)f1 << 16 | (f0 & 0xffff)));
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), f, _mm512_set1_epi32(load_lane(s)));
}

V __m512 scales(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

#define MOST 12 /* tokens of a tile, of one panel */

V void add_scaled(unsigned nt, __m512 *acc, const __m512i *sum, __m512 dw, const float *d, size_t nb)
{
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        __m512 scale = _mm512_mul_ps(dw, _mm512_set1_ps(d[t * nb]));
        acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[t]), scale, acc[t]);
    }
}

/* sum[p][t] += codes c[p] of 4 columns times the activations at @q. */
V void dot(unsigned np, unsigned nt, __m512i sum[][MOST], const __m512i *c, const int8_t *q, size_t k)
{
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        __m512i four = spread(q + t * k);
        if (np > 1) __asm__("" : "+v"(four)); /* one load, not an operand of both instructions */
        UNROLL
        for (unsigned p = 0; p < np; p++) sum[p][t] = _mm512_dpbusd_epi32(sum[p][t], c[p], four);
    }
}

/* sum[p][t] += a block of codes at @w times the activations at @q. */
V void dot_block(unsigned np, unsigned nt, __m512i sum[][MOST], const uint8_t *w, size_t stride, const int8_t *q,
                 size_t k, bool q8)
{
    const unsigned groups = q8 ? 8 : 4;
    const __m512i low = _mm512_set1_epi8(15);
    UNROLL
    for (unsigned g = 0; g < groups; g++) {
        __m512i c[2], half[2];
        UNROLL
        for (unsigned p = 0; p < np; p++) {
            c[p] = _mm512_loadu_si512(w + p * stride + g * 64);
            if (!q8) __asm__("" : "+v"(c[p])); /* as above */
            half[p] = _mm512_and_si512(c[p], low);
        }
        dot(np, nt, sum, q8 ? c : half, q + g * 4, k);
        if (q8) continue;
        UNROLL
        for (unsigned p = 0; p < np; p++) half[p] = _mm512_and_si512(_mm512_srli_epi16(c[p], 4), low);
        dot(np, nt, sum, half, q + 16 + g * 4, k);
    }
}

V void store(unsigned np, unsigned nt, float *out, size_t ld, __m512 acc[][MOST], unsigned rows)
{
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        if (np > 1) _mm512_storeu_ps(out + t * ld, acc[0][t]);
        _mm512_mask_storeu_ps(out + t * ld + (np - 1) * KERN_ROWS, v16_mask(rows - (np - 1) * KERN_ROWS),
                              acc[np - 1][t]);
    }
}

V void tile(unsigned np, unsigned nt, float *out, size_t ld, const uint8_t *w, size_t stride, const struct kern_acts *x,
            size_t t0, unsigned rows, enum kern_type type)
{
    const size_t k = x->k, nb = k / KERN_BLOCK;
    const size_t bytes = type == KERN_Q8_0 ? PANEL_Q8_0 : type == KERN_Q4_0 ? PANEL_Q4_0 : PANEL_Q4_1;
    const int8_t *q = x->q + t0 * k;
    const float *d = x->d + t0 * nb;
    const int16_t *s = x->s + t0 * nb * 2;
    const int bias = type == KERN_Q8_0 ? PANEL_Q8_BIAS : PANEL_Q4_BIAS;
    __m512 acc[2][MOST];

    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[0][t] = acc[1][t] = _mm512_setzero_ps();
    for (size_t b = 0; b < nb; b++, w += bytes, q += KERN_BLOCK, d++, s += 2) {
        __m512i sum[2][MOST];
        if (t0 == 0) panel_prefetch(w, bytes);
        if (t0 == 0 && np > 1) panel_prefetch(w + stride, bytes);
        UNROLL
        for (unsigned t = 0; t < nt; t++)
            sum[0][t] = sum[1][t] = type == KERN_Q4_1 ? _mm512_setzero_si512() : start(-bias, -bias, s + t * nb * 2);
        dot_block(np, nt, sum, w, stride, q, k, type == KERN_Q8_0);
        UNROLL
        for (unsigned p = 0; p < np; p++)
            add_scaled(nt, acc[p], sum[p], scales(w + p * stride + (type == KERN_Q8_0 ? PANEL_Q8_0_D : PANEL_Q4_0_D)),
                       d, nb);
        if (type != KERN_Q4_1) continue;
        UNROLL
        for (unsigned t = 0; t < nt; t++) sum[0][t] = start(1, 1, s + t * nb * 2);
        UNROLL
        for (unsigned p = 0; p < np; p++) add_scaled(nt, acc[p], sum[0], scales(w + p * stride + PANEL_Q4_1_M), d, nb);
    }
    store(np, nt, out, ld, acc, rows);
}

#define QUANT_TILE(np, nt, out, ld, w, stride, x, t, rows, type)                                                       \
    tile(np, nt, (out) + (t) * (ld), ld, w, stride, x, t, rows, type)
#define QUANT_TILES(bytes, type)                                                                                       \
    FOR_TILES(STEPS_TO_6, STEPS_TO_12, panel_stride(x->k / KERN_BLOCK, bytes), QUANT_TILE, type)

KERN_MATMUL(matmul_q8_0_avx512)
{
    QUANT_TILES(PANEL_Q8_0, KERN_Q8_0);
}

KERN_MATMUL(matmul_q4_0_avx512)
{
    QUANT_TILES(PANEL_Q4_0, KERN_Q4_0);
}

KERN_MATMUL(matmul_q4_1_avx512)
{
    QUANT_TILES(PANEL_Q4_1, KERN_Q4_1);
}

/* --- Q6_K --- */

V __m512 scales_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* Codes of 4 columns, number @g of a half's four: @low in the low nibbles, the other 2 bits in @high. */
V __m512i codes_q6(__m512i low, __m512i high, unsigned g)
{
    enum { A_OR_B_AND_C = 0xf8 };
    high = g == 0 ? _mm512_slli_epi16(high, 4) : g == 1 ? _mm512_slli_epi16(high, 2) : high;
    if (g == 3) high = _mm512_srli_epi16(high, 2);
    low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(0x30), A_OR_B_AND_C);
}

/* sum[t] = exact dot products of half @h of 32 columns at @w, which tokens @q and their @s are at too. */
V void dot_q6(unsigned nt, __m512i *sum, const uint8_t *w, unsigned h, const int8_t *q, const int16_t *s, size_t k)
{
    __m512i high = _mm512_loadu_si512(w + PANEL_Q6_K_H + h * 64);
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = start(h ? 0 : -PANEL_Q6_BIAS, h ? -PANEL_Q6_BIAS : 0, s + t * k / 16);
    UNROLL
    for (unsigned g = 0; g < 4; g++) {
        __m512i c = _mm512_loadu_si512(w + g * 64);
        c = codes_q6(h ? _mm512_srli_epi16(c, 4) : c, high, g);
        UNROLL
        for (unsigned t = 0; t < nt; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], c, spread(q + t * k + h * 16 + g * 4));
    }
}

/* Both products with the sub-scales and their sum are exact in floats: kernels/ref/matmul.c says why. */
V void tile_q6(unsigned nt, float *out, size_t ld, const uint8_t *w, const struct kern_acts *x, size_t t0,
               unsigned rows)
{
    const size_t k = x->k, nb = k / KERN_BLOCK;
    __m512 acc[MOST];
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[t] = _mm512_setzero_ps();
    for (size_t b = 0; b < nb; b += 8, w += PANEL_Q6_K) {
        const __m512 dw = scales(w + PANEL_Q6_K_D);
        for (size_t i = 0; i < 8; i++) {
            const int8_t *q = x->q + t0 * k + (b + i) * KERN_BLOCK;
            const int16_t *s = x->s + (t0 * nb + b + i) * 2;
            const uint8_t *c = w + i * PANEL_Q6_K_32, *sc = w + PANEL_Q6_K_SC + i * 32;
            __m512i sum[2][MOST];
            if (t0 == 0) panel_prefetch(c, PANEL_Q6_K_32);
            dot_q6(nt, sum[0], c, 0, q, s, k);
            dot_q6(nt, sum[1], c, 1, q, s, k);
            __m512 sc0 = scales_i8(sc), sc1 = scales_i8(sc + 16);
            UNROLL
            for (unsigned t = 0; t < nt; t++) {
                __m512 isum = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[0][t]), sc0);
                isum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[1][t]), sc1, isum);
                __m512 scale = _mm512_mul_ps(dw, _mm512_set1_ps(x->d[(t0 + t) * nb + b + i]));
                acc[t] = _mm512_fmadd_ps(isum, scale, acc[t]);
            }
        }
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) _mm512_mask_storeu_ps(out + t * ld, v16_mask(rows), acc[t]);
}

#define Q6_TILE(np, nt, out, ld, w, stride, x, t, rows, unused) tile_q6(nt, (out) + (t) * (ld), ld, w, x, t, rows)

KERN_MATMUL(matmul_q6_k_avx512)
{
    FOR_TILES_1(STEPS_TO_8, panel_stride(x->k / 256, PANEL_Q6_K), Q6_TILE, 0);
}
