/* SPDX-License-Identifier: MIT */
/* Queries and keys between their products and attention, and copies of KV blocks. */
#include "kernels/cuda/heads.cuh"

/* CTAs of one warp; shared memory: dim floats. */
extern "C" __global__ void cuda_heads(const __grid_constant__ struct cuda_heads a)
{
    begin();
    extern __shared__ float x[];
    prepare_head(a, {x, a.dim, threadIdx.x}, blockIdx.x, blockIdx.y);
}

/* --- copies --- */

/* The first @n of each 32 elements of @each bytes in @rows rows. */
__device__ static inline void copy_rows(uint8_t *dst, const uint8_t *src, uint32_t rows, uint32_t n, uint32_t each)
{
    for (uint32_t i = threadIdx.x; i < rows * CUDA_WARP * each; i += blockDim.x)
        if (i % (CUDA_WARP * each) < n * each) dst[i] = src[i];
}

extern "C" __global__ void cuda_kv_copy(const __grid_constant__ struct cuda_copy a)
{
    begin();
    const uint32_t each = a.type == KV_F32 ? 4 : a.type == KV_F16 ? 2 : 1, codes = kv_codes(a.dim);
    uint8_t *to = kv_block(a.kv, a.dst, blockIdx.y) + blockIdx.x * a.layer;
    const uint8_t *from = kv_block(a.kv, a.src, blockIdx.y) + blockIdx.x * a.layer;
    copy_rows(to, from, a.dim, a.tokens, each);
    if (a.type == KV_Q8) copy_rows(to + codes, from + codes, kv_groups(a.dim), a.tokens, 2);
    if (a.kv.each == a.kv.half) return; /* V is a part of K */
    to += a.kv.half, from += a.kv.half;
    for (uint32_t i = threadIdx.x; i < a.tokens * a.dim * each; i += blockDim.x) to[i] = from[i];
    for (uint32_t i = threadIdx.x; a.type == KV_Q8 && i < a.tokens * kv_groups(a.dim) * 2; i += blockDim.x)
        to[codes + i] = from[codes + i];
}
