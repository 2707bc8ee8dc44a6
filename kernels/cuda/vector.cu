/* SPDX-License-Identifier: MIT */
/* Operations on rows: join and norm, quantization, activations, logits. */
#include "kernels/cuda/device.cuh"

#define LANES 16 /* of the sums of a norm */
#define AHEAD 4  /* weights that a thread reads early */

/* 1 / sqrt(ss / k + eps) of x[k] in shared memory, computed by the first 16 threads for all. */
__device__ static inline float root_of(const float *x, uint32_t k, float eps, float *out)
{
    if (threadIdx.x < CUDA_WARP) {
        float ss = 0.0f;
        if (threadIdx.x < LANES)
#pragma unroll 16
            for (uint32_t i = threadIdx.x; i < k; i += LANES) ss = fma_(x[i], x[i], ss);
        ss = fold<LANES>(ss);
        if (threadIdx.x == 0) *out = 1.0f / sqrtf(ss / (float)k + eps);
    }
    __syncthreads();
    return *out;
}

/* Write a row that lies in shared memory. */
__device__ static inline void put_row(float *f, const struct cuda_acts &q, const float *x, uint32_t row, uint32_t k)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    for (uint32_t i = threadIdx.x; f && i < k; i += blockDim.x) f[(uint64_t)row * k + i] = x[i];
    if (!q.q) return;
    for (uint32_t b = threadIdx.x / CUDA_WARP; b < k / CUDA_WARP; b += blockDim.x / CUDA_WARP)
        quantize(q, row, k, b, x[b * CUDA_WARP + lane]);
}

/* The joined row in shared memory: @stream has the residual stream, @x what joins it, with its bias. */
__device__ static inline void join(const struct cuda_norm &a, const float *stream, float *x, float *one)
{
    float r = 1.0f;
    if (a.post) r = root_of(x, a.k, a.eps, one);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        float v = a.post ? x[i] * r * a.post[i] : x[i];
        if (a.residual != 1.0f) v = v * a.residual;
        v = stream[i] + v;
        x[i] = a.out_scale ? v * *a.out_scale : v;
    }
    __syncthreads();
}

/* Shared memory: 2 k floats, and one. */
extern "C" __global__ void cuda_norm(const __grid_constant__ struct cuda_norm a)
{
    extern __shared__ float x[];
    float *stream = x + a.k, *one = stream + a.k;
    float first[AHEAD]; /* weights, which no kernel writes */
    start_next();
#pragma unroll
    for (uint32_t n = 0; n < AHEAD; n++) {
        const uint32_t i = threadIdx.x + n * blockDim.x;
        first[n] = a.w && i < a.k ? a.w[i] : 0.0f;
    }
    wait_before();
    const uint32_t from = a.gather ? a.gather[blockIdx.x] : blockIdx.x;
    float *old = a.x + (uint64_t)from * a.k;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) { /* all loads before the first use */
        const float s = old[i], h = a.h ? a.h[(uint64_t)from * a.k + i] : 0.0f, b = a.h && a.bias ? a.bias[i] : 0.0f;
        stream[i] = s;
        x[i] = a.h ? a.bias ? h + b : h : s;
    }
    __syncthreads();
    if (a.h) join(a, stream, x, one);
    float *to = a.gather ? a.to + (uint64_t)blockIdx.x * a.k : old;
    for (uint32_t i = threadIdx.x; (a.h || a.gather) && i < a.k; i += blockDim.x) to[i] = x[i];
    if (a.w) {
        const float r = root_of(x, a.k, a.eps, one);
#pragma unroll
        for (uint32_t n = 0; n < AHEAD; n++) {
            const uint32_t i = threadIdx.x + n * blockDim.x;
            if (i < a.k) x[i] = x[i] * r * first[n];
        }
#pragma unroll 4
        for (uint32_t i = threadIdx.x + AHEAD * blockDim.x; i < a.k; i += blockDim.x) x[i] = x[i] * r * a.w[i];
        __syncthreads();
    }
    put_row(a.f, a.q, x, blockIdx.x, a.k);
}

/* Quantize f. Grid: (32 columns / warps of a CTA, rows). */
extern "C" __global__ void cuda_quantize(const __grid_constant__ struct cuda_gated a)
{
    begin();
    const uint32_t block = blockIdx.x * (blockDim.x / CUDA_WARP) + threadIdx.x / CUDA_WARP;
    if (block >= a.k / CUDA_WARP) return;
    const uint32_t i = block * CUDA_WARP + threadIdx.x % CUDA_WARP;
    quantize(a.q, blockIdx.y, a.k, block, a.gate[(uint64_t)blockIdx.y * a.k + i]);
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
        return g / (1.0f + exp_(-g));
    case GELU:
        return g / (1.0f + exp_(g * fma_(GELU_B, g * g, GELU_A)));
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

extern "C" __global__ void cuda_gated(const __grid_constant__ struct cuda_gated a)
{
    begin();
    const uint32_t block = blockIdx.x * (blockDim.x / CUDA_WARP) + threadIdx.x / CUDA_WARP;
    const uint32_t i = block * CUDA_WARP + threadIdx.x % CUDA_WARP;
    const uint64_t at = (uint64_t)blockIdx.y * a.k + i;
    if (block * CUDA_WARP >= a.k) return;
    float g = i < a.k ? a.gate[at] : 0.0f, u = i < a.k && a.up ? a.up[at] : 0.0f;
    if (i < a.k && a.gate_bias) g = g + a.gate_bias[i];
    if (i < a.k && a.up_bias) u = u + a.up_bias[i];
    if (a.act == CLAMPED)
        g = clamped(g, u);
    else
        g = a.up ? activate(a.act, g) * u : activate(a.act, g);
    if (a.f && i < a.k) a.f[at] = g;
    if (a.q.q) quantize(a.q, blockIdx.y, a.k, block, g);
}

/* Grid: (columns / threads, rows). */
extern "C" __global__ void cuda_logits(const __grid_constant__ struct cuda_logits a)
{
    begin();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.k) return;
    float *x = a.x + (uint64_t)blockIdx.y * a.k + i, v = *x;
    if (a.bias) v = v + a.bias[i];
    if (a.scale != 1.0f) v = v * a.scale;
    if (a.cap > 0.0f) v = softcap_(v, a.cap);
    *x = v;
}
