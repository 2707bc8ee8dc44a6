/* SPDX-License-Identifier: MIT */
#pragma once
/* The exact sums of products of one token: of 16 rows and the blocks of 32 columns that a warp computes. */
#include "kernels/cuda/form.cuh"
#include "kernels/cuda/one-input.cuh"

#define WARPS (CUDA_ONE_THREADS / CUDA_WARP - 2) /* that sum */
#define OWN   (CUDA_PIECE / WARPS)               /* blocks of a piece that a warp computes: 8, a group */

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

/* Lanes 0 … 15 have the rows of a block, the other ones those of the block @apart later: one whose words lie in other
 * banks, if there is one. */
template <int W, int S, bool M, bool T> struct layout {
    static constexpr struct cuda_form form = known<W, S, M, T>(cuda_form{});
    static constexpr uint32_t words = (form.shift ? form.step : form.group) / 4;
    static constexpr uint32_t apart = words * 2 % 32 == 16 ? 2 : words * 4 % 32 == 16 ? 4 : 1;
};

/* The number of the lane's block @i of OWN / 2, apart from that distance. */
template <uint32_t apart> __device__ static constexpr uint32_t block_at(uint32_t i)
{
    return i / apart * 2 * apart + i % apart;
}

/* 1 for the other lanes. */
__device__ static inline uint32_t second()
{
    return threadIdx.x % CUDA_WARP / CUDA_ROWS;
}

/* What a lane needs of the activations of a block. */
struct block {
    uint32_t lo[4], hi[4]; /* the words of the columns 0 … 15, and of the others */
    int base[2]; /* with which their sums begin, for the codes' bias; or of HALVES with an offset those of x */
    float2 d;
};

/* Those of block @b. */
template <int W, int S, bool M, bool T> __device__ static inline struct block hold(const struct input &x, uint32_t b)
{
    constexpr int bias = T ? 0 : layout<W, S, M, T>::form.bias;
    const uint4 lo = ((const uint4 *)x.q)[2 * b], hi = ((const uint4 *)x.q)[2 * b + 1];
    const short2 s = x.s[b];
    struct block v = {{lo.x, lo.y, lo.z, lo.w}, {hi.x, hi.y, hi.z, hi.w}, {0, 0}, x.d[b]};
    if (S == HALVES)
        v.base[0] = M ? s.x : -bias * s.x, v.base[1] = M ? s.y : -bias * s.y;
    else
        v.base[0] = -bias * (s.x + s.y);
    return v;
}

/* decode_unsigned() of 6 bits with fewer instructions. */
__device__ static inline struct pair decode_six(const struct raw &x, uint32_t t)
{
    const uint32_t lo = t < 2 ? x.c << (4 - 2 * t) : x.c >> (2 * t - 4);
    const uint32_t hi = t < 2 ? x.d << (4 - 2 * t) : x.d >> (2 * t - 4);
    return {(x.a & 0x0f0f0f0fu) | (lo & 0x30303030u), (x.a >> 4 & 0x0f0f0f0fu) | (hi & 0x30303030u)};
}

/* The isum of row lane % 16 and a block. @s: its scales. */
template <int W, int S, bool M, bool T>
__device__ static inline int sum_of(const struct cuda_form &f, const struct place &p, const struct block &x,
                                    const struct scale &s)
{
    const uint32_t row = threadIdx.x % CUDA_ROWS;
    int first = S == HALVES && M ? 0 : x.base[0], last = S == HALVES && !M ? x.base[1] : 0;
#pragma unroll
    for (uint32_t t = 0; t < 4; t++) {
        const struct raw r = read_raw<W, true>(f, p.codes, row, t);
        if (W == 4 && !T) { /* 16 times the last ones */
            first = dot4(r.a & 0x0f0f0f0fu, x.lo[t], first, false);
            last = dot4(r.a & 0xf0f0f0f0u, x.hi[t], last, true);
            continue;
        }
        const struct pair c = W == 6 ? decode_six(r, t) : decode_unsigned<W>(r, t);
        first = dot4(T ? look_up(f.table, c.lo) : c.lo, x.lo[t], first, W == 8);
        last = dot4(T ? look_up(f.table, c.hi) : c.hi, x.hi[t], last, W == 8);
    }
    if (W == 4 && !T) last >>= 4;
    return S == HALVES ? s.sub[0] * first + s.sub[1] * last : first + last;
}

/* The terms of row lane % 16 and a block. */
template <int W, int S, bool M, bool T>
__device__ static inline terms<M> terms_of(const struct cuda_form &f, const struct place &p, const struct block &x)
{
    const struct scale s = scale_of<S, M, true>(f, p, threadIdx.x % CUDA_ROWS);
    struct terms<M> t;
    t.v.x = (float)sum_of<W, S, M, T>(f, p, x, s), t.v.y = s.d * x.d.x;
    if constexpr (M) {
        t.v.z = S == HALVES ? (float)(s.min[0] * x.base[0] + s.min[1] * x.base[1]) : s.m;
        t.v.w = S == HALVES ? s.m * x.d.x : x.d.y;
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

/* The activations of a warp's blocks of a piece. */
struct held {
    struct block x[OWN / 2];
};

template <int W, int S, bool M, bool T> __device__ static inline struct held hold_own(const struct input &x, uint32_t b)
{
    typedef layout<W, S, M, T> layout;
    struct held v;
#pragma unroll
    for (uint32_t i = 0; i < OWN / 2; i++)
        v.x[i] = hold<W, S, M, T>(x, b + block_at<layout::apart>(i) + second() * layout::apart);
    return v;
}

/* The terms of the warp's blocks of a piece, which begin at @p. @out: of the first. */
template <int W, int S, bool M, bool T>
__device__ static inline void add_own(const struct cuda_form &f, const struct place &p, const struct held &x,
                                      uint8_t *out)
{
    typedef layout<W, S, M, T> layout;
    const struct place own = within(f, p, second() * layout::apart);
    struct terms<M> t[OWN / 2];
#pragma unroll
    for (uint32_t i = 0; i < OWN / 2; i++)
        t[i] = terms_of<W, S, M, T>(f, within(f, own, block_at<layout::apart>(i)), x.x[i]);
    out += second() * layout::apart * terms_bytes<S, M>;
#pragma unroll
    for (uint32_t i = 0; i < OWN / 2; i++)
        put_terms<S, M>(out + block_at<layout::apart>(i) * terms_bytes<S, M>, threadIdx.x % CUDA_ROWS, t[i]);
}

/* The same of fewer blocks, @n. @b: the first one's number of all columns. */
template <int W, int S, bool M, bool T>
__device__ static inline void add_some(const struct cuda_form &f, const struct place &p, const struct input &x,
                                       uint32_t b, uint32_t n, uint8_t *out)
{
#pragma unroll 1
    for (uint32_t j = second(); j < n; j += 2) {
        const struct block own = hold<W, S, M, T>(x, b + j);
        put_terms<S, M>(out + j * terms_bytes<S, M>, threadIdx.x % CUDA_ROWS,
                        terms_of<W, S, M, T>(f, within(f, p, j), own));
    }
}
