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

static_assert(2 * 64 + 64 * 8 + 3 * BLOCKS * 8 >= 4 * CUDA_WARP * 8,
              "there is room for struct joining of 8 rows, and so of fewer");

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
