/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv/kv-pool.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

struct kv_pool {
    uint32_t *refs; /* [n] references */
    uint32_t *free; /* [n_free] a stack: the block that became free last is most likely in the CPU's cache */
    bool *used;     /* [n] taken since the last sweep over the block */
    uint32_t n, n_free, made;
};

int kv_pool_new(struct kv_pool **out, uint32_t blocks)
{
    struct kv_pool *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->n = p->n_free = p->made = blocks;
    p->refs = calloc(blocks ? blocks : 1, sizeof(*p->refs));
    p->free = calloc(blocks ? blocks : 1, sizeof(*p->free));
    p->used = calloc(blocks ? blocks : 1, sizeof(*p->used));
    if (!p->refs || !p->free || !p->used) {
        kv_pool_free(p);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < blocks; i++) p->free[i] = blocks - 1 - i;
    *out = p;
    return 0;
}

struct kv_pool *kv_pool_free(struct kv_pool *p)
{
    if (!p) return NULL;
    assert(p->n_free == p->n);
    free(p->refs);
    free(p->free);
    free(p->used);
    free(p);
    return NULL;
}

int kv_pool_take(struct kv_pool *p, uint32_t *id)
{
    if (p->n_free == 0) return -ENOBUFS;
    *id = p->free[--p->n_free];
    assert(p->refs[*id] == 0);
    p->refs[*id] = 1;
    p->used[*id] = true;
    return 0;
}

void kv_pool_ref(struct kv_pool *p, uint32_t id)
{
    assert(id < p->n && p->refs[id] > 0 && p->refs[id] < UINT32_MAX);
    p->refs[id]++;
}

void kv_pool_unref(struct kv_pool *p, uint32_t id)
{
    assert(id < p->n && p->refs[id] > 0);
    if (--p->refs[id] == 0) p->free[p->n_free++] = id;
}

uint32_t kv_pool_refs(const struct kv_pool *p, uint32_t id)
{
    assert(id < p->n);
    return p->refs[id];
}

void kv_pool_limit(struct kv_pool *p, uint32_t blocks)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_free; i++)
        if (p->free[i] < blocks) p->free[n++] = p->free[i];
    assert(blocks <= p->made && (blocks >= p->n || p->n_free - n == p->n - blocks));
    for (uint32_t i = p->n; i < blocks; i++) p->free[n++] = i;
    p->n_free = n;
    p->n = blocks;
}

uint32_t kv_pool_total(const struct kv_pool *p)
{
    return p->n;
}

uint32_t kv_pool_free_blocks(const struct kv_pool *p)
{
    return p->n_free;
}

/* The block is in use, or has not been taken since the last sweep. */
static bool swept(const struct kv_pool *p, uint32_t id)
{
    return p->refs[id] || !p->used[id];
}

uint32_t kv_pool_sweep(struct kv_pool *p, uint32_t *at, uint32_t most)
{
    uint32_t i = *at, n = 0;
    while (i < p->n && swept(p, i)) i++;
    *at = i;
    for (; n < most && i < p->n && !swept(p, i); i++, n++) p->used[i] = false;
    return n;
}
