/* SPDX-License-Identifier: MIT */
#pragma once
/* Parts of an attention's result, which lie in memory, are joined: the merge of kernels.h, a thread for each two dims.
 * The code is short since few CTAs run it: to fetch it would take longer than to compute. */
#include "kernels/cuda/attn.cuh"

/* The running result of a merge, of one dim. */
struct one_dim {
    struct merged x;
    float o;
};

/* join(), if @valid, without a branch: the exponents of several parts are computed at once. */
__device__ static inline void join_one(struct one_dim &y, const struct result &part, bool valid)
{
    struct merged x = y.x;
    float o = y.o;
    const float top = part.m > x.m ? part.m : x.m, a = exp_(x.m - top), b = exp_(part.m - top);
    x.l = x.any ? fma_(part.l, b, x.l * a) : part.l;
    o = x.any ? fma_(part.o, b, o * a) : part.o;
    x.m = x.any ? top : part.m;
    x.any = true;
    if (valid) y.x = x, y.o = o;
}

/* A part, as it joins those before it: the factor of what these gave, and its own. l is 0 where there is none. */
struct alignas(16) joining {
    float before, own, l, unused;
};

/* What a CTA needs in shared memory to join parts. */
struct joint {
    struct joining *of; /* [rows][CUDA_WARP] parts that are joined at once; */
    float *largest;     /* [rows] their largest score and those of the parts before */
    float *copies;      /* [most][outputs that are joined at once]; NULL: they are read where they are */
    uint32_t most;      /* parts, at most CUDA_WARP */
};

/* Outputs, rows times dims, that a CTA joins at once. */
__device__ static inline uint32_t joined_at_once(uint32_t all)
{
    return min(all, 2 * blockDim.x);
}

/* @copies: @bytes of shared memory for copies. */
__device__ static inline struct joint joint_of(struct joining *of, float *largest, void *copies, uint32_t bytes,
                                               uint32_t rows, uint32_t dim)
{
    const uint32_t most = bytes / (joined_at_once(rows * dim) * (uint32_t)sizeof(float));
    struct joint x = {of, largest, NULL, CUDA_WARP};
    if (most && dim % 4 == 0) x.copies = (float *)copies, x.most = min(most, (uint32_t)CUDA_WARP);
    return x;
}

/* Start to copy @n parts, each of @outputs, which are @step from each other at @o. */
__device__ static inline void copy_parts(float *to, const float *o, uint64_t step, uint32_t n, uint32_t outputs)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP, warps = blockDim.x / CUDA_WARP;
#pragma unroll 1
    for (uint32_t p = warp; p < n; p += warps)
#pragma unroll 1
        for (uint32_t i = 4 * lane; i < outputs; i += 4 * CUDA_WARP) copy16(to + p * outputs + i, o + p * step + i);
}

/* @y if it is larger than @x. */
__device__ static inline float larger(float x, float y)
{
    return y > x ? y : x;
}

/* The largest score @m of the lanes up to this one. */
__device__ static inline float scan_largest(float m)
{
#pragma unroll 1
    for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
        const float other = __shfl_up_sync(ALL, m, h);
        if (threadIdx.x % CUDA_WARP >= h) m = larger(m, other);
    }
    return m;
}

/* How a part with the largest score @m and the sum @l joins: before it the largest one was @before, now it is @most. */
__device__ static inline struct joining joins(float before, float most, float m, float l)
{
    return {exp_(before - most), exp_(m - most), l, 0.0f};
}

/* How the lane's part with the largest score @m and the sum @l joins those of the lanes before, if it is @valid; @top:
 * the largest score of all before these, then of these, too. By a warp. */
__device__ static inline struct joining joining_of(float m, float l, bool valid, float &top)
{
    const float most = scan_largest(valid ? larger(top, m) : top), other = __shfl_up_sync(ALL, most, 1);
    const struct joining x = joins(threadIdx.x % CUDA_WARP ? other : top, most, m, valid ? l : 0.0f);
    top = __shfl_sync(ALL, most, CUDA_WARP - 1);
    return x;
}

/* Find how @n parts of head @head, row @r, from @first on join. By one warp. */
__device__ static inline void find_joining(const struct cuda_merge &a, const struct cuda_seen &seen,
                                           const struct joint &x, uint32_t head, uint32_t r, uint32_t first, uint32_t n)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, part = first + min(lane, n - 1);
    const uint64_t at = (uint64_t)(seen.row + part) * a.heads + head;
    const float m = __ldcg(a.m + at), l = __ldcg(a.l + at);
    float top = first ? x.largest[r] : NOTHING;
    x.of[r * CUDA_WARP + lane] = joining_of(m, l, lane < n && l > 0.0f, top);
    __syncwarp(); /* all have read it */
    if (lane == 0) x.largest[r] = top;
}

/* What join_next() begins with: the first part's factors are 0 and 1, and -0 + x is x, also if that is -0. */
__device__ static inline struct one_dim none_joined()
{
    return {{NOTHING, 0.0f, true}, -0.0f};
}

/* A part joins: its value of a dim is @more. */
__device__ static inline void join_next(const struct joining &x, float more, struct one_dim &y)
{
    if (x.l > 0.0f) y.x.l = fma_(x.l, x.own, y.x.l * x.before), y.o = fma_(more, x.own, y.o * x.before);
}

/* @n parts of two outputs join, @step from each other at @o; @j: the first of them. */
template <bool COPIED>
__device__ static inline void join_parts(const struct joining *const j[2], const float *const o[2], uint64_t step,
                                         uint32_t n, struct one_dim y[2])
{
#pragma unroll 2
    for (uint32_t i = 0; i < n; i++) {
#pragma unroll
        for (uint32_t k = 0; k < 2; k++) {
            const float more = COPIED ? o[k][i * (uint32_t)step] : __ldcg(o[k] + i * step);
            join_next(j[k][i], more, y[k]);
        }
    }
}

/* Join all parts of the outputs from @from on, of @all outputs; the first row has head @head. A thread has output
 * threadIdx.x and blockDim.x + threadIdx.x of these, as far as there are so many. By all threads of the CTA. */
__device__ static inline void join_all(const struct cuda_merge &a, const struct cuda_seen &seen, const struct joint &x,
                                       uint32_t head, uint32_t from, uint32_t all, struct one_dim y[2])
{
    const uint32_t outputs = joined_at_once(all - from), last = (from + outputs - 1) / a.dim;
    const uint32_t own[2] = {min(threadIdx.x, outputs - 1), min(blockDim.x + threadIdx.x, outputs - 1)};
    const struct joining *const j[2] = {x.of + (from + own[0]) / a.dim * CUDA_WARP,
                                        x.of + (from + own[1]) / a.dim * CUDA_WARP};
    const uint64_t step = (uint64_t)a.heads * a.dim;
    for (uint32_t first = 0; first < seen.parts; first += x.most) {
        const uint32_t n = min(seen.parts - first, x.most);
        const float *o = a.o + (seen.row + first) * step + head * a.dim + from;
        if (x.copies) copy_parts(x.copies, o, step, n, outputs);
#pragma unroll 1
        for (uint32_t r = from / a.dim + threadIdx.x / CUDA_WARP; r <= last; r += blockDim.x / CUDA_WARP)
            find_joining(a, seen, x, head + r, r, first, n);
        if (x.copies) wait_copies();
        __syncthreads();
        if (x.copies) {
            const float *const at[2] = {x.copies + own[0], x.copies + own[1]};
            join_parts<true>(j, at, outputs, n, y);
        } else {
            const float *const at[2] = {o + own[0], o + own[1]};
            join_parts<false>(j, at, step, n, y);
        }
        __syncthreads();
    }
    for (uint32_t k = 0; k < 2; k++) y[k].x.m = x.largest[(from + own[k]) / a.dim];
}

/* The result of dim @d of head @head of token @token. */
__device__ static inline void put(const struct cuda_merge &a, uint32_t token, uint32_t head, uint32_t d,
                                  struct one_dim y)
{
    if (a.sink_scores) join_one(y, {a.sink_scores[head], 1.0f, 0.0f}, true);
    const float v = y.o / y.x.l;
    if (a.f) a.f[((uint64_t)token * a.heads + head) * a.dim + d] = v;
    if (a.q.q) quantize(a.q, token, a.heads * a.dim, (head * a.dim + d) / CUDA_WARP, v);
}
