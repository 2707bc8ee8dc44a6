/* SPDX-License-Identifier: MIT */
#pragma once
/* KV blocks as floats, for attn.c: loads of each KV type, and whole blocks that are widened once for many queries. */
#include "kernels/kv.h"
#include "kernels/x86/v16.h"

V v16 load_kv(const void *p, size_t i, enum kern_kv kv)
{
    return kv == KERN_KV_F32   ? v16_load((const float *)p + i)
           : kv == KERN_KV_F16 ? v16_load_f16((const uint16_t *)p + i)
                               : v16_load_i8((const int8_t *)p + i);
}

V v16 load_kv_n(const void *p, size_t i, size_t n, enum kern_kv kv)
{
    return kv == KERN_KV_F32   ? v16_load_n((const float *)p + i, n)
           : kv == KERN_KV_F16 ? v16_load_f16_n((const uint16_t *)p + i, n)
                               : v16_load_i8_n((const int8_t *)p + i, n);
}

/* The scales of a block of Q8. */
V const uint16_t *scales(const void *block, size_t dim)
{
    return (const void *)((const uint8_t *)block + kv_codes(dim));
}

/* K of a block as f32. */
V void widen_k(float *k, const void *block, size_t dim, enum kern_kv kv)
{
    for (size_t d = 0; d < dim; d++) {
        const uint16_t *scale = scales(block, dim) + d / KV_GROUP * KV_BLOCK;
        for (size_t j = 0; j < KV_BLOCK; j += 16) {
            v16 x = load_kv(block, d * KV_BLOCK + j, kv);
            v16_store(k + d * KV_BLOCK + j, kv == KERN_KV_Q8 ? v16_mul(x, v16_load_f16(scale + j)) : x);
        }
    }
}

/* K [dim][32] and V [32][dim] of a block. */
V void widen_f16(float *k, float *v, const void *kblock, const void *vblock, size_t dim)
{
    for (size_t i = 0; i < KV_BLOCK * dim; i += 16) {
        v16_store(k + i, load_kv(kblock, i, KERN_KV_F16));
        v16_store(v + i, load_kv(vblock, i, KERN_KV_F16));
    }
}

V void widen_q8(float *k, float *v, const void *kblock, const void *vblock, size_t dim)
{
    widen_k(k, kblock, dim, KERN_KV_Q8);
    for (size_t j = 0; j < KV_BLOCK; j++) {
        const uint16_t *scale = scales(vblock, dim) + j * kv_groups(dim);
        for (size_t d = 0; d < dim; d += 16) {
            size_t n = dim - d < 16 ? dim - d : 16;
            v16 x = v16_set1_f16(scale + d / KV_GROUP);
            if (n == 16)
                v16_store(v + j * dim + d, v16_mul(load_kv(vblock, j * dim + d, KERN_KV_Q8), x));
            else
                v16_store_n(v + j * dim + d, v16_mul(load_kv_n(vblock, j * dim + d, n, KERN_KV_Q8), x), n);
        }
    }
}

typedef void widen_fn(float *k, float *v, const void *kblock, const void *vblock, size_t dim);

/* to[j * ld + i] = rows[i][j], i and j < 8. */
V void transpose8(float *to, size_t ld, const float *const rows[8])
{
    __m256 r[8], t[8];
    UNROLL
    for (unsigned i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(rows[i]);
    UNROLL
    for (unsigned i = 0; i < 8; i += 4) {
        __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), e = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44), t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, e, 0x44), t[i + 3] = _mm256_shuffle_ps(b, e, 0xee);
    }
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * ld, _mm256_permute2f128_ps(t[i], t[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * ld, _mm256_permute2f128_ps(t[i], t[i + 4], 0x31));
    }
}

/* v[32][n] = the first n rows of k[dim][32]. */
V void transpose(float *v, const float *k, size_t n)
{
    size_t d = 0;
    for (; d + 8 <= n; d += 8)
        for (size_t j = 0; j < KV_BLOCK; j += 8) {
            const float *rows[8];
            UNROLL
            for (unsigned i = 0; i < 8; i++) rows[i] = k + (d + i) * KV_BLOCK + j;
            transpose8(v + j * n + d, n, rows);
        }
    for (; d < n; d++)
        for (size_t j = 0; j < KV_BLOCK; j++) v[j * n + d] = k[d * KV_BLOCK + j];
}
