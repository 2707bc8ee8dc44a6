/* SPDX-License-Identifier: MIT */
#pragma once
/* What the kernels for tokens share that are alone in the steps of their sequences: what they read early, and what
 * becomes of their results. */
#include "kernels/cuda/join.cuh"

/* What a CTA reads before it waits: about the token, its slot, which may be in the tile, and its angles. */
struct early {
    bool own, one;     /* one: the token has one part */
    uint32_t slot, at; /* at: its block's number in the tile */
    const uint8_t *block;
    const float *cs; /* in shared memory */
};

/* @head: the KV head. */
__device__ static inline struct early read_early(const struct cuda_decode &a, const struct cuda_tile &t,
                                                 struct steps &x, uint32_t head, float *cs)
{
    const struct cuda_token token = a.heads.token[t.token];
    const struct cuda_seen seen = a.attn.seen[t.token];
    const float *from = (t.sinks ? a.heads.sink_cs : a.heads.cs) + (uint64_t)t.token * a.heads.rot;
    struct early e;
    x.first = t.from;
    x.begin = begin_of(t, seen);
    x.end = end_of(t, seen);
    e.one = seen.parts == 1;
    e.own = !t.sinks && t.to == seen.end;
    e.slot = token.pos % CUDA_WARP;
    e.at = (token.pos - t.from) / CUDA_WARP;
    e.block = kv_block(a.attn.kv, token.block[a.heads.group], head);
    e.cs = cs;
    for (uint32_t i = threadIdx.x; i < a.heads.rot; i += blockDim.x) cs[i] = from[i];
    return e;
}

/* --- results --- */

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
    put(a.merge, t.token, blockIdx.y * a.attn.group + r, d, y);
}

/* Merge the parts of @rows rows, if the CTA is the last one that left some and cuda_merge_deep does not follow. */
__device__ static inline void put_all(const struct cuda_decode &a, const struct cuda_tile &t, const struct joint &x,
                                      uint32_t rows)
{
    if (!a.done || !is_last(a, t)) return;
    const struct cuda_seen seen = a.attn.seen[t.token];
    const uint32_t all = rows * a.attn.dim, head = blockIdx.y * a.attn.group;
#pragma unroll 1
    for (uint32_t from = 0; from < all; from += 2 * blockDim.x) {
        struct one_dim y[2] = {none_joined(), none_joined()};
        join_all(a.merge, seen, x, head, from, all, y);
#pragma unroll 1
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t i = from + k * blockDim.x + threadIdx.x;
            if (i < all) put(a.merge, t.token, head + i / a.attn.dim, i % a.attn.dim, k ? y[1] : y[0]);
        }
    }
}
