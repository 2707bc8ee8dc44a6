/* SPDX-License-Identifier: MIT */
#pragma once
/* Parts of the operations on rows: the join and the root of a norm, by the first @threads threads of a CTA; and
 * activations. */
#include "kernels/cuda/device.cuh"

#define LANES 16 /* of the sums of a norm */
#define BATCH 16 /* values that a chain reads at once */

/* The sum of the squares of @whole batches of a lane's values, of which there is one at least; the next batch is read
 * while one is added. */
__device__ static inline float sum_squares(const float *x, uint32_t whole)
{
    float ss = 0.0f, v[BATCH], next[BATCH];
#pragma unroll
    for (uint32_t n = 0; n < BATCH; n++) v[n] = x[n * LANES];
#pragma unroll 2
    for (uint32_t b = 0; b < whole; b++) {
        if (b + 1 < whole) x += BATCH * LANES;
#pragma unroll
        for (uint32_t n = 0; n < BATCH; n++) next[n] = x[n * LANES];
#pragma unroll
        for (uint32_t n = 0; n < BATCH; n++) ss = fma_(v[n], v[n], ss);
#pragma unroll
        for (uint32_t n = 0; n < BATCH; n++) v[n] = next[n];
    }
    return ss;
}

#define ROW 15 /* the barrier of the threads that have a row */

/* They have come so far. */
__device__ static inline void meet_at_row(uint32_t threads)
{
    cta_wait(ROW, threads);
}

/* 1 / sqrt(ss / k + eps) of x[k] in shared memory, computed by the first 16 threads for all. */
__device__ static inline float root_of(const float *x, uint32_t k, float eps, float *out, uint32_t threads)
{
    if (threadIdx.x < CUDA_WARP) {
        const uint32_t lane = threadIdx.x % LANES, whole = k / (BATCH * LANES); /* the other lanes do the same */
        float ss = whole ? sum_squares(x + lane, whole) : 0.0f;
        for (uint32_t i = whole * BATCH * LANES + lane; i < k; i += LANES) ss = fma_(x[i], x[i], ss);
        ss = fold<LANES>(ss);
        if (threadIdx.x == 0) *out = 1.0f / sqrtf(ss / (float)k + eps);
    }
    meet_at_row(threads);
    return *out;
}

/* A row of what a norm reads, in shared memory: the residual stream, and what joins it with its bias (or, where nothing
 * does, the stream again). */
__device__ static inline void read_row(const struct cuda_norm &a, uint32_t from, float *stream, float *x,
                                       uint32_t threads)
{
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < a.k; i += threads) { /* all loads before the first use */
        const float s = a.x[(uint64_t)from * a.k + i], h = a.h ? a.h[(uint64_t)from * a.k + i] : 0.0f;
        const float b = a.h && a.bias ? a.bias[i] : 0.0f;
        stream[i] = s;
        x[i] = a.h ? a.bias ? h + b : h : s;
    }
    meet_at_row(threads);
}

/* The joined row in shared memory: @stream has the residual stream, @x what joins it, with its bias. */
__device__ static inline void join(const struct cuda_norm &a, const float *stream, float *x, float *one,
                                   uint32_t threads)
{
    float r = 1.0f;
    if (a.post) r = root_of(x, a.k, a.eps, one, threads);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < a.k; i += threads) {
        float v = a.post ? x[i] * r * a.post[i] : x[i];
        if (a.residual != 1.0f) v = v * a.residual;
        v = stream[i] + v;
        x[i] = a.out_scale ? v * *a.out_scale : v;
    }
    meet_at_row(threads);
}

/* --- activations: enum arch_activation --- */

enum activation { SILU, GELU, GELU_ERF, CLAMPED, RELU, RELU_SQR, ACTIVATIONS };

__device__ static inline float erf_(float x)
{
    const float p[] = ERF_P, q[] = ERF_Q;
    const float z = x > ERF_LIMIT ? ERF_LIMIT : x < -ERF_LIMIT ? -ERF_LIMIT : x, s = z * z;
    float top = p[0], below = q[0];
#pragma unroll
    for (uint32_t i = 1; i < sizeof(p) / sizeof(*p); i++) top = fma_(top, s, p[i]);
#pragma unroll
    for (uint32_t i = 1; i < sizeof(q) / sizeof(*q); i++) below = fma_(below, s, q[i]);
    const float y = z * top / below;
    return y > 1.0f ? 1.0f : y < -1.0f ? -1.0f : y;
}

__device__ static inline float clamped(float g, float u)
{
    g = g > SWIGLU_LIMIT ? SWIGLU_LIMIT : g;
    u = u > SWIGLU_LIMIT ? SWIGLU_LIMIT : u;
    u = u < -SWIGLU_LIMIT ? -SWIGLU_LIMIT : u;
    return g / (1.0f + exp_(-SWIGLU_ALPHA * g)) * (u + 1.0f);
}

__device__ static inline float activate(uint32_t act, float g)
{
    switch (act) {
    case SILU:
        return silu(g);
    case GELU:
        return gelu(g);
    case GELU_ERF:
        return g * 0.5f * (1.0f + erf_(g * SQRT_HALF));
    case RELU:
        return g < 0.0f ? 0.0f : g;
    default: {
        const float m = g < 0.0f ? 0.0f : g;
        return m * m;
    }
    }
}

/* act(gate) * up of column @i, from what the products gave. @act is a.act, known to the compiler where it can be. */
__device__ static inline float gated(const struct cuda_gated &a, uint32_t act, float g, float u, uint32_t i)
{
    if (a.gate_bias) g = g + a.gate_bias[i];
    if (a.up_bias) u = u + a.up_bias[i];
    if (act == CLAMPED) return clamped(g, u);
    return a.up ? activate(act, g) * u : activate(act, g);
}
