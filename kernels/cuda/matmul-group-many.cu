/* SPDX-License-Identifier: MIT */
/* Products of experts with tiles of up to 64 rows, as cuda_some_*. */
#include "kernels/cuda/group.cuh"
#include "kernels/cuda/many.cuh"

#define GROUPED(name, width, scales, offset, table)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads_of_cta<scales, 4>, 2)                                         \
        cuda_tiles64_##name(const __grid_constant__ struct cuda_group a)                                               \
    {                                                                                                                  \
        const struct cuda_tile_rows tile = own_tile(a);                                                                \
        if (tile.n) many<width, scales, offset, table, 4>(a.m, tile.first, tile.first + tile.n, tile.expert);          \
    }
KINDS(GROUPED)
