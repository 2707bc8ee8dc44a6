/* SPDX-License-Identifier: MIT */
#pragma once
/* Bulk copies to shared memory, and the barriers in shared memory that they and their readers arrive at: of sm_90. On
 * other devices the kernels that use them are not started. */
#include "kernels/cuda/device.cuh"

/* A barrier at which @n threads arrive. */
__device__ static inline void bar_init(uint64_t *bar, uint32_t n)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_at(bar)), "r"(n) : "memory");
}

/* Let copies see the barriers. */
__device__ static inline void bar_fence()
{
#if __CUDA_ARCH__ == 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* The address of the first of some barriers, kept in a register: the compiler would compute it at each use. */
__device__ static inline uint32_t bars_at(const uint64_t *bars)
{
    uint32_t at = shared_at(bars);
    asm volatile("" : "+r"(at));
    return at;
}

/* The address of barrier @i of those. */
__device__ static inline uint32_t bar_of(uint32_t bars, uint32_t i)
{
    return bars + i * (uint32_t)sizeof(uint64_t);
}

__device__ static inline void bar_arrive_at(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ static inline void bar_arrive(uint64_t *bar)
{
    bar_arrive_at(shared_at(bar));
}

/* The warp arrives, when all of its lanes have come so far. compute-sanitizer's racecheck does not see that this orders
 * their accesses, nor that bar.arrive does: it reports races after both, in the smallest correct example, too. */
__device__ static inline void warp_arrive(uint64_t *bar)
{
    __syncwarp();
    if (threadIdx.x % CUDA_WARP == 0) bar_arrive(bar);
}

/* Wait for the end of a phase; the first has the parity 0. */
__device__ static inline void bar_wait_at(uint32_t bar, uint32_t parity)
{
#if __CUDA_ARCH__ == 900
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
#endif
}

__device__ static inline void bar_wait(uint64_t *bar, uint32_t parity)
{
    bar_wait_at(shared_at(bar), parity);
}

/* One of the threads that arrive at @bar does so, and its phase also waits for @bytes of copies. */
__device__ static inline void bar_expect(uint64_t *bar, uint32_t bytes)
{
#if __CUDA_ARCH__ == 900
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_at(bar)), "r"(bytes) : "memory");
#endif
}

/* Copy @bytes, a multiple of 16, that @bar expects. @to should be a multiple of CUDA_COPY_TO: with others, decode at
 * long contexts was up to 5 % slower (H200). */
__device__ static inline void bulk_copy(void *to, const void *from, uint32_t bytes, uint64_t *bar)
{
#if __CUDA_ARCH__ == 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(to)),
        "l"(from), "r"(bytes), "r"(shared_at(bar))
        : "memory");
#endif
}

/* The same of what is not read again soon: it leaves the L2 cache first. The weights of two layers fill that cache, and
 * what each layer needs again, the kernels' code above all, would have to come from memory (H200). */
__device__ static inline void bulk_copy_once(void *to, const void *from, uint32_t bytes, uint64_t *bar)
{
#if __CUDA_ARCH__ == 900
    uint64_t first;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(first));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(shared_at(to)),
        "l"(from), "r"(bytes), "r"(shared_at(bar)), "l"(first)
        : "memory");
#endif
}

/* What the thread has read and written before lies before its bulk copies that follow. */
__device__ static inline void proxy_fence()
{
#if __CUDA_ARCH__ == 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* The thread arrives at @bar when its copies of 16 bytes have. */
__device__ static inline void bar_arrive_copied(uint64_t *bar)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_at(bar)) : "memory");
}
