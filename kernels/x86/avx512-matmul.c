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
    int32_t four;
    memcpy(&four, q, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* -bias * s in each lane: s fits the lower 16 bits of the pairs that vpdpwssd multiplies. */
V __m512i start(int bias, int32_t s)
{
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), _mm512_set1_epi32(-bias & 0xffff), _mm512_set1_epi32(s));
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
    const int32_t *s = x->s + t0 * nb;
    const __m512i low = _mm512_set1_epi8(15);
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
                sum[t] = start(type == KERN_Q8_0 ? PANEL_Q8_BIAS : PANEL_Q4_BIAS, s[t * nb + b]);
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
                acc[t] = _mm512_fmadd_ps(_mm512_set1_ps((float)s[t * nb + b]), offset, acc[t]);
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
