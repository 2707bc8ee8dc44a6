/* SPDX-License-Identifier: MIT */
/* KV blocks as bytes: the same code on every CPU. */
#include "kernels/kv.h"
#include <assert.h>
#include <string.h>

const char *kern_kv_name(enum kern_kv t)
{
    static const char *const names[KERN_KV_TYPES] = {"f32", "f16", "q8"};
    assert(t < KERN_KV_TYPES);
    return names[t];
}

/* Of one code or value. */
static size_t element(enum kern_kv t)
{
    return t == KERN_KV_F32 ? 4 : t == KERN_KV_F16 ? 2 : 1;
}

size_t kern_kv_bytes(enum kern_kv t, size_t dim)
{
    assert(t < KERN_KV_TYPES);
    if (t == KERN_KV_Q8) return kv_codes(dim) + KV_BLOCK * kv_groups(dim) * sizeof(uint16_t);
    return kern_align(KV_BLOCK * dim * element(t));
}

/* The first @n of each 32 elements in @rows rows. */
static void copy_rows(uint8_t *dst, const uint8_t *src, size_t rows, size_t n, size_t each)
{
    for (size_t i = 0; i < rows; i++) memcpy(dst + i * KV_BLOCK * each, src + i * KV_BLOCK * each, n * each);
}

void kern_k_copy(enum kern_kv t, void *dst, const void *src, unsigned tokens, size_t dim)
{
    assert(t < KERN_KV_TYPES && tokens <= KV_BLOCK);
    if (dst == src) return;
    const size_t d = kv_codes(dim);
    copy_rows(dst, src, dim, tokens, element(t));
    if (t == KERN_KV_Q8)
        copy_rows((uint8_t *)dst + d, (const uint8_t *)src + d, kv_groups(dim), tokens, sizeof(uint16_t));
}

void kern_kv_copy(enum kern_kv t, void *dst, const void *src, unsigned tokens, size_t dim)
{
    kern_k_copy(t, dst, src, tokens, dim);
    if (dst == src) return;
    const size_t half = kern_kv_bytes(t, dim), each = element(t), d = kv_codes(dim);
    uint8_t *to = dst;
    const uint8_t *from = src;
    memcpy(to + half, from + half, tokens * dim * each);
    if (t == KERN_KV_Q8) memcpy(to + half + d, from + half + d, tokens * kv_groups(dim) * sizeof(uint16_t));
}
