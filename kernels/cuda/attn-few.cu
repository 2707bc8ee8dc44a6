/* SPDX-License-Identifier: MIT */
/* Attention of tiles with few queries, and the merge of all tiles' parts. */
#include "kernels/cuda/attn.cuh"

template <int type> __device__ static inline void attention(const struct cuda_attn &a)
{
    const struct cuda_tile t = a.tiles[blockIdx.x];
    const struct steps x = steps_of(a, t);
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
