/* SPDX-License-Identifier: MIT */
/*
 * Heads, attention and merge of tokens that are alone in the steps of their sequences: a CTA for each tile and KV head.
 * cuda_near_* has copies of the tile's KV blocks in shared memory, which arrive while the kernels before still run:
 * only this kernel writes to the layer's blocks, and only the token's own slot. In cuda_apart_*, of larger heads, V of
 * a block takes the place of K as soon as its scores are computed. These kernels are of sm_90 alone, as cuda_plain_*.
 */
#include "kernels/cuda/alone.cuh"
#include "kernels/cuda/attn-pairs.cuh"

__shared__ static struct joining joining[BLOCKS][CUDA_WARP];
__shared__ static float largest[BLOCKS];

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
    const uint32_t n = tile_blocks(t), bytes = APART ? a.kv.half : a.kv.each;
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
    const uint32_t n = tile_blocks(t), warps = blockDim.x / CUDA_WARP;
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

/* The tile's queries, and K and V of its token, if the tile has it: they go to their block, and K to its copy. V too,
 * if it has arrived; else it stays where it is. */
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

/* V of the token goes to the copy of its block, now that this has arrived. By one warp. */
__device__ static inline void put_value(const struct cuda_decode &a, const struct steps &x, const struct early &e)
{
    const uint32_t dim = a.attn.dim, wide = (dim + 3) / 4 * 4;
    const struct head h = {x.queries + (a.attn.group + 1) * wide, dim, threadIdx.x % CUDA_WARP};
    bar_wait(&copies_v[e.at], 0);
    store(a.heads, h, x.near + e.at * x.step, e.slot, false);
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
    if (!one) put_all(a, t, joint_of(joining[0], largest, NULL, 0, x.rows, a.attn.dim), x.rows);
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
        x.near = (uint8_t *)(cs + a.heads.rot);
        x.near += -shared_at(x.near) % CUDA_COPY_TO;
        x.step = APART ? a.attn.kv.half : a.attn.kv.each;
        x.values = APART ? 0 : a.attn.kv.half;
        fetch<APART>(a.attn, t, x);
        e = read_early(a, t, x, blockIdx.y, cs);
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
    if (e.one) return;
    const uint32_t bytes = a.attn.width / CUDA_WARP * x.step;
    put_all(a, t, joint_of(joining[0], largest, x.near, bytes, x.rows, a.attn.dim), x.rows);
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
