/* SPDX-License-Identifier: MIT */
/*
 * Heads, attention and merge of tokens that are alone in the steps of their sequences: a CTA for each tile and KV head.
 * cuda_near_* has copies of the tile's KV blocks in shared memory, which arrive while the kernels before still run:
 * only this kernel writes to the layer's blocks, and only the token's own slot. It is of sm_90 alone, as cuda_plain_*.
 */
#include "kernels/cuda/attn-pairs.cuh"
#include "kernels/cuda/bulk.cuh"

#define PARTS 4 /* that a thread joins at once */

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

__shared__ static uint64_t arrived;

/* Start the copies of the tile's KV blocks. By one warp. */
__device__ static inline void fetch(const struct cuda_attn &a, const struct cuda_tile &t, const struct steps &x)
{
    const uint32_t n = (t.to - t.from + CUDA_WARP - 1) / CUDA_WARP, b = threadIdx.x;
    if (b == 0) {
        bar_init(&arrived, 1);
        bar_fence();
        bar_expect(&arrived, n * a.kv.each);
    }
    __syncwarp();
    if (b < n) bulk_copy(x.near + b * a.kv.each, block_of<false>(a, t, x, b), a.kv.each, &arrived);
}

/* What a CTA reads before it waits: about the token, its slot, which may be in the tile, and its angles. */
struct early {
    bool own, one;     /* one: the token has one part */
    uint32_t slot, at; /* at: offset of the block's copy */
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
    e.at = (token.pos - t.from) / CUDA_WARP * a.attn.kv.each;
    e.block = kv_block(a.attn.kv, token.block[a.heads.group], blockIdx.y);
    e.cs = cs;
    for (uint32_t i = threadIdx.x; i < a.heads.rot; i += blockDim.x) cs[i] = from[i];
    return e;
}

/* A head of K or V goes to the copy of its block, and to the block. */
__device__ static inline void place(const struct cuda_heads &a, const struct head &h, const struct early &e,
                                    const struct steps &x, uint32_t half, bool key)
{
    store(a, h, x.near + e.at + half, e.slot, key);
    store(a, h, (uint8_t *)e.block + half, e.slot, key);
}

/* The tile's queries, and K and V of its token, if the tile has it. */
__device__ static inline void make_near(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &x,
                                        const struct early &e)
{
    const uint32_t dim = a.attn.dim, wide = (dim + 3) / 4 * 4, group = a.attn.group;
    for (uint32_t r = threadIdx.x / CUDA_WARP; r < group + 2 * e.own; r += blockDim.x / CUDA_WARP) {
        const struct head h = {x.queries + r * wide, dim, threadIdx.x % CUDA_WARP};
        if (r < group) {
            make_query(a.heads, h, t.token, blockIdx.y * group + r, e.cs);
        } else if (r == group) {
            make_key(a.heads, h, t.token, blockIdx.y, e.cs);
            bar_wait(&arrived, 0);
            place(a.heads, h, e, x, 0, true);
        } else {
            make_value(a.heads, h, t.token, blockIdx.y);
            bar_wait(&arrived, 0);
            place(a.heads, h, e, x, a.attn.kv.half, false);
        }
    }
    bar_wait(&arrived, 0);
    __syncthreads();
}

/* --- results --- */

/* The running result of a merge, of one dim. */
struct one_dim {
    struct merged x;
    float o;
};

/* join(), if @valid, without a branch: the exponents of several parts are computed at once. */
__device__ static inline void join_one(struct one_dim &y, const struct result &part, bool valid)
{
    struct merged x = y.x;
    float o = y.o;
    const float top = part.m > x.m ? part.m : x.m, a = exp_(x.m - top), b = exp_(part.m - top);
    x.l = x.any ? fma_(part.l, b, x.l * a) : part.l;
    o = x.any ? fma_(part.o, b, o * a) : part.o;
    x.m = x.any ? top : part.m;
    x.any = true;
    if (valid) y.x = x, y.o = o;
}

/* Join the parts of dim @d of head @head, which lie in memory. */
__device__ static inline void join_parts(const struct cuda_merge &a, const struct cuda_seen &seen, uint32_t head,
                                         uint32_t d, struct one_dim &y)
{
    for (uint32_t first = 0; first < seen.parts; first += PARTS) {
        struct result part[PARTS];
#pragma unroll
        for (uint32_t i = 0; i < PARTS; i++) {
            const uint64_t at = (uint64_t)(seen.row + min(first + i, seen.parts - 1)) * a.heads + head;
            part[i] = {__ldcg(a.m + at), __ldcg(a.l + at), __ldcg(a.o + at * a.dim + d)};
        }
#pragma unroll
        for (uint32_t i = 0; i < PARTS; i++) join_one(y, part[i], first + i < seen.parts && part[i].l > 0.0f);
    }
}

/* The result of dim @d of row @r: of its parts, which lie in memory, or of @one. */
__device__ static inline void put(const struct cuda_decode &a, const struct cuda_tile &t, uint32_t r, uint32_t d,
                                  const struct result *one)
{
    const struct cuda_seen &seen = a.attn.seen[t.token];
    const struct cuda_merge &to = a.merge;
    const uint32_t head = blockIdx.y * a.attn.group + r, dim = a.attn.dim;
    struct one_dim y = {{0.0f, 0.0f, false}, 0.0f};
    if (one)
        join_one(y, *one, one->l > 0.0f);
    else
        join_parts(to, seen, head, d, y);
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
    if (one)
        put(a, t, r, d, &v);
    else
        leave(a.attn, t, r, d, v);
}

/* Merge the parts, if the CTA is the last one that left some. */
__device__ static inline void put_all(const struct cuda_decode &a, const struct cuda_tile &t, const struct steps &x)
{
    if (!is_last(a, t)) return;
    for (uint32_t i = threadIdx.x; i < x.rows * a.attn.dim; i += blockDim.x)
        put(a, t, i / a.attn.dim, i % a.attn.dim, NULL);
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
    weights<type, false, 8>(a.attn, t, x);
    for (uint32_t i = threadIdx.x; i < x.rows * a.attn.dim; i += blockDim.x) {
        const uint32_t r = i / a.attn.dim, d = i % a.attn.dim;
        give(a, t, r, d, chain<type>(a.attn, t, x, r, d), one);
    }
    if (!one) put_all(a, t, x);
}

/* Shared memory: start_decode() of daemon/backend/cuda/attention.c. @plain: cuda_is_plain(). */
template <int type, bool plain> __device__ static inline void near(const struct cuda_decode &a)
{
    const struct cuda_tile t = a.attn.tiles[blockIdx.x];
    struct steps x = steps_of(a.attn, t);
    struct early e;
    if (x.rows) {
        x.ends = (float2 *)(x.factors + x.rows * BLOCKS);
        float *cs = (float *)(x.ends + BLOCKS);
        x.near = (uint8_t *)cs + (a.heads.rot * sizeof(float) + 127) / 128 * 128;
        if (threadIdx.x < CUDA_WARP) fetch(a.attn, t, x);
        e = read_early(a, t, x, cs);
        __syncthreads();
    }
    wait_before();
    if (!x.rows) return;
    make_near(a, t, x, e);
    weights<type, true, 4, plain ? 2 : 4>(a.attn, t, x);
    if (!plain && x.rows % 2)
        chains<type, 1>(a.attn, t, x);
    else
        chains<type, 2>(a.attn, t, x);
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
        near<type, false>(a);                                                                                          \
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
    near<type, true>(a);
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
