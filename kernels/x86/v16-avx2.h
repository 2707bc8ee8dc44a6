/* SPDX-License-Identifier: MIT */
#pragma once
/* v16.h's lanes as two AVX2 registers. Included from there only. */

typedef struct {
    __m256 a, b;
} v16;
#define V16(...) ((v16){__VA_ARGS__})

V __m256i v16_mask_half(size_t n, unsigned first)
{
    __m256i lane = _mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32((int)first));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

V v16 v16_set1(float f)
{
    return V16(_mm256_set1_ps(f), _mm256_set1_ps(f));
}

V v16 v16_load(const float *p)
{
    return V16(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}

V v16 v16_load_n(const float *p, size_t n)
{
    return V16(_mm256_maskload_ps(p, v16_mask_half(n, 0)), _mm256_maskload_ps(p + 8, v16_mask_half(n, 8)));
}

V void v16_store(float *p, v16 a)
{
    _mm256_storeu_ps(p, a.a);
    _mm256_storeu_ps(p + 8, a.b);
}

V void v16_store_n(float *p, v16 a, size_t n)
{
    _mm256_maskstore_ps(p, v16_mask_half(n, 0), a.a);
    _mm256_maskstore_ps(p + 8, v16_mask_half(n, 8), a.b);
}

V v16 v16_load_f16(const uint16_t *p)
{
    return V16(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
               _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}

V v16 v16_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t h[16] = {0};
    memcpy(h, p, n * sizeof(*h));
    return v16_load_f16(h);
}

/* One f16 in every lane. */
V v16 v16_set1_f16(const uint16_t *p)
{
    __m256 x = _mm256_cvtph_ps(_mm_set1_epi16((short)*p));
    return V16(x, x);
}

V v16 v16_load_i8(const int8_t *p)
{
    __m128i c = _mm_loadu_si128((const __m128i *)p);
    return V16(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c)),
               _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(c, 8))));
}

V v16 v16_load_i8_n(const int8_t *p, size_t n)
{
    int8_t c[16] = {0};
    memcpy(c, p, n);
    return v16_load_i8(c);
}

V void v16_store_f16_n(uint16_t *p, v16 a, size_t n)
{
    __m128i h[2] = {_mm256_cvtps_ph(a.a, _MM_FROUND_TO_NEAREST_INT), _mm256_cvtps_ph(a.b, _MM_FROUND_TO_NEAREST_INT)};
    memcpy(p, h, n * sizeof(*p));
}

V v16 v16_load_bf16(const uint16_t *p)
{
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return V16(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
}

V v16 v16_add(v16 x, v16 y)
{
    return V16(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}

V v16 v16_sub(v16 x, v16 y)
{
    return V16(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}

V v16 v16_mul(v16 x, v16 y)
{
    return V16(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}

V v16 v16_div(v16 x, v16 y)
{
    return V16(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}

V v16 v16_max(v16 x, v16 y)
{
    return V16(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}

V v16 v16_min(v16 x, v16 y)
{
    return V16(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}

V v16 v16_fma(v16 x, v16 y, v16 z)
{
    return V16(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}

/* Even lanes x*y - z, odd ones x*y + z. */
V v16 v16_fmaddsub(v16 x, v16 y, v16 z)
{
    return V16(_mm256_fmaddsub_ps(x.a, y.a, z.a), _mm256_fmaddsub_ps(x.b, y.b, z.b));
}

V v16 v16_dup_even(v16 x)
{
    return V16(_mm256_moveldup_ps(x.a), _mm256_moveldup_ps(x.b));
}

V v16 v16_dup_odd(v16 x)
{
    return V16(_mm256_movehdup_ps(x.a), _mm256_movehdup_ps(x.b));
}

V v16 v16_neg(v16 x)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return V16(_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign));
}

V v16 v16_abs(v16 x)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return V16(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}

/* The non-negative lanes of @x with the signs of @y. */
V v16 v16_sign(v16 x, v16 y)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return V16(_mm256_or_ps(x.a, _mm256_and_ps(y.a, sign)), _mm256_or_ps(x.b, _mm256_and_ps(y.b, sign)));
}

V v16 v16_pair(__m256 a, __m256 b)
{
    return V16(a, b);
}

V __m256 v16_low(v16 x)
{
    return x.a;
}

V __m256 v16_high(v16 x)
{
    return x.b;
}

V __m256 v16_range_half(__m256 x, __m256 y, unsigned lo, unsigned hi, unsigned first)
{
    __m256i in = _mm256_andnot_si256(v16_mask_half(lo, first), v16_mask_half(hi, first));
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(in));
}

/* Lanes lo <= j < hi of @x, @y elsewhere. */
V v16 v16_range(v16 x, v16 y, unsigned lo, unsigned hi)
{
    return V16(v16_range_half(x.a, y.a, lo, hi, 0), v16_range_half(x.b, y.b, lo, hi, 8));
}

/* A bit for each lane of @x that is larger than that of @y. */
V unsigned v16_above(v16 x, v16 y)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ)) |
           (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)) << 8;
}

V __m256 v16_pick_half(unsigned bits, __m256 yes, __m256 no)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)));
}

/* @yes in the lanes whose bit is set, @no elsewhere. */
V v16 v16_pick(unsigned bits, v16 yes, v16 no)
{
    return V16(v16_pick_half(bits, yes.a, no.a), v16_pick_half(bits >> 8, yes.b, no.b));
}

V __m256 v16_above_zero_half(__m256 x, __m256 yes, __m256 no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}

/* @yes where x > 0, @no elsewhere. */
V v16 v16_above_zero(v16 x, v16 yes, v16 no)
{
    return V16(v16_above_zero_half(x.a, yes.a, no.a), v16_above_zero_half(x.b, yes.b, no.b));
}

V __m256 v16_exp_scale_half(__m256 p, __m256 t, __m256 x)
{
    __m256i shift = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    __m256 r = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shift));
    return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_LT_OQ), r);
}

/* bits(p) + (bits(t) << 23), but 0 where x < EXP_MIN. */
V v16 v16_exp_scale(v16 p, v16 t, v16 x)
{
    return V16(v16_exp_scale_half(p.a, t.a, x.a), v16_exp_scale_half(p.b, t.b, x.b));
}

V __m256 v16_exp_cut_half(__m256 e, __m256 x)
{
    return _mm256_blendv_ps(e, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MAX), _CMP_GT_OQ));
}

/* @e, but INFINITY where x > EXP_MAX. */
V v16 v16_exp_cut(v16 e, v16 x)
{
    return V16(v16_exp_cut_half(e.a, x.a), v16_exp_cut_half(e.b, x.b));
}
