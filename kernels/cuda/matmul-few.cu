/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with few tokens. A CTA computes one panel for N * 8 tokens: its warps share the columns
 * and leave the exact sums of each block in shared memory; then a thread of each output adds them in their order. N is
 * 1 (cuda_few_*) or 2 (cuda_several_*). Grid: (panels, tokens / 8 N), rounded up; at least 128 N threads; shared
 * memory: few_bytes() of daemon/backend/cuda/products.c for each block of a chunk.
 */
#include "kernels/cuda/few.cuh"

/* Bring the CTA's panel into the L2 cache. Weights do not depend on the kernel before. */
__device__ static inline void prefetch(const struct cuda_matmul &a)
{
    const struct cuda_matrix &m = a.of[product_of(a, blockIdx.x)];
    const uint8_t *panel = m.panels + (uint64_t)(blockIdx.x - m.panel0) * m.panel_bytes;
    for (uint32_t i = threadIdx.x * 128; blockIdx.y == 0 && i < m.panel_bytes; i += blockDim.x * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(panel + i));
}

#define FEW(kernel, name, width, scales, offset, table, eights)                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                                                  \
        cuda_##kernel##_##name(const __grid_constant__ struct cuda_matmul a)                                           \
    {                                                                                                                  \
        start_next();                                                                                                  \
        prefetch(a);                                                                                                   \
        const struct cuda_matrix &m = a.of[product_of(a, blockIdx.x)];                                                 \
        const uint32_t panel = blockIdx.x - m.panel0, first = blockIdx.y * eights * 8;                                 \
        const struct job j = {m.panels + (uint64_t)panel * m.panel_bytes, first, min(a.n - first, eights * 8)};        \
        few<width, scales, offset, table, eights>(a, m, j, panel);                                                     \
    }
#define BOTH(name, width, scales, offset, table)                                                                       \
    FEW(few, name, width, scales, offset, table, 1)                                                                    \
    FEW(several, name, width, scales, offset, table, 2)
KINDS(BOTH)
