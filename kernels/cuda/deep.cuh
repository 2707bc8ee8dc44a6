/* SPDX-License-Identifier: MIT */
#pragma once
/* Attention of long contexts (attn-deep.cu): what lies in shared memory, and the warp that fetches K and V. */
#include "kernels/cuda/alone.cuh"
#include "kernels/cuda/deep-args.h"

#define PIECES (2 * BLOCKS) /* of a tile, at most */

/* A piece has arrived; one of K, or of V, has been read. */
__shared__ static uint64_t full[PIECES], empty[BLOCKS], empty_v[BLOCKS];

/* The numbers of a tile: blocks, quads of these, and pieces of K and of all. */
struct count {
    uint32_t blocks, quads, keys, all;
};

/* What lies in shared memory, for @R rows. */
struct deep {
    uint32_t slots;
    uint8_t *ring;                /* [slots][CUDA_DEEP_SLOT] */
    float *weights;               /* [quads][R][CUDA_DEEP_KEYS]; before that [R][dim] queries */
    float *queries;               /* [dim][R] */
    float *key, *value;           /* [dim] of the token */
    float *tops, *sums, *factors; /* [BLOCKS][R] */
    float *ends;                  /* [CUDA_DEEP_ENDS] largest scores of rows */
    float *cs;
};

template <int dim, int R> __device__ static inline struct deep deep_of(uint32_t slots)
{
    extern __shared__ __align__(CUDA_COPY_TO) float4 shared[];
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
    static constexpr uint32_t parts = dim / CUDA_DEEP_DIMS;                     /* of K of a block */
    static constexpr uint32_t bytes = dim * CUDA_WARP * 2;                      /* of V of a block */
    static constexpr uint32_t blocks = CUDA_DEEP_QUAD * CUDA_DEEP_PART / bytes; /* of V in a piece */
};

template <int dim> __device__ static inline struct count count_of(const struct cuda_tile &t)
{
    struct count n;
    n.blocks = tile_blocks(t);
    n.quads = (n.blocks + CUDA_DEEP_QUAD - 1) / CUDA_DEEP_QUAD;
    n.keys = n.quads * layout<dim>::parts;
    n.all = n.keys + (n.blocks + layout<dim>::blocks - 1) / layout<dim>::blocks;
    return n;
}

/* Rows and dims of a thread's chains; so many threads have some. Measured, H200. */
template <int dim, int R, bool FEW>
constexpr int own_rows = !FEW || (dim == 128 && R == 8) ? 4
                         : dim == 64 && R == 2          ? 1
                                                        : 2;
template <int dim, int R, bool FEW> constexpr int own_dims = R == 2 || (R == 4 && FEW == (dim == 64)) ? 1 : 2;
template <int dim, int R, bool FEW>
constexpr uint32_t chains = dim / own_dims<dim, R, FEW> *(R / own_rows<dim, R, FEW>);

/* Rows of a warp's scores: where there are 8 warps and rows, two warps share a quad. */
template <int R, bool FEW> constexpr int score_rows = R == 8 && FEW ? 4 : R;

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

/* Fetch @bytes of each of the blocks from @b on, up to @most and as far as there are some, from byte @skip on, to
 * places that are @apart, when the slot is free. @block: the lane's KV block. */
__device__ static inline void fetch_piece(const struct deep &x, const struct count &n, struct next &next,
                                          uint64_t block, uint32_t b, uint32_t most, uint32_t skip, uint32_t bytes,
                                          uint32_t apart)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, some = min(n.blocks - b, most);
    const uint64_t from = __shfl_sync(ALL, block, b + lane % CUDA_DEEP_QUAD);
    if (next.i >= x.slots) {
        const uint32_t before = next.i - x.slots;
        bar_wait(before < n.keys ? &empty[before] : &empty_v[before - n.keys], 0);
    }
    if (lane == 0) bar_expect(&full[next.i], some * bytes);
    __syncwarp();
    if (lane < some)
        bulk_copy_once(x.ring + next.slot * CUDA_DEEP_SLOT + lane * apart, (const uint8_t *)from + skip, bytes,
                       &full[next.i]);
    next.i++;
    if (++next.slot == x.slots) next.slot = 0;
}

/* Before anything else: a thread of each warp some of the barriers. */
template <int dim, int R, bool FEW> __device__ static inline void init_bars()
{
    constexpr uint32_t W = CUDA_DEEP_WARPS(FEW), readers = R / score_rows<R, FEW>;
    if (threadIdx.x % CUDA_WARP) return;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < PIECES; i += W + 1) {
        bar_init(&full[i], 1);
        if (i < BLOCKS) bar_init(&empty[i], readers), bar_init(&empty_v[i], chains<dim, R, FEW> / CUDA_WARP);
    }
    bar_fence();
}

/* Fetch all pieces: those of K of all quads, part by part; then V. */
template <int dim>
__device__ static inline void fetch_all(const struct cuda_attn &a, const struct cuda_tile &t, const struct deep &x,
                                        const struct count &n, uint32_t head)
{
    using L = layout<dim>;
    const uint32_t at = min(threadIdx.x % CUDA_WARP, n.blocks - 1);
    const uint64_t block = (uint64_t)kv_block(a.kv, a.table[t.table + t.from / CUDA_WARP + at], head);
    struct next next = {};
#pragma unroll 1
    for (uint32_t c = 0; c < L::parts; c++)
#pragma unroll 1
        for (uint32_t b = 0; b < n.blocks; b += CUDA_DEEP_QUAD)
            fetch_piece(x, n, next, block, b, CUDA_DEEP_QUAD, c * CUDA_DEEP_PART, CUDA_DEEP_PART, CUDA_DEEP_SHIFT);
#pragma unroll 1
    for (uint32_t b = 0; b < n.blocks; b += L::blocks)
        fetch_piece(x, n, next, block, b, L::blocks, a.kv.half, L::bytes, L::bytes);
    wait_before(); /* for the merge */
}
