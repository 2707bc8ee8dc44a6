/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with one token, the norm before them, and the activation behind them. A CTA computes
 * every gridDim-th panel, or pair of panels of up and gate. Bulk copies bring the weights in pieces into a ring in
 * shared memory, the first ones while the kernels before still run; the last warp starts them and does nothing else.
 * The first warps share the blocks of a piece and leave the exact sum of each row and block in a stage, for two panels
 * at once. Another warp, a lane for each row of these, adds the sums of a stage in their order while the others compute
 * the next one. Grid: up to one CTA of CUDA_ONE_THREADS for each multiprocessor; shared memory: fit_one() of
 * daemon/backend/cuda/products.c. Of sm_90 alone.
 */
#include "kernels/cuda/one-sums.cuh"
#include "kernels/cuda/ring.cuh"

/* Barriers of the CTA: a stage has its sums (the first of CUDA_ONE_STAGES), for the warps that sum and the one that
 * adds; the barriers in shared memory can be used. */
#define READY 1
#define BEGUN (READY + CUDA_ONE_STAGES)

/* It has been read. */
__shared__ static uint64_t taken[CUDA_ONE_STAGES];

/* What lies in shared memory. */
struct inside {
    struct input in;
    uint8_t *ring;   /* [slots][slot bytes] */
    uint8_t *stages; /* [stages][two panels][blocks of a piece][terms_bytes]; before that two rows of a norm */
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
    extern __shared__ __align__(CUDA_COPY_TO) uint8_t shared[];
    const uint32_t nb = a.m.k / CUDA_WARP;
    struct inside x;
    x.in.q = (uint32_t *)shared;
    x.in.d = (float2 *)(x.in.q + nb * 8);
    x.in.s = (short2 *)(x.in.d + nb);
    x.ring = shared + a.ring.from;
    x.stages = x.ring + a.ring.slots * a.ring.slot_bytes;
    return x;
}

/* A piece of the CTA's: part @part of panel @first + @i. Two panels take turns, as far as there are two. */
struct piece {
    uint32_t first, i, part;
    struct cursor c; /* its slot */
};

#define ON_WAY 2 /* pieces that are copied at once: enough for the bandwidth; other reads wait behind more (H200) */

/* Fetch all pieces. By one thread. */
__device__ static inline void fetch(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    struct piece p = {};
    struct cursor before = {0, 0}; /* ON_WAY pieces before it */
    for (uint32_t n = 0; p.first < s.panels; n++) {
        if (n >= a.ring.slots) bar_wait(&empty[p.c.slot], p.c.odd ^ 1);
        if (n >= ON_WAY && a.ring.slots >= ON_WAY) {
            bar_wait(&full[before.slot], before.odd);
            advance(a.ring.slots, before);
        }
        ring_fetch(a.m, panel_of(a, s, p.first + p.i), p.part, x.ring + p.c.slot * a.ring.slot_bytes, p.c.slot);
        advance(a.ring.slots, p.c);
        if (++p.i < min(2u, s.panels - p.first)) continue;
        p.i = 0;
        if (++p.part == s.parts) p.part = 0, p.first += 2;
    }
}

/* Where the terms of panel @i, 0 or 1, of a stage begin. */
template <int S, bool M>
__device__ static inline uint8_t *stage_at(const struct share &s, const struct inside &x, uint32_t stage, uint32_t i)
{
    const uint32_t panel = min((uint32_t)CUDA_PIECE, s.blocks) * terms_bytes<S, M>;
    return x.stages + (stage * min(2u, s.panels) + i) * panel;
}

/* --- chains --- */

template <bool M> __device__ static inline float add_terms(const struct terms<M> &t, float acc)
{
    acc = fma_(t.v.x, t.v.y, acc);
    if constexpr (M) acc = fma_(t.v.z, t.v.w, acc);
    return acc;
}

/* acc += row @row of @blocks blocks; @t: their terms; @d: their scales. */
template <int S, bool M>
__device__ static inline float chain(const uint8_t *t, const float2 *d, uint32_t row, uint32_t blocks, float acc)
{
    constexpr uint32_t each = terms_bytes<S, M>;
#pragma unroll(M ? 8 : 16)
    for (uint32_t b = 0; b < blocks; b++) acc = add_terms<M>(get_terms<S, M>(t + b * each, row, d[b]), acc);
    return acc;
}

/* Where the product of row @r of the CTA's panel @p goes; NULL: there is none, or an activation has a place for it. */
__device__ static inline float *place_for(const struct cuda_one &a, const struct share &s, uint32_t p, uint32_t r,
                                          uint32_t &row)
{
    const uint32_t panel = panel_of(a, s, min(p, s.panels - 1));
    const struct cuda_matrix &m = a.m.of[product_of(a.m, panel)];
    row = (panel - m.panel0) * CUDA_ROWS + r;
    const bool has = row < m.rows && (a.gated.f ? p % 2 == 0 : p < s.panels);
    return !has ? NULL : a.gated.f ? a.gated.f + row : m.out + row;
}

/* What the warp does that adds. */
template <int S, bool M>
__device__ static inline void add_all(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, i = lane / CUDA_ROWS, r = lane % CUDA_ROWS;
    uint32_t simple = a.gated.act == SILU && a.gated.up && !a.gated.gate_bias && !a.gated.up_bias;
    asm volatile("" : "+r"(simple)); /* it is computed here, not after the sums */
    struct cursor c = {0, 0};
    for (uint32_t from = 0; from < s.panels; from += 2) {
        uint32_t row;
        float acc = 0.0f, *to = place_for(a, s, from + i, r, row);
        asm volatile("" : "+l"(to)); /* it is computed here, while the sums are awaited */
        for (uint32_t b = 0; b < s.blocks; b += CUDA_PIECE) {
            cta_wait(READY + c.slot, COMPUTE);
            if (from + i < s.panels)
                acc = chain<S, M>(stage_at<S, M>(s, x, c.slot, i), x.in.d + b, r,
                                  min((uint32_t)CUDA_PIECE, s.blocks - b), acc);
            warp_arrive(&taken[c.slot]);
            advance(a.stages, c);
        }
        if (a.gated.f) {
            const float gate = __shfl_xor_sync(ALL, acc, CUDA_ROWS);
            if (simple)
                acc = silu(gate) * acc;
            else if (to)
                acc = gated(a.gated, a.gated.act, gate, acc, row);
        }
        if (to) *to = acc;
    }
}

/* What the warps do that sum. */
template <int W, int S, bool M, bool T>
__device__ static inline void sum_all(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    const struct cuda_form f = known<W, S, M, T>(a.m.form);
    const uint32_t first = threadIdx.x / CUDA_WARP * OWN;
    struct cursor c = {0, 0}, to = {0, 1};
    struct held own;
    for (uint32_t from = 0; from < s.panels; from += 2) {
        for (uint32_t b = 0; b < s.blocks; b += CUDA_PIECE) {
            const uint32_t blocks = min((uint32_t)OWN, s.blocks - min(b + first, s.blocks));
            if (blocks == OWN && (from == 0 || s.parts > 1)) own = hold_own<W, S, M, T>(x.in, b + first);
            bar_wait(&taken[to.slot], to.odd);
            for (uint32_t i = 0; i < min(2u, s.panels - from); i++) {
                uint8_t *out = stage_at<S, M>(s, x, to.slot, i) + first * terms_bytes<S, M>;
                bar_wait(&full[c.slot], c.odd);
                const uint8_t *piece = x.ring + c.slot * a.ring.slot_bytes;
                if (blocks == OWN) add_own<W, S, M, T>(f, place_of(f, piece, first), own, out);
                if (blocks < OWN) add_some<W, S, M, T>(f, place_of(f, piece, first), x.in, b + first, blocks, out);
                warp_arrive(&empty[c.slot]);
                advance(a.ring.slots, c);
            }
            cta_arrive(READY + to.slot, COMPUTE);
            advance(a.stages, to);
        }
    }
}

/* The input, when the kernels before have ended. */
__device__ static inline void put_input(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    struct eight w;
    cta_wait(BEGUN, CUDA_ONE_THREADS);
    uint32_t bare = is_bare(a.norm);
    if (a.norm.x) w = read_eight(a.norm.w, threadIdx.x, a.m.k);
    asm volatile("" : "+r"(bare)); /* it is computed here, too */
    wait_before();
    if (a.norm.x)
        put_norm(a.norm, w, bare, x.in, (float *)x.stages);
    else if (a.row)
        put_row(a.row, a.m.k, x.in);
    else
        copy_codes(a.m.x, s.blocks, x.in);
    meet_at_row(COMPUTE);
}

/* What the last warp does: its lanes prepare the barriers, and one of them fetches. */
__device__ static inline void bring_weights(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    if (lane < a.stages) bar_init(&taken[lane], 1);
    ring_init(a.ring, WARPS, lane, CUDA_WARP);
    __syncwarp();
    cta_arrive(BEGUN, CUDA_ONE_THREADS);
    if (lane == 0) fetch(a, s, x);
}

template <int W, int S, bool M, bool T>
__device__ static inline void multiply(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    if (threadIdx.x < WARPS * CUDA_WARP)
        sum_all<W, S, M, T>(a, s, x);
    else
        add_all<S, M>(a, s, x);
}

#define ONE(name, width, scales, offset, table)                                                                        \
    extern "C" __global__ void __launch_bounds__(CUDA_ONE_THREADS, 2)                                                  \
        cuda_one_##name(const __grid_constant__ struct cuda_one a)                                                     \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        const struct share s = share_of(a, blockIdx.x, gridDim.x);                                                     \
        const struct inside x = inside_of(a);                                                                          \
        if (threadIdx.x >= COMPUTE) {                                                                                  \
            bring_weights(a, s, x);                                                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        put_input(a, s, x);                                                                                            \
        multiply<width, scales, offset, table>(a, s, x);                                                               \
    }
KINDS(ONE)

/* The products of one of the types that files mix: see cuda_can_mix(). */
__device__ static inline void multiply_of(const struct cuda_one &a, const struct share &s, const struct inside &x)
{
    switch (a.m.form.kind) {
    case CUDA_KIND(4, SUB, 1):
        multiply<4, SUB, true, false>(a, s, x);
        break;
    case CUDA_KIND(5, SUB, 1):
        multiply<5, SUB, true, false>(a, s, x);
        break;
    case CUDA_KIND(6, HALVES, 0):
        multiply<6, HALVES, false, false>(a, s, x);
        break;
    }
}

/* Products of two types with the same input. */
extern "C" __global__ void __launch_bounds__(CUDA_ONE_THREADS, 2) cuda_two(const __grid_constant__ struct cuda_two all)
{
    start_next();
    touch(all);
    const bool last = blockIdx.x >= all.ctas;
    const struct cuda_one &a = all.of[last];
    const struct share s =
        share_of(a, last ? blockIdx.x - all.ctas : blockIdx.x, last ? gridDim.x - all.ctas : all.ctas);
    const struct inside x = inside_of(a);
    if (threadIdx.x >= COMPUTE) {
        bring_weights(a, s, x);
        return;
    }
    put_input(a, s, x);
    multiply_of(a, s, x);
}
