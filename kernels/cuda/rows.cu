/* SPDX-License-Identifier: MIT */
/*
 * Heads and the merge of attention's parts for many tokens: as cuda_heads and cuda_merge, but with eight warps in a
 * CTA, for CTAs of one warp leave half of a multiprocessor's warps empty.
 */
#include "kernels/cuda/heads.cuh"

#define WARPS 8
#define PARTS 4 /* whose values a thread reads at once */

/* Grid: (tokens, heads / 8, rounded up). Shared memory: WARPS times dim floats. */
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

/* The running result of four dims of a head. */
struct merged {
    float m, l, o[4];
    bool any;
};

__device__ static inline void add(struct merged &x, float m, float l, const float4 &o)
{
    const float v[4] = {o.x, o.y, o.z, o.w};
    if (!(l > 0.0f)) return;
    if (!x.any) {
        x.m = m, x.l = l, x.any = true;
#pragma unroll
        for (int i = 0; i < 4; i++) x.o[i] = v[i];
        return;
    }
    const float top = m > x.m ? m : x.m, a = exp_(x.m - top), b = exp_(m - top);
    x.m = top;
    x.l = fma_(l, b, x.l * a);
#pragma unroll
    for (int i = 0; i < 4; i++) x.o[i] = fma_(v[i], b, x.o[i] * a);
}

/* Heads of a multiple of 4 dims. Grid: (tokens, heads * dim / 4 threads, rounded up). */
extern "C" __global__ void __launch_bounds__(WARPS *CUDA_WARP)
    cuda_merge_many(const __grid_constant__ struct cuda_merge a)
{
    begin();
    const uint32_t width = a.heads * a.dim, first = (blockIdx.y * WARPS + threadIdx.x / CUDA_WARP) * 4 * CUDA_WARP;
    const uint32_t i = min(first + threadIdx.x % CUDA_WARP * 4, width - 4), head = i / a.dim,
                   row = a.first + blockIdx.x;
    if (first >= width) return;
    const struct cuda_seen s = a.seen[a.list ? a.list[row] : row];
    struct merged x = {};
    for (uint32_t part = 0; part < s.parts; part += PARTS) {
        float m[PARTS], l[PARTS];
        float4 o[PARTS];
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const uint64_t at = (uint64_t)(s.row + min(part + p, s.parts - 1)) * a.heads + head;
            l[p] = part + p < s.parts ? a.l[at] : 0.0f, m[p] = a.m[at];
            o[p] = *(const float4 *)(a.o + at * a.dim + i % a.dim);
        }
#pragma unroll
        for (int p = 0; p < PARTS; p++) add(x, m[p], l[p], o[p]);
    }
    if (a.sink_scores) add(x, a.sink_scores[head], 1.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    float v[4];
#pragma unroll
    for (int n = 0; n < 4; n++) v[n] = x.o[n] / x.l;
    if (a.f) *(float4 *)(a.f + (uint64_t)row * width + i) = make_float4(v[0], v[1], v[2], v[3]);
    if (a.q.q) quantize4(a.q, row, width, first, v);
}
