/* SPDX-License-Identifier: MIT */
#pragma once
/* Heads between their products and attention, a warp for each: bias, norm, rotation; K and V go to their blocks. */
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

/* The angles of token @i as it meets its sinks, or the other keys. */
__device__ static inline const float *angles_of(const struct cuda_heads &a, uint32_t i, bool sinks)
{
    return (sinks ? a.sink_cs : a.cs) + (uint64_t)i * a.rot;
}

/* Query @n of token @i, with its angles @cs, in shared memory. */
__device__ static inline void make_query(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t n,
                                         const float *cs)
{
    const float *norm = a.q_norm ? a.q_norm + (a.each ? n * a.dim : 0) : NULL;
    const float by = a.warmth ? a.warmth[i] : 1.0f;
    load(h, a.q + ((uint64_t)i * a.heads + n) * a.dim, a.q_bias ? a.q_bias + n * a.dim : NULL);
    finish(a, h, norm, cs);
    for (uint32_t d = h.lane; d < h.dim && by != 1.0f; d += CUDA_WARP) h.x[d] = h.x[d] * by;
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

/* K, or V, of KV head @head of token @i, in shared memory. */
__device__ static inline void make_key(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t head,
                                       const float *cs)
{
    const uint64_t at = ((uint64_t)i * a.kv_heads + head) * a.dim;
    load(h, a.k + at, a.k_bias ? a.k_bias + head * a.dim : NULL);
    finish(a, h, a.k_norm ? a.k_norm + (a.each ? head * a.dim : 0) : NULL, cs);
}

__device__ static inline void make_value(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t head)
{
    const uint64_t at = ((uint64_t)i * a.kv_heads + head) * a.dim;
    load(h, a.v + at, a.v_bias ? a.v_bias + head * a.dim : NULL);
    if (a.v_norm) norm_head(h, NULL, a.eps);
}

/* Store them. */
__device__ static inline void place_key(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t head)
{
    make_key(a, h, i, head, angles_of(a, i, false));
    store(a, h, kv_block(a.kv, a.token[i].block[a.group], head), a.token[i].pos % CUDA_WARP, true);
}

__device__ static inline void place_value(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t head)
{
    make_value(a, h, i, head);
    store(a, h, kv_block(a.kv, a.token[i].block[a.group], head) + a.kv.half, a.token[i].pos % CUDA_WARP, false);
}

/* Head @n of token @i, counted over the query heads and then the KV heads: q is stored, or K and V. */
__device__ static inline void prepare_head(const struct cuda_heads &a, const struct head &h, uint32_t i, uint32_t n)
{
    if (n >= a.heads) {
        place_key(a, h, i, n - a.heads);
        place_value(a, h, i, n - a.heads);
        return;
    }
    const uint64_t at = ((uint64_t)i * a.heads + n) * a.dim;
    if (a.q_sinks && a.token[i].slides) {
        make_query(a, h, i, n, angles_of(a, i, true));
        for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) a.q_sinks[at + d] = h.x[d];
    }
    make_query(a, h, i, n, angles_of(a, i, false));
    for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) a.q[at + d] = h.x[d];
}
