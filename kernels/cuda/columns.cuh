/* SPDX-License-Identifier: MIT */
#pragma once
/* Kernels whose threads have four columns of a row each. */
#include "kernels/cuda/device.cuh"

/* The first column of the warp; the thread has those from it + 4 lanes on. */
__device__ static inline uint32_t first_of_warp()
{
    return (blockIdx.x * blockDim.x + threadIdx.x / CUDA_WARP * CUDA_WARP) * 4;
}

/* Store the thread's columns of row @row in the forms that are wanted. */
__device__ static inline void put(float *f, const struct cuda_acts &q, uint32_t row, uint32_t k, uint32_t first,
                                  const float v[4])
{
    const uint32_t i = first + threadIdx.x % CUDA_WARP * 4;
#pragma unroll
    for (uint32_t n = 0; n < 4; n++)
        if (f && i + n < k) f[(uint64_t)row * k + i + n] = v[n];
    if (q.q) quantize4(q, row, k, first, v);
}
