/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Chains of outputs in the registers of a warp: of P panels, whose pieces lie in shared memory, and of N groups of
 * eight tokens, which lie there, too. Row r of mma.sync is row 2r of the panel and row r + 8 is row 2r + 1: the words
 * of both lie side by side, so that one load reads them, and those of a warp are in different banks.
 */
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/form.cuh"

/* --- weights --- */

/* What a lane has of the rows 2r (top) and 2r + 1 (low). */
struct two_rows {
    struct pair top, low;
    struct scale up, down;
};

template <int W>
__device__ static inline void read_both(const struct cuda_form &f, const uint8_t *w, struct raw &x, struct raw &y)
{
    const uint32_t r = threadIdx.x % CUDA_WARP / 4, t = threadIdx.x % 4;
    x = {0, 0, 0, 0}, y = {0, 0, 0, 0};
    w += 8 * r;
    if (W == 8 || (W >= 4 && W <= 6)) {
        const uint2 v = get<true, uint2>(w + 64 * t);
        x.a = v.x, y.a = v.y;
    }
    if (W == 8 || W == 3 || W == 5) {
        const uint2 v = W == 8 ? get<true, uint2>(w + 64 * t + 256) : get<true, uint2>(w + f.bits);
        x.b = v.x, y.b = v.y;
    }
    if (W == 2 || W == 3 || W == 6) {
        const uint2 v = get<true, uint2>(w + f.pairs), u = get<true, uint2>(w + f.pairs + 64);
        x.c = v.x, y.c = v.y, x.d = u.x, y.d = u.y;
    }
}

/* Row @i of two: their halves, and their bytes of factors. */
struct pair_reader {
    uint32_t dw, mw, bytes[2], i;

    __device__ inline uint16_t d() const
    {
        return (uint16_t)(dw >> 16 * i);
    }
    __device__ inline uint16_t m() const
    {
        return (uint16_t)(mw >> 16 * i);
    }
    __device__ inline uint8_t byte(int h) const
    {
        return (uint8_t)(bytes[h] >> 8 * i);
    }
    __device__ inline int8_t signed_byte(int h) const
    {
        return (int8_t)byte(h);
    }
    __device__ inline float factor(int h) const /* the last byte of 2^23 + it, without a conversion */
    {
        return __uint_as_float(__byte_perm(bytes[h], 0x4b000000, 0x7440 + i)) - 8388608.0f;
    }
    __device__ inline float signed_factor(int h) const
    {
        return __uint_as_float(__byte_perm(bytes[h] ^ 0x80808080u, 0x4b000000, 0x7440 + i)) - (8388608.0f + 128.0f);
    }
};

template <int S, bool M>
__device__ static inline void read_scales(const struct cuda_form &f, const struct place &p, struct two_rows &o)
{
    const uint32_t r = threadIdx.x % CUDA_WARP / 4;
    struct pair_reader x = {0, 0, {0, 0}, 0};
    if (S != E8M0) x.dw = get<true, uint32_t>(p.group + f.d, r);
    if (M) x.mw = get<true, uint32_t>(p.group + f.m, r);
    if (S != PLAIN) x.bytes[0] = get<true, uint16_t>(p.sub, r);
    if (S == HALVES || (S == SUB && M)) x.bytes[1] = get<true, uint16_t>(p.sub + CUDA_ROWS, r);
    o.up = scale_from<S, M>(f, x);
    x.i = 1;
    o.down = scale_from<S, M>(f, x);
}

/* What the operands are: values, codes with their biases, or values times 2^(8 - W): codes whose lowest bit is not that
 * of a byte, and whose highest one, inverted, is its sign. */
enum codes { VALUES, BIASED, UPPER };

template <int W, int S, bool M, bool T> __device__ static constexpr enum codes codes_of()
{
    return T ? VALUES : (W == 4 && !M) || W == 6 ? UPPER : S == HALVES ? VALUES : BIASED;
}

/* (a & b) ^ c, with two constants one instruction. */
__device__ static inline uint32_t and_xor(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t to;
    asm("lop3.b32 %0, %1, %2, %3, 106;" : "=r"(to) : "r"(a), "r"(b), "r"(c));
    return to;
}

template <int W> __device__ static inline struct pair decode_upper(const struct raw &x, int t)
{
    const uint32_t top = 0x80808080u;
    if (W == 4) return {and_xor(x.a << 4, 0xf0f0f0f0u, top), and_xor(x.a, 0xf0f0f0f0u, top)};
    return {and_xor(x.c << (6 - 2 * t), 0xc0c0c0c0u, and_xor(x.a << 2, 0x3c3c3c3cu, top)),
            and_xor(x.d << (6 - 2 * t), 0xc0c0c0c0u, and_xor(x.a >> 2, 0x3c3c3c3cu, top))};
}

/* Values of the 8 codes of 4 bits in @c: those of the lower halves of its bytes, and of the upper ones. A half of the
 * table is one operand of each first byte_perm, and the codes' highest bits choose between both. */
__device__ static inline struct pair look_up8(const uint32_t t[4], uint32_t c)
{
    const uint32_t at = c & 0x77777777u, half = (c >> 1 & 0x44444444u) | 0x32103210u;
    const uint32_t a = __byte_perm(__byte_perm(t[0], t[1], at), __byte_perm(t[2], t[3], at), half);
    const uint32_t b = __byte_perm(__byte_perm(t[0], t[1], at >> 16), __byte_perm(t[2], t[3], at >> 16), half >> 16);
    return {__byte_perm(a, b, 0x6420), __byte_perm(a, b, 0x7531)};
}

template <int W, int S, bool M, bool T>
__device__ static inline struct pair operand_of(const struct cuda_form &f, const struct raw &x)
{
    const int t = threadIdx.x % 4;
    if (T && W == 4) return look_up8(f.table, x.a);
    if (codes_of<W, S, M, T>() == UPPER) return decode_upper<W>(x, t);
    return codes_of<W, S, M, T>() == BIASED ? decode_unsigned<W>(x, t) : decode<W, T>(f, x, t);
}

template <int W, int S, bool M, bool T>
__device__ static inline void read_rows(const struct cuda_form &f, const struct place &p, struct two_rows &o)
{
    struct raw x, y;
    read_both<W>(f, p.codes, x, y);
    o.top = operand_of<W, S, M, T>(f, x), o.low = operand_of<W, S, M, T>(f, y);
    read_scales<S, M>(f, p, o);
}

/* --- tokens --- */

/* Where a lane reads tokens. Blocks of a token's codes lie one behind the other, those of scales and sums at a stride
 * of some tokens. */
template <int N> struct tokens {
    uint32_t codes[N]; /* addresses for ldmatrix */
    const float4 *d[N];
    const short4 *s[N];
};

/* Where a lane's address for ldmatrix lies in the codes of eight tokens, which are @wide bytes apart. */
__device__ static inline uint32_t codes_of_lane(uint32_t wide)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    return lane % 8 * wide + lane / 8 * 16;
}

/* The operands of eight tokens: of two blocks, of one. */
__device__ static inline void read_codes2(uint32_t x[2], uint32_t y[2], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(y[0]), "=r"(y[1])
                 : "r"(at));
}

__device__ static inline void read_codes1(uint32_t x[2], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(at));
}

/* --- sums --- */

/* A sum s below 2^22 is held as 3 * 2^22 + s: as an int with these bits. The difference of floats is exact, and faster
 * than a conversion. One of values times 2^n has its lowest bit so much lower. */
template <int W, int S, bool M, bool T> struct held {
    static constexpr int shift = codes_of<W, S, M, T>() == UPPER ? 8 - W : 0, bits = 0x4b400000 - (shift << 23);
    static constexpr float zero = 12582912.0f / (float)(1 << shift);
};

/* What a lane has of some blocks: of rows, and operands, scales and sums of tokens. */
template <int N, int P, int B> struct operands {
    struct two_rows w[B][P];
    uint32_t x[B][N][2];
    float4 d[B][N];
    short4 s[B][N];
};

/* @j: the first block from those of @x and @place on; @R: the tokens' stride. */
template <int W, int S, bool M, bool T, int N, int P, int B, int R>
__device__ static inline void read_operands(const struct cuda_form &f, const struct tokens<N> &x, uint32_t j,
                                            const struct place place[P], struct operands<N, P, B> &o)
{
#pragma unroll
    for (uint32_t n = 0; n < B; n++) {
#pragma unroll
        for (uint32_t i = 0; i < P; i++) read_rows<W, S, M, T>(f, within(f, place[i], j + n), o.w[n][i]);
#pragma unroll
        for (uint32_t e = 0; e < N; e++) {
            const uint32_t at = x.codes[e] + (j + n) * CUDA_WARP;
            if (n + 1 < B && n % 2 == 0) read_codes2(o.x[n][e], o.x[(n + 1) % B][e], at);
            if (n + 1 == B && n % 2 == 0) read_codes1(o.x[n][e], at);
            o.d[n][e] = x.d[e][(j + n) * R / 2];
            if (M && S == HALVES) o.s[n][e] = x.s[e][(j + n) * R / 2];
        }
    }
}

/* The sums of block @n of @o: held(), or of halves themselves. */
template <int W, int S, bool M, bool T, int N, int P, int B>
__device__ static inline void multiply(int32_t bias, const struct operands<N, P, B> &o, uint32_t n, int c[P][N][4])
{
    typedef held<W, S, M, T> held;
    constexpr bool biased = codes_of<W, S, M, T>() == BIASED;
    const uint32_t b = (uint32_t)-bias % 256 * 0x01010101u;
    const int zero[4] = {held::bits, held::bits, held::bits, held::bits};
    const struct pair same = {b, b};
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        int base[4];
        if (biased && !M) mma32_onto<false>(base, zero, same, same, o.x[n][e]);
#pragma unroll
        for (uint32_t i = 0; i < P; i++) {
            const struct two_rows &w = o.w[n][i];
            if (S != HALVES) {
                mma32_onto<biased>(c[i][e], biased && !M ? base : zero, w.top, w.low, o.x[n][e]);
                continue;
            }
            sums<S>(c[i][e], w.top, w.low, w.up, w.down, o.x[n][e]);
#pragma unroll
            for (uint32_t k = 0; k < 4; k++) c[i][e][k] >>= held::shift;
        }
    }
}

/* acc += …, of block @n of @o. */
template <int W, int S, bool M, bool T, int N, int P, int B>
__device__ static inline void add_sums(const struct operands<N, P, B> &o, uint32_t n, const int c[P][N][4],
                                       float acc[P][N][4])
{
    constexpr float zero = held<W, S, M, T>::zero;
#pragma unroll
    for (uint32_t e = 0; e < N; e++)
#pragma unroll
        for (uint32_t i = 0; i < P; i++)
#pragma unroll
            for (uint32_t k = 0; k < 4; k++) {
                const struct scale &r = k < 2 ? o.w[n][i].up : o.w[n][i].down;
                const float dx = k % 2 ? o.d[n][e].z : o.d[n][e].x;
                const float sum = S == HALVES ? (float)c[i][e][k] : __int_as_float(c[i][e][k]) - zero;
                float *to = &acc[i][e][k];
                *to = fma_(sum, r.d * dx, *to);
                if (M && S != HALVES) *to = fma_(r.m, k % 2 ? o.d[n][e].w : o.d[n][e].y, *to);
                if (!M || S != HALVES) continue;
                const short4 s = o.s[n][e];
                const int minus = k % 2 ? r.min[0] * s.z + r.min[1] * s.w : r.min[0] * s.x + r.min[1] * s.y;
                *to = fma_((float)minus, r.m * dx, *to);
            }
}

/* B blocks at once, from number @j on; @place: that of block 0, of each panel. */
template <int W, int S, bool M, bool T, int N, int P, int B, int R>
__device__ static inline void add_blocks(const struct cuda_form &f, const struct tokens<N> &x, uint32_t j,
                                         const struct place place[P], float acc[P][N][4])
{
    struct operands<N, P, B> o;
    int c[B][P][N][4];
    read_operands<W, S, M, T, N, P, B, R>(f, x, j, place, o);
#pragma unroll
    for (uint32_t n = 0; n < B; n++) multiply<W, S, M, T, N, P, B>(f.bias, o, n, c[n]);
#pragma unroll
    for (uint32_t n = 0; n < B; n++) add_sums<W, S, M, T, N, P, B>(o, n, c[n], acc);
}

/* The outputs of a panel and the tokens @first …. */
template <int N>
__device__ static inline void store_panel(const struct cuda_matmul &a, uint32_t panel, uint32_t first,
                                          const float acc[N][4])
{
    const uint32_t r = threadIdx.x % CUDA_WARP / 4, t = threadIdx.x % 4;
    const struct cuda_matrix &m = a.of[product_of(a, panel)];
#pragma unroll
    for (uint32_t e = 0; e < N; e++)
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t row = (panel - m.panel0) * CUDA_ROWS + 2 * r + k / 2;
            const uint32_t token = first + e * 8 + 2 * t + k % 2;
            if (row < m.rows && token < a.n) m.out[(uint64_t)token * m.ld + row] = acc[e][k];
        }
}
