/* SPDX-License-Identifier: MIT */
/* Attention with ALiBi, of tiles with few queries: as cuda_attn_few_f32, but a key's score has a term for its distance.
 * Only models that compute texts whole have it, and their K and V are f32. */
#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/variant-args.h"

/* Scores of row @r and block @b. */
__device__ static inline void score_far(const struct cuda_attn_alibi &f, const struct cuda_tile &t,
                                        const struct steps &x, uint32_t b, uint32_t r)
{
    const struct cuda_attn &a = f.a;
    const uint32_t lane = threadIdx.x % CUDA_WARP, wide = (a.dim + 3) / 4 * 4;
    const float *q[1] = {x.queries + r * wide};
    const int32_t away = (int32_t)(t.from + b * CUDA_WARP + lane) - (int32_t)f.token[t.token + r / a.group].pos;
    uint32_t lo, hi;
    float s[1];
    scores<KV_F32, 1>(q, a.dim, block_of<false>(a, t, x, b), s);
    seen_of<false>(a, t, x, r, b, lo, hi);
    float v = s[0] * a.scale;
    if (a.cap > 0.0f) v = softcap_(v, a.cap);
    v = fma_(-f.slopes[blockIdx.y * a.group + r % a.group], fabsf((float)away), v);
    x.weights[r * a.width + b * CUDA_WARP + lane] = v;
    const float top = warp_max(lane >= lo && lane < hi ? v : NOTHING) + 0.0f;
    if (lane == 0) x.tops[r * BLOCKS + b] = top;
}

/* The grid and the shared memory are those of cuda_attn_few_f32. */
extern "C" __global__ void __launch_bounds__(BLOCKS *CUDA_WARP)
    cuda_attn_alibi(const __grid_constant__ struct cuda_attn_alibi f)
{
    begin();
    const struct cuda_attn &a = f.a;
    const struct cuda_tile t = a.tiles[blockIdx.x];
    const struct steps x = steps_of(a, t);
    if (!x.rows) return;
    load_queries(a, t, x.queries);
    for (uint32_t i = threadIdx.x / CUDA_WARP, row, b; i < x.rows << x.shift; i += blockDim.x / CUDA_WARP)
        if (pair_of(t, x, i, row, b)) score_far(f, t, x, b, row);
    __syncthreads();
    weigh<false, 4>(a, t, x);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < x.rows * a.dim; i += blockDim.x)
        leave(a, t, i / a.dim, i % a.dim, chain<KV_F32>(a, t, x, i / a.dim, i % a.dim));
}
