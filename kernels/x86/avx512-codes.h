/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the types' panels hold (panel.h) as AVX-512 registers: the codes of 4 columns and 16 rows as bytes, the 16
 * rows' scales as floats. @type is a constant everywhere.
 *
 * A wide block is 32 columns of a panel of any type: 8 such registers of codes, columns ascending, then the scales in
 * the order of enum scale.
 */
#include "kernels/panel.h"
#include "kernels/x86/v16.h"

#define WIDE_SCALES      512
#define WIDE_BYTES(type) (WIDE_SCALES + 64 * ((type) == KERN_Q6_K ? 3 : (type) == KERN_Q4_1 ? 2 : 1))

enum scale { SCALE_D, SCALE_M, SCALE_SUB0 = SCALE_M, SCALE_SUB1 }; /* m: Q4_1; sub-scales of 16 columns: Q6_K */

/* One block of 32 columns in a panel: its codes, f16 d, and (Q4_1) f16 m or (Q6_K) i8 sub-scales. */
struct packed {
    const uint8_t *c, *d, *more;
};

/* What is to be subtracted from a code. */
V int packed_bias(enum kern_type type)
{
    return type == KERN_Q8_0   ? PANEL_Q8_BIAS
           : type == KERN_Q4_0 ? PANEL_Q4_BIAS
           : type == KERN_Q6_K ? PANEL_Q6_BIAS
                               : 0;
}

/* Of a block; of Q6_K an eighth of its 256 columns'. */
V size_t packed_bytes(enum kern_type type)
{
    return type == KERN_Q8_0   ? PANEL_Q8_0
           : type == KERN_Q4_0 ? PANEL_Q4_0
           : type == KERN_Q4_1 ? PANEL_Q4_1
                               : PANEL_Q6_K / 8;
}

/* Of a panel of @nb blocks. */
V size_t packed_panel(enum kern_type type, size_t nb)
{
    return (nb * packed_bytes(type) + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN;
}

V struct packed packed_at(enum kern_type type, const uint8_t *panel, size_t b)
{
    if (type == KERN_Q6_K) {
        const uint8_t *w = panel + b / 8 * PANEL_Q6_K;
        return (struct packed){w + b % 8 * PANEL_Q6_K_32, w + PANEL_Q6_K_D, w + PANEL_Q6_K_SC + b % 8 * 32};
    }
    const uint8_t *w = panel + b * packed_bytes(type);
    return (struct packed){w, w + (type == KERN_Q8_0 ? PANEL_Q8_0_D : PANEL_Q4_0_D), w + PANEL_Q4_1_M};
}

/* A load that stays one instruction of its own: most lie across two cache lines, and what two instructions need they
 * would otherwise both load. */
V __m512i load_once(const uint8_t *p)
{
    __m512i c = _mm512_loadu_si512(p);
    __asm__("" : "+v"(c));
    return c;
}

/* What registers of codes are made of: @low gives number g and g + 4 (not Q8_0), @high (Q6_K) 0 … 3 or 4 … 7. */
struct raw {
    __m512i low, high;
};

/* Load what number @g needs that @r has not yet, given that 4-bit types ask for 0 4 1 5 …, the others ascending. */
V void packed_load(enum kern_type type, struct raw *r, struct packed p, unsigned g)
{
    if (type == KERN_Q8_0)
        r->low = _mm512_loadu_si512(p.c + g * 64);
    else if (type == KERN_Q6_K || g < 4)
        r->low = load_once(p.c + g % 4 * 64);
    if (type == KERN_Q6_K && g % 4 == 0) r->high = load_once(p.c + PANEL_Q6_K_H + g / 4 * 64);
}

/* Register @g (0 … 7) of codes. */
V __m512i packed_codes(enum kern_type type, struct raw r, unsigned g)
{
    enum { A_OR_B_AND_C = 0xf8 };
    if (type == KERN_Q8_0) return r.low;
    __m512i low = g < 4 ? r.low : _mm512_srli_epi16(r.low, 4), high = r.high;
    low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    if (type != KERN_Q6_K) return low;
    if (g % 4 == 0) high = _mm512_slli_epi16(high, 4); /* its 2 bits of number g are from 2 * (g % 4) on, to bit 4 */
    if (g % 4 == 1) high = _mm512_slli_epi16(high, 2);
    if (g % 4 == 3) high = _mm512_srli_epi16(high, 2);
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(0x30), A_OR_B_AND_C);
}

V __m512 packed_scales(enum kern_type type, struct packed p, enum scale which)
{
    if (type == KERN_Q6_K && which != SCALE_D) {
        const __m128i *sc = (const __m128i *)(p.more + (which == SCALE_SUB0 ? 0 : 16));
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(sc)));
    }
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(which == SCALE_D ? p.d : p.more)));
}
