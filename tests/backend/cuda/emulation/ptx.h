/* SPDX-License-Identifier: MIT */
#pragma once
#include <immintrin.h>
/* The instructions that kernels/cuda name in asm statements: translate.py makes calls of them. The arguments are the
 * operands in the order of the instruction's text. */

/* --- hints, and what an emulation need not do --- */

static inline void ptx_prefetch_global_L2(const void *)
{
}

static inline void ptx_fence_mbarrier_init_release_cluster()
{
}

static inline void ptx_fence_proxy_async_shared_cta()
{
}

static inline void ptx_griddepcontrol_launch_dependents()
{
}

static inline void ptx_griddepcontrol_wait()
{
}

static inline void ptx_setmaxnreg_inc_sync_aligned_u32(int)
{
}

static inline void ptx_setmaxnreg_dec_sync_aligned_u32(int)
{
}

/* --- numbers --- */

static inline void ptx_rcp_approx_ftz_f32(float &to, float x)
{
    const float v = fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x, y = 1.0f / v;
    to = fabsf(y) < 0x1p-126f ? copysignf(0.0f, y) : y;
}

/* @table: the results where the bits of a, b and c are the number of a bit of it. */
static inline void ptx_lop3_b32(uint32_t &to, uint32_t a, uint32_t b, uint32_t c, int table)
{
    to = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) to |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
}

static inline void ptx_dp4a_u32_s32(int &to, uint32_t a, uint32_t b, int c)
{
    for (int i = 0; i < 32; i += 8) c += (int)(uint8_t)(a >> i) * (int8_t)(b >> i);
    to = c;
}

/* --- tensor cores --- */

/* The sum of 16 products: of the bytes at @a, with or without signs, and of those at @b, with signs. */
template <class A> static inline int emulated_dot(const uint32_t *a, const uint32_t *b)
{
    const __m128i x = _mm_loadu_si128((const __m128i *)a), y = _mm_loadu_si128((const __m128i *)b);
    const __m256i wide = (A)-1 < 0 ? _mm256_cvtepi8_epi16(x) : _mm256_cvtepu8_epi16(x);
    const __m256i eight = _mm256_madd_epi16(wide, _mm256_cvtepi8_epi16(y));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

template <class A>
static inline void emulated_mma32(const char *what, int &d0, int &d1, int &d2, int &d3, const uint32_t *own, int c0,
                                  int c1, int c2, int c3)
{
    const uint32_t lane = threadIdx.x % 32, r = lane / 4 * 4, t = lane % 4 * 8;
    const uint32_t(*v)[32] = emulated_exchange(what, own, 6);
    d0 = c0 + emulated_dot<A>(v[0] + r, v[4] + t) + emulated_dot<A>(v[2] + r, v[5] + t);
    d1 = c1 + emulated_dot<A>(v[0] + r, v[4] + t + 4) + emulated_dot<A>(v[2] + r, v[5] + t + 4);
    d2 = c2 + emulated_dot<A>(v[1] + r, v[4] + t) + emulated_dot<A>(v[3] + r, v[5] + t);
    d3 = c3 + emulated_dot<A>(v[1] + r, v[4] + t + 4) + emulated_dot<A>(v[3] + r, v[5] + t + 4);
}

static inline void ptx_mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(int &d0, int &d1, int &d2, int &d3, uint32_t a0,
                                                                       uint32_t a1, uint32_t a2, uint32_t a3,
                                                                       uint32_t b0, uint32_t b1, int c0, int c1, int c2,
                                                                       int c3)
{
    const uint32_t own[] = {a0, a1, a2, a3, b0, b1};
    emulated_mma32<int8_t>("mma.m16n8k32.s8", d0, d1, d2, d3, own, c0, c1, c2, c3);
}

static inline void ptx_mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32(int &d0, int &d1, int &d2, int &d3, uint32_t a0,
                                                                       uint32_t a1, uint32_t a2, uint32_t a3,
                                                                       uint32_t b0, uint32_t b1, int c0, int c1, int c2,
                                                                       int c3)
{
    const uint32_t own[] = {a0, a1, a2, a3, b0, b1};
    emulated_mma32<uint8_t>("mma.m16n8k32.u8", d0, d1, d2, d3, own, c0, c1, c2, c3);
}

static inline void ptx_mma_sync_aligned_m16n8k16_row_col_s32_s8_s8_s32(int &d0, int &d1, int &d2, int &d3, uint32_t a0,
                                                                       uint32_t a1, uint32_t b0, int c0, int c1, int c2,
                                                                       int c3)
{
    const uint32_t own[] = {a0, a1, b0}, lane = threadIdx.x % 32, r = lane / 4 * 4, t = lane % 4 * 8;
    const uint32_t(*v)[32] = emulated_exchange("mma.m16n8k16.s8", own, 3);
    d0 = c0 + emulated_dot<int8_t>(v[0] + r, v[2] + t), d1 = c1 + emulated_dot<int8_t>(v[0] + r, v[2] + t + 4);
    d2 = c2 + emulated_dot<int8_t>(v[1] + r, v[2] + t), d3 = c3 + emulated_dot<int8_t>(v[1] + r, v[2] + t + 4);
}

/* Each warp of the four computes 16 rows, whose operands @a are in registers, by 8 N columns, whose operands are in
 * shared memory at the descriptor @b: as core matrices of 8 columns by 16 bytes, without swizzling. Sums are added to
 * @d, or
 * (@add 0) replace them. */
template <int N> static inline void emulated_wgmma(float *const *d, const uint32_t *a, uint64_t b, int add)
{
    const uint32_t lane = threadIdx.x % 32, at = (b & 0x3fff) << 4, leading = (b >> 16 & 0x3fff) << 4,
                   stride = (b >> 32 & 0x3fff) << 4;
    const uint32_t(*v)[32] = emulated_exchange("wgmma.mma_async", a, 4);
    __m256 rows[2][2]; /* [row][half of the 16 columns]; all numbers are small integers: sums have no order */
    for (int i = 0; i < 4; i++)
        rows[i % 2][i / 2] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(v[i] + lane / 4 * 4)));
    for (uint32_t n = 0; n < 2 * N; n++) { /* of the lane's columns */
        const uint32_t begin = at + n / 2 * stride + (lane % 4 * 2 + n % 2) * 16;
        __m256 y[2];
        for (int k = 0; k < 2; k++)
            y[k] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)emulated_shared_pointer(begin + k * leading, 16)));
        for (int i = 0; i < 2; i++) {
            float s[8], *to = d[n / 2 * 4 + i * 2 + n % 2];
            _mm256_storeu_ps(s, _mm256_fmadd_ps(rows[i][1], y[1], _mm256_mul_ps(rows[i][0], y[0])));
            const float sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
            *to = add ? *to + sum : sum;
        }
    }
}

/* The operands: 4 N sums, 4 of the rows, the descriptor, whether sums are added, and three constants. */
template <int N, class... T> static inline void emulated_wgmma_of(T &&...x)
{
    const void *const all[] = {(const void *)&x...};
    float *d[4 * N];
    uint32_t a[4];
    for (int i = 0; i < 4 * N; i++) d[i] = (float *)all[i];
    for (int i = 0; i < 4; i++) a[i] = *(const uint32_t *)all[4 * N + i];
    emulated_wgmma<N>(d, a, *(const uint64_t *)all[4 * N + 4], *(const int *)all[4 * N + 5]);
}

template <class... T> static inline void ptx_wgmma_mma_async_sync_aligned_m64n64k16_f32_f16_f16(T &&...x)
{
    emulated_wgmma_of<8>(x...);
}

template <class... T> static inline void ptx_wgmma_mma_async_sync_aligned_m64n32k16_f32_f16_f16(T &&...x)
{
    emulated_wgmma_of<4>(x...);
}

static inline void ptx_wgmma_fence_sync_aligned()
{
}

static inline void ptx_wgmma_commit_group_sync_aligned()
{
}

static inline void ptx_wgmma_wait_group_sync_aligned(int)
{
}

/* Lane 8 m + i has the address of row i of matrix m; lane 4 r + t gets the t-th word of row r of each. */
static inline void ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(uint32_t &d0, uint32_t &d1, uint32_t &d2, uint32_t &d3,
                                                                uint32_t at)
{
    const uint32_t lane = threadIdx.x % 32, *all = emulated_exchange("ldmatrix", &at, 1)[0];
    uint32_t d[4];
    for (int m = 0; m < 4; m++) d[m] = ((const uint32_t *)emulated_shared_pointer(all[8 * m + lane / 4], 16))[lane % 4];
    d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}

static inline void ptx_ldmatrix_sync_aligned_m8n8_x2_shared_b16(uint32_t &d0, uint32_t &d1, uint32_t at)
{
    const uint32_t lane = threadIdx.x % 32, *all = emulated_exchange("ldmatrix", &at, 1)[0];
    uint32_t d[2];
    for (int m = 0; m < 2; m++) d[m] = ((const uint32_t *)emulated_shared_pointer(all[8 * m + lane / 4], 16))[lane % 4];
    d0 = d[0], d1 = d[1];
}

/* --- copies to shared memory: they arrive as late as they may --- */

void emulated_copy_later(void *to, const void *from, size_t bytes);
void emulated_copy_commit();
void emulated_copy_wait(unsigned groups); /* until at most so many are under way */

static inline void ptx_cp_async_cg_shared_global(uint32_t to, const void *from, uint32_t bytes)
{
    if ((to | (uintptr_t)from) % bytes) emulated_fault("cp.async: an address is no multiple of %u", bytes);
    emulated_copy_later(emulated_shared_pointer(to, bytes), from, bytes);
}

static inline void ptx_cp_async_commit_group()
{
    emulated_copy_commit();
}

static inline void ptx_cp_async_wait_group(unsigned groups)
{
    emulated_copy_wait(groups);
}

static inline void ptx_cp_async_wait_all()
{
    emulated_copy_commit();
    emulated_copy_wait(0);
}

/* --- barriers in shared memory --- */

void ptx_bar_arrive(uint32_t i, uint32_t n);
void ptx_bar_sync(uint32_t i, uint32_t n);
void ptx_mbarrier_init_shared_b64(uint32_t bar, uint32_t n);
void ptx_mbarrier_arrive_shared_b64(uint32_t bar);
void ptx_mbarrier_arrive_expect_tx_shared_b64(uint32_t bar, uint32_t bytes);
void ptx_mbarrier_try_wait_parity_shared_b64(uint32_t bar, uint32_t parity); /* as long as it takes */
void ptx_cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(uint32_t to, const void *from, uint32_t bytes,
                                                                        uint32_t bar);

/* The L2 cache is not emulated, but its policies are known. */
#define EVICT_FIRST UINT64_C(0x12f0000000000000)

static inline void ptx_createpolicy_fractional_L2_evict_first_b64(uint64_t &policy)
{
    policy = EVICT_FIRST;
}

static inline void ptx_cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes_L2_cache_hint(
    uint32_t to, const void *from, uint32_t bytes, uint32_t bar, uint64_t policy)
{
    if (policy != EVICT_FIRST) emulated_fault("cp.async.bulk: 0x%llx is no policy", (unsigned long long)policy);
    ptx_cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(to, from, bytes, bar);
}

/* The copies of this thread are there when it arrives. */
static inline void ptx_cp_async_mbarrier_arrive_noinc_shared_b64(uint32_t bar)
{
    emulated_copy_commit();
    emulated_copy_wait(0);
    ptx_mbarrier_arrive_shared_b64(bar);
}
