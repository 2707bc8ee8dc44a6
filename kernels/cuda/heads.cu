/* SPDX-License-Identifier: MIT */
/* Queries and keys between their products and attention: bias, norm, rotation; K and V go to their KV blocks. */
#include "kernels/cuda/kv.cuh"

/* The warp's head, in shared memory. */
struct head {
    float *x;
    uint32_t dim, lane;
};

__device__ static inline void norm_head(const struct head &h, const float *w, float eps)
{
    float ss = 0.0f;
    __syncwarp();
    if (h.lane < 16)
        for (uint32_t i = h.lane; i < h.dim; i += 16) ss = fma_(h.x[i], h.x[i], ss);
    ss = fold<16>(ss);
    const float r = 1.0f / sqrtf(__shfl_sync(ALL, ss, 0) / (float)h.dim + eps);
    for (uint32_t i = h.lane; i < h.dim; i += CUDA_WARP) h.x[i] = h.x[i] * r * (w ? w[i] : 1.0f);
    __syncwarp();
}

__device__ static inline void rotate(const struct head &h, const float *cs, uint32_t rot, bool neox)
{
    const uint32_t half = rot / 2, apart = neox ? half : 1, step = neox ? 1 : 2;
    __syncwarp();
    for (uint32_t i = h.lane; i < half; i += CUDA_WARP) {
        float *p = h.x + i * step;
        const float x0 = p[0], x1 = p[apart], c = cs[i], s = cs[half + i];
        p[0] = fma_(x0, c, -(x1 * s));
        p[apart] = fma_(x0, s, x1 * c);
    }
    __syncwarp();
}

__device__ static inline void load(const struct head &h, const float *x, const float *bias)
{
    __syncwarp();
    for (uint32_t i = h.lane; i < h.dim; i += CUDA_WARP) h.x[i] = bias ? x[i] + bias[i] : x[i];
    __syncwarp();
}

/* Norm and rotation of a head that has its bias. */
__device__ static inline void finish(const struct cuda_heads &a, const struct head &h, const float *norm,
                                     const float *cs)
{
    if (norm && !a.after) norm_head(h, norm, a.eps);
    if (a.rotates) rotate(h, cs, a.rot, a.neox);
    if (a.unit && a.rotates) norm_head(h, NULL, a.eps);
    if (norm && a.after) norm_head(h, norm, a.eps);
}

__device__ static inline void place_query(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t n)
{
    const uint64_t at = ((uint64_t)i * a.heads + n) * a.dim;
    const float *norm = a.q_norm ? a.q_norm + (a.each ? n * a.dim : 0) : NULL;
    const float *bias = a.q_bias ? a.q_bias + n * a.dim : NULL;
    const float by = a.warmth ? a.warmth[i] : 1.0f;
    if (a.q_sinks && a.token[i].slides) {
        load(h, a.q + at, bias);
        finish(a, h, norm, a.sink_cs + (uint64_t)i * a.rot);
        for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) a.q_sinks[at + d] = by != 1.0f ? h.x[d] * by : h.x[d];
    }
    load(h, a.q + at, bias);
    finish(a, h, norm, a.cs + (uint64_t)i * a.rot);
    for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) a.q[at + d] = by != 1.0f ? h.x[d] * by : h.x[d];
}

/* Codes of 32 dims of a head from @d on, @step bytes apart; every lane returns the scale. */
__device__ static inline uint16_t codes(int8_t *q, uint32_t step, const struct head &h, uint32_t d)
{
    const bool has = d + h.lane < h.dim;
    const float x = has ? h.x[d + h.lane] : 0.0f, amax = warp_max(fabsf(x) > 0.0f ? fabsf(x) : 0.0f) / 127.0f;
    const uint16_t s = to_half(amax < 65504.0f ? amax : 65504.0f);
    if (has) q[(uint64_t)h.lane * step] = (int8_t)code(x, half_(s));
    return s;
}

/* Store a head of K (@step: elements from one dim to the next, CUDA_WARP) or V (1) at @slot. */
__device__ static inline void store(const struct cuda_heads &a, const struct head &h, uint8_t *block, uint32_t slot,
                                    bool key)
{
    const uint32_t first = key ? slot : slot * h.dim, step = key ? CUDA_WARP : 1;
    if (a.type == KV_Q8) {
        uint16_t *scales = (uint16_t *)(block + kv_codes(h.dim));
        const uint32_t groups = kv_groups(h.dim);
        for (uint32_t g = 0; g < groups; g++) {
            int8_t *to = (int8_t *)block + first + g * CUDA_WARP * step;
            const uint16_t s = codes(to, step, h, g * CUDA_WARP);
            if (h.lane == 0) scales[key ? g * CUDA_WARP + slot : slot * groups + g] = s;
        }
        return;
    }
    for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) {
        if (a.type == KV_F32)
            ((float *)block)[first + d * step] = h.x[d];
        else
            ((uint16_t *)block)[first + d * step] = to_half(h.x[d]);
    }
}

/* CTAs of one warp; shared memory: dim floats. */
extern "C" __global__ void cuda_heads(const __grid_constant__ struct cuda_heads a)
{
    begin();
    extern __shared__ float x[];
    const uint32_t i = blockIdx.x, n = blockIdx.y;
    const struct head h = {x, a.dim, threadIdx.x};
    if (n < a.heads) {
        place_query(a, h, i, n);
        return;
    }
    const uint32_t head = n - a.heads, slot = a.token[i].pos % CUDA_WARP;
    const uint64_t at = ((uint64_t)i * a.kv_heads + head) * a.dim;
    uint8_t *block = kv_block(a.kv, a.token[i].block[a.group], head);
    load(h, a.k + at, a.k_bias ? a.k_bias + head * a.dim : NULL);
    finish(a, h, a.k_norm ? a.k_norm + (a.each ? head * a.dim : 0) : NULL, a.cs + (uint64_t)i * a.rot);
    store(a, h, block, slot, true);
    load(h, a.v + at, a.v_bias ? a.v_bias + head * a.dim : NULL);
    if (a.v_norm) norm_head(h, NULL, a.eps);
    store(a, h, block + a.kv.half, slot, false);
}

/* --- copies --- */

/* The first @n of each 32 elements of @each bytes in @rows rows. */
__device__ static inline void copy_rows(uint8_t *dst, const uint8_t *src, uint32_t rows, uint32_t n, uint32_t each)
{
    for (uint32_t i = threadIdx.x; i < rows * CUDA_WARP * each; i += blockDim.x)
        if (i % (CUDA_WARP * each) < n * each) dst[i] = src[i];
}

extern "C" __global__ void cuda_kv_copy(const __grid_constant__ struct cuda_copy a)
{
    begin();
    const uint32_t each = a.type == KV_F32 ? 4 : a.type == KV_F16 ? 2 : 1, codes = kv_codes(a.dim);
    uint8_t *to = kv_block(a.kv, a.dst, blockIdx.y) + blockIdx.x * a.layer;
    const uint8_t *from = kv_block(a.kv, a.src, blockIdx.y) + blockIdx.x * a.layer;
    copy_rows(to, from, a.dim, a.tokens, each);
    if (a.type == KV_Q8) copy_rows(to + codes, from + codes, kv_groups(a.dim), a.tokens, 2);
    to += a.kv.half, from += a.kv.half;
    for (uint32_t i = threadIdx.x; i < a.tokens * a.dim * each; i += blockDim.x) to[i] = from[i];
    for (uint32_t i = threadIdx.x; a.type == KV_Q8 && i < a.tokens * kv_groups(a.dim) * 2; i += blockDim.x)
        to[codes + i] = from[codes + i];
}
