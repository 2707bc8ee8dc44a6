/* SPDX-License-Identifier: MIT */
/*
 * Products of F32, F16 and BF16 weights with f32 activations: one chain over all columns for each output. A CTA has a
 * panel and 16 tokens, a thread for each output; the panel ([k][16]) and the activations pass through shared memory.
 * Grid: (panels, tokens / 16), rounded up; 256 threads.
 */
#include "kernels/cuda/device.cuh"

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

template <class type>
__device__ static inline void read_columns(const struct cuda_matmul &a, const typename type::value *w, uint32_t k0,
                                           uint32_t token0, struct columns &c)
{
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        const uint32_t at = threadIdx.x + i * THREADS, column = k0 + at / CUDA_ROWS;
        c.w[i] = column < a.k ? type::get(w[(uint64_t)k0 * CUDA_ROWS + at]) : 0.0f;
        const uint32_t token = token0 + at / COLUMNS, k = k0 + at % COLUMNS;
        c.x[i] = token < a.n && k < a.k ? a.f[(uint64_t)token * a.k + k] : 0.0f;
    }
}

template <class type> __device__ static inline void product(const struct cuda_matmul &a)
{
    __shared__ float ws[COLUMNS][CUDA_ROWS], xs[TOKENS][COLUMNS + 4];
    uint32_t of = 0;
    while (of + 1 < a.n_products && blockIdx.x >= a.of[of + 1].panel0) of++;
    const struct cuda_matrix &m = a.of[of];
    const uint32_t panel = blockIdx.x - m.panel0, token0 = blockIdx.y * TOKENS;
    const uint32_t r = threadIdx.x % CUDA_ROWS, t = threadIdx.x / CUDA_ROWS;
    const typename type::value *w = (const typename type::value *)(m.panels + (uint64_t)panel * m.panel_bytes);
    const bool stored = token0 + t < a.n && panel * CUDA_ROWS + r < m.rows;
    struct columns c;
    float acc = 0.0f;
    read_columns<type>(a, w, 0, token0, c);
    for (uint32_t k0 = 0; k0 < a.k; k0 += COLUMNS) {
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++) {
            const uint32_t at = threadIdx.x + i * THREADS;
            ws[at / CUDA_ROWS][at % CUDA_ROWS] = c.w[i];
            xs[at / COLUMNS][at % COLUMNS] = c.x[i];
        }
        __syncthreads();
        if (k0 + COLUMNS < a.k) read_columns<type>(a, w, k0 + COLUMNS, token0, c);
        const uint32_t n = a.k - k0 < COLUMNS ? a.k - k0 : COLUMNS;
        if (!stored) continue;
        if (n == COLUMNS) {
#pragma unroll 16
            for (uint32_t i = 0; i < COLUMNS; i++) acc = fma_(ws[i][r], xs[t][i], acc);
        } else {
            for (uint32_t i = 0; i < n; i++) acc = fma_(ws[i][r], xs[t][i], acc);
        }
    }
    if (stored) m.out[(uint64_t)(token0 + t) * m.ld + panel * CUDA_ROWS + r] = acc;
}

#define FLOATS(type)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        cuda_float_##type(const __grid_constant__ struct cuda_matmul a)                                                \
    {                                                                                                                  \
        begin();                                                                                                       \
        product<type>(a);                                                                                              \
    }
FLOATS(f32)
FLOATS(f16)
FLOATS(bf16)
