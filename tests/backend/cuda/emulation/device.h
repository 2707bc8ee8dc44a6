/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * CUDA C++ for a usual C++ compiler: what kernels/cuda use of it. translate.py puts this before each kernel file.
 * The threads of a CTA are fibers of one thread: emulate.cpp.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __CUDA_ARCH__ == 900
#define __CUDA_ARCH_FEAT_SM90_ALL
#endif

/* Marks for translate.py. */
#define __global__        emulated_kernel
#define __grid_constant__ emulated_argument
#define __launch_bounds__ emulated_bounds
#define __shared__        emulated_shared

#define __device__
#define __host__
#define __constant__    static const
#define __forceinline__ inline
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))

/* A kernel, as translate.py lists it. static shared memory of its module: begin … end. */
struct emulated_kernel_of {
    const char *name;
    int architecture; /* 80 or 90 */
    void (*call)(const void *argument);
    size_t bytes;  /* of the argument */
    unsigned most; /* threads of a CTA */
    char *begin, *end;
    unsigned room; /* dynamic shared memory that it may have: 48 KiB, or what the host asked for */
};
void emulated_enter(struct emulated_kernel_of *list, size_t n);

/* Of __launch_bounds__. */
template <class... T> constexpr unsigned emulated_first(unsigned n, T...)
{
    return n;
}

/* A variable in shared memory, in a function: it is filled when the first thread of a CTA comes to it. */
void emulated_static(void *p, size_t bytes);
/* The dynamic shared memory of the CTA. */
void *emulated_room();
/* The addresses of shared memory, as instructions have them. */
uint32_t emulated_shared_at(const void *p);
void *emulated_shared_pointer(uint32_t at, size_t bytes);

/* Wait for all lanes of the warp, which execute the same operation @what. Each gives @n <= 8 words @own; all get those
 * of all: [n][32], until the next operation but one. */
const uint32_t (*emulated_exchange(const char *what, const uint32_t *own, int n))[32];
/* Wait until *word is not @old. */
void emulated_wait(const char *what, const uint32_t *word, uint32_t old);
void emulated_barrier();
[[noreturn]] void emulated_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- types --- */

#define VECTOR2(name, type, align)                                                                                     \
    struct __align__(align) name                                                                                       \
    {                                                                                                                  \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    static inline name make_##name(type x, type y)                                                                     \
    {                                                                                                                  \
        return {x, y};                                                                                                 \
    }
#define VECTOR4(name, type, align)                                                                                     \
    struct __align__(align) name                                                                                       \
    {                                                                                                                  \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    static inline name make_##name(type x, type y, type z, type w)                                                     \
    {                                                                                                                  \
        return {x, y, z, w};                                                                                           \
    }
VECTOR2(char2, signed char, 2)
VECTOR2(uchar2, unsigned char, 2)
VECTOR2(short2, short, 4)
VECTOR2(ushort2, unsigned short, 4)
VECTOR2(int2, int, 8)
VECTOR2(uint2, unsigned, 8)
VECTOR2(float2, float, 8)
VECTOR2(double2, double, 16)
VECTOR2(ulonglong2, unsigned long long, 16)
VECTOR4(char4, signed char, 4)
VECTOR4(uchar4, unsigned char, 4)
VECTOR4(short4, short, 8)
VECTOR4(ushort4, unsigned short, 8)
VECTOR4(int4, int, 16)
VECTOR4(uint4, unsigned, 16)
VECTOR4(float4, float, 16)

struct uint3 {
    unsigned x, y, z;
};
extern struct uint3 threadIdx, blockIdx, blockDim, gridDim;

/* --- numbers --- */

template <class T> static inline uint32_t emulated_bits(T x)
{
    static_assert(sizeof(T) == 4, "a word");
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

template <class T> static inline T emulated_from(uint32_t b)
{
    static_assert(sizeof(T) == 4, "a word");
    T x;
    memcpy(&x, &b, 4);
    return x;
}

static inline float __uint_as_float(unsigned x)
{
    return emulated_from<float>(x);
}

static inline float __int_as_float(int x)
{
    return emulated_from<float>((unsigned)x);
}

static inline unsigned __float_as_uint(float x)
{
    return emulated_bits(x);
}

static inline int __float_as_int(float x)
{
    return (int)emulated_bits(x);
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

/* -0 is below 0; of a NaN and a number, the number. */
static inline float emulated_max(float a, float b)
{
    if (a == b) return signbit(a) ? b : a;
    return a > b || b != b ? a : b;
}

static inline float emulated_min(float a, float b)
{
    if (a == b) return signbit(a) ? a : b;
    return a < b || b != b ? a : b;
}
#define fmaxf emulated_max
#define fminf emulated_min

/* Operands of two types are converted as in a sum. */
template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b)
{
    const decltype(a + b) x = a, y = b;
    return x < y ? x : y;
}

template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b)
{
    const decltype(a + b) x = a, y = b;
    return x > y ? x : y;
}

static inline int __float2int_rn(float x)
{
    if (x != x) return 0;
    return x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int)rintf(x);
}

static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned to = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned n = s >> 4 * i & 15, byte = both >> 8 * (n & 7) & 0xff;
        to |= (n & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return to;
}

static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8) c += (int8_t)(a >> i) * (int8_t)(b >> i);
    return c;
}

static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 32; i += 8) c += (uint8_t)(a >> i) * (uint8_t)(b >> i);
    return c;
}

static inline int __dp2a_lo(int a, int b, int c)
{
    return c + (int16_t)a * (int8_t)b + (a >> 16) * (int8_t)(b >> 8);
}

static inline int __dp2a_hi(int a, int b, int c)
{
    return c + (int16_t)a * (int8_t)(b >> 16) + (a >> 16) * (int8_t)(b >> 24);
}

/* --- memory --- */

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}

template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}

template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}

template <class T> static inline void __stcg(T *p, T x)
{
    *p = x;
}

template <class T, class V> static inline T atomicAdd(T *p, V x)
{
    const T old = *p;
    *p = old + (T)x;
    return old;
}

template <class T, class V> static inline T atomicMax(T *p, V x)
{
    const T old = *p;
    *p = old > (T)x ? old : (T)x;
    return old;
}

template <class T, class V> static inline T atomicExch(T *p, V x)
{
    const T old = *p;
    *p = (T)x;
    return old;
}

static inline void __threadfence()
{
}

static inline void __threadfence_block()
{
}

#define __cvta_generic_to_shared emulated_shared_at

/* --- threads of a warp and of a CTA --- */

static inline void __syncthreads()
{
    emulated_barrier();
}

static inline void __syncwarp(unsigned = 0xffffffffu)
{
    emulated_exchange("__syncwarp", NULL, 0);
}

/* The word of each lane. */
template <class T> static inline const uint32_t *emulated_words(const char *what, unsigned mask, T x)
{
    const uint32_t own = emulated_bits(x);
    if (mask != 0xffffffffu) emulated_fault("%s of some lanes", what);
    return emulated_exchange(what, &own, 1)[0];
}

/* The value of lane @lane: of one or two words. */
template <class T> static inline T emulated_shuffle(const char *what, unsigned mask, T x, unsigned lane)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "one or two words");
    const int n = sizeof(T) / 4;
    uint32_t own[n];
    memcpy(own, &x, sizeof(T));
    if (mask != 0xffffffffu) emulated_fault("%s of some lanes", what);
    const uint32_t(*all)[32] = emulated_exchange(what, own, n);
    for (int i = 0; i < n; i++) own[i] = all[i][lane];
    memcpy(&x, own, sizeof(T));
    return x;
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int by, int = 32)
{
    return emulated_shuffle("__shfl_xor_sync", mask, x, (threadIdx.x % 32) ^ by);
}

template <class T> static inline T __shfl_sync(unsigned mask, T x, int lane, int width = 32)
{
    return emulated_shuffle("__shfl_sync", mask, x, threadIdx.x % 32 / width * width + (lane & (width - 1)));
}

template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by)
{
    const unsigned lane = threadIdx.x % 32;
    return emulated_shuffle("__shfl_up_sync", mask, x, lane < by ? lane : lane - by);
}

template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by)
{
    const unsigned lane = threadIdx.x % 32;
    return emulated_shuffle("__shfl_down_sync", mask, x, lane + by < 32 ? lane + by : lane);
}

static inline unsigned __ballot_sync(unsigned mask, int x)
{
    const uint32_t *all = emulated_words("__ballot_sync", mask, (unsigned)(x != 0));
    unsigned to = 0;
    for (int i = 0; i < 32; i++) to |= all[i] << i;
    return to;
}

static inline int __any_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x) != 0;
}

static inline int __all_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x) == 0xffffffffu;
}

template <class T> static inline T __reduce_max_sync(unsigned mask, T x)
{
    const uint32_t *all = emulated_words("__reduce_max_sync", mask, x);
    T to = (T)all[0];
    for (int i = 1; i < 32; i++) to = (T)all[i] > to ? (T)all[i] : to;
    return to;
}

template <class T> static inline T __reduce_min_sync(unsigned mask, T x)
{
    const uint32_t *all = emulated_words("__reduce_min_sync", mask, x);
    T to = (T)all[0];
    for (int i = 1; i < 32; i++) to = (T)all[i] < to ? (T)all[i] : to;
    return to;
}

template <class T> static inline T __reduce_add_sync(unsigned mask, T x)
{
    const uint32_t *all = emulated_words("__reduce_add_sync", mask, x);
    uint32_t to = 0;
    for (int i = 0; i < 32; i++) to += all[i];
    return (T)to;
}

#include "ptx.h"
