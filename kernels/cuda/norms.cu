/* SPDX-License-Identifier: MIT */
/* Joins and norms of blocks of other kinds than cuda_norm has: LayerNorm, biases, several things that join, norms of
 * the residual stream itself, and norms of heads. */
#include "kernels/cuda/norms.cuh"
#include "kernels/cuda/variant-args.h"

/* The row becomes its norm, a thread computes the columns threadIdx.x, + blockDim.x, …; RMSNorm is LayerNorm with a
 * mean of 0. */
__device__ static inline void norm(const struct cuda_norm_any &a, const struct row &r, const float *w,
                                   const float *bias)
{
    const float mean = a.layer ? sum_of<false>(r, 0.0f) / (float)r.k : 0.0f;
    const float by = 1.0f / sqrtf(sum_of<true>(r, mean) / (float)r.k + a.n.eps);
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) {
        const float v = (r.x[i] - mean) * by * w[i];
        r.x[i] = bias ? v + bias[i] : v;
    }
}

/* Add h and what is beside it to x. */
__device__ static inline void join(const struct cuda_norm_any &a, uint64_t row, float *x, const struct row &h)
{
    if (a.n.post) norm(a, h, a.n.post, NULL);
    for (uint32_t i = threadIdx.x; i < h.k; i += blockDim.x) {
        float v = h.x[i];
        if (a.n.residual != 1.0f) v = v * a.n.residual;
        v = x[i] + v;
        if (a.beside) {
            float b = a.beside[row * h.k + i];
            if (a.beside_bias) b = b + a.beside_bias[i];
            if (a.n.residual != 1.0f) b = b * a.n.residual;
            v = v + b;
        }
        if (a.side) v = (v + a.side[row * h.k + i]) * SQRT_HALF;
        x[i] = a.n.out_scale ? v * *a.n.out_scale : v;
    }
}

/* x = norm(x + h), and with a second norm x = second(norm(x + h) + x). */
__device__ static inline void outer_norm(const struct cuda_norm_any &a, const struct row &x, const struct row &h)
{
    for (uint32_t i = threadIdx.x; i < h.k; i += blockDim.x) h.x[i] = h.x[i] + x.x[i];
    norm(a, h, a.n.w, a.w_bias);
    for (uint32_t i = threadIdx.x; a.second && i < h.k; i += blockDim.x) h.x[i] = h.x[i] + x.x[i];
    if (a.second) norm(a, h, a.second, a.second_bias);
    for (uint32_t i = threadIdx.x; i < h.k; i += blockDim.x) x.x[i] = h.x[i];
}

/* Shared memory: one float, the row, and that of h. */
extern "C" __global__ void cuda_norm_any(const __grid_constant__ struct cuda_norm_any a)
{
    extern __shared__ float shared[];
    begin();
    const uint32_t k = a.n.k, own = blockIdx.x % a.each;
    const struct row x = {shared + 1, shared, k}, h = {shared + 1 + k, shared, k};
    const uint64_t row = blockIdx.x;
    float *stream = a.n.x + row * k;
    for (uint32_t i = threadIdx.x; i < k; i += blockDim.x) {
        const float bias = a.n.bias ? a.n.bias[own * k + i] : 0.0f;
        x.x[i] = a.n.bias && !a.n.h ? stream[i] + bias : stream[i];
        if (a.n.h) h.x[i] = a.n.bias ? a.n.h[row * k + i] + bias : a.n.h[row * k + i];
    }
    if (a.n.h && a.outer)
        outer_norm(a, x, h);
    else if (a.n.h)
        join(a, row, x.x, h);
    for (uint32_t i = threadIdx.x; a.n.h && i < k; i += blockDim.x) stream[i] = x.x[i];
    if (a.n.w && !(a.n.h && a.outer)) norm(a, x, a.n.w + own * k, a.w_bias ? a.w_bias + own * k : NULL);
    for (uint32_t i = threadIdx.x; a.n.f && i < k; i += blockDim.x) a.n.f[row * k + i] = x.x[i];
    if (a.n.q.q) quantize_row(a.n.q, blockIdx.x, x);
}
