/* SPDX-License-Identifier: MIT */
#pragma once
/* Operands of mma.sync from a panel in shared memory. */
#include "kernels/cuda/form.cuh"

/* Sums of unsigned codes, added to @c. */
__device__ static inline void mma_codes(int c[4], const struct pair &top, const struct pair &low, const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(top.lo), "r"(low.lo), "r"(top.hi), "r"(low.hi), "r"(b[0]), "r"(b[1]));
}

__device__ static inline struct raw choose(bool first, const struct raw &a, const struct raw &b)
{
    return {first ? a.a : b.a, first ? a.b : b.b, first ? a.c : b.c, first ? a.d : b.d};
}

/* The lane's operands of a block: the words of a warp's load lie in different banks. */
template <int W, int S, bool T>
__device__ static inline void read_pairs(const struct cuda_form &f, const uint8_t *codes, struct pair &top,
                                         struct pair &low)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4, other = t / 2 * 8;
    const struct raw a = read_raw<W, true>(f, codes, row + other, t),
                     b = read_raw<W, true>(f, codes, row + 8 - other, t);
    const struct raw x = choose(t < 2, a, b), y = choose(t < 2, b, a);
    if (!T && S != HALVES) /* codes with their biases */
        top = decode_unsigned<W>(x, t), low = decode_unsigned<W>(y, t);
    else
        top = decode<W, T>(f, x, t), low = decode<W, T>(f, y, t);
}
