/* SPDX-License-Identifier: MIT */
#pragma once
/* Products of quantized types with few tokens: the work of a CTA (matmul-few.cu, matmul-group.cu). */
#include "kernels/cuda/form.cuh"

#define AHEAD 4 /* blocks that a warp reads at once */

/* A chunk in shared memory. */
struct chunk {
    float *sum;   /* [chunk][tokens][16] */
    float *minus; /* the same of msum, or the tokens' scales times their sums: [chunk][tokens] */
    float *d, *m; /* [chunk][16] */
    float *dx;    /* [chunk][tokens] */
};

struct job {
    const uint8_t *panel;
    uint32_t first, tokens; /* tokens of the CTA */
};

/* The operands of eight tokens. */
struct acts {
    uint32_t of[2];
};

/* Those of the tokens from @first of the job on for block @b: zero for tokens that do not exist. */
__device__ static inline struct acts read_acts(const struct cuda_matmul &a, const struct job &j, uint32_t b,
                                               uint32_t first)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, token = first + lane / 4, t = lane % 4;
    if (token >= j.tokens) return {{0, 0}};
    const uint32_t *q = (const uint32_t *)(a.x.q + (uint64_t)(j.first + token) * a.k + b * CUDA_WARP);
    return {{q[t], q[t + 4]}};
}

/* What a lane reads of the weights of some blocks, the scales being those of row lane % 16. */
struct weights {
    struct raw top[AHEAD], low[AHEAD];
    struct scale scale[AHEAD];
};

/* Those of every blockDim / 32-th block from @b on, before @to. */
template <int W, int S, bool M>
__device__ static inline void read_weights(const struct cuda_matmul &a, const struct job &j, uint32_t b, uint32_t to,
                                           struct weights &w)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, warps = blockDim.x / CUDA_WARP, row = lane / 4, t = lane % 4;
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; i++) {
        if (b + i * warps >= to) continue;
        const struct place p = place_of(a.form, j.panel, b + i * warps);
        w.top[i] = read_raw<W>(a.form, p.codes, row, t);
        w.low[i] = read_raw<W>(a.form, p.codes, row + 8, t);
        w.scale[i] = scale_of<S, M>(a.form, p, lane % CUDA_ROWS);
    }
}

/* The scale of token lane in block @b, and the scale times the sum of the codes. */
__device__ static inline float2 read_token(const struct cuda_matmul &a, const struct job &j, uint32_t b)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, token = min(lane, j.tokens - 1);
    return *(const float2 *)(a.x.d + ((uint64_t)b * a.x.ld + j.first + token) * 2);
}

/* Leave the sums of eight tokens from @first on in the @i-th place of the chunk, block @b. */
template <int S, bool M>
__device__ static inline void put_sums(const struct cuda_matmul &a, const struct job &j, const struct chunk &s,
                                       uint32_t b, uint32_t i, uint32_t first, const int c[4], const struct scale &up,
                                       const struct scale &down)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
#pragma unroll
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t token = first + 2 * t + n % 2, r = row + n / 2 * 8;
        if (token >= j.tokens) continue;
        s.sum[(i * j.tokens + token) * CUDA_ROWS + r] = (float)c[n];
        if (!(S == HALVES && M)) continue;
        const struct scale &sc = n < 2 ? up : down;
        const int16_t *q = a.x.s + ((uint64_t)b * a.x.ld + j.first + token) * 2;
        s.minus[(i * j.tokens + token) * CUDA_ROWS + r] = (float)(sc.min[0] * q[0] + sc.min[1] * q[1]);
    }
}

/* The sums of block @b, the @i-th of the chunk. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void few_block(const struct cuda_matmul &a, const struct job &j, const struct chunk &s,
                                        uint32_t b, uint32_t i, struct raw top, struct raw low, const struct scale &own,
                                        const struct acts *x, float2 d)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
    const struct place p = place_of(a.form, j.panel, b);
    const struct pair first = decode<W, T>(a.form, top, t), last = decode<W, T>(a.form, low, t);
    struct scale up, down;
    if (S == HALVES) up = scale_of<S, M>(a.form, p, row), down = scale_of<S, M>(a.form, p, row + 8);
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        int c[4];
        sums<S>(c, first, last, up, down, x[n].of);
        put_sums<S, M>(a, j, s, b, i, n * 8, c, up, down);
    }
    if (lane < CUDA_ROWS) {
        s.d[i * CUDA_ROWS + lane] = own.d;
        if (M) s.m[i * CUDA_ROWS + lane] = own.m;
    }
    if (lane < j.tokens) {
        s.dx[i * j.tokens + lane] = d.x;
        if (M && S != HALVES) s.minus[i * j.tokens + lane] = d.y;
    }
}

/* The blocks [from, to) of the panel. @ready: the first of the warp are in @w. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void few_sums(const struct cuda_matmul &a, const struct job &j, const struct chunk &s,
                                       uint32_t from, uint32_t to, struct weights &w, bool ready)
{
    const uint32_t warps = blockDim.x / CUDA_WARP;
    for (uint32_t b = from + threadIdx.x / CUDA_WARP; b < to; b += warps * AHEAD) {
        struct acts x[AHEAD][N];
        float2 d[AHEAD];
        if (!ready) read_weights<W, S, M>(a, j, b, to, w);
        ready = false;
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            if (b + i * warps >= to) continue;
            d[i] = read_token(a, j, b + i * warps);
#pragma unroll
            for (uint32_t n = 0; n < N; n++) x[i][n] = read_acts(a, j, b + i * warps, n * 8);
        }
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++)
            if (b + i * warps < to)
                few_block<W, S, M, T, N>(a, j, s, b + i * warps, b + i * warps - from, w.top[i], w.low[i], w.scale[i],
                                         x[i], d[i]);
    }
}

/* The job's tokens and panel number @panel of @m. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void few(const struct cuda_matmul &a, const struct cuda_matrix &m, const struct job &j,
                                  uint32_t panel)
{
    extern __shared__ float shared[];
    const uint32_t nb = a.k / CUDA_WARP, tokens = j.tokens;
    struct chunk s;
    s.sum = shared;
    s.d = s.sum + a.chunk * tokens * CUDA_ROWS;
    s.m = s.d + a.chunk * CUDA_ROWS;
    s.dx = s.m + (M ? a.chunk * CUDA_ROWS : 0);
    s.minus = s.dx + a.chunk * tokens;
    const uint32_t r = threadIdx.x % CUDA_ROWS, token = threadIdx.x / CUDA_ROWS, row = panel * CUDA_ROWS + r;
    struct weights w; /* the first are read while the kernel before still runs */
    float acc = 0.0f;
    read_weights<W, S, M>(a, j, threadIdx.x / CUDA_WARP, nb < a.chunk ? nb : a.chunk, w);
    wait_before();
    for (uint32_t from = 0; from < nb; from += a.chunk) {
        const uint32_t to = nb - from < a.chunk ? nb : from + a.chunk;
        if (from) __syncthreads();
        few_sums<W, S, M, T, N>(a, j, s, from, to, w, from == 0);
        __syncthreads();
        if (token >= tokens) continue;
#pragma unroll 8
        for (uint32_t b = from; b < to; b++) {
            const uint32_t i = b - from, at = i * tokens + token;
            const float dx = s.dx[at];
            acc = fma_(s.sum[at * CUDA_ROWS + r], s.d[i * CUDA_ROWS + r] * dx, acc);
            if (M && S == HALVES) acc = fma_(s.minus[at * CUDA_ROWS + r], s.m[i * CUDA_ROWS + r] * dx, acc);
            if (M && S != HALVES) acc = fma_(s.m[i * CUDA_ROWS + r], s.minus[at], acc);
        }
    }
    if (token < tokens && row < m.rows) m.out[(uint64_t)(j.first + token) * m.ld + row] = acc;
}
