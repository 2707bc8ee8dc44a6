/* SPDX-License-Identifier: MIT */
#pragma once
/* The input of a product of one token, in shared memory: codes, a row of f32, or the norm of one. Every CTA computes it
 * for itself. */
#include "kernels/cuda/vector.cuh"

#define EARLY 4 /* values of a row that a thread quantizes at once */

/* The activations, in shared memory. */
struct input {
    uint32_t *q; /* [k / 32][8] the words in another order, see word_at */
    float2 *d;   /* [k / 32] scale, scale times sum */
    short2 *s;   /* [k / 32] */
};

/* The place of word @w of a block: lane (row, h) of a product reads the words h, h + 4, h + 2 and h + 6 at once. */
__device__ static inline uint32_t word_at(uint32_t w)
{
    return w % 2 * 4 + w % 4 / 2 * 2 + w / 4;
}

/* Quantize the columns threadIdx + n * CUDA_ONE_THREADS of @v from @first on. */
__device__ static inline void put_codes(const struct input &x, uint32_t first, uint32_t k, const float v[EARLY])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    struct coded c[EARLY];
    encode<EARLY>(v, c);
#pragma unroll
    for (uint32_t n = 0; n < EARLY; n++) {
        const uint32_t i = first + threadIdx.x + n * CUDA_ONE_THREADS, b = i / CUDA_WARP;
        if (i >= k) continue;
        ((int8_t *)(x.q + b * 8 + word_at(lane / 4)))[lane % 4] = (int8_t)c[n].code;
        if (lane) continue;
        x.d[b] = make_float2(c[n].d, (float)(c[n].half[0] + c[n].half[1]) * c[n].d);
        x.s[b] = make_short2((short)c[n].half[0], (short)c[n].half[1]);
    }
}

__device__ static inline void copy_codes(const struct cuda_acts &a, uint32_t blocks, const struct input &x)
{
    for (uint32_t i = threadIdx.x; i < blocks * 8; i += CUDA_ONE_THREADS)
        x.q[i / 8 * 8 + word_at(i % 8)] = ((const uint32_t *)a.q)[i];
    for (uint32_t b = threadIdx.x; b < blocks; b += CUDA_ONE_THREADS) {
        x.d[b] = *(const float2 *)(a.d + (uint64_t)b * a.ld * 2);
        x.s[b] = *(const short2 *)(a.s + (uint64_t)b * a.ld * 2);
    }
}

/* The thread's values of a row from @first on; 1 beyond its end. */
struct values {
    float v[EARLY];
};

__device__ static inline struct values read_values(const float *row, uint32_t first, uint32_t k)
{
    struct values x;
#pragma unroll
    for (uint32_t n = 0; n < EARLY; n++) {
        const uint32_t i = first + threadIdx.x + n * CUDA_ONE_THREADS;
        x.v[n] = i < k ? row[i] : 1.0f;
    }
    return x;
}

__device__ static inline void put_row(const float *row, uint32_t k, const struct input &x)
{
    struct values now = read_values(row, 0, k);
    for (uint32_t first = 0; first < k; first += EARLY * CUDA_ONE_THREADS) {
        const struct values next = read_values(row, first + EARLY * CUDA_ONE_THREADS, k);
        put_codes(x, first, k, now.v);
        now = next;
    }
}

/* The joined row, which the first CTA also writes to memory. */
__device__ static inline void put_joined(const struct cuda_norm &a, float *v)
{
    for (uint32_t first = 0; first < a.k; first += EARLY * CUDA_ONE_THREADS) {
        const struct values s = read_values(a.x, first, a.k), h = read_values(a.h ? a.h : a.x, first, a.k);
#pragma unroll
        for (uint32_t n = 0; n < EARLY; n++) {
            const uint32_t i = first + threadIdx.x + n * CUDA_ONE_THREADS;
            if (i >= a.k) continue;
            float y = h.v[n];
            if (a.h && a.bias) y = y + a.bias[i];
            if (a.residual != 1.0f) y = y * a.residual;
            y = a.h ? s.v[n] + y : s.v[n];
            v[i] = a.h && a.out_scale ? y * *a.out_scale : y;
            if (a.h && a.to && blockIdx.x == 0) a.to[i] = v[i];
        }
    }
    __syncthreads();
}

/* A norm; @w: its first weights; @v: room for two rows. */
__device__ static inline void put_norm(const struct cuda_norm &a, struct values w, const struct input &x, float *v)
{
    __shared__ float one;
    float *stream = v + a.k;
    if (a.h && a.post) {
        read_row(a, 0, stream, v);
        join(a, stream, v, &one);
        for (uint32_t i = threadIdx.x; a.to && blockIdx.x == 0 && i < a.k; i += CUDA_ONE_THREADS) a.to[i] = v[i];
    } else {
        put_joined(a, v);
    }
    const float r = root_of(v, a.k, a.eps, &one);
    for (uint32_t first = 0; first < a.k; first += EARLY * CUDA_ONE_THREADS) {
        if (first) w = read_values(a.w, first, a.k);
        const struct values y = read_values(v, first, a.k);
#pragma unroll
        for (uint32_t n = 0; n < EARLY; n++)
            w.v[n] = first + threadIdx.x + n * CUDA_ONE_THREADS < a.k ? y.v[n] * r * w.v[n] : 1.0f;
        put_codes(x, first, a.k, w.v);
    }
}
