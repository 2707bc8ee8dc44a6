/* SPDX-License-Identifier: MIT */
/* A mixture of experts but for its products, in the order of daemon/backend/cpu/experts.c and route.c. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/expert-args.h"
#include "kernels/cuda/vector.cuh"

#define SUM_LEAST 0x1p-14f /* of probabilities that shares are divided by */
#define LOWEST    (-INFINITY)

/* --- the router --- */

/* In shared memory. */
struct choice {
    float value[CUDA_EXPERTS]; /* what chooses; -infinity for a NaN */
    float p[CUDA_EXPERTS];     /* probabilities */
    uint8_t out[CUDA_EXPERTS]; /* not, or no longer, to be chosen */
};

__device__ static inline float score_of(float x)
{
    return x == x ? x : LOWEST;
}

/* The largest of value[n] that is not out, of equal ones the first; it is out then. The whole warp calls it. */
__device__ static inline uint32_t take_largest(struct choice &c, uint32_t n)
{
    const uint32_t lane = threadIdx.x;
    float best = LOWEST;
    uint32_t at = UINT32_MAX;
    for (uint32_t i = lane; i < n; i += CUDA_WARP)
        if (!c.out[i] && (at == UINT32_MAX || c.value[i] > best)) best = c.value[i], at = i;
#pragma unroll
    for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
        const float other = __shfl_xor_sync(ALL, best, h);
        const uint32_t i = __shfl_xor_sync(ALL, at, h);
        if (i != UINT32_MAX && (at == UINT32_MAX || other > best || (other == best && i < at))) best = other, at = i;
    }
    __syncwarp(); /* all have read */
    if (lane == 0 && at < n) c.out[at] = 1;
    __syncwarp();
    return at;
}

/* The sum of the two largest of value[size], or the only one. */
__device__ static inline float best_two(const float *value, uint32_t size)
{
    float first = value[0], last = LOWEST;
    for (uint32_t i = 1; i < size; i++) {
        const float v = value[i];
        last = v > first ? first : v > last ? v : last;
        first = v > first ? v : first;
    }
    return size < 2 ? first : first + last;
}

/* Experts of other groups than the best are out. @sums has room for those of the groups. */
__device__ static inline void choose_groups(const struct cuda_route &a, struct choice &c, struct choice &sums)
{
    const uint32_t size = a.experts / a.groups;
    for (uint32_t g = threadIdx.x; g < a.groups; g += CUDA_WARP)
        sums.value[g] = score_of(best_two(c.value + g * size, size)), sums.out[g] = 0;
    for (uint32_t i = threadIdx.x; i < a.experts; i += CUDA_WARP) c.out[i] = 1;
    __syncwarp();
    for (uint32_t n = 0; n < a.groups_used; n++) {
        const uint32_t g = take_largest(sums, a.groups);
        for (uint32_t i = threadIdx.x; i < size; i += CUDA_WARP) c.out[g * size + i] = 0;
    }
    __syncwarp();
}

__device__ static inline float largest(const struct choice &c, uint32_t n)
{
    float top = LOWEST;
    for (uint32_t i = threadIdx.x; i < n; i += CUDA_WARP) top = c.value[i] > top ? c.value[i] : top;
    return warp_max(top);
}

/* c.value has the scores; @raw too, with NaNs. */
__device__ static inline void probabilities(const struct cuda_route &a, struct choice &c)
{
    __shared__ float sum;
    const float top = largest(c, a.experts);
    for (uint32_t i = threadIdx.x; i < a.experts; i += CUDA_WARP)
        c.p[i] = exp_(a.sigmoid ? -c.value[i] : c.value[i] - top);
    __syncwarp();
    if (threadIdx.x == 0) {
        float s = 0.0f;
        for (uint32_t i = 0; i < a.experts; i++) s = s + c.p[i];
        sum = s;
    }
    __syncwarp();
    for (uint32_t i = threadIdx.x; i < a.experts; i += CUDA_WARP) {
        c.p[i] = a.sigmoid ? 1.0f / (1.0f + c.p[i]) : c.p[i] / sum;
        if (!a.scaled_input) c.value[i] = score_of(a.choice_bias ? c.p[i] + a.choice_bias[i] : c.p[i]);
    }
    __syncwarp();
}

/* Choose, and write the shares: of probabilities. */
__device__ static inline void by_probability(const struct cuda_route &a, struct choice &c, struct choice &sums,
                                             uint32_t *chosen, float *share)
{
    probabilities(a, c);
    if (a.groups > 1) choose_groups(a, c, sums);
    float sum = 0.0f;
    for (uint32_t j = 0; j < a.used; j++) {
        const uint32_t e = take_largest(c, a.experts);
        sum = sum + c.p[e];
        if (threadIdx.x == 0) chosen[j] = e, share[j] = c.p[e];
    }
    if (!(sum >= SUM_LEAST)) sum = SUM_LEAST;
    for (uint32_t j = 0; threadIdx.x == 0 && j < a.used; j++)
        share[j] = (a.of_all ? share[j] : share[j] / sum) * a.scale;
}

/* Of scores, whose softmax is over the chosen ones or over all. */
__device__ static inline void by_score(const struct cuda_route &a, struct choice &c, uint32_t *chosen, float *share)
{
    float top = 0.0f, sum = 0.0f;
    for (uint32_t j = 0; j < a.used; j++) {
        const uint32_t e = take_largest(c, a.experts);
        if (j == 0) top = c.value[e];
        const float x = exp_(c.value[e] - top);
        if (!a.of_all) sum = sum + x;
        if (threadIdx.x == 0) chosen[j] = e, share[j] = x;
    }
    if (a.of_all) {
        for (uint32_t i = threadIdx.x; i < a.experts; i += CUDA_WARP) c.p[i] = exp_(c.value[i] - top);
        __syncwarp();
        for (uint32_t i = 0; threadIdx.x == 0 && i < a.experts; i++) sum = sum + c.p[i];
    }
    for (uint32_t j = 0; threadIdx.x == 0 && j < a.used; j++) share[j] = share[j] / sum * a.scale;
}

extern "C" __global__ void __launch_bounds__(CUDA_WARP) cuda_route(const __grid_constant__ struct cuda_route a)
{
    begin();
    __shared__ struct choice c, sums;
    const float *scores = a.scores + (uint64_t)(a.list ? a.list[blockIdx.x] : blockIdx.x) * a.experts;
    for (uint32_t i = threadIdx.x; i < a.experts; i += CUDA_WARP) {
        c.value[i] = score_of(a.bias ? scores[i] + a.bias[i] : scores[i]);
        c.out[i] = 0;
    }
    __syncwarp();
    uint32_t *chosen = a.chosen + (uint64_t)blockIdx.x * a.used;
    float *share = a.share + (uint64_t)blockIdx.x * a.used;
    if (a.sigmoid || a.groups > 1 || a.choice_bias)
        by_probability(a, c, sums, chosen, share);
    else
        by_score(a, c, chosen, share);
}

/* --- rows --- */

/* The sums of @x over the threads before this one. All threads of the CTA call it. */
__device__ static inline uint2 sums_before(uint2 x)
{
    __shared__ uint2 warps[CUDA_WARP];
    const uint32_t lane = threadIdx.x % CUDA_WARP, warp = threadIdx.x / CUDA_WARP;
    uint2 sum = x;
#pragma unroll
    for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
        const uint32_t a = __shfl_up_sync(ALL, sum.x, h), b = __shfl_up_sync(ALL, sum.y, h);
        if (lane >= h) sum.x += a, sum.y += b;
    }
    if (lane == CUDA_WARP - 1) warps[warp] = sum;
    __syncthreads();
    for (uint32_t i = 0; i < warp; i++) sum.x += warps[i].x, sum.y += warps[i].y;
    return make_uint2(sum.x - x.x, sum.y - x.y);
}

extern "C" __global__ void __launch_bounds__(CUDA_EXPERTS) cuda_sort(const __grid_constant__ struct cuda_sort a)
{
    begin();
    __shared__ uint32_t count[CUDA_EXPERTS], next[CUDA_EXPERTS], used;
    const uint32_t e = threadIdx.x;
    count[e] = 0;
    __syncthreads();
    for (uint32_t i = e; i < a.n; i += CUDA_EXPERTS) atomicAdd(&count[a.chosen[i]], 1u);
    __syncthreads();
    const uint32_t n = count[e], rows = (n + CUDA_ROW_ALIGN - 1) / CUDA_ROW_ALIGN * CUDA_ROW_ALIGN;
    const uint32_t tiles = (n + a.most - 1) / a.most;
    const uint2 before = sums_before(make_uint2(rows, tiles));
    next[e] = before.x;
    if (e == CUDA_EXPERTS - 1) used = before.y + tiles;
    for (uint32_t t = 0; t < tiles; t++)
        a.tiles[before.y + t] = {e, before.x + t * a.most, min(n - t * a.most, a.most)};
    __syncthreads();
    for (uint32_t t = used + e; t < a.n_tiles; t += CUDA_EXPERTS) a.tiles[t] = {0, 0, 0};
    for (uint32_t i = e; i < a.n; i += CUDA_EXPERTS) a.row[i] = atomicAdd(&next[a.chosen[i]], 1u);
}

extern "C" __global__ void cuda_gather(const __grid_constant__ struct cuda_gather a)
{
    begin();
    const uint32_t first = first_of_warp(), i = first + threadIdx.x % CUDA_WARP * 4;
    const float *x = a.x + (uint64_t)(blockIdx.y / a.used) * a.k, by = a.share ? a.share[blockIdx.y] : 1.0f;
    float v[4] = {};
    if (first >= a.k) return;
    for (uint32_t n = 0; n < 4 && i + n < a.k; n++) v[n] = a.share ? x[i + n] * by : x[i + n];
    put(a.f, a.q, a.row[blockIdx.y], a.k, first, v);
}

extern "C" __global__ void cuda_gated_rows(const __grid_constant__ struct cuda_gated_rows a)
{
    begin();
    struct cuda_gated g = a.g;
    const uint32_t k = g.k, first = first_of_warp(), i = first + threadIdx.x % CUDA_WARP * 4;
    const uint32_t row = a.row[blockIdx.y];
    const uint64_t bias = (uint64_t)a.chosen[blockIdx.y] * k, at = (uint64_t)row * k;
    if (g.gate_bias) g.gate_bias += bias;
    if (g.up_bias) g.up_bias += bias;
    float v[4] = {};
    if (first >= k) return;
    for (uint32_t n = 0; n < 4 && i + n < k; n++)
        v[n] = gated(g, g.act, g.gate[at + i + n], g.up ? g.up[at + i + n] : 0.0f, i + n);
    put(g.f, g.q, row, k, first, v);
}

extern "C" __global__ void cuda_add_experts(const __grid_constant__ struct cuda_add_experts a)
{
    begin();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    float *h = a.h + (uint64_t)blockIdx.y * a.k, sum = 0.0f;
    if (i >= a.k) return;
    for (uint32_t j = 0; j < a.used; j++) {
        const uint64_t c = (uint64_t)blockIdx.y * a.used + j, e = a.chosen[c];
        float x = a.rows[(uint64_t)a.row[c] * a.k + i];
        if (a.bias) x = x + a.bias[e * a.k + i];
        if (a.scale) x = x * a.scale[e];
        if (a.share) x = x * a.share[c];
        sum = j ? sum + x : x;
    }
    float v = a.shared ? h[i] : 0.0f;
    if (a.score) v = v * (1.0f / (1.0f + exp_(-a.score[blockIdx.y])));
    h[i] = a.shared ? v + sum : sum;
}
