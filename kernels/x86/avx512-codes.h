/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Panels (panel.h) as AVX-512 registers: the codes of 4 columns and 16 rows as bytes, the 16 rows' scales as floats.
 * @type is a constant everywhere. For types with a table, the byte is the table's value plus the bias.
 *
 * A wide block is 32 columns of a panel of any type: 8 such registers of codes, columns ascending, then the scales in
 * the order of enum scale.
 */
#include "kernels/panel.h"
#include "kernels/x86/v16.h"

#define WIDE_SCALES 512
#define WIDE_MOST   (WIDE_SCALES + 64 * 5)

/* d (times the 32 columns' sub-scale) and, where there is an offset, m (times their minimum); or d and the sub-scales
 * of 16 columns and, where there is an offset, m and the two minima as pairs of 16 bits. */
enum scale { SCALE_D, SCALE_M, SCALE_SUB0 = SCALE_M, SCALE_SUB1, SCALE_HALVES_M, SCALE_MINIMA };

/* One block of 32 columns in a panel: its codes, the bytes of SUB, HALVES or E8M0, f16 d and m. */
struct packed {
    const uint8_t *c, *sub, *d, *m;
};

V const struct panel_form *form(enum kern_type type)
{
    return &panel_forms[type];
}

V bool has_halves(enum kern_type type)
{
    return form(type)->scales == PANEL_HALVES;
}

V bool has_offset(enum kern_type type)
{
    return form(type)->m;
}

/* The bias of a code. */
V int packed_bias(enum kern_type type)
{
    return form(type)->bias;
}

V unsigned wide_scales(enum kern_type type)
{
    return has_halves(type) ? (has_offset(type) ? 5 : 3) : has_offset(type) ? 2 : 1;
}

V size_t wide_bytes(enum kern_type type)
{
    return WIDE_SCALES + 64 * wide_scales(type);
}

/* Of 32 columns, with their part of a group's scales. */
V size_t packed_bytes(enum kern_type type)
{
    return form(type)->group / form(type)->blocks;
}

/* Of a panel of @nb blocks. */
V size_t packed_panel(enum kern_type type, size_t nb)
{
    return kern_align(nb / form(type)->blocks * form(type)->group);
}

V struct packed packed_at(enum kern_type type, const uint8_t *panel, size_t b)
{
    const struct panel_form *f = form(type);
    const size_t i = b % f->blocks;
    const uint8_t *w = panel + b / f->blocks * f->group;
    return (struct packed){w + i * f->step, w + f->sub + i * f->sub_step, w + f->d, w + f->m};
}

/* A load that the compiler does not merge into its users. Most loads cross two cache lines; two users would load twice.
 */
V __m512i load_once(const uint8_t *p)
{
    __m512i c = _mm512_loadu_si512(p);
    __asm__("" : "+v"(c));
    return c;
}

/* The loaded parts of registers of codes: @low bytes, or nibbles of number g and g + 4, @pairs of 0 … 3 or 4 … 7, @bits
 * of all. */
struct raw {
    __m512i low, pairs, bits;
};

/* The order in which dot products take registers of codes: two that are one load follow each other, where no half has
 * to be finished first. A sum of integers has no order. */
V unsigned packed_order(enum kern_type type, unsigned i)
{
    return panel_has_nibbles(form(type)) && !has_halves(type) ? i % 2 * 4 + i / 2 : i;
}

/* Load the parts of register @g that @r does not have yet, given packed_order. Each half loads its parts again. */
V void packed_load(enum kern_type type, struct raw *r, struct packed p, unsigned g)
{
    const struct panel_form *f = form(type);
    if (f->width == 8)
        r->low = _mm512_loadu_si512(p.c + g * 64);
    else if (panel_has_nibbles(f) && (has_halves(type) || g < 4))
        r->low = load_once(p.c + g % 4 * 64);
    if (panel_has_pairs(f) && g % 4 == 0) r->pairs = load_once(p.c + f->pairs + g / 4 * 64);
    if (panel_has_bits(f) && (g == 0 || (has_halves(type) && g == 4))) r->bits = load_once(p.c + f->bits);
}

/* Bit @from of each byte and those above it, to bit @to. */
V __m512i shift(__m512i x, unsigned from, unsigned to)
{
    if (from == to) return x;
    return from < to ? _mm512_slli_epi16(x, to - from) : _mm512_srli_epi16(x, from - to);
}

/* Register @g (0 … 7) of codes. */
V __m512i packed_codes(enum kern_type type, struct raw r, unsigned g)
{
    enum { A_OR_B_AND_C = 0xf8 };
    const struct panel_form *f = form(type);
    if (f->width == 8) return r.low;
    __m512i c = _mm512_setzero_si512();
    if (panel_has_nibbles(f)) c = _mm512_and_si512(g < 4 ? r.low : _mm512_srli_epi16(r.low, 4), _mm512_set1_epi8(15));
    if (panel_has_pairs(f)) {
        const unsigned to = panel_pair_bit(f);
        const __m512i mask = _mm512_set1_epi8((char)(3 << to)), pairs = shift(r.pairs, g % 4 * 2, to);
        c = to ? _mm512_ternarylogic_epi32(c, pairs, mask, A_OR_B_AND_C) : _mm512_and_si512(pairs, mask);
    }
    if (panel_has_bits(f)) {
        const unsigned to = panel_top_bit(f);
        c = _mm512_ternarylogic_epi32(c, shift(r.bits, g, to), _mm512_set1_epi8((char)(1 << to)), A_OR_B_AND_C);
    }
    if (!f->table) return c;
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)f->table));
    return _mm512_shuffle_epi8(_mm512_add_epi8(table, _mm512_set1_epi8((char)f->bias)), c);
}

V __m512 half_floats(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Sixteen bytes as integers; a sub-scale of a type without HALVES is never above 127. */
V __m512i signed_bytes(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* 2^(e - 128), subnormal for e < 2: kernels/ref/ref.h. */
V __m512 e8m0(const uint8_t *p)
{
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2)), small));
}

V __m512 negative(__m512 x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

/* d in the type's unit. */
V __m512 packed_d(enum kern_type type, struct packed p)
{
    const struct panel_form *f = form(type);
    return f->shift ? _mm512_mul_ps(half_floats(p.d), _mm512_set1_ps(panel_unit(f))) : half_floats(p.d);
}

V __m512 packed_halves(enum kern_type type, struct packed p, enum scale which)
{
    if (which == SCALE_D) return packed_d(type, p);
    if (which == SCALE_HALVES_M) return negative(half_floats(p.m));
    const __m512i s0 = signed_bytes(p.sub), s1 = signed_bytes(p.sub + 16), s = which == SCALE_SUB0 ? s0 : s1;
    const __m512i four = _mm512_set1_epi32(15);
    if (which != SCALE_MINIMA) return _mm512_cvtepi32_ps(has_offset(type) ? _mm512_and_si512(s, four) : s);
    const __m512i m0 = _mm512_and_si512(_mm512_srli_epi32(s0, 4), four);
    return _mm512_castsi512_ps(
        _mm512_or_si512(m0, _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(s1, 4), four), 16)));
}

V __m512 packed_scales(enum kern_type type, struct packed p, enum scale which)
{
    const enum panel_scales scales = form(type)->scales;
    if (scales == PANEL_HALVES) return packed_halves(type, p, which);
    if (scales == PANEL_E8M0) return e8m0(p.sub);
    __m512 s = which == SCALE_D ? packed_d(type, p) : half_floats(p.m);
    if (scales == PANEL_PLAIN) return s;
    const __m512i sub = signed_bytes(which == SCALE_D ? p.sub : p.sub + 16);
    return _mm512_mul_ps(which == SCALE_D ? s : negative(s), _mm512_cvtepi32_ps(sub));
}
