/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Weights in the panels of the CPU (kernels/panel.h), read as the operands of mma.sync: of m16n8k32, lane 4r + t has
 * the columns 4t … 4t+3 and 16+4t … of the rows r and r + 8. A panel's words are these.
 *
 * The kernels have a version for each kind of type: its width in bits, its scales, whether it has an offset, and a
 * table. The places are arguments (struct cuda_form).
 */
#include "kernels/cuda/device.cuh"

enum scales { PLAIN, SUB, HALVES, E8M0 }; /* enum panel_scales */

/* The kinds: name, width, scales, offset, table. */
#define KINDS(X)                                                                                                       \
    X(w8, 8, PLAIN, false, false)                                                                                      \
    X(w4, 4, PLAIN, false, false)                                                                                      \
    X(w4m, 4, PLAIN, true, false)                                                                                      \
    X(w4t, 4, PLAIN, false, true)                                                                                      \
    X(w4e, 4, E8M0, false, true)                                                                                       \
    X(w4sm, 4, SUB, true, false)                                                                                       \
    X(w4st, 4, SUB, false, true)                                                                                       \
    X(w5, 5, PLAIN, false, false)                                                                                      \
    X(w5m, 5, PLAIN, true, false)                                                                                      \
    X(w5sm, 5, SUB, true, false)                                                                                       \
    X(w6h, 6, HALVES, false, false)                                                                                    \
    X(w2, 2, PLAIN, false, false)                                                                                      \
    X(w2hm, 2, HALVES, true, false)                                                                                    \
    X(w3h, 3, HALVES, false, false)                                                                                    \
    X(w3st, 3, SUB, false, true)                                                                                       \
    X(w3ht, 3, HALVES, false, true)

/* The form of a kind: @f, whose places are constants here. */
template <int W, int S, bool M, bool T> __device__ static constexpr struct cuda_form known(const struct cuda_form &f)
{
    constexpr bool eight = S == SUB || S == HALVES || W == 2; /* blocks in a group */
    constexpr uint32_t codes = W * 64, subs = S == SUB ? M ? 32 : 16 : S == HALVES ? 32 : S == E8M0 ? 16 : 0;
    constexpr uint32_t all = eight ? 8 * (codes + subs) : codes + subs, halves = S == E8M0 ? 0 : M ? 64 : 32;
    struct cuda_form k = f;
    k.group = all + halves;
    k.step = !eight ? 0 : W == 6 ? codes : codes + subs;
    k.pairs = W == 6 ? 256 : 0;
    k.bits = W == 5 ? 256 : W == 3 ? 128 : 0;
    k.sub = !subs ? 0 : W == 6 ? 8 * codes : codes;
    k.sub_step = !subs || !eight ? 0 : W == 6 ? subs : codes + subs;
    k.d = S == E8M0 ? 0 : all;
    k.m = M ? all + 32 : 0;
    k.shift = eight ? 3 : 0;
    if (T) return k;
    k.bias = M ? 0 : W == 2 ? 1 : 1 << (W - 1);
    k.unit = 1.0f;
    return k;
}

/* The operand of one row: columns 4t … and 16 + 4t …, 4 values each. */
struct pair {
    uint32_t lo, hi;
};

/* A value of the weights, which lie in shared memory (H) or in global memory. */
template <bool H, typename V> __device__ static inline V get(const uint8_t *p, uint32_t i = 0)
{
    return H ? ((const V *)p)[i] : __ldg((const V *)p + i);
}

__device__ static inline uint32_t word(const uint8_t *p)
{
    return get<false, uint32_t>(p);
}

/* Each byte minus @bias (0 … 128), modulo 256; bytes of at most 7 bits, or any if the bias is 128. */
template <int W> __device__ static inline uint32_t unbias(uint32_t c, int32_t bias)
{
    if (W == 8) return c ^ 0x80808080u; /* its bias is 128 */
    return ((c | 0x80808080u) - (uint32_t)bias * 0x01010101u) ^ 0x80808080u;
}

/* Values of 4 codes. */
__device__ static inline uint32_t look_up(const uint32_t t[4], uint32_t c)
{
    const uint32_t x = c & 0x07070707u, upper = (c >> 3 & 0x01010101u) * 0xffu;
    const uint32_t at = (x & 0x7u) | (x >> 4 & 0x70u) | (x >> 8 & 0x700u) | (x >> 12 & 0x7000u);
    return (__byte_perm(t[0], t[1], at) & ~upper) | (__byte_perm(t[2], t[3], at) & upper);
}

/* What a lane reads of the codes of 32 columns of one row. */
struct raw {
    uint32_t a, b, c, d;
};

template <int W, bool H = false>
__device__ static inline struct raw read_raw(const struct cuda_form &f, const uint8_t *w, int row, int t)
{
    struct raw x = {0, 0, 0, 0};
    w += 4 * row;
    if (W == 8) x.a = get<H, uint32_t>(w + 64 * t), x.b = get<H, uint32_t>(w + 64 * t + 256);
    if (W >= 4 && W <= 6) x.a = get<H, uint32_t>(w + 64 * t);
    if (W == 2 || W == 3 || W == 6) x.c = get<H, uint32_t>(w + f.pairs), x.d = get<H, uint32_t>(w + f.pairs + 64);
    if (W == 3 || W == 5) x.b = get<H, uint32_t>(w + f.bits);
    return x;
}

/* Of the rows 2 r and 2 r + 1, for lane 4 r + t: their words lie side by side. */
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

/* The codes themselves, with their bias. */
template <int W> __device__ static inline struct pair decode_unsigned(struct raw x, int t)
{
    struct pair p = {x.a, x.b};
    if (W >= 4 && W <= 6) p.lo = x.a & 0x0f0f0f0fu, p.hi = x.a >> 4 & 0x0f0f0f0fu;
    if (W == 2 || W == 3) p.lo = x.c >> 2 * t & 0x03030303u, p.hi = x.d >> 2 * t & 0x03030303u;
    if (W == 6) p.lo |= (x.c >> 2 * t & 0x03030303u) << 4, p.hi |= (x.d >> 2 * t & 0x03030303u) << 4;
    if (W == 3 || W == 5) {
        p.lo |= (x.b >> t & 0x01010101u) << (W - 1);
        p.hi |= (x.b >> (t + 4) & 0x01010101u) << (W - 1);
    }
    return p;
}

template <int W, bool T> __device__ static inline struct pair decode(const struct cuda_form &f, struct raw x, int t)
{
    const struct pair p = decode_unsigned<W>(x, t);
    if (T) return {look_up(f.table, p.lo), look_up(f.table, p.hi)};
    return {unbias<W>(p.lo, f.bias), unbias<W>(p.hi, f.bias)};
}

/* A block of 32 columns of a panel. */
struct place {
    const uint8_t *group, *codes, *sub;
};

__device__ static inline struct place place_of(const struct cuda_form &f, const uint8_t *panel, uint32_t block)
{
    const uint32_t in = block & ((1u << f.shift) - 1u);
    struct place p;
    p.group = panel + (uint64_t)(block >> f.shift) * f.group;
    p.codes = p.group + in * f.step;
    p.sub = p.group + f.sub + in * f.sub_step;
    return p;
}

/* From the place of a block to that @n blocks later: in the same group, or by whole groups. */
__device__ static inline struct place within(const struct cuda_form &f, struct place p, uint32_t n)
{
    const uint32_t group = f.shift ? 0 : f.group * n;
    p.group += group;
    p.codes += f.shift ? f.step * n : group;
    p.sub += f.shift ? f.sub_step * n : group;
    return p;
}

__device__ static inline struct place beyond(const struct cuda_form &f, struct place p, uint32_t n)
{
    const uint32_t bytes = (n >> f.shift) * f.group;
    p.group += bytes, p.codes += bytes, p.sub += bytes;
    return p;
}

/* The scales of one row and block: dw and mw, and the factors of both halves. */
struct scale {
    float d, m;
    int sub[2], min[2];
};

/* 2^(e - 128), subnormal for e < 2. */
__device__ static inline float e8m0(uint32_t e)
{
    return __uint_as_float(e < 2 ? 0x200000u << e : (e - 1u) << 23);
}

/* As @r reads them: dw and mw, the bytes of factors and these as floats. */
template <int S, bool M, class R>
__device__ static inline struct scale scale_from(const struct cuda_form &f, const R &r)
{
    struct scale s;
    s.d = S == E8M0 ? e8m0(r.byte(0)) : half_(r.d());
    if (S == SUB || S == HALVES) s.d = s.d * f.unit; /* that of others is 1 */
    s.m = M ? half_(r.m()) : 0.0f;
    s.sub[0] = s.sub[1] = s.min[0] = s.min[1] = 1;
    if (S == SUB) {
        s.d = s.d * (M ? r.factor(0) : r.signed_factor(0)); /* K-quants: 0 … 63 */
        if (M) s.m = -s.m * r.factor(1);
    }
    if (S == HALVES) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint8_t c = M ? r.byte(h) : 0;
            s.sub[h] = M ? c & 15 : r.signed_byte(h);
            s.min[h] = c >> 4;
        }
        s.m = -s.m;
    }
    return s;
}

/* One row. */
template <bool H> struct row_reader {
    const struct cuda_form &f;
    const struct place &p;
    int row;

    __device__ inline uint16_t d() const
    {
        return get<H, uint16_t>(p.group + f.d, row);
    }
    __device__ inline uint16_t m() const
    {
        return get<H, uint16_t>(p.group + f.m, row);
    }
    __device__ inline uint8_t byte(int h) const
    {
        return get<H, uint8_t>(p.sub, h * CUDA_ROWS + row);
    }
    __device__ inline int8_t signed_byte(int h) const
    {
        return get<H, int8_t>(p.sub, h * CUDA_ROWS + row);
    }
    __device__ inline float factor(int h) const
    {
        return (float)byte(h);
    }
    __device__ inline float signed_factor(int h) const
    {
        return (float)signed_byte(h);
    }
};

template <int S, bool M, bool H = false>
__device__ static inline struct scale scale_of(const struct cuda_form &f, const struct place &p, int row)
{
    return scale_from<S, M>(f, row_reader<H>{f, p, row});
}

/* --- tensor cores: exact sums of int8 products --- */

/* @d = @from + the sums of 32 columns. @type: of the weights' operands. */
#define MMA32(type, from, ...)                                                                                         \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " from ";"       \
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                               \
        : "r"(top.lo), "r"(low.lo), "r"(top.hi), "r"(low.hi), "r"(b[0]), "r"(b[1]), __VA_ARGS__)

__device__ static inline void mma32(int d[4], const struct pair &top, const struct pair &low, const uint32_t b[2])
{
    MMA32("s8", "{%10,%10,%10,%10}", "r"(0));
}

/* The same with @c added. U: the codes of the weights are unsigned. */
template <bool U>
__device__ static inline void mma32_onto(int d[4], const int c[4], const struct pair &top, const struct pair &low,
                                         const uint32_t b[2])
{
    if (U)
        MMA32("u8", "{%10,%11,%12,%13}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    else
        MMA32("s8", "{%10,%11,%12,%13}", "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

__device__ static inline void mma16(int c[4], uint32_t top, uint32_t low, uint32_t b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(top), "r"(low), "r"(b), "r"(0));
}

/* isum of the rows r and r + 8 (factors @top and @low) and the tokens 2t and 2t + 1: c[0], c[1], and c[2], c[3]. */
template <int S>
__device__ static inline void sums(int c[4], struct pair a, struct pair b, const struct scale &top,
                                   const struct scale &low, const uint32_t x[2])
{
    if (S != HALVES) {
        mma32(c, a, b, x);
        return;
    }
    int first[4], last[4];
    mma16(first, a.lo, b.lo, x[0]);
    mma16(last, a.hi, b.hi, x[1]);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const struct scale &s = i < 2 ? top : low;
        c[i] = s.sub[0] * first[i] + s.sub[1] * last[i];
    }
}

/* The product and the panel in it that a CTA with the number @panel computes. */
__device__ static inline uint32_t product_of(const struct cuda_matmul &a, uint32_t panel)
{
    uint32_t i = 0;
    while (i + 1 < a.n_products && panel >= a.of[i + 1].panel0) i++;
    return i;
}
