/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv/kv-table.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

void kv_table_fini(struct kv_table *t, struct kv_pool *p)
{
    for (uint32_t i = t->n_blocks; i-- > 0;)
        if (t->ids[i] != KV_NO_BLOCK) kv_pool_unref(p, t->ids[i]);
    free(t->ids);
    *t = (struct kv_table){0};
}

int kv_table_grow(struct kv_table *t, uint32_t blocks)
{
    if (blocks <= t->cap) return 0;
    uint32_t *ids = realloc(t->ids, (size_t)blocks * sizeof(*ids));
    if (!ids) return -ENOMEM;
    t->ids = ids;
    t->cap = blocks;
    return 0;
}

int kv_table_reserve(struct kv_table *t, struct kv_pool *p, uint32_t tokens)
{
    uint32_t need = kv_table_blocks(tokens);
    if (need <= t->n_blocks) return 0;
    if (need - t->n_blocks > kv_pool_free_blocks(p)) return -ENOBUFS;
    int r = kv_table_grow(t, need);
    if (r < 0) return r;
    while (t->n_blocks < need) {
        r = kv_pool_take(p, &t->ids[t->n_blocks]);
        assert(r == 0);
        t->n_blocks++;
    }
    return 0;
}

int kv_table_skip(struct kv_table *t, struct kv_pool *p, uint32_t n)
{
    int r = kv_table_grow(t, n);
    if (r < 0) return r;
    for (uint32_t i = 0; i < n; i++) {
        if (i < t->n_blocks && t->ids[i] != KV_NO_BLOCK) kv_pool_unref(p, t->ids[i]);
        t->ids[i] = KV_NO_BLOCK;
    }
    if (t->n_blocks < n) t->n_blocks = n;
    return 0;
}

int kv_table_rotate(struct kv_table *t, struct kv_pool *p, uint32_t from, uint32_t to, uint32_t blocks)
{
    int r = kv_table_grow(t, blocks);
    if (r < 0) return r;
    for (uint32_t i = from; i < to && i < t->n_blocks; i++) {
        uint32_t id = t->ids[i];
        t->ids[i] = KV_NO_BLOCK;
        if (id == KV_NO_BLOCK) continue;
        if (t->n_blocks < blocks && kv_pool_refs(p, id) == 1)
            t->ids[t->n_blocks++] = id;
        else
            kv_pool_unref(p, id);
    }
    return 0;
}
