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
    const uint32_t warp = threadIdx.x / CUDA_WARP, n = blockIdx.y * WARPS + warp;
    if (n >= a.heads + a.kv_heads) return;
    prepare_head(a, {shared + warp * a.dim, a.dim, threadIdx.x % CUDA_WARP}, blockIdx.x, n);
}

/* Four values of a query: pairs that lie side by side, or two of them half a head apart. */
__device__ static inline void rotate4(const struct cuda_heads &a, uint32_t token, uint32_t i)
{
    const uint32_t half = a.dim / 2, head = 4 * i / a.dim, in = 4 * i % a.dim / 2; /* in: the first of two pairs */
    const uint32_t at = head * a.dim + (a.neox ? in : 2 * in), apart = a.neox ? half : 2;
    const float *cs = angles_of(a, token, false) + in, by = a.warmth ? a.warmth[token] : 1.0f;
    float *to = a.q + (uint64_t)token * a.heads * a.dim + at;
    const float2 c = *(const float2 *)cs, s = *(const float2 *)(cs + half);
    const float2 v = *(const float2 *)to, w = *(const float2 *)(to + apart);
    float x[4] = {v.x, v.y, w.x, w.y};
#pragma unroll
    for (uint32_t n = 0; n < 4; n++)
        if (a.q_bias) x[n] = x[n] + a.q_bias[at + n / 2 * apart + n % 2];
    const float x0 = x[0], x1 = a.neox ? x[2] : x[1], y0 = a.neox ? x[1] : x[2], y1 = x[3];
    const float p0 = fma_(x0, c.x, -(x1 * s.x)) * by, p1 = fma_(x0, s.x, x1 * c.x) * by;
    const float r0 = fma_(y0, c.y, -(y1 * s.y)) * by, r1 = fma_(y0, s.y, y1 * c.y) * by;
    *(float2 *)to = a.neox ? make_float2(p0, r0) : make_float2(p0, p1);
    *(float2 *)(to + apart) = a.neox ? make_float2(p1, r1) : make_float2(r0, r1);
}

/* The same for queries that are rotated whole and have no norm, of a multiple of 4 dims, where no token slides. Grid:
 * (tokens, heads * dim / 4 threads, rounded up, and KV heads / 4, rounded up). */
extern "C" __global__ void __launch_bounds__(WARPS *CUDA_WARP)
    cuda_heads_plain(const __grid_constant__ struct cuda_heads a)
{
    begin();
    extern __shared__ float shared[];
    const uint32_t width = a.heads * a.dim / 4, ctas = (width + blockDim.x - 1) / blockDim.x;
    if (blockIdx.y < ctas) {
        const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
        if (i < width) rotate4(a, blockIdx.x, i);
        return;
    }
    const uint32_t warp = threadIdx.x / CUDA_WARP, n = (blockIdx.y - ctas) * WARPS + warp;
    const struct head h = {shared + warp * a.dim, a.dim, threadIdx.x % CUDA_WARP};
    if (n < a.kv_heads)
        place_key(a, h, blockIdx.x, n);
    else if (n < 2 * a.kv_heads)
        place_value(a, h, blockIdx.x, n - a.kv_heads);
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
    const uint32_t lane = threadIdx.x % CUDA_WARP, k = a.apart ? a.dim : width,
                   to = a.apart ? head * a.apart + row : row;
    if (a.f) *(float4 *)(a.f + (uint64_t)to * k + i % k) = make_float4(v[0], v[1], v[2], v[3]);
    if (a.q.q) quantize4(a.q, to, k, (first + lane * 4 < width ? i % k : k) - lane * 4, v); /* not behind the row */
}
