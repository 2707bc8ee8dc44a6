/* SPDX-License-Identifier: MIT */
/* Products of experts with tiles of up to 8 rows, as cuda_few_*, and for float types of up to 16, as cuda_float_*. */
#include "kernels/cuda/few.cuh"
#include "kernels/cuda/float.cuh"
#include "kernels/cuda/group.cuh"

#define GROUPED(name, width, scales, offset, table)                                                                    \
    extern "C" __global__ void __launch_bounds__(512) cuda_tiles8_##name(const __grid_constant__ struct cuda_group a)  \
    {                                                                                                                  \
        const struct cuda_tile_rows tile = own_tile(a);                                                                \
        if (!tile.n) return;                                                                                           \
        const struct cuda_matrix &m = a.m.of[product_of(a.m, blockIdx.x)];                                             \
        const uint32_t panel = blockIdx.x - m.panel0;                                                                  \
        const uint8_t *at = m.panels + (stack_of(m) * tile.expert + panel) * m.panel_bytes;                            \
        few<width, scales, offset, table, 1>(a.m, m, {at, tile.first, tile.n}, panel);                                 \
    }
KINDS(GROUPED)

#define GROUPED_FLOATS(type)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        cuda_tiles16_##type(const __grid_constant__ struct cuda_group a)                                               \
    {                                                                                                                  \
        const struct cuda_tile_rows tile = own_tile(a);                                                                \
        if (tile.n) product<type>(a.m, tile.first, tile.first + tile.n, tile.expert);                                  \
    }
GROUPED_FLOATS(f32)
GROUPED_FLOATS(f16)
GROUPED_FLOATS(bf16)
