/* SPDX-License-Identifier: MIT */
#pragma once
/* The chains of attention over KV blocks in shared memory, whose reads limit them: a thread has two dims of up to two
 * rows. All rows see the same keys. */
#include "kernels/cuda/attn.cuh"

/* Two dims of a value. */
template <int type> __device__ static inline float2 values(const uint8_t *v, uint32_t dim, uint32_t d, uint32_t j)
{
    if (type == KV_F32) return *(const float2 *)((const float *)v + j * dim + d);
    if (type == KV_F16) return __half22float2(*(const __half2 *)((const uint16_t *)v + j * dim + d));
    const float scale = half_(((const uint16_t *)(v + kv_codes(dim)))[j * kv_groups(dim) + d / CUDA_WARP]);
    const char2 c = *(const char2 *)(v + j * dim + d);
    return make_float2((float)c.x * scale, (float)c.y * scale);
}

/* o += the keys [lo, hi) of a block for R rows, whose weights @p are @width apart. */
template <int type, int R>
__device__ static inline void add_pairs(const uint8_t *v, const float *p, uint32_t dim, uint32_t d, uint32_t lo,
                                        uint32_t hi, uint32_t width, float2 o[R])
{
    if (lo == 0 && hi == CUDA_WARP) {
#pragma unroll
        for (uint32_t j = 0; j < CUDA_WARP; j += 4) {
            float4 w[R];
            float2 e[4];
#pragma unroll
            for (uint32_t r = 0; r < R; r++) w[r] = *(const float4 *)(p + r * width + j);
#pragma unroll
            for (uint32_t k = 0; k < 4; k++) e[k] = values<type>(v, dim, d, j + k);
#pragma unroll
            for (uint32_t r = 0; r < R; r++) {
                o[r].x = fma_(w[r].w, e[3].x, fma_(w[r].z, e[2].x, fma_(w[r].y, e[1].x, fma_(w[r].x, e[0].x, o[r].x))));
                o[r].y = fma_(w[r].w, e[3].y, fma_(w[r].z, e[2].y, fma_(w[r].y, e[1].y, fma_(w[r].x, e[0].y, o[r].y))));
            }
        }
        return;
    }
    for (uint32_t j = lo; j < hi; j += 4) { /* reads before what needs them */
        float w[R][4];
        float2 e[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t at = min(j + k, hi - 1);
            e[k] = values<type>(v, dim, d, at);
#pragma unroll
            for (uint32_t r = 0; r < R; r++) w[r][k] = p[r * width + at];
        }
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
#pragma unroll
            for (uint32_t r = 0; r < R; r++)
                if (j + k < hi) o[r].x = fma_(w[r][k], e[k].x, o[r].x), o[r].y = fma_(w[r][k], e[k].y, o[r].y);
    }
}

/* The chains of the dims @d and d + 1 of R rows from @r on; the results go where the queries were. @copies: a barrier
 * for each block, whose V has arrived then. */
template <int type, int R>
__device__ static inline void chain_pairs(const struct cuda_attn &a, const struct steps &x, uint64_t *copies,
                                          uint32_t blocks, uint32_t r, uint32_t d)
{
    const uint32_t wide = (a.dim + 3) / 4 * 4;
    float2 o[R] = {};
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t lo, hi;
        visible(x.begin, x.end, x.first + b * CUDA_WARP, lo, hi);
        bar_wait(&copies[b], 0);
        if (lo >= hi) continue;
#pragma unroll
        for (uint32_t k = 0; k < R; k++) {
            const float c = x.factors[(r + k) * BLOCKS + b]; /* 1 changes nothing */
            o[k].x = o[k].x * c, o[k].y = o[k].y * c;
        }
        add_pairs<type, R>(x.near + b * x.step + x.values, x.weights + r * a.width + b * CUDA_WARP, a.dim, d, lo, hi,
                           a.width, o);
    }
#pragma unroll
    for (uint32_t k = 0; k < R; k++) *(float2 *)(x.queries + (r + k) * wide + d) = o[k];
}

template <int type, int R>
__device__ static inline void chains_of(const struct cuda_attn &a, const struct steps &x, uint64_t *copies,
                                        uint32_t blocks)
{
    const uint32_t pairs = a.dim / 2;
    for (uint32_t i = threadIdx.x; i < x.rows / R * pairs; i += blockDim.x)
        chain_pairs<type, R>(a, x, copies, blocks, i / pairs * R, i % pairs * 2);
}

/* All chains of a tile. */
template <int type>
__device__ static inline void chains(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x,
                                     uint64_t *copies)
{
    const uint32_t blocks = tile_blocks(t);
    if (x.rows % 2)
        chains_of<type, 1>(a, x, copies, blocks);
    else
        chains_of<type, 2>(a, x, copies, blocks);
    const uint32_t last = blockDim.x - 1 - threadIdx.x; /* of threads that have no chain, as a rule */
    if (last < x.rows) x.ends[last] = ends_of<true>(a, t, x, last);
    __syncthreads();
}
