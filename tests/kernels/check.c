/* SPDX-License-Identifier: MIT */
#include "tests/kernels/check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t rng_state;

void rng_seed(uint64_t seed)
{
    rng_state = seed;
}

uint32_t rng(void) /* splitmix64 */
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)(z >> 32);
}

uint32_t rng_below(uint32_t n)
{
    return (uint32_t)((uint64_t)rng() * n >> 32);
}

float rng_float(void)
{
    float s = 0;
    for (int i = 0; i < 4; i++) s += (float)(rng() >> 8) * 0x1p-24f;
    return s - 2;
}

float rng_value(enum taste t)
{
    static const float wild[] = {0, -0.0f, 1e-40f, -1e-45f, 1.2e-38f, 3e38f, -1e30f, 65504, 1e-20f, 127, -127};
    if (t == WILD && rng_below(3) == 0) return wild[rng_below(sizeof(wild) / sizeof(*wild))];
    return rng_float();
}

uint16_t rng_f16(enum taste t)
{
    static const uint16_t wild[] = {0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff};
    if (t == WILD && rng_below(3) == 0) return wild[rng_below(sizeof(wild) / sizeof(*wild))];
    return kern_f32_to_f16(rng_float());
}

/* --- memory --- */

static struct region {
    uint8_t *map;
    size_t before, len; /* poisoned bytes in front; accessible bytes */
} regions[512];
static size_t n_regions;

void *mem(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = (n + page - 1) / page * page;
    if (!len) len = page;
    assert_true(n_regions < sizeof(regions) / sizeof(*regions));
    uint8_t *map = mmap(NULL, len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + page, len, PROT_READ | PROT_WRITE), 0);
    memset(map + page, POISON, len);
    regions[n_regions++] = (struct region){map, len - n, len};
    return map + page + len - n;
}

void *mem_copy(const void *p, size_t n)
{
    return memcpy(mem(n), p, n);
}

void mem_check(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < n_regions; i++)
        for (size_t j = 0; j < regions[i].before; j++)
            if (regions[i].map[page + j] != POISON)
                fail_msg("a byte %zu in front of a buffer was written", regions[i].before - j);
}

void mem_reset(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mem_check();
    while (n_regions) {
        n_regions--;
        munmap(regions[n_regions].map, regions[n_regions].len + 2 * page);
    }
}

/* --- comparison --- */

static void context(char *out, size_t size, const char *fmt, va_list ap)
{
    vsnprintf(out, size, fmt, ap);
}

void same_floats(const float *got, const float *want, size_t n, const char *fmt, ...)
{
    for (size_t i = 0; i < n; i++) {
        if (!memcmp(&got[i], &want[i], sizeof(float)) || (isnan(got[i]) && isnan(want[i]))) continue;
        char where[256];
        va_list ap;
        va_start(ap, fmt);
        context(where, sizeof(where), fmt, ap);
        va_end(ap);
        fail_msg("%s: value %zu is %a, want %a", where, i, (double)got[i], (double)want[i]);
    }
}

void same_bytes(const void *got, const void *want, size_t n, const char *fmt, ...)
{
    const uint8_t *a = got, *b = want;
    for (size_t i = 0; i < n; i++) {
        if (a[i] == b[i]) continue;
        char where[256];
        va_list ap;
        va_start(ap, fmt);
        context(where, sizeof(where), fmt, ap);
        va_end(ap);
        fail_msg("%s: byte %zu is %02x, want %02x", where, i, a[i], b[i]);
    }
}

void near_double(double got, double want, double tol, const char *fmt, ...)
{
    if (fabs(got - want) <= tol) return;
    char where[256];
    va_list ap;
    va_start(ap, fmt);
    context(where, sizeof(where), fmt, ap);
    va_end(ap);
    fail_msg("%s: %.9g, want %.9g within %.3g", where, got, want, tol);
}
