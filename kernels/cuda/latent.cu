/* SPDX-License-Identifier: MIT */
/* Latent attention but for its products and attention itself, in the order of daemon/backend/cpu/mla.c. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/heads.cuh"
#include "kernels/cuda/latent-args.h"

#define WARPS 8

/* K of token @i: norm, rotation, and its block. */
__device__ static inline void place_latent(const struct cuda_latent_heads &a, float *x, uint32_t i)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    const struct head all = {x, a.rank + a.rope, lane}, latent = {x, a.rank, lane}, rest = {x + a.rank, a.rope, lane};
    struct cuda_heads to = {};
    to.type = a.type;
    load(all, a.k + (uint64_t)i * all.dim, NULL);
    norm_head(latent, a.k_norm, a.eps);
    if (a.rotates) rotate(rest, a.cs + (uint64_t)i * a.rope, a.rope, a.neox);
    store(to, all, kv_block(a.kv, a.token[i].block[a.group], 0), a.token[i].pos % CUDA_WARP, true);
}

/* The rotated part of a query, @from -> @to, which may be the same. */
__device__ static inline void turn(const struct cuda_latent_heads &a, const float *from, float *to, const float *cs)
{
    const uint32_t half = a.rope / 2, apart = a.neox ? half : 1, step = a.neox ? 1 : 2;
    for (uint32_t n = threadIdx.x % CUDA_WARP; n < half; n += CUDA_WARP) {
        const float x0 = from[n * step], x1 = from[n * step + apart], c = cs[n], s = cs[half + n];
        to[n * step] = a.rotates ? fma_(x0, c, -(x1 * s)) : x0;
        to[n * step + apart] = a.rotates ? fma_(x0, s, x1 * c) : x1;
    }
}

/* Query @h of token @i. */
__device__ static inline void split_query(const struct cuda_latent_heads &a, uint32_t i, uint32_t h)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = h * a.apart + i;
    const uint64_t at = ((uint64_t)i * a.heads + h) * (a.nope + a.rope);
    for (uint32_t d = lane; a.f && d < a.nope; d += CUDA_WARP) a.f[(uint64_t)row * a.nope + d] = a.q[at + d];
    for (uint32_t d = 0; a.rows.q && d < a.nope; d += CUDA_WARP)
        quantize(a.rows, row, a.nope, d / CUDA_WARP, a.q[at + d + lane]);
    float *x = a.q + at + a.nope;
    if (a.q_sinks && a.token[i].slides) turn(a, x, a.q_sinks + at + a.nope, a.sink_cs + (uint64_t)i * a.rope);
    turn(a, x, x, a.cs + (uint64_t)i * a.rope);
}

extern "C" __global__ void __launch_bounds__(WARPS *CUDA_WARP)
    cuda_latent_heads(const __grid_constant__ struct cuda_latent_heads a)
{
    begin();
    extern __shared__ float shared[];
    const uint32_t n = blockIdx.y * WARPS + threadIdx.x / CUDA_WARP;
    if (n == 0)
        place_latent(a, shared, blockIdx.x);
    else if (n <= a.heads)
        split_query(a, blockIdx.x, n - 1);
}

extern "C" __global__ void cuda_latent_join(const __grid_constant__ struct cuda_latent_join a)
{
    begin();
    const uint32_t first = first_of_warp(), i = first + threadIdx.x % CUDA_WARP * 4;
    float v[4] = {};
    if (first >= a.k) return;
    for (uint32_t n = 0; n < 4 && i + n < a.k; n++) {
        const uint64_t row = (uint64_t)((i + n) / a.value) * a.apart + blockIdx.y;
        v[n] = a.x[row * a.value + (i + n) % a.value];
    }
    put(a.f, a.q, blockIdx.y, a.k, first, v);
}
