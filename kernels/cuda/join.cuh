/* SPDX-License-Identifier: MIT */
#pragma once
/* Parts of an attention's result, which lie in memory, are joined: the merge of kernels.h, a thread for each dim. */
#include "kernels/cuda/attn.cuh"

#define PARTS 16 /* that a thread reads at once */
#define FEW   4  /* parts that are joined without a look at their factors before */

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

/* Join few parts of dim @d of head @head, which lie in memory: all are read at once. */
__device__ static inline void join_few(const struct cuda_merge &a, const struct cuda_seen &seen, uint32_t head,
                                       uint32_t d, struct one_dim &y)
{
    struct result part[FEW];
#pragma unroll
    for (uint32_t i = 0; i < FEW; i++) {
        const uint64_t at = (uint64_t)(seen.row + min(i, seen.parts - 1)) * a.heads + head;
        part[i] = {__ldcg(a.m + at), __ldcg(a.l + at), __ldcg(a.o + at * a.dim + d)};
    }
#pragma unroll
    for (uint32_t i = 0; i < FEW; i++) join_one(y, part[i], i < seen.parts && part[i].l > 0.0f);
}

/* A part, as it joins those before it: the factor of what these gave, and its own. l is 0 where there is none. */
struct alignas(16) joining {
    float before, own, l, unused;
};

/* Of up to 32 parts of each row; their largest score and those of the parts before. */
__shared__ static struct joining joining[CUDA_WARP / 2][CUDA_WARP];
__shared__ static float largest_of[CUDA_WARP / 2];

/* Find these of row @r, of head @head and the parts from @first on. By one warp. */
__device__ static inline void find_joining(const struct cuda_merge &a, const struct cuda_seen &seen, uint32_t head,
                                           uint32_t r, uint32_t first)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, part = first + lane;
    const uint64_t at = (uint64_t)(seen.row + min(part, seen.parts - 1)) * a.heads + head;
    const float m = __ldcg(a.m + at), l = __ldcg(a.l + at), start = first ? largest_of[r] : NOTHING;
    const bool valid = part < seen.parts && l > 0.0f;
    float top = valid && m > start ? m : start;
#pragma unroll
    for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
        const float other = __shfl_up_sync(ALL, top, h);
        if (lane >= h && other > top) top = other;
    }
    const float other = __shfl_up_sync(ALL, top, 1), before = lane ? other : start;
    joining[r][lane] = {exp_(before - top), exp_(m - top), valid ? l : 0.0f, 0.0f};
    if (lane == CUDA_WARP - 1) largest_of[r] = top;
}

/* Read @o of PARTS parts from @first on, of dim @d of head @head. */
__device__ static inline void read_parts(const struct cuda_merge &a, const struct cuda_seen &seen, uint32_t head,
                                         uint32_t d, uint32_t first, float o[PARTS])
{
#pragma unroll
    for (uint32_t i = 0; i < PARTS; i++)
        if (first + i < seen.parts)
            o[i] = __ldcg(a.o + ((uint64_t)(seen.row + first + i) * a.heads + head) * a.dim + d);
}

/* They join; @j: the first of them. */
__device__ static inline void join_parts(const struct joining *j, const float o[PARTS], struct one_dim &y)
{
#pragma unroll
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct joining x = j[i];
        if (!(x.l > 0.0f)) continue;
        y.x.l = y.x.any ? fma_(x.l, x.own, y.x.l * x.before) : x.l;
        y.o = y.x.any ? fma_(o[i], x.own, y.o * x.before) : o[i];
        y.x.any = true;
    }
}

/* Join all parts of dim @d of row @r of @rows, the first of which has head @head. By all threads of the CTA. */
__device__ static inline void join_all(const struct cuda_merge &a, const struct cuda_seen &seen, uint32_t head,
                                       uint32_t rows, uint32_t r, uint32_t d, struct one_dim &y)
{
    const uint32_t warps = blockDim.x / CUDA_WARP;
    for (uint32_t first = 0; first < seen.parts; first += CUDA_WARP) {
        float o[PARTS];
        read_parts(a, seen, head + r, d, first, o);
        for (uint32_t row = threadIdx.x / CUDA_WARP; row < rows; row += warps)
            find_joining(a, seen, head + row, row, first);
        __syncthreads();
        join_parts(joining[r], o, y);
        if (first + PARTS < seen.parts) {
            read_parts(a, seen, head + r, d, first + PARTS, o);
            join_parts(joining[r] + PARTS, o, y);
        }
        y.x.m = largest_of[r];
        __syncthreads();
    }
}
