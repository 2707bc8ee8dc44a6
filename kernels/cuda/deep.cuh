/* SPDX-License-Identifier: MIT */
#pragma once
/* Attention of long contexts (attn-deep.cu): what lies in shared memory, and the warp that fetches K and V. */
#include "kernels/cuda/alone.cuh"
#include "kernels/cuda/deep-args.h"

#define PIECES (2 * BLOCKS) /* of a tile, at most */

/* A piece is there; one of K, or of V, has been read. */
__shared__ static uint64_t full[PIECES], empty[BLOCKS], empty_v[BLOCKS];

/* The numbers of a tile: blocks, pairs of these, and pieces of K and of all. */
struct count {
    uint32_t blocks, pairs, keys, all;
};

/* What lies in shared memory, for @R rows. */
struct deep {
    uint32_t slots;
    uint8_t *ring;                /* [slots][CUDA_DEEP_SLOT] */
    float *weights;               /* [keys][R]; before that [R][dim] queries */
    float *queries;               /* [dim][R] */
    float *key, *value;           /* [dim] of the token */
    float *tops, *sums, *factors; /* [BLOCKS][R] */
    float *ends;                  /* [CUDA_DEEP_ENDS] largest scores of rows */
    float *cs;
};

template <int dim, int R> __device__ static inline struct deep deep_of(uint32_t slots)
{
    extern __shared__ float4 shared[];
    struct deep x;
    x.ring = (uint8_t *)shared;
    x.slots = slots;
    x.weights = (float *)(x.ring + slots * CUDA_DEEP_SLOT);
    x.queries = x.weights + R * CUDA_SEGMENT;
    x.key = x.queries + R * dim;
    x.value = x.key + dim;
    x.tops = x.value + dim;
    x.sums = x.tops + R * BLOCKS;
    x.factors = x.sums + R * BLOCKS;
    x.ends = x.factors + R * BLOCKS;
    x.cs = x.ends + CUDA_DEEP_ENDS;
    return x;
}

template <int dim> struct layout {
    static constexpr uint32_t parts = dim / CUDA_DEEP_DIMS; /* of K of a block */
    static constexpr uint32_t blocks = 2 / parts;           /* of V in a piece */
    static constexpr uint32_t bytes = dim * CUDA_WARP * 2;  /* of V of a block */
    static constexpr uint32_t shift = CUDA_DEEP_HALF + 64;  /* of the second block of K: other banks than the first */
};

template <int dim> __device__ static inline struct count count_of(const struct cuda_tile &t)
{
    struct count n;
    n.blocks = tile_blocks(t);
    n.pairs = (n.blocks + 1) / 2;
    n.keys = n.pairs * layout<dim>::parts;
    n.all = n.keys + (n.blocks + layout<dim>::blocks - 1) / layout<dim>::blocks;
    return n;
}

/* Rows and dims of a thread's chains; so many threads have some. Measured, H200. */
template <int dim, int R, bool FEW> constexpr int own_rows = R < 4 || (FEW && dim == 64) ? 2 : 4;
template <int dim, int R, bool FEW> constexpr int own_dims = R < 4 || (R == 4 && (FEW || dim == 128)) ? 1 : 2;
template <int dim, int R, bool FEW>
constexpr uint32_t chains = dim / own_dims<dim, R, FEW> *(R / own_rows<dim, R, FEW>);

/* All computing warps have come so far. */
template <int W> __device__ static inline void meet()
{
    cta_wait(1, W * CUDA_WARP);
}

/* --- the warp that fetches --- */

/* The piece that comes next, and its slot. */
struct next {
    uint32_t i, slot;
};

/* Fetch @bytes of each of the blocks @b and, if @two, b + 1, from byte @skip on, to places that are @apart, when the
 * slot is free. @block: the lane's KV block. */
__device__ static inline void fetch_piece(const struct deep &x, const struct count &n, struct next &next,
                                          uint64_t block, uint32_t b, bool two, uint32_t skip, uint32_t bytes,
                                          uint32_t apart)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    const uint64_t from = __shfl_sync(ALL, block, b + lane % 2);
    if (next.i >= x.slots) {
        const uint32_t before = next.i - x.slots;
        bar_wait(before < n.keys ? &empty[before] : &empty_v[before - n.keys], 0);
    }
    if (lane == 0) bar_expect(&full[next.i], two ? 2 * bytes : bytes);
    __syncwarp();
    if (lane < 1 + two)
        bulk_copy(x.ring + next.slot * CUDA_DEEP_SLOT + lane * apart, (const uint8_t *)from + skip, bytes,
                  &full[next.i]);
    next.i++;
    if (++next.slot == x.slots) next.slot = 0;
}

/* Before anything else: a thread of each warp some of the barriers. */
template <int dim, int R, bool FEW> __device__ static inline void init_bars()
{
    constexpr uint32_t W = CUDA_DEEP_WARPS(FEW);
    if (threadIdx.x % CUDA_WARP) return;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < PIECES; i += W + 1) {
        bar_init(&full[i], 1);
        if (i < BLOCKS) bar_init(&empty[i], 1), bar_init(&empty_v[i], chains<dim, R, FEW> / CUDA_WARP);
    }
    bar_fence();
}

/* Fetch all pieces: those of K of as many pairs as there are warps, part by part, then the next ones; then V. */
template <int dim, int W>
__device__ static inline void fetch_all(const struct cuda_attn &a, const struct cuda_tile &t, const struct deep &x,
                                        const struct count &n, uint32_t head)
{
    using L = layout<dim>;
    const uint32_t at = min(threadIdx.x % CUDA_WARP, n.blocks - 1);
    const uint64_t block = (uint64_t)kv_block(a.kv, a.table[t.table + t.from / CUDA_WARP + at], head);
    struct next next = {};
    for (uint32_t from = 0; from < n.blocks; from += 2 * W)
        for (uint32_t c = 0; c < L::parts; c++)
#pragma unroll 1
            for (uint32_t b = from; b < min(from + 2 * W, n.blocks); b += 2)
                fetch_piece(x, n, next, block, b, b + 1 < n.blocks, c * CUDA_DEEP_HALF, CUDA_DEEP_HALF, L::shift);
#pragma unroll 1
    for (uint32_t b = 0; b < n.blocks; b += L::blocks)
        fetch_piece(x, n, next, block, b, L::blocks == 2 && b + 1 < n.blocks, a.kv.half, L::bytes, L::bytes);
    wait_before(); /* for the merge */
}
