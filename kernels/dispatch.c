/* SPDX-License-Identifier: MIT */
/* Detection of the variants that this CPU can run. No other file of the daemon detects CPU features. */
#include "kernels/table.h"
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Values of HOB_CPU, ascending. */
static const char *const limits[] = {"scalar", "avx2", "avx512", "amx"};

#define TABLES 4 /* at most; index as in limits */

struct kern_reading kern_reading = {.single = 8, .ahead = 4096};

#ifdef __x86_64__
static bool have_avx2_fma(void)
{
    __builtin_cpu_init(); /* the result includes the state that the system saves (XCR0) */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool have_f16c(void) /* some compilers' __builtin_cpu_supports does not know f16c */
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

/* Tiles need the CPU, */
static bool cpu_has_amx(void)
{
    enum { TILE = 1 << 24, INT8 = 1 << 25 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & TILE) && (d & INT8);
}

/* the system (XCR0), and permission for this process to use their large state. The call requests the permission, which
 * then applies to all threads of the process. NULL: nothing is missing. */
static const char *why_no_tiles(void)
{
    enum { XTILE = 3 << 17, REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    unsigned a, b, c, d, low = 0, high;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE))
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & XTILE) != XTILE) return "the system does not save the state of tiles (XCR0)";
    bool refused = syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) != 0;
    return refused ? "the kernel refuses the state of tiles to this process (ARCH_REQ_XCOMP_PERM)" : NULL;
}

const char *kernels_amx_refused(void)
{
    return cpu_has_amx() ? why_no_tiles() : NULL;
}

/* Zen 5 is family 0x1a. It reads from farther ahead than Zen 4, and its registers are as wide as its units. */
static struct kern_reading reading(void)
{
    unsigned a, b, c, d;
    if (!__builtin_cpu_is("amd")) return (struct kern_reading){.single = 8, .ahead = 4096};
    const unsigned family = __get_cpuid(1, &a, &b, &c, &d) ? (a >> 8 & 15) + (a >> 20 & 255) : 0;
    return family >= 0x1a ? (struct kern_reading){true, 8, 8192} : (struct kern_reading){true, 6, 4096};
}

static size_t tables(const struct kernels *out[TABLES])
{
    size_t n = 0;
    bool avx2 = have_avx2_fma();
    out[n++] = avx2 ? &kernels_scalar_fma : &kernels_scalar;
    if (!avx2 || !have_f16c()) return n;
    out[n++] = &kernels_avx2;
    if (!have_avx512()) return n;
    kern_reading = reading();
    out[n++] = &kernels_avx512;
    if (cpu_has_amx() && !why_no_tiles()) out[n++] = &kernels_amx;
    return n;
}
#else
const char *kernels_amx_refused(void)
{
    return NULL;
}

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
