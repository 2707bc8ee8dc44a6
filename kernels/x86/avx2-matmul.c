/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights with AVX2. vpmaddubsw adds pairs of products into 16 bits: with 4-bit codes a whole block of 32
 * stays below 16 * 15 * 127 = 30,480 in each lane, so nothing saturates and one vpmaddwd per block widens; larger codes
 * are widened more often (until()), and codes of 8 bits are split into two halves of 4.
 */
#include "kernels/panel.h"
#include "kernels/x86/tiles.h"
#include "kernels/x86/v16.h"

#define MOST 4 /* tokens of a tile */

/* One block of 32 columns of 8 rows: codes, the bytes of SUB, HALVES or E8M0, f16 d and m. */
struct packed {
    const uint8_t *c, *sub, *d, *m;
};

V __m256i spread(const void *p)
{
    return _mm256_set1_epi32(load_lane(p));
}

V __m256i widen(__m256i pairs, short factor)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(factor));
}

/* @x, whose sum the compiler may not reorder: its tree of all products of a block needs more registers than there are,
 * and half of the time went into storing them. */
V __m256i keep(__m256i x)
{
    __asm__("" : "+x"(x));
    return x;
}

V __m256i dot_add(__m256i sum, __m256i codes, const int8_t *q)
{
    return keep(_mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, spread(q))));
}

V __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Bit @from of each byte and those above it, to bit @to. */
V __m256i shift(__m256i x, unsigned from, unsigned to)
{
    return from < to ? _mm256_slli_epi16(x, (int)(to - from)) : _mm256_srli_epi16(x, (int)(from - to));
}

/* Codes of 4 columns, number @g (0 … 7); a table's values with the bias. */
V __m256i codes(const struct panel_form *f, const uint8_t *w, unsigned g)
{
    __m256i c = _mm256_setzero_si256();
    if (f->width == 8) return load(w + g * 64);
    if (panel_has_nibbles(f)) c = _mm256_and_si256(shift(load(w + g % 4 * 64), g / 4 * 4, 0), _mm256_set1_epi8(15));
    if (panel_has_pairs(f)) {
        const unsigned to = panel_pair_bit(f);
        __m256i pairs = shift(load(w + f->pairs + g / 4 * 64), g % 4 * 2, to);
        c = _mm256_or_si256(c, _mm256_and_si256(pairs, _mm256_set1_epi8((char)(3 << to))));
    }
    if (panel_has_bits(f)) {
        const unsigned to = panel_top_bit(f);
        __m256i bits = shift(load(w + f->bits), g, to);
        c = _mm256_or_si256(c, _mm256_and_si256(bits, _mm256_set1_epi8((char)(1 << to))));
    }
    if (!f->table) return c;
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)f->table));
    return _mm256_shuffle_epi8(_mm256_add_epi8(table, _mm256_set1_epi8((char)f->bias)), c);
}

V bool eight_bits(const struct panel_form *f)
{
    return f->bias == 128;
}

/* Number of groups of 4 columns whose sum fits into 16 bits: 8 of codes below 16, 4 below 32, 2 below 64, 1 below 128.
 * With the bias a table's values are at most twice the bias. */
V unsigned until(const struct panel_form *f)
{
    if (f->table && !eight_bits(f)) return f->bias < 16 ? 4 : 1;
    return f->width == 6 ? 2 : f->width == 5 ? 4 : 8;
}

/* sum[t] = exact dot products of 8 rows' unsigned codes with @nt tokens' columns, groups g0 … g1 - 1 of 4. */
V void dot(unsigned nt, const struct panel_form *f, __m256i *sum, const uint8_t *w, const int8_t *q, unsigned g0,
           unsigned g1)
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i pairs[MOST], upper[MOST];
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = pairs[t] = upper[t] = _mm256_setzero_si256();
    UNROLL
    for (unsigned g = g0; g < g1; g++) {
        __m256i c = codes(f, w, g);
        __m256i lo = eight_bits(f) ? _mm256_and_si256(c, low) : c;
        __m256i hi = _mm256_and_si256(_mm256_srli_epi16(c, 4), low);
        const bool full = (g + 1 - g0) % until(f) == 0 || g + 1 == g1;
        UNROLL
        for (unsigned t = 0; t < nt; t++) {
            pairs[t] = dot_add(pairs[t], lo, q + t * KERN_BLOCK + g * 4);
            if (eight_bits(f)) upper[t] = dot_add(upper[t], hi, q + t * KERN_BLOCK + g * 4);
            if (!full) continue;
            sum[t] = _mm256_add_epi32(sum[t], widen(pairs[t], 1));
            pairs[t] = _mm256_setzero_si256();
        }
    }
    if (!eight_bits(f)) return;
    UNROLL
    for (unsigned t = 0; t < nt; t++) sum[t] = _mm256_add_epi32(sum[t], widen(upper[t], 16));
}

V __m256 halves(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* d in the type's unit. */
V __m256 scale_d(const struct panel_form *f, const uint8_t *p)
{
    return f->shift ? _mm256_mul_ps(halves(p), _mm256_set1_ps(panel_unit(f))) : halves(p);
}

V __m256i signed_bytes(const uint8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* 2^(e - 128), subnormal for e < 2: kernels/ref/ref.h. */
V __m256 e8m0(const uint8_t *p)
{
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

V __m256 negative(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

/* acc[t] = fma(isum, f32(scale * dx), acc) */
V void add_scaled(unsigned nt, __m256 *acc, const __m256 *isum, __m256 scale, const float *d)
{
    UNROLL
    for (unsigned t = 0; t < nt; t++)
        acc[t] = _mm256_fmadd_ps(isum[t], _mm256_mul_ps(scale, _mm256_set1_ps(d[t * 2])), acc[t]);
}

/* The activations of a tile's tokens, one block of them after the other. */
struct acts {
    const int8_t *q;
    const float *d;
    const int16_t *s;
};

/* One block of 8 rows, added to acc[t] (ARITHMETIC.md, matrix products). */
V void block(unsigned nt, const struct panel_form *f, __m256 *acc, struct packed w, struct acts x)
{
    __m256i sum[MOST];
    __m256 isum[MOST];
    __m256 dw = f->scales == PANEL_E8M0 ? e8m0(w.sub) : scale_d(f, w.d);
    if (f->scales == PANEL_SUB) dw = _mm256_mul_ps(dw, _mm256_cvtepi32_ps(signed_bytes(w.sub)));
    dot(nt, f, sum, w.c, x.q, 0, 8);
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        if (f->bias) sum[t] = _mm256_sub_epi32(sum[t], widen(spread(x.s + t * 2), f->bias));
        isum[t] = _mm256_cvtepi32_ps(sum[t]);
    }
    add_scaled(nt, acc, isum, dw, x.d);
    if (!f->m) return;
    __m256 mw = halves(w.m);
    if (f->scales == PANEL_SUB) mw = _mm256_mul_ps(negative(mw), _mm256_cvtepi32_ps(signed_bytes(w.sub + 16)));
    UNROLL
    for (unsigned t = 0; t < nt; t++) acc[t] = _mm256_fmadd_ps(mw, _mm256_set1_ps(x.d[t * 2 + 1]), acc[t]);
}

/* The same where halves of 16 columns have sub-scales. Their products and the sum of both are exact in floats:
 * kernels/ref/matmul.c gives the reason. */
V void block_halves(unsigned nt, const struct panel_form *f, __m256 *acc, struct packed w, struct acts x)
{
    const __m256i low = _mm256_set1_epi32(15);
    __m256i sum[2][MOST], sc[2], minima[2];
    __m256 isum[MOST];
    UNROLL
    for (unsigned h = 0; h < 2; h++) {
        dot(nt, f, sum[h], w.c, x.q, 4 * h, 4 * h + 4);
        sc[h] = signed_bytes(w.sub + 16 * h);
        minima[h] = _mm256_and_si256(_mm256_srli_epi32(sc[h], 4), low);
        if (f->m) sc[h] = _mm256_and_si256(sc[h], low);
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) {
        const int16_t *both = x.s + t * 2;
        __m256i s0 = _mm256_sub_epi32(sum[0][t], _mm256_set1_epi32(f->bias * both[0]));
        __m256i s1 = _mm256_sub_epi32(sum[1][t], _mm256_set1_epi32(f->bias * both[1]));
        isum[t] = _mm256_mul_ps(_mm256_cvtepi32_ps(s0), _mm256_cvtepi32_ps(sc[0]));
        isum[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s1), _mm256_cvtepi32_ps(sc[1]), isum[t]);
    }
    add_scaled(nt, acc, isum, scale_d(f, w.d), x.d);
    if (!f->m) return;
    const __m256i pair = _mm256_or_si256(minima[0], _mm256_slli_epi32(minima[1], 16));
    UNROLL
    for (unsigned t = 0; t < nt; t++) isum[t] = _mm256_cvtepi32_ps(_mm256_madd_epi16(pair, spread(x.s + t * 2)));
    add_scaled(nt, acc, isum, negative(halves(w.m)), x.d);
}

/* acc[half][t] of @nt tokens, for the halves from @first to before @last of a panel: rows 0-7, rows 8-15. */
V void tile_halves(unsigned nt, unsigned first, unsigned last, __m256 (*acc)[MOST], const uint8_t *w,
                   const struct kern_acts *x, size_t t0, enum kern_type type)
{
    const struct panel_form *f = &panel_forms[type];
    const size_t nb = x->k / KERN_BLOCK;
    const struct kern_act a = kern_act(x->n, t0, nb);
    struct acts at = {x->q + a.at * KERN_BLOCK, x->d + a.at * 2, x->s + a.at * 2};
    UNROLL
    for (unsigned half = first; half < last; half++) {
        UNROLL
        for (unsigned t = 0; t < nt; t++) acc[half][t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < nb; b++, at.q += a.step * KERN_BLOCK, at.d += a.step * 2, at.s += a.step * 2) {
        const size_t i = b % f->blocks;
        const uint8_t *c = w + i * f->step, *sub = w + f->sub + i * f->sub_step;
        if (t0 == 0 && first == 0) panel_prefetch(c, f->group / f->blocks);
        UNROLL
        for (unsigned half = first; half < last; half++) {
            struct packed p = {c + half * 32, sub + half * 8, w + f->d + half * 16, w + f->m + half * 16};
            if (f->scales == PANEL_HALVES)
                block_halves(nt, f, acc[half], p, at);
            else
                block(nt, f, acc[half], p, at);
        }
        if (i + 1u == f->blocks) w += f->group;
    }
}

/* The sums of 8 rows and 4 tokens stay in registers: the panel, which is in a cache, is read twice. With fewer tokens
 * memory is the limit. */
V void tile(unsigned nt, float *out, size_t ld, const uint8_t *w, const struct kern_acts *x, size_t t0, unsigned rows,
            enum kern_type type)
{
    __m256 acc[2][MOST];
    if (nt < MOST) {
        tile_halves(nt, 0, 2, acc, w, x, t0, type);
    } else {
        tile_halves(nt, 0, 1, acc, w, x, t0, type);
        tile_halves(nt, 1, 2, acc, w, x, t0, type);
    }
    UNROLL
    for (unsigned t = 0; t < nt; t++) v16_store_n(out + t * ld, v16_pair(acc[0][t], acc[1][t]), rows);
}

#define TILE(np, nt, out, ld, w, stride, x, t, rows, type) tile(nt, (out) + (t) * (ld), ld, w, x, t, rows, type)

#define MATMUL(type, name, unused)                                                                                     \
    KERN_MATMUL(matmul_##name##_avx2)                                                                                  \
    {                                                                                                                  \
        const struct panel_form *f = &panel_forms[KERN_##type];                                                        \
        FOR_TILES_1(STEPS_TO_4, kern_align(x->k / KERN_BLOCK / f->blocks * f->group), TILE, KERN_##type);              \
    }

KERN_QUANTIZED(MATMUL, )
