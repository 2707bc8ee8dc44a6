/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Products of four warps together on the tensor cores of sm_90: 64 rows, whose operands are in registers, by 64 or 32
 * tokens, whose operands are in shared memory. The operands are integers as f16, and the sums are f32: both exact, for
 * the sums are below 2^24.
 */
#include "kernels/cuda/device.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SM_90A 1
#else
#define SM_90A 0 /* there are no such instructions; the kernels are not started */
#endif

/* What lies in shared memory as [8 columns][tokens][16 bytes]: 16 columns from @at on, an address of it. */
__device__ static inline uint64_t tokens_at(uint32_t at, uint32_t tokens)
{
    return (uint64_t)(128 >> 4) << 32 | (uint64_t)tokens << 16 | (at & 0x3ffffu) >> 4;
}

/* Registers may be changed, or have been; before products. */
__device__ static inline void wgmma_begin()
{
#if SM_90A
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* The products since the last end are one group. */
__device__ static inline void wgmma_end()
{
#if SM_90A
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* Wait until at most @groups are not complete, and let the compiler read @sums only now. */
template <int groups, int N> __device__ static inline void wgmma_wait(float (&sums)[N][4])
{
#if SM_90A
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
#endif
}

#define FOUR(s)  "+f"((s)[0]), "+f"((s)[1]), "+f"((s)[2]), "+f"((s)[3])
#define EIGHT(s) FOUR((s)[0]), FOUR((s)[1])
#define FULL(s)  EIGHT(s), EIGHT(s + 2)

/* The sums of 16 columns, which are added to those in @sums or (@first) replace them: of 8 N tokens. */
template <bool first> __device__ static inline void wgmma(float (*sums)[4], const uint32_t a[4], uint64_t tokens, int n)
{
#if SM_90A
    if (n == 8)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,"
                     "%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                     "{%32,%33,%34,%35}, %36, %37, 1, 1, 0;"
                     : FULL(sums), FULL(sums + 4)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tokens), "n"(first ? 0 : 1)
                     : "memory");
    else
        asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,"
                     "%13,%14,%15}, {%16,%17,%18,%19}, %20, %21, 1, 1, 0;"
                     : FULL(sums)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tokens), "n"(first ? 0 : 1)
                     : "memory");
#endif
}

/* A warp gets more registers, or gives some back: so many a thread. */
template <int n> __device__ static inline void more_registers()
{
#if SM_90A
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
#endif
}

template <int n> __device__ static inline void fewer_registers()
{
#if SM_90A
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
#endif
}
