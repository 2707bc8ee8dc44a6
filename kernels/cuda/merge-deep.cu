/* SPDX-License-Identifier: MIT */
/*
 * The merge of tokens that are alone in the steps of their sequences and have many parts: the last CTA of attention
 * would need longer for it than all of attention. A CTA for each token (x) and 32 dims (y), of which heads have a
 * multiple. All threads copy parts to shared memory and find how these join; then one warp joins them, one after the
 * other. Tokens of one part have their result.
 */
#include "kernels/cuda/deep-args.h"
#include "kernels/cuda/join.cuh"

#define AT_ONCE (CUDA_MERGE_WARPS * CUDA_WARP) /* parts */
#define JOINED  8                              /* of them: read before they are joined */

__shared__ static float4 copies[AT_ONCE][CUDA_WARP / 4];
__shared__ static struct joining joining[AT_ONCE];
__shared__ static float tops[CUDA_MERGE_WARPS]; /* the largest score of each warp's parts */

/* Start to copy the 32 dims at @o of @n parts. */
__device__ static inline void start_copies(const struct cuda_merge &a, const float *o, uint32_t n)
{
    const uint32_t step = a.heads * a.dim, four = threadIdx.x % 8;
#pragma unroll 4
    for (uint32_t i = threadIdx.x / 8; i < n; i += AT_ONCE / 8)
        copy16(&copies[i][four], o + (uint64_t)i * step + four * 4);
}

/* Find how the thread's part joins, with the largest score @m and the sum @l, if it is @valid; @top: the largest score
 * of all parts before these, then of these, too. By all threads. */
__device__ static inline void find_all(float m, float l, bool valid, float &top)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, warp = threadIdx.x / CUDA_WARP;
    const float own = scan_largest(valid ? m : NOTHING);
    float before = __shfl_up_sync(ALL, own, 1), base = top;
    if (lane == CUDA_WARP - 1) tops[warp] = own;
    __syncthreads();
#pragma unroll
    for (uint32_t w = 0; w < CUDA_MERGE_WARPS; w++) {
        if (w < warp) base = larger(base, tops[w]);
        top = larger(top, tops[w]);
    }
    before = lane ? larger(base, before) : base;
    joining[threadIdx.x] = joins(before, larger(base, own), m, valid ? l : 0.0f);
}

/* Join @n parts; others have the sum 0. */
__device__ static inline void join_copies(uint32_t n, struct one_dim &y)
{
    const float *more = (const float *)copies[0] + threadIdx.x;
#pragma unroll 1
    for (uint32_t i = 0; i < n; i += JOINED) {
        struct joining j[JOINED];
        float v[JOINED];
#pragma unroll
        for (uint32_t k = 0; k < JOINED; k++) j[k] = joining[i + k], v[k] = more[(i + k) * CUDA_WARP];
#pragma unroll
        for (uint32_t k = 0; k < JOINED; k++) join_next(j[k], v[k], y);
    }
}

extern "C" __global__ void __launch_bounds__(AT_ONCE) cuda_merge_deep(const __grid_constant__ struct cuda_merge a)
{
    start_next();
    const uint32_t lane = threadIdx.x % CUDA_WARP, first = blockIdx.y * CUDA_WARP, head = first / a.dim;
    const struct cuda_seen seen = a.seen[blockIdx.x];
    struct one_dim y = none_joined();
    wait_before();
    if (seen.parts == 1) return;
    for (uint32_t part = 0; part < seen.parts; part += AT_ONCE) {
        const uint32_t n = min(seen.parts - part, (uint32_t)AT_ONCE);
        const uint64_t row = seen.row + part, own = (row + min(threadIdx.x, n - 1)) * a.heads + head;
        const float m = a.m[own], l = a.l[own];
        start_copies(a, a.o + row * a.heads * a.dim + first, n);
        find_all(m, l, threadIdx.x < n && l > 0.0f, y.x.m);
        wait_copies();
        __syncthreads();
        if (threadIdx.x < CUDA_WARP) join_copies(n, y);
        __syncthreads();
    }
    if (threadIdx.x < CUDA_WARP) put(a, blockIdx.x, head, first % a.dim + lane, y);
}
