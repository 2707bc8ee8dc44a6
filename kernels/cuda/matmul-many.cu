/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with many tokens. A warp computes 32 rows (two panels) of N * 8 tokens on tensor cores,
 * its accumulators in registers; a CTA is two by two such warps. Grid: (panels / 4, tokens / 16 N), rounded up. N is 8
 * (cuda_many_*), or 4 (cuda_some_*) where there would be too few CTAs.
 */
#include "kernels/cuda/form.cuh"

#define PANELS 2 /* of a warp */

/* A warp's share. Panels and tokens that do not exist are those of the last one, and are not stored. */
template <int N> struct share {
    const uint8_t *panel[PANELS];
    uint32_t first;     /* token */
    const int8_t *q[N]; /* the lane's token of each eight, and its columns */
};

template <int W> struct weights {
    struct raw top[PANELS], low[PANELS];
};

template <int W, int N>
__device__ static inline void read_weights(const struct cuda_matmul &a, const struct share<N> &s, uint32_t b,
                                           struct weights<W> &w)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < PANELS; i++) {
        const uint8_t *codes = place_of(a.form, s.panel[i], b).codes;
        w.top[i] = read_raw<W>(a.form, codes, row, t);
        w.low[i] = read_raw<W>(a.form, codes, row + 8, t);
    }
}

/* The scales and sums of the lane's two tokens of each eight; sx: scales times sums. */
struct scales_of {
    float d[2], sx[2];
    int s[2][2];
};

template <int S, bool M>
__device__ static inline struct scales_of read_scales(const struct cuda_matmul &a, uint32_t b, uint32_t first)
{
    struct scales_of x;
    const uint32_t token = first + threadIdx.x % 4 * 2;
    const uint64_t at = (uint64_t)b * a.x.ld + token; /* ld has room for whole CTAs */
    const float4 d = *(const float4 *)(a.x.d + at * 2);
    x.d[0] = d.x, x.sx[0] = d.y, x.d[1] = d.z, x.sx[1] = d.w;
    if (!M || S != HALVES) return x;
    const short4 q = *(const short4 *)(a.x.s + at * 2);
    x.s[0][0] = q.x, x.s[0][1] = q.y, x.s[1][0] = q.z, x.s[1][1] = q.w;
    return x;
}

/* One block of 32 columns: acc += … */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void many_block(const struct cuda_matmul &a, const struct share<N> &s, uint32_t b,
                                         const struct weights<W> &w, float acc[PANELS][N][4])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
    struct pair up[PANELS], down[PANELS];
    struct scale top[PANELS], low[PANELS];
#pragma unroll
    for (int i = 0; i < PANELS; i++) {
        const struct place p = place_of(a.form, s.panel[i], b);
        up[i] = decode<W, T>(a.form, w.top[i], t), down[i] = decode<W, T>(a.form, w.low[i], t);
        top[i] = scale_of<S, M>(a.form, p, row), low[i] = scale_of<S, M>(a.form, p, row + 8);
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
        const struct scales_of x = read_scales<S, M>(a, b, s.first + e * 8);
        const uint32_t *q = (const uint32_t *)(s.q[e] + b * CUDA_WARP);
        const uint32_t x0 = q[0], x1 = q[4];
#pragma unroll
        for (int i = 0; i < PANELS; i++) {
            int c[4];
            sums<S>(c, up[i], down[i], top[i], low[i], x0, x1);
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const struct scale &r = n < 2 ? top[i] : low[i];
                float *to = &acc[i][e][n];
                *to = fma_((float)c[n], r.d * x.d[n % 2], *to);
                if (M && S != HALVES) *to = fma_(r.m, x.sx[n % 2], *to);
                if (!M || S != HALVES) continue;
                const int msum = r.min[0] * x.s[n % 2][0] + r.min[1] * x.s[n % 2][1];
                *to = fma_((float)msum, r.m * x.d[n % 2], *to);
            }
        }
    }
}

template <int N>
__device__ static inline void store(const struct cuda_matmul &a, const struct share<N> &s, uint32_t panel0,
                                    const float acc[PANELS][N][4])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
#pragma unroll
    for (int i = 0; i < PANELS; i++) {
        if (panel0 + i >= a.panels) continue;
        const struct cuda_matrix &m = a.of[product_of(a, panel0 + i)];
#pragma unroll
        for (int e = 0; e < N; e++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const uint32_t row = (panel0 + i - m.panel0) * CUDA_ROWS + lane / 4 + n / 2 * 8;
                const uint32_t token = s.first + e * 8 + lane % 4 * 2 + n % 2;
                if (row < m.rows && token < a.n) m.out[(uint64_t)token * m.ld + row] = acc[i][e][n];
            }
    }
}

template <int W, int S, bool M, bool T, int N> __device__ static inline void many(const struct cuda_matmul &a)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP, nb = a.k / CUDA_WARP;
    const uint32_t panel0 = (blockIdx.x * 2 + warp % 2) * PANELS;
    struct share<N> s;
    s.first = (blockIdx.y * 2 + warp / 2) * N * 8;
    if (panel0 >= a.panels || s.first >= a.n) return;
#pragma unroll
    for (uint32_t i = 0; i < PANELS; i++) {
        const uint32_t panel = panel0 + i < a.panels ? panel0 + i : a.panels - 1;
        const struct cuda_matrix &m = a.of[product_of(a, panel)];
        s.panel[i] = m.panels + (uint64_t)(panel - m.panel0) * m.panel_bytes;
    }
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        const uint32_t token = s.first + e * 8 + lane / 4;
        s.q[e] = a.x.q + (uint64_t)(token < a.n ? token : a.n - 1) * a.k + lane % 4 * 4;
    }
    float acc[PANELS][N][4] = {};
    struct weights<W> now, next;
    read_weights<W, N>(a, s, 0, now);
    for (uint32_t b = 0; b < nb; b++) {
        if (b + 1 < nb) read_weights<W, N>(a, s, b + 1, next);
        many_block<W, S, M, T, N>(a, s, b, now, acc);
        now = next;
    }
    store(a, s, panel0, acc);
}

#define MANY(name, width, scales, offset, table)                                                                       \
    extern "C" __global__ void __launch_bounds__(128, 3)                                                               \
        cuda_many_##name(const __grid_constant__ struct cuda_matmul a)                                                 \
    {                                                                                                                  \
        begin();                                                                                                       \
        many<width, scales, offset, table, 8>(a);                                                                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(128, 4)                                                               \
        cuda_some_##name(const __grid_constant__ struct cuda_matmul a)                                                 \
    {                                                                                                                  \
        begin();                                                                                                       \
        many<width, scales, offset, table, 4>(a);                                                                      \
    }
KINDS(MANY)
