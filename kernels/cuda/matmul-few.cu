/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with up to CUDA_FEW tokens. A CTA computes one panel: its warps share the columns and
 * leave the exact sums of each block in shared memory; then a thread of each output adds them in their order.
 * Grid: (panels, tokens / CUDA_FEW); shared memory: few_bytes() for each block of a chunk.
 */
#include "kernels/cuda/form.cuh"

#define AHEAD 4 /* blocks that a warp reads at once */

/* A chunk in shared memory. */
struct chunk {
    float *sum;   /* [chunk][tokens][16] */
    float *minus; /* the same of msum, or of the tokens' sums: [chunk][tokens] */
    float *d, *m; /* [chunk][16] */
};

struct job {
    const uint8_t *panel;
    uint32_t first, tokens; /* tokens of the CTA */
};

/* The operands of the tokens for block @b: zero for those that do not exist. */
__device__ static inline void read_acts(const struct cuda_matmul &a, const struct job &j, uint32_t b, uint32_t x[2])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, token = lane / 4, t = lane % 4;
    x[0] = x[1] = 0;
    if (token >= j.tokens) return;
    const uint32_t *q = (const uint32_t *)(a.x.q + (uint64_t)(j.first + token) * a.k + b * CUDA_WARP);
    x[0] = q[t];
    x[1] = q[t + 4];
}

/* The sums of block @b, the @i-th of the chunk. */
template <int W, int S, bool M, bool T>
__device__ static inline void few_block(const struct cuda_matmul &a, const struct job &j, const struct chunk &s,
                                        uint32_t b, uint32_t i, struct raw top, struct raw low, const uint32_t x[2])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
    const struct place p = place_of(a.form, j.panel, b);
    struct scale up, down;
    if (S == HALVES) up = scale_of<S, M>(a.form, p, row), down = scale_of<S, M>(a.form, p, row + 8);
    int c[4];
    sums<S>(c, decode<W, T>(a.form, top, t), decode<W, T>(a.form, low, t), up, down, x[0], x[1]);
#pragma unroll
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t token = 2 * t + n % 2, r = row + n / 2 * 8;
        if (token >= j.tokens) continue;
        s.sum[(i * j.tokens + token) * CUDA_ROWS + r] = (float)c[n];
        if (!(S == HALVES && M)) continue;
        const struct scale &sc = n < 2 ? up : down;
        const int16_t *q = a.x.s + ((uint64_t)b * a.x.ld + j.first + token) * 2;
        s.minus[(i * j.tokens + token) * CUDA_ROWS + r] = (float)(sc.min[0] * q[0] + sc.min[1] * q[1]);
    }
    if (lane < CUDA_ROWS) {
        const struct scale sc = scale_of<S, M>(a.form, p, lane);
        s.d[i * CUDA_ROWS + lane] = sc.d;
        if (M) s.m[i * CUDA_ROWS + lane] = sc.m;
    }
    if (S != HALVES && M && lane < j.tokens) {
        const int16_t *q = a.x.s + ((uint64_t)b * a.x.ld + j.first + lane) * 2;
        s.minus[i * j.tokens + lane] = (float)(q[0] + q[1]);
    }
}

/* The blocks [from, to) of the panel. */
template <int W, int S, bool M, bool T>
__device__ static inline void few_sums(const struct cuda_matmul &a, const struct job &j, const struct chunk &s,
                                       uint32_t from, uint32_t to)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, warps = blockDim.x / CUDA_WARP, row = lane / 4, t = lane % 4;
    for (uint32_t b = from + threadIdx.x / CUDA_WARP; b < to; b += warps * AHEAD) {
        struct raw top[AHEAD], low[AHEAD];
        uint32_t x[AHEAD][2];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            if (b + i * warps >= to) continue;
            const struct place p = place_of(a.form, j.panel, b + i * warps);
            top[i] = read_raw<W>(a.form, p.codes, row, t);
            low[i] = read_raw<W>(a.form, p.codes, row + 8, t);
            read_acts(a, j, b + i * warps, x[i]);
        }
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++)
            if (b + i * warps < to)
                few_block<W, S, M, T>(a, j, s, b + i * warps, b + i * warps - from, top[i], low[i], x[i]);
    }
}

template <int W, int S, bool M, bool T> __device__ static inline void few(const struct cuda_matmul &a)
{
    extern __shared__ float shared[];
    const uint32_t nb = a.k / CUDA_WARP, product = product_of(a, blockIdx.x);
    const struct cuda_matrix &m = a.of[product];
    const uint32_t panel = blockIdx.x - m.panel0, first = blockIdx.y * CUDA_FEW;
    const uint32_t tokens = a.n - first < CUDA_FEW ? a.n - first : CUDA_FEW;
    const struct job j = {m.panels + (uint64_t)panel * m.panel_bytes, first, tokens};
    struct chunk s;
    s.sum = shared;
    s.d = s.sum + a.chunk * tokens * CUDA_ROWS;
    s.m = s.d + a.chunk * CUDA_ROWS;
    s.minus = s.m + (M ? a.chunk * CUDA_ROWS : 0);
    const uint32_t r = threadIdx.x % CUDA_ROWS, token = threadIdx.x / CUDA_ROWS, row = panel * CUDA_ROWS + r;
    float acc = 0.0f;
    for (uint32_t from = 0; from < nb; from += a.chunk) {
        const uint32_t to = nb - from < a.chunk ? nb : from + a.chunk;
        if (from) __syncthreads();
        few_sums<W, S, M, T>(a, j, s, from, to);
        __syncthreads();
        if (token >= tokens) continue;
#pragma unroll 8
        for (uint32_t b = from; b < to; b++) {
            const uint32_t i = b - from, at = i * tokens + token;
            const float dx = a.x.d[(uint64_t)b * a.x.ld + first + token];
            acc = fma_(s.sum[at * CUDA_ROWS + r], s.d[i * CUDA_ROWS + r] * dx, acc);
            if (M) acc = fma_(s.minus[S == HALVES ? at * CUDA_ROWS + r : at], s.m[i * CUDA_ROWS + r] * dx, acc);
        }
    }
    if (token < tokens && row < m.rows) m.out[(uint64_t)(first + token) * m.ld + row] = acc;
}

/* Bring the CTA's panel into the L2 cache. Weights do not depend on the kernel before. */
__device__ static inline void prefetch(const struct cuda_matmul &a)
{
    const struct cuda_matrix &m = a.of[product_of(a, blockIdx.x)];
    const uint8_t *panel = m.panels + (uint64_t)(blockIdx.x - m.panel0) * m.panel_bytes;
    for (uint32_t i = threadIdx.x * 128; blockIdx.y == 0 && i < m.panel_bytes; i += blockDim.x * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(panel + i));
}

#define FEW(name, width, scales, offset, table)                                                                        \
    extern "C" __global__ void cuda_few_##name(const __grid_constant__ struct cuda_matmul a)                           \
    {                                                                                                                  \
        prefetch(a);                                                                                                   \
        begin();                                                                                                       \
        few<width, scales, offset, table>(a);                                                                          \
    }
KINDS(FEW)
