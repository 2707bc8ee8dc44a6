/* SPDX-License-Identifier: MIT */
/* Which variants this CPU can run. The only place that asks. */
#include "kernels/table.h"
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* Names HOB_CPU may give, ascending. There is no table of its own for "amx" yet: it allows what "avx512" does. */
static const char *const limits[] = {"scalar", "avx2", "avx512", "amx"};

#define TABLES 3 /* at most: scalar, avx2, avx512; index as in limits */

#ifdef __x86_64__
static bool have_avx2_fma(void)
{
    __builtin_cpu_init(); /* its answers include what the system saves and restores (XCR0) */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool have_f16c(void) /* not a name that every compiler's __builtin_cpu_supports knows */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool have_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

static size_t tables(const struct kernels *out[TABLES])
{
    size_t n = 0;
    bool avx2 = have_avx2_fma();
    out[n++] = avx2 ? &kernels_scalar_fma : &kernels_scalar;
    if (!avx2 || !have_f16c()) return n;
    out[n++] = &kernels_avx2;
    if (have_avx512()) out[n++] = &kernels_avx512;
    return n;
}
#else
static size_t tables(const struct kernels *out[TABLES])
{
    out[0] = &kernels_scalar;
    return 1;
}
#endif

const struct kernels *kernels_nth(size_t i)
{
    const struct kernels *t[TABLES];
    return i < tables(t) ? t[i] : NULL;
}

const struct kernels *kernels_get(const char *limit)
{
    const struct kernels *t[TABLES];
    size_t n = tables(t), max = n - 1;
    if (!limit) return t[max];
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (!strcmp(limit, limits[i])) return t[i < max ? i : max];
    return NULL;
}
