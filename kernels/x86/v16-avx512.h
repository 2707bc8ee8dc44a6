/* SPDX-License-Identifier: MIT */
#pragma once
/* v16.h's lanes as one AVX-512 register. Included from there only. */

typedef struct {
    __m512 v;
} v16;
#define V16(...) ((v16){__VA_ARGS__})

V __mmask16 v16_mask(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

V v16 v16_set1(float f)
{
    return V16(_mm512_set1_ps(f));
}

V v16 v16_load(const float *p)
{
    return V16(_mm512_loadu_ps(p));
}

V v16 v16_load_n(const float *p, size_t n)
{
    return V16(_mm512_maskz_loadu_ps(v16_mask(n), p));
}

V void v16_store(float *p, v16 a)
{
    _mm512_storeu_ps(p, a.v);
}

V void v16_store_n(float *p, v16 a, size_t n)
{
    _mm512_mask_storeu_ps(p, v16_mask(n), a.v);
}

V v16 v16_load_f16(const uint16_t *p)
{
    return V16(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)));
}

V v16 v16_load_f16_n(const uint16_t *p, size_t n)
{
    return V16(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v16_mask(n), p)));
}

/* One f16 in every lane. */
V v16 v16_set1_f16(const uint16_t *p)
{
    return V16(_mm512_cvtph_ps(_mm256_set1_epi16((short)*p)));
}

V v16 v16_load_i8(const int8_t *p)
{
    return V16(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p))));
}

V v16 v16_load_i8_n(const int8_t *p, size_t n)
{
    return V16(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(v16_mask(n), p))));
}

V void v16_store_f16_n(uint16_t *p, v16 a, size_t n)
{
    _mm256_mask_storeu_epi16(p, v16_mask(n), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

V v16 v16_load_bf16(const uint16_t *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return V16(_mm512_castsi512_ps(_mm512_slli_epi32(w, 16)));
}

V v16 v16_add(v16 a, v16 b)
{
    return V16(_mm512_add_ps(a.v, b.v));
}

V v16 v16_sub(v16 a, v16 b)
{
    return V16(_mm512_sub_ps(a.v, b.v));
}

V v16 v16_mul(v16 a, v16 b)
{
    return V16(_mm512_mul_ps(a.v, b.v));
}

V v16 v16_div(v16 a, v16 b)
{
    return V16(_mm512_div_ps(a.v, b.v));
}

V v16 v16_max(v16 a, v16 b)
{
    return V16(_mm512_max_ps(a.v, b.v));
}

V v16 v16_min(v16 a, v16 b)
{
    return V16(_mm512_min_ps(a.v, b.v));
}

V v16 v16_fma(v16 a, v16 b, v16 c)
{
    return V16(_mm512_fmadd_ps(a.v, b.v, c.v));
}

/* Even lanes a*b - c, odd ones a*b + c. */
V v16 v16_fmaddsub(v16 a, v16 b, v16 c)
{
    return V16(_mm512_fmaddsub_ps(a.v, b.v, c.v));
}

V v16 v16_dup_even(v16 a)
{
    return V16(_mm512_moveldup_ps(a.v));
}

V v16 v16_dup_odd(v16 a)
{
    return V16(_mm512_movehdup_ps(a.v));
}

V v16 v16_neg(v16 a)
{
    return V16(_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f)));
}

V v16 v16_abs(v16 a)
{
    return V16(_mm512_abs_ps(a.v));
}

/* The non-negative lanes of @x with the signs of @y. */
V v16 v16_sign(v16 x, v16 y)
{
    return V16(_mm512_or_ps(x.v, _mm512_and_ps(y.v, _mm512_set1_ps(-0.0f))));
}

V v16 v16_pair(__m256 a, __m256 b)
{
    return V16(_mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1));
}

V __m256 v16_low(v16 a)
{
    return _mm512_castps512_ps256(a.v);
}

V __m256 v16_high(v16 a)
{
    return _mm512_extractf32x8_ps(a.v, 1);
}

/* Lanes lo <= j < hi of @a, @b elsewhere. */
V v16 v16_range(v16 a, v16 b, unsigned lo, unsigned hi)
{
    return V16(_mm512_mask_mov_ps(b.v, (__mmask16)(v16_mask(hi) & ~v16_mask(lo)), a.v));
}

/* A bit for each lane of @a that is larger than that of @b. */
V unsigned v16_above(v16 a, v16 b)
{
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ);
}

/* @yes in the lanes whose bit is set, @no elsewhere. */
V v16 v16_pick(unsigned bits, v16 yes, v16 no)
{
    return V16(_mm512_mask_mov_ps(no.v, (__mmask16)bits, yes.v));
}

/* @yes where x > 0, @no elsewhere. */
V v16 v16_above_zero(v16 x, v16 yes, v16 no)
{
    return V16(_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GT_OQ), yes.v));
}

/* bits(p) + (bits(t) << 23), but 0 where x < EXP_MIN. */
V v16 v16_exp_scale(v16 p, v16 t, v16 x)
{
    __m512i shift = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
    __m512 r = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), shift));
    return V16(
        _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(EXP_MIN), _CMP_LT_OQ), _mm512_setzero_ps()));
}

/* @e, but INFINITY where x > EXP_MAX. */
V v16 v16_exp_cut(v16 e, v16 x)
{
    __mmask16 high = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(EXP_MAX), _CMP_GT_OQ);
    return V16(_mm512_mask_mov_ps(e.v, high, _mm512_set1_ps(INFINITY)));
}
