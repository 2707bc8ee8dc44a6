/* SPDX-License-Identifier: MIT */
/*
 * Heads, attention and merge of tokens that are alone in the steps of their sequences and see much: as cuda_near_*, for
 * f16 KV and heads of 64 or 128 values, up to 8 for a KV head. K and V of a tile pass through a ring in shared memory,
 * which can be small, so that several CTAs share a multiprocessor: one computes while another waits. A piece is 64 dims
 * of K of two blocks, or V of one block of 128 or two of 64 dims. One warp fetches. The others, W of them, compute the
 * scores and weights of two blocks at once, a lane those of two keys and all rows, in registers; then a thread has the
 * chains of some dims and rows. Rows that are no queries have zeros. Where there are few tiles, CTAs share the queries
 * of a KV head: each reads all of K and V, but has fewer rows, whose chains take most of the time. Of sm_90 alone.
 */
#include "kernels/cuda/alone.cuh"
#include "kernels/cuda/deep-args.h"

#define PIECES (2 * BLOCKS) /* of a tile, at most */

/* A piece is there; one of K, or of V, has been read. */
__shared__ static uint64_t full[PIECES], empty[BLOCKS], empty_v[BLOCKS];

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
    float *ends;                  /* [CUDA_DEEP_ENDS] largest scores of rows */
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
    x.cs = x.ends + CUDA_DEEP_ENDS;
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
template <int W> __device__ static inline void meet()
{
    cta_wait(1, W * CUDA_WARP);
}

/* --- the warp that fetches --- */

/* The piece that comes next, and its slot. */
struct next {
    uint32_t i, slot;
};

/* Fetch @bytes of each of the blocks @b and, if @two, b + 1, from byte @skip on, to places that are @apart, when the
 * slot is free. @block: the lane's KV block. */
__device__ static inline void fetch_piece(const struct deep &x, const struct count &n, struct next &next,
                                          uint64_t block, uint32_t b, bool two, uint32_t skip, uint32_t bytes,
                                          uint32_t apart)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP;
    const uint64_t from = __shfl_sync(ALL, block, b + lane % 2);
    if (next.i >= x.slots) {
        const uint32_t before = next.i - x.slots;
        bar_wait(before < n.keys ? &empty[before] : &empty_v[before - n.keys], 0);
    }
    if (lane == 0) bar_expect(&full[next.i], two ? 2 * bytes : bytes);
    __syncwarp();
    if (lane < 1 + two)
        bulk_copy(x.ring + next.slot * CUDA_DEEP_SLOT + lane * apart, (const uint8_t *)from + skip, bytes,
                  &full[next.i]);
    next.i++;
    if (++next.slot == x.slots) next.slot = 0;
}

/* Rows and dims of a thread's chains; so many threads have some. */
template <int R> constexpr int own_rows = R < 4 ? R : 4;
template <int dim, int R> constexpr int own_dims = R < 4 || (dim == 128 && R == 4) ? 1 : 2; /* measured, H200 */
template <int dim, int R> constexpr uint32_t chains = dim / own_dims<dim, R> *(R / own_rows<R>);

/* Before anything else: a thread of each warp some of the barriers. */
template <int dim, int R, int W> __device__ static inline void init_bars()
{
    if (threadIdx.x % CUDA_WARP) return;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < PIECES; i += W + 1) {
        bar_init(&full[i], 1);
        if (i < BLOCKS) bar_init(&empty[i], 1), bar_init(&empty_v[i], chains<dim, R> / CUDA_WARP);
    }
    bar_fence();
}

/* Fetch all pieces: those of K of as many pairs as there are warps, part by part, then the next ones; then V. */
template <int dim, int W>
__device__ static inline void fetch_all(const struct cuda_attn &a, const struct cuda_tile &t, const struct deep &x,
                                        const struct count &n, uint32_t head)
{
    using L = layout<dim>;
    const uint32_t at = min(threadIdx.x % CUDA_WARP, n.blocks - 1);
    const uint64_t block = (uint64_t)kv_block(a.kv, a.table[t.table + t.from / CUDA_WARP + at], head);
    struct next next = {};
    for (uint32_t from = 0; from < n.blocks; from += 2 * W)
        for (uint32_t c = 0; c < L::parts; c++)
#pragma unroll 1
            for (uint32_t b = from; b < min(from + 2 * W, n.blocks); b += 2)
                fetch_piece(x, n, next, block, b, b + 1 < n.blocks, c * CUDA_DEEP_HALF, CUDA_DEEP_HALF, L::shift);
#pragma unroll 1
    for (uint32_t b = 0; b < n.blocks; b += L::blocks)
        fetch_piece(x, n, next, block, b, L::blocks == 2 && b + 1 < n.blocks, a.kv.half, L::bytes, L::bytes);
    wait_before(); /* for the merge */
}

/* --- heads --- */

/* Queries, and K and V of KV head @head of the token if the tile has it, which one of the CTAs stores. */
template <int dim, int R, int W>
__device__ static inline void make_deep(const struct cuda_decode &a, const struct cuda_tile &t, const struct deep &x,
                                        const struct early &e, uint32_t head, bool stores)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, group = a.attn.group;
    for (uint32_t r = threadIdx.x / CUDA_WARP; r < R + 2 * e.own; r += W) {
        const bool key = r == R, value = r > R;
        const struct head h = {key ? x.key : value ? x.value : x.weights + r * dim, dim, lane};
        if (r < group)
            make_query(a.heads, h, t.token, blockIdx.y * group + r, e.cs);
        else if (key)
            make_key(a.heads, h, t.token, head, e.cs);
        else if (value)
            make_value(a.heads, h, t.token, head);
        if ((key || value) && stores) store(a.heads, h, (uint8_t *)e.block + (key ? 0 : a.attn.kv.half), e.slot, key);
        for (uint32_t d = lane; r < R && d < dim; d += CUDA_WARP) x.queries[d * R + r] = r < group ? h.x[d] : 0.0f;
    }
}

/* --- scores and weights --- */

/* What a lane has of its two keys: scores, then weights. */
template <int R> struct lane_scores {
    float2 s[R];
};

/* Values of rows that follow each other in memory. */
template <int N> struct alignas(N < 4 ? 4 * N : 16) values {
    float v[N];
};

/* s += 64 dims of the keys at @k; @q: [64][R]. */
template <int R> __device__ static inline void add_dims(const uint8_t *k, const float *q, lane_scores<R> &y)
{
#pragma unroll 4
    for (uint32_t d = 0; d < CUDA_DEEP_DIMS; d++) {
        const float2 v = __half22float2(*(const __half2 *)(k + d * CUDA_WARP * 2));
        const values<R> w = *(const values<R> *)(q + d * R);
#pragma unroll
        for (uint32_t r = 0; r < R; r++) y.s[r] = make_float2(fma_(w.v[r], v.x, y.s[r].x), fma_(w.v[r], v.y, y.s[r].y));
    }
}

/* The products of the lane's keys of pair @pair; @block: that of the lane's half of the warp. */
template <int dim, int R, int W>
__device__ static inline lane_scores<R> multiply_keys(const struct deep &x, const struct count &n,
                                                      const struct early &e, uint32_t pair, uint32_t block)
{
    using L = layout<dim>;
    const uint32_t half = threadIdx.x / 16 % 2, lane = threadIdx.x % 16, at = pair % W;
    const uint32_t first = pair - at, together = min(n.pairs - first, (uint32_t)W);
    lane_scores<R> y = {};
    for (uint32_t c = 0; c < L::parts; c++) {
        const uint32_t i = first * L::parts + c * together + at;
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

/* A step of a reduction by 16 lanes: of N values, N / 2 go to the lane @h apart, and as many come from it. The lane
 * with that bit keeps the last ones. */
template <int N, bool LARGEST> __device__ static inline void halve(float *v, uint32_t h)
{
    const bool last = threadIdx.x & h;
#pragma unroll
    for (uint32_t i = 0; i < N / 2; i++) {
        const float own = last ? v[N / 2 + i] : v[i];
        const float other = __shfl_xor_sync(ALL, last ? v[i] : v[N / 2 + i], h);
        v[i] = LARGEST ? fmaxf(own, other) : own + other;
    }
}

/* N values of each lane are reduced by the lanes that differ in bits up to @h: one is left. */
template <int N, bool LARGEST> __device__ static inline float reduce(float *v, uint32_t h)
{
    if constexpr (N > 1) {
        halve<N, LARGEST>(v, h);
        return reduce<N / 2, LARGEST>(v, h / 2);
    } else {
#pragma unroll
        for (; h; h /= 2) {
            const float other = __shfl_xor_sync(ALL, v[0], h);
            v[0] = LARGEST ? fmaxf(v[0], other) : v[0] + other;
        }
        return v[0];
    }
}

/* The largest of N values of a half of a warp, each: of number lane / (16 / N). */
template <int N> __device__ static inline float half_max(float *v)
{
    return reduce<N, true>(v, 8) + 0.0f;
}

/* The tree of sums of a half of a warp whose lanes have two values of each of N: of number lane % 8 / (8 / N). */
template <int N> __device__ static inline float half_fold(const float2 *s)
{
    float v[2 * N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++) v[i] = s[i].x, v[N + i] = s[i].y;
    const float one = reduce<2 * N, false>(v, 8);
    return one + __shfl_xor_sync(ALL, one, 8);
}

/* Where a lane leaves its scores of pair @pair, [R] for all lanes, until they are weights. */
template <int R> __device__ static inline float2 *scores_of(const struct deep &x, uint32_t pair)
{
    return (float2 *)(x.weights + pair * 2 * CUDA_WARP * R) + threadIdx.x % CUDA_WARP;
}

/* Scores from products, and the largest of each row. Visible: the keys [lo, hi). */
template <int R>
__device__ static inline void scale_scores(const struct cuda_attn &a, const struct deep &x, uint32_t block, uint32_t lo,
                                           uint32_t hi, lane_scores<R> &y)
{
    const uint32_t lane = threadIdx.x % 16, j = 2 * lane;
    const bool one = j >= lo && j < hi, two = j + 1 >= lo && j + 1 < hi;
    float tops[R];
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        float2 v = make_float2(y.s[r].x * a.scale, y.s[r].y * a.scale);
        if (a.cap > 0.0f) v = make_float2(softcap_(v.x, a.cap), softcap_(v.y, a.cap));
        y.s[r] = v;
        tops[r] = fmaxf(one ? v.x : NOTHING, two ? v.y : NOTHING);
    }
    const float top = half_max<R>(tops);
    if (lane % (16 / R) == 0 && block < BLOCKS) x.tops[block * R + lane / (16 / R)] = top;
}

/* The largest score of row lane % R up to the block, after a look at those of all blocks before; the factor. */
template <int R> __device__ static inline float find_factor(const struct deep &x, const struct count &n, uint32_t block)
{
    const uint32_t lane = threadIdx.x % 16, r = lane % R;
    float before = NOTHING;
#pragma unroll
    for (uint32_t b = 0; b + 1 < BLOCKS; b++) before = fmaxf(before, b < block ? x.tops[b * R + r] : NOTHING);
    const float top = x.tops[block * R + r], m = fmaxf(before, top);
    if (lane < R) x.factors[block * R + r] = before != NOTHING && top > before ? exp_(before - top) : 1.0f;
    if (lane < R && block == n.blocks - 1) x.ends[r] = m;
    return m;
}

/* Weights from the scores of pair @pair, of which the lane has two keys of block @block. */
template <int R>
__device__ static inline void weigh_deep(const struct deep &x, const struct count &n, uint32_t pair, uint32_t block,
                                         uint32_t lo, uint32_t hi)
{
    const uint32_t lane = threadIdx.x % 16, j = 2 * lane, half = threadIdx.x & 16;
    const bool one = j >= lo && j < hi, two = j + 1 >= lo && j + 1 < hi;
    const float m = find_factor<R>(x, n, block);
    const float2 *own = scores_of<R>(x, pair);
    float2 s[R];
#pragma unroll
    for (uint32_t r = 0; r < R; r++) {
        const float top = __shfl_sync(ALL, m, half + r);
        const float2 v = own[r * CUDA_WARP], e = make_float2(exp_(v.x - top), exp_(v.y - top));
        s[r] = make_float2(one ? e.x : 0.0f, two ? e.y : 0.0f);
    }
    const float sum = half_fold<R>(s);
    if (lane < 8 && lane % (8 / R) == 0) x.sums[block * R + lane / (8 / R)] = sum;
    __syncwarp(); /* all have read their scores */
    values<R> *w = (values<R> *)(x.weights + (block * CUDA_WARP + j) * R), first, last;
#pragma unroll
    for (uint32_t r = 0; r < R; r++) first.v[r] = s[r].x, last.v[r] = s[r].y;
    w[0] = first, w[1] = last;
}

/* The block of pair @pair of which the lane has keys; visible are its keys [lo, hi). */
__device__ static inline uint32_t lane_block(const struct steps &s, const struct cuda_tile &t, const struct count &n,
                                             uint32_t pair, uint32_t &lo, uint32_t &hi)
{
    const uint32_t block = 2 * pair + threadIdx.x / 16 % 2;
    visible(s.begin, s.end, t.from + block * CUDA_WARP, lo, hi);
    if (block >= n.blocks) hi = 0;
    return block;
}

/* Scores of all blocks. */
template <int dim, int R, int W>
__device__ static inline void score_blocks(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &s,
                                           const struct deep &x, const struct count &n, const struct early &e)
{
    uint32_t lo, hi;
#pragma unroll 1
    for (uint32_t pair = threadIdx.x / CUDA_WARP; pair < n.pairs; pair += W) {
        const uint32_t block = lane_block(s, t, n, pair, lo, hi);
        lane_scores<R> y = multiply_keys<dim, R, W>(x, n, e, pair, block);
        scale_scores<R>(a, x, block, lo, hi, y);
        float2 *own = scores_of<R>(x, pair);
#pragma unroll
        for (uint32_t r = 0; r < R; r++) own[r * CUDA_WARP] = y.s[r];
    }
}

/* Weights of all blocks. */
template <int R, int W>
__device__ static inline void weigh_blocks(const struct cuda_tile &t, const struct steps &s, const struct deep &x,
                                           const struct count &n)
{
    uint32_t lo, hi;
#pragma unroll 1
    for (uint32_t pair = threadIdx.x / CUDA_WARP; pair < n.pairs; pair += W) {
        const uint32_t block = lane_block(s, t, n, pair, lo, hi);
        weigh_deep<R>(x, n, pair, block, lo, hi);
    }
}

/* --- chains --- */

/* The outputs of a thread, of D dims and Q rows. */
template <int Q, int D> struct chained {
    float o[D][Q];
};

/* Weights of Q rows, and values of D dims, of some keys. */
#define KEYS 4
template <int Q, int D> struct keys {
    values<Q> p[KEYS];
    __half v[KEYS][D];
};

template <int D> __device__ static inline void read_dims(const uint16_t *v, __half to[D])
{
    if constexpr (D == 2) {
        const __half2 both = *(const __half2 *)v;
        to[0] = __low2half(both), to[1] = __high2half(both);
    } else {
        to[0] = __ushort_as_half(*v);
    }
}

template <int dim, int R, int Q, int D>
__device__ static inline void read_keys(const uint16_t *v, const float *p, uint32_t j, keys<Q, D> &k)
{
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i++) {
        k.p[i] = *(const values<Q> *)(p + (j + i) * R);
        read_dims<D>(v + (j + i) * dim, k.v[i]);
    }
}

template <int Q, int D> __device__ static inline void add_value(const values<Q> &p, const __half v[D], chained<Q, D> &y)
{
#pragma unroll
    for (uint32_t d = 0; d < D; d++) {
        const float f = __half2float(v[d]);
#pragma unroll
        for (uint32_t r = 0; r < Q; r++) y.o[d][r] = fma_(p.v[r], f, y.o[d][r]);
    }
}

template <int Q, int D> __device__ static inline void add_some(const keys<Q, D> &k, chained<Q, D> &y)
{
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i++) add_value<Q, D>(k.p[i], k.v[i], y);
}

template <int Q, int D> __device__ static inline void scale_all(const values<Q> &c, chained<Q, D> &y)
{
#pragma unroll
    for (uint32_t d = 0; d < D; d++)
#pragma unroll
        for (uint32_t r = 0; r < Q; r++) y.o[d][r] = y.o[d][r] * c.v[r]; /* 1 changes nothing */
}

/* Add all keys of @n blocks that follow each other. @v: the thread's dims; @p, @c: weights and factors of its rows. */
template <int dim, int R, int Q, int D>
__device__ static inline void add_blocks(const uint16_t *v, const float *p, const float *c, uint32_t n,
                                         chained<Q, D> &y)
{
    const uint32_t all = n * CUDA_WARP;
    keys<Q, D> one, two;
    read_keys<dim, R>(v, p, 0, one);
#pragma unroll 1
    for (uint32_t b = 0; b < all; b += CUDA_WARP, c += R) {
        scale_all<Q, D>(*(const values<Q> *)c, y);
#pragma unroll 2
        for (uint32_t j = b; j < b + CUDA_WARP; j += 2 * KEYS) { /* reads before what needs them */
            const uint32_t next = j + 2 * KEYS;
            read_keys<dim, R>(v, p, j + KEYS, two);
            add_some(one, y);
            read_keys<dim, R>(v, p, next < all ? next : 0, one);
            add_some(two, y);
        }
    }
}

/* Add the keys [lo, hi) of a block. */
template <int dim, int R, int Q, int D>
__device__ static inline void add_keys(const uint16_t *v, const float *p, const float *c, uint32_t lo, uint32_t hi,
                                       chained<Q, D> &y)
{
    if (lo >= hi) return;
    scale_all<Q, D>(*(const values<Q> *)c, y);
#pragma unroll 1
    for (uint32_t j = lo; j < hi; j++) {
        __half k[D];
        read_dims<D>(v + j * dim, k);
        add_value<Q, D>(*(const values<Q> *)(p + j * R), k, y);
    }
}

/* The chains of the dims from @d on and the rows from @first on. */
template <int dim, int R, int Q, int D>
__device__ static inline void chain_some(const struct steps &s, const struct deep &x, const struct count &n,
                                         const struct early &e, uint32_t d, uint32_t first, chained<Q, D> &y)
{
    using L = layout<dim>;
    const float *p = x.weights + first, *c = x.factors + first;
    /* the blocks of which all keys are visible, as far as there are some */
    const uint32_t from = s.begin > s.first ? (s.begin - s.first + CUDA_WARP - 1) / CUDA_WARP : 0;
    const uint32_t to = min((max(s.end, s.first) - s.first) / CUDA_WARP, n.blocks);
    uint32_t slot = n.keys % x.slots;
#pragma unroll 1
    for (uint32_t i = n.keys, b = 0; i < n.all; i++) {
        uint16_t *v = (uint16_t *)(x.ring + slot * CUDA_DEEP_SLOT) + d;
        const uint32_t end = min(b + L::blocks, n.blocks);
        bar_wait(&full[i], 0);
        for (uint32_t k = 0; k < D && e.own && e.at - b < end - b; k++)
            v[((e.at - b) * CUDA_WARP + e.slot) * dim + k] = to_half(x.value[d + k]);
#pragma unroll 1
        while (b < end) {
            const uint32_t whole = b < from || b >= to ? 0 : min(end, to) - b, some = max(whole, 1u);
            uint32_t lo, hi;
            visible(s.begin, s.end, s.first + b * CUDA_WARP, lo, hi);
            if (whole)
                add_blocks<dim, R>(v, p, c, whole, y);
            else
                add_keys<dim, R>(v, p, c, lo, hi, y);
            b += some, v += some * CUDA_WARP * dim, p += some * CUDA_WARP * R, c += some * R;
        }
        warp_arrive(&empty_v[i - n.keys]);
        if (++slot == x.slots) slot = 0;
    }
}

/* The sums of the rows' weights, which take the place of the largest scores. Of blocks that are not visible the factor
 * is 1 and the sum 0. By one warp. */
template <int R> __device__ static inline void sum_rows(const struct deep &x, const struct count &n)
{
    const uint32_t r = threadIdx.x % CUDA_WARP;
    float l = 0.0f;
    for (uint32_t b = 0; r < R && b < n.blocks; b++) l = l * x.factors[b * R + r] + x.sums[b * R + r];
    if (r < R) x.tops[r] = l;
}

/* All chains, and what becomes of them. The outputs take the place of the queries. */
template <int dim, int R, int W>
__device__ static inline void chain_deep(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &s,
                                         const struct deep &x, const struct count &n, const struct early &e)
{
    constexpr int Q = own_rows<R>, D = own_dims<dim, R>;
    static_assert(chains<dim, R> <= W * CUDA_WARP, "each thread has chains once");
    const uint32_t d = threadIdx.x * D % dim, first = threadIdx.x * D / dim * Q;
    if (threadIdx.x / CUDA_WARP == W - 1) sum_rows<R>(x, n);
    if (threadIdx.x < chains<dim, R>) {
        chained<Q, D> y = {};
        chain_some<dim, R>(s, x, n, e, d, first, y);
#pragma unroll
        for (uint32_t r = 0; r < Q; r++)
#pragma unroll
            for (uint32_t i = 0; i < D; i++) x.queries[(first + r) * dim + d + i] = y.o[i][r];
    }
    meet<W>();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < a.attn.group * dim; i += W * CUDA_WARP)
        give(a, t, i / dim, i % dim, {x.ends[i / dim], x.tops[i / dim], x.queries[i]}, e.one);
}

/* The CTA's queries are a KV head of the arguments, of which @of.share have the same K and V. */
template <int dim, int R, int W> __device__ static inline void attend(const struct cuda_deep &of)
{
    const struct cuda_decode &a = of.a;
    const uint32_t head = blockIdx.y / of.share;
    init_bars<dim, R, W>();
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
    const bool fetches = threadIdx.x / CUDA_WARP == W;
    if (fetches) fetch_all<dim, W>(a.attn, t, x, n, head);
    const struct early e = read_early(a, t, s, head, x.cs);
    if (!fetches) {
        meet<W>();
        wait_before();
        make_deep<dim, R, W>(a, t, x, e, head, blockIdx.y % of.share == 0);
        meet<W>();
        score_blocks<dim, R, W>(a.attn, t, s, x, n, e);
        meet<W>();
        weigh_blocks<R, W>(t, s, x, n);
        meet<W>();
        chain_deep<dim, R, W>(a, t, s, x, n, e);
    }
    if (e.one) return;
    /* what is in shared memory has served its purpose: the ring and the weights, then the queries and what follows */
    const uint32_t bytes = (uint8_t *)x.queries - x.ring;
    put_all(a, t, joint_of((struct joining *)x.queries, x.ends, x.ring, bytes, s.rows, dim), s.rows);
}

static_assert(2 * 64 + 64 * 8 + 3 * BLOCKS * 8 >= 4 * CUDA_WARP * 8, "there is room for struct joining of 8 rows");
static_assert(2 * 64 + 64 * 2 + 3 * BLOCKS * 2 >= 4 * CUDA_WARP * 2, "and of 2");

#define DEEP(dim, rows)                                                                                                \
    extern "C" __global__ void __launch_bounds__(CUDA_DEEP_THREADS(rows), CUDA_DEEP_CTAS(rows))                        \
        cuda_deep_##dim##_##rows(const __grid_constant__ struct cuda_deep a)                                           \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        attend<dim, rows, CUDA_DEEP_WARPS(rows)>(a);                                                                   \
    }
DEEP(64, 2)
DEEP(64, 4)
DEEP(64, 8)
DEEP(128, 2)
DEEP(128, 4)
DEEP(128, 8)
