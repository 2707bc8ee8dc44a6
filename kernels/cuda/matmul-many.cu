/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with many tokens, on tensor cores. A CTA computes 128 rows (8 panels) of 16 N tokens, a
 * warp 4 or 2 panels of 8 N tokens, its accumulators in registers. Grid: (panels / 8, tokens / 16 N), rounded up. N is
 * 8 (cuda_many_*), or 4 (cuda_some_*) where that divides the work better among the multiprocessors.
 */
#include "kernels/cuda/many.cuh"

#define MANY(name, width, scales, offset, table)                                                                       \
    extern "C" __global__ void __launch_bounds__(threads_of_cta<scales, 8>, 2)                                         \
        cuda_many_##name(const __grid_constant__ struct cuda_matmul a)                                                 \
    {                                                                                                                  \
        begin();                                                                                                       \
        many<width, scales, offset, table, 8>(a, blockIdx.y * 8 * 8 * DOWN, a.n, 0);                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(threads_of_cta<scales, 4>, 2)                                         \
        cuda_some_##name(const __grid_constant__ struct cuda_matmul a)                                                 \
    {                                                                                                                  \
        begin();                                                                                                       \
        many<width, scales, offset, table, 4>(a, blockIdx.y * 8 * 4 * DOWN, a.n, 0);                                   \
    }
KINDS(MANY)
