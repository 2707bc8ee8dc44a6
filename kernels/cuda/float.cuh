/* SPDX-License-Identifier: MIT */
#pragma once
/* Products of F32, F16 and BF16 weights: the work of a CTA (matmul-float.cu, matmul-group.cu). */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/stack.cuh"

#define COLUMNS 128 /* at once */
#define TOKENS  16
#define THREADS 256
#define EACH    (COLUMNS * CUDA_ROWS / THREADS) /* values that a thread loads, of both */

struct f32 {
    typedef float value;
    __device__ static float get(float x)
    {
        return x;
    }
};
struct f16 {
    typedef uint16_t value;
    __device__ static float get(uint16_t x)
    {
        return half_(x);
    }
};
struct bf16 {
    typedef uint16_t value;
    __device__ static float get(uint16_t x)
    {
        return __uint_as_float((uint32_t)x << 16);
    }
};

/* Some columns, in registers while those before are computed. */
struct columns {
    float w[EACH], x[EACH];
};

/* Rows of the activations, one behind the other. */
struct plain_rows {
    const float *f; /* [tokens][k] */
    uint32_t k;

    __device__ const float *at(uint32_t token) const
    {
        return f + (uint64_t)token * k;
    }
};

template <class type, class rows>
__device__ static inline void read_columns(const typename type::value *w, uint32_t columns, uint32_t k0,
                                           uint32_t token0, uint32_t end, const rows &x, struct columns &c)
{
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        const uint32_t at = threadIdx.x + i * THREADS, column = k0 + at / CUDA_ROWS;
        c.w[i] = column < columns ? type::get(w[(uint64_t)k0 * CUDA_ROWS + at]) : 0.0f;
        const uint32_t token = token0 + at / COLUMNS, k = k0 + at % COLUMNS;
        c.x[i] = token < end && k < columns ? x.at(token)[k] : 0.0f;
    }
}

/* Weights and activations of some columns, in shared memory. */
struct room {
    float w[COLUMNS][CUDA_ROWS], x[TOKENS][COLUMNS + 4];
};

/* The thread's output of the panel @w of @columns columns and the tokens [token0, end) of @x, at most TOKENS of them:
 * row threadIdx.x % 16, token threadIdx.x / 16. Only threads with @wanted get one. */
template <class type, class rows>
__device__ static inline float chain(struct room &in, const typename type::value *w, uint32_t columns, uint32_t token0,
                                     uint32_t end, const rows &x, bool wanted)
{
    const uint32_t r = threadIdx.x % CUDA_ROWS, t = threadIdx.x / CUDA_ROWS;
    struct columns c;
    float acc = 0.0f;
    read_columns<type>(w, columns, 0, token0, end, x, c);
    for (uint32_t k0 = 0; k0 < columns; k0 += COLUMNS) {
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++) {
            const uint32_t at = threadIdx.x + i * THREADS;
            in.w[at / CUDA_ROWS][at % CUDA_ROWS] = c.w[i];
            in.x[at / COLUMNS][at % COLUMNS] = c.x[i];
        }
        __syncthreads();
        if (k0 + COLUMNS < columns) read_columns<type>(w, columns, k0 + COLUMNS, token0, end, x, c);
        const uint32_t n = columns - k0 < COLUMNS ? columns - k0 : COLUMNS;
        if (!wanted) continue;
        if (n == COLUMNS) {
#pragma unroll 16
            for (uint32_t i = 0; i < COLUMNS; i++) acc = fma_(in.w[i][r], in.x[t][i], acc);
        } else {
            for (uint32_t i = 0; i < n; i++) acc = fma_(in.w[i][r], in.x[t][i], acc);
        }
    }
    return acc;
}

/* Tokens [token0, end), at most TOKENS of them, of matrix number @expert of each stack. */
template <class type>
__device__ static inline void product(const struct cuda_matmul &a, uint32_t token0, uint32_t end, uint32_t expert)
{
    __shared__ struct room in;
    uint32_t of = 0;
    while (of + 1 < a.n_products && blockIdx.x >= a.of[of + 1].panel0) of++;
    const struct cuda_matrix &m = a.of[of];
    const uint32_t panel = blockIdx.x - m.panel0;
    const uint32_t r = threadIdx.x % CUDA_ROWS, t = threadIdx.x / CUDA_ROWS;
    const uint8_t *w = m.panels + (stack_of(m) * expert + panel) * m.panel_bytes;
    const bool stored = token0 + t < end && panel * CUDA_ROWS + r < m.rows;
    const struct plain_rows x = {a.f, a.k};
    const float acc = chain<type>(in, (const typename type::value *)w, a.k, token0, end, x, stored);
    if (stored) m.out[(uint64_t)(token0 + t) * m.ld + panel * CUDA_ROWS + r] = acc;
}
