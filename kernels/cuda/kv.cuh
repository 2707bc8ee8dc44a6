/* SPDX-License-Identifier: MIT */
#pragma once
/* The layout of a KV block (kernels/kv.h) for the device. */
#include "kernels/cuda/device.cuh"

enum kv_type { KV_F32, KV_F16, KV_Q8 }; /* enum kern_kv */

__device__ static inline uint32_t kv_groups(uint32_t dim)
{
    return (dim + CUDA_WARP - 1) / CUDA_WARP;
}

/* Bytes of Q8's codes, where its scales begin. */
__device__ static inline uint32_t kv_codes(uint32_t dim)
{
    return (CUDA_WARP * dim + 63) / 64 * 64;
}

__device__ static inline uint8_t *kv_block(const struct cuda_kv &kv, uint32_t block, uint32_t head)
{
    return kv.mem + block * kv.stride + (uint64_t)head * kv.each;
}

#define NOTHING __uint_as_float(0xff800000u) /* -infinity */

/* Dim @d of the key, or the value, of token @j of a block. */
template <int type> __device__ static inline float key(const uint8_t *k, uint32_t dim, uint32_t d, uint32_t j)
{
    if (type == KV_F32) return ((const float *)k)[d * CUDA_WARP + j];
    if (type == KV_F16) return half_(((const uint16_t *)k)[d * CUDA_WARP + j]);
    const uint16_t *scale = (const uint16_t *)(k + kv_codes(dim));
    return (float)((const int8_t *)k)[d * CUDA_WARP + j] * half_(scale[d / CUDA_WARP * CUDA_WARP + j]);
}

template <int type> __device__ static inline float value(const uint8_t *v, uint32_t dim, uint32_t d, uint32_t j)
{
    if (type == KV_F32) return ((const float *)v)[j * dim + d];
    if (type == KV_F16) return half_(((const uint16_t *)v)[j * dim + d]);
    const uint16_t *scale = (const uint16_t *)(v + kv_codes(dim));
    return (float)((const int8_t *)v)[j * dim + d] * half_(scale[j * kv_groups(dim) + d / CUDA_WARP]);
}

/* KV blocks of a tile. */
__device__ static inline uint32_t tile_blocks(const struct cuda_tile &t)
{
    return (t.to - t.from + CUDA_WARP - 1) / CUDA_WARP;
}

/* The positions that a query sees, as far as the tile has them: from begin_of() on, up to end_of(). */
__device__ static inline uint32_t begin_of(const struct cuda_tile &t, const struct cuda_seen &s)
{
    return t.sinks ? 0 : s.begin;
}

__device__ static inline uint32_t end_of(const struct cuda_tile &t, const struct cuda_seen &s)
{
    return t.sinks ? t.to : min(s.end, t.to);
}

/* The keys [lo, hi) of the block at @pos that a query with the visible positions [begin, end) sees. */
__device__ static inline void visible(uint32_t begin, uint32_t end, uint32_t pos, uint32_t &lo, uint32_t &hi)
{
    lo = begin <= pos ? 0 : min(begin - pos, (uint32_t)CUDA_WARP);
    hi = end <= pos ? 0 : min(end - pos, (uint32_t)CUDA_WARP);
}

/* q·k of some queries, which lie in shared memory at a multiple of 4 floats, and the lane's key. */
template <int type, int ROWS>
__device__ static inline void scores(const float *const *q, uint32_t dim, const uint8_t *k, float *s)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
#pragma unroll
    for (int r = 0; r < ROWS; r++) s[r] = 0.0f;
    uint32_t d = 0;
#pragma unroll 4
    for (; d + 4 <= dim; d += 4) {
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = key<type>(k, dim, d + i, lane);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4 x = *(const float4 *)(q[r] + d);
            s[r] = fma_(x.w, v[3], fma_(x.z, v[2], fma_(x.y, v[1], fma_(x.x, v[0], s[r]))));
        }
    }
    for (; d < dim; d++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) s[r] = fma_(q[r][d], key<type>(k, dim, d, lane), s[r]);
}

/* Copy the queries of a tile to shared memory: [tokens * group][dim rounded up to 4]. */
__device__ static inline void load_queries(const struct cuda_attn &a, const struct cuda_tile &t, float *queries)
{
    const uint32_t n = t.n * a.group, wide = (a.dim + 3) / 4 * 4;
    for (uint32_t i = threadIdx.x; i < n * a.dim; i += blockDim.x) {
        const uint32_t row = i / a.dim, d = i % a.dim;
        const uint64_t head = (uint64_t)(t.token + row / a.group) * a.heads + blockIdx.y * a.group + row % a.group;
        queries[row * wide + d] = (t.sinks ? a.q_sinks : a.q)[head * a.dim + d];
    }
    __syncthreads();
}
