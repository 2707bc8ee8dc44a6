/* SPDX-License-Identifier: MIT */
/*
 * Heads and the merge of attention's parts for many tokens: as cuda_heads and cuda_merge, but with eight heads in a
 * CTA, for CTAs of one warp leave half of a multiprocessor's warps empty. Grid: (tokens, heads / 8, rounded up).
 */
#include "kernels/cuda/heads.cuh"

#define WARPS 8
#define PARTS 4 /* whose values a lane reads at once */

/* Shared memory: WARPS times dim floats. */
extern "C" __global__ void __launch_bounds__(WARPS *CUDA_WARP)
    cuda_heads_many(const __grid_constant__ struct cuda_heads a)
{
    begin();
    extern __shared__ float shared[];
    const uint32_t i = blockIdx.x, warp = threadIdx.x / CUDA_WARP, n = blockIdx.y * WARPS + warp;
    const struct head h = {shared + warp * a.dim, a.dim, threadIdx.x % CUDA_WARP};
    if (n >= a.heads + a.kv_heads) return;
    if (n >= a.heads) {
        place_key(a, h, i, n - a.heads);
        place_value(a, h, i, n - a.heads);
        return;
    }
    const uint64_t at = ((uint64_t)i * a.heads + n) * a.dim;
    if (a.q_sinks && a.token[i].slides) {
        make_query(a, h, i, n, angles_of(a, i, true));
        for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) a.q_sinks[at + d] = h.x[d];
    }
    make_query(a, h, i, n, angles_of(a, i, false));
    for (uint32_t d = h.lane; d < h.dim; d += CUDA_WARP) a.q[at + d] = h.x[d];
}

/* The running result of a head; DIMS: dims of a lane, number i is lane + 32 i. */
template <int DIMS> struct merged {
    float m, l, o[DIMS];
    bool any;
};

template <int DIMS> __device__ static inline void add(struct merged<DIMS> &x, float m, float l, const float (&o)[DIMS])
{
    if (!(l > 0.0f)) return;
    if (!x.any) {
        x.m = m, x.l = l, x.any = true;
#pragma unroll
        for (int i = 0; i < DIMS; i++) x.o[i] = o[i];
        return;
    }
    const float top = m > x.m ? m : x.m, a = exp_(x.m - top), b = exp_(m - top);
    x.m = top;
    x.l = fma_(l, b, x.l * a);
#pragma unroll
    for (int i = 0; i < DIMS; i++) x.o[i] = fma_(o[i], b, x.o[i] * a);
}

template <int DIMS> __device__ static inline void merge(const struct cuda_merge &a)
{
    const uint32_t lane = threadIdx.x % CUDA_WARP, head = blockIdx.y * WARPS + threadIdx.x / CUDA_WARP;
    const uint32_t row = a.first + blockIdx.x;
    if (head >= a.heads) return;
    const struct cuda_seen s = a.seen[a.list ? a.list[row] : row];
    struct merged<DIMS> x = {};
    float zero[DIMS] = {};
    for (uint32_t part = 0; part < s.parts; part += PARTS) {
        float m[PARTS], l[PARTS], o[PARTS][DIMS];
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const bool has = part + p < s.parts;
            const uint64_t at = (uint64_t)(s.row + part + p) * a.heads + head;
            l[p] = has ? a.l[at] : 0.0f, m[p] = has ? a.m[at] : 0.0f;
#pragma unroll
            for (int i = 0; i < DIMS; i++)
                o[p][i] = has && lane + i * CUDA_WARP < a.dim ? a.o[at * a.dim + lane + i * CUDA_WARP] : 0.0f;
        }
#pragma unroll
        for (int p = 0; p < PARTS; p++) add<DIMS>(x, m[p], l[p], o[p]);
    }
    if (a.sink_scores) add<DIMS>(x, a.sink_scores[head], 1.0f, zero);
#pragma unroll
    for (int i = 0; i < DIMS; i++) {
        const uint32_t d = lane + i * CUDA_WARP;
        const float v = x.o[i] / x.l;
        if (d < a.dim && a.f) a.f[((uint64_t)row * a.heads + head) * a.dim + d] = v;
        if (a.q.q && i * CUDA_WARP < a.dim) quantize(a.q, row, a.heads * a.dim, head * (a.dim / CUDA_WARP) + i, v);
    }
}

#define MERGE(dims)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(WARPS *CUDA_WARP)                                                     \
        cuda_merge_many_##dims(const __grid_constant__ struct cuda_merge a)                                            \
    {                                                                                                                  \
        begin();                                                                                                       \
        merge<dims / CUDA_WARP>(a);                                                                                    \
    }
MERGE(64)
MERGE(128)
MERGE(256)
