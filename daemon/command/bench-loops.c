/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench-loops.h"
#include "kernels/kernels.h"
#include <stddef.h>
#include <string.h>
#ifdef __x86_64__
#include "kernels/x86/amx-tile.h"
#endif

#define STREAMS 8
#define ROUNDS  20000
#define SUMS    16 /* independent accumulators: at least latency x instructions per cycle */

typedef uint64_t vec __attribute__((vector_size(64)));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL                                                                                                         \
    _Pragma("GCC unroll 16") /* an array of vectors stays in registers only when all its loops are unrolled */

/* --- reading --- */

INLINE uint64_t read_streams(const uint8_t *p, const size_t streams, const size_t ahead)
{
    const size_t part = BENCH_CHUNK / streams;
    vec a = {0}, all[STREAMS] = {0};
    for (size_t i = 0; i < part; i += sizeof(vec)) {
        const uint8_t *at = p + i;
        UNROLL for (size_t s = 0; s < streams; s++)
        {
            if (ahead) __builtin_prefetch(at + s * part + ahead);
            all[s] |= *(const vec *)(at + s * part);
        }
    }
    UNROLL for (size_t s = 0; s < streams; s++) a |= all[s];
    return a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7];
}

/* The hardware prefetchers alone are sometimes faster than with prefetch instructions. */
INLINE uint64_t read_variant(const uint8_t *p, unsigned variant)
{
    switch (variant) {
    case 0:
        return read_streams(p, 8, 0);
    case 1:
        return read_streams(p, 8, 2048);
    case 2:
        return read_streams(p, 4, 0);
    case 3:
        return read_streams(p, 4, 2048);
    case 4:
        return read_streams(p, 1, 0);
    default:
        return read_streams(p, 1, 4096);
    }
}

static uint64_t read_plain(const uint8_t *p, unsigned variant)
{
    return read_variant(p, variant);
}

/* --- multiplying --- */

static uint64_t multiply_plain(uint64_t *result)
{
    int32_t sum[64] = {0};
    int8_t x[64], y[64];
    memset(x, (int)*result, sizeof(x));
    memset(y, 3, sizeof(y));
    for (size_t r = 0; r < ROUNDS; r++)
        for (size_t i = 0; i < 64; i++) sum[i] += x[i] * y[i];
    for (size_t i = 0; i < 64; i++) *result += (uint32_t)sum[i];
    return (uint64_t)ROUNDS * 64 * 2;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static uint64_t read_avx2(const uint8_t *p, unsigned variant)
{
    return read_variant(p, variant);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint8_t *p, unsigned variant)
{
    return read_variant(p, variant);
}

/* 32 products in one instruction, and two more instructions to add them. */
__attribute__((target("avx2"))) static uint64_t multiply_avx2(uint64_t *result)
{
    __m256i sum[SUMS / 2], one = _mm256_set1_epi16(1), x = _mm256_set1_epi8((char)*result);
    UNROLL for (size_t i = 0; i < SUMS / 2; i++) sum[i] = _mm256_set1_epi8((char)i);
    for (size_t r = 0; r < ROUNDS; r++) UNROLL for (size_t i = 0; i < SUMS / 2; i++)
        {
            __asm__("" : "+x"(x)); /* a different product each round */
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), one));
        }
    UNROLL for (size_t i = 1; i < SUMS / 2; i++) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
    *result += (uint64_t)_mm256_extract_epi64(sum[0], 0);
    return (uint64_t)ROUNDS * (SUMS / 2) * 32 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) static uint64_t multiply_vnni(uint64_t *result)
{
    __m512i sum[SUMS], x = _mm512_set1_epi8((char)*result);
    UNROLL for (size_t i = 0; i < SUMS; i++) sum[i] = _mm512_set1_epi32((int)i);
    for (size_t r = 0; r < ROUNDS; r++) UNROLL for (size_t i = 0; i < SUMS; i++)
        {
            sum[i] = _mm512_dpbusd_epi32(sum[i], x, x);
            __asm__("" : "+v"(sum[i])); /* stays in its register between rounds */
        }
    UNROLL for (size_t i = 1; i < SUMS; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    *result +=
        (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(sum[0])); /* one lane is enough, because all are equal */
    return (uint64_t)ROUNDS * SUMS * 64 * 2;
}

/* TDPBSSD alone. A product of whole tiles takes 16 cycles and its result some 52, so six sums hide the latency. */
__attribute__((target("amx-tile,amx-int8"))) static uint64_t multiply_amx(uint64_t *result)
{
    enum { TILE_SUMS = 6, TILE_ROUNDS = ROUNDS / 16 };
    static const struct tile_config config = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _Alignas(64) int32_t tile[16][16];
    memset(tile, (int)*result, sizeof(tile));
    TILE_CONFIGURE(&config);
    TILE_LOAD(6, tile, 64);
    TILE_LOAD(7, tile, 64);
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
    for (size_t r = 0; r < TILE_ROUNDS; r++) {
        TILE_DPBSSD(0, 6, 7);
        TILE_DPBSSD(1, 6, 7);
        TILE_DPBSSD(2, 6, 7);
        TILE_DPBSSD(3, 6, 7);
        TILE_DPBSSD(4, 6, 7);
        TILE_DPBSSD(5, 6, 7);
    }
    TILE_STORE(0, tile, 64);
    TILE_RELEASE();
    *result += (uint32_t)tile[0][0];
    return (uint64_t)TILE_ROUNDS * TILE_SUMS * 16 * 16 * 64 * 2;
}
#endif

const struct bench_loops *bench_loops(void)
{
    static const struct bench_loops plain = {read_plain, {multiply_plain}};
    const struct bench_loops *best = &plain;
#ifdef __x86_64__
    static const struct bench_loops avx2 = {read_avx2, {multiply_avx2}};
    static const struct bench_loops avx512 = {read_avx512, {multiply_vnni}};
    static const struct bench_loops amx = {read_avx512, {multiply_vnni, multiply_amx}};
    const struct kernels *k;
    for (size_t i = 0; (k = kernels_nth(i)); i++) {
        if (strcmp(k->name, "avx2") == 0) best = &avx2;
        if (strcmp(k->name, "avx512") == 0) best = &avx512;
        if (strcmp(k->name, "amx") == 0) best = &amx;
    }
#endif
    return best;
}
