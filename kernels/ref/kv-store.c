/* SPDX-License-Identifier: MIT */
/* K and V of one token into a block. */
#include "kernels/kv.h"
#include "kernels/ref/ref.h"

KERN_KV_STORE(REF(kv_store_f32))
{
    float *kb = kblock, *vb = vblock;
    for (size_t d = 0; d < dim; d++) {
        kb[d * KV_BLOCK + slot] = k[d];
        if (v) vb[slot * dim + d] = v[d];
    }
}

KERN_KV_STORE(REF(kv_store_f16))
{
    uint16_t *kb = kblock, *vb = vblock;
    for (size_t d = 0; d < dim; d++) {
        kb[d * KV_BLOCK + slot] = ref_to_f16(k[d]);
        if (v) vb[slot * dim + d] = ref_to_f16(v[d]);
    }
}

#define Q8_MAX 65504.0f /* largest f16 */

/* Codes of x[n], n <= 32, @step bytes apart; the scale. */
static uint16_t quantize(int8_t *q, size_t step, const float *x, size_t n)
{
    float amax = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > amax) amax = fabsf(x[i]);
    amax /= 127;
    uint16_t h = ref_to_f16(amax < Q8_MAX ? amax : Q8_MAX);
    float d = ref_f16(h);
    for (size_t i = 0; i < n; i++) {
        float v = d == 0 ? 0 : rintf(x[i] / d);
        q[i * step] = (int8_t)(v > 127 ? 127 : v > -127 ? v : -127); /* a NaN is no int */
    }
    return h;
}

KERN_KV_STORE(REF(kv_store_q8))
{
    int8_t *kq = kblock, *vq = vblock;
    uint16_t *kd = (void *)(kq + kv_codes(dim)), *vd = v ? (void *)(vq + kv_codes(dim)) : NULL;
    for (size_t g = 0, d = 0; d < dim; g++, d += KV_GROUP) {
        size_t n = dim - d < KV_GROUP ? dim - d : KV_GROUP;
        kd[g * KV_BLOCK + slot] = quantize(kq + d * KV_BLOCK + slot, KV_BLOCK, k + d, n);
        if (v) vd[slot * kv_groups(dim) + g] = quantize(vq + slot * dim + d, 1, v + d, n);
    }
}
