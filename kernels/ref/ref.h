/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by the files of the definition. They are compiled more than once (see kernels/meson.build), each time with
 * another REF_SUFFIX: REF(add) is add_scalar or add_scalar_fma. */
#include "kernels/expf.h"
#include "kernels/table.h"
#include <math.h>
#include <string.h>

#define REF(name) KERN_PASTE(name, REF_SUFFIX)

static inline uint32_t ref_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float ref_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline float ref_exp(float x)
{
    if (x < EXP_MIN) return 0;
    if (x > EXP_MAX) return INFINITY;
    float t = fmaf(x, EXP_LOG2E, EXP_MAGIC), n = t - EXP_MAGIC;
    float r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = EXP_C6;
    p = fmaf(p, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, 1);
    p = fmaf(p, r, 1);
    return ref_float(ref_bits(p) + (ref_bits(t) << 23));
}

static inline float ref_softcap(float x, float cap)
{
    float e = ref_exp(-2 * (fabsf(x) / cap));
    return copysignf((1 - e) / (1 + e), x) * cap;
}

static inline float ref_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) { /* infinity, or a NaN made quiet */
        uint32_t mant = rest & 0x3ff;
        return ref_float(sign | 0x7f800000 | mant << 13 | (mant ? 0x400000 : 0));
    }
    if (rest >= 0x400) return ref_float(sign | ((rest << 13) + ((127u - 15) << 23)));
    float f = (float)rest * 0x1p-24f;
    return ref_float(sign | ref_bits(f));
}

static inline uint16_t ref_to_f16(float f)
{
    uint32_t u = ref_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
    if (a < 0x38800000) { /* below 2^-14: adding 2^-1 leaves units of 2^-24 in the low bits, rounded half to even */
        return (uint16_t)(sign | (ref_bits(ref_float(a) + 0.5f) - 0x3f000000));
    }
    return (uint16_t)(sign | ((a - ((127u - 15) << 23) + 0xfff + (a >> 13 & 1)) >> 13));
}

static inline float ref_bf16(uint16_t h)
{
    return ref_float((uint32_t)h << 16);
}

/* The scale of MXFP4's table: 2^(e - 128), subnormal for e < 2. */
static inline float ref_e8m0(uint8_t e)
{
    return ref_float(e < 2 ? 0x200000u << e : (e - 1u) << 23);
}

static inline uint16_t ref_load16(const void *p)
{
    uint16_t u;
    memcpy(&u, p, sizeof(u));
    return u;
}

/* Fold lanes j += j + n/2, …, j + 1; the sum of @lane[n], n a power of two. */
static inline float ref_fold(float *lane, unsigned n)
{
    for (unsigned half = n / 2; half; half /= 2)
        for (unsigned j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}
