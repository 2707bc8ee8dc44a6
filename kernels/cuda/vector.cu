/* SPDX-License-Identifier: MIT */
/* Operations on rows: join and norm, quantization, activations, logits and the largest of them. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/vector.cuh"

/* A thread has four columns of a row, and those 4 blockDim further. */

/* Columns @i …; 0 behind the end of the row. @row is aligned as float4 is where @k is a multiple of 4. */
__device__ static inline void read4(const float *row, uint32_t i, uint32_t k, float x[4])
{
    if (k % 4 == 0 && i < k) {
        const float4 v = *(const float4 *)(row + i);
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
        return;
    }
#pragma unroll
    for (uint32_t n = 0; n < 4; n++) x[n] = i + n < k ? row[i + n] : 0.0f;
}

__device__ static inline void write4(float *row, uint32_t i, uint32_t k, const float x[4])
{
    if (k % 4 == 0 && i < k) {
        *(float4 *)(row + i) = make_float4(x[0], x[1], x[2], x[3]);
        return;
    }
#pragma unroll
    for (uint32_t n = 0; n < 4; n++)
        if (i + n < k) row[i + n] = x[n];
}

/* Weights, whose alignment is not known. */
__device__ static inline void read_weights(const float *w, uint32_t i, uint32_t k, float x[4])
{
    if ((uintptr_t)w % sizeof(float4) == 0) {
        read4(w, i, k, x);
        return;
    }
#pragma unroll
    for (uint32_t n = 0; n < 4; n++) x[n] = i + n < k ? w[i + n] : 0.0f;
}

/* Row @from of the stream, with what joins it and has no norm of its own: in @x, and @to, or NULL. */
__device__ static inline void read_joined(const struct cuda_norm &a, uint32_t from, float *x, float *to)
{
    for (uint32_t i = threadIdx.x * 4; i < a.k; i += blockDim.x * 4) {
        float s[4], h[4];
        read4(a.x + (uint64_t)from * a.k, i, a.k, s);
        if (a.h) {
            read4(a.h + (uint64_t)from * a.k, i, a.k, h);
#pragma unroll
            for (uint32_t n = 0; n < 4; n++) {
                if (a.bias && i + n < a.k) h[n] = h[n] + a.bias[i + n];
                if (a.residual != 1.0f) h[n] = h[n] * a.residual;
                s[n] = s[n] + h[n];
                if (a.out_scale) s[n] = s[n] * *a.out_scale;
            }
        }
        write4(x, i, a.k, s);
        if (to) write4(to, i, a.k, s);
    }
    __syncthreads();
}

/* The same where what joins has a norm. */
__device__ static inline void read_normed(const struct cuda_norm &a, uint32_t from, float *x, float *to)
{
    float *stream = x + a.k;
    read_row(a, from, stream, x, blockDim.x);
    join(a, stream, x, stream + a.k, blockDim.x);
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) to[i] = x[i];
}

/* Shared memory: 2 k floats, and one. */
extern "C" __global__ void cuda_norm(const __grid_constant__ struct cuda_norm a)
{
    extern __shared__ float4 shared[];
    float *x = (float *)shared, w[4] = {1.0f, 1.0f, 1.0f, 1.0f}, r = 1.0f;
    start_next();
    if (a.w) read_weights(a.w, threadIdx.x * 4, a.k, w); /* which no kernel writes */
    wait_before();
    const uint32_t from = a.gather ? a.gather[blockIdx.x] : blockIdx.x;
    float *to = a.gather ? a.to + (uint64_t)blockIdx.x * a.k : a.h ? a.x + (uint64_t)from * a.k : NULL;
    if (a.h && a.post)
        read_normed(a, from, x, to);
    else
        read_joined(a, from, x, to);
    if (a.w) r = root_of(x, a.k, a.eps, x + 2 * a.k, blockDim.x);
    for (uint32_t b = threadIdx.x / CUDA_WARP * 4 * CUDA_WARP; b < a.k; b += blockDim.x * 4) {
        const uint32_t i = b + threadIdx.x % CUDA_WARP * 4;
        float v[4];
        read4(x, i, a.k, v);
        if (a.w && i >= blockDim.x * 4) read_weights(a.w, i, a.k, w);
#pragma unroll
        for (uint32_t n = 0; n < 4; n++)
            if (a.w) v[n] = v[n] * r * w[n];
        if (a.f) write4(a.f + (uint64_t)blockIdx.x * a.k, i, a.k, v);
        if (a.q.q) quantize4(a.q, blockIdx.x, a.k, b, v);
    }
}

/* Quantize f. Grid: (columns / 4 threads, rows). */
extern "C" __global__ void cuda_quantize(const __grid_constant__ struct cuda_gated a)
{
    begin();
    const uint32_t first = first_of_warp();
    float x[4];
    read4(a.gate + (uint64_t)blockIdx.y * a.k, first + threadIdx.x % CUDA_WARP * 4, a.k, x);
    quantize4(a.q, blockIdx.y, a.k, first, x);
}

/* --- activations --- */

/* Grid: (columns / 4 threads, rows). */
extern "C" __global__ void cuda_gated(const __grid_constant__ struct cuda_gated a)
{
    begin();
    const uint32_t first = first_of_warp();
    const uint32_t i = first + threadIdx.x % CUDA_WARP * 4;
    const uint64_t row = (uint64_t)blockIdx.y * a.k;
    float g[4], u[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first >= a.k) return;
    read4(a.gate + row, i, a.k, g);
    if (a.up) read4(a.up + row, i, a.k, u);
    if (a.act == SILU && i + 4 <= a.k) {
#pragma unroll
        for (uint32_t n = 0; n < 4; n++) g[n] = gated(a, SILU, g[n], u[n], i + n);
    } else {
#pragma unroll
        for (uint32_t n = 0; n < 4; n++) g[n] = i + n < a.k ? gated(a, a.act, g[n], u[n], i + n) : 0.0f;
    }
    if (a.f)
#pragma unroll
        for (uint32_t n = 0; n < 4; n++)
            if (i + n < a.k) a.f[row + i + n] = g[n];
    if (a.q.q) quantize4(a.q, blockIdx.y, a.k, first, g);
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

/* --- the largest of a row --- */

#define NUMBER_OF(bits) ((bits) ^ ((int32_t)(bits) < 0 ? 0xffffffffu : 0x80000000u)) /* ordered as the floats are */

/* The number of @x, above that of column @i turned round; 0 for a NaN. The largest of these is the first of the largest
 * values: -0 and 0 are equal. */
__device__ static inline uint64_t rank_of(float x, uint32_t i)
{
    return x == x ? (uint64_t)NUMBER_OF(__float_as_uint(x == 0.0f ? 0.0f : x)) << 32 | (0xffffffffu - i) : 0;
}

__device__ static inline uint64_t largest_of_warp(uint64_t x)
{
    const uint32_t top = __reduce_max_sync(ALL, (uint32_t)(x >> 32));
    const uint32_t low = __reduce_max_sync(ALL, (uint32_t)(x >> 32) == top ? (uint32_t)x : 0);
    return (uint64_t)top << 32 | low;
}

/* Of all threads, in thread 0. */
__device__ static inline uint64_t largest_of_cta(uint64_t x)
{
    __shared__ uint64_t tops[CUDA_WARP];
    const uint32_t warp = threadIdx.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP;
    x = largest_of_warp(x);
    if (lane == 0) tops[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / CUDA_WARP ? tops[lane] : 0;
    __syncthreads();
    return largest_of_warp(x);
}

__device__ static inline int32_t id_of(uint64_t rank)
{
    const uint32_t top = (uint32_t)(rank >> 32);
    return top > NUMBER_OF(0xff800000u) && top < NUMBER_OF(0x7f800000u) ? (int32_t)(0xffffffffu - (uint32_t)rank) : -1;
}

/* The last CTA of a row joins what the others left. */
extern "C" __global__ void __launch_bounds__(256) cuda_largest(const __grid_constant__ struct cuda_largest a)
{
    __shared__ bool last;
    begin();
    const uint32_t from = blockIdx.x * CUDA_LARGEST, to = min(a.k, from + CUDA_LARGEST);
    const float *x = a.x + (uint64_t)blockIdx.y * a.k;
    uint64_t *parts = a.parts + (uint64_t)blockIdx.y * gridDim.x, top = 0;
#pragma unroll 4
    for (uint32_t i = from + threadIdx.x; i < to; i += 256) top = max(top, rank_of(x[i], i));
    top = largest_of_cta(top);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = top;
        __threadfence();
        last = atomicAdd(a.done + blockIdx.y, 1) + 1 == gridDim.x;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    top = 0;
    for (uint32_t i = threadIdx.x; i < gridDim.x; i += 256) top = max(top, __ldcg(parts + i));
    top = largest_of_cta(top);
    if (threadIdx.x == 0) a.best[blockIdx.y] = id_of(top), a.done[blockIdx.y] = 0;
}
