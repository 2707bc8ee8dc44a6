/* SPDX-License-Identifier: MIT */
/* Activations and gates that only some architectures have. A thread has four columns of a row. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/norms.cuh"
#include "kernels/cuda/variant-args.h"

extern "C" __global__ void cuda_xielu(const __grid_constant__ struct cuda_xielu a)
{
    begin();
    const uint32_t k = a.g.k, first = first_of_warp(), i = first + threadIdx.x % CUDA_WARP * 4;
    float y[4] = {};
    if (first >= k) return;
    for (uint32_t n = 0; n < 4 && i + n < k; n++) {
        float v = a.g.gate[(uint64_t)blockIdx.y * k + i + n];
        if (a.g.gate_bias) v = v + a.g.gate_bias[i + n];
        const float least = v > a.by[3] ? a.by[3] : v, line = a.by[2] * v;
        y[n] = v > 0.0f ? fma_(a.by[0] * v, v, line) : fma_(exp_(least) - 1.0f - v, a.by[1], line);
    }
    put(a.g.f, a.g.q, blockIdx.y, k, first, y);
}

extern "C" __global__ void cuda_head_gate(const __grid_constant__ struct cuda_head_gate a)
{
    begin();
    const uint32_t first = first_of_warp(), i = first + threadIdx.x % CUDA_WARP * 4;
    const uint64_t row = a.list ? a.list[blockIdx.y] : blockIdx.y;
    float y[4] = {};
    if (first >= a.k) return;
    for (uint32_t n = 0; n < 4 && i + n < a.k; n++)
        y[n] = a.x[(uint64_t)blockIdx.y * a.k + i + n] / (1.0f + exp_(-a.gate[row * a.k + i + n]));
    put(a.f, a.q, blockIdx.y, a.k, first, y);
}

extern "C" __global__ void cuda_layer_gate(const __grid_constant__ struct cuda_layer_gate a)
{
    begin();
    const uint32_t first = first_of_warp(), i = first + threadIdx.x % CUDA_WARP * 4;
    const float *e = a.e + (uint64_t)(a.list ? a.list[blockIdx.y] : blockIdx.y) * a.ld;
    float y[4] = {};
    if (first >= a.k) return;
    for (uint32_t n = 0; n < 4 && i + n < a.k; n++) y[n] = gelu(a.gate[(uint64_t)blockIdx.y * a.k + i + n]) * e[i + n];
    put(a.f, a.q, blockIdx.y, a.k, first, y);
}

extern "C" __global__ void cuda_layer_rows(const __grid_constant__ struct cuda_layer_rows a)
{
    begin();
    extern __shared__ float shared[];
    const struct row x = {shared + 1, shared, a.k};
    const uint64_t at = ((uint64_t)blockIdx.y * gridDim.x + blockIdx.x) * a.k;
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) x.x[i] = a.e[at + i] * a.scale;
    const float by = rms_of(x, a.eps);
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x)
        a.e[at + i] = (x.x[i] * by * a.w[i] + a.rows[at + i] * a.row_scale) * SQRT_HALF;
}

/* mean + factor * deviation of the row. */
__device__ static inline float cut_of(const struct row &x, float factor)
{
    const double mean = doubles_of(x, 0.0, NULL, false) / (double)x.k;
    const double squares = doubles_of(x, mean, NULL, true);
    const double deviation = x.k > 1 ? sqrt(squares / (double)(x.k - 1)) : 0.0;
    return (float)(mean + (double)factor * deviation);
}

extern "C" __global__ void cuda_sparse_gate(const __grid_constant__ struct cuda_sparse_gate a)
{
    begin();
    extern __shared__ float shared[];
    __shared__ float from;
    const struct row x = {shared + 1, shared, a.k};
    const uint64_t at = (uint64_t)blockIdx.x * a.k;
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) x.x[i] = a.gate[at + i];
    __syncthreads();
    if (threadIdx.x < CUDA_WARP) {
        const float cut = cut_of(x, a.factor);
        if (threadIdx.x == 0) from = cut;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        const float g = x.x[i] > from ? x.x[i] - from : 0.0f;
        x.x[i] = gelu(g) * a.up[at + i];
        if (a.f) a.f[at + i] = x.x[i];
    }
    if (a.q.q) quantize_row(a.q, blockIdx.x, x);
}
