/* SPDX-License-Identifier: MIT */
/*
 * Products of quantized types with 17 to 256 tokens, or with too many columns for matmul-split.cu. A CTA computes P
 * panels for all of its tokens, a warp N * 8 of them on tensor cores, its accumulators in registers. Bulk copies bring
 * the weights in pieces into a ring in shared memory, the first ones while the kernels before still run; a warp copies
 * its tokens itself, a few blocks ahead. Grid: (panels / P, tokens of a CTA), rounded up; shared memory:
 * multiply_batch() of daemon/backend/cuda/products.c. Of sm_90 alone.
 */
#include "kernels/cuda/chains.cuh"
#include "kernels/cuda/ring.cuh"

#define STAGES CUDA_BATCH_STAGES /* of a warp's tokens */
#define BLOCKS 4                 /* of a stage */
#define WIDE   CUDA_BATCH_ROW /* bytes of a token's codes in a stage: its banks differ from those of the next token */

/* The warp's place in the work. */
struct share {
    uint32_t blocks, parts, panel, first, tokens; /* panel: the first one; tokens: first … of all */
    uint8_t *stages, *ring;
};

/* Where the warp, or its copies, are. */
struct batch_cursor {
    uint32_t stage, slot, odd; /* odd: of the slot's uses */
};

__device__ static inline void next_slot(const struct cuda_ring &r, struct batch_cursor &c)
{
    if (++c.slot == r.slots) c.slot = 0, c.odd ^= 1;
}

/* A stage: codes [N * 8][WIDE]; scales [BLOCKS][N * 8] float2; sums [BLOCKS][N * 8] short2. */
template <int N> struct stage {
    uint8_t q[N * 8][WIDE];
    float2 d[BLOCKS][N * 8];
    short2 s[BLOCKS][N * 8];
};

/* Where the lane copies from: offsets of its next codes, scales and sums. */
template <int N> struct feed {
    uint32_t q[2 * N], d, s;
};

template <int N> __device__ static inline feed<N> feed_of(const struct cuda_matmul &a, const struct share &s)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    struct feed<N> f;
#pragma unroll
    for (uint32_t i = 0; i < 2 * N; i++) f.q[i] = min(s.first + lane / 8 + 4 * i, a.x.ld - 1) * a.k + lane % 8 * 16;
    f.d = (lane / (4 * N) * a.x.ld + s.first + lane % (4 * N) * 2) * 8;
    f.s = (lane / (2 * N) * a.x.ld + s.first + lane % (2 * N) * 4) * 4;
    return f;
}

/* Start the copies of the blocks [b, b + BLOCKS) to stage @to; a group of copies, also where there are none. */
template <int N, bool H>
__device__ static inline void start_stage(const struct cuda_matmul &a, const struct share &s, struct feed<N> &f,
                                          uint32_t b, uint32_t to)
{
    struct stage<N> &x = ((struct stage<N> *)s.stages)[to];
    const uint32_t lane = threadIdx.x % CUDA_WARP, left = b < s.blocks ? s.blocks - b : 0;
    if (lane % 8 / 2 < left)
#pragma unroll
        for (uint32_t i = 0; i < 2 * N; i++) copy16(&x.q[lane / 8 + 4 * i][lane % 8 * 16], a.x.q + f.q[i]);
    if (lane < 16 * N && lane / (4 * N) < left)
        copy16(&x.d[lane / (4 * N)][lane % (4 * N) * 2], (const uint8_t *)a.x.d + f.d);
    if (H && lane < 8 * N && lane / (2 * N) < left)
        copy16(&x.s[lane / (2 * N)][lane % (2 * N) * 4], (const uint8_t *)a.x.s + f.s);
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
    for (uint32_t i = 0; i < 2 * N; i++) f.q[i] += BLOCKS * CUDA_WARP;
    f.d += BLOCKS * a.x.ld * 8, f.s += BLOCKS * a.x.ld * 4;
}

/* The stage of block @b has arrived, for all lanes. */
__device__ static inline void wait_stage()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncwarp();
}

/* The tokens of the stage @x, as the lane reads them. */
template <int N> __device__ static inline tokens<N> tokens_of(const struct stage<N> &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, t = lane % 4;
    struct tokens<N> o;
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        o.codes[e] = shared_at(x.q) + e * 8 * WIDE + codes_of_lane(WIDE);
        o.d[e] = (const float4 *)&x.d[0][e * 8 + 2 * t], o.s[e] = (const short4 *)&x.s[0][e * 8 + 2 * t];
    }
    return o;
}

template <int N, int P>
__device__ static inline void store(const struct cuda_matmul &a, const struct share &s, const float acc[P][N][4])
{
#pragma unroll
    for (uint32_t i = 0; i < P; i++)
        if (s.panel + i < a.panels) store_panel<N>(a, s.panel + i, s.first, acc[i]);
}

/* Start the copy of part @part of panel @i. A panel that does not exist is the last one. */
__device__ static inline void fetch(const struct cuda_batch &a, const struct share &s, uint32_t part, uint32_t i,
                                    uint32_t slot)
{
    ring_fetch(a.m, min(s.panel + i, a.m.panels - 1), part, s.ring + slot * a.ring.slot_bytes, slot);
}

#define AT_ONCE (P == 1 ? 4 : 2) /* blocks */

/* The stages of part @part, whose pieces are @piece. */
template <int W, int S, bool M, bool T, int N, int P>
__device__ static inline void add_part(const struct cuda_batch &a, const struct share &s, uint32_t part,
                                       struct batch_cursor &c, struct feed<N> &f, const uint8_t *const piece[P],
                                       float acc[P][N][4])
{
    const struct cuda_form form = known<W, S, M, T>(a.m.form);
    const uint32_t from = part * CUDA_PIECE, to = min(from + CUDA_PIECE, s.blocks);
    for (uint32_t b = from; b < to; b += BLOCKS) {
        const struct tokens<N> x = tokens_of<N>(((const struct stage<N> *)s.stages)[c.stage]);
        wait_stage();
        start_stage<N, M && S == HALVES>(a.m, s, f, b + (STAGES - 1) * BLOCKS, c.stage ? c.stage - 1 : STAGES - 1);
        c.stage = c.stage + 1 == STAGES ? 0 : c.stage + 1;
        struct place p[P];
#pragma unroll
        for (uint32_t i = 0; i < P; i++) p[i] = place_of(form, piece[i], b - from);
        if (b + BLOCKS <= to) {
#pragma unroll
            for (uint32_t j = 0; j < BLOCKS; j += AT_ONCE)
                add_blocks<W, S, M, T, N, P, AT_ONCE, 8 * N>(form, x, j, p, acc);
        } else {
            for (uint32_t j = 0; b + j < to; j++) add_blocks<W, S, M, T, N, P, 1, 8 * N>(form, x, j, p, acc);
        }
    }
}

/* All parts, one behind the other. @next: the slot of the first piece that has not been fetched, number @fetched. */
template <int W, int S, bool M, bool T, int N, int P>
__device__ static inline void add_parts(const struct cuda_batch &a, const struct share &s, uint32_t fetched,
                                        struct batch_cursor next, struct feed<N> &f, float acc[P][N][4])
{
    struct batch_cursor c = {0, 0, 0};
    for (uint32_t part = 0; part < s.parts; part++) {
        const uint8_t *piece[P];
        struct batch_cursor at = c;
#pragma unroll
        for (uint32_t i = 0; i < P; i++, next_slot(a.ring, at)) {
            bar_wait(&full[at.slot], at.odd);
            piece[i] = s.ring + at.slot * a.ring.slot_bytes;
        }
        add_part<W, S, M, T, N, P>(a, s, part, c, f, piece, acc);
#pragma unroll
        for (uint32_t i = 0; i < P; i++, next_slot(a.ring, c), next_slot(a.ring, next), fetched++)
            if (fetched < s.parts * P && ring_release(c.slot, c.odd, blockDim.x / CUDA_WARP))
                fetch(a, s, fetched / P, fetched % P, next.slot);
    }
}

template <int W, int S, bool M, bool T, int N, int P> __device__ static inline void batch(const struct cuda_batch &a)
{
    extern __shared__ __align__(CUDA_COPY_TO) uint8_t shared[];
    const uint32_t warp = threadIdx.x / CUDA_WARP, warps = blockDim.x / CUDA_WARP;
    struct share s;
    s.blocks = a.m.k / CUDA_WARP;
    s.parts = (s.blocks + CUDA_PIECE - 1) / CUDA_PIECE;
    s.panel = blockIdx.x * P;
    s.first = (blockIdx.y * warps + warp) * N * 8;
    s.tokens = a.m.n;
    s.stages = shared + warp * STAGES * sizeof(struct stage<N>);
    s.ring = shared + a.ring.from;
    struct batch_cursor next = {0, 0, 0};
    uint32_t fetched = 0;
    if (threadIdx.x == 0) ring_init(a.ring, blockDim.x / CUDA_WARP);
    for (; fetched < a.ring.slots && fetched < s.parts * P; fetched++, next_slot(a.ring, next))
        if (threadIdx.x == 0) fetch(a, s, fetched / P, fetched % P, next.slot);
    struct feed<N> f = feed_of<N>(a.m, s);
    wait_before();
#pragma unroll
    for (uint32_t i = 0; i + 1 < STAGES; i++) start_stage<N, M && S == HALVES>(a.m, s, f, i * BLOCKS, i);
    __syncthreads();
    float acc[P][N][4] = {};
    add_parts<W, S, M, T, N, P>(a, s, fetched, next, f, acc);
    store<N, P>(a.m, s, acc);
}

#define BATCH(kernel, name, width, scales, offset, table, n, p)                                                        \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        cuda_##kernel##_##name(const __grid_constant__ struct cuda_batch a)                                            \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        batch<width, scales, offset, table, n, p>(a);                                                                  \
    }
#define ALL_SIZES(name, width, scales, offset, table)                                                                  \
    BATCH(eight, name, width, scales, offset, table, 1, 1)                                                             \
    BATCH(sixteen, name, width, scales, offset, table, 2, 1)                                                           \
    BATCH(double, name, width, scales, offset, table, 2, 2)
KINDS(ALL_SIZES)
