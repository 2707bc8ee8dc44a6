/* SPDX-License-Identifier: MIT */
#pragma once
/* Products of quantized types with many tokens, on tensor cores: the work of a CTA of matmul-many.cu and
 * matmul-group-many.cu. */
#include "kernels/cuda/stage.cuh"

/* The operands of the tokens of eights @e and @e + 1 in block @j of the stage: x[0], x[1], and x[2], x[3]. */
__device__ static inline void read_tokens(const uint8_t (*q)[CODES], uint32_t j, uint32_t x[4])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, chunk = j * 2 + lane / 8 % 2;
    const uint32_t at = shared_at(&q[lane / 16 * 8 + lane % 8][(chunk ^ lane % 8) * 16]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
}

/* One panel of a block. */
struct operand {
    struct pair top, low;
    float2 d, m;
    struct factors f[2];
};

template <int S, bool M, bool T>
__device__ static inline void isum(int c[4], const struct operand &o, const uint32_t q[2], int4 x)
{
    if (is_unsigned<S, T>) {
        const int from[4] = {x.x, x.y, x.z, x.w};
        mma32_onto<true>(c, from, o.top, o.low, q);
        return;
    }
    struct scale top, low;
    top.sub[0] = o.f[0].sub[0], top.sub[1] = o.f[0].sub[1], low.sub[0] = o.f[1].sub[0], low.sub[1] = o.f[1].sub[1];
    sums<S>(c, o.top, o.low, top, low, q);
}

/* What is behind isum: nothing, scales times sums, or sums of halves. */
__device__ static inline float add_offset(float acc, float, const struct factors &, float, int4, int)
{
    return acc;
}

__device__ static inline float add_offset(float acc, float m, const struct factors &, float, float2 x, int n)
{
    return fma_(m, n ? x.y : x.x, acc);
}

__device__ static inline float add_offset(float acc, float m, const struct factors &f, float scale, short4 x, int n)
{
    const int msum = n ? f.min[0] * x.z + f.min[1] * x.w : f.min[0] * x.x + f.min[1] * x.y;
    return fma_((float)msum, m * scale, acc);
}

__device__ static inline int4 start_of(int4 x)
{
    return x;
}

template <typename X> __device__ static inline int4 start_of(X)
{
    return make_int4(0, 0, 0, 0);
}

/* Block @j of a stage: the warp's share. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void multiply(const struct cuda_form &f, const struct stage<W, S, M, T, N> &from, uint32_t j,
                                       float acc[panels_of_warp<S, N>][N][4])
{
    constexpr uint32_t panels = panels_of_warp<S, N>, across = PANELS / panels;
    const struct cuda_form form = known<W, S, M, T>(f);
    const uint32_t warp = threadIdx.x / CUDA_WARP, r = threadIdx.x % CUDA_WARP / 4, t = threadIdx.x % 4;
    const uint32_t panel = warp % across * panels, token = warp / across * N * 8;
    struct operand o[panels];
#pragma unroll
    for (uint32_t i = 0; i < panels; i++) {
        const uint32_t row = (panel + i) * CUDA_ROWS + 2 * r;
        struct raw top, low;
        read_two<W>(form, from.w[panel + i][j], r, t, top, low);
        if (is_unsigned<S, T>)
            o[i].top = decode_unsigned<W>(top, t), o[i].low = decode_unsigned<W>(low, t);
        else
            o[i].top = decode<W, T>(form, top, t), o[i].low = decode<W, T>(form, low, t);
        o[i].d = *(const float2 *)&from.d[j][row];
        if (M) o[i].m = *(const float2 *)&from.m[j][row];
        if (S == HALVES) o[i].f[0] = from.f[j][row], o[i].f[1] = from.f[j][row + 1];
    }
    static_assert(N % 2 == 0, "ldmatrix reads two eights");
    uint32_t q[4];
#pragma unroll
    for (int e = 0; e < N; e++) {
        if (e % 2 == 0) read_tokens(&from.q[token + e * 8], j, q);
        const uint32_t two = token / 2 + e * 4 + t;
        const float2 scale = from.scale[j][two];
        typename extra_of<S, M, T>::type x = {};
        if (from.extra) x = from.x[j][two];
#pragma unroll
        for (uint32_t i = 0; i < panels; i++) {
            int c[4];
            isum<S, M, T>(c, o[i], q + e % 2 * 2, start_of(x));
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const float by = n % 2 ? scale.y : scale.x;
                acc[i][e][n] = fma_((float)c[n], (n < 2 ? o[i].d.x : o[i].d.y) * by, acc[i][e][n]);
                acc[i][e][n] = add_offset(acc[i][e][n], n < 2 ? o[i].m.x : o[i].m.y, o[i].f[n / 2], by, x, n % 2);
            }
        }
    }
}

template <int panels, int N>
__device__ static inline void store(const struct cuda_matmul &a, uint32_t panel0, uint32_t first, uint32_t end,
                                    const float acc[panels][N][4])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
#pragma unroll
    for (uint32_t i = 0; i < panels; i++) {
        if (panel0 + i >= a.panels) continue;
        const struct cuda_matrix &m = a.of[product_of(a, panel0 + i)];
        const uint32_t row = (panel0 + i - m.panel0) * CUDA_ROWS + lane / 4 * 2;
#pragma unroll
        for (int e = 0; e < N; e++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const uint32_t token = first + e * 8 + lane % 4 * 2 + n;
                float *to = m.out + (uint64_t)token * m.ld + row;
                if (token >= end) continue;
                if (row < m.rows) to[0] = acc[i][e][n];
                if (row + 1 < m.rows) to[1] = acc[i][e][n + 2];
            }
    }
}

/* Tokens [first, end), of matrix number @expert of each stack. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void many(const struct cuda_matmul &a, uint32_t first, uint32_t end, uint32_t expert)
{
    extern __shared__ __align__(128) uint8_t shared[];
    struct room<W, S, M, T, N> &at = *(struct room<W, S, M, T, N> *)shared;
    const uint32_t warp = threadIdx.x / CUDA_WARP, nb = a.k / CUDA_WARP;
    constexpr uint32_t panels = panels_of_warp<S, N>, across = PANELS / panels;
    const uint32_t panel0 = blockIdx.x * PANELS;
    struct scales_of<W, S, M, T, N> scales;
    float acc[panels][N][4] = {};
    static_assert(sizeof(at) <= CUDA_MANY_SHARED(W, 8 * N * DOWN), "the host knows the size");
    if (threadIdx.x < PANELS) at.panels[threadIdx.x] = panel_of(a, panel0 + threadIdx.x, expert);
    __syncthreads();
    copy_codes<W, S, M, T, N>(a, at, at.stages[0], first, 0);
    scales.read(a, at.panels, first, 0);
    scales.write(a, at.stages[0]);
    for (uint32_t b0 = 0, i = 0; b0 < nb; b0 += BLOCKS, i ^= 1) {
        const uint32_t ahead = b0 + BLOCKS;
        wait_copies();
        __syncthreads(); /* all have the stage, and have left the one that is filled now */
        if (ahead < nb) {
            copy_codes<W, S, M, T, N>(a, at, at.stages[i ^ 1], first, ahead);
            scales.read(a, at.panels, first, ahead);
        }
        if (ahead <= nb) {
#pragma unroll
            for (uint32_t j = 0; j < BLOCKS; j++) multiply<W, S, M, T, N>(a.form, at.stages[i], j, acc);
        } else {
#pragma unroll 1
            for (uint32_t j = 0; j < nb - b0; j++) multiply<W, S, M, T, N>(a.form, at.stages[i], j, acc);
        }
        if (ahead < nb) scales.write(a, at.stages[i ^ 1]);
    }
    store<panels, N>(a, panel0 + warp % across * panels, first + warp / across * N * 8, end, acc);
}
