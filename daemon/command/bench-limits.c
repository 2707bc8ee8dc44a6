/* SPDX-License-Identifier: MIT */
/*
 * The limits of the machine, so that every other figure can be read as a share of them. Both loops are as simple as
 * possible: no kernel is faster. Machines are shared, so the best of many short passes counts.
 */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/command/bench.h"
#include "libcommon/error.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define STREAMS 8
#define CHUNK   ((size_t)1 << 20)   /* read at a time by one thread, in STREAMS streams */
#define WINDOW  ((size_t)24)        /* chunks in a pass; the next pass reads the next chunks */
#define LEAST   ((size_t)256 << 20) /* smallest buffer; larger if the last cache is large */
#define AHEAD   ((size_t)2048)      /* bytes of prefetch */
#define SECONDS 0.4                 /* for each limit */
#define PIECES  4                   /* per thread, in one pass of arithmetic */
#define ROUNDS  20000
#define SUMS    16 /* independent accumulators: at least latency x instructions per cycle */

typedef uint64_t vec __attribute__((vector_size(64)));

struct loops {
    uint64_t (*read)(const uint8_t *p, size_t ahead); /* reads a chunk */
    uint64_t (*multiply)(uint64_t *result);           /* returns the number of operations */
};

struct passes {
    const struct loops *loops;
    const uint8_t *mem;
    size_t size, ahead;
    atomic_ullong result; /* keeps the work from being optimized away */
    atomic_ullong ops;
};

/* --- the loops --- */

#define INLINE static inline __attribute__((always_inline))
#define UNROLL                                                                                                         \
    _Pragma("GCC unroll 16") /* an array of vectors stays in registers only when all its loops are unrolled */

INLINE uint64_t read_chunk(const uint8_t *p, size_t ahead)
{
    const size_t part = CHUNK / STREAMS;
    vec a = {0}, all[STREAMS] = {0};
    for (size_t i = 0; i < part; i += sizeof(vec)) {
        const uint8_t *at = p + i;
        if (ahead)
            for (size_t s = 0; s < STREAMS; s++) __builtin_prefetch(at + s * part + ahead);
        UNROLL for (size_t s = 0; s < STREAMS; s++) all[s] |= *(const vec *)(at + s * part);
    }
    for (size_t s = 0; s < STREAMS; s++) a |= all[s];
    return a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7];
}

static uint64_t read_plain(const uint8_t *p, size_t ahead)
{
    return read_chunk(p, ahead);
}

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
__attribute__((target("avx2"))) static uint64_t read_avx2(const uint8_t *p, size_t ahead)
{
    return read_chunk(p, ahead);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint8_t *p, size_t ahead)
{
    return read_chunk(p, ahead);
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
#endif

static const struct loops *best_loops(void)
{
    static const struct loops plain = {read_plain, multiply_plain};
#ifdef __x86_64__
    static const struct loops avx2 = {read_avx2, multiply_avx2}, vnni = {read_avx512, multiply_vnni};
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni")) return &vnni;
    if (__builtin_cpu_supports("avx2")) return &avx2;
#endif
    return &plain;
}

/* --- passes --- */

static void read_pieces(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct passes *p = ctx;
    uint64_t bits = 0;
    for (size_t i = begin; i < end; i++) bits |= p->loops->read(p->mem + i * CHUNK, p->ahead);
    atomic_fetch_or(&p->result, bits);
}

static void multiply_pieces(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct passes *p = ctx;
    uint64_t result = 1, ops = 0;
    for (uint32_t i = begin; i < end; i++) ops += p->loops->multiply(&result);
    atomic_fetch_or(&p->result, result);
    atomic_fetch_add(&p->ops, ops);
}

static double best_read(struct passes *p, struct compute_pool *pool, const uint8_t *mem)
{
    double end = tool_now() + SECONDS, best = 0;
    const size_t pass = WINDOW * CHUNK;
    for (size_t i = 0; i * pass < 2 * p->size || tool_now() < end; i++) {
        p->mem = mem + i * pass % p->size;
        p->ahead = i % 2 ? AHEAD : 0; /* the hardware prefetchers alone are sometimes faster */
        double start = tool_now();
        compute_pool_run(pool, read_pieces, p, WINDOW, 1);
        double gbps = (double)pass / (tool_now() - start) * 1e-9;
        if (gbps > best) best = gbps;
    }
    return best;
}

static double best_int8(struct passes *p, struct compute_pool *pool)
{
    double end = tool_now() + SECONDS, best = 0;
    for (int i = 0; i < 3 || tool_now() < end; i++) {
        atomic_store(&p->ops, 0);
        double start = tool_now();
        compute_pool_run(pool, multiply_pieces, p, compute_pool_threads(pool) * PIECES, 1);
        double gops = (double)atomic_load(&p->ops) / (tool_now() - start) * 1e-9;
        if (gops > best) best = gops;
    }
    return best;
}

static size_t buffer_size(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t size = cache > 0 && (size_t)cache < SIZE_MAX / 8 ? 4 * (size_t)cache : 0;
    return (size > LEAST ? size : LEAST) / (WINDOW * CHUNK) * (WINDOW * CHUNK);
}

int bench_limits(struct bench_limits *out, uint32_t threads)
{
    struct compute_pool *pool = NULL;
    struct passes p = {.loops = best_loops(), .size = buffer_size()};
    size_t mapped = p.size + AHEAD;
    int r = compute_pool_new(&pool, threads);
    if (r) return r;
    uint8_t *mem = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED) {
        compute_pool_free(pool);
        return error_say(-ENOMEM, "no memory for the bandwidth test (%zu bytes)", mapped);
    }
    madvise(mem, mapped, MADV_HUGEPAGE); /* as for the weights; a failure costs only speed */
    memset(mem, 1, mapped);
    out->read_gbps = best_read(&p, pool, mem);
    out->int8_gops = best_int8(&p, pool);
    munmap(mem, mapped);
    compute_pool_free(pool);
    return 0;
}
