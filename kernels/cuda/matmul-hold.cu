/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with 2 to 16 tokens and more panels than multiprocessors. A CTA copies its tokens to
 * shared memory once and computes every gridDim-th panel, some of them at once: a warp one panel for N * 8 tokens,
 * its chains in registers. One more warp brings the weights in pieces into a ring in shared memory, the first ones
 * while the kernels before still run. Grid: (CTAs, tokens / 8 groups, rounded up); shared memory: fit_hold() of
 * daemon/backend/cuda/products.c. Of sm_90 alone.
 */
#include "kernels/cuda/chains.cuh"
#include "kernels/cuda/ring.cuh"

#define AT_ONCE (N == 1 ? 4 : 2) /* blocks */
#define RUN     8                /* blocks of a turn of the loop: those of a group, if there are groups */

/* Copies of a part of the tokens have arrived. */
__shared__ static uint64_t there[CUDA_HOLD_PARTS];

/* The CTA's work, and what lies in shared memory. Of the tokens: those of a group of eight lie side by side. */
struct share {
    uint32_t blocks, parts, panels, first; /* panels: blockIdx.x, …; tokens: first … */
    uint32_t wide;                         /* bytes of a token's codes; the banks of the next one's differ */
    uint8_t *codes, *d, *s, *ring;         /* [groups * 8][wide]; [groups][blocks][8] as in struct cuda_acts */
};

/* Fetch part @part of the @own-th panel of turn @turn, if there is one, to its warps' slot @slot. Each slot has pieces
 * for the same warps alone: a barrier tells phases apart that follow one another, and copies for others may be late. */
__device__ static inline void fetch(const struct cuda_hold &a, const struct share &s, uint32_t turn, uint32_t part,
                                    uint32_t own, uint32_t slot)
{
    const uint32_t panel = turn * a.together + own, to = own * a.ring.slots + slot;
    if (panel < s.panels)
        ring_fetch(a.m, blockIdx.x + panel * gridDim.x, part, s.ring + to * a.ring.slot_bytes, to, a.piece);
}

/* --- the warp that fetches --- */

/* A lane for each barrier. @warps: those that read a piece; @threads: those that copy. */
__device__ static inline void begin_ring(const struct cuda_hold &a, const struct share &s, uint32_t warps,
                                         uint32_t threads)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    if (lane < a.ring.slots * a.together) bar_init(&full[lane], 1), bar_init(&empty[lane], warps);
    if (lane < s.parts) bar_init(&there[lane], threads);
    bar_fence();
    __syncwarp();
}

/* The pieces that there is room for, those of a slot of all panels and then the next ones. */
__device__ static inline void fetch_first(const struct cuda_hold &a, const struct share &s)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, all = a.ring.slots * a.together;
    for (uint32_t i = lane < a.ahead ? lane : all; i < all; i += a.ahead) {
        const uint32_t own = i % a.together, slot = i / a.together;
        const uint32_t before = i - a.ahead, own_before = before % a.together, slot_before = before / a.together;
        if (i >= a.ahead && slot_before / s.parts * a.together + own_before < s.panels)
            bar_wait(&full[own_before * a.ring.slots + slot_before], 0);
        fetch(a, s, slot / s.parts, slot % s.parts, own, slot);
    }
    __syncwarp();
}

/* Those behind these, in the order in which they are needed. */
__device__ static inline void fetch_rest(const struct cuda_hold &a, const struct share &s)
{
    uint32_t turn = a.ring.slots / s.parts, part = a.ring.slots % s.parts;
    struct cursor c = {0, 0};
    if (threadIdx.x % CUDA_WARP) return;
    for (; turn * a.together < s.panels; advance(a.ring.slots, c)) {
        const uint32_t n = min(a.together, s.panels - turn * a.together);
        for (uint32_t own = 0; own < n; own++) {
            bar_wait(&empty[own * a.ring.slots + c.slot], c.odd);
            fetch(a, s, turn, part, own, c.slot);
        }
        if (++part == s.parts) part = 0, turn++;
    }
}

/* --- the others --- */

/* Copy what the CTA needs of the tokens: single copies, for the bulk ones take turns. */
template <bool H>
__device__ static inline void copy_tokens(const struct cuda_hold &a, const struct share &s, uint32_t threads)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, warp = threadIdx.x / CUDA_WARP, warps = threads / CUDA_WARP;
    const uint32_t n = min(a.m.n - s.first, 8 * a.groups), last = a.groups - 1; /* 0 or 1: a bit of numbers */
    const struct cuda_acts &x = a.m.x;
    for (uint32_t part = 0; part < s.parts; part++) {
        const uint32_t from = part * a.piece, blocks = min(a.piece, s.blocks - from);
#pragma unroll 1
        for (uint32_t i = warp; i < n; i += warps)
#pragma unroll 1 /* a turn, or few */
            for (uint32_t c = lane; c < blocks * 2; c += CUDA_WARP) {
                const uint32_t at = from * CUDA_WARP + c * 16;
                copy16(s.codes + i * s.wide + at, x.q + (uint64_t)(s.first + i) * a.m.k + at);
            }
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < blocks * 4 * a.groups; i += threads) {
            const uint32_t c = i % 4, group = i / 4 & last, b = from + (i / 4 >> last);
            copy16(s.d + (group * s.blocks + b) * 64 + c * 16,
                   (const uint8_t *)(x.d + ((uint64_t)b * x.ld + s.first + group * 8) * 2) + c * 16);
        }
#pragma unroll 1
        for (uint32_t i = threadIdx.x; H && i < blocks * 2 * a.groups; i += threads) {
            const uint32_t c = i % 2, group = i / 2 & last, b = from + (i / 2 >> last);
            copy16(s.s + (group * s.blocks + b) * 32 + c * 16,
                   (const uint8_t *)(x.s + ((uint64_t)b * x.ld + s.first + group * 8) * 2) + c * 16);
        }
        bar_arrive_copied(&there[part]);
    }
}

/* The tokens of the groups @group …, from block 0 on. */
template <int N> __device__ static inline tokens<N> tokens_of(const struct share &s, uint32_t group)
{
    const uint32_t t = threadIdx.x % 4;
    struct tokens<N> x;
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        x.codes[e] = shared_at(s.codes) + (group + e) * 8 * s.wide + codes_of_lane(s.wide);
        x.d[e] = (const float4 *)(s.d + (group + e) * s.blocks * 64) + t;
        x.s[e] = (const short4 *)(s.s + (group + e) * s.blocks * 32) + t;
    }
    return x;
}

template <int N> __device__ static inline void skip(struct tokens<N> &x, uint32_t blocks)
{
#pragma unroll
    for (uint32_t e = 0; e < N; e++) x.codes[e] += blocks * CUDA_WARP, x.d[e] += blocks * 4, x.s[e] += blocks * 4;
}

/* The @blocks blocks of the piece @piece; @x moves on behind them. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void add_piece(const struct cuda_form &f, const uint8_t *piece, uint32_t blocks,
                                        struct tokens<N> &x, float acc[1][N][4])
{
    struct place p[1] = {place_of(f, piece, 0)};
    for (; blocks >= RUN; blocks -= RUN) {
#pragma unroll
        for (uint32_t j = 0; j < RUN; j += AT_ONCE) add_blocks<W, S, M, T, N, 1, AT_ONCE, 8>(f, x, j, p, acc);
        p[0] = beyond(f, p[0], RUN);
        skip<N>(x, RUN);
    }
    for (; !f.shift && blocks; blocks--) {
        add_blocks<W, S, M, T, N, 1, 1, 8>(f, x, 0, p, acc);
        p[0] = beyond(f, p[0], 1);
        skip<N>(x, 1);
    }
}

/* The panels of the warp, the @own-th of those at once, for the groups @group …. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void add_panels(const struct cuda_hold &a, const struct share &s, uint32_t own, uint32_t group)
{
    const struct cuda_form form = known<W, S, M, T>(a.m.form);
    const uint32_t first = own * a.ring.slots;
    struct cursor c = {0, 0};
    for (uint32_t panel = own; panel < s.panels; panel += a.together) {
        struct tokens<N> x = tokens_of<N>(s, group);
        float acc[1][N][4] = {};
        for (uint32_t part = 0; part < s.parts; part++) {
            const uint32_t slot = first + c.slot;
            if (panel == own) bar_wait(&there[part], 0);
            bar_wait(&full[slot], c.odd);
            add_piece<W, S, M, T, N>(form, s.ring + slot * a.ring.slot_bytes, min(a.piece, s.blocks - part * a.piece),
                                     x, acc);
            warp_arrive(&empty[slot]);
            advance(a.ring.slots, c);
        }
        store_panel<N>(a.m, blockIdx.x + panel * gridDim.x, s.first + group * 8, acc[0]);
    }
}

/* --- the kernel --- */

template <int W, int S, bool M, bool T, int N> __device__ static inline void hold(const struct cuda_hold &a)
{
    extern __shared__ __align__(CUDA_COPY_TO) uint8_t shared[];
    const uint32_t warp = threadIdx.x / CUDA_WARP, each = a.groups / N, warps = a.together * each;
    struct share s;
    s.blocks = a.m.k / CUDA_WARP;
    s.parts = (s.blocks + a.piece - 1) / a.piece;
    s.panels = (a.m.panels - blockIdx.x + gridDim.x - 1) / gridDim.x;
    s.first = blockIdx.y * 8 * a.groups;
    s.wide = a.m.k + CUDA_TOKEN_PAD;
    s.codes = shared;
    s.d = shared + 8 * a.groups * s.wide;
    s.s = s.d + a.groups * s.blocks * 64;
    s.ring = shared + a.ring.from;
    if (warp == warps) begin_ring(a, s, each, warps * CUDA_WARP);
    __syncthreads();
    if (warp == warps) {
        fetch_first(a, s);
        fetch_rest(a, s);
        return;
    }
    wait_before();
    copy_tokens<M && S == HALVES>(a, s, warps * CUDA_WARP);
    add_panels<W, S, M, T, N>(a, s, warp / each, warp % each * N);
}

#define HOLD(kernel, name, width, scales, offset, table, n)                                                            \
    extern "C" __global__ void __launch_bounds__((CUDA_HOLD_WARPS + 1) * CUDA_WARP, 1)                                 \
        cuda_##kernel##_##name(const __grid_constant__ struct cuda_hold a)                                             \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        hold<width, scales, offset, table, n>(a);                                                                      \
    }
#define BOTH(name, width, scales, offset, table)                                                                       \
    HOLD(hold8, name, width, scales, offset, table, 1)                                                                 \
    HOLD(hold16, name, width, scales, offset, table, 2)
KINDS(BOTH)
