/* SPDX-License-Identifier: MIT */
#pragma once
/* What the kernels share: exp, conversions, the sums' trees, quantization. The compiler joins no products and sums
 * (-fmad=false), divides and takes roots exactly and keeps subnormal numbers. */
#include "kernels/cuda/cuda-args.h"
#include "kernels/expf.h"
#include <cuda_fp16.h>

#define ALL 0xffffffffu

/* The next kernel may start, as far as there is room: it reads what this one writes after its own wait_before(). */
__device__ static inline void start_next()
{
#if __CUDA_ARCH__ == 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* The host starts a kernel early: until here it reads nothing but weights and notes, and writes nothing. Then all
 * kernels before it have ended, since each of them has waited, too. */
__device__ static inline void wait_before()
{
#if __CUDA_ARCH__ == 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* What a kernel begins with that does nothing before it waits. */
__device__ static inline void begin()
{
    start_next();
    wait_before();
}

__device__ static inline float fma_(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

__device__ static inline float exp_(float x)
{
    float t = fma_(x, EXP_LOG2E, EXP_MAGIC), n = t - EXP_MAGIC;
    float r = fma_(n, -EXP_LN2_HI, x);
    r = fma_(n, -EXP_LN2_LO, r);
    float p = EXP_C6;
    p = fma_(p, r, EXP_C5);
    p = fma_(p, r, EXP_C4);
    p = fma_(p, r, EXP_C3);
    p = fma_(p, r, EXP_C2);
    p = fma_(p, r, 1.0f);
    p = fma_(p, r, 1.0f);
    p = __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
    return x < EXP_MIN ? 0.0f : x <= EXP_MAX ? p : x + __uint_as_float(0x7f800000u); /* a NaN stays one */
}

__device__ static inline float softcap_(float x, float cap)
{
    float e = exp_(-2.0f * (fabsf(x) / cap));
    return copysignf((1.0f - e) / (1.0f + e), x) * cap;
}

__device__ static inline float half_(uint16_t h)
{
    return __half2float(__ushort_as_half(h));
}

__device__ static inline uint16_t to_half(float f)
{
    return __half_as_ushort(__float2half_rn(f));
}

/* The tree of the first @n lanes, a power of two; all of these get the sum. */
template <int n> __device__ static inline float fold(float x)
{
#pragma unroll
    for (int h = n / 2; h; h /= 2) x = x + __shfl_xor_sync(ALL, x, h);
    return x;
}

__device__ static inline float warp_max(float x)
{
#pragma unroll
    for (int h = 16; h; h /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, h));
    return x;
}

/* The code of @x with the scale @d. */
__device__ static inline int code(float x, float d)
{
    float v = d == 0.0f ? 0.0f : rintf(x / d);
    return v > 127.0f ? 127 : v > -127.0f ? (int)v : -127; /* a NaN is no int */
}

/* A warp quantizes 32 columns, number @block of row @row of k columns: one for each lane. */
__device__ static inline void quantize(const struct cuda_acts &a, uint32_t row, uint32_t k, uint32_t block, float x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    float amax = 0.0f, v = fabsf(x);
    amax = v > amax ? v : amax; /* a NaN is ignored */
    const float d = warp_max(amax) / 127.0f;
    int c = code(x, d), sum = c;
    a.q[(uint64_t)row * k + block * CUDA_WARP + lane] = (int8_t)c;
#pragma unroll
    for (int h = 8; h; h /= 2) sum += __shfl_xor_sync(ALL, sum, h);
    const int all = sum + __shfl_xor_sync(ALL, sum, 16);
    const uint64_t at = (uint64_t)block * a.ld + row;
    if (lane == 0) *(float2 *)(a.d + at * 2) = make_float2(d, (float)all * d);
    if (lane % 16 == 0) a.s[at * 2 + lane / 16] = (int16_t)sum;
}
