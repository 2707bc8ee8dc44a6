/* SPDX-License-Identifier: MIT */
/* K and V of one token into a block. */
#include "kernels/kv.h"
#include "kernels/x86/v16.h"

KERN_KV_STORE(X86(kv_store_f32))
{
    float *kb = kblock, *vb = vblock;
    for (size_t d = 0; d < dim; d++) kb[d * KV_BLOCK + slot] = k[d];
    if (v) memcpy(vb + slot * dim, v, dim * sizeof(*v));
}

KERN_KV_STORE(X86(kv_store_f16))
{
    uint16_t *kb = kblock, *vb = vblock;
    for (size_t d = 0; d < dim; d += 16) {
        size_t n = dim - d < 16 ? dim - d : 16;
        uint16_t h[16];
        v16_store_f16_n(h, v16_load_n(k + d, n), 16);
        for (size_t i = 0; i < n; i++) kb[(d + i) * KV_BLOCK + slot] = h[i];
        if (v) v16_store_f16_n(vb + slot * dim + d, v16_load_n(v + d, n), n);
    }
}

/* Codes and scale of x[n], n <= 32. */
V uint16_t quantize(int8_t q[KV_GROUP], const float *x, size_t n)
{
    v16 lo = v16_load_n(x, n < 16 ? n : 16), hi = v16_load_n(x + 16, n < 16 ? 0 : n - 16);
    float amax = v16_top(v16_max(v16_abs(lo), v16_abs(hi))) / 127;
    uint16_t h[16];
    v16_store_f16_n(h, v16_set1(amax < 65504 ? amax : 65504), 16);
    v16 d = v16_set1_f16(h), most = v16_set1(127), least = v16_set1(-127);
    __m128i c[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
    if (h[0]) { /* clamped as floats: the quotient may be too large for an int32 */
        c[0] = v16_round_i8(v16_max(v16_min(v16_div(lo, d), most), least));
        c[1] = v16_round_i8(v16_max(v16_min(v16_div(hi, d), most), least));
    }
    memcpy(q, c, sizeof(c));
    return h[0];
}

KERN_KV_STORE(X86(kv_store_q8))
{
    int8_t *kq = kblock, *vq = vblock;
    uint16_t *kd = (void *)(kq + kv_codes(dim)), *vd = v ? (void *)(vq + kv_codes(dim)) : NULL;
    for (size_t g = 0, d = 0; d < dim; g++, d += KV_GROUP) {
        size_t n = dim - d < KV_GROUP ? dim - d : KV_GROUP;
        int8_t q[KV_GROUP];
        kd[g * KV_BLOCK + slot] = quantize(q, k + d, n);
        for (size_t i = 0; i < n; i++) kq[(d + i) * KV_BLOCK + slot] = q[i];
        if (!v) continue;
        vd[slot * kv_groups(dim) + g] = quantize(q, v + d, n);
        memcpy(vq + slot * dim + d, q, n);
    }
}
