/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The stages of products with many tokens: weights and activations of 4 blocks of 32 columns in shared memory. While
 * one is multiplied, the next one is copied.
 */
#include "kernels/cuda/form.cuh"
#include "kernels/cuda/stack.cuh"

#define PANELS 8 /* of a CTA */
#define ROWS   (PANELS * CUDA_ROWS)
#define DOWN   2 /* warps of a CTA that have other tokens */
#define STAGES 2
#define BLOCKS 4                    /* of a stage */
#define CODES  (BLOCKS * CUDA_WARP) /* bytes of a token in a stage */

/* Panels of a warp: more of them share what it reads of the tokens, but their accumulators must fit into registers. */
template <int S, int N> constexpr int panels_of_warp = S != HALVES &&N == 8 ? 4 : 2;
template <int S, int N> constexpr int threads_of_cta = PANELS / panels_of_warp<S, N> *DOWN *CUDA_WARP;

/* The factors of a row and a block whose halves have factors: of sums, and of the sums of activations. */
struct factors {
    int8_t sub[2], min[2];
};

/* Codes are unsigned, and the bias times the sum of the activations is subtracted; but not where halves have factors.
 */
template <int S, bool T> constexpr bool is_unsigned = S != HALVES && !T;

/* What two tokens need in a block beside their scales: with an offset, scales times sums, or the sums of halves; else
 * the sums times -bias, twice, as mma.sync adds them. */
template <int S, bool M, bool T> struct extra_of {
    typedef int4 type;
};
template <int S, bool T> struct extra_of<S, true, T> {
    typedef float2 type;
};
template <bool T> struct extra_of<HALVES, true, T> {
    typedef short4 type;
};

/* A stage. The 16-byte chunk c of token t's codes lies at c ^ t % 8, so that ldmatrix finds the chunks of eight tokens
 * in different banks. */
template <int W, int S, bool M, bool T, int N> struct alignas(16) stage {
    static constexpr int tokens = 8 * N * DOWN;
    static constexpr bool extra = M || is_unsigned<S, T>;
    uint8_t w[PANELS][BLOCKS][64 * W]; /* codes, as in a panel */
    uint8_t q[tokens][CODES];
    typename extra_of<S, M, T>::type x[extra ? BLOCKS : 1][extra ? tokens / 2 : 1];
    float2 scale[BLOCKS][tokens / 2];
    float d[BLOCKS][ROWS], m[M ? BLOCKS : 1][M ? ROWS : 2];
    struct factors f[S == HALVES ? BLOCKS : 1][S == HALVES ? ROWS : 1];
};

/* Shared memory. Panels that do not exist are the last one. */
template <int W, int S, bool M, bool T, int N> struct room {
    struct stage<W, S, M, T, N> stages[STAGES];
    const uint8_t *panels[PANELS];
};

/* Of matrix number @expert of the stack. */
__device__ static inline const uint8_t *panel_of(const struct cuda_matmul &a, uint32_t panel, uint32_t expert)
{
    panel = min(panel, a.panels - 1);
    const struct cuda_matrix &m = a.of[product_of(a, panel)];
    return m.panels + (stack_of(m) * expert + panel - m.panel0) * m.panel_bytes;
}

/* Start to copy the codes of the stage that begins with block @b0, of the tokens from @first on; there is room for
 * whole CTAs. Blocks that do not exist are not copied. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void copy_codes(const struct cuda_matmul &a, const struct room<W, S, M, T, N> &at,
                                         struct stage<W, S, M, T, N> &to, uint32_t first, uint32_t b0)
{
    constexpr uint32_t threads = threads_of_cta<S, N>;
    constexpr uint32_t all_w = PANELS * BLOCKS * 4 * W, n_w = (all_w + threads - 1) / threads;
    constexpr uint32_t n_q = to.tokens * CODES / 16 / threads;
    const uint32_t left = a.k / CUDA_WARP - b0, step = a.form.shift ? a.form.step : a.form.group;
    const uint32_t begin = (b0 >> a.form.shift) * a.form.group + (b0 & ((1u << a.form.shift) - 1u)) * a.form.step;
#pragma unroll
    for (uint32_t i = 0; i < n_w; i++) {
        const uint32_t n = threadIdx.x + i * threads, block = n / (4 * W) % BLOCKS;
        if (n < all_w && block < left)
            copy16((uint8_t *)to.w + n * 16, at.panels[n / (4 * W * BLOCKS)] + begin + block * step + n % (4 * W) * 16);
    }
    const uint32_t token = threadIdx.x / (CODES / 16), chunk = threadIdx.x % (CODES / 16);
    const int8_t *q = a.x.q + (uint64_t)(first + token) * a.k + b0 * CUDA_WARP + chunk * 16;
    if (chunk / 2 < left)
#pragma unroll
        for (uint32_t i = 0; i < n_q; i++) {
            constexpr uint32_t each = threads / (CODES / 16); /* a multiple of 8 */
            copy16(&to.q[token + i * each][(chunk ^ token % 8) * 16], q + i * each * a.k);
        }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Scales of two rows and of two tokens, as they lie in memory: to decode them early would be to wait for them. */
struct raw_scales {
    uint32_t d, m, sub[2];
    float4 x;
    uint2 s; /* sums of halves, of each token */
};

__device__ static inline int sum_of(uint32_t halves)
{
    return (int16_t)halves + ((int32_t)halves >> 16);
}

/* A thread reads those of block @b and the rows, and the tokens, from 2 i on. */
template <int S, bool M>
__device__ static inline void read_rows(const struct cuda_form &f, const uint8_t *panel, uint32_t b, uint32_t row,
                                        struct raw_scales &to)
{
    const struct place p = place_of(f, panel, b);
    if (S != E8M0) to.d = word(p.group + f.d + row * 2);
    if (M) to.m = word(p.group + f.m + row * 2);
    if (S != PLAIN) to.sub[0] = __ldg((const uint16_t *)(p.sub + row));
    if (S == HALVES || (S == SUB && M)) to.sub[1] = __ldg((const uint16_t *)(p.sub + CUDA_ROWS + row));
}

__device__ static inline float half_of(uint32_t two, int i)
{
    return half_((uint16_t)(two >> 16 * i));
}

/* Write what read_rows has read to the stage. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void write_rows(const struct cuda_form &f, const struct raw_scales &r, uint32_t block,
                                         uint32_t row, struct stage<W, S, M, T, N> &to)
{
    float d[2], m[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t sub = r.sub[0] >> 8 * i & 0xff, other = r.sub[1] >> 8 * i & 0xff;
        d[i] = (S == E8M0 ? e8m0(sub) : half_of(r.d, i)) * f.unit;
        m[i] = M ? half_of(r.m, i) : 0.0f;
        if (S == SUB) d[i] = d[i] * (float)(int8_t)sub, m[i] = m[i] * -(float)other;
        if (S != HALVES) continue;
        m[i] = -m[i];
        to.f[block][row + i] =
            M ? factors{{(int8_t)(sub & 15), (int8_t)(other & 15)}, {(int8_t)(sub >> 4), (int8_t)(other >> 4)}}
              : factors{{(int8_t)sub, (int8_t)other}, {0, 0}};
    }
    *(float2 *)&to.d[block][row] = make_float2(d[0], d[1]);
    if (M) *(float2 *)&to.m[block][row] = make_float2(m[0], m[1]);
}

__device__ static inline void put(int4 &to, const struct raw_scales &r, int32_t bias)
{
    const int even = -bias * sum_of(r.s.x), odd = -bias * sum_of(r.s.y);
    to = make_int4(even, odd, even, odd);
}

__device__ static inline void put(float2 &to, const struct raw_scales &r, int32_t)
{
    to = make_float2(r.x.y, r.x.w);
}

__device__ static inline void put(short4 &to, const struct raw_scales &r, int32_t)
{
    *(uint2 *)&to = r.s;
}

template <int W, int S, bool M, bool T, int N>
__device__ static inline void write_tokens(const struct cuda_form &f, const struct raw_scales &r, uint32_t block,
                                           uint32_t two, struct stage<W, S, M, T, N> &to)
{
    to.scale[block][two] = make_float2(r.x.x, r.x.z);
    if (to.extra) put(to.x[block][two], r, f.bias);
}

/* The scales of a stage: a thread has two rows and two tokens of some blocks. */
template <int W, int S, bool M, bool T, int N> struct scales_of {
    typedef struct stage<W, S, M, T, N> stage_;
    static constexpr int threads = threads_of_cta<S, N>;
    static constexpr int in_rows = ROWS / 2, in_tokens = stage_::tokens / 2; /* threads of a block */
    static constexpr int n_rows = BLOCKS * in_rows / threads;
    static constexpr int n_tokens = (BLOCKS * in_tokens + threads - 1) / threads;
    struct raw_scales r[n_rows > n_tokens ? n_rows : n_tokens];

    __device__ inline void read(const struct cuda_matmul &a, const uint8_t *const *panels, uint32_t first, uint32_t b0)
    {
        const uint32_t last = a.k / CUDA_WARP - 1;
#pragma unroll
        for (int i = 0; i < n_rows; i++) {
            const uint32_t n = threadIdx.x + i * threads, b = min(b0 + n / in_rows, last);
            read_rows<S, M>(a.form, panels[n % in_rows * 2 / CUDA_ROWS], b, n % in_rows * 2 % CUDA_ROWS, r[i]);
        }
#pragma unroll
        for (int i = 0; i < n_tokens; i++) {
            const uint32_t n = threadIdx.x + i * threads, b = min(b0 + n / in_tokens, last);
            const uint64_t at = (uint64_t)b * a.x.ld + first + n % in_tokens * 2; /* ld has room for whole CTAs */
            r[i].x = *(const float4 *)(a.x.d + at * 2);
            if (stage_::extra && (!M || S == HALVES)) r[i].s = *(const uint2 *)(a.x.s + at * 2);
        }
    }

    __device__ inline void write(const struct cuda_matmul &a, stage_ &to) const
    {
#pragma unroll
        for (int i = 0; i < n_rows; i++) {
            const uint32_t n = threadIdx.x + i * threads;
            write_rows<W, S, M, T, N>(a.form, r[i], n / in_rows, n % in_rows * 2, to);
        }
#pragma unroll
        for (int i = 0; i < n_tokens; i++) {
            const uint32_t n = threadIdx.x + i * threads;
            if (n < BLOCKS * in_tokens) write_tokens<W, S, M, T, N>(a.form, r[i], n / in_tokens, n % in_tokens, to);
        }
    }
};
