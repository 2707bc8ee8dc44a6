/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with many tokens, on the tensor cores of sm_90 alone. A CTA computes tiles of 128 rows (8
 * panels) of 8 N tokens. One warp copies weights and activations to shared memory; eight warps, four together, have 64
 * rows each. They decode the codes of their rows to f16, the operands of wgmma, whose sums of 32 columns (of types with
 * factors of halves: of 16) are exact in f32. While the tensor cores compute the next sums, the last are multiplied by
 * their scales and added. Grid: at most one CTA for each multiprocessor.
 */
#include "kernels/cuda/wide.cuh"

#define WARPS 8 /* that multiply */

/* What lies in shared memory, and where a warp is in it. */
struct at {
    uint32_t stage, odd_stage, slot, odd_slot; /* odd: the parity of this use */
};

__device__ static inline void next_stage(struct at &x)
{
    if (++x.stage == CUDA_WIDE_STAGES) x.stage = 0, x.odd_stage ^= 1;
}

__device__ static inline void next_slot(struct at &x, uint32_t slots)
{
    if (++x.slot == slots) x.slot = 0, x.odd_slot ^= 1;
}

/* A tile: its first panel and token. */
struct tile {
    uint32_t panel, token;
};

template <int N> __device__ static inline struct tile tile_of(const struct cuda_wide &a, uint32_t i)
{
    const uint32_t across = (a.m.n + 8 * N - 1) / (8 * N);
    return {i / across * CUDA_WIDE_PANELS, i % across * 8 * N};
}

/* --- the warp that copies --- */

/* Lane i copies up to CUDA_WIDE_PIECE blocks of the tile's panel number i. */
__device__ static inline void copy_weights(const struct cuda_wide &a, const struct bars &bars, uint8_t *to,
                                           uint32_t panel0, uint32_t b0, struct at &x)
{
    const struct cuda_form &f = a.m.form;
    const uint32_t lane = threadIdx.x % CUDA_WARP, blocks = min((uint32_t)CUDA_WIDE_PIECE, a.m.k / CUDA_WARP - b0);
    const uint32_t bytes = (blocks >> f.shift) * f.group;
    bar_wait(&bars.weights_read[x.slot], x.odd_slot ^ 1);
    if (lane == 0) bar_expect(&bars.weights[x.slot], CUDA_WIDE_PANELS * bytes);
    __syncwarp();
    if (lane < CUDA_WIDE_PANELS) {
        const uint32_t panel = min(panel0 + lane, a.m.panels - 1);
        const struct cuda_matrix &m = a.m.of[product_of(a.m, panel)];
        const uint8_t *from = m.panels + (uint64_t)(panel - m.panel0) * m.panel_bytes;
        bulk_copy(to + (x.slot * CUDA_WIDE_PANELS + lane) * a.piece, from + (uint64_t)(b0 >> f.shift) * f.group, bytes,
                  &bars.weights[x.slot]);
    }
    next_slot(x, a.slots);
}

/* Codes and scales of the tokens from @token on, of the stage that begins with block @b0. */
template <int N>
__device__ static inline void copy_tokens(const struct cuda_wide &a, const struct bars &bars, struct wide_stage<N> *to,
                                          uint32_t token, uint32_t b0, struct at &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, blocks = min((uint32_t)CUDA_WIDE_BLOCKS, a.m.k / CUDA_WARP - b0);
    const uint64_t block = (uint64_t)(token / CUDA_WIDE_TILE) * (a.m.k / CUDA_WARP) + b0;
    const uint8_t *q = (const uint8_t *)a.m.x.q + (block * 4 * CUDA_WIDE_TILE + token % CUDA_WIDE_TILE) * 16;
    const float *d = a.m.x.d + block * 2 * CUDA_WIDE_TILE + token % CUDA_WIDE_TILE;
    struct wide_stage<N> &s = to[x.stage];
    bar_wait(&bars.tokens_read[x.stage], x.odd_stage ^ 1);
    if (lane == 0) bar_expect(&bars.tokens[x.stage], blocks * (4 * 16 + 8) * 8 * N);
    __syncwarp();
    if (8 * N == CUDA_WIDE_TILE) {
        if (lane == 0) bulk_copy(s.q, q, blocks * sizeof(s.q) / CUDA_WIDE_BLOCKS, &bars.tokens[x.stage]);
        if (lane == 1) bulk_copy(s.d, d, blocks * sizeof(s.d) / CUDA_WIDE_BLOCKS, &bars.tokens[x.stage]);
    } else {
        if (lane < blocks * 4)
            bulk_copy(s.q[lane], q + lane * CUDA_WIDE_TILE * 16, sizeof(s.q[0]), &bars.tokens[x.stage]);
        if (lane >= 16 && lane < 16 + blocks * 2)
            bulk_copy(s.d[lane / 2 % 8][lane % 2], d + (lane - 16) * CUDA_WIDE_TILE, sizeof(s.d[0][0]),
                      &bars.tokens[x.stage]);
    }
    next_stage(x);
}

template <int N>
__device__ static inline void copy(const struct cuda_wide &a, const struct bars &bars, const struct wide_room<N> &room)
{
    const uint32_t nb = a.m.k / CUDA_WARP;
    struct at x = {0, 0, 0, 0};
    bool waited = false;
    for (uint32_t i = blockIdx.x; i < a.tiles; i += gridDim.x) {
        const struct tile t = tile_of<N>(a, i);
        for (uint32_t b = 0; b < nb; b += CUDA_WIDE_BLOCKS) {
            if (b % CUDA_WIDE_PIECE == 0) copy_weights(a, bars, room.weights, t.panel, b, x);
            if (!waited) wait_before();
            waited = true;
            copy_tokens<N>(a, bars, room.stages, t.token, b, x);
        }
    }
}

/* --- the warps that multiply --- */

/* Start the sums of rows @r and part @part of block @j of the stage whose codes are at @from. */
template <int S, int N>
__device__ static inline void start(float (&sums)[part_of<S, N>::sums][4], const struct codes &c, uint64_t from,
                                    uint32_t j, uint32_t part)
{
    constexpr int eights = part_of<S, N>::eights;
    const uint64_t lo = from + j * 32 * N + part * eights * 8, hi = lo + 16 * N; /* in 16 bytes */
    wgmma_begin();
    wgmma<true>(sums, c.of[0], lo, eights);
    if (S == HALVES)
        wgmma<true>(sums + eights, c.of[1], hi, eights);
    else
        wgmma<false>(sums, c.of[1], hi, eights);
    wgmma_end();
    __syncwarp(); /* the compiler moves no reading to before the products, which are to start early */
}

/* acc += sums, scaled, of a part of a block. @x, @y: scales and sums of the tokens. */
template <int S, bool M, int E, int n_sums>
__device__ static inline void add(float (*acc)[4], const float (&sums)[n_sums][4], const struct row_scales<S> &r,
                                  const struct factors_of<E> &f, const struct token_scales<E> &x,
                                  const struct token_scales<E> &y)
{
#pragma unroll
    for (int e = 0; e < E; e++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int row = n / 2;
            float isum = sums[e][n];
            if (S == HALVES) isum = fma_(r.sub[1][row], sums[e + E][n], r.sub[0][row] * isum);
            float v = fma_(isum, f.by[e][n], acc[e][n]);
            if (M && S != HALVES) v = fma_(r.m[row], one_of(y, e, n), v);
            if (M && S == HALVES) {
                const uint32_t both = __float_as_uint(one_of(y, e, n));
                const float lo = (float)(int16_t)both, hi = (float)(int16_t)(both >> 16);
                v = fma_(fma_(r.min[1][row], hi, r.min[0][row] * lo), r.m[row] * one_of(x, e, n), v);
            }
            acc[e][n] = v;
        }
}

/* Sums of halves of the tokens from @token on, in block @b. */
__device__ static inline const int16_t *halves_of_sums(const struct cuda_wide &a, uint32_t token, uint32_t b)
{
    return a.m.x.s + (wide_block(token, a.m.k, b) * CUDA_WIDE_TILE + token % CUDA_WIDE_TILE) * 2;
}

/* A tile's sums of the warp's panel. Most tiles are whole, and what they do for each token counts. */
template <int N>
__device__ static inline void store(const struct cuda_wide &a, const struct tile &t, float (&acc)[N][4])
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, panel = t.panel + threadIdx.x / CUDA_WARP;
    if (panel >= a.m.panels) return;
    const struct cuda_matrix &m = a.m.of[product_of(a.m, panel)];
    const uint32_t row = (panel - m.panel0) * CUDA_ROWS + lane / 4 * 2, first = t.token + lane % 4 * 2;
    float *to = m.out + (uint64_t)first * m.ld + row;
    const bool whole = t.token + 8 * N <= a.m.n && row / CUDA_ROWS * CUDA_ROWS + CUDA_ROWS <= m.rows && m.ld % 2 == 0;
#pragma unroll
    for (int e = 0; whole && e < N; e++, to += 8 * (uint64_t)m.ld) {
        *(float2 *)to = make_float2(acc[e][0], acc[e][2]);
        *(float2 *)(to + m.ld) = make_float2(acc[e][1], acc[e][3]);
    }
#pragma unroll
    for (int e = 0; !whole && e < N; e++)
#pragma unroll
        for (int n = 0; n < 2; n++, to += n % 2 ? m.ld : 7 * (uint64_t)m.ld) {
            const bool there = first + e * 8 + n < a.m.n;
            if (there && row < m.rows) to[0] = acc[e][n];
            if (there && row + 1 < m.rows) to[1] = acc[e][n + 2];
        }
}

/* The warp's place. */
struct share {
    struct at at;
    uint32_t tile, b0; /* of the stage */
};

/* Go to the next stage, whose weights are waited for. False: there is none, the place stays. */
__device__ static inline bool advance(const struct cuda_wide &a, const struct bars &bars, struct share &x)
{
    uint32_t tile = x.tile, b0 = x.b0 + CUDA_WIDE_BLOCKS;
    if (b0 >= a.m.k / CUDA_WARP) b0 = 0, tile += gridDim.x;
    if (tile >= a.tiles) return false;
    x.tile = tile, x.b0 = b0;
    next_stage(x.at);
    if (b0 % CUDA_WIDE_PIECE) return true;
    next_slot(x.at, a.slots);
    bar_wait(&bars.weights[x.at.slot], x.at.odd_slot);
    return true;
}

/* What a warp has: the accumulators, sums of two parts under way, and codes of two blocks. */
template <int S, int N> struct work {
    float acc[N][4], sums[2][part_of<S, N>::sums][4];
    struct codes codes[2];
    struct place rows; /* of the stage's first block */
    struct raw_scales scales;
    struct share at;
    bool more;
};

/* The rows of the first block of the warp's stage. */
template <int N>
__device__ static inline struct place rows_of(const struct cuda_wide &a, const struct cuda_form &f,
                                              const struct wide_room<N> &room, const struct share &x)
{
    const uint32_t panel = x.at.slot * CUDA_WIDE_PANELS + threadIdx.x / CUDA_WARP;
    return place_of(f, room.weights + panel * a.piece, x.b0 % CUDA_WIDE_PIECE);
}

/* One stage; @whole: it has all blocks, else @blocks. The codes of its first block are decoded before, and those of the
 * first of the next stage here. A warp runs its instructions in order, and only one other shares its scheduler: so what
 * a step needs is read a step ahead. */
template <int W, int S, bool M, bool T, int N, bool whole>
__device__ static inline void compute(const struct cuda_wide &a, const struct bars &bars,
                                      const struct wide_room<N> &room, struct work<S, N> &x, uint32_t blocks)
{
    constexpr int parts = part_of<S, N>::parts, eights = part_of<S, N>::eights, steps = CUDA_WIDE_BLOCKS * parts;
    const struct cuda_form form = known<W, S, M, T>(a.m.form);
    const struct wide_stage<N> &from = room.stages[x.at.at.stage];
    const uint64_t q = tokens_at(shared_at(from.q), 8 * N);
    const int16_t *halves = halves_of_sums(a, tile_of<N>(a, x.at.tile).token, x.at.b0);
    const struct place rows = x.rows;
    struct row_scales<S> r;
    start<S, N>(x.sums[0], x.codes[0], q, 0, 0);
    start<S, N>(x.sums[1], x.codes[0], q, 0, 1);
    struct token_scales<eights> s = read_token_scales<eights>(from.d[0][0]);
#pragma unroll
    for (int i = 0; i < steps; i++) {
        const int j = i / parts, p = i % parts, next = j + 1, last = p + 1 == parts;
        const bool decode = p + 2 == parts; /* then the next block's products are started */
        struct token_scales<eights> now = s, y = {};
        struct raw_codes raw;
        if (p == 0) r = decode_row_scales<S, M>(form, x.scales);
        const struct factors_of<eights> f = multiply_scales<S, eights>(r, s);
        if (M)
            y = read_token_sums<S, eights>(from.d[j][1] + p * eights * 8,
                                           halves + (j * CUDA_WIDE_TILE + p * eights * 8) * 2);
        if (i + 1 < steps) s = read_token_scales<eights>(from.d[(i + 1) / parts][0] + (i + 1) % parts * eights * 8);
        if (decode && next == CUDA_WIDE_BLOCKS)
            x.more = advance(a, bars, x.at), x.rows = rows_of<N>(a, form, room, x.at);
        const struct place then = next < CUDA_WIDE_BLOCKS ? within(form, rows, next) : x.rows;
        if (decode) raw = read_codes<W, S, M, T>(a, then);
        if (last) x.scales = read_row_scales<S, M>(form, then);
        __syncwarp(); /* all this is read while sums are waited for */
        if (i + 1 < steps)
            wgmma_wait<1>(x.sums[i % 2]);
        else
            wgmma_wait<0>(x.sums[i % 2]);
        if (whole || j < blocks) add<S, M, eights>(x.acc + p * eights, x.sums[i % 2], r, f, now, y);
        if (decode) x.codes[next % 2] = decode_codes<W, S, M, T>(a, raw);
        if (i + 2 < steps)
            start<S, N>(x.sums[i % 2], x.codes[(i + 2) / parts % 2], q, (i + 2) / parts, (i + 2) % parts);
    }
}

template <int W, int S, bool M, bool T, int N>
__device__ static inline void multiply(const struct cuda_wide &a, const struct bars &bars,
                                       const struct wide_room<N> &room)
{
    struct work<S, N> x = {};
    x.at.tile = blockIdx.x;
    bar_wait(&bars.weights[0], 0);
    x.rows = rows_of<N>(a, known<W, S, M, T>(a.m.form), room, x.at);
    x.scales = read_row_scales<S, M>(known<W, S, M, T>(a.m.form), x.rows);
    x.codes[0] = decode_codes<W, S, M, T>(a, read_codes<W, S, M, T>(a, x.rows));
    do {
        const struct share old = x.at;
        const uint32_t blocks = a.m.k / CUDA_WARP - old.b0;
        bar_wait(&bars.tokens[old.at.stage], old.at.odd_stage);
        if (blocks >= CUDA_WIDE_BLOCKS)
            compute<W, S, M, T, N, true>(a, bars, room, x, blocks);
        else
            compute<W, S, M, T, N, false>(a, bars, room, x, blocks);
        warp_arrive(&bars.tokens_read[old.at.stage]);
        if (x.at.at.slot != old.at.slot) warp_arrive(&bars.weights_read[old.at.slot]);
        if (x.at.tile == old.tile && x.more) continue;
        store<N>(a, tile_of<N>(a, old.tile), x.acc);
#pragma unroll
        for (int e = 0; e < N; e++) x.acc[e][0] = x.acc[e][1] = x.acc[e][2] = x.acc[e][3] = 0.0f;
    } while (x.more);
}

template <int W, int S, bool M, bool T, int N> __device__ static inline void wide(const struct cuda_wide &a)
{
    extern __shared__ __align__(CUDA_COPY_TO) uint8_t shared[];
    __shared__ uint64_t weights[CUDA_WIDE_SLOTS], weights_read[CUDA_WIDE_SLOTS], tokens[CUDA_WIDE_STAGES],
        tokens_read[CUDA_WIDE_STAGES];
    const struct bars bars = {weights, weights_read, tokens, tokens_read};
    const struct wide_room<N> room = {
        (struct wide_stage<N> *)shared, shared + CUDA_WIDE_STAGES * sizeof(struct wide_stage<N>)
    };
    static_assert(sizeof(struct wide_stage<N>) == CUDA_WIDE_STAGE(8 * N), "the host knows the size");
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < a.slots; i++) bar_init(&weights[i], 1), bar_init(&weights_read[i], WARPS);
        for (uint32_t i = 0; i < CUDA_WIDE_STAGES; i++) bar_init(&tokens[i], 1), bar_init(&tokens_read[i], WARPS);
        bar_fence();
    }
    __syncthreads();
    if (threadIdx.x >= WARPS * CUDA_WARP) {
        fewer_registers<40>();
        if (threadIdx.x < (WARPS + 1) * CUDA_WARP) copy<N>(a, bars, room);
    } else {
        more_registers<232>();
        wait_before();
        multiply<W, S, M, T, N>(a, bars, room);
    }
}

#define WIDE(name, width, scales, offset, table)                                                                       \
    extern "C" __global__ void __launch_bounds__(CUDA_WIDE_THREADS, 1)                                                 \
        cuda_wide_##name(const __grid_constant__ struct cuda_wide a)                                                   \
    {                                                                                                                  \
        start_next();                                                                                                  \
        if (SM_90A) wide<width, scales, offset, table, 16>(a);                                                         \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(CUDA_WIDE_THREADS, 1)                                                 \
        cuda_half_##name(const __grid_constant__ struct cuda_wide a)                                                   \
    {                                                                                                                  \
        start_next();                                                                                                  \
        if (SM_90A) wide<width, scales, offset, table, 8>(a);                                                          \
    }
KINDS(WIDE)
