/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Sixteen float lanes: one AVX-512 register or two AVX2 ones. The files of this folder are written against it and
 * compiled once for each instruction set, with its X86_SUFFIX: X86(add) is add_avx2 or add_avx512. Only
 * static inline functions here: nothing compiled for a newer CPU may be merged into what every CPU runs.
 * No load needs alignment. The _n forms touch the first n lanes only (n <= 16); loads set the others to zero.
 */
#include "kernels/expf.h"
#include "kernels/table.h"
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define X86(name) KERN_PASTE(name, X86_SUFFIX)

/* V: inline always, so that arguments become constants. UNROLL: unroll a loop of constant length fully, so that arrays
 * of vectors become registers. Both are for speed only. Unoptimized and sanitizer builds omit them: a matmul then
 * compiles in seconds, not in minutes. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __OPTIMIZE__
#define V static inline
#define UNROLL
#else
#define V static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#endif

#ifdef __AVX512F__
#include "kernels/x86/v16-avx512.h"
#else
#include "kernels/x86/v16-avx2.h"
#endif

/* expf.h's polynomial, for x <= EXP_MAX or a NaN. */
V v16 v16_exp_below(v16 x)
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

/* The same for all x. */
V v16 v16_exp(v16 x)
{
    return v16_exp_cut(v16_exp_below(x), x);
}

V v16 v16_softcap(v16 x, v16 cap)
{
    v16 one = v16_set1(1), e = v16_exp(v16_mul(v16_set1(-2), v16_div(v16_abs(x), cap)));
    return v16_mul(v16_sign(v16_div(v16_sub(one, e), v16_add(one, e)), x), cap);
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

V __m256 v16_fold_half(__m256 a, __m256 b, bool top)
{
    return top ? _mm256_max_ps(a, b) : _mm256_add_ps(a, b);
}

/* v16_fold of eight vectors, or v16_top, in the same order. */
V __m256 v16_fold8(const v16 *x, bool top)
{
    __m256 y[8], z[4], u[2];
    UNROLL
    for (unsigned i = 0; i < 8; i++) y[i] = v16_fold_half(v16_low(x[i]), v16_high(x[i]), top);
    UNROLL
    for (unsigned i = 0; i < 4; i++) /* four lanes of vector i, then of i + 4 */
        z[i] = v16_fold_half(_mm256_permute2f128_ps(y[i], y[i + 4], 0x20), _mm256_permute2f128_ps(y[i], y[i + 4], 0x31),
                             top);
    UNROLL
    for (unsigned i = 0; i < 2; i++)
        u[i] = v16_fold_half(_mm256_shuffle_ps(z[2 * i], z[2 * i + 1], 0x44),
                             _mm256_shuffle_ps(z[2 * i], z[2 * i + 1], 0xee), top);
    return v16_fold_half(_mm256_shuffle_ps(u[0], u[1], 0x88), _mm256_shuffle_ps(u[0], u[1], 0xdd), top);
}

/* v16_fold of n vectors, or v16_top. */
V void v16_fold_n(float *out, const v16 *x, unsigned n, bool top)
{
    if (n == 8) {
        _mm256_storeu_ps(out, v16_fold8(x, top));
        return;
    }
    UNROLL
    for (unsigned i = 0; i < n; i++) out[i] = top ? v16_top(x[i]) : v16_fold(x[i]);
}

/* Sixteen lanes rounded half to even, clamped to -127 … 127. */
V __m128i v16_round_i8(v16 x)
{
    __m256i a = _mm256_cvtps_epi32(v16_low(x)), b = _mm256_cvtps_epi32(v16_high(x));
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
    __m128i c = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    return _mm_max_epi8(c, _mm_set1_epi8(-127));
}
