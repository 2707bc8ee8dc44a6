/* SPDX-License-Identifier: MIT */
/*
 * Attention of tiles with few queries, the merge of all tiles' parts, and both with the heads before them for tokens
 * that are alone in their sequences' steps. A CTA computes the queries of a tile that
 * share a KV head, in three steps: the scores, a warp for each block of keys; their weights, the same; then the chains
 * of the output over all keys, a thread for each query and dim. Shared memory: few_floats() of
 * daemon/backend/cuda/attention.c.
 */
#include "kernels/cuda/heads.cuh"

#define ROWS   8                          /* queries whose scores a warp computes at once */
#define BLOCKS (CUDA_SEGMENT / CUDA_WARP) /* warps, and blocks of a tile */

/* What the steps leave for each other, in shared memory. */
struct steps {
    float *queries; /* [rows][dim rounded up to 4] */
    float *weights; /* [rows][512] scores, then exp(score - m) */
    float *tops;    /* [rows][BLOCKS] largest score of a block; -infinity: the query sees none of it */
    float *sums;    /* [rows][BLOCKS] of the weights */
    float *own;     /* [2][dim rounded up to 4] K and V of the token, in cuda_decode_* */
    uint32_t rows;
};

/* What a query gets of a part: one dim. */
struct result {
    float m, l, o;
};

/* Visible positions of a row. */
__device__ static inline void seen_of(const struct cuda_attn &a, const struct cuda_tile &t, uint32_t row,
                                      uint32_t &begin, uint32_t &end)
{
    const struct cuda_seen &s = a.seen[t.token + row / a.group];
    begin = t.sinks ? 0 : s.begin;
    end = t.sinks ? t.to : min(s.end, t.to);
}

/* Scores of the warp's block. */
template <int type>
__device__ static inline void score(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, warp = threadIdx.x / CUDA_WARP, pos = t.from + warp * CUDA_WARP;
    const uint32_t wide = (a.dim + 3) / 4 * 4, at = t.table + pos / CUDA_WARP;
    if (pos >= t.to) {
        for (uint32_t r = lane; r < x.rows; r += CUDA_WARP) x.tops[r * BLOCKS + warp] = NOTHING;
        return;
    }
    const uint8_t *k = kv_block(a.kv, a.table[at], blockIdx.y);
    for (uint32_t first = 0; first < x.rows; first += ROWS) {
        const float *q[ROWS];
        float s[ROWS];
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) q[r] = x.queries + min(first + r, x.rows - 1) * wide;
        scores<type, ROWS>(q, a.dim, k, s);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            uint32_t begin, end, lo, hi;
            if (first + r >= x.rows) continue;
            seen_of(a, t, first + r, begin, end);
            visible(begin, end, pos, lo, hi);
            float v = s[r] * a.scale;
            if (a.cap > 0.0f) v = softcap_(v, a.cap);
            x.weights[(first + r) * CUDA_SEGMENT + threadIdx.x] = v;
            const float top = warp_max(lane >= lo && lane < hi ? v : NOTHING) + 0.0f;
            if (lane == 0) x.tops[(first + r) * BLOCKS + warp] = top;
        }
    }
}

/* Weights of all rows and blocks, which the warps share: with the largest score up to a block's end. */
__device__ static inline void weigh(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, n = (t.to - t.from + CUDA_WARP - 1) / CUDA_WARP;
    for (uint32_t i = threadIdx.x / CUDA_WARP; i < x.rows * n; i += BLOCKS) {
        const uint32_t r = i / n, b = i % n;
        uint32_t begin, end, lo, hi;
        seen_of(a, t, r, begin, end);
        visible(begin, end, t.from + b * CUDA_WARP, lo, hi);
        if (lo >= hi) continue;
        const float m = warp_max(lane <= b ? x.tops[r * BLOCKS + lane] : NOTHING);
        float *w = &x.weights[r * CUDA_SEGMENT + b * CUDA_WARP + lane];
        const float p = lane >= lo && lane < hi ? exp_(*w - m) : 0.0f, sum = fold<32>(p);
        *w = p;
        if (lane == 0) x.sums[r * BLOCKS + b] = sum;
    }
}

/* The chain of dim @d of row @r over the keys [lo, hi) of a block. */
template <int type>
__device__ static inline float add_values(const uint8_t *v, const float *p, uint32_t dim, uint32_t d, uint32_t lo,
                                          uint32_t hi, float o)
{
    if (lo == 0 && hi == CUDA_WARP) {
        float e[CUDA_WARP];
#pragma unroll
        for (uint32_t j = 0; j < CUDA_WARP; j++) e[j] = value<type>(v, dim, d, j);
#pragma unroll
        for (uint32_t j = 0; j < CUDA_WARP; j++) o = fma_(p[j], e[j], o);
        return o;
    }
    for (uint32_t j = lo; j < hi; j++) o = fma_(p[j], value<type>(v, dim, d, j), o);
    return o;
}

/* Output, maximum and sum of dim @d of row @r. */
template <int type>
__device__ static inline struct result chain(const struct cuda_attn &a, const struct cuda_tile &t,
                                             const struct steps &x, uint32_t r, uint32_t d)
{
    float m = NOTHING, l = 0.0f, o = 0.0f;
    uint32_t begin, end;
    seen_of(a, t, r, begin, end);
    for (uint32_t b = 0; t.from + b * CUDA_WARP < t.to; b++) {
        const uint32_t pos = t.from + b * CUDA_WARP, at = t.table + pos / CUDA_WARP;
        const float top = x.tops[r * BLOCKS + b];
        uint32_t lo, hi;
        visible(begin, end, pos, lo, hi);
        if (lo >= hi) continue;
        if (m == NOTHING) {
            m = top;
        } else if (top > m) {
            const float c = exp_(m - top);
            m = top;
            l = l * c;
            o = o * c;
        }
        const uint8_t *v = kv_block(a.kv, a.table[at], blockIdx.y) + a.kv.half;
        o = add_values<type>(v, x.weights + r * CUDA_SEGMENT + b * CUDA_WARP, a.dim, d, lo, hi, o);
        l = l + x.sums[r * BLOCKS + b];
    }
    return {m, l, o};
}

/* Leave the part of dim @d of row @r for the merge. */
__device__ static inline void leave(const struct cuda_attn &a, const struct cuda_tile &t, uint32_t r, uint32_t d,
                                    const struct result &x)
{
    const struct cuda_seen &seen = a.seen[t.token + r / a.group];
    if (t.part >= seen.parts) return;
    const uint64_t row = (uint64_t)(seen.row + t.part) * a.heads + blockIdx.y * a.group + r % a.group;
    a.o[row * a.dim + d] = x.o;
    if (d == 0) a.m[row] = x.m, a.l[row] = x.l;
}

__device__ static inline struct steps steps_of(const struct cuda_attn &a, uint32_t rows)
{
    extern __shared__ float4 shared[];
    const uint32_t wide = (a.dim + 3) / 4 * 4;
    struct steps x;
    x.rows = rows;
    x.queries = (float *)shared;
    x.own = x.queries + rows * wide;
    x.weights = x.own + 2 * wide;
    x.tops = x.weights + rows * CUDA_SEGMENT;
    x.sums = x.tops + rows * BLOCKS;
    return x;
}

/* The first two steps. */
template <int type>
__device__ static inline void weights(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    score<type>(a, t, x);
    __syncthreads();
    weigh(a, t, x);
    __syncthreads();
}

template <int type> __device__ static inline void attention(const struct cuda_attn &a)
{
    const struct cuda_tile t = a.tiles[blockIdx.x];
    const struct steps x = steps_of(a, t.n * a.group);
    if (!x.rows) return;
    load_queries(a, t, x.queries);
    weights<type>(a, t, x);
    for (uint32_t i = threadIdx.x; i < x.rows * a.dim; i += blockDim.x)
        leave(a, t, i / a.dim, i % a.dim, chain<type>(a, t, x, i / a.dim, i % a.dim));
}

#define ATTENTION(name, type)                                                                                          \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP)                                                    \
        cuda_attn_few_##name(const __grid_constant__ struct cuda_attn a)                                               \
    {                                                                                                                  \
        begin();                                                                                                       \
        attention<type>(a);                                                                                            \
    }
ATTENTION(f32, KV_F32)
ATTENTION(f16, KV_F16)
ATTENTION(q8, KV_Q8)

/* --- merge --- */

/* The running result of a merge. */
struct merged {
    float m, l;
    bool any;
};

/* Add a part with l > 0 to the lane's @n dims @o; the part's are @more. */
__device__ static inline void join(struct merged &x, float *o, const float *more, uint32_t n, float m, float l)
{
    if (!x.any) {
        x = {m, l, true};
        for (uint32_t i = 0; i < n; i++) o[i] = more[i];
        return;
    }
    const float top = m > x.m ? m : x.m, a = exp_(x.m - top), b = exp_(m - top);
    x.m = top;
    x.l = fma_(l, b, x.l * a);
    for (uint32_t i = 0; i < n; i++) o[i] = fma_(more[i], b, o[i] * a);
}

/* Each lane has the dims lane, lane + 32, …; at most 8. */
extern "C" __global__ void cuda_merge(const __grid_constant__ struct cuda_merge a)
{
    begin();
    const uint32_t lane = threadIdx.x, head = blockIdx.y, n = (a.dim + CUDA_WARP - 1) / CUDA_WARP;
    const uint32_t row = a.first + blockIdx.x;
    const struct cuda_seen s = a.seen[a.list ? a.list[row] : row];
    float o[8] = {}, more[8] = {};
    struct merged x = {0.0f, 0.0f, false};
    for (uint32_t part = 0; part < s.parts; part++) {
        const uint64_t at = (uint64_t)(s.row + part) * a.heads + head;
        const float l = a.l[at];
        if (!(l > 0.0f)) continue;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t d = lane + i * CUDA_WARP;
            more[i] = d < a.dim ? a.o[at * a.dim + d] : 0.0f;
        }
        join(x, o, more, n, a.m[at], l);
    }
    for (uint32_t i = 0; i < n; i++) more[i] = 0.0f;
    if (a.sink_scores) join(x, o, more, n, a.sink_scores[head], 1.0f);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t d = lane + i * CUDA_WARP;
        const float v = o[i] / x.l;
        if (d < a.dim && a.f) a.f[((uint64_t)row * a.heads + head) * a.dim + d] = v;
        if (a.q.q) quantize(a.q, row, a.heads * a.dim, head * n + i, v);
    }
}

/* --- heads, attention and merge of tokens that are alone in the steps of their sequences --- */

/* Bring the KV blocks of the tile and head into the L2 cache. */
__device__ static inline void prefetch(const struct cuda_attn &a, const struct cuda_tile &t)
{
    const uint32_t pos = t.from + threadIdx.x / CUDA_WARP * CUDA_WARP;
    if (pos >= t.to) return;
    const uint8_t *block = kv_block(a.kv, a.table[t.table + pos / CUDA_WARP], blockIdx.y);
    for (uint32_t i = threadIdx.x % CUDA_WARP * 128; i < a.kv.each; i += CUDA_WARP * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(block + i));
}

/* The tile's queries in shared memory; K and V of its token go to their block, if the tile has it. */
__device__ static inline void make_heads(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP, dim = a.attn.dim;
    const uint32_t wide = (dim + 3) / 4 * 4, group = a.attn.group;
    const bool own = !t.sinks && t.to == a.attn.seen[t.token].end;
    for (uint32_t r = warp; r < group + 2 * own; r += BLOCKS) {
        const struct head h = {x.queries + r * wide, dim, lane};
        if (r < group)
            make_query(a.heads, h, t.token, blockIdx.y * group + r, t.sinks);
        else if (r == group)
            place_key(a.heads, h, t.token, blockIdx.y);
        else
            place_value(a.heads, h, t.token, blockIdx.y);
    }
    __syncthreads();
}

/* The result of dim @d of row @r: of its parts, which lie in memory, or of @one. */
__device__ static inline void put(const struct cuda_decode &a, const struct cuda_tile &t, uint32_t r, uint32_t d,
                                  const struct result *one)
{
    const struct cuda_seen &seen = a.attn.seen[t.token];
    const struct cuda_merge &to = a.merge;
    const uint32_t head = blockIdx.y * a.attn.group + r, dim = a.attn.dim;
    struct merged x = {0.0f, 0.0f, false};
    float o = 0.0f;
    for (uint32_t part = 0; part < seen.parts; part++) {
        const uint64_t at = (uint64_t)(seen.row + part) * a.attn.heads + head;
        const float l = one ? one->l : __ldcg(to.l + at);
        if (!(l > 0.0f)) continue;
        const float more = one ? one->o : __ldcg(to.o + at * dim + d);
        join(x, &o, &more, 1, one ? one->m : __ldcg(to.m + at), l);
    }
    const float none = 0.0f;
    if (to.sink_scores) join(x, &o, &none, 1, to.sink_scores[head], 1.0f);
    const float v = o / x.l;
    if (to.f) to.f[((uint64_t)t.token * a.attn.heads + head) * dim + d] = v;
    if (to.q.q) quantize(to.q, t.token, a.attn.heads * dim, (head * dim + d) / CUDA_WARP, v);
}

/* All parts of the token and KV head are there. The CTA that sees this is the last; it sets the counter back. */
__device__ static inline bool is_last(const struct cuda_decode &a, const struct cuda_tile &t)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *done = a.done + t.token * a.attn.kv_heads + blockIdx.y;
        last = atomicAdd(done, 1) + 1 == a.attn.seen[t.token].parts;
        if (last) *done = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

template <int type> __device__ static inline void decode(const struct cuda_decode &a)
{
    const struct cuda_tile t = a.attn.tiles[blockIdx.x];
    const struct steps x = steps_of(a.attn, t.n * a.attn.group);
    const bool one = x.rows && a.attn.seen[t.token].parts == 1;
    if (x.rows) prefetch(a.attn, t);
    wait_before();
    if (!x.rows) return;
    make_heads(a, t, x);
    weights<type>(a.attn, t, x);
    for (uint32_t i = threadIdx.x; i < x.rows * a.attn.dim; i += blockDim.x) {
        const uint32_t r = i / a.attn.dim, d = i % a.attn.dim;
        const struct result v = chain<type>(a.attn, t, x, r, d);
        if (one)
            put(a, t, r, d, &v);
        else
            leave(a.attn, t, r, d, v);
    }
    if (one || !is_last(a, t)) return;
    for (uint32_t i = threadIdx.x; i < x.rows * a.attn.dim; i += blockDim.x)
        put(a, t, i / a.attn.dim, i % a.attn.dim, NULL);
}

#define DECODE(name, type)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP)                                                    \
        cuda_decode_##name(const __grid_constant__ struct cuda_decode a)                                               \
    {                                                                                                                  \
        start_next();                                                                                                  \
        decode<type>(a);                                                                                               \
    }
DECODE(f32, KV_F32)
DECODE(f16, KV_F16)
DECODE(q8, KV_Q8)
