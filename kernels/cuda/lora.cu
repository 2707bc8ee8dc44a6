/* SPDX-License-Identifier: MIT */
/* What low-rank adapters add to products. A CTA has a panel and a tile, a thread for each output, as cuda_float_*. */
#include "kernels/cuda/float.cuh"
#include "kernels/cuda/lora-args.h"

enum type { F32, F16, BF16 }; /* enum kern_type */

/* Rows of the batch in the order of the tiles. */
struct ordered_rows {
    const uint32_t *order;
    const float *x; /* [n][ld] rows @first … of those that the order has */
    uint32_t first, n, ld;

    __device__ const float *at(uint32_t i) const
    {
        return x + (uint64_t)(order[i] - first) * ld;
    }
};

/* The rows of a tile that the products have: those of an adapter ascend. */
__device__ static inline struct cuda_lora_tile present(const struct cuda_lora &a, struct cuda_lora_tile t)
{
    while (t.n && a.order[t.first] < a.first) t.first++, t.n--;
    while (t.n && a.order[t.first + t.n - 1] >= a.first + a.n) t.n--;
    return t;
}

/* The thread's output of a panel of @k columns. */
__device__ static inline float sum(uint32_t type, const uint8_t *w, uint32_t k, const struct cuda_lora_tile &t,
                                   const struct ordered_rows &x, bool wanted)
{
    __shared__ struct room in;
    const uint32_t end = t.first + t.n;
    if (type == F32) return chain<f32>(in, (const float *)w, k, t.first, end, x, wanted);
    if (type == F16) return chain<f16>(in, (const uint16_t *)w, k, t.first, end, x, wanted);
    return chain<bf16>(in, (const uint16_t *)w, k, t.first, end, x, wanted);
}

extern "C" __global__ void __launch_bounds__(THREADS) cuda_lora_low(const __grid_constant__ struct cuda_lora a)
{
    begin();
    const struct cuda_lora_tile t = present(a, a.tiles[blockIdx.y]);
    if (!t.n) return;
    const uint32_t panels = a.rank / CUDA_ROWS, product = blockIdx.x / panels, panel = blockIdx.x % panels;
    const struct cuda_lora_part &part = a.parts[(uint64_t)t.adapter * a.slots + a.of[product].slot];
    if (panel * CUDA_ROWS >= part.rank) return;
    const uint32_t j = panel * CUDA_ROWS + threadIdx.x % CUDA_ROWS, i = t.first + threadIdx.x / CUDA_ROWS;
    const bool wanted = i < t.first + t.n && j < part.rank;
    const struct ordered_rows x = {a.order, a.x, a.first, a.n, a.k};
    const float u = sum(part.a_type, part.a + (uint64_t)panel * part.a_bytes, a.k, t, x, wanted);
    if (!wanted) return;
    float s = a.scales[i];
    if (part.alpha != 0.0f) s = s * part.alpha / (float)part.rank;
    a.low[((uint64_t)product * a.n + a.order[i] - a.first) * a.rank + j] = u * s;
}

extern "C" __global__ void __launch_bounds__(THREADS) cuda_lora_add(const __grid_constant__ struct cuda_lora a)
{
    begin();
    const struct cuda_lora_tile t = present(a, a.tiles[blockIdx.y]);
    if (!t.n) return;
    uint32_t product = 0, panel = blockIdx.x;
    for (uint32_t n; panel >= (n = (a.of[product].rows + CUDA_ROWS - 1) / CUDA_ROWS); product++) panel -= n;
    const struct cuda_lora_product &y = a.of[product];
    const struct cuda_lora_part &part = a.parts[(uint64_t)t.adapter * a.slots + y.slot];
    if (!part.rank) return;
    const uint32_t k = panel * CUDA_ROWS + threadIdx.x % CUDA_ROWS, i = t.first + threadIdx.x / CUDA_ROWS;
    const bool wanted = i < t.first + t.n && k < y.rows;
    const struct ordered_rows x = {a.order, a.low + (uint64_t)product * a.n * a.rank, a.first, a.n, a.rank};
    const float more = sum(part.b_type, part.b + (uint64_t)panel * part.b_bytes, part.rank, t, x, wanted);
    if (!wanted) return;
    float *to = y.y + (uint64_t)(a.order[i] - a.first) * y.rows + k;
    *to = *to + more;
}
