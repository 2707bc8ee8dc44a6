/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Products of experts: the rows of a tile (struct cuda_tile_rows) with the tile's matrix of each stack. The grid's x is
 * that of the kernel for one matrix, and each y has a tile. Tiles without rows do nothing.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/expert-args.h"
#include "kernels/cuda/stack.cuh"

/* The tile of the CTA, which kernels before may have written. */
__device__ static inline struct cuda_tile_rows own_tile(const struct cuda_group &a)
{
    begin();
    if (a.tiles) return a.tiles[blockIdx.y];
    const uint32_t each = (a.m.n + a.most - 1) / a.most, e = blockIdx.y / each, at = blockIdx.y % each * a.most;
    return {e, e * a.apart + at, min(a.m.n - at, a.most)};
}
