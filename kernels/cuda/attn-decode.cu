/* SPDX-License-Identifier: MIT */
/*
 * Heads, attention and merge of tokens that are alone in the steps of their sequences: a CTA for each tile and KV head.
 * cuda_near_* has copies of the tile's KV blocks in shared memory, which arrive while the kernels before still run:
 * only this kernel writes to the layer's blocks, and only the token's own slot. In cuda_apart_*, of larger heads, V of
 * a block takes the place of K as soon as its scores are computed. These kernels are of sm_90 alone, as cuda_plain_*.
 */
#include "kernels/cuda/attn-pairs.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/join.cuh"

/* Bring the KV blocks of the tile and head into the L2 cache. */
__device__ static inline void prefetch(const struct cuda_attn &a, const struct cuda_tile &t)
{
    for (uint32_t pos = t.from + threadIdx.x / CUDA_WARP * CUDA_WARP; pos < t.to; pos += blockDim.x) {
        const uint8_t *block = kv_block(a.kv, a.table[t.table + pos / CUDA_WARP], blockIdx.y);
        for (uint32_t i = threadIdx.x % CUDA_WARP * 128; i < a.kv.each; i += CUDA_WARP * 128)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(block + i));
    }
}

/* The tile's queries in shared memory; K and V of its token go to their block, if the tile has it. */
__device__ static inline void make_heads(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t warp = threadIdx.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP, dim = a.attn.dim;
    const uint32_t wide = (dim + 3) / 4 * 4, group = a.attn.group;
    const bool own = !t.sinks && t.to == a.attn.seen[t.token].end;
    for (uint32_t r = warp; r < group + 2 * own; r += blockDim.x / CUDA_WARP) {
        const struct head h = {x.queries + r * wide, dim, lane};
        if (r < group)
            make_query(a.heads, h, t.token, blockIdx.y * group + r, angles_of(a.heads, t.token, t.sinks));
        else if (r == group)
            place_key(a.heads, h, t.token, blockIdx.y);
        else
            place_value(a.heads, h, t.token, blockIdx.y);
    }
    __syncthreads();
}

/* --- copies in shared memory --- */

/* Copies have arrived: of a KV block, or of its K; in cuda_apart_* of its V. */
__shared__ static uint64_t copies[BLOCKS], copies_v[BLOCKS];

/* Start the copies of the tile's KV blocks, or of their K: a warp those of its blocks. */
template <bool APART>
__device__ static inline void fetch(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t n = (t.to - t.from + CUDA_WARP - 1) / CUDA_WARP, bytes = APART ? a.kv.half : a.kv.each;
    if (threadIdx.x % CUDA_WARP) return;
    for (uint32_t b = threadIdx.x / CUDA_WARP; b < n; b += blockDim.x / CUDA_WARP) {
        bar_init(&copies[b], 1);
        if (APART) bar_init(&copies_v[b], 1);
        bar_fence();
        bar_expect(&copies[b], bytes);
        bulk_copy(x.near + b * x.step, block_of<false>(a, t, x, b), bytes, &copies[b]);
    }
}

/* V of the tile's blocks, when their K has been read. */
__device__ static inline void fetch_values(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t n = (t.to - t.from + CUDA_WARP - 1) / CUDA_WARP, warps = blockDim.x / CUDA_WARP;
    if (1u << x.shift == warps)
        __syncwarp(); /* a warp has computed all scores of its block */
    else
        __syncthreads();
    if (threadIdx.x % CUDA_WARP) return;
    for (uint32_t b = threadIdx.x / CUDA_WARP; b < n; b += warps) {
        proxy_fence();
        bar_expect(&copies_v[b], a.kv.half);
        bulk_copy(x.near + b * x.step, block_of<false>(a, t, x, b) + a.kv.half, a.kv.half, &copies_v[b]);
    }
}

/* What a CTA reads before it waits: about the token, its slot, which may be in the tile, and its angles. */
struct early {
    bool own, one;     /* one: the token has one part */
    uint32_t slot, at; /* at: its block's number in the tile */
    const uint8_t *block;
    const float *cs; /* in shared memory */
};

__device__ static inline struct early read_early(const struct cuda_decode &a, const struct cuda_tile &t,
                                                 struct steps &x, float *cs)
{
    const struct cuda_token token = a.heads.token[t.token];
    const struct cuda_seen seen = a.attn.seen[t.token];
    const float *from = (t.sinks ? a.heads.sink_cs : a.heads.cs) + (uint64_t)t.token * a.heads.rot;
    struct early e;
    x.first = t.from;
    x.begin = t.sinks ? 0 : seen.begin;
    x.end = t.sinks ? t.to : min(seen.end, t.to);
    e.one = seen.parts == 1;
    e.own = !t.sinks && t.to == seen.end;
    e.slot = token.pos % CUDA_WARP;
    e.at = (token.pos - t.from) / CUDA_WARP;
    e.block = kv_block(a.attn.kv, token.block[a.heads.group], blockIdx.y);
    e.cs = cs;
    for (uint32_t i = threadIdx.x; i < a.heads.rot; i += blockDim.x) cs[i] = from[i];
    return e;
}

/* The tile's queries, and K and V of its token, if the tile has it: they go to their block, and K to its copy. V too,
 * if it is there; else it stays where it is. */
template <bool APART>
__device__ static inline void make_near(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &x,
                                        const struct early &e)
{
    const uint32_t dim = a.attn.dim, wide = (dim + 3) / 4 * 4, group = a.attn.group;
    for (uint32_t r = threadIdx.x / CUDA_WARP; r < group + 2 * e.own; r += blockDim.x / CUDA_WARP) {
        const struct head h = {x.queries + r * wide, dim, threadIdx.x % CUDA_WARP};
        const bool key = r == group;
        if (r < group) {
            make_query(a.heads, h, t.token, blockIdx.y * group + r, e.cs);
            continue;
        }
        if (key)
            make_key(a.heads, h, t.token, blockIdx.y, e.cs);
        else
            make_value(a.heads, h, t.token, blockIdx.y);
        store(a.heads, h, (uint8_t *)e.block + (key ? 0 : a.attn.kv.half), e.slot, key);
        if (APART && !key) continue;
        bar_wait(&copies[e.at], 0);
        store(a.heads, h, x.near + e.at * x.step + (key ? 0 : x.values), e.slot, key);
    }
    __syncthreads();
}

/* V of the token goes to the copy of its block, now that this is there. By one warp. */
__device__ static inline void put_value(const struct cuda_decode &a, const struct steps &x, const struct early &e)
{
    const uint32_t dim = a.attn.dim, wide = (dim + 3) / 4 * 4;
    const struct head h = {x.queries + (a.attn.group + 1) * wide, dim, threadIdx.x % CUDA_WARP};
    bar_wait(&copies_v[e.at], 0);
    store(a.heads, h, x.near + e.at * x.step, e.slot, false);
}

/* --- results --- */

/* The result of dim @d of row @r. */
__device__ static inline void put(const struct cuda_decode &a, const struct cuda_tile &t, uint32_t r, uint32_t d,
                                  struct one_dim y)
{
    const struct cuda_merge &to = a.merge;
    const uint32_t head = blockIdx.y * a.attn.group + r, dim = a.attn.dim;
    if (to.sink_scores) join_one(y, {to.sink_scores[head], 1.0f, 0.0f}, true);
    const float v = y.o / y.x.l;
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

/* What becomes of the result of dim @d of row @r. */
__device__ static inline void give(const struct cuda_decode &a, const struct cuda_tile &t, uint32_t r, uint32_t d,
                                   const struct result &v, bool one)
{
    struct one_dim y = {{0.0f, 0.0f, false}, 0.0f};
    if (!one) {
        leave(a.attn, t, r, d, v);
        return;
    }
    join_one(y, v, v.l > 0.0f);
    put(a, t, r, d, y);
}

/* Merge the parts, if the CTA is the last one that left some. */
__device__ static inline void put_all(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &x)
{
    if (!is_last(a, t)) return;
    const struct cuda_seen seen = a.attn.seen[t.token];
    const uint32_t all = x.rows * a.attn.dim, head = blockIdx.y * a.attn.group;
    for (uint32_t from = 0; from < all; from += blockDim.x) {
        const uint32_t i = min(from + threadIdx.x, all - 1), r = i / a.attn.dim, d = i % a.attn.dim;
        struct one_dim y = {{0.0f, 0.0f, false}, 0.0f};
        if (seen.parts <= FEW)
            join_few(a.merge, seen, head + r, d, y);
        else
            join_all(a.merge, seen, head, x.rows, r, d, y);
        if (from + threadIdx.x < all) put(a, t, r, d, y);
    }
}

template <int type> __device__ static inline void decode(const struct cuda_decode &a)
{
    const struct cuda_tile t = a.attn.tiles[blockIdx.x];
    const struct steps x = steps_of(a.attn, t);
    if (x.rows) prefetch(a.attn, t);
    wait_before();
    if (!x.rows) return;
    const bool one = a.attn.seen[t.token].parts == 1;
    make_heads(a, t, x);
    weights<type>(a.attn, t, x);
    for (uint32_t i = threadIdx.x; i < x.rows * a.attn.dim; i += blockDim.x) {
        const uint32_t r = i / a.attn.dim, d = i % a.attn.dim;
        give(a, t, r, d, chain<type>(a.attn, t, x, r, d), one);
    }
    if (!one) put_all(a, t, x);
}

/* Shared memory: start_decode() of daemon/backend/cuda/attention.c. @plain: cuda_is_plain(). */
template <int type, bool plain, bool APART> __device__ static inline void near(const struct cuda_decode &a)
{
    const struct cuda_tile t = a.attn.tiles[blockIdx.x];
    struct steps x = steps_of(a.attn, t);
    struct early e;
    if (x.rows) {
        x.ends = (float2 *)(x.factors + x.rows * BLOCKS);
        float *cs = (float *)(x.ends + BLOCKS);
        x.near = (uint8_t *)cs + (a.heads.rot * sizeof(float) + 127) / 128 * 128;
        x.step = APART ? a.attn.kv.half : a.attn.kv.each;
        x.values = APART ? 0 : a.attn.kv.half;
        fetch<APART>(a.attn, t, x);
        e = read_early(a, t, x, cs);
        __syncthreads();
    }
    wait_before();
    if (!x.rows) return;
    make_near<APART>(a, t, x, e);
    score_all<type, true, 4>(a.attn, t, x, copies);
    if (APART) fetch_values(a.attn, t, x);
    __syncthreads();
    weigh<true, plain ? 2 : 4>(a.attn, t, x);
    if (APART && e.own && threadIdx.x < CUDA_WARP) put_value(a, x, e);
    __syncthreads();
    chains<type>(a.attn, t, x, APART ? copies_v : copies);
    for (uint32_t i = threadIdx.x; i < x.rows * a.attn.dim; i += blockDim.x) {
        const uint32_t r = i / a.attn.dim, d = i % a.attn.dim;
        give(a, t, r, d, {x.ends[r].x, x.ends[r].y, x.queries[r * ((a.attn.dim + 3) / 4 * 4) + d]}, e.one);
    }
    if (!e.one) put_all(a, t, x);
}

#define DECODE(name, type)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP)                                                    \
        cuda_decode_##name(const __grid_constant__ struct cuda_decode a)                                               \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        decode<type>(a);                                                                                               \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP, 2)                                                 \
        cuda_near_##name(const __grid_constant__ struct cuda_decode a)                                                 \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        near<type, false, false>(a);                                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP, 1)                                                 \
        cuda_apart_##name(const __grid_constant__ struct cuda_decode a)                                                \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        near<type, false, true>(a);                                                                                    \
    }
DECODE(f32, KV_F32)
DECODE(f16, KV_F16)
DECODE(q8, KV_Q8)

/* The same of the usual case (cuda_is_plain()), with nothing else in the code: fetching instructions took most of the
 * time. */
template <int type, int dim> __device__ static inline void plain(const struct cuda_decode &of)
{
    struct cuda_decode a = of;
    a.heads.dim = a.heads.rot = a.attn.dim = dim, a.merge.dim = dim;
    a.heads.q_bias = a.heads.k_bias = a.heads.v_bias = a.heads.q_norm = a.heads.k_norm = NULL;
    a.heads.warmth = NULL;
    a.heads.rotates = 1, a.heads.unit = a.heads.v_norm = 0;
    a.heads.type = type;
    a.attn.cap = 0.0f;
    a.merge.sink_scores = NULL;
    a.merge.f = NULL;
    a.merge.q.wide = 0;
    near<type, true, false>(a);
}

#define PLAIN(name, type, dim)                                                                                         \
    extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP, 2)                                                 \
        cuda_plain_##name##_##dim(const __grid_constant__ struct cuda_decode a)                                        \
    {                                                                                                                  \
        start_next();                                                                                                  \
        touch(a);                                                                                                      \
        plain<type, dim>(a);                                                                                           \
    }
PLAIN(f32, KV_F32, 64)
PLAIN(f16, KV_F16, 64)
PLAIN(q8, KV_Q8, 64)
PLAIN(f32, KV_F32, 128)
PLAIN(f16, KV_F16, 128)
PLAIN(q8, KV_Q8, 128)
