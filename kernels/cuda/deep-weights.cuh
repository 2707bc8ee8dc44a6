/* SPDX-License-Identifier: MIT */
#pragma once
/* Attention of long contexts (attn-deep.cu): scores and weights. A warp has two blocks at once, a lane two of their
 * keys and all rows. */
#include "kernels/cuda/deep.cuh"

/* The scores of a lane's two keys. */
template <int R> struct lane_scores {
    float2 s[R];
};

/* Values of rows that follow each other in memory. */
template <int N> struct alignas(N < 4 ? 4 * N : 16) values {
    float v[N];
};

/* s += 64 dims of the keys at @k; @q: [64][R]. */
template <int R> __device__ static inline void add_dims(const uint8_t *k, const float *q, lane_scores<R> &y)
{
#pragma unroll 4
    for (uint32_t d = 0; d < CUDA_DEEP_DIMS; d++) {
        const float2 v = __half22float2(*(const __half2 *)(k + d * CUDA_WARP * 2));
        const values<R> w = *(const values<R> *)(q + d * R);
#pragma unroll
        for (uint32_t r = 0; r < R; r++) y.s[r] = make_float2(fma_(w.v[r], v.x, y.s[r].x), fma_(w.v[r], v.y, y.s[r].y));
    }
}

/* The products of the lane's keys of pair @pair; @block: that of the lane's half of the warp. */
template <int dim, int R, int W>
__device__ static inline lane_scores<R> multiply_keys(const struct deep &x, const struct count &n,
                                                      const struct early &e, uint32_t pair, uint32_t block)
{
    using L = layout<dim>;
    const uint32_t half = threadIdx.x / 16 % 2, lane = threadIdx.x % 16, at = pair % W;
    const uint32_t first = pair - at, together = min(n.pairs - first, (uint32_t)W);
    lane_scores<R> y = {};
    for (uint32_t c = 0; c < L::parts; c++) {
        const uint32_t i = first * L::parts + c * together + at;
        uint8_t *k = x.ring + i % x.slots * CUDA_DEEP_SLOT + half * L::shift;
        bar_wait(&full[i], 0);
        if (e.own && block == e.at) {
            for (uint32_t d = lane; d < CUDA_DEEP_DIMS; d += 16)
                ((uint16_t *)k)[d * CUDA_WARP + e.slot] = to_half(x.key[c * CUDA_DEEP_DIMS + d]);
            proxy_fence();
        }
        __syncwarp();
        add_dims<R>(k + lane * 4, x.queries + c * CUDA_DEEP_DIMS * R, y);
        warp_arrive(&empty[i]);
    }
    return y;
}

/* A step of a reduction by 16 lanes: of N values, N / 2 go to the lane @h apart, and as many come from it. The lane
 * with that bit keeps the last ones. */
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

/* N values of each lane are reduced by the lanes that differ in bits up to @h: one is left. */
template <int N, bool LARGEST> __device__ static inline float reduce(float *v, uint32_t h)
{
    if constexpr (N > 1) {
        halve<N, LARGEST>(v, h);
        return reduce<N / 2, LARGEST>(v, h / 2);
    } else {
#pragma unroll
        for (; h; h /= 2) {
            const float other = __shfl_xor_sync(ALL, v[0], h);
            v[0] = LARGEST ? fmaxf(v[0], other) : v[0] + other;
        }
        return v[0];
    }
}

/* The largest of N values of a half of a warp, each: of number lane / (16 / N). */
template <int N> __device__ static inline float half_max(float *v)
{
    return reduce<N, true>(v, 8) + 0.0f;
}

/* The tree of sums of a half of a warp whose lanes have two values of each of N: of number lane % 8 / (8 / N). */
template <int N> __device__ static inline float half_fold(const float2 *s)
{
    float v[2 * N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++) v[i] = s[i].x, v[N + i] = s[i].y;
    const float one = reduce<2 * N, false>(v, 8);
    return one + __shfl_xor_sync(ALL, one, 8);
}

/* Where a lane leaves its scores of pair @pair, [R] for all lanes, until they are weights. */
template <int R> __device__ static inline float2 *scores_of(const struct deep &x, uint32_t pair)
{
    return (float2 *)(x.weights + pair * 2 * CUDA_WARP * R) + threadIdx.x % CUDA_WARP;
}

/* Scores from products, and the largest of each row. Visible: the keys [lo, hi). */
template <int R>
__device__ static inline void scale_scores(const struct cuda_attn &a, const struct deep &x, uint32_t block, uint32_t lo,
                                           uint32_t hi, lane_scores<R> &y)
{
    const uint32_t lane = threadIdx.x % 16, j = 2 * lane;
    const bool one = j >= lo && j < hi, two = j + 1 >= lo && j + 1 < hi;
    float tops[R];
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        float2 v = make_float2(y.s[r].x * a.scale, y.s[r].y * a.scale);
        if (a.cap > 0.0f) v = make_float2(softcap_(v.x, a.cap), softcap_(v.y, a.cap));
        y.s[r] = v;
        tops[r] = fmaxf(one ? v.x : NOTHING, two ? v.y : NOTHING);
    }
    const float top = half_max<R>(tops);
    if (lane % (16 / R) == 0 && block < BLOCKS) x.tops[block * R + lane / (16 / R)] = top;
}

/* The largest score of row lane % R up to the block, after a look at those of all blocks before; the factor. */
template <int R> __device__ static inline float find_factor(const struct deep &x, const struct count &n, uint32_t block)
{
    const uint32_t lane = threadIdx.x % 16, r = lane % R;
    float before = NOTHING;
#pragma unroll
    for (uint32_t b = 0; b + 1 < BLOCKS; b++) before = fmaxf(before, b < block ? x.tops[b * R + r] : NOTHING);
    const float top = x.tops[block * R + r], m = fmaxf(before, top);
    if (lane < R) x.factors[block * R + r] = before != NOTHING && top > before ? exp_(before - top) : 1.0f;
    if (lane < R && block == n.blocks - 1) x.ends[r] = m;
    return m;
}

/* Weights from the scores of pair @pair, of which the lane has two keys of block @block. */
template <int R>
__device__ static inline void weigh_deep(const struct deep &x, const struct count &n, uint32_t pair, uint32_t block,
                                         uint32_t lo, uint32_t hi)
{
    const uint32_t lane = threadIdx.x % 16, j = 2 * lane, half = threadIdx.x & 16;
    const bool one = j >= lo && j < hi, two = j + 1 >= lo && j + 1 < hi;
    const float m = find_factor<R>(x, n, block);
    const float2 *own = scores_of<R>(x, pair);
    float2 s[R];
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        const float top = __shfl_sync(ALL, m, half + r);
        const float2 v = own[r * CUDA_WARP], e = make_float2(exp_(v.x - top), exp_(v.y - top));
        s[r] = make_float2(one ? e.x : 0.0f, two ? e.y : 0.0f);
    }
    const float sum = half_fold<R>(s);
    if (lane < 8 && lane % (8 / R) == 0) x.sums[block * R + lane / (8 / R)] = sum;
    __syncwarp(); /* all have read their scores */
    values<R> *w = (values<R> *)(x.weights + (block * CUDA_WARP + j) * R), first, last;
#pragma unroll
    for (uint32_t r = 0; r < R; r++) first.v[r] = s[r].x, last.v[r] = s[r].y;
    w[0] = first, w[1] = last;
}

/* The block of pair @pair of which the lane has keys; visible are its keys [lo, hi). */
__device__ static inline uint32_t lane_block(const struct steps &s, const struct cuda_tile &t, const struct count &n,
                                             uint32_t pair, uint32_t &lo, uint32_t &hi)
{
    const uint32_t block = 2 * pair + threadIdx.x / 16 % 2;
    visible(s.begin, s.end, t.from + block * CUDA_WARP, lo, hi);
    if (block >= n.blocks) hi = 0;
    return block;
}

/* Scores of all blocks. */
template <int dim, int R, int W>
__device__ static inline void score_blocks(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &s,
                                           const struct deep &x, const struct count &n, const struct early &e)
{
    uint32_t lo, hi;
#pragma unroll 1
    for (uint32_t pair = threadIdx.x / CUDA_WARP; pair < n.pairs; pair += W) {
        const uint32_t block = lane_block(s, t, n, pair, lo, hi);
        lane_scores<R> y = multiply_keys<dim, R, W>(x, n, e, pair, block);
        scale_scores<R>(a, x, block, lo, hi, y);
        float2 *own = scores_of<R>(x, pair);
#pragma unroll
        for (uint32_t r = 0; r < R; r++) own[r * CUDA_WARP] = y.s[r];
    }
}

/* Weights of all blocks. */
template <int R, int W>
__device__ static inline void weigh_blocks(const struct cuda_tile &t, const struct steps &s, const struct deep &x,
                                           const struct count &n)
{
    uint32_t lo, hi;
#pragma unroll 1
    for (uint32_t pair = threadIdx.x / CUDA_WARP; pair < n.pairs; pair += W) {
        const uint32_t block = lane_block(s, t, n, pair, lo, hi);
        weigh_deep<R>(x, n, pair, block, lo, hi);
    }
}
