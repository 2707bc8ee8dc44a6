/* SPDX-License-Identifier: MIT */
/*
 * Heads, attention and merge of tokens that are alone in the steps of their sequences and see much: as cuda_near_*, for
 * f16 KV and heads of 64 or 128 values, up to 8 for a KV head. K and V of a tile pass through a ring in shared memory,
 * which can be small, so that several CTAs share a multiprocessor: one computes while another waits. A piece is 32 dims
 * of K of four blocks (a quad), or V of one block of 128 or two of 64 dims. One warp fetches. The others, W of them,
 * compute scores and weights, each those of a quad, which stay in registers between the two; then a thread has the
 * chains of some dims and rows. Rows that are no queries have zeros. Where there are few tiles, CTAs share the queries
 * of a KV head: each reads all of K and V, but has fewer rows, whose chains take most of the time. cuda_deep_few_* have
 * more warps, for a multiprocessor with one CTA. Of sm_90 alone.
 */
#include "kernels/cuda/deep-weights.cuh"

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

/* A head of @dim values that is rotated whole: a pair of values with the angles @i. */
struct two {
    uint32_t first, second;
    float x0, x1;
};

template <int dim> __device__ static inline struct two read_two(const float *x, uint32_t i, bool neox)
{
    struct two v;
    v.first = neox ? i : 2 * i;
    v.second = v.first + (neox ? dim / 2 : 1);
    v.x0 = x[v.first], v.x1 = x[v.second];
    return v;
}

template <int dim> __device__ static inline void rotate_two(struct two &v, const float *cs, uint32_t i)
{
    const float x0 = v.x0, x1 = v.x1, c = cs[i], s = cs[dim / 2 + i];
    v.x0 = fma_(x0, c, -(x1 * s));
    v.x1 = fma_(x0, s, x1 * c);
}

/* As make_deep(), of plain heads: all reads are on their way at once. */
template <int dim, int R, int W>
__device__ static inline void make_plain(const struct cuda_decode &a, const struct cuda_tile &t, const struct deep &x,
                                         const struct early &e, uint32_t head, bool stores)
{
    constexpr uint32_t half = dim / 2, threads = W * CUDA_WARP, each = (R * half + threads - 1) / threads;
    const uint32_t group = a.attn.group, r = threadIdx.x % R, i = threadIdx.x;
    const float *q = a.heads.q + ((uint64_t)t.token * a.heads.heads + blockIdx.y * group + min(r, group - 1)) * dim;
    const uint64_t own = ((uint64_t)t.token * a.heads.kv_heads + head) * dim;
    struct two v[each], k = {};
    float value = 0.0f;
#pragma unroll
    for (uint32_t n = 0; n < each; n++) v[n] = read_two<dim>(q, min((i + n * threads) / R, half - 1), a.heads.neox);
    if (e.own && i < half) k = read_two<dim>(a.heads.k + own, i, a.heads.neox);
    if (e.own && i < dim) value = a.heads.v[own + i];
#pragma unroll
    for (uint32_t n = 0; n < each; n++) {
        const uint32_t at = (i + n * threads) / R;
        if (at >= half) continue;
        rotate_two<dim>(v[n], e.cs, at);
        x.queries[v[n].first * R + r] = r < group ? v[n].x0 : 0.0f;
        x.queries[v[n].second * R + r] = r < group ? v[n].x1 : 0.0f;
    }
    if (!e.own) return;
    uint16_t *to = (uint16_t *)e.block, *to_value = (uint16_t *)(e.block + a.attn.kv.half) + e.slot * dim;
    if (i < half) {
        rotate_two<dim>(k, e.cs, i);
        x.key[k.first] = k.x0, x.key[k.second] = k.x1;
        if (stores) to[k.first * CUDA_WARP + e.slot] = to_half(k.x0), to[k.second * CUDA_WARP + e.slot] = to_half(k.x1);
    }
    if (i < dim) x.value[i] = value;
    if (i < dim && stores) to_value[i] = to_half(value);
}

/* --- chains --- */

/* The outputs of a thread, of D dims and Q rows. */
template <int Q, int D> struct chained {
    float o[D][Q];
};

/* Weights of Q rows, and values of D dims, of some keys. */
#define KEYS 4
template <int Q, int D> struct keys {
    values<KEYS> p[Q];
    halves<D> v[KEYS];
};

template <int dim, int Q, int D>
__device__ static inline void read_keys(const uint16_t *v, const float *p, keys<Q, D> &k)
{
#pragma unroll
    for (uint32_t r = 0; r < Q; r++) k.p[r] = *(const values<KEYS> *)(p + r * CUDA_DEEP_KEYS);
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i++) k.v[i] = *(const halves<D> *)(v + i * dim);
}

/* Add key @i of @k. */
template <int Q, int D> __device__ static inline void add_key(const keys<Q, D> &k, uint32_t i, chained<Q, D> &y)
{
#pragma unroll
    for (uint32_t d = 0; d < D; d++) {
        const float f = half_at(k.v[i], d);
#pragma unroll
        for (uint32_t r = 0; r < Q; r++) y.o[d][r] = fma_(k.p[r].v[i], f, y.o[d][r]);
    }
}

template <int Q, int D> __device__ static inline void add_some(const keys<Q, D> &k, chained<Q, D> &y)
{
#pragma unroll
    for (uint32_t i = 0; i < KEYS; i++) add_key<Q, D>(k, i, y);
}

template <int Q, int D> __device__ static inline void scale_all(const values<Q> &c, chained<Q, D> &y)
{
#pragma unroll
    for (uint32_t d = 0; d < D; d++)
#pragma unroll
        for (uint32_t r = 0; r < Q; r++) y.o[d][r] = y.o[d][r] * c.v[r]; /* 1 changes nothing */
}

/* Where V of the piece in slot @slot lies, from dim @d on. */
__device__ static inline uint16_t *value_at(const struct deep &x, uint32_t slot, uint32_t d)
{
    return (uint16_t *)(x.ring + slot * CUDA_DEEP_SLOT) + d;
}

__device__ static inline uint32_t slot_after(const struct deep &x, uint32_t slot)
{
    return slot + 1 == x.slots ? 0 : slot + 1;
}

/* The weights of block @b, of the rows from that on whose weights are at @p. */
template <int R> __device__ static inline const float *weights_at(const float *p, uint32_t b)
{
    return p + b / CUDA_DEEP_QUAD * R * CUDA_DEEP_KEYS + b % CUDA_DEEP_QUAD * CUDA_WARP;
}

/* Add all keys of the blocks [b, end) of V, which have arrived, the first in slot @slot. @read: empty_v[]; @d: the
 * thread's first dim; @p, @c: weights and factors of its rows. Returns the slot behind. */
template <int dim, int R, int Q, int D>
__device__ static inline uint32_t add_blocks(const struct deep &x, uint32_t read, uint32_t b, uint32_t end,
                                             uint32_t slot, uint32_t d, const float *p, const float *c,
                                             chained<Q, D> &y)
{
    constexpr uint32_t blocks = layout<dim>::blocks, step = 2 * KEYS;
    const uint16_t *v = value_at(x, slot, d);
    const float *w = weights_at<R>(p, b);
    keys<Q, D> one, two;
    read_keys<dim>(v, w, one);
#pragma unroll 1
    for (; b < end; b++) {
        const bool last = b % blocks == blocks - 1; /* of its piece */
        scale_all<Q, D>(*(const values<Q> *)(c + b * R), y);
#pragma unroll
        for (uint32_t j = 0; j < CUDA_WARP; j += step) { /* reads before what needs them */
            read_keys<dim>(v + KEYS * dim, w + KEYS, two);
            add_some(one, y);
            const bool ends = last && j + step == CUDA_WARP;
            if (ends) slot = slot_after(x, slot);
            if (!ends)
                v += step * dim, w += step;
            else if (b + 1 < end)
                v = value_at(x, slot, d), w = weights_at<R>(p, b + 1);
            read_keys<dim>(v, w, one);
            add_some(two, y);
        }
        __syncwarp();
        if (last && threadIdx.x % CUDA_WARP == 0) bar_arrive_at(bar_of(read, b / blocks));
    }
    return slot;
}

/* Add all keys of the pieces [i, end) of V, as many at a time as are waited for: a loop with a wait in it is slower. */
template <int dim, int R, bool FEW, int Q, int D>
__device__ static inline uint32_t add_pieces(const struct deep &x, const struct count &n, uint32_t i, uint32_t end,
                                             uint32_t slot, uint32_t d, const float *p, const float *c,
                                             chained<Q, D> &y)
{
    constexpr uint32_t blocks = layout<dim>::blocks, some = (FEW ? CUDA_DEEP_QUAD : 2) / blocks;
    const uint32_t arrived = bars_at(&full[n.keys]), read = bars_at(empty_v);
#pragma unroll 1
    for (uint32_t stop; i < end; i = stop) {
        stop = min(i + min(some, x.slots), end);
#pragma unroll
        for (uint32_t k = 0; k < some; k++) bar_wait_at(bar_of(arrived, min(i + k, stop - 1)), 0);
        slot = add_blocks<dim, R>(x, read, i * blocks, stop * blocks, slot, d, p, c, y);
    }
    return slot;
}

/* Add the keys [lo, hi) of a block; others are read, too. */
template <int dim, int Q, int D>
__device__ static inline void add_keys(const uint16_t *v, const float *p, const float *c, uint32_t lo, uint32_t hi,
                                       chained<Q, D> &y)
{
    if (lo >= hi) return;
    scale_all<Q, D>(*(const values<Q> *)c, y);
#pragma unroll 1
    for (uint32_t j = lo / KEYS * KEYS; j < hi; j += KEYS) {
        keys<Q, D> k;
        read_keys<dim>(v + j * dim, p + j, k);
#pragma unroll
        for (uint32_t i = 0; i < KEYS; i++)
            if (j + i >= lo && j + i < hi) add_key<Q, D>(k, i, y);
    }
}

/* Add the keys of the blocks [b, end), which are the piece at @v, as far as they are visible. The token's own value
 * takes its place. */
template <int dim, int R, int Q, int D>
__device__ static inline void add_visible(const struct steps &s, const struct deep &x, const struct early &e,
                                          uint32_t d, uint16_t *v, const float *p, const float *c, uint32_t b,
                                          uint32_t end, chained<Q, D> &y)
{
    for (uint32_t k = 0; k < D && e.own && e.at - b < end - b; k++)
        v[((e.at - b) * CUDA_WARP + e.slot) * dim + k] = to_half(x.value[d + k]);
#pragma unroll 1
    for (; b < end; b++, v += CUDA_WARP * dim) {
        uint32_t lo, hi;
        visible(s.begin, s.end, s.first + b * CUDA_WARP, lo, hi);
        add_keys<dim>(v, weights_at<R>(p, b), c + b * R, lo, hi, y);
    }
}

/* The chains of the dims from @d on and the rows from @first on. */
template <int dim, int R, bool FEW, int Q, int D>
__device__ static inline void chain_some(const struct steps &s, const struct deep &x, const struct count &n,
                                         const struct early &e, uint32_t d, uint32_t first, chained<Q, D> &y)
{
    constexpr uint32_t blocks = layout<dim>::blocks;
    const float *p = x.weights + first * CUDA_DEEP_KEYS, *c = x.factors + first;
    /* the blocks of which all keys are visible, as far as there are some, and none is the token's */
    const uint32_t from = s.begin > s.first ? (s.begin - s.first + CUDA_WARP - 1) / CUDA_WARP : 0;
    const uint32_t whole = min((max(s.end, s.first) - s.first) / CUDA_WARP, n.blocks);
    const uint32_t to = (e.own ? min(whole, e.at) : whole) / blocks; /* pieces */
    uint32_t slot = n.keys % x.slots;
#pragma unroll 1
    for (uint32_t i = 0, end; n.keys + i < n.all; i = end) {
        const uint32_t b = i * blocks;
        end = i + 1;
        if (b >= from && i < to) {
            end = to;
            slot = add_pieces<dim, R, FEW>(x, n, i, end, slot, d, p, c, y);
            continue;
        }
        bar_wait(&full[n.keys + i], 0);
        add_visible<dim, R>(s, x, e, d, value_at(x, slot, d), p, c, b, min(b + blocks, n.blocks), y);
        warp_arrive(&empty_v[i]);
        slot = slot_after(x, slot);
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
template <int dim, int R, bool FEW>
__device__ static inline void chain_deep(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &s,
                                         const struct deep &x, const struct count &n, const struct early &e)
{
    constexpr int Q = own_rows<dim, R, FEW>, D = own_dims<dim, R, FEW>, W = CUDA_DEEP_WARPS(FEW);
    static_assert(chains<dim, R, FEW> <= W * CUDA_WARP, "each thread has chains once");
    const uint32_t d = threadIdx.x * D % dim, first = threadIdx.x * D / dim * Q;
    if (threadIdx.x / CUDA_WARP == W - 1) sum_rows<R>(x, n);
    if (threadIdx.x < chains<dim, R, FEW>) {
        chained<Q, D> y = {};
        chain_some<dim, R, FEW>(s, x, n, e, d, first, y);
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
template <int dim, int R, bool FEW> __device__ static inline void attend(const struct cuda_deep &of)
{
    constexpr int W = CUDA_DEEP_WARPS(FEW);
    const struct cuda_decode &a = of.a;
    const uint32_t head = blockIdx.y / of.share;
    init_bars<dim, R, FEW>();
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
    if (fetches) fetch_all<dim>(a.attn, t, x, n, head);
    const struct early e = read_early(a, t, s, head, x.cs);
    if (!fetches) {
        const struct part p = part_of<R, FEW>(s, t, n);
        lane_scores<score_rows<R, FEW>> y = {};
        meet<W>();
        wait_before();
        const bool stores = blockIdx.y % of.share == 0;
        if (of.plain)
            make_plain<dim, R, W>(a, t, x, e, head, stores);
        else
            make_deep<dim, R, W>(a, t, x, e, head, stores);
        meet<W>();
        if (p.quad < n.quads) score_part<dim, R>(a.attn, x, n, e, p, y);
        meet<W>();
        if (p.quad < n.quads) weigh_part<R>(x, n, p, y);
        meet<W>();
        chain_deep<dim, R, FEW>(a, t, s, x, n, e);
    }
    if (e.one) return;
    /* what is in shared memory has served its purpose: the ring and the weights, then the queries and what follows */
    const uint32_t bytes = (uint8_t *)x.queries - x.ring;
    put_all(a, t, joint_of((struct joining *)x.queries, x.ends, x.ring, bytes, s.rows, dim), s.rows);
}

static_assert(2 * 64 + 64 * 8 + 3 * BLOCKS * 8 >= 4 * CUDA_WARP * 8,
              "there is room for struct joining of 8 rows, and so of fewer");

#define DEEP(name, dim, rows, few)                                                                                     \
    extern "C" __global__ void __launch_bounds__(CUDA_DEEP_THREADS(few), CUDA_DEEP_CTAS(few))                          \
        cuda_##name##_##dim##_##rows(const __grid_constant__ struct cuda_deep a)                                       \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        attend<dim, rows, few>(a);                                                                                     \
    }
DEEP(deep_few, 64, 2, true)
DEEP(deep_few, 64, 4, true)
DEEP(deep_few, 64, 8, true)
DEEP(deep_few, 128, 2, true)
DEEP(deep_few, 128, 4, true)
DEEP(deep_few, 128, 8, true)
DEEP(deep, 64, 4, false)
DEEP(deep, 64, 8, false)
DEEP(deep, 128, 4, false)
DEEP(deep, 128, 8, false)
