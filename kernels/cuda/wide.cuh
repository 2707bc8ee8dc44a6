/* SPDX-License-Identifier: MIT */
#pragma once
/* What cuda_wide_* have in shared memory and in registers. */
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/form.cuh"
#include "kernels/cuda/wgmma.cuh"

/* Some blocks of the activations of 8 N tokens: codes as [8 columns][token][8], and for each block the scales, then
 * these times the sums of the codes. See struct cuda_acts. */
template <int N> struct alignas(CUDA_COPY_TO) wide_stage {
    uint8_t q[CUDA_WIDE_BLOCKS * 4][8 * N * 16];
    float d[CUDA_WIDE_BLOCKS][2][8 * N];
};

/* Shared memory. Weights: [slots][panels][piece]. */
template <int N> struct wide_room {
    struct wide_stage<N> *stages;
    uint8_t *weights;
};

/* Of each slot, of each stage: its copies are there; all warps have read it. */
struct bars {
    uint64_t *weights, *weights_read, *tokens, *tokens_read;
};

/* A block's tokens are computed in parts of so many eights. @sums: eights of sums of one. Two parts are under way. */
template <int S, int N> struct part_of {
    static constexpr int eights = S == HALVES || N == 8 ? 4 : 8, parts = N / eights;
    static constexpr int sums = S == HALVES ? 2 * eights : eights;
};

/* Operands: codes of two rows of a block, number 2 r of the warp's panel, for the lanes 4 r …, and the one behind. */
struct codes {
    uint32_t of[2][4]; /* of the first 16 columns, of the last */
};

/* What scales the sums of the two rows. */
template <int S> struct row_scales {
    float d[2], m[2];
    float sub[2][2], min[2][2]; /* factors of sums, and of sums of activations: [half][row] */
};

/* Codes of 4 columns, each with its bias, as f16: columns 0 and 2 of them, 1 and 3. */
__device__ static inline void halves_of(uint32_t codes, __half2 bias, uint32_t &even, uint32_t &odd)
{
    const uint32_t a = __byte_perm(codes, 0x64646464u, 0x4240), b = __byte_perm(codes, 0x64646464u, 0x4341);
    const __half2 x = __hsub2(*(const __half2 *)&a, bias), y = __hsub2(*(const __half2 *)&b, bias);
    even = *(const uint32_t *)&x, odd = *(const uint32_t *)&y;
}

/* Nibbles, low or high ones, of the bytes 0 and 2 of @x, each with its bias, as f16: 0x6400 | c is 1024 + c, and
 * 0x6400 | 16 c is 1024 + 16 c, a sixteenth of which is 64 + c. The instruction is (x & mask) | 0x64006400, of which
 * the compiler would make two. */
template <bool high> __device__ static inline uint32_t nibbles(uint32_t x, int bias)
{
    uint32_t c;
    asm("lop3.b32 %0, %1, %2, %3, 234;" : "=r"(c) : "r"(x), "r"(high ? 0x00f000f0 : 0x000f000f), "r"(0x64006400));
    const __half2 v = *(const __half2 *)&c, less = __half2half2(__int2half_rn(high ? -64 - bias : 1024 + bias));
    const __half2 y = high ? __hfma2(v, __half2half2(__float2half_rn(0.0625f)), less) : __hsub2(v, less);
    return *(const uint32_t *)&y;
}

/* The operands of a row: registers @row and @row + 2. */
template <int W, bool T>
__device__ static inline void operands(const struct cuda_form &f, struct raw x, int t, int row, uint32_t code[2][4])
{
    if (W == 4 && !T) {
        code[0][row] = nibbles<false>(x.a, f.bias), code[0][row + 2] = nibbles<false>(x.a >> 8, f.bias);
        code[1][row] = nibbles<true>(x.a, f.bias), code[1][row + 2] = nibbles<true>(x.a >> 8, f.bias);
        return;
    }
    struct pair p = decode_unsigned<W>(x, t);
    const int bias = T ? 128 : f.bias;
    if (T) p = {look_up(f.table, p.lo) ^ 0x80808080u, look_up(f.table, p.hi) ^ 0x80808080u};
    const __half2 by = __half2half2(__int2half_rn(1024 + bias)); /* 0x6400 | c is 1024 + c */
    halves_of(p.lo, by, code[0][row], code[0][row + 2]);
    halves_of(p.hi, by, code[1][row], code[1][row + 2]);
}

/* Codes of two rows as they lie in the panel. */
struct raw_codes {
    struct raw of[2];
};

template <int W, int S, bool M, bool T>
__device__ static inline struct raw_codes read_codes(const struct cuda_wide &a, const struct place &p)
{
    struct raw_codes x;
    read_two<W>(known<W, S, M, T>(a.m.form), p.codes, threadIdx.x % CUDA_WARP / 4, threadIdx.x % 4, x.of[0], x.of[1]);
    return x;
}

template <int W, int S, bool M, bool T>
__device__ static inline struct codes decode_codes(const struct cuda_wide &a, const struct raw_codes &raw)
{
    struct codes x;
#pragma unroll
    for (int i = 0; i < 2; i++) operands<W, T>(known<W, S, M, T>(a.m.form), raw.of[i], threadIdx.x % 4, i, x.of);
    return x;
}

/* Their scales: two values side by side of each. */
struct raw_scales {
    uint32_t d, m;
    uint16_t sub[2];
};

template <int S, bool M>
__device__ static inline struct raw_scales read_row_scales(const struct cuda_form &f, const struct place &p)
{
    const int row = threadIdx.x % CUDA_WARP / 4 * 2;
    struct raw_scales x = {};
    if (S != E8M0) x.d = *(const uint32_t *)(p.group + f.d + 2 * row);
    if (M) x.m = *(const uint32_t *)(p.group + f.m + 2 * row);
    if (S != PLAIN) x.sub[0] = *(const uint16_t *)(p.sub + row);
    if (S == HALVES || (S == SUB && M)) x.sub[1] = *(const uint16_t *)(p.sub + CUDA_ROWS + row);
    return x;
}

template <int S, bool M>
__device__ static inline struct row_scales<S> decode_row_scales(const struct cuda_form &f, const struct raw_scales &x) {
    struct row_scales<S> s = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint8_t c = (uint8_t)(x.sub[0] >> 8 * i), e = (uint8_t)(x.sub[1] >> 8 * i);
        s.d[i] = S == E8M0 ? e8m0(c) : half_((uint16_t)(x.d >> 16 * i));
        s.m[i] = M ? half_((uint16_t)(x.m >> 16 * i)) : 0.0f;
        if (S == SUB || S == HALVES) s.d[i] = s.d[i] * f.unit; /* that of others is 1 */
        if (S == SUB) s.d[i] = s.d[i] * (float)(int8_t)c;
        if (S == SUB && M) s.m[i] = s.m[i] * -(float)e;
        if (S != HALVES) continue;
        s.sub[0][i] = (float)(M ? c & 15 : (int8_t)c), s.sub[1][i] = (float)(M ? e & 15 : (int8_t)e);
        s.min[0][i] = (float)(c >> 4), s.min[1][i] = (float)(e >> 4);
        s.m[i] = -s.m[i];
    }
    return s;
}

/* What a lane reads for the tokens of a part, which has 8 E: scales of four tokens of each two eights. With an offset
 * also scales times sums, or sums of halves. */
template <int E>
struct token_scales {
    float4 of[E / 2];
};

template <int E> __device__ static inline struct token_scales<E> read_token_scales(const float *from) {
    struct token_scales<E> x;
#pragma unroll
    for (int i = 0; i < E / 2; i++) x.of[i] = *(const float4 *)(from + threadIdx.x % 4 * 4 + i * 16);
    return x;
}

/* @halves: the sums of the part's tokens, in global memory. */
template <int S, int E>
__device__ static inline struct token_scales<E> read_token_sums(const float *from, const int16_t *halves) {
    if (S != HALVES) return read_token_scales<E>(from);
    struct token_scales<E> x;
#pragma unroll
    for (int i = 0; i < E / 2; i++) x.of[i] = __ldg((const float4 *)(halves + (threadIdx.x % 4 * 4 + i * 16) * 2));
    return x;
}

/* The value of a sum: number @n of eight @e. */
template <int E>
__device__ static inline float one_of(const struct token_scales<E> &s, int e, int n)
{
    const float4 &x = s.of[e / 2];
    return e % 2 ? (n % 2 ? x.w : x.z) : (n % 2 ? x.y : x.x);
}

/* Factors of the sums of a part: [eight][as the sums lie]. */
template <int E> struct factors_of {
    float by[E][4];
};

template <int S, int E>
__device__ static inline struct factors_of<E> multiply_scales(const struct row_scales<S> &r,
                                                              const struct token_scales<E> &x) {
    struct factors_of<E> to;
#pragma unroll
    for (int e = 0; e < E; e++)
#pragma unroll
        for (int n = 0; n < 4; n++) to.by[e][n] = r.d[n / 2] * one_of(x, e, n);
    return to;
}
