/* SPDX-License-Identifier: MIT */
#include "libcommon/dot-rows.h"
#include <string.h>

static void dot_plain(int32_t *out, const int8_t *rows, size_t ld, size_t n, const int8_t *q, size_t k)
{
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 0;
        for (size_t j = 0; j < k; j++) sum += rows[i * ld + j] * q[j];
        out[i] = sum;
    }
}

#ifdef __x86_64__
#include <immintrin.h>

#define ROWS 4 /* at a time: they share the loads of @q */
#define AVX2 __attribute__((target("avx2")))

/* @acc + the products of 32 codes, in eight lanes: |q| * (v with the sign of q). Two products of codes are at most
 * 2 * 127 * 127, which 16 bits hold. */
AVX2 static inline __m256i dot_step(__m256i acc, __m256i q, __m256i abs_q, const int8_t *row)
{
    __m256i v = _mm256_sign_epi8(_mm256_loadu_si256((const __m256i *)row), q);
    __m256i pairs = _mm256_maddubs_epi16(abs_q, v);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* The sums of the lanes of four vectors. */
AVX2 static inline __m128i dot_fold(const __m256i a[ROWS])
{
    __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(a[0], a[1]), _mm256_hadd_epi32(a[2], a[3]));
    return _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

AVX2 static inline __m128i dot_four(const int8_t *const row[ROWS], const int8_t *q, size_t k)
{
    __m256i acc[ROWS] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                         _mm256_setzero_si256()};
    for (size_t j = 0; j < k; j += DOT_BLOCK) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(q + j)), abs_x = _mm256_abs_epi8(x);
        for (unsigned i = 0; i < ROWS; i++) acc[i] = dot_step(acc[i], x, abs_x, row[i] + j);
    }
    return dot_fold(acc);
}

AVX2 static void dot_avx2(int32_t *out, const int8_t *rows, size_t ld, size_t n, const int8_t *q, size_t k)
{
    size_t i = 0;
    for (; i + ROWS <= n; i += ROWS) {
        const int8_t *const row[ROWS] = {rows + i * ld, rows + (i + 1) * ld, rows + (i + 2) * ld, rows + (i + 3) * ld};
        _mm_storeu_si128((__m128i *)(out + i), dot_four(row, q, k));
    }
    for (; i < n; i++) {
        const int8_t *const row[ROWS] = {rows + i * ld, rows + i * ld, rows + i * ld, rows + i * ld};
        out[i] = _mm_cvtsi128_si32(dot_four(row, q, k));
    }
}

static dot_rows_fn *best(void)
{
    __builtin_cpu_init(); /* the result includes the state that the system saves (XCR0) */
    return __builtin_cpu_supports("avx2") ? dot_avx2 : dot_plain;
}
#else
static dot_rows_fn *best(void)
{
    return dot_plain;
}
#endif

dot_rows_fn *dot_rows_get(const char *limit)
{
    static const char *const names[] = {"scalar", "avx2", "avx512", "amx"};
    if (!limit) return best();
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strcmp(limit, names[i])) return i ? best() : dot_plain;
    return NULL;
}
