/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with 2 to 16 tokens and few panels: N * 8 tokens in a CTA, which computes every
 * gridDim-th panel. Bulk copies bring the weights in pieces into a ring in shared memory, the first ones while the
 * kernels before still run. Warps that sum share the blocks of a piece: they leave the exact sums of a block and its
 * scales in a stage. The other warps, a thread for N outputs of a row, add these in their order: so all warps work
 * where a CTA has fewer panels than matmul-hold.cu needs. Grid: (CTAs, tokens / 8 N, rounded up); CUDA_SPLIT_THREADS
 * threads; shared memory: fit_split() of daemon/backend/cuda/products.c. Of sm_90 alone.
 */
#include "kernels/cuda/form.cuh"
#include "kernels/cuda/ring.cuh"

#define WARPS  CUDA_SPLIT_WARPS  /* that sum */
#define BLOCKS CUDA_SPLIT_BLOCKS /* of a stage */
#define EACH   (BLOCKS / WARPS)

/* Copies of a part of the tokens' codes have arrived; a stage has its sums; it has been read. */
__shared__ static uint64_t there[CUDA_SPLIT_PARTS], ready[CUDA_SPLIT_STAGES], taken[CUDA_SPLIT_STAGES];

/* The CTA's work: panels blockIdx.x, …; tokens first … of all. */
struct share {
    uint32_t blocks, parts, panels, first, tokens;
};

/* What lies in shared memory. */
struct inside {
    uint8_t *codes; /* [N * 8][wide] */
    uint32_t wide;  /* the banks of a token's codes differ from those of the next one */
    uint8_t *d, *s; /* [k / 32][N * 8] as in struct cuda_acts: float2, short2 */
    uint8_t *ring;
    float *stages;
};

/* A stage, in floats: sums [BLOCKS][16][N * 8], for halves with offsets as many of theirs; scales [BLOCKS][16],
 * offsets'. */
template <int S, bool M, int N> struct stage {
    static constexpr bool two = M && S == HALVES;
    static constexpr uint32_t each = CUDA_ROWS * 8 * N, minus = BLOCKS * each, d = two ? 2 * minus : minus,
                              m = d + BLOCKS * CUDA_ROWS, size = M ? m + BLOCKS * CUDA_ROWS : m;
};

/* The place of the outputs of row @row and token group @n in a block's sums: rows of a warp's stores lie in different
 * banks. */
template <int N> __device__ static inline uint32_t place_in(uint32_t row, uint32_t n)
{
    return row * 8 * N + (N == 1 ? 0 : (n ^ (row / 2 % 2)) * 8);
}

/* --- copies --- */

/* Piece @i of the CTA, to slot @slot. */
__device__ static inline void fetch(const struct cuda_split &a, const struct share &s, const struct inside &x,
                                    uint32_t i, uint32_t slot)
{
    ring_fetch(a.m, blockIdx.x + i / s.parts * gridDim.x, i % s.parts, x.ring + slot * a.ring.slot_bytes, slot);
}

/* All threads copy what the CTA needs of the tokens: single copies, for the bulk ones take turns. */
template <bool H, int N>
__device__ static inline void copy_tokens(const struct cuda_matmul &a, const struct share &s, const struct inside &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, warp = threadIdx.x / CUDA_WARP;
    const uint32_t n = min(s.tokens - s.first, 8u * N);
    for (uint32_t part = 0; part < s.parts; part++) {
        const uint32_t from = part * CUDA_PIECE, blocks = min((uint32_t)CUDA_PIECE, s.blocks - from);
        const int8_t *q = a.x.q + (uint64_t)(s.first + warp) * a.k + from * CUDA_WARP;
        if (warp < n)
            for (uint32_t i = lane; i < blocks * 2; i += CUDA_WARP)
                copy16(x.codes + warp * x.wide + from * CUDA_WARP + i * 16, q + i * 16);
        for (uint32_t i = threadIdx.x; i < blocks * 4 * N; i += CUDA_SPLIT_THREADS) {
            const uint32_t b = from + i / (4 * N), c = i % (4 * N) * 16;
            copy16(x.d + b * 64 * N + c, (const uint8_t *)(a.x.d + ((uint64_t)b * a.x.ld + s.first) * 2) + c);
        }
        for (uint32_t i = threadIdx.x; H && i < blocks * 2 * N; i += CUDA_SPLIT_THREADS) {
            const uint32_t b = from + i / (2 * N), c = i % (2 * N) * 16;
            copy16(x.s + b * 32 * N + c, (const uint8_t *)(a.x.s + ((uint64_t)b * a.x.ld + s.first) * 2) + c);
        }
        bar_arrive_copied(&there[part]);
    }
}

/* --- sums --- */

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

/* The exact sums of a block for N groups of eight tokens, and the scales of its rows. */
template <int N> struct sums_of_block {
    int c[N][4];
    struct scale up, down, own; /* of the rows lane / 4, lane / 4 + 8 (of halves); lane % 16 */
};

/* Those of block @b, whose place is @p. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void sum_block(const struct cuda_form &f, const struct inside &x, const struct place &p,
                                        uint32_t b, struct sums_of_block<N> &o)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
    const uint32_t less = (uint32_t)-f.bias % 256 * 0x01010101u;
    const struct pair bias = {less, less};
    struct pair top, low;
    read_pairs<W, S, T>(f, p.codes, top, low);
    o.own = scale_of<S, M, true>(f, p, lane % CUDA_ROWS);
    if (S == HALVES) o.up = scale_of<S, M, true>(f, p, row), o.down = scale_of<S, M, true>(f, p, row + 8);
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        const uint32_t *q = (const uint32_t *)(x.codes + (n * 8 + row) * x.wide + b * CUDA_WARP);
        const uint32_t v[2] = {q[t], q[t + 4]};
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) o.c[n][k] = 0;
        if (!T && !M && S != HALVES) mma32(o.c[n], bias, bias, v);
        if (!T && S != HALVES)
            mma32_onto<true>(o.c[n], o.c[n], top, low, v);
        else
            sums<S>(o.c[n], top, low, o.up, o.down, v);
    }
}

/* They go to place @j of the stage @to. */
template <int S, bool M, int N>
__device__ static inline void put_block(const struct inside &x, uint32_t b, uint32_t j,
                                        const struct sums_of_block<N> &o, float *to)
{
    typedef stage<S, M, N> stage;
    const uint32_t lane = threadIdx.x % CUDA_WARP, row = lane / 4, t = lane % 4;
#pragma unroll
    for (uint32_t n = 0; n < N; n++)
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            float *at = to + j * stage::each + place_in<N>(row + 8 * h, n) + 2 * t;
            *(float2 *)at = make_float2((float)o.c[n][2 * h], (float)o.c[n][2 * h + 1]);
            if (!stage::two) continue;
            const short4 q = *(const short4 *)(x.s + (b * 8 * N + n * 8 + 2 * t) * sizeof(short2));
            const struct scale &r = h ? o.down : o.up;
            *(float2 *)(at + stage::minus) =
                make_float2((float)(r.min[0] * q.x + r.min[1] * q.y), (float)(r.min[0] * q.z + r.min[1] * q.w));
        }
    if (lane >= CUDA_ROWS) return;
    to[stage::d + j * CUDA_ROWS + lane] = o.own.d;
    if (M) to[stage::m + j * CUDA_ROWS + lane] = o.own.m;
}

/* What the warps do that sum. @fetched: the first piece that has not been fetched, @next: its slot. */
template <int W, int S, bool M, bool T, int N>
__device__ static inline void sum_all(const struct cuda_split &a, const struct share &s, const struct inside &x,
                                      uint32_t fetched, struct cursor next)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, all = s.panels * s.parts;
    const struct cuda_form form = known<W, S, M, T>(a.m.form);
    struct cursor c = {0, 0}, stage_at = {0, 1};
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t part = i % s.parts, from = part * CUDA_PIECE, to = min(from + CUDA_PIECE, s.blocks);
        bar_wait(&full[c.slot], c.odd);
        bar_wait(&there[part], 0);
        const uint8_t *piece = x.ring + c.slot * a.ring.slot_bytes;
        for (uint32_t b = from; b < to; b += BLOCKS) {
            struct sums_of_block<N> o[EACH];
#pragma unroll
            for (uint32_t j = 0; j < EACH; j++) { /* without a branch: both at once */
                const uint32_t own = min(b + j * WARPS + warp, to - 1);
                sum_block<W, S, M, T, N>(form, x, place_of(form, piece, own - from), own, o[j]);
            }
            bar_wait(&taken[stage_at.slot], stage_at.odd);
#pragma unroll
            for (uint32_t j = 0; j < EACH; j++)
                if (b + j * WARPS + warp < to)
                    put_block<S, M, N>(x, b + j * WARPS + warp, j * WARPS + warp, o[j],
                                       x.stages + stage_at.slot * stage<S, M, N>::size);
            warp_arrive(&ready[stage_at.slot]);
            advance(a.stages, stage_at);
        }
        if (fetched < all) {
            if (ring_release(c.slot, c.odd, WARPS)) fetch(a, s, x, fetched, next.slot);
            advance(a.ring.slots, next);
            fetched++;
        }
        advance(a.ring.slots, c);
    }
}

/* --- chains --- */

/* acc += block @j of the stage @from, number @b: of row @row and the tokens @token …. */
template <int S, bool M, int N>
__device__ static inline void add_block(const struct inside &x, const float *from, uint32_t j, uint32_t b, uint32_t row,
                                        uint32_t token, float acc[N])
{
    typedef stage<S, M, N> stage;
    const float *sum = from + j * stage::each + place_in<N>(row, token / 8) + token % 8;
    const float2 *d = (const float2 *)x.d + b * 8 * N + token;
    const float dw = from[stage::d + j * CUDA_ROWS + row], mw = M ? from[stage::m + j * CUDA_ROWS + row] : 0.0f;
    float v[N], minus[N];
    float2 dx[N];
#pragma unroll
    for (uint32_t n = 0; n < N; n++) v[n] = sum[n], dx[n] = d[n], minus[n] = stage::two ? sum[stage::minus + n] : 0.0f;
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        acc[n] = fma_(v[n], dw * dx[n].x, acc[n]);
        if (stage::two)
            acc[n] = fma_(minus[n], mw * dx[n].x, acc[n]);
        else if (M)
            acc[n] = fma_(mw, dx[n].y, acc[n]);
    }
}

/* What the other warps do. */
template <int S, bool M, int N>
__device__ static inline void add_all(const struct cuda_split &a, const struct share &s, const struct inside &x)
{
    const uint32_t own = threadIdx.x - WARPS * CUDA_WARP, row = own / 8, token = own % 8 * N;
    struct cursor at = {0, 0};
    for (uint32_t i = 0; i < s.panels; i++) {
        const uint32_t panel = blockIdx.x + i * gridDim.x;
        const struct cuda_matrix &m = a.m.of[product_of(a.m, panel)];
        const uint32_t to = (panel - m.panel0) * CUDA_ROWS + row;
        float acc[N] = {};
        for (uint32_t b = 0; b < s.blocks; b += BLOCKS) {
            const float *from = x.stages + at.slot * stage<S, M, N>::size;
            const uint32_t n = min((uint32_t)BLOCKS, s.blocks - b);
            uint32_t j = 0;
            if (i == 0 && b % CUDA_PIECE == 0) bar_wait(&there[b / CUDA_PIECE], 0);
            bar_wait(&ready[at.slot], at.odd);
            for (; j + 8 <= n; j += 8)
#pragma unroll
                for (uint32_t e = 0; e < 8; e++) add_block<S, M, N>(x, from, j + e, b + j + e, row, token, acc);
            for (; j < n; j++) add_block<S, M, N>(x, from, j, b + j, row, token, acc);
            warp_arrive(&taken[at.slot]);
            advance(a.stages, at);
        }
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
            if (to < m.rows && s.first + token + n < s.tokens)
                m.out[(uint64_t)(s.first + token + n) * m.ld + to] = acc[n];
    }
}

/* --- the kernel --- */

template <int N> __device__ static inline void init(const struct cuda_split &a, const struct share &s)
{
    for (uint32_t i = 0; i < s.parts; i++) bar_init(&there[i], CUDA_SPLIT_THREADS);
    for (uint32_t i = 0; i < a.stages; i++)
        bar_init(&ready[i], WARPS), bar_init(&taken[i], CUDA_SPLIT_THREADS / CUDA_WARP - WARPS);
    ring_init(a.ring, WARPS);
}

template <int W, int S, bool M, bool T, int N> __device__ static inline void split(const struct cuda_split &a)
{
    extern __shared__ __align__(CUDA_COPY_TO) uint8_t shared[];
    struct share s;
    struct inside x;
    struct cursor next = {0, 0};
    uint32_t fetched = 0;
    s.blocks = a.m.k / CUDA_WARP;
    s.parts = (s.blocks + CUDA_PIECE - 1) / CUDA_PIECE;
    s.panels = (a.m.panels - blockIdx.x + gridDim.x - 1) / gridDim.x;
    s.first = blockIdx.y * 8 * N;
    s.tokens = a.m.n;
    x.codes = shared;
    x.wide = a.m.k + CUDA_TOKEN_PAD;
    x.d = shared + 8 * N * x.wide;
    x.s = x.d + s.blocks * 64 * N;
    x.ring = shared + a.ring.from;
    x.stages = (float *)(shared + a.sums);
    if (threadIdx.x == 0) init<N>(a, s);
    for (; fetched < a.ring.slots && fetched < s.panels * s.parts; fetched++, advance(a.ring.slots, next))
        if (threadIdx.x == 0) fetch(a, s, x, fetched, next.slot);
    __syncthreads();
    wait_before();
    copy_tokens<stage<S, M, N>::two, N>(a.m, s, x);
    if (threadIdx.x < WARPS * CUDA_WARP)
        sum_all<W, S, M, T, N>(a, s, x, fetched, next);
    else
        add_all<S, M, N>(a, s, x);
}

#define SPLIT(kernel, name, width, scales, offset, table, n)                                                           \
    extern "C" __global__ void __launch_bounds__(CUDA_SPLIT_THREADS)                                                   \
        cuda_##kernel##_##name(const __grid_constant__ struct cuda_split a)                                            \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        split<width, scales, offset, table, n>(a);                                                                     \
    }
#define BOTH(name, width, scales, offset, table)                                                                       \
    SPLIT(split8, name, width, scales, offset, table, 1)                                                               \
    SPLIT(split16, name, width, scales, offset, table, 2)
KINDS(BOTH)
