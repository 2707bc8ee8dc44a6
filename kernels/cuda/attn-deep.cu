/* SPDX-License-Identifier: MIT */
/*
 * Heads, attention and merge of tokens that are alone in the steps of their sequences and see much: as cuda_near_*, for
 * f16 KV and heads of 64 or 128 values, up to 8 for a KV head. K and V of a tile pass through a ring in shared memory
 * that is small enough for two or three CTAs on a multiprocessor: one computes while another waits. A piece is 64 dims
 * of K of two blocks, or V of one block of 128 or two of 64 dims. One warp fetches. Of the others each computes the
 * scores and weights of two blocks, a lane those of two keys and all rows, in registers; then a thread has the chains
 * of one dim and four rows. Rows that are no queries have zeros. Of sm_90 alone.
 */
#include "kernels/cuda/alone.cuh"
#include "kernels/cuda/deep-args.h"

#define PIECES (2 * BLOCKS) /* of a tile, at most */

enum { STARTED, MADE, SCORED, WEIGHED, STEPS }; /* what is early has been read; queries, scores, weights are there */

/* A piece is there; one of K, or of V, has been read; the computing warps have ended a step. */
__shared__ static uint64_t full[PIECES], empty[BLOCKS], empty_v[BLOCKS], steps_done[STEPS];

/* The numbers of a tile: blocks, pairs of these, and pieces of K and of all. */
struct count {
    uint32_t blocks, pairs, keys, all;
};

/* What lies in shared memory, for @R rows. */
struct deep {
    uint32_t slots;
    uint8_t *ring;                /* [slots][CUDA_DEEP_SLOT] */
    float *weights;               /* [keys][R]; before that [R][dim] queries */
    float *queries;               /* [dim][R] */
    float *key, *value;           /* [dim] of the token */
    float *tops, *sums, *factors; /* [BLOCKS][R] */
    float *ends;                  /* [R] largest scores */
    float *cs;
};

template <int dim, int R> __device__ static inline struct deep deep_of(uint32_t slots)
{
    extern __shared__ float4 shared[];
    struct deep x;
    x.ring = (uint8_t *)shared;
    x.slots = slots;
    x.weights = (float *)(x.ring + slots * CUDA_DEEP_SLOT);
    x.queries = x.weights + R * CUDA_SEGMENT;
    x.key = x.queries + R * dim;
    x.value = x.key + dim;
    x.tops = x.value + dim;
    x.sums = x.tops + R * BLOCKS;
    x.factors = x.sums + R * BLOCKS;
    x.ends = x.factors + R * BLOCKS;
    x.cs = x.ends + R;
    return x;
}

template <int dim> struct layout {
    static constexpr uint32_t parts = dim / CUDA_DEEP_DIMS; /* of K of a block */
    static constexpr uint32_t blocks = 2 / parts;           /* of V in a piece */
    static constexpr uint32_t bytes = dim * CUDA_WARP * 2;  /* of V of a block */
    static constexpr uint32_t shift = CUDA_DEEP_HALF + 64;  /* of the second block of K: other banks than the first */
};

template <int dim> __device__ static inline struct count count_of(const struct cuda_tile &t)
{
    struct count n;
    n.blocks = (t.to - t.from + CUDA_WARP - 1) / CUDA_WARP;
    n.pairs = (n.blocks + 1) / 2;
    n.keys = n.pairs * layout<dim>::parts;
    n.all = n.keys + (n.blocks + layout<dim>::blocks - 1) / layout<dim>::blocks;
    return n;
}

/* All computing warps have come so far. */
__device__ static inline void meet(uint64_t *bar)
{
    warp_arrive(bar);
    bar_wait(bar, 0);
}

/* --- the warp that fetches --- */

/* What comes next: its first block, what lies before it in the block, and its slot. */
struct next {
    uint32_t first, skip, slot;
};

/* Fetch piece @i, which is @next; @block: the lane's KV block. */
template <int dim, int R>
__device__ static inline void fetch_piece(const struct cuda_attn &a, const struct deep &x, const struct count &n,
                                          const uint8_t *block, uint32_t i, struct next &next)
{
    using L = layout<dim>;
    const bool key = i < n.keys;
    const uint32_t most = key ? 2 : L::blocks, bytes = key ? CUDA_DEEP_HALF : L::bytes;
    const bool two = most == 2 && next.first + 1 < n.blocks;
    const uint64_t at = __shfl_sync(ALL, (uint64_t)block, next.first + threadIdx.x % 2);
    uint8_t *to = x.ring + next.slot * CUDA_DEEP_SLOT;
    if (threadIdx.x % CUDA_WARP == 0) bar_expect(&full[i], two ? 2 * bytes : bytes);
    __syncwarp();
    if (threadIdx.x % CUDA_WARP < 1 + two)
        bulk_copy(to + threadIdx.x % 2 * (key ? L::shift : L::bytes), (const uint8_t *)at + next.skip, bytes, &full[i]);
    if (++next.slot == x.slots) next.slot = 0;
    next.first += most;
    if (next.first < n.blocks) return;
    next.first = 0;
    next.skip = i + 1 < n.keys ? next.skip + CUDA_DEEP_HALF : a.kv.half;
}

/* Before anything else: a thread of each warp some of the barriers. */
template <int dim> __device__ static inline void init_bars(uint32_t group)
{
    if (threadIdx.x % CUDA_WARP) return;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < PIECES; i += CUDA_DEEP_WARPS + 1) {
        bar_init(&full[i], 1);
        if (i < BLOCKS) bar_init(&empty[i], 1), bar_init(&empty_v[i], dim / CUDA_WARP * ((group + 3) / 4));
        if (i < STEPS) bar_init(&steps_done[i], CUDA_DEEP_WARPS);
    }
    bar_fence();
}

/* Fetch all pieces. */
template <int dim, int R>
__device__ static inline void fetch_all(const struct cuda_attn &a, const struct cuda_tile &t, const struct deep &x,
                                        const struct count &n)
{
    const uint32_t at = min(threadIdx.x % CUDA_WARP, n.blocks - 1);
    const uint8_t *block = kv_block(a.kv, a.table[t.table + t.from / CUDA_WARP + at], blockIdx.y);
    struct next next = {};
#pragma unroll 1
    for (uint32_t i = 0; i < n.all; i++) {
        if (i >= x.slots) {
            const uint32_t before = i - x.slots;
            bar_wait(before < n.keys ? &empty[before] : &empty_v[before - n.keys], 0);
        }
        fetch_piece<dim, R>(a, x, n, block, i, next);
    }
    wait_before(); /* for the merge */
}

/* --- heads --- */

/* Queries, and K and V of the token if the tile has it. */
template <int dim, int R>
__device__ static inline void make_deep(const struct cuda_decode &a, const struct cuda_tile &t, const struct deep &x,
                                        const struct early &e)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, group = a.attn.group;
    for (uint32_t r = threadIdx.x / CUDA_WARP; r < R + 2 * e.own; r += CUDA_DEEP_WARPS) {
        const bool key = r == R, value = r > R;
        const struct head h = {key ? x.key : value ? x.value : x.weights + r * dim, dim, lane};
        if (r < group)
            make_query(a.heads, h, t.token, blockIdx.y * group + r, e.cs);
        else if (key)
            make_key(a.heads, h, t.token, blockIdx.y, e.cs);
        else if (value)
            make_value(a.heads, h, t.token, blockIdx.y);
        if (key || value) store(a.heads, h, (uint8_t *)e.block + (key ? 0 : a.attn.kv.half), e.slot, key);
        for (uint32_t d = lane; r < R && d < dim; d += CUDA_WARP) x.queries[d * R + r] = r < group ? h.x[d] : 0.0f;
    }
    meet(&steps_done[MADE]);
}

/* --- scores and weights --- */

/* What a lane has of its two keys: scores, then weights. */
template <int R> struct lane_scores {
    float2 s[R];
};

/* s += 64 dims of the keys at @k; @q: [64][R]. */
template <int R> __device__ static inline void add_dims(const uint8_t *k, const float *q, lane_scores<R> &y)
{
#pragma unroll 4
    for (uint32_t d = 0; d < CUDA_DEEP_DIMS; d++) {
        const float2 v = __half22float2(*(const __half2 *)(k + d * CUDA_WARP * 2));
#pragma unroll
        for (uint32_t r = 0; r < R; r += 4) {
            const float4 w = *(const float4 *)(q + d * R + r);
            y.s[r] = make_float2(fma_(w.x, v.x, y.s[r].x), fma_(w.x, v.y, y.s[r].y));
            y.s[r + 1] = make_float2(fma_(w.y, v.x, y.s[r + 1].x), fma_(w.y, v.y, y.s[r + 1].y));
            y.s[r + 2] = make_float2(fma_(w.z, v.x, y.s[r + 2].x), fma_(w.z, v.y, y.s[r + 2].y));
            y.s[r + 3] = make_float2(fma_(w.w, v.x, y.s[r + 3].x), fma_(w.w, v.y, y.s[r + 3].y));
        }
    }
}

/* The products of the lane's keys; @block: that of the lane's half of the warp. */
template <int dim, int R>
__device__ static inline lane_scores<R> multiply_keys(const struct deep &x, const struct count &n,
                                                      const struct early &e, uint32_t block)
{
    using L = layout<dim>;
    const uint32_t warp = threadIdx.x / CUDA_WARP, half = threadIdx.x / 16 % 2, lane = threadIdx.x % 16;
    lane_scores<R> y = {};
    for (uint32_t c = 0; c < L::parts; c++) {
        const uint32_t i = c * n.pairs + warp;
        uint8_t *k = x.ring + i % x.slots * CUDA_DEEP_SLOT + half * L::shift;
        bar_wait(&full[i], 0);
        if (e.own && block == e.at) {
            for (uint32_t d = lane; d < CUDA_DEEP_DIMS; d += 16)
                ((uint16_t *)k)[d * CUDA_WARP + e.slot] = to_half(x.key[c * CUDA_DEEP_DIMS + d]);
            proxy_fence();
        }
        __syncwarp();
        add_dims<R>(k + lane * 4, x.queries + c * CUDA_DEEP_DIMS * R, y);
        warp_arrive(&empty[i]);
    }
    return y;
}

/* The largest, and the tree of sums, of a half of a warp whose lanes have two values each. */
__device__ static inline float half_max(float2 v)
{
    float m = fmaxf(v.x, v.y);
#pragma unroll
    for (uint32_t h = 8; h; h /= 2) m = fmaxf(m, __shfl_xor_sync(ALL, m, h));
    return m + 0.0f;
}

__device__ static inline float half_fold(float2 v)
{
#pragma unroll
    for (uint32_t h = 8; h; h /= 2)
        v = make_float2(v.x + __shfl_xor_sync(ALL, v.x, h), v.y + __shfl_xor_sync(ALL, v.y, h));
    return v.x + v.y;
}

/* Scores from products, and the largest of each row. Visible: the keys [lo, hi). */
template <int R>
__device__ static inline void scale_scores(const struct cuda_attn &a, const struct deep &x, uint32_t block, uint32_t lo,
                                           uint32_t hi, lane_scores<R> &y)
{
    const uint32_t lane = threadIdx.x % 16, j = 2 * lane;
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        float2 v = make_float2(y.s[r].x * a.scale, y.s[r].y * a.scale);
        if (a.cap > 0.0f) v = make_float2(softcap_(v.x, a.cap), softcap_(v.y, a.cap));
        y.s[r] = v;
        const float top =
            half_max(make_float2(j >= lo && j < hi ? v.x : NOTHING, j + 1 >= lo && j + 1 < hi ? v.y : NOTHING));
        if (lane == r && block < BLOCKS) x.tops[block * R + r] = top;
    }
}

/* The largest score of row lane % R up to the block, after a look at those of all blocks before; the factor. */
template <int R> __device__ static inline float find_factor(const struct deep &x, const struct count &n, uint32_t block)
{
    const uint32_t lane = threadIdx.x % 16, r = lane % R;
    float before = NOTHING;
    for (uint32_t b = 0; b < block; b++) before = fmaxf(before, x.tops[b * R + r]);
    const float top = x.tops[block * R + r], m = fmaxf(before, top);
    if (lane < R) x.factors[block * R + r] = before != NOTHING && top > before ? exp_(before - top) : 1.0f;
    if (lane < R && block == n.blocks - 1) x.ends[r] = m;
    return m;
}

/* Weights from scores. */
template <int R>
__device__ static inline void weigh_deep(const struct deep &x, const struct count &n, uint32_t block, uint32_t lo,
                                         uint32_t hi, lane_scores<R> &y)
{
    const uint32_t lane = threadIdx.x % 16, j = 2 * lane, half = threadIdx.x & 16;
    const bool one = j >= lo && j < hi, two = j + 1 >= lo && j + 1 < hi;
    const float m = find_factor<R>(x, n, block);
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        const float top = __shfl_sync(ALL, m, half + r);
        y.s[r] = make_float2(one ? exp_(y.s[r].x - top) : 0.0f, two ? exp_(y.s[r].y - top) : 0.0f);
        const float sum = half_fold(y.s[r]);
        if (lane == r) x.sums[block * R + r] = sum;
    }
    float *w = x.weights + (block * CUDA_WARP + j) * R;
#pragma unroll
    for (uint32_t r = 0; r < R; r += 4) {
        *(float4 *)(w + r) = make_float4(y.s[r].x, y.s[r + 1].x, y.s[r + 2].x, y.s[r + 3].x);
        *(float4 *)(w + R + r) = make_float4(y.s[r].y, y.s[r + 1].y, y.s[r + 2].y, y.s[r + 3].y);
    }
}

/* Scores and weights of the warp's two blocks. */
template <int dim, int R>
__device__ static inline void weigh_all(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &s,
                                        const struct deep &x, const struct count &n, const struct early &e)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, block = 2 * warp + threadIdx.x / 16 % 2;
    const bool has = warp < n.pairs;
    lane_scores<R> y;
    uint32_t lo, hi;
    visible(s.begin, s.end, t.from + block * CUDA_WARP, lo, hi);
    if (block >= n.blocks) hi = 0;
    if (has) {
        y = multiply_keys<dim, R>(x, n, e, block);
        scale_scores<R>(a, x, block, lo, hi, y);
    }
    meet(&steps_done[SCORED]);
    if (has) weigh_deep<R>(x, n, block, lo, hi, y);
    meet(&steps_done[WEIGHED]);
}

/* --- chains --- */

/* What a thread has of a dim and four rows. */
struct four {
    float4 o, l;
};

__device__ static inline float4 times(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

/* Weights of four rows, and values, of some keys. */
#define KEYS 4
struct keys {
    float4 p[KEYS];
    uint16_t v[KEYS];
};

template <int dim, int R>
__device__ static inline void read_keys(const uint16_t *v, const float *p, uint32_t j, struct keys &k)
{
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i++) k.p[i] = *(const float4 *)(p + (j + i) * R), k.v[i] = v[(j + i) * dim];
}

__device__ static inline void add_value(float4 p, float v, float4 &o)
{
    o = make_float4(fma_(p.x, v, o.x), fma_(p.y, v, o.y), fma_(p.z, v, o.z), fma_(p.w, v, o.w));
}

__device__ static inline void add_some(const struct keys &k, float4 &o)
{
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i++) add_value(k.p[i], half_(k.v[i]), o);
}

/* Add the keys [lo, hi) of a block. @v: the thread's dim; @p: its rows. */
template <int dim, int R>
__device__ static inline void add_keys(const uint16_t *v, const float *p, uint32_t lo, uint32_t hi, float4 &o)
{
    struct keys one, two;
    if (lo || hi < CUDA_WARP) {
#pragma unroll 1
        for (uint32_t j = lo; j < hi; j++) add_value(*(const float4 *)(p + j * R), half_(v[j * dim]), o);
        return;
    }
    read_keys<dim, R>(v, p, 0, one);
#pragma unroll 2
    for (uint32_t j = 0; j < CUDA_WARP; j += 2 * KEYS) { /* reads before what needs them */
        read_keys<dim, R>(v, p, j + KEYS, two);
        add_some(one, o);
        read_keys<dim, R>(v, p, (j + 2 * KEYS) % CUDA_WARP, one);
        add_some(two, o);
    }
}

/* Add block @b, whose V begins at @v, to the chains of dim @d and the rows from @first on. */
template <int dim, int R>
__device__ static inline void add_block(const struct steps &s, const struct deep &x, const struct early &e, uint16_t *v,
                                        uint32_t b, uint32_t d, uint32_t first, struct four &y)
{
    const uint32_t at = b * R + first;
    const float4 c = *(const float4 *)(x.factors + at), more = *(const float4 *)(x.sums + at);
    uint32_t lo, hi;
    visible(s.begin, s.end, s.first + b * CUDA_WARP, lo, hi);
    if (lo >= hi) return;
    if (e.own && b == e.at) v[e.slot * dim] = to_half(x.value[d]);
    y.o = times(y.o, c), y.l = times(y.l, c); /* 1 changes nothing */
    add_keys<dim, R>(v, x.weights + b * CUDA_WARP * R + first, lo, hi, y.o);
    y.l = make_float4(y.l.x + more.x, y.l.y + more.y, y.l.z + more.z, y.l.w + more.w);
}

/* The chains of dim @d and the rows from @first on. */
template <int dim, int R>
__device__ static inline struct four chain_four(const struct steps &s, const struct deep &x, const struct count &n,
                                                const struct early &e, uint32_t d, uint32_t first)
{
    using L = layout<dim>;
    struct four y = {};
    uint32_t slot = n.keys % x.slots;
    for (uint32_t i = n.keys, b = 0; i < n.all; i++) {
        uint16_t *v = (uint16_t *)(x.ring + slot * CUDA_DEEP_SLOT) + d;
        bar_wait(&full[i], 0);
#pragma unroll 1
        for (uint32_t k = 0; k < L::blocks && b < n.blocks; k++, b++)
            add_block<dim, R>(s, x, e, v + k * L::bytes / 2, b, d, first, y);
        warp_arrive(&empty_v[i - n.keys]);
        if (++slot == x.slots) slot = 0;
    }
    return y;
}

/* All chains, and what becomes of them. */
template <int dim, int R>
__device__ static inline void chain_deep(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &s,
                                         const struct deep &x, const struct count &n, const struct early &e)
{
    const uint32_t d = threadIdx.x % dim, first = threadIdx.x / dim * 4;
    if (first >= a.attn.group) return;
    const struct four y = chain_four<dim, R>(s, x, n, e, d, first);
    const float o[4] = {y.o.x, y.o.y, y.o.z, y.o.w}, l[4] = {y.l.x, y.l.y, y.l.z, y.l.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (first + i < a.attn.group) give(a, t, first + i, d, {x.ends[first + i], l[i], o[i]}, e.one);
}

template <int dim, int R> __device__ static inline void attend(const struct cuda_deep &of)
{
    const struct cuda_decode &a = of.a;
    init_bars<dim>(a.attn.group);
    const struct cuda_tile t = a.attn.tiles[blockIdx.x];
    struct steps s = {};
    s.rows = t.n * a.attn.group;
    const struct deep x = deep_of<dim, R>(of.slots);
    const struct count n = count_of<dim>(t);
    __syncthreads();
    if (!s.rows) {
        wait_before();
        return;
    }
    const bool fetches = threadIdx.x / CUDA_WARP == CUDA_DEEP_WARPS;
    if (fetches) fetch_all<dim, R>(a.attn, t, x, n);
    const struct early e = read_early(a, t, s, x.cs);
    if (!fetches) {
        meet(&steps_done[STARTED]);
        wait_before();
        make_deep<dim, R>(a, t, x, e);
        weigh_all<dim, R>(a.attn, t, s, x, n, e);
        chain_deep<dim, R>(a, t, s, x, n, e);
    }
    if (e.one) return;
    /* what is in shared memory has served its purpose: the ring and the weights, then the queries and what follows */
    const uint32_t bytes = (uint8_t *)x.queries - x.ring;
    put_all(a, t, joint_of((struct joining *)x.queries, x.ends, x.ring, bytes, s.rows, dim), s.rows);
}

static_assert(2 * 64 + 64 * 8 + 3 * BLOCKS * 8 >= 4 * CUDA_WARP * 8, "there is room for struct joining of 8 rows");

#define DEEP(dim, rows)                                                                                                \
    extern "C" __global__ void __launch_bounds__(CUDA_DEEP_THREADS, CUDA_DEEP_CTAS)                                    \
        cuda_deep_##dim##_##rows(const __grid_constant__ struct cuda_deep a)                                           \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        attend<dim, rows>(a);                                                                                          \
    }
DEEP(64, 4)
DEEP(64, 8)
DEEP(128, 4)
DEEP(128, 8)
