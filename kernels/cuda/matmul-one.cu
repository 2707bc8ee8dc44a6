/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with one token, the norm before them, and the activation behind them. A CTA computes
 * every gridDim-th panel, or pair of panels of up and gate. Bulk copies bring the weights in pieces into a ring in
 * shared memory, the first ones while the kernels before still run. The warps share the blocks of a piece and leave the
 * exact sum of each row and block; then a thread of each row adds them in their order. Grid: up to one CTA of
 * CUDA_ONE_THREADS for each multiprocessor; shared memory: fit_one() of daemon/backend/cuda/products.c. Of sm_90 alone.
 */
#include "kernels/cuda/one-sums.cuh"
#include "kernels/cuda/ring.cuh"

/* What lies in shared memory. */
struct inside {
    struct input in;
    uint8_t *ring;  /* [slots][slot bytes] */
    uint8_t *terms; /* [wave][k / 32][terms_bytes]; before that two rows of a norm */
};

/* The share of CTA @cta of @ctas: panels in parts of CUDA_PIECE blocks. */
struct share {
    uint32_t blocks, parts, panels, cta, ctas;
};

__device__ static inline struct share share_of(const struct cuda_one &a, uint32_t cta, uint32_t ctas)
{
    const uint32_t all = a.gated.f ? a.m.panels / 2 : a.m.panels, own = (all - cta + ctas - 1) / ctas;
    struct share s;
    s.blocks = a.m.k / CUDA_WARP;
    s.parts = (s.blocks + CUDA_PIECE - 1) / CUDA_PIECE;
    s.panels = a.gated.f ? 2 * own : own;
    s.cta = cta, s.ctas = ctas;
    return s;
}

/* The number of the CTA's panel @i. */
__device__ static inline uint32_t panel_of(const struct cuda_one &a, const struct share &s, uint32_t i)
{
    if (!a.gated.f) return s.cta + i * s.ctas;
    return i % 2 * a.m.of[1].panel0 + s.cta + i / 2 * s.ctas;
}

__device__ static inline struct inside inside_of(const struct cuda_one &a)
{
    extern __shared__ uint8_t shared[];
    const uint32_t nb = a.m.k / CUDA_WARP;
    struct inside x;
    x.in.q = (uint32_t *)shared;
    x.in.d = (float2 *)(x.in.q + nb * 8);
    x.in.s = (short2 *)(x.in.d + nb);
    x.ring = shared + a.ring.from;
    x.terms = x.ring + a.ring.slots * a.ring.slot_bytes;
    return x;
}

/* Fetch piece @n of the CTA's into slot @slot. The first parts of the first a.wave panels come first, then their second
 * ones. */
__device__ static inline void fetch(const struct cuda_one &a, const struct share &s, const struct inside &x, uint32_t n,
                                    uint32_t slot)
{
    const uint32_t wave = n / (a.wave * s.parts) * a.wave, width = min(a.wave, s.panels - wave);
    const uint32_t in = n - wave * s.parts, part = in / width;
    ring_fetch(a.m, panel_of(a, s, wave + in - part * width), part, x.ring + slot * a.ring.slot_bytes, slot);
}

/* --- chains --- */

template <bool M> __device__ static inline float add_terms(const struct terms<M> &t, float acc)
{
    acc = fma_(t.v.x, t.v.y, acc);
    if constexpr (M) acc = fma_(t.v.z, t.v.w, acc);
    return acc;
}

/* Of row @row; @t: the terms of the panel; @d: the blocks' scales. */
template <int S, bool M>
__device__ static inline float chain(const uint8_t *t, const float2 *d, uint32_t row, uint32_t blocks)
{
    constexpr uint32_t batch = M ? 4 : 8, each = terms_bytes<S, M>;
    const uint32_t whole = blocks / batch;
    float acc = 0.0f;
    struct terms<M> v[batch], next[batch];
#pragma unroll
    for (uint32_t n = 0; n < batch; n++)
        if (whole) v[n] = get_terms<S, M>(t + n * each, row, d[n]);
#pragma unroll 2
    for (uint32_t b = 0; b < whole; b++) {
        if (b + 1 < whole) t += batch * each, d += batch;
#pragma unroll
        for (uint32_t n = 0; n < batch; n++) next[n] = get_terms<S, M>(t + n * each, row, d[n]);
#pragma unroll
        for (uint32_t n = 0; n < batch; n++) acc = add_terms<M>(v[n], acc);
#pragma unroll
        for (uint32_t n = 0; n < batch; n++) v[n] = next[n];
    }
    if (whole) t += batch * each, d += batch;
    for (uint32_t b = whole * batch; b < blocks; b++, t += each, d++)
        acc = add_terms<M>(get_terms<S, M>(t, row, *d), acc);
    return acc;
}

/* Of the panels [first, first + n) of the CTA. */
template <int S, bool M>
__device__ static inline void chains(const struct cuda_one &a, const struct share &s, const struct inside &x,
                                     uint32_t first, uint32_t n)
{
    for (uint32_t i = threadIdx.x; i < n * CUDA_ROWS; i += CUDA_ONE_THREADS) {
        const uint32_t p = i / CUDA_ROWS, r = i % CUDA_ROWS, panel = panel_of(a, s, first + p);
        const struct cuda_matrix &m = a.m.of[product_of(a.m, panel)];
        const uint32_t row = (panel - m.panel0) * CUDA_ROWS + r;
        const float acc = chain<S, M>(x.terms + p * s.blocks * terms_bytes<S, M>, x.in.d, r, s.blocks);
        if (!a.gated.f) {
            if (row < m.rows) m.out[row] = acc;
            continue;
        }
        const float gate = __shfl_xor_sync(ALL, acc, CUDA_ROWS);
        if (p % 2 == 0 && row < m.rows) a.gated.f[row] = gated(a.gated, a.gated.act, gate, acc, row);
    }
}

/* The sums and chains. */
template <int W, int S, bool M, bool T>
__device__ static inline void multiply(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    const struct cuda_form f = known<W, S, M, T>(a.m.form);
    const uint32_t first = threadIdx.x / CUDA_WARP * OWN;
    uint32_t next = a.ring.slots, slot = 0, odd = 0; /* next: the first piece that has not been fetched */
    for (uint32_t from = 0; from < s.panels; from += a.wave) {
        const uint32_t n = min(a.wave, s.panels - from);
        if (from) __syncthreads();
        for (uint32_t b = 0; b < s.blocks; b += CUDA_PIECE) {
            const uint32_t blocks = min((uint32_t)OWN, s.blocks - min(b + first, s.blocks));
            struct held own;
            if (blocks == OWN) own = hold(x.in, b + first);
            uint8_t *out = x.terms + (b + first) * terms_bytes<S, M>;
            for (uint32_t i = 0; i < n; i++, next++, out += s.blocks * terms_bytes<S, M>) {
                bar_wait(&full[slot], odd);
                const uint8_t *piece = x.ring + slot * a.ring.slot_bytes;
                if (blocks == OWN) add_own<W, S, M, T>(f, place_of(f, piece, first), own, out);
#pragma unroll 1
                for (uint32_t j = 0; blocks < OWN && j < blocks; j++)
                    add_block<W, S, M, T>(f, place_of(f, piece, first + j), x.in, b + first + j,
                                          out + j * terms_bytes<S, M>);
                if (next < s.panels * s.parts && ring_release(slot, odd, WARPS)) fetch(a, s, x, next, slot);
                if (++slot == a.ring.slots) slot = 0, odd ^= 1;
            }
        }
        __syncthreads();
        chains<S, M>(a, s, x, from, n);
    }
}

template <int W, int S, bool M, bool T>
__device__ static inline void one(const struct cuda_one &a, uint32_t cta, uint32_t ctas)
{
    const struct share s = share_of(a, cta, ctas);
    const struct inside x = inside_of(a);
    if (threadIdx.x == 0) {
        ring_init(a.ring, WARPS);
        for (uint32_t i = 0; i < min(a.ring.slots, s.panels * s.parts); i++) fetch(a, s, x, i, i);
    }
    struct eight w;
    if (a.norm.x) w = read_eight(a.norm.w, threadIdx.x, a.m.k);
    wait_before();
    if (a.norm.x)
        put_norm(a.norm, w, x.in, (float *)x.terms);
    else if (a.row)
        put_row(a.row, a.m.k, x.in);
    else
        copy_codes(a.m.x, s.blocks, x.in);
    __syncthreads();
    multiply<W, S, M, T>(a, s, x);
}

#define ONE(name, width, scales, offset, table)                                                                        \
    extern "C" __global__ void __launch_bounds__(CUDA_ONE_THREADS, 2)                                                  \
        cuda_one_##name(const __grid_constant__ struct cuda_one a)                                                     \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        one<width, scales, offset, table>(a, blockIdx.x, gridDim.x);                                                   \
    }
KINDS(ONE)

/* The products of one of the types that files mix: see cuda_can_mix(). */
__device__ static inline void one_of(const struct cuda_one &a, uint32_t cta, uint32_t ctas)
{
    switch (a.m.form.kind) {
    case CUDA_KIND(4, SUB, 1):
        one<4, SUB, true, false>(a, cta, ctas);
        break;
    case CUDA_KIND(5, SUB, 1):
        one<5, SUB, true, false>(a, cta, ctas);
        break;
    case CUDA_KIND(6, HALVES, 0):
        one<6, HALVES, false, false>(a, cta, ctas);
        break;
    }
}

/* Products of two types with the same input. */
extern "C" __global__ void __launch_bounds__(CUDA_ONE_THREADS, 2) cuda_two(const __grid_constant__ struct cuda_two a)
{
    start_next();
    touch(a);
    if (blockIdx.x < a.ctas)
        one_of(a.of[0], blockIdx.x, a.ctas);
    else
        one_of(a.of[1], blockIdx.x - a.ctas, gridDim.x - a.ctas);
}
