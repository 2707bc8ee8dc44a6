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

/* Read one word of each 64 bytes of a kernel's argument, so that the others are in the cache of constants later. */
template <typename A> __device__ static inline void touch(const A &a)
{
    const uint32_t *p = (const uint32_t *)&a;
#pragma unroll
    for (uint32_t i = 0; i < sizeof(A) / 4; i += 16) asm volatile("" ::"r"(p[i]));
}

/* What a kernel begins with that does nothing before it waits. */
__device__ static inline void begin()
{
    start_next();
    wait_before();
}

/* Barrier number @i of the CTA, of @n threads in whole warps, some of which only arrive. Those that wait resume sooner
 * than at a barrier in shared memory. */
__device__ static inline void cta_arrive(uint32_t i, uint32_t n)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(i), "r"(n) : "memory");
}

__device__ static inline void cta_wait(uint32_t i, uint32_t n)
{
    asm volatile("bar.sync %0, %1;" ::"r"(i), "r"(n) : "memory");
}

/* The address of what lies in shared memory, as instructions take it. */
__device__ static inline uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Copy 16 bytes to shared memory. */
__device__ static inline void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from) : "memory");
}

/* Wait for the thread's copies of 16 bytes. */
__device__ static inline void wait_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

__device__ static inline float fma_(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

/* exp of what is neither below EXP_MIN nor above EXP_MAX. */
__device__ static inline float exp_within(float x)
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
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
}

__device__ static inline float exp_(float x)
{
    const float p = exp_within(x);
    return x < EXP_MIN ? 0.0f : x <= EXP_MAX ? p : x + __uint_as_float(0x7f800000u); /* a NaN stays one */
}

/* The same without a branch, so that several are computed side by side: what an asm takes, the compiler computes in any
 * case, and does not branch around it. */
__device__ static inline float exp_straight(float x)
{
    float p = exp_within(x), other = x + __uint_as_float(0x7f800000u);
    asm volatile("" : "+f"(p), "+f"(other));
    p = x <= EXP_MAX ? p : other;
    asm volatile("" : "+f"(p));
    return x < EXP_MIN ? 0.0f : p;
}

__device__ static inline float silu(float x)
{
    return x / (1.0f + exp_(-x));
}

__device__ static inline float gelu(float x)
{
    return x / (1.0f + exp_(x * fma_(GELU_B, x * x, GELU_A)));
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

/* Integers in the order of floats, those whose sign is extended; a NaN is the least. */
__device__ static inline int order_of(float x)
{
    const int i = __float_as_int(x);
    return (i & 0x7fffffff) > 0x7f800000 ? INT32_MIN : i ^ (i >> 31 & 0x7fffffff);
}

__device__ static inline float of_order(int i)
{
    return __int_as_float(i ^ (i >> 31 & 0x7fffffff));
}

/* The largest of a warp's values; a NaN is ignored. */
__device__ static inline float warp_max(float x)
{
    return of_order(__reduce_max_sync(ALL, order_of(x)));
}

/* The code of @x with the scale @d. */
__device__ static inline int code(float x, float d)
{
    float v = d == 0.0f ? 0.0f : rintf(x / d);
    return v > 127.0f ? 127 : v > -127.0f ? (int)v : -127; /* a NaN is no int */
}

/* x / d as the compiler's code computes it, without its branch for odd exponents: for d of 2^-90 … 2^90. Rounded
 * correctly where x is at least 2^-100 and the result 1/4 … 2^100 or, with an integer d below 2^24, at least 2^-100;
 * smaller results stay below 1/4. */
__device__ static inline float divide_(float x, float d)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(d));
    y = fma_(y, fma_(-d, y, 1.0f), y);
    const float q = x * y;
    return fma_(y, fma_(-d, q, x), q);
}

/* What a warp makes of 32 values, one for each lane. */
struct coded {
    float d;
    int code, half[2]; /* sums of the codes of the lanes 0 … 15 and 16 … 31 */
};

/* Of N times 32 values. */
template <int N> __device__ static inline void encode(const float x[N], struct coded c[N])
{
    float amax[N];
    bool even = true; /* the exponents are */
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t v = __float_as_uint(x[i]) & 0x7fffffffu; /* a NaN is ignored */
        amax[i] = __uint_as_float(__reduce_max_sync(ALL, v > 0x7f800000u ? 0 : v));
        even &= amax[i] > 0x1p-80f && amax[i] < 0x1p90f;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        c[i].d = even ? divide_(amax[i], 127.0f) : 0.0f;
        c[i].code = even ? __float2int_rn(divide_(x[i], c[i].d)) : 0;
        if (even) c[i].code = x[i] == x[i] ? max(-127, min(127, c[i].code)) : -127;
    }
    if (!even)
        for (int i = 0; i < N; i++) c[i].d = amax[i] / 127.0f, c[i].code = code(x[i], c[i].d);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int sum = __reduce_add_sync(ALL, threadIdx.x % CUDA_WARP < 16 ? c[i].code : c[i].code * 65536);
        c[i].half[0] = (int16_t)sum, c[i].half[1] = (sum - c[i].half[0]) / 65536;
    }
}

/* 32 values, four of each of eight lanes that follow each other. */
struct coded4 {
    struct coded block; /* .code is not used */
    int code[4];
};

__device__ static inline struct coded4 encode4(const float x[4])
{
    struct coded4 c;
    uint32_t top = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t v = __float_as_uint(x[i]) & 0x7fffffffu; /* a NaN is ignored */
        top = max(top, v > 0x7f800000u ? 0 : v);
    }
#pragma unroll
    for (int h = 1; h < 8; h *= 2) top = max(top, __shfl_xor_sync(ALL, top, h));
    const float amax = __uint_as_float(top);
    const bool even = amax > 0x1p-80f && amax < 0x1p90f; /* the exponents are: see divide_ */
    c.block.d = divide_(even ? amax : 127.0f, 127.0f);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int q = max(-127, min(127, __float2int_rn(divide_(x[i], c.block.d))));
        c.code[i] = x[i] == x[i] ? q : -127;
    }
    if (!even) {
        c.block.d = amax / 127.0f;
#pragma unroll
        for (int i = 0; i < 4; i++) c.code[i] = code(x[i], c.block.d);
    }
    int sum = c.code[0] + c.code[1] + c.code[2] + c.code[3];
    sum += __shfl_xor_sync(ALL, sum, 1);
    sum += __shfl_xor_sync(ALL, sum, 2);
    const int other = __shfl_xor_sync(ALL, sum, 4);
    const bool last = threadIdx.x & 4;
    c.block.half[0] = last ? other : sum, c.block.half[1] = last ? sum : other;
    return c;
}

/* Where the scale of row @r of a tile of wide activations lies: a lane of cuda_wide_* reads four side by side. */
__device__ static inline uint32_t wide_place(uint32_t r)
{
    return r / 16 * 16 + r % 8 / 2 * 4 + r / 8 % 2 * 2 + r % 2;
}

/* Where those of block @block of the tile of row @row begin, in blocks. */
__device__ static inline uint64_t wide_block(uint32_t row, uint32_t k, uint32_t block)
{
    return (uint64_t)(row / CUDA_WIDE_TILE) * (k / CUDA_WARP) + block;
}

/* The scale and the sums. */
__device__ static inline void put_scale(const struct cuda_acts &a, uint32_t row, uint32_t k, uint32_t block,
                                        const struct coded &c)
{
    const float sum = (float)(c.half[0] + c.half[1]) * c.d;
    const short2 s = make_short2((short)c.half[0], (short)c.half[1]);
    if (a.wide) {
        const uint64_t at = wide_block(row, k, block) * CUDA_WIDE_TILE;
        const uint32_t place = wide_place(row % CUDA_WIDE_TILE);
        a.d[at * 2 + place] = c.d, a.d[at * 2 + CUDA_WIDE_TILE + place] = sum;
        ((short2 *)a.s)[at + place] = s;
    } else {
        const uint64_t at = (uint64_t)block * a.ld + row;
        *(float2 *)(a.d + at * 2) = make_float2(c.d, sum);
        *(short2 *)(a.s + at * 2) = s;
    }
}

/* A warp quantizes 32 columns, number @block of row @row of k columns: one for each lane. */
__device__ static inline void quantize(const struct cuda_acts &a, uint32_t row, uint32_t k, uint32_t block, float x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    struct coded c;
    encode<1>(&x, &c);
    if (a.wide) {
        const uint64_t chunk = wide_block(row, k, block) * 4 + lane / 16 * 2 + lane % 2;
        ((__half *)a.q)[(chunk * CUDA_WIDE_TILE + row % CUDA_WIDE_TILE) * 8 + lane % 16 / 2] = __int2half_rn(c.code);
    } else {
        a.q[(uint64_t)row * k + block * CUDA_WARP + lane] = (int8_t)c.code;
    }
    if (lane == 0) put_scale(a, row, k, block, c);
}

/* A warp quantizes 128 columns from @first on: four for each lane. Those behind the row are not stored. */
__device__ static inline void quantize4(const struct cuda_acts &a, uint32_t row, uint32_t k, uint32_t first,
                                        const float x[4])
{
    const uint32_t lane = threadIdx.x % 8, i = first + threadIdx.x % CUDA_WARP * 4, block = i / CUDA_WARP;
    const struct coded4 c = encode4(x);
    if (i >= k) return;
    if (a.wide) {
        const uint64_t chunk = wide_block(row, k, block) * 4 + lane / 4 * 2;
        __half2 *to = (__half2 *)a.q + (chunk * CUDA_WIDE_TILE + row % CUDA_WIDE_TILE) * 4 + lane % 4;
        to[0] = __halves2half2(__int2half_rn(c.code[0]), __int2half_rn(c.code[2]));
        to[CUDA_WIDE_TILE * 4] = __halves2half2(__int2half_rn(c.code[1]), __int2half_rn(c.code[3]));
    } else {
        *(char4 *)(a.q + (uint64_t)row * k + i) = make_char4(c.code[0], c.code[1], c.code[2], c.code[3]);
    }
    if (lane == 0) put_scale(a, row, k, block, c.block);
}
