/* SPDX-License-Identifier: MIT */
/*
 * The merge of tokens that are alone in the steps of their sequences and have many parts: the last CTA of attention
 * would need longer for it than all of attention. One warp for each token (x) and 32 dims (y); heads have a multiple of
 * 32. Tokens of one part have their result.
 */
#include "kernels/cuda/join.cuh"

#define AT_ONCE 64 /* parts */

__shared__ static float4 copies[AT_ONCE][CUDA_WARP / 4];
__shared__ static float tops[AT_ONCE], sums[AT_ONCE];
__shared__ static struct joining joining[AT_ONCE];

/* Bring @n parts from row @row on to shared memory: the largest score and sum of head @head, and the 32 dims at @o. */
__device__ static inline void bring(const struct cuda_merge &a, const float *o, uint64_t row, uint32_t head, uint32_t n)
{
    const uint32_t lane = threadIdx.x, step = a.heads * a.dim;
#pragma unroll 4
    for (uint32_t i = lane / 8; i < n; i += 4) copy16(&copies[i][lane % 8], o + (uint64_t)i * step + lane % 8 * 4);
#pragma unroll 4
    for (uint32_t i = lane; i < n; i += CUDA_WARP)
        tops[i] = a.m[(row + i) * a.heads + head], sums[i] = a.l[(row + i) * a.heads + head];
    wait_copies();
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(CUDA_WARP) cuda_merge_deep(const __grid_constant__ struct cuda_merge a)
{
    start_next();
    const uint32_t lane = threadIdx.x, first = blockIdx.y * CUDA_WARP, head = first / a.dim;
    const struct cuda_seen seen = a.seen[blockIdx.x];
    struct one_dim y = {{NOTHING, 0.0f, false}, 0.0f};
    wait_before();
    if (seen.parts == 1) return;
    for (uint32_t part = 0; part < seen.parts; part += AT_ONCE) {
        const uint32_t n = min(seen.parts - part, (uint32_t)AT_ONCE);
        const uint64_t row = seen.row + part;
        bring(a, a.o + row * a.heads * a.dim + first, row, head, n);
#pragma unroll 1
        for (uint32_t i = 0; i < n; i += CUDA_WARP) {
            const uint32_t at = min(i + lane, n - 1);
            joining[i + lane] = joining_of(tops[at], sums[at], i + lane < n && sums[at] > 0.0f, y.x.m);
        }
        __syncwarp();
#pragma unroll 4
        for (uint32_t i = 0; i < n; i++) join_next(joining[i], ((const float *)copies[i])[lane], y);
        __syncwarp();
    }
    put(a, blockIdx.x, head, first % a.dim + lane, y);
}
