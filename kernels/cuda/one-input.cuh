/* SPDX-License-Identifier: MIT */
#pragma once
/* The input of a product of one token, in shared memory: codes, a row of f32, or the norm of one. Every CTA computes it
 * for itself, by the threads of all its warps but the last one. */
#include "kernels/cuda/vector.cuh"

#define COMPUTE (CUDA_ONE_THREADS - CUDA_WARP) /* these threads */
#define EIGHT   8 /* consecutive values that a thread quantizes: four threads have a block */

/* The activations, in shared memory. */
struct input {
    uint32_t *q; /* [k / 32][8] */
    float2 *d;   /* [k / 32] scale, scale times sum */
    short2 *s;   /* [k / 32] */
};

/* Eight consecutive values of a row, number @group of the eights; 1 where there are none. */
struct eight {
    alignas(16) float v[EIGHT];
};

__device__ static inline struct eight read_eight(const float *row, uint32_t group, uint32_t k)
{
    struct eight x = {{1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f}};
    if (group * EIGHT < k) *(float4 *)x.v = *(const float4 *)(row + group * EIGHT);
    if (group * EIGHT < k) *(float4 *)(x.v + 4) = *(const float4 *)(row + group * EIGHT + 4);
    return x;
}

__device__ static inline void put_eight(float *row, uint32_t group, const struct eight &x)
{
    *(float4 *)(row + group * EIGHT) = *(const float4 *)x.v;
    *(float4 *)(row + group * EIGHT + 4) = *(const float4 *)(x.v + 4);
}

/* The largest of a block's values, four lanes with eight each, as bits; @numbers: NaN is passed over, else it is the
 * largest. */
__device__ static inline uint32_t largest(const struct eight &v, bool numbers)
{
    uint32_t top = 0;
#pragma unroll
    for (uint32_t i = 0; i < EIGHT; i++) {
        const uint32_t bits = __float_as_uint(v.v[i]) & 0x7fffffffu;
        top = max(top, numbers && bits > 0x7f800000u ? 0u : bits);
    }
    top = max(top, __shfl_xor_sync(ALL, top, 1));
    return max(top, __shfl_xor_sync(ALL, top, 2));
}

/* Four codes, each in the lowest byte of a word. */
__device__ static inline uint32_t join_codes(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

#define ROUND 0x1.8p23f /* the float behind a sum with it has the nearest integer in its lowest bits */

/* The codes of the lane's eight values of a block whose largest is @amax, of usual exponent; and its scale. No code is
 * above 127: amax / d is 127, apart from its rounding. */
__device__ static inline float encode_eight(const struct eight &x, float amax, uint32_t word[2])
{
    const float d = divide_(amax, 127.0f);
    uint32_t c[EIGHT];
#pragma unroll
    for (uint32_t i = 0; i < EIGHT; i++) c[i] = __float_as_uint(divide_(x.v[i], d) + ROUND);
#pragma unroll
    for (uint32_t w = 0; w < 2; w++) word[w] = join_codes(c[4 * w], c[4 * w + 1], c[4 * w + 2], c[4 * w + 3]);
    return d;
}

/* The same of any block. By all lanes of a warp. */
__device__ static inline float encode_any(const struct eight &x, uint32_t word[2])
{
    const float d = __uint_as_float(largest(x, true)) / 127.0f;
    uint32_t c[EIGHT];
#pragma unroll 1
    for (uint32_t w = 0; w < 2; w++) {
        for (uint32_t i = 0; i < 4; i++) c[i] = (uint32_t)code(w ? x.v[4 + i] : x.v[i], d);
        word[w] = join_codes(c[0], c[1], c[2], c[3]);
    }
    return d;
}

/* Put codes and the scale @d of number @group of the eights of a row, if there are so many. By all lanes of a warp. */
__device__ static inline void put_words(const struct input &x, uint32_t group, uint32_t k, const uint32_t word[2],
                                        float d)
{
    const uint32_t b = group / 4, t = group % 4;
    int sum = __dp4a((int)word[0], 0x01010101, __dp4a((int)word[1], 0x01010101, 0));
    sum += __shfl_xor_sync(ALL, sum, 1);
    const int other = __shfl_xor_sync(ALL, sum, 2);
    if (group * EIGHT >= k) return;
    ((uint2 *)x.q)[group] = make_uint2(word[0], word[1]);
    if (t) return;
    x.d[b] = make_float2(d, (float)(sum + other) * d);
    x.s[b] = make_short2((short)sum, (short)other);
}

/* The exponent of a block's largest value is usual: see encode(). */
__device__ static inline bool is_usual(float amax)
{
    return amax > 0x1p-80f && amax < 0x1p90f;
}

/* Quantize number @group of the eights of a row, and put them there. By all lanes of a warp. */
__device__ static inline void put_codes(const struct input &x, uint32_t group, uint32_t k, const struct eight &v)
{
    uint32_t word[2];
    const float amax = __uint_as_float(largest(v, false));
    const bool even = is_usual(amax);
    float d = encode_eight(v, even ? amax : 127.0f, word);
    if (!__all_sync(ALL, even)) {
        uint32_t other[2];
        const float e = encode_any(v, other);
        if (!even) d = e, word[0] = other[0], word[1] = other[1];
    }
    put_words(x, group, k, word, d);
}

#define AHEAD 3 /* reads of a thread at once */

/* Number @i of what a product reads of its quantized input: 16 codes, then scales, then sums. */
__device__ static inline uint4 read_item(const struct cuda_acts &a, uint32_t blocks, uint32_t i)
{
    uint4 v = {};
    if (i < blocks * 2)
        v = ((const uint4 *)a.q)[i];
    else if (i < blocks * 3)
        *(uint2 *)&v = *(const uint2 *)(a.d + (uint64_t)(i - blocks * 2) * a.ld * 2);
    else if (i < blocks * 4)
        v.x = *(const uint32_t *)(a.s + (uint64_t)(i - blocks * 3) * a.ld * 2);
    return v;
}

__device__ static inline void put_item(const struct input &x, uint32_t blocks, uint32_t i, const uint4 &v)
{
    if (i < blocks * 2)
        ((uint4 *)x.q)[i] = v;
    else if (i < blocks * 3)
        ((uint2 *)x.d)[i - blocks * 2] = make_uint2(v.x, v.y);
    else if (i < blocks * 4)
        ((uint32_t *)x.s)[i - blocks * 3] = v.x;
}

/* All reads before the first use: they wait for memory together. */
__device__ static inline void copy_codes(const struct cuda_acts &a, uint32_t blocks, const struct input &x)
{
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < blocks * 4; first += AHEAD * COMPUTE) {
        uint4 v[AHEAD];
#pragma unroll
        for (uint32_t n = 0; n < AHEAD; n++) v[n] = read_item(a, blocks, first + n * COMPUTE);
#pragma unroll
        for (uint32_t n = 0; n < AHEAD; n++) put_item(x, blocks, first + n * COMPUTE, v[n]);
    }
}

/* The warp has some of the eights from @first on, a thread one. */
__device__ static inline bool has_eights(uint32_t first, uint32_t k)
{
    return (first + threadIdx.x / CUDA_WARP * CUDA_WARP) * EIGHT < k;
}

__device__ static inline void put_row(const float *row, uint32_t k, const struct input &x)
{
    bool even = true;
#pragma unroll 1
    for (uint32_t first = 0; first * EIGHT < k; first += AHEAD * COMPUTE) {
        struct eight v[AHEAD];
#pragma unroll
        for (uint32_t n = 0; n < AHEAD; n++) v[n] = read_eight(row, first + n * COMPUTE + threadIdx.x, k);
#pragma unroll
        for (uint32_t n = 0; n < AHEAD; n++) {
            uint32_t word[2];
            if (!has_eights(first + n * COMPUTE, k)) break;
            const float amax = __uint_as_float(largest(v[n], false)), d = encode_eight(v[n], amax, word);
            even = even && is_usual(amax);
            put_words(x, first + n * COMPUTE + threadIdx.x, k, word, d);
        }
    }
    if (__all_sync(ALL, even)) return;
#pragma unroll 1
    for (uint32_t first = 0; has_eights(first, k); first += COMPUTE)
        put_codes(x, first + threadIdx.x, k, read_eight(row, first + threadIdx.x, k));
}

/* What joins the residual stream is added, and that is all. */
__device__ static inline bool is_bare(const struct cuda_norm &a)
{
    return a.h && !a.post && !a.bias && a.residual == 1.0f && !a.out_scale;
}

/* The joined row to @v, which the first CTA also writes to memory; the thread's first eight stay in @first. @BARE:
 * is_bare(). */
template <bool BARE> __device__ static inline void put_joined(const struct cuda_norm &a, float *v, struct eight &first)
{
    const bool joins = BARE || a.h;
#pragma unroll 1
    for (uint32_t group = threadIdx.x; group * EIGHT < a.k; group += COMPUTE) {
        const struct eight s = read_eight(a.x, group, a.k);
        struct eight y = s;
        if (joins) {
            y = read_eight(a.h, group, a.k);
#pragma unroll
            for (uint32_t n = 0; n < EIGHT; n++) {
                if (!BARE && a.bias) y.v[n] = y.v[n] + a.bias[group * EIGHT + n];
                if (!BARE && a.residual != 1.0f) y.v[n] = y.v[n] * a.residual;
                y.v[n] = s.v[n] + y.v[n];
                if (!BARE && a.out_scale) y.v[n] = y.v[n] * *a.out_scale;
            }
        }
        put_eight(v, group, y);
        if (blockIdx.x == 0 && joins && a.to) put_eight(a.to, group, y);
        if (group == threadIdx.x) first = y;
    }
    meet_at_row(COMPUTE);
}

/* A norm; @w: its first weights; @bare: is_bare(); @v: room for two rows. */
__device__ static inline void put_norm(const struct cuda_norm &a, struct eight w, bool bare, const struct input &x,
                                       float *v)
{
    __shared__ float one;
    float *stream = v + a.k;
    struct eight y = {};
    if (bare) {
        put_joined<true>(a, v, y);
    } else if (a.h && a.post) {
        read_row(a, 0, stream, v, COMPUTE);
        join(a, stream, v, &one, COMPUTE);
        for (uint32_t i = threadIdx.x; a.to && blockIdx.x == 0 && i < a.k; i += COMPUTE) a.to[i] = v[i];
        y = read_eight(v, threadIdx.x, a.k);
    } else {
        put_joined<false>(a, v, y);
    }
    const float r = root_of(v, a.k, a.eps, &one, COMPUTE);
    for (uint32_t first = 0; has_eights(first, a.k); first += COMPUTE) {
        const uint32_t group = first + threadIdx.x;
        if (first) w = read_eight(a.w, group, a.k), y = read_eight(v, group, a.k);
#pragma unroll
        for (uint32_t n = 0; n < EIGHT; n++) y.v[n] = y.v[n] * r * w.v[n];
        put_codes(x, group, a.k, y);
    }
}
