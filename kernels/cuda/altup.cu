/* SPDX-License-Identifier: MIT */
/* AltUp (daemon/backend/cpu/altup.c): several residual streams of a token, of which a layer computes the first. A
 * thread has the columns threadIdx.x, + blockDim.x, … of all of them. */
#include "kernels/cuda/norms.cuh"
#include "kernels/cuda/variant-args.h"

__device__ static inline struct row shared_row(const struct cuda_altup &a)
{
    extern __shared__ float shared[];
    return {shared + 1, shared, a.k};
}

/* Stream @s of the CTA's token. */
__device__ static inline float *stream(const struct cuda_altup &a, uint32_t s)
{
    return a.streams + ((uint64_t)blockIdx.x * a.count + s) * a.k;
}

__device__ static inline uint64_t own(const struct cuda_altup &a)
{
    return (uint64_t)blockIdx.x * a.k;
}

__device__ static inline void load(const struct row &r, const float *x)
{
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) r.x[i] = x[i];
}

/* m(x) of the row, which is normed; for all threads. */
__device__ static inline void modalities(const struct cuda_altup &a, const struct row &r, float *m)
{
    __shared__ float all[CUDA_STREAMS];
    const uint32_t warp = threadIdx.x / CUDA_WARP;
    const float by = rms_of(r, a.eps), part = 1.0f / (float)r.k;
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) r.x[i] = r.x[i] * by * a.router_norm[i] * part;
    __syncthreads();
    for (uint32_t s = warp; s < a.count; s += blockDim.x / CUDA_WARP) {
        const double sum = doubles_of(r, 0.0, a.router + s * a.k, false);
        if (threadIdx.x % CUDA_WARP == 0) all[s] = softcap_((float)sum, 1.0f);
    }
    __syncthreads();
    for (uint32_t s = 0; s < CUDA_STREAMS; s++) m[s] = s < a.count ? all[s] : 0.0f;
}

/* The sum of row[s] * m[s]. */
__device__ static inline float coefficient(const float *row, const float *m, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t s = 0; s < n; s++) sum = sum + (double)row[s] * (double)m[s];
    return (float)sum;
}

/* Add the embedding of the layer before, which is in h. */
__device__ static inline void join_embedding(const struct cuda_altup &a, const struct row &r)
{
    load(r, a.h + own(a));
    const float by = rms_of(r, a.eps);
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) {
        const float v = r.x[i] * by * a.post[i];
        for (uint32_t s = 1; s < a.count; s++) stream(a, s)[i] = stream(a, s)[i] + v;
    }
}

extern "C" __global__ void cuda_altup_join(const __grid_constant__ struct cuda_altup a)
{
    begin();
    join_embedding(a, shared_row(a));
}

extern "C" __global__ void cuda_altup_predict(const __grid_constant__ struct cuda_altup a)
{
    begin();
    __shared__ float factors[CUDA_STREAMS][CUDA_STREAMS];
    const struct row r = shared_row(a);
    const uint32_t n = a.count;
    float m[CUDA_STREAMS];
    if (a.post) join_embedding(a, r);
    load(r, stream(a, 0));
    modalities(a, r, m);
    for (uint32_t i = threadIdx.x; i < n * n; i += blockDim.x) factors[i / n][i % n] = coefficient(a.mix + i * n, m, n);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        float x[CUDA_STREAMS];
        for (uint32_t s = 0; s < n; s++) x[s] = stream(a, s)[i];
        for (uint32_t s = 0; s < n; s++) {
            float v = x[s];
            for (uint32_t of = 0; of < n; of++) v = v + x[of] * factors[s][of];
            stream(a, s)[i] = v;
            if (s == 0) a.x[own(a) + i] = v;
        }
    }
}

/* Leave the row in h, and quantized. */
__device__ static inline void leave(const struct cuda_altup &a, const struct row &r)
{
    for (uint32_t i = threadIdx.x; a.h && i < r.k; i += blockDim.x) a.h[own(a) + i] = r.x[i];
    if (a.q.q) quantize_row(a.q, blockIdx.x, r);
}

extern "C" __global__ void cuda_altup_correct(const __grid_constant__ struct cuda_altup a)
{
    begin();
    const struct row r = shared_row(a);
    const float *x = a.x + own(a);
    float m[CUDA_STREAMS], by[CUDA_STREAMS];
    load(r, x);
    modalities(a, r, m);
    for (uint32_t s = 0; s < a.count; s++) by[s] = 1.0f + coefficient(a.mix + s * a.count, m, a.count);
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) {
        const float change = x[i] - stream(a, 0)[i];
        for (uint32_t s = 0; s < a.count; s++) {
            const float v = stream(a, s)[i] + change * by[s];
            stream(a, s)[i] = v;
            if (s == 0) r.x[i] = v * a.scale[i];
        }
    }
    leave(a, r);
}

/* Stream a.stream -> h. */
extern "C" __global__ void cuda_altup_take(const __grid_constant__ struct cuda_altup a)
{
    begin();
    const struct row r = shared_row(a);
    load(r, stream(a, a.stream));
    leave(a, r);
}

/* The factor that gives side the magnitude of the row @like. */
__device__ static inline float match(const struct cuda_altup &a, const struct row &r, const float *like)
{
    __shared__ float size;
    load(r, like);
    __syncthreads();
    if (threadIdx.x < CUDA_WARP) {
        const double sum = doubles_of(r, 0.0, r.x, false);
        if (threadIdx.x == 0) size = (float)sqrt(sum);
    }
    __syncthreads();
    load(r, a.side + own(a));
    const float length = sqrtf(sum_of<true>(r, 0.0f));
    return size / (length > a.least ? length : a.least);
}

/* Stream a.stream of the first layer, from side; the first one is x. */
extern "C" __global__ void cuda_altup_begin(const __grid_constant__ struct cuda_altup a)
{
    begin();
    const struct row r = shared_row(a);
    const float *x = a.x + own(a), by = match(a, r, x);
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) {
        if (a.stream == 1) stream(a, 0)[i] = x[i];
        stream(a, a.stream)[i] = r.x[i] * by;
    }
}

/* Add stream a.stream, from side, to x, which the first one begins and the mean of all ends. */
extern "C" __global__ void cuda_altup_end(const __grid_constant__ struct cuda_altup a)
{
    begin();
    const struct row r = shared_row(a);
    const float by = match(a, r, stream(a, 0));
    float *x = a.x + own(a);
    for (uint32_t i = threadIdx.x; i < r.k; i += blockDim.x) {
        float v = a.stream == 1 ? stream(a, 0)[i] : x[i];
        v = v + r.x[i] * by;
        x[i] = a.stream == a.count - 1 ? v * (1.0f / (float)a.count) : v;
    }
}
