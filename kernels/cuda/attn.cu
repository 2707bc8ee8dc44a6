/* SPDX-License-Identifier: MIT */
/*
 * Attention of tiles with many queries. A CTA computes the queries of a tile that share a KV head; a warp has ROWS of
 * them at a time. A lane is a key while scores are computed, then dims of the output.
 */
#include "kernels/cuda/kv.cuh"

/* The rows of a warp: query heads of tokens. DIMS: dims of a lane, number i is lane + 32 i. */
template <int ROWS, int DIMS> struct rows {
    const float *q[ROWS];            /* [dim] in shared memory */
    uint32_t begin[ROWS], end[ROWS]; /* visible positions */
    float m[ROWS], l[ROWS], o[ROWS][DIMS];
};

/* The softmax of one block of row @r; returns the lane's p. */
template <int ROWS, int DIMS>
__device__ static inline float weigh(const struct cuda_attn &a, struct rows<ROWS, DIMS> &x, int r, float s, bool seen)
{
    s = s * a.scale;
    if (a.cap > 0.0f) s = softcap_(s, a.cap);
    const float top = warp_max(seen ? s : NOTHING) + 0.0f;
    if (x.m[r] == NOTHING) {
        x.m[r] = top;
    } else if (top > x.m[r]) {
        const float c = exp_(x.m[r] - top);
        x.m[r] = top;
        x.l[r] = x.l[r] * c;
#pragma unroll
        for (int i = 0; i < DIMS; i++) x.o[r][i] = x.o[r][i] * c;
    }
    const float p = seen ? exp_(s - x.m[r]) : 0.0f;
    x.l[r] = x.l[r] + fold<32>(p);
    return p;
}

/* o += p v, keys ascending. @p: [ROWS][32] of the warp. @all: all rows see all keys. */
template <int type, int ROWS, int DIMS>
__device__ static inline void add_values(const struct cuda_attn &a, struct rows<ROWS, DIMS> &x, const uint8_t *v,
                                         const float *p, uint32_t pos, bool all)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    uint32_t lo[ROWS], hi[ROWS], from = CUDA_WARP, to = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        visible(x.begin[r], x.end[r], pos, lo[r], hi[r]);
        if (lo[r] < hi[r]) from = min(from, lo[r]), to = max(to, hi[r]);
    }
    if (all) {
#pragma unroll 2
        for (uint32_t j = 0; j < CUDA_WARP; j += 4) {
            float e[4][DIMS];
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int n = 0; n < DIMS; n++)
                    e[i][n] = lane + n * CUDA_WARP < a.dim ? value<type>(v, a.dim, lane + n * CUDA_WARP, j + i) : 0.0f;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float4 w = *(const float4 *)(p + r * CUDA_WARP + j);
#pragma unroll
                for (int n = 0; n < DIMS; n++)
                    x.o[r][n] =
                        fma_(w.w, e[3][n], fma_(w.z, e[2][n], fma_(w.y, e[1][n], fma_(w.x, e[0][n], x.o[r][n]))));
            }
        }
        return;
    }
    for (uint32_t j = from; j < to; j++) {
        float e[DIMS];
#pragma unroll
        for (int n = 0; n < DIMS; n++)
            e[n] = lane + n * CUDA_WARP < a.dim ? value<type>(v, a.dim, lane + n * CUDA_WARP, j) : 0.0f;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < DIMS; n++)
                if (j >= lo[r] && j < hi[r]) x.o[r][n] = fma_(p[r * CUDA_WARP + j], e[n], x.o[r][n]);
    }
}

/* All blocks of the tile for the warp's rows. */
template <int type, int ROWS, int DIMS>
__device__ static inline void attend(const struct cuda_attn &a, const struct cuda_tile &t, struct rows<ROWS, DIMS> &x,
                                     float *p)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    for (uint32_t pos = t.from; pos < t.to; pos += CUDA_WARP) {
        const uint32_t at = t.table + pos / CUDA_WARP;
        const uint8_t *k = kv_block(a.kv, a.table[at], blockIdx.y);
        float s[ROWS];
        bool any = false, all = true;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            uint32_t lo, hi;
            visible(x.begin[r], x.end[r], pos, lo, hi);
            any |= lo < hi;
            all &= lo == 0 && hi == CUDA_WARP;
        }
        if (!any) continue;
        scores<type, ROWS>(x.q, a.dim, k, s);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            uint32_t lo, hi;
            visible(x.begin[r], x.end[r], pos, lo, hi);
            if (lo < hi) p[r * CUDA_WARP + lane] = weigh(a, x, r, s[r], lane >= lo && lane < hi);
        }
        __syncwarp();
        add_values<type>(a, x, k + a.kv.half, p, pos, all);
    }
}

/* Rows [first, first + ROWS) of the tile; those behind its last see nothing and are not stored. */
template <int type, int ROWS, int DIMS>
__device__ static inline void attend_rows(const struct cuda_attn &a, const struct cuda_tile &t, const float *queries,
                                          float *p, uint32_t first)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, n = t.n * a.group;
    struct rows<ROWS, DIMS> x;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const uint32_t row = min(first + r, n - 1);
        const struct cuda_seen &s = a.seen[t.token + row / a.group];
        x.q[r] = queries + row * ((a.dim + 3) / 4 * 4);
        x.begin[r] = begin_of(t, s);
        x.end[r] = first + r >= n ? 0 : end_of(t, s);
        x.m[r] = NOTHING;
        x.l[r] = 0.0f;
#pragma unroll
        for (int i = 0; i < DIMS; i++) x.o[r][i] = 0.0f;
    }
    attend<type>(a, t, x, p);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (first + r >= n) continue;
        const struct cuda_seen &s = a.seen[t.token + (first + r) / a.group];
        if (t.part >= s.parts) continue;
        const uint32_t head = blockIdx.y * a.group + (first + r) % a.group;
        const uint64_t row = (uint64_t)(s.row + t.part) * a.heads + head;
        if (lane == 0) a.m[row] = x.m[r], a.l[row] = x.l[r];
#pragma unroll
        for (int i = 0; i < DIMS; i++)
            if (lane + i * CUDA_WARP < a.dim) a.o[row * a.dim + lane + i * CUDA_WARP] = x.o[r][i];
    }
}

/* Shared memory: the queries of a tile, then [warps][ROWS][32]. */
template <int type, int ROWS, int DIMS> __device__ static inline void attention(const struct cuda_attn &a)
{
    extern __shared__ float4 shared[];
    float *queries = (float *)shared;
    const struct cuda_tile t = a.tiles[blockIdx.x];
    const uint32_t n = t.n * a.group, wide = (a.dim + 3) / 4 * 4, warps = blockDim.x / CUDA_WARP;
    float *p = queries + n * wide + threadIdx.x / CUDA_WARP * ROWS * CUDA_WARP;
    load_queries(a, t, queries);
    for (uint32_t first = threadIdx.x / CUDA_WARP * ROWS; first < n; first += warps * ROWS)
        attend_rows<type, ROWS, DIMS>(a, t, queries, p, first);
}

#define ATTENTION(name, type, rows, dims, ctas)                                                                        \
    extern "C" __global__ void __launch_bounds__(128, ctas)                                                            \
        cuda_attn_##name##_##dims(const __grid_constant__ struct cuda_attn a)                                          \
    {                                                                                                                  \
        begin();                                                                                                       \
        attention<type, rows, dims>(a);                                                                                \
    }
/* A head of up to 64 values leaves registers for five CTAs on a multiprocessor: more warps hide more of the loads. */
#define SIZES(name, type)                                                                                              \
    ATTENTION(name, type, 8, 2, 5)                                                                                     \
    ATTENTION(name, type, 8, 4, 1)                                                                                     \
    ATTENTION(name, type, 4, 8, 1)
SIZES(f32, KV_F32)
SIZES(f16, KV_F16)
SIZES(q8, KV_Q8)
