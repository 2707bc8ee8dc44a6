/* SPDX-License-Identifier: MIT */
#pragma once
/* What cuda_wide_* have in shared memory and in registers. */
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/form.cuh"
#include "kernels/cuda/wgmma.cuh"

/* Some blocks of the activations of 8 N tokens: codes as [8 columns][token][8], and for each block the scales, then
 * these times the sums of the codes. See struct cuda_acts. */
template <int N> struct alignas(128) wide_stage {
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

/* A block's tokens are computed in parts: what a warp has of the sums of one. Two parts are under way. */
template <int S, int N> struct part_of {
    static constexpr int parts = S == HALVES && N == 16 ? 4 : 2, eights = N / parts;
    static constexpr int sums = S == HALVES ? 2 * eights : eights;
};

/* What a lane has of the two rows of a block: number 2 r of the warp's panel, for the lanes 4 r …, and the one behind.
 */
template <int S> struct rows {
    uint32_t code[2][4]; /* operands: of the first 16 columns, of the last */
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

/* The operands of a row: registers @row and @row + 2. */
template <int W, bool T>
__device__ static inline void operands(const struct cuda_form &f, struct raw x, int t, int row, uint32_t code[2][4])
{
    struct pair p = decode_unsigned<W>(x, t);
    const int bias = T ? 128 : f.bias;
    if (T) p = {look_up(f.table, p.lo) ^ 0x80808080u, look_up(f.table, p.hi) ^ 0x80808080u};
    const __half2 by = __half2half2(__int2half_rn(1024 + bias)); /* 0x6400 | c is 1024 + c */
    halves_of(p.lo, by, code[0][row], code[0][row + 2]);
    halves_of(p.hi, by, code[1][row], code[1][row + 2]);
}

/* Codes of the rows 2 r and 2 r + 1. */
template <int W>
__device__ static inline void read_two(const struct cuda_form &f, const uint8_t *w, int r, int t, struct raw &top,
                                       struct raw &low)
{
    uint2 a = {}, b = {}, c = {}, d = {};
    w += 8 * r;
    if (W >= 4) a = *(const uint2 *)(w + 64 * t);
    if (W == 8) b = *(const uint2 *)(w + 64 * t + 256);
    if (W == 2 || W == 3 || W == 6) c = *(const uint2 *)(w + f.pairs), d = *(const uint2 *)(w + f.pairs + 64);
    if (W == 3 || W == 5) b = *(const uint2 *)(w + f.bits);
    top = {a.x, b.x, c.x, d.x}, low = {a.y, b.y, c.y, d.y};
}

/* What a lane reads of its rows, before they are decoded. */
struct raw_rows {
    struct raw codes[2];
    struct scale scale[2];
};

/* The rows of block @b of a panel's piece. */
template <int W, int S, bool M, bool T>
__device__ static inline struct raw_rows read_rows(const struct cuda_wide &a, const uint8_t *piece, uint32_t b)
{
    const struct cuda_form f = known<W, S, M, T>(a.m.form);
    const struct place p = place_of(f, piece, b);
    const int r = threadIdx.x % CUDA_WARP / 4, t = threadIdx.x % 4;
    struct raw_rows x;
    read_two<W>(f, p.codes, r, t, x.codes[0], x.codes[1]);
#pragma unroll
    for (int i = 0; i < 2; i++) x.scale[i] = scale_of<S, M, true>(f, p, 2 * r + i);
    return x;
}

template <int W, int S, bool M, bool T>
__device__ static inline struct rows<S> decode_rows(const struct cuda_wide &a, const struct raw_rows &raw) {
    struct rows<S> x;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const struct scale &s = raw.scale[i];
        operands<W, T>(known<W, S, M, T>(a.m.form), raw.codes[i], threadIdx.x % 4, i, x.code);
        x.d[i] = s.d, x.m[i] = s.m;
        x.sub[0][i] = (float)s.sub[0], x.sub[1][i] = (float)s.sub[1];
        x.min[0][i] = (float)s.min[0], x.min[1][i] = (float)s.min[1];
    }
    return x;
}

/* What a lane reads for a part of the tokens of a block: scales of four tokens of each two eights; with an offset,
 * scales times sums, or sums of halves. */
template <int S, bool M, int N>
struct part_scales {
    static constexpr int n = part_of<S, N>::eights / 2;
    float4 d[n], other[M ? n : 1];
};

/* @halves: the sums of the block's tokens, in global memory. */
template <int S, bool M, int N>
__device__ static inline struct part_scales<S, M, N> read_scales(const float (*d)[8 * N], uint32_t part,
                                                                 const int16_t *halves) {
    const uint32_t first = part * part_of<S, N>::eights * 8 + threadIdx.x % 4 * 4;
    struct part_scales<S, M, N> x;
#pragma unroll
    for (int i = 0; i < x.n; i++) {
        x.d[i] = *(const float4 *)(d[0] + first + i * 16);
        if (M && S != HALVES) x.other[i] = *(const float4 *)(d[1] + first + i * 16);
        if (M && S == HALVES) x.other[i] = __ldg((const float4 *)(halves + (first + i * 16) * 2));
    }
    return x;
}

/* Factors of the sums of a part: [eight][as the sums lie]. */
template <int S, int N>
struct factors_of {
    float by[part_of<S, N>::eights][4];
};

template <int S, bool M, int N>
__device__ static inline struct factors_of<S, N> multiply_scales(const struct rows<S> &r,
                                                                 const struct part_scales<S, M, N> &x) {
    struct factors_of<S, N> to;
#pragma unroll
    for (int i = 0; i < x.n; i++) {
        const float d[4] = {x.d[i].x, x.d[i].y, x.d[i].z, x.d[i].w};
#pragma unroll
        for (int n = 0; n < 8; n++) to.by[2 * i + n / 4][n % 4] = r.d[n % 4 / 2] * d[n / 4 * 2 + n % 2];
    }
    return to;
}
