/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Attention of tiles with few queries. A CTA computes the queries of a tile that share a KV head, in three steps: the
 * scores of each block of keys; their weights; then the chains of the output over all keys, a thread for each query and
 * dim. Warps: up to 16. Shared memory: few_floats() of daemon/backend/cuda/attention.c.
 */
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/heads.cuh"

#define BLOCKS (CUDA_SEGMENT / CUDA_WARP) /* most warps, and most blocks of a tile */

/* What the steps leave for each other, in shared memory. */
struct steps {
    float *queries;       /* [rows][dim rounded up to 4] */
    float *weights;       /* [rows][a.width] scores, then exp(score - m) */
    float *tops;          /* [rows][BLOCKS] largest score of a block; -infinity: the query sees none of it */
    float *sums;          /* [rows][BLOCKS] of the weights */
    float *factors;       /* [rows][BLOCKS] of what the blocks before gave, where a block has a larger score */
    float *own;           /* [2][dim rounded up to 4] K and V of the token, in cuda_decode_* */
    uint32_t rows, shift; /* shift: 2^shift are at least the tile's blocks */
    /* of cuda_near_* and cuda_apart_*: */
    uint8_t *near; /* [blocks of the tile][step] copies of the KV blocks; V of a block begins at @values */
    uint32_t step, values;
    uint32_t begin, end, first; /* visible positions of all rows; the tile's first */
    float2 *ends;               /* [BLOCKS] maximum and sum of a row */
};

/* What a query gets of a part: one dim. */
struct result {
    float m, l, o;
};

/* Visible keys [lo, hi) of block @b for a row. */
template <bool NEAR>
__device__ static inline void seen_of(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                      uint32_t row, uint32_t b, uint32_t &lo, uint32_t &hi)
{
    uint32_t begin = x.begin, end = x.end;
    if (!NEAR) {
        const struct cuda_seen &s = a.seen[t.token + row / a.group];
        begin = begin_of(t, s);
        end = end_of(t, s);
    }
    visible(begin, end, t.from + b * CUDA_WARP, lo, hi);
}

/* Number @i of the pairs of a row, or some rows, and a block. False: there is no such block. */
__device__ static inline bool pair_of(const struct cuda_tile &t, const struct steps &x, uint32_t i, uint32_t &row,
                                      uint32_t &b)
{
    row = i >> x.shift, b = i & ((1u << x.shift) - 1u);
    return t.from + b * CUDA_WARP < t.to;
}

/* K of block @b of the tile. */
template <bool NEAR>
__device__ static inline const uint8_t *block_of(const struct cuda_attn &a, const struct cuda_tile &t,
                                                 const struct steps &x, uint32_t b)
{
    if (NEAR) return x.near + b * x.step;
    return kv_block(a.kv, a.table[t.table + t.from / CUDA_WARP + b], blockIdx.y);
}

/* Scores of @ROWS rows from @first on and block @b. */
template <int type, bool NEAR, int ROWS>
__device__ static inline void score(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                    uint32_t b, uint32_t first)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, wide = (a.dim + 3) / 4 * 4;
    const float *q[ROWS];
    float s[ROWS];
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) q[r] = x.queries + min(first + r, x.rows - 1) * wide;
    scores<type, ROWS>(q, a.dim, block_of<NEAR>(a, t, x, b), s);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t lo, hi;
        if (first + r >= x.rows) continue;
        seen_of<NEAR>(a, t, x, first + r, b, lo, hi);
        float v = s[r] * a.scale;
        if (a.cap > 0.0f) v = softcap_(v, a.cap);
        x.weights[(first + r) * a.width + b * CUDA_WARP + lane] = v;
        const float top = warp_max(lane >= lo && lane < hi ? v : NOTHING) + 0.0f;
        if (lane == 0) x.tops[(first + r) * BLOCKS + b] = top;
    }
}

/* Of all rows and blocks, which the warps share. @copies: with NEAR, a barrier for each block. */
template <int type, bool NEAR, int ROWS>
__device__ static inline void score_all(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                        uint64_t *copies)
{
    const uint32_t n = (x.rows + ROWS - 1) / ROWS << x.shift;
    for (uint32_t i = threadIdx.x / CUDA_WARP, row, b; i < n; i += blockDim.x / CUDA_WARP) {
        if (!pair_of(t, x, i, row, b)) continue;
        if (NEAR) bar_wait(&copies[b], 0);
        score<type, NEAR, ROWS>(a, t, x, b, row * ROWS);
    }
}

/* The weights of a row and block, with the largest score up to the block's end, if @valid: without a branch. */
template <bool NEAR>
__device__ static inline void weigh_block(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                          uint32_t r, uint32_t b, bool valid)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    uint32_t lo, hi;
    seen_of<NEAR>(a, t, x, r, b, lo, hi);
    const float before = warp_max(lane < b ? x.tops[r * BLOCKS + lane] : NOTHING), top = x.tops[r * BLOCKS + b];
    const float m = fmaxf(before, top);
    float *w = &x.weights[r * a.width + b * CUDA_WARP + lane];
    const float score = valid ? *w : 0.0f; /* else another warp may be about to change it */
    const float p = lane >= lo && lane < hi ? exp_(score - m) : 0.0f, sum = fold<32>(p);
    const float c = before != NOTHING && top > before ? exp_(before - top) : 1.0f;
    if (valid) *w = p;
    if (valid && lane == 0) x.sums[r * BLOCKS + b] = sum, x.factors[r * BLOCKS + b] = c;
}

/* Of all rows and blocks, which the warps share; @SOME at once. */
template <bool NEAR, uint32_t SOME>
__device__ static inline void weigh(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t n = x.rows << x.shift, warps = blockDim.x / CUDA_WARP;
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < n; i += SOME * warps) {
        uint32_t row[SOME], b[SOME];
        bool valid[SOME];
#pragma unroll
        for (uint32_t k = 0; k < SOME; k++) {
            valid[k] = pair_of(t, x, i + k * warps, row[k], b[k]) && row[k] < x.rows;
            row[k] = min(row[k], x.rows - 1);
        }
#pragma unroll
        for (uint32_t k = 0; k < SOME; k++) weigh_block<NEAR>(a, t, x, row[k], b[k], valid[k]);
    }
}

/* The chain of dim @d of row @r over the keys [lo, hi) of a block. */
template <int type>
__device__ static inline float add_values(const uint8_t *v, const float *p, uint32_t dim, uint32_t d, uint32_t lo,
                                          uint32_t hi, float o)
{
    if (lo == 0 && hi == CUDA_WARP) {
        float e[CUDA_WARP];
#pragma unroll
        for (uint32_t j = 0; j < CUDA_WARP; j++) e[j] = value<type>(v, dim, d, j);
#pragma unroll
        for (uint32_t j = 0; j < CUDA_WARP; j++) o = fma_(p[j], e[j], o);
        return o;
    }
    for (uint32_t j = lo; j < hi; j++) o = fma_(p[j], value<type>(v, dim, d, j), o);
    return o;
}

/* Output, maximum and sum of dim @d of row @r. */
template <int type>
__device__ static inline struct result chain(const struct cuda_attn &a, const struct cuda_tile &t,
                                             const struct steps &x, uint32_t r, uint32_t d)
{
    float m = NOTHING, l = 0.0f, o = 0.0f;
    for (uint32_t b = 0; t.from + b * CUDA_WARP < t.to; b++) {
        const float top = x.tops[r * BLOCKS + b], c = x.factors[r * BLOCKS + b];
        uint32_t lo, hi;
        seen_of<false>(a, t, x, r, b, lo, hi);
        if (lo >= hi) continue;
        m = m == NOTHING || top > m ? top : m;
        l = l * c, o = o * c; /* 1 changes nothing */
        const uint8_t *v = block_of<false>(a, t, x, b) + a.kv.half;
        o = add_values<type>(v, x.weights + r * a.width + b * CUDA_WARP, a.dim, d, lo, hi, o);
        l = l + x.sums[r * BLOCKS + b];
    }
    return {m, l, o};
}

/* Maximum and sum of row @r. */
template <bool NEAR>
__device__ static inline float2 ends_of(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                        uint32_t r)
{
    float m = NOTHING, l = 0.0f;
    for (uint32_t b = 0; t.from + b * CUDA_WARP < t.to; b++) {
        uint32_t lo, hi;
        seen_of<NEAR>(a, t, x, r, b, lo, hi);
        if (lo >= hi) continue;
        const float top = x.tops[r * BLOCKS + b];
        m = m == NOTHING || top > m ? top : m;
        l = l * x.factors[r * BLOCKS + b] + x.sums[r * BLOCKS + b];
    }
    return make_float2(m, l);
}

/* Leave the part of dim @d of row @r for the merge. */
__device__ static inline void leave(const struct cuda_attn &a, const struct cuda_tile &t, uint32_t r, uint32_t d,
                                    const struct result &x)
{
    const struct cuda_seen &seen = a.seen[t.token + r / a.group];
    if (t.part >= seen.parts) return;
    const uint64_t row = (uint64_t)(seen.row + t.part) * a.heads + blockIdx.y * a.group + r % a.group;
    a.o[row * a.dim + d] = x.o;
    if (d == 0) a.m[row] = x.m, a.l[row] = x.l;
}

__device__ static inline struct steps steps_of(const struct cuda_attn &a, const struct cuda_tile &t)
{
    extern __shared__ __align__(CUDA_COPY_TO) float4 shared[];
    const uint32_t wide = (a.dim + 3) / 4 * 4, rows = t.n * a.group, n = tile_blocks(t);
    struct steps x;
    x.rows = rows;
    x.shift = n > 1 ? 32 - __clz(n - 1) : 0;
    x.queries = (float *)shared;
    x.own = x.queries + rows * wide;
    x.weights = x.own + 2 * wide;
    x.tops = x.weights + rows * a.width;
    x.sums = x.tops + rows * BLOCKS;
    x.factors = x.sums + rows * BLOCKS;
    return x;
}

/* The first two steps over blocks in memory; a warp computes eight queries at once, and weighs four blocks. */
template <int type>
__device__ static inline void weights(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    score_all<type, false, 8>(a, t, x, NULL);
    __syncthreads();
    weigh<false, 4>(a, t, x);
    __syncthreads();
}

/* The running result of a merge. */
struct merged {
    float m, l;
    bool any;
};

/* Add a part with l > 0 to the lane's @n dims @o; the part's are @more. */
__device__ static inline void join(struct merged &x, float *o, const float *more, uint32_t n, float m, float l)
{
    if (!x.any) {
        x = {m, l, true};
        for (uint32_t i = 0; i < n; i++) o[i] = more[i];
        return;
    }
    const float top = m > x.m ? m : x.m, a = exp_(x.m - top), b = exp_(m - top);
    x.m = top;
    x.l = fma_(l, b, x.l * a);
    for (uint32_t i = 0; i < n; i++) o[i] = fma_(more[i], b, o[i] * a);
}
