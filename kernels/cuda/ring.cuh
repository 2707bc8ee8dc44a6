/* SPDX-License-Identifier: MIT */
#pragma once
/* Weights that come to shared memory in pieces: some blocks of a panel at once, in slots. */
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/form.cuh"

__shared__ static uint64_t full[CUDA_MOST_SLOTS], empty[CUDA_MOST_SLOTS];

/* A place in a ring of @n slots, or of stages of sums, and the parity of its use. */
struct cursor {
    uint32_t slot, odd;
};

__device__ static inline void advance(uint32_t n, struct cursor &c)
{
    if (++c.slot == n) c.slot = 0, c.odd ^= 1;
}

/* Before pieces are fetched: the barriers of slots @i, i + @step, …, so by one thread those of all. @warps: those that
 * read the pieces, the first of the CTA. */
__device__ static inline void ring_init(const struct cuda_ring &r, uint32_t warps, uint32_t i = 0, uint32_t step = 1)
{
    for (; i < r.slots; i += step) bar_init(&full[i], 1), bar_init(&empty[i], warps);
    bar_fence();
}

/* Copy part @part, of @piece blocks, of a panel to @to, slot @slot. */
__device__ static inline void ring_fetch(const struct cuda_matmul &a, uint32_t panel, uint32_t part, uint8_t *to,
                                         uint32_t slot, uint32_t piece = CUDA_PIECE)
{
    const uint32_t from = part * piece, blocks = min(piece, a.k / CUDA_WARP - from);
    const struct cuda_matrix &m = a.of[product_of(a, panel)];
    const uint8_t *codes = m.panels + (uint64_t)(panel - m.panel0) * m.panel_bytes;
    const uint32_t bytes = (blocks >> a.form.shift) * a.form.group;
    bar_expect(&full[slot], bytes);
    bulk_copy_once(to, codes + (uint64_t)(from >> a.form.shift) * a.form.group, bytes, &full[slot]);
}

/* The warp has read slot @slot; @odd: the parity of this use. True in one thread of the CTA, when all @warps have. */
__device__ static inline bool ring_release(uint32_t slot, uint32_t odd, uint32_t warps)
{
    __syncwarp();
    if (threadIdx.x % CUDA_WARP) return false;
    bar_arrive(&empty[slot]);
    if (threadIdx.x / CUDA_WARP != slot % warps) return false;
    bar_wait(&empty[slot], odd);
    return true;
}
