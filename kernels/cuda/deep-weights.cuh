/* SPDX-License-Identifier: MIT */
#pragma once
/* Attention of long contexts (attn-deep.cu): scores and weights. A warp has a quad of blocks and N rows, all or half of
 * them; a lane four keys of one block. */
#include "kernels/cuda/deep.cuh"

/* The scores, and then the weights, of a lane's keys. */
template <int N> struct lane_scores {
    float4 s[N];
};

/* Values that follow each other in memory. */
template <int N> struct alignas(N < 4 ? 4 * N : 16) values {
    float v[N];
};

/* Values of f16 that follow each other in memory, and one of them. */
template <int N> struct halves {
    __half of;
};
template <> struct halves<2> {
    __half2 of;
};
template <> struct alignas(8) halves<4> {
    __half2 of[2];
};

__device__ static inline float half_at(const halves<1> &v, uint32_t)
{
    return __half2float(v.of);
}

__device__ static inline float half_at(const halves<2> &v, uint32_t i)
{
    return __half2float(i ? __high2half(v.of) : __low2half(v.of));
}

__device__ static inline float half_at(const halves<4> &v, uint32_t i)
{
    return __half2float(i % 2 ? __high2half(v.of[i / 2]) : __low2half(v.of[i / 2]));
}

/* A warp's part of a tile: the quad, BLOCKS if it has none, and the first row; and the lane's block, of which the keys
 * [lo, hi) are visible. */
struct part {
    uint32_t quad, row, block, lo, hi;
};

template <int R, bool FEW>
__device__ static inline struct part part_of(const struct steps &s, const struct cuda_tile &t, const struct count &n)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, quads = BLOCKS / CUDA_DEEP_QUAD;
    struct part p = {warp % quads, warp / quads * score_rows<R, FEW>, 0, 0, 0};
    if (p.row >= R) p.quad = BLOCKS;
    p.block = p.quad * CUDA_DEEP_QUAD + threadIdx.x % CUDA_WARP / 8;
    visible(s.begin, s.end, t.from + p.block * CUDA_WARP, p.lo, p.hi);
    if (p.block >= n.blocks) p.hi = 0;
    return p;
}

/* s += the dims of a piece, of the keys at @k; @q: [dims][R], from the first of N rows on. */
template <int R, int N> __device__ static inline void add_piece(const uint8_t *k, const float *q, lane_scores<N> &y)
{
#pragma unroll 4
    for (uint32_t d = 0; d < CUDA_DEEP_DIMS; d++) {
        const halves<4> raw = *(const halves<4> *)(k + d * CUDA_WARP * 2);
        const values<N> w = *(const values<N> *)(q + d * R);
        const float4 v = make_float4(half_at(raw, 0), half_at(raw, 1), half_at(raw, 2), half_at(raw, 3));
#pragma unroll
        for (uint32_t r = 0; r < N; r++)
            y.s[r] = make_float4(fma_(w.v[r], v.x, y.s[r].x), fma_(w.v[r], v.y, y.s[r].y), fma_(w.v[r], v.z, y.s[r].z),
                                 fma_(w.v[r], v.w, y.s[r].w));
    }
}

/* The products of the lane's keys. Where two warps share a quad, both write the token's key: the same one. */
template <int dim, int R, int N>
__device__ static inline void multiply_keys(const struct deep &x, const struct count &n, const struct early &e,
                                            const struct part &p, lane_scores<N> &y)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
#pragma unroll 1
    for (uint32_t c = 0; c < layout<dim>::parts; c++) {
        const uint32_t i = c * n.quads + p.quad;
        uint8_t *k = x.ring + i % x.slots * CUDA_DEEP_SLOT + lane / 8 * CUDA_DEEP_SHIFT;
        bar_wait(&full[i], 0);
        if (e.own && p.block == e.at) {
            for (uint32_t d = lane % 8; d < CUDA_DEEP_DIMS; d += 8)
                ((uint16_t *)k)[d * CUDA_WARP + e.slot] = to_half(x.key[c * CUDA_DEEP_DIMS + d]);
            proxy_fence();
        }
        __syncwarp();
        add_piece<R>(k + lane % 8 * 8, x.queries + c * CUDA_DEEP_DIMS * R + p.row, y);
        warp_arrive(&empty[i]);
    }
}

/* A step of a reduction by 8 lanes: of N values, N / 2 go to the lane @h apart, and as many come from it. The lane with
 * that bit keeps the last ones. */
template <int N, bool LARGEST> __device__ static inline void halve(float *v, uint32_t h)
{
    const bool last = threadIdx.x & h;
#pragma unroll
    for (uint32_t i = 0; i < N / 2; i++) {
        const float own = last ? v[N / 2 + i] : v[i];
        const float other = __shfl_xor_sync(ALL, last ? v[i] : v[N / 2 + i], h);
        v[i] = LARGEST ? fmaxf(own, other) : own + other;
    }
}

/* N values of each lane are reduced by the lanes that differ in bits up to @h: LEFT are left, or N. */
template <int N, int LEFT, bool LARGEST> __device__ static inline void reduce(float *v, uint32_t h)
{
    if constexpr (N > LEFT) {
        halve<N, LARGEST>(v, h);
        reduce<N / 2, LEFT, LARGEST>(v, h / 2);
    } else {
        for (; h; h /= 2)
#pragma unroll
            for (uint32_t i = 0; i < N; i++) {
                const float other = __shfl_xor_sync(ALL, v[i], h);
                v[i] = LARGEST ? fmaxf(v[i], other) : v[i] + other;
            }
    }
}

/* The row of N whose reduction by 8 lanes the lane has; and whether it is the first of these lanes. */
template <int N> __device__ static inline uint32_t reduced_row()
{
    return threadIdx.x % 8 / (8 / N);
}

template <int N> __device__ static inline bool is_first()
{
    return threadIdx.x % (8 / N) == 0;
}

/* The tree of sums of each row of a block. */
template <int N> __device__ static inline float fold_block(const lane_scores<N> &y)
{
    float v[4 * N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        v[4 * i] = y.s[i].x, v[4 * i + 1] = y.s[i].y, v[4 * i + 2] = y.s[i].z, v[4 * i + 3] = y.s[i].w;
    reduce<4 * N, 4, false>(v, 4);
    return (v[0] + v[2]) + (v[1] + v[3]);
}

/* @v where the key is visible, or @other. */
__device__ static inline float4 where_visible(const struct part &p, const float4 &v, float other)
{
    const uint32_t j = threadIdx.x % 8 * 4;
    return make_float4(j >= p.lo && j < p.hi ? v.x : other, j + 1 >= p.lo && j + 1 < p.hi ? v.y : other,
                       j + 2 >= p.lo && j + 2 < p.hi ? v.z : other, j + 3 >= p.lo && j + 3 < p.hi ? v.w : other);
}

/* Scores from products, and the largest of each row and block. */
template <int R, int N>
__device__ static inline void scale_scores(const struct cuda_attn &a, const struct deep &x, const struct part &p,
                                           lane_scores<N> &y)
{
    float tops[N];
#pragma unroll
    for (uint32_t r = 0; r < N; r++) {
        float4 v = make_float4(y.s[r].x * a.scale, y.s[r].y * a.scale, y.s[r].z * a.scale, y.s[r].w * a.scale);
        if (a.cap > 0.0f)
            v = make_float4(softcap_(v.x, a.cap), softcap_(v.y, a.cap), softcap_(v.z, a.cap), softcap_(v.w, a.cap));
        y.s[r] = v;
        v = where_visible(p, v, NOTHING);
        tops[r] = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    }
    reduce<N, 1, true>(tops, 4);
    if (is_first<N>()) x.tops[p.block * R + p.row + reduced_row<N>()] = tops[0] + 0.0f;
}

/* The scores of the warp's part. */
template <int dim, int R, int N>
__device__ static inline void score_part(const struct cuda_attn &a, const struct deep &x, const struct count &n,
                                         const struct early &e, const struct part &p, lane_scores<N> &y)
{
    multiply_keys<dim, R>(x, n, e, p, y);
    scale_scores<R>(a, x, p, y);
}

/* The largest score of row lane % N up to the block, after a look at those of all blocks before; the factor. */
template <int R, int N>
__device__ static inline float find_factor(const struct deep &x, const struct count &n, const struct part &p)
{
    const uint32_t lane = threadIdx.x % 8, r = p.row + lane % N;
    float before = NOTHING;
#pragma unroll
    for (uint32_t b = 0; b + 1 < BLOCKS; b++) before = fmaxf(before, b < p.block ? x.tops[b * R + r] : NOTHING);
    const float top = x.tops[p.block * R + r], m = fmaxf(before, top);
    if (lane < N) x.factors[p.block * R + r] = before != NOTHING && top > before ? exp_(before - top) : 1.0f;
    if (lane < N && p.block == n.blocks - 1) x.ends[r] = m;
    return m;
}

/* The weights of @n rows of the warp's part from row @first on, from their scores, and their sums. */
template <int R, int N, int n>
__device__ static inline void weigh_rows(const struct deep &x, const struct part &p, float m, uint32_t first,
                                         lane_scores<n> &y)
{
    const uint32_t row = p.row + first;
    float4 *own = (float4 *)(x.weights + (p.quad * R + row) * CUDA_DEEP_KEYS) + threadIdx.x % CUDA_WARP;
#pragma unroll
    for (uint32_t r = 0; r < n; r++) {
        const float top = __shfl_sync(ALL, m, (threadIdx.x & 24) + first + r);
        const float4 v = y.s[r];
        y.s[r] = where_visible(p,
                               make_float4(exp_straight(v.x - top), exp_straight(v.y - top), exp_straight(v.z - top),
                                           exp_straight(v.w - top)),
                               0.0f);
        own[r * CUDA_WARP] = y.s[r];
    }
    const float sum = fold_block<n>(y);
    if (is_first<n>()) x.sums[p.block * R + row + reduced_row<n>()] = sum;
}

/* The weights of the warp's part. The code is that of four rows: to fetch that of more took longer than to run it. */
template <int R, int N>
__device__ static inline void weigh_part(const struct deep &x, const struct count &n, const struct part &p,
                                         const lane_scores<N> &y)
{
    constexpr int some = N < 4 ? N : 4;
    static_assert(N <= 2 * some, "two turns at most");
    const float m = find_factor<R, N>(x, n, p);
    lane_scores<some> z;
#pragma unroll
    for (uint32_t r = 0; r < some; r++) z.s[r] = y.s[r];
#pragma unroll 1
    for (uint32_t first = 0; first < N; first += some) {
        weigh_rows<R, N>(x, p, m, first, z);
#pragma unroll
        for (uint32_t r = 0; r < some; r++) z.s[r] = y.s[N - some + r];
    }
}
