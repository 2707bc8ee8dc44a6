/* SPDX-License-Identifier: MIT */
/* Joins and norms of blocks of other kinds than cuda_norm has: LayerNorm, biases, several things that join, norms of
 * the residual stream itself, and norms of heads. */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/variant-args.h"

#define LANES 16 /* of the sums */
#define BATCH 16 /* values that a lane reads at once */

/* A row in shared memory, and one float beside it. */
struct row {
    float *x, *one;
    uint32_t k;
};

/* The sum of the values, or of the squares of their differences from @mean: of 16 lanes, lane j has those of number i =
 * j mod 16, ascending. The first 16 threads compute it for all. */
template <bool SQUARES> __device__ static inline float sum_of(const struct row &r, float mean)
{
    __syncthreads();
    if (threadIdx.x < CUDA_WARP) {
        uint32_t i = threadIdx.x % LANES; /* the other lanes do the same */
        float sum = 0.0f;
        for (; i + (BATCH - 1) * LANES < r.k; i += BATCH * LANES) {
            float v[BATCH];
#pragma unroll
            for (uint32_t n = 0; n < BATCH; n++) v[n] = r.x[i + n * LANES] - mean;
#pragma unroll
            for (uint32_t n = 0; n < BATCH; n++) sum = SQUARES ? fma_(v[n], v[n], sum) : sum + v[n];
        }
        for (; i < r.k; i += LANES) {
            const float v = r.x[i] - mean;
            sum = SQUARES ? fma_(v, v, sum) : sum + v;
        }
        sum = fold<LANES>(sum);
        if (threadIdx.x == 0) *r.one = sum;
    }
    __syncthreads();
    return *r.one;
}

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
    if (!a.n.q.q) return;
    __syncthreads();
    for (uint32_t b = threadIdx.x / CUDA_WARP * 4 * CUDA_WARP; b < k; b += blockDim.x * 4) {
        const uint32_t i = b + threadIdx.x % CUDA_WARP * 4;
        float v[4];
#pragma unroll
        for (uint32_t n = 0; n < 4; n++) v[n] = i + n < k ? x.x[i + n] : 0.0f;
        quantize4(a.n.q, blockIdx.x, k, b, v);
    }
}
