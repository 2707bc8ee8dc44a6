/* SPDX-License-Identifier: MIT */
/*
 * The limits of the machine, so that every other figure can be read as a share of them. Machines are shared, so the
 * best of many short passes counts. Memory is read from a buffer that is several times as large as the caches, in huge
 * pages that the reading threads have written first, like packed weights. A model that fits into the caches can be
 * read faster than that, so a buffer of the size of its weights is read too.
 */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/command/bench-loops.h"
#include "daemon/command/bench.h"
#include "libcommon/cgroup.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define LEAST     ((size_t)256 << 20) /* smallest buffer; larger if the last caches are large */
#define TIMES     4                   /* the size of the buffer in caches */
#define PASS      32                  /* chunks of a pass for each thread; the next pass reads the next chunks */
#define SECONDS   0.2                 /* for each measurement */
#define PIECES    4                   /* per thread, in one pass of arithmetic */

struct passes {
    const struct bench_loops *loops;
    uint8_t *mem;
    size_t first, chunks; /* of the pass; of the buffer */
    unsigned variant;     /* of the loop */
    atomic_ullong result; /* keeps the work from being optimized away */
    atomic_ullong ops;
};

static void touch_pages(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct passes *p = ctx;
    memset(p->mem + begin * HUGE_PAGE, 1, (end - begin) * HUGE_PAGE);
}

static void read_pieces(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct passes *p = ctx;
    uint64_t bits = 0;
    for (size_t i = begin; i < end; i++)
        bits |= p->loops->read(p->mem + (p->first + i) % p->chunks * BENCH_CHUNK, p->variant);
    atomic_fetch_or(&p->result, bits);
}

static void multiply_pieces(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct passes *p = ctx;
    uint64_t result = 1, ops = 0;
    for (uint32_t i = begin; i < end; i++) ops += p->loops->multiply[p->variant](&result);
    atomic_fetch_or(&p->result, result);
    atomic_fetch_add(&p->ops, ops);
}

/* Read the first @bytes of the buffer in passes, at least twice. */
static double best_read(struct passes *p, struct compute_pool *pool, size_t bytes)
{
    double end = tool_now() + SECONDS, best = 0;
    uint64_t threads = compute_pool_threads(pool);
    p->chunks = (bytes + BENCH_CHUNK - 1) / BENCH_CHUNK;
    p->first = 0;
    uint32_t pass = (uint32_t)(p->chunks < threads * PASS ? p->chunks : threads * PASS);
    for (size_t i = 0; i * pass < 2 * p->chunks || i < 2 * BENCH_READS || tool_now() < end; i++) {
        p->variant = i % BENCH_READS;
        double start = tool_now();
        compute_pool_run(pool, read_pieces, p, pass, 1, 1);
        double gbps = (double)pass * BENCH_CHUNK / (tool_now() - start) * 1e-9;
        if (gbps > best) best = gbps;
        p->first = (p->first + pass) % p->chunks;
    }
    return best;
}

static double best_int8(struct passes *p, struct compute_pool *pool)
{
    double best = 0;
    for (p->variant = 0; p->loops->multiply[p->variant]; p->variant++) {
        double end = tool_now() + SECONDS;
        for (int i = 0; i < 3 || tool_now() < end; i++) {
            atomic_store(&p->ops, 0);
            double start = tool_now();
            compute_pool_run(pool, multiply_pieces, p, compute_pool_threads(pool) * PIECES, 1, 1);
            double gops = (double)atomic_load(&p->ops) / (tool_now() - start) * 1e-9;
            if (gops > best) best = gops;
        }
    }
    return best;
}

#define CACHE "/sys/devices/system/cpu/cpu0/cache/index3/"

/* Bytes of the last cache of the first CPU; 0: unknown. (sysconf has the sum of all caches on some machines.) */
static size_t cache_size(void)
{
    _cleanup_(fclosep) FILE *f = fopen(CACHE "size", "re");
    size_t size;
    char unit = 0;
    if (!f || fscanf(f, "%zu%c", &size, &unit) < 1 || size > SIZE_MAX >> 30) return 0;
    return size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
}

/* CPUs that share it; 0: unknown. */
static size_t cache_sharers(void)
{
    _cleanup_(fclosep) FILE *f = fopen(CACHE "shared_cpu_list", "re");
    size_t from, to, n = 0;
    int c = ',';
    while (f && c == ',' && fscanf(f, "%zu", &from) == 1) { /* "0-7,64-71" */
        to = from;
        c = fgetc(f);
        if (c == '-' && fscanf(f, "%zu", &to) == 1) c = fgetc(f);
        n += to >= from ? to - from + 1 : 0;
    }
    return n;
}

/* A multiple of HUGE_PAGE. Virtual machines can have many more CPUs configured than are online. */
static size_t buffer_size(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t cpus = online > 0 ? (size_t)online : 1, share = cache_sharers();
    size_t caches = share > 0 && cpus > share ? (cpus + share - 1) / share : 1;
    size_t size = TIMES * caches * cache_size(), half = cgroup_memory_available("") / 2;
    if (half > 0 && size > half) size = half;
    return ((size > LEAST ? size : LEAST) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

int bench_limits(struct bench_limits *out, uint32_t threads, uint64_t weight_bytes)
{
    struct compute_pool *pool = NULL;
    size_t size = buffer_size();
    struct passes p = {.loops = bench_loops()};
    int r = compute_pool_new(&pool, threads);
    if (r) return r;
    uint8_t *raw = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        compute_pool_free(pool);
        return error_say(-ENOMEM, "no memory for the bandwidth test (%zu bytes)", size);
    }
    p.mem = (uint8_t *)(((uintptr_t)raw + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(p.mem, size, MADV_HUGEPAGE); /* as for the weights; a failure costs only speed */
    compute_pool_run(pool, touch_pages, &p, (uint32_t)(size / HUGE_PAGE), 1, 1);
    out->read_gbps = larger(out->read_gbps, best_read(&p, pool, size));
    if (weight_bytes && weight_bytes < size / 2)
        out->read_gbps = larger(out->read_gbps, best_read(&p, pool, weight_bytes));
    out->int8_gops = larger(out->int8_gops, best_int8(&p, pool));
    munmap(raw, size + HUGE_PAGE);
    compute_pool_free(pool);
    return 0;
}
