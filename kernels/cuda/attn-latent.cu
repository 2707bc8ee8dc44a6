/* SPDX-License-Identifier: MIT */
/* Latent attention: as cuda_attn_few_*, but V is the first values of K, and all query heads have the same K. A CTA has
 * some heads of a tile; a thread adds the values of one dim for ROWS queries, for which it reads them once. */
#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/latent-args.h"

#define ROWS 8

/* Heads of the CTA. */
__device__ static inline uint32_t heads_of(const struct cuda_attn &a)
{
    return min((uint32_t)a.group, a.heads - blockIdx.y * a.group);
}

/* The queries of the tile, in shared memory: absorbed values, then rotated ones. @heads: of the CTA. */
__device__ static inline void load_latent(const struct cuda_attn_latent &f, const struct cuda_tile &t, uint32_t heads,
                                          float *queries)
{
    const struct cuda_attn &a = f.a;
    const uint32_t wide = (a.dim + 3) / 4 * 4, rope = a.dim - f.rank;
    for (uint32_t i = threadIdx.x; i < t.n * heads * a.dim; i += blockDim.x) {
        const uint32_t row = i / a.dim, d = i % a.dim, token = t.token + row / heads;
        const uint64_t head = blockIdx.y * a.group + row % heads;
        const float *rest = (t.sinks ? a.q_sinks : a.q) + ((uint64_t)token * a.heads + head) * (f.nope + rope) + f.nope;
        float x = d < f.rank ? f.absorbed[(head * f.apart + token) * f.rank + d] : rest[d - f.rank];
        const float by = f.warmth ? f.warmth[token] : 1.0f;
        if (by != 1.0f) x = x * by;
        queries[row * wide + d] = x;
    }
    __syncthreads();
}

/* Dim @d of the keys @j … j + 3 of a block. */
template <int type> __device__ static inline float4 four(const uint8_t *k, uint32_t dim, uint32_t d, uint32_t j)
{
    if (type == KV_F32) return *(const float4 *)((const float *)k + d * CUDA_WARP + j);
    if (type == KV_F16) {
        const ushort4 h = *(const ushort4 *)((const uint16_t *)k + d * CUDA_WARP + j);
        return make_float4(half_(h.x), half_(h.y), half_(h.z), half_(h.w));
    }
    const char4 c = *(const char4 *)((const int8_t *)k + d * CUDA_WARP + j);
    const ushort4 s = *(const ushort4 *)((const uint16_t *)(k + kv_codes(dim)) + d / CUDA_WARP * CUDA_WARP + j);
    return make_float4((float)c.x * half_(s.x), (float)c.y * half_(s.y), (float)c.z * half_(s.z),
                       (float)c.w * half_(s.w));
}

/* o += p v of a block that all rows see whole; the weights @p of the rows are @width apart. */
template <int type>
__device__ static inline void add_block(const uint8_t *k, uint32_t dim, uint32_t d, const float *const p[ROWS],
                                        float o[ROWS])
{
#pragma unroll
    for (uint32_t j = 0; j < CUDA_WARP; j += 4) {
        const float4 v = four<type>(k, dim, d, j);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            const float4 w = *(const float4 *)(p[r] + j);
            o[r] = fma_(w.w, v.w, fma_(w.z, v.z, fma_(w.y, v.y, fma_(w.x, v.x, o[r]))));
        }
    }
}

/* The outputs of dim @d of the rows from @first on; those behind the last are the last again. */
template <int type>
__device__ static inline void chain_rows(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                         uint32_t first, uint32_t d, float o[ROWS])
{
    for (uint32_t b = 0; t.from + b * CUDA_WARP < t.to; b++) {
        const uint8_t *k = block_of<false>(a, t, x, b);
        const float *p[ROWS];
        uint32_t lo[ROWS], hi[ROWS];
        bool all = true;
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t row = min(first + r, x.rows - 1);
            seen_of<false>(a, t, x, row, b, lo[r], hi[r]);
            all &= lo[r] == 0 && hi[r] == CUDA_WARP;
            p[r] = x.weights + row * a.width + b * CUDA_WARP;
            if (lo[r] < hi[r]) o[r] = o[r] * x.factors[row * BLOCKS + b]; /* 1 changes nothing */
        }
        if (all) {
            add_block<type>(k, a.dim, d, p, o);
            continue;
        }
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t j = lo[r]; j < hi[r]; j++) o[r] = fma_(p[r][j], key<type>(k, a.dim, d, j), o[r]);
    }
}

/* Where the part of row @r of the CTA's, which has @heads heads, lies in m and l. UINT64_MAX: there is no such part. */
__device__ static inline uint64_t place_of(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                           uint32_t heads, uint32_t r)
{
    const struct cuda_seen &seen = a.seen[t.token + min(r, x.rows - 1) / heads];
    if (r >= x.rows || t.part >= seen.parts) return UINT64_MAX;
    return (uint64_t)(seen.row + t.part) * a.heads + blockIdx.y * a.group + r % heads;
}

/* Leave maximum and sum of row @r in place @to. */
__device__ static inline void end_row(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                      uint32_t r, uint64_t to)
{
    float m = NOTHING, l = 0.0f;
    for (uint32_t b = 0; t.from + b * CUDA_WARP < t.to; b++) {
        uint32_t lo, hi;
        seen_of<false>(a, t, x, r, b, lo, hi);
        if (lo >= hi) continue;
        const float top = x.tops[r * BLOCKS + b];
        m = m == NOTHING || top > m ? top : m;
        l = l * x.factors[r * BLOCKS + b] + x.sums[r * BLOCKS + b];
    }
    if (to != UINT64_MAX) a.m[to] = m, a.l[to] = l;
}

template <int type> __device__ static inline void attention(const struct cuda_attn_latent &f)
{
    const struct cuda_tile t = f.a.tiles[blockIdx.x];
    const uint32_t heads = heads_of(f.a);
    struct cuda_attn a = f.a;
    a.group = heads; /* of the CTA's rows */
    const struct steps x = steps_of(a, t);
    if (!x.rows) return;
    load_latent(f, t, heads, x.queries);
    weights<type, false, ROWS>(a, t, x);
    for (uint32_t r = threadIdx.x; r < x.rows; r += blockDim.x) end_row(a, t, x, r, place_of(f.a, t, x, heads, r));
    for (uint32_t i = threadIdx.x; i < (x.rows + ROWS - 1) / ROWS * f.rank; i += blockDim.x) {
        const uint32_t first = i / f.rank * ROWS, d = i % f.rank;
        float o[ROWS] = {};
        chain_rows<type>(a, t, x, first, d, o);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint64_t to = place_of(f.a, t, x, heads, first + r);
            if (to != UINT64_MAX) a.o[to * f.rank + d] = o[r];
        }
    }
}

#define ATTENTION(name, type)                                                                                          \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP)                                                    \
        cuda_attn_latent_##name(const __grid_constant__ struct cuda_attn_latent a)                                     \
    {                                                                                                                  \
        begin();                                                                                                       \
        attention<type>(a);                                                                                            \
    }
ATTENTION(f32, KV_F32)
ATTENTION(f16, KV_F16)
ATTENTION(q8, KV_Q8)
