/* SPDX-License-Identifier: MIT */
#pragma once
/* A row in the shared memory of its CTA: sums, and quantization. */
#include "kernels/cuda/device.cuh"

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

/* The factor of RMSNorm. */
__device__ static inline float rms_of(const struct row &r, float eps)
{
    return 1.0f / sqrtf(sum_of<true>(r, 0.0f) / (float)r.k + eps);
}

/* A sum in double of 16 lanes, as above: of the values x[i] * y[i], which are exact; without @y of the values less
 * @mean, or of the squares of that. By one warp, each of whose lanes gets it. */
__device__ static inline double doubles_of(const struct row &r, double mean, const float *y, bool squares)
{
    double sum = 0.0;
    for (uint32_t i = threadIdx.x % LANES; i < r.k; i += LANES) {
        const double v = (double)r.x[i] - mean;
        sum = sum + (y ? v * (double)y[i] : squares ? v * v : v);
    }
#pragma unroll
    for (int h = LANES / 2; h; h /= 2) sum = sum + __shfl_xor_sync(ALL, sum, h);
    return sum;
}

/* Quantize the row, a multiple of 32 values, to row @number of @q. */
__device__ static inline void quantize_row(const struct cuda_acts &q, uint32_t number, const struct row &r)
{
    __syncthreads();
    for (uint32_t b = threadIdx.x / CUDA_WARP * 4 * CUDA_WARP; b < r.k; b += blockDim.x * 4) {
        const uint32_t i = b + threadIdx.x % CUDA_WARP * 4;
        float v[4];
#pragma unroll
        for (uint32_t n = 0; n < 4; n++) v[n] = i + n < r.k ? r.x[i + n] : 0.0f;
        quantize4(q, number, r.k, b, v);
    }
}
