/* SPDX-License-Identifier: MIT */
#pragma once
/* Half precision, in place of CUDA's header. */
#include "device.h"
#include <immintrin.h>

struct __half {
    uint16_t bits;
};
struct __align__(4) __half2
{
    __half x, y;
};
typedef __half half;
typedef __half2 half2;

static inline float __half2float(__half h)
{
    return _cvtsh_ss(h.bits);
}

static inline __half __float2half_rn(float x)
{
    const uint16_t bits = x == x ? _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT) : 0x7fff;
    return {bits};
}

static inline __half __float2half(float x)
{
    return __float2half_rn(x);
}

static inline __half __int2half_rn(int x)
{
    return __float2half_rn((float)x); /* exact below 2^24, and above infinite */
}

static inline __half __ushort_as_half(unsigned short x)
{
    return {x};
}

static inline unsigned short __half_as_ushort(__half h)
{
    return h.bits;
}

static inline __half2 __halves2half2(__half x, __half y)
{
    return {x, y};
}

static inline __half2 __half2half2(__half x)
{
    return {x, x};
}

static inline __half __low2half(__half2 x)
{
    return x.x;
}

static inline __half __high2half(__half2 x)
{
    return x.y;
}

static inline float2 __half22float2(__half2 x)
{
    return {__half2float(x.x), __half2float(x.y)};
}

/* One sum in f32 is exact enough: 24 bits are more than twice 11 and two. */
static inline __half2 __hsub2(__half2 a, __half2 b)
{
    return {__float2half_rn(__half2float(a.x) - __half2float(b.x)),
            __float2half_rn(__half2float(a.y) - __half2float(b.y))};
}

/* The product is exact, and the sum is where all are small integers and powers of two. */
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
    return {__float2half_rn(__half2float(a.x) * __half2float(b.x) + __half2float(c.x)),
            __float2half_rn(__half2float(a.y) * __half2float(b.y) + __half2float(c.y))};
}

static inline __half2 __hadd2(__half2 a, __half2 b)
{
    return {__float2half_rn(__half2float(a.x) + __half2float(b.x)),
            __float2half_rn(__half2float(a.y) + __half2float(b.y))};
}
