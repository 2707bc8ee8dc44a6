/* SPDX-License-Identifier: MIT */
#include "daemon/model/embedding-values.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

int embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim)
{
    size_t values, bytes;
    if (__builtin_mul_overflow((size_t)n, (size_t)dim, &values) ||
        __builtin_mul_overflow(values, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct embeddings), &bytes))
        return -ENOMEM;
    struct embeddings *e = calloc(1, bytes);
    if (!e) return -ENOMEM;
    atomic_init(&e->refs, 1);
    e->n = n;
    e->dim = dim;
    *out = e;
    return 0;
}

struct embeddings *embeddings_ref(struct embeddings *e)
{
    if (e) atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

struct embeddings *embeddings_unref(struct embeddings *e)
{
    if (e && atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1) free(e);
    return NULL;
}
