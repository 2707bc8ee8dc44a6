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

V void tile(unsigned nt, float *out, size_t ld, const uint8_t *w, const struct kern_acts *x, size_t t0, unsigned rows,
            enum kern_type type)
{
    const size_t k = x->k, nb = k / KERN_BLOCK;
    const size_t bytes = type == KERN_Q8_0 ? PANEL_Q8_0 : type == KERN_Q4_0 ? PANEL_Q4_0 : PANEL_Q4_1;
    const int8_t *q = x->q + t0 * k;
    const float *d = x->d + t0 * nb;
    const int16_t *s = x->s + t0 * nb * 2;
    const __m512i low = _mm512_set1_epi8(15);
    const int bias = type == KERN_Q8_0 ? PANEL_Q8_BIAS : PANEL_Q4_BIAS;
    __m512 acc[TILE_MAX];

    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[t] = _mm512_setzero_ps();
    for (size_t b = 0; b < nb; b++, w += bytes, q += KERN_BLOCK) {
        __m512i sum[TILE_MAX];
        if (t0 == 0) panel_prefetch(w, bytes);
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            if (type == KERN_Q4_1)
                sum[t] = _mm512_setzero_si512();
            else
                sum[t] = start(-bias, -bias, s + (t * nb + b) * 2);
        }
        if (type == KERN_Q8_0) {
            UNROLL
            for (unsigned g = 0; g < 8; g++) {
                __m512i c = _mm512_loadu_si512(w + g * 64);
                UNROLL
                for (unsigned t = 0; t < nt; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], c, spread(q + t * k + g * 4));
            }
        } else {
            UNROLL
            for (unsigned g = 0; g < 4; g++) {
                __m512i c = _mm512_loadu_si512(w + g * 64);
                __asm__("" : "+v"(c)); /* one load, not an operand of both instructions */
                __m512i lo = _mm512_and_si512(c, low), hi = _mm512_and_si512(_mm512_srli_epi16(c, 4), low);
                UNROLL
                for (unsigned t = 0; t < nt; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], lo, spread(q + t * k + g * 4));
                UNROLL
                for (unsigned t = 0; t < nt; t++)
                    sum[t] = _mm512_dpbusd_epi32(sum[t], hi, spread(q + t * k + 16 + g * 4));
            }
        }
        __m512 dw = scales(w + (type == KERN_Q8_0 ? PANEL_Q8_0_D : PANEL_Q4_0_D));
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            __m512 scale = _mm512_mul_ps(dw, _mm512_set1_ps(d[t * nb + b]));
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[t]), scale, acc[t]);
        }
        if (type == KERN_Q4_1) {
            __m512 mw = scales(w + PANEL_Q4_1_M);
            UNROLL
            for (unsigned t = 0; t < nt; t++) {
                __m512 offset = _mm512_mul_ps(mw, _mm512_set1_ps(d[t * nb + b]));
                acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(start(1, 1, s + (t * nb + b) * 2)), offset, acc[t]);
            }
        }
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) _mm512_mask_storeu_ps(out + t * ld, v16_mask(rows), acc[t]);
}

#define QUANT_TILE(nt, out, ld, panel, x, t, rows, type) tile(nt, (out) + (t) * (ld), ld, panel, x, t, rows, type)

KERN_MATMUL(matmul_q8_0_avx512)
{
    FOR_TILES(QUANT_TILE, KERN_Q8_0);
}

KERN_MATMUL(matmul_q4_0_avx512)
{
    FOR_TILES(QUANT_TILE, KERN_Q4_0);
}

KERN_MATMUL(matmul_q4_1_avx512)
{
    FOR_TILES(QUANT_TILE, KERN_Q4_1);
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
    __m512 acc[TILE_MAX];
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[t] = _mm512_setzero_ps();
    for (size_t b = 0; b < nb; b += 8, w += PANEL_Q6_K) {
        const __m512 dw = scales(w + PANEL_Q6_K_D);
        for (size_t i = 0; i < 8; i++) {
            const int8_t *q = x->q + t0 * k + (b + i) * KERN_BLOCK;
            const int16_t *s = x->s + (t0 * nb + b + i) * 2;
            const uint8_t *c = w + i * PANEL_Q6_K_32, *sc = w + PANEL_Q6_K_SC + i * 32;
            __m512i sum[2][TILE_MAX];
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

#define Q6_TILE(nt, out, ld, panel, x, t, rows, unused) tile_q6(nt, (out) + (t) * (ld), ld, panel, x, t, rows)

KERN_MATMUL(matmul_q6_k_avx512)
{
    FOR_TILES_8(Q6_TILE, 0);
}
