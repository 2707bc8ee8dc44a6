/* SPDX-License-Identifier: MIT */
/* Operations on rows: join and norm, quantization, activations, logits. */
#include "kernels/cuda/vector.cuh"

#define AHEAD 4 /* weights that a thread reads early */

/* Write a row that lies in shared memory. */
__device__ static inline void put_row(float *f, const struct cuda_acts &q, const float *x, uint32_t row, uint32_t k)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    for (uint32_t i = threadIdx.x; f && i < k; i += blockDim.x) f[(uint64_t)row * k + i] = x[i];
    if (!q.q) return;
    for (uint32_t b = threadIdx.x / CUDA_WARP; b < k / CUDA_WARP; b += blockDim.x / CUDA_WARP)
        quantize(q, row, k, b, x[b * CUDA_WARP + lane]);
}

/* Shared memory: 2 k floats, and one. */
extern "C" __global__ void cuda_norm(const __grid_constant__ struct cuda_norm a)
{
    extern __shared__ float x[];
    float *stream = x + a.k, *one = stream + a.k;
    float first[AHEAD]; /* weights, which no kernel writes */
    start_next();
#pragma unroll
    for (uint32_t n = 0; n < AHEAD; n++) {
        const uint32_t i = threadIdx.x + n * blockDim.x;
        first[n] = a.w && i < a.k ? a.w[i] : 0.0f;
    }
    wait_before();
    const uint32_t from = a.gather ? a.gather[blockIdx.x] : blockIdx.x;
    float *old = a.x + (uint64_t)from * a.k;
    read_row(a, from, stream, x);
    if (a.h) join(a, stream, x, one);
    float *to = a.gather ? a.to + (uint64_t)blockIdx.x * a.k : old;
    for (uint32_t i = threadIdx.x; (a.h || a.gather) && i < a.k; i += blockDim.x) to[i] = x[i];
    if (a.w) {
        const float r = root_of(x, a.k, a.eps, one);
#pragma unroll
        for (uint32_t n = 0; n < AHEAD; n++) {
            const uint32_t i = threadIdx.x + n * blockDim.x;
            if (i < a.k) x[i] = x[i] * r * first[n];
        }
#pragma unroll 4
        for (uint32_t i = threadIdx.x + AHEAD * blockDim.x; i < a.k; i += blockDim.x) x[i] = x[i] * r * a.w[i];
        __syncthreads();
    }
    put_row(a.f, a.q, x, blockIdx.x, a.k);
}

/* Quantize f. Grid: (32 columns / warps of a CTA, rows). */
extern "C" __global__ void cuda_quantize(const __grid_constant__ struct cuda_gated a)
{
    begin();
    const uint32_t block = blockIdx.x * (blockDim.x / CUDA_WARP) + threadIdx.x / CUDA_WARP;
    if (block >= a.k / CUDA_WARP) return;
    const uint32_t i = block * CUDA_WARP + threadIdx.x % CUDA_WARP;
    quantize(a.q, blockIdx.y, a.k, block, a.gate[(uint64_t)blockIdx.y * a.k + i]);
}

/* --- activations --- */

extern "C" __global__ void cuda_gated(const __grid_constant__ struct cuda_gated a)
{
    begin();
    const uint32_t block = blockIdx.x * (blockDim.x / CUDA_WARP) + threadIdx.x / CUDA_WARP;
    const uint32_t i = block * CUDA_WARP + threadIdx.x % CUDA_WARP;
    const uint64_t at = (uint64_t)blockIdx.y * a.k + i;
    if (block * CUDA_WARP >= a.k) return;
    const float g = i < a.k ? gated(a, a.gate[at], a.up ? a.up[at] : 0.0f, i) : 0.0f;
    if (a.f && i < a.k) a.f[at] = g;
    if (a.q.q) quantize(a.q, blockIdx.y, a.k, block, g);
}

/* Grid: (columns / threads, rows). */
extern "C" __global__ void cuda_logits(const __grid_constant__ struct cuda_logits a)
{
    begin();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.k) return;
    float *x = a.x + (uint64_t)blockIdx.y * a.k + i, v = *x;
    if (a.bias) v = v + a.bias[i];
    if (a.scale != 1.0f) v = v * a.scale;
    if (a.cap > 0.0f) v = softcap_(v, a.cap);
    *x = v;
}
