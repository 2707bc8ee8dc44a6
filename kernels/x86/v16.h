/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sixteen float lanes: one AVX-512 register or two AVX2 ones. The files of this folder are written against it and
 * compiled once for each instruction set, with X86_SUFFIX saying which: X86(add) is add_avx2 or add_avx512. Only
 * static inline functions here: nothing compiled for a newer CPU may be merged into what every CPU runs.
 * No load needs alignment. The _n forms touch the first n lanes only (n <= 16); loads set the others to zero.
 */
#include "kernels/expf.h"
#include "kernels/table.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define X86(name) KERN_PASTE(name, X86_SUFFIX)
#define V         static inline __attribute__((always_inline))

/* Unroll a loop of constant length fully, so that arrays of vectors become registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#ifdef __AVX512F__
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

/* bits(p) + (bits(t) << 23), but 0 where x < EXP_MIN and INFINITY where x > EXP_MAX. */
V v16 v16_exp_scale(v16 p, v16 t, v16 x)
{
    __m512i shift = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
    __m512 r = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), shift));
    __mmask16 low = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(EXP_MIN), _CMP_LT_OQ);
    __mmask16 high = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(EXP_MAX), _CMP_GT_OQ);
    r = _mm512_mask_mov_ps(r, low, _mm512_setzero_ps());
    return V16(_mm512_mask_mov_ps(r, high, _mm512_set1_ps(INFINITY)));
}

#else
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

V __m256 v16_exp_scale_half(__m256 p, __m256 t, __m256 x)
{
    __m256i shift = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    __m256 r = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shift));
    __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MIN), _CMP_LT_OQ);
    __m256 high = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_MAX), _CMP_GT_OQ);
    return _mm256_blendv_ps(_mm256_andnot_ps(low, r), _mm256_set1_ps(INFINITY), high);
}

/* bits(p) + (bits(t) << 23), but 0 where x < EXP_MIN and INFINITY where x > EXP_MAX. */
V v16 v16_exp_scale(v16 p, v16 t, v16 x)
{
    return V16(v16_exp_scale_half(p.a, t.a, x.a), v16_exp_scale_half(p.b, t.b, x.b));
}
#endif

/* expf.h's polynomial. */
V v16 v16_exp(v16 x)
{
    v16 t = v16_fma(x, v16_set1(EXP_LOG2E), v16_set1(EXP_MAGIC)), n = v16_sub(t, v16_set1(EXP_MAGIC));
    v16 r = v16_fma(n, v16_set1(-EXP_LN2_HI), x);
    r = v16_fma(n, v16_set1(-EXP_LN2_LO), r);
    v16 p = v16_fma(v16_set1(EXP_C6), r, v16_set1(EXP_C5));
    p = v16_fma(p, r, v16_set1(EXP_C4));
    p = v16_fma(p, r, v16_set1(EXP_C3));
    p = v16_fma(p, r, v16_set1(EXP_C2));
    p = v16_fma(p, r, v16_set1(1));
    p = v16_fma(p, r, v16_set1(1));
    return v16_exp_scale(p, t, x);
}

/* Sum of the lanes, j += j+8, j+4, j+2, j+1. */
V float v16_fold(v16 x)
{
    __m256 a = _mm256_add_ps(v16_low(x), v16_high(x));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

V float v16_top(v16 x)
{
    __m256 a = _mm256_max_ps(v16_low(x), v16_high(x));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
