/* SPDX-License-Identifier: MIT */
/* Latent attention: as cuda_attn_few_*, but V is the first values of K, and all query heads have the same K. A CTA has
 * some heads of a tile; a thread adds the values of two dims for all of them, or for 16, so that it reads them once. */
#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/latent-args.h"

#define ROWS CUDA_LATENT_ROWS

/* What lies in shared memory: the queries are [dim / 4, rounded up][ROWS][4], so that the addresses of all rows differ
 * by constants; all else as in struct steps, of ROWS rows. */
__device__ static inline struct steps latent_steps(const struct cuda_attn &a, const struct cuda_tile &t)
{
    extern __shared__ float4 shared[];
    const uint32_t n = tile_blocks(t);
    struct steps x;
    x.rows = t.n * a.group;
    x.shift = n > 1 ? 32 - __clz(n - 1) : 0;
    x.queries = (float *)shared;
    x.weights = x.queries + (a.dim + 3) / 4 * 4 * ROWS;
    x.tops = x.weights + ROWS * CUDA_SEGMENT;
    x.sums = x.tops + ROWS * BLOCKS;
    x.factors = x.sums + ROWS * BLOCKS;
    return x;
}

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
    const uint32_t rope = a.dim - f.rank;
    for (uint32_t i = threadIdx.x; i < t.n * heads * a.dim; i += blockDim.x) {
        const uint32_t row = i / a.dim, d = i % a.dim, token = t.token + row / heads;
        const uint64_t head = blockIdx.y * a.group + row % heads;
        const float *rest = (t.sinks ? a.q_sinks : a.q) + ((uint64_t)token * a.heads + head) * (f.nope + rope) + f.nope;
        float x = d < f.rank ? f.absorbed[(head * f.apart + token) * f.rank + d] : rest[d - f.rank];
        const float by = f.warmth ? f.warmth[token] : 1.0f;
        if (by != 1.0f) x = x * by;
        queries[(d / 4 * ROWS + row) * 4 + d % 4] = x;
    }
    __syncthreads();
}

/* Dims @d … d + 3 of two keys of a block from @j on. */
template <int type>
__device__ static inline void two_keys(const uint8_t *k, uint32_t dim, uint32_t d, uint32_t j, float2 v[4])
{
    float2 scale = make_float2(1.0f, 1.0f);
    if (type == KV_Q8)
        scale =
            __half22float2(*(const __half2 *)((const uint16_t *)(k + kv_codes(dim)) + d / CUDA_WARP * CUDA_WARP + j));
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t at = (d + i) * CUDA_WARP + j;
        if (type == KV_F32) v[i] = *(const float2 *)((const float *)k + at);
        if (type == KV_F16) v[i] = __half22float2(*(const __half2 *)((const uint16_t *)k + at));
        if (type != KV_Q8) continue;
        const char2 c = *(const char2 *)((const int8_t *)k + at);
        v[i] = make_float2((float)c.x * scale.x, (float)c.y * scale.y);
    }
}

/* The largest of the values of 16 lanes; a NaN is ignored, as in warp_max. */
__device__ static inline float half_max(float x)
{
    int i = order_of(x);
#pragma unroll
    for (int h = 8; h; h /= 2) i = max(i, __shfl_xor_sync(ALL, i, h));
    return of_order(i);
}

/* The scores of R rows from @first on and the blocks @b0 and b0 + 1, if there is such: a lane has two keys of one. */
template <int type, int R>
__device__ static inline void score_two(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                        uint32_t b0, uint32_t first)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, j = lane % 16 * 2;
    const bool exists = t.from + (b0 + lane / 16) * CUDA_WARP < t.to;
    const uint32_t b = exists ? b0 + lane / 16 : b0;
    const uint8_t *k = block_of<false>(a, t, x, b);
    const float *q = x.queries + first * 4;
    float2 s[R] = {};
    uint32_t d = 0;
#pragma unroll 2
    for (; d + 4 <= a.dim; d += 4) {
        float2 v[4];
        two_keys<type>(k, a.dim, d, j, v);
#pragma unroll
        for (uint32_t r = 0; r < R; r++) {
            const float4 y = *(const float4 *)(q + d * ROWS + r * 4);
            s[r].x = fma_(y.w, v[3].x, fma_(y.z, v[2].x, fma_(y.y, v[1].x, fma_(y.x, v[0].x, s[r].x))));
            s[r].y = fma_(y.w, v[3].y, fma_(y.z, v[2].y, fma_(y.y, v[1].y, fma_(y.x, v[0].y, s[r].y))));
        }
    }
    for (; d < a.dim; d++)
#pragma unroll
        for (uint32_t r = 0; r < R; r++) {
            s[r].x = fma_(q[(d / 4 * ROWS + r) * 4 + d % 4], key<type>(k, a.dim, d, j), s[r].x);
            s[r].y = fma_(q[(d / 4 * ROWS + r) * 4 + d % 4], key<type>(k, a.dim, d, j + 1), s[r].y);
        }
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        const uint32_t row = min(first + r, x.rows - 1);
        const bool stored = first + r < x.rows && exists;
        uint32_t lo, hi;
        seen_of<false>(a, t, x, row, b, lo, hi);
        float2 v = make_float2(s[r].x * a.scale, s[r].y * a.scale);
        if (a.cap > 0.0f) v = make_float2(softcap_(v.x, a.cap), softcap_(v.y, a.cap));
        const float one = j >= lo && j < hi ? v.x : NOTHING, two = j + 1 >= lo && j + 1 < hi ? v.y : NOTHING;
        const float top = fmaxf(half_max(one), half_max(two)) + 0.0f;
        if (stored) *(float2 *)(x.weights + row * CUDA_SEGMENT + b * CUDA_WARP + j) = v;
        if (stored && j == 0) x.tops[row * BLOCKS + b] = top;
    }
}

/* Of all rows and blocks, which the warps share. */
template <int type, int R>
__device__ static inline void score_rows(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t twos = (t.to - t.from + 2 * CUDA_WARP - 1) / (2 * CUDA_WARP), n = (x.rows + R - 1) / R * twos;
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < n; i += blockDim.x / CUDA_WARP)
        score_two<type, R>(a, t, x, i % twos * 2, i / twos * R);
}

/* Dim @d of eight keys of a block from @j on. */
template <int type>
__device__ static inline void eight(const uint8_t *k, uint32_t dim, uint32_t d, uint32_t j, float v[8])
{
    if (type == KV_F32) {
        const float4 *f = (const float4 *)((const float *)k + d * CUDA_WARP + j), a = f[0], b = f[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
        return;
    }
    const uint16_t *h = type == KV_F16 ? (const uint16_t *)k + d * CUDA_WARP + j
                                       : (const uint16_t *)(k + kv_codes(dim)) + d / CUDA_WARP * CUDA_WARP + j;
    const uint4 w = *(const uint4 *)h;
    const uint32_t halves[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) v[i] = half_((uint16_t)(halves[i / 2] >> i % 2 * 16));
    if (type != KV_Q8) return;
    const uint2 c = *(const uint2 *)((const int8_t *)k + d * CUDA_WARP + j);
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) v[i] = (float)(int8_t)((i < 4 ? c.x : c.y) >> i % 4 * 8) * v[i];
}

/* o += p v of a block that all rows see whole: of the dims @d and d + 1, and R rows, whose weights are @p. */
template <int type, int R>
__device__ static inline void add_block(const uint8_t *k, uint32_t dim, uint32_t d, const float *p, float2 o[R])
{
#pragma unroll 1
    for (uint32_t j = 0; j < CUDA_WARP; j += 8) {
        float x[8], y[8];
        eight<type>(k, dim, d, j, x);
        eight<type>(k, dim, d + 1, j, y);
#pragma unroll
        for (uint32_t i = 0; i < 8; i += 4)
#pragma unroll
            for (uint32_t r = 0; r < R; r++) {
                const float4 w = *(const float4 *)(p + r * CUDA_SEGMENT + j + i);
                o[r].x = fma_(w.w, x[i + 3], fma_(w.z, x[i + 2], fma_(w.y, x[i + 1], fma_(w.x, x[i], o[r].x))));
                o[r].y = fma_(w.w, y[i + 3], fma_(w.z, y[i + 2], fma_(w.y, y[i + 1], fma_(w.x, y[i], o[r].y))));
            }
    }
}

/* The outputs of the dims @d and d + 1 of R rows from @first on; of rows that do not exist they are of no use. */
template <int type, int R>
__device__ static inline void chain_rows(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                         uint32_t first, uint32_t d, float2 o[R])
{
    for (uint32_t b = 0; t.from + b * CUDA_WARP < t.to; b++) {
        const uint8_t *k = block_of<false>(a, t, x, b);
        const float *p = x.weights + first * CUDA_SEGMENT + b * CUDA_WARP;
        uint32_t lo, hi;
        seen_of<false>(a, t, x, first, b, lo, hi);
        if (t.n == 1 && lo == 0 && hi == CUDA_WARP) { /* all rows are of one token */
#pragma unroll
            for (uint32_t r = 0; r < R; r++) {
                const float c = x.factors[(first + r) * BLOCKS + b]; /* 1 changes nothing */
                o[r].x = o[r].x * c, o[r].y = o[r].y * c;
            }
            add_block<type, R>(k, a.dim, d, p, o);
            continue;
        }
#pragma unroll
        for (uint32_t r = 0; r < R; r++) {
            const uint32_t row = min(first + r, x.rows - 1);
            seen_of<false>(a, t, x, row, b, lo, hi);
            if (lo >= hi) continue;
            const float c = x.factors[row * BLOCKS + b], *w = x.weights + row * CUDA_SEGMENT + b * CUDA_WARP;
            o[r].x = o[r].x * c, o[r].y = o[r].y * c;
            for (uint32_t j = lo; j < hi; j++) {
                o[r].x = fma_(w[j], key<type>(k, a.dim, d, j), o[r].x);
                o[r].y = fma_(w[j], key<type>(k, a.dim, d + 1, j), o[r].y);
            }
        }
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
    const float2 ends = ends_of<false>(a, t, x, r);
    if (to != UINT64_MAX) a.m[to] = ends.x, a.l[to] = ends.y;
}

/* The outputs of all rows. */
template <int type, int R>
__device__ static inline void chains(const struct cuda_attn_latent &f, const struct cuda_attn &a,
                                     const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t pairs = f.rank / 2, n = (x.rows + R - 1) / R * pairs;
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        const uint32_t first = i / pairs * R, d = i % pairs * 2;
        float2 o[R] = {};
        chain_rows<type, R>(a, t, x, first, d, o);
#pragma unroll
        for (uint32_t r = 0; r < R; r++) {
            const uint64_t to = place_of(f.a, t, x, a.group, first + r);
            if (to != UINT64_MAX) *(float2 *)(a.o + to * f.rank + d) = o[r];
        }
    }
}

template <int type> __device__ static inline void attention(const struct cuda_attn_latent &f)
{
    const struct cuda_tile t = f.a.tiles[blockIdx.x];
    struct cuda_attn a = f.a;
    a.group = heads_of(f.a); /* of the CTA's rows */
    a.width = CUDA_SEGMENT;
    const struct steps x = latent_steps(a, t);
    if (!x.rows) return;
    load_latent(f, t, a.group, x.queries);
    if (x.rows > 8 && blockDim.x <= BLOCKS * CUDA_WARP / 2)
        score_rows<type, 16>(a, t, x);
    else if (x.rows > 4)
        score_rows<type, 8>(a, t, x);
    else
        score_rows<type, 4>(a, t, x);
    __syncthreads();
    weigh<false, 4>(a, t, x);
    __syncthreads();
    for (uint32_t r = threadIdx.x; r < x.rows; r += blockDim.x) end_row(a, t, x, r, place_of(f.a, t, x, a.group, r));
    if (x.rows > 8)
        chains<type, 16>(f, a, t, x);
    else if (x.rows > 4)
        chains<type, 8>(f, a, t, x);
    else
        chains<type, 4>(f, a, t, x);
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
