/* SPDX-License-Identifier: MIT */
#pragma once
/* The exact sums of products of one token: of 16 rows and the blocks of 32 columns that a warp computes. */
#include "kernels/cuda/form.cuh"
#include "kernels/cuda/one-input.cuh"

#define WARPS (CUDA_ONE_THREADS / CUDA_WARP - 2) /* that sum */
#define OWN   (CUDA_PIECE / WARPS) /* blocks of a piece that a warp computes: 8, a group */

/* The sum of a row and block with its factor, and the second such pair of types with an offset. */
template <bool M> struct terms {
    float2 v;
};
template <> struct terms<true> {
    float4 v;
};

/* Bytes of the terms of a block in shared memory: the first pairs of 16 rows, then the second ones. Of these only the
 * first number exists where the other one is the same for all rows: a scale of the activations, times their sum. */
template <int S, bool M> constexpr uint32_t terms_bytes = CUDA_TERM_BYTES(S == HALVES, M) * CUDA_ROWS;

__device__ static inline int dot4(uint32_t w, uint32_t q, int sum, bool wide)
{
    if (!wide) return __dp4a((int)w, (int)q, sum);
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(w), "r"(q));
    return sum;
}

/* What a lane needs of the activations of its warp's blocks. */
struct held {
    uint4 q[OWN];      /* half of the columns */
    float2 d[OWN / 2]; /* of every second block */
    short2 s[OWN / 2];
};

__device__ static inline struct held hold(const struct input &x, uint32_t b)
{
    const uint32_t h = threadIdx.x % CUDA_WARP / CUDA_ROWS;
    struct held v;
#pragma unroll
    for (uint32_t j = 0; j < OWN; j++) v.q[j] = *(const uint4 *)(x.q + (b + j) * 8 + 4 * h);
#pragma unroll
    for (uint32_t j = 0; j < OWN / 2; j++) v.d[j] = x.d[b + 2 * j + h], v.s[j] = x.s[b + 2 * j + h];
    return v;
}

/* decode_unsigned() of 6 bits for t = h + 2i, where h is 0 or 1 and i is known: with fewer instructions. */
__device__ static inline struct pair decode_six(struct raw x, uint32_t h, uint32_t i)
{
    const uint32_t lo = i ? x.c >> 2 * h : x.c << (4 - 2 * h), hi = i ? x.d >> 2 * h : x.d << (4 - 2 * h);
    return {(x.a & 0x0f0f0f0fu) | (lo & 0x30303030u), (x.a >> 4 & 0x0f0f0f0fu) | (hi & 0x30303030u)};
}

/* The lane's part of the isum of a block, apart from the codes' bias: of half the columns of row lane % 16. */
template <int W, int S, bool M, bool T>
__device__ static inline int part(const struct cuda_form &f, const struct place &p, const uint4 &x)
{
    const uint32_t row = threadIdx.x % CUDA_ROWS, h = threadIdx.x % CUDA_WARP / CUDA_ROWS;
    int first = 0, last = 0;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t t = h + 2 * i;
        const struct raw r = read_raw<W, true>(f, p.codes, row, t);
        if (W == 4 && !T) { /* 16 times the last ones */
            first = dot4(r.a & 0x0f0f0f0fu, i ? x.z : x.x, first, false);
            last = dot4(r.a & 0xf0f0f0f0u, i ? x.w : x.y, last, true);
            continue;
        }
        const struct pair c = W == 6 ? decode_six(r, h, i) : decode_unsigned<W>(r, t);
        first = dot4(T ? look_up(f.table, c.lo) : c.lo, i ? x.z : x.x, first, W == 8);
        last = dot4(T ? look_up(f.table, c.hi) : c.hi, i ? x.w : x.y, last, W == 8);
    }
    if (W == 4 && !T) last >>= 4;
    if (S != HALVES) return first + last;
    const struct scale s = scale_of<S, M, true>(f, p, row);
    return s.sub[0] * first + s.sub[1] * last;
}

/* The terms of row lane % 16 and a block, whose place is @p, from the sum of its parts; its activations: @d, @q. */
template <int S, bool M, bool T>
__device__ static inline terms<M> terms_of(const struct cuda_form &f, const struct place &p, const float2 &d,
                                           const short2 &q, int sum)
{
    const struct scale s = scale_of<S, M, true>(f, p, threadIdx.x % CUDA_ROWS);
    struct terms<M> t;
    if (!T && !M && S == HALVES) sum -= f.bias * (s.sub[0] * q.x + s.sub[1] * q.y);
    if (!T && !M && S != HALVES) sum = __dp2a_lo(*(const int *)&q, (-f.bias & 0xff) * 0x0101, sum);
    t.v.x = (float)sum, t.v.y = s.d * d.x;
    if constexpr (M) {
        t.v.z = S == HALVES ? (float)(s.min[0] * q.x + s.min[1] * q.y) : s.m;
        t.v.w = S == HALVES ? s.m * d.x : d.y;
    }
    return t;
}

/* Those of row @row of a block, whose place is @at; @d: the block's scales. */
template <int S, bool M> __device__ static inline void put_terms(uint8_t *at, uint32_t row, const struct terms<M> &t)
{
    ((float2 *)at)[row] = make_float2(t.v.x, t.v.y);
    if constexpr (M && S == HALVES) ((float2 *)at)[CUDA_ROWS + row] = make_float2(t.v.z, t.v.w);
    if constexpr (M && S != HALVES) ((float *)at)[2 * CUDA_ROWS + row] = t.v.z;
}

template <int S, bool M>
__device__ static inline struct terms<M> get_terms(const uint8_t *at, uint32_t row, const float2 &d) {
    const float2 v = ((const float2 *)at)[row];
    struct terms<M> t;
    t.v.x = v.x, t.v.y = v.y;
    if constexpr (M && S == HALVES) {
        const float2 w = ((const float2 *)at)[CUDA_ROWS + row];
        t.v.z = w.x, t.v.w = w.y;
    }
    if constexpr (M && S != HALVES) t.v.z = ((const float *)at)[2 * CUDA_ROWS + row], t.v.w = d.y;
    return t;
}

/* The terms of the warp's blocks of a piece, which begin at @p. @out: of the first. */
template <int W, int S, bool M, bool T>
__device__ static inline void add_own(const struct cuda_form &f, const struct place &p, const struct held &x,
                                      uint8_t *out)
{
    const uint32_t second = threadIdx.x % CUDA_WARP / CUDA_ROWS;
    struct terms<M> t[OWN / 2];
    int sum[OWN];
#pragma unroll
    for (uint32_t j = 0; j < OWN; j++) sum[j] = part<W, S, M, T>(f, within(f, p, j), x.q[j]);
#pragma unroll
    for (uint32_t j = 0; j < OWN; j += 2) {
        const int both = (second ? sum[j + 1] : sum[j]) + __shfl_xor_sync(ALL, second ? sum[j] : sum[j + 1], CUDA_ROWS);
        t[j / 2] = terms_of<S, M, T>(f, within(f, within(f, p, second), j), x.d[j / 2], x.s[j / 2], both);
    }
#pragma unroll
    for (uint32_t j = 0; j < OWN / 2; j++)
        put_terms<S, M>(out + (2 * j + second) * terms_bytes<S, M>, threadIdx.x % CUDA_ROWS, t[j]);
}

/* The same of the block at @p, number @b of the columns. */
template <int W, int S, bool M, bool T>
__device__ static inline void add_block(const struct cuda_form &f, const struct place &p, const struct input &x,
                                        uint32_t b, uint8_t *out)
{
    const uint32_t h = threadIdx.x % CUDA_WARP / CUDA_ROWS;
    const int sum = part<W, S, M, T>(f, p, *(const uint4 *)(x.q + b * 8 + 4 * h));
    const struct terms<M> t = terms_of<S, M, T>(f, p, x.d[b], x.s[b], sum + __shfl_xor_sync(ALL, sum, CUDA_ROWS));
    if (!h) put_terms<S, M>(out, threadIdx.x % CUDA_WARP, t);
}
