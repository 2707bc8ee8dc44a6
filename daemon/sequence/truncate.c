/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/truncate.h"
#include "daemon/sequence/sequence.h"
#include "libcommon/error.h"
#include <assert.h>

/* The sequence uses the index up to the last whole block within @n tokens. */
static void unindex(struct kv_cache *c, struct reuse *u, uint32_t n)
{
    struct prefix_node *old = u->indexed_node, *x = old;
    while (u->indexed > n) {
        u->indexed -= KV_BLOCK;
        if (x) x = prefix_parent(x);
    }
    if (x == old) return;
    if (x) prefix_ref(c->prefix, x);
    u->indexed_node = x;
    prefix_unref(c->prefix, old);
}

/* Give back the blocks from entry @at of the table on that others use, too. Returns how many they were. */
static uint32_t give_back(struct kv_cache *c, struct kv_table *t, uint32_t at)
{
    uint32_t n = 0;
    for (; at < t->n_blocks; at++) {
        if (t->ids[at] == KV_NO_BLOCK || kv_pool_refs(c->pool, t->ids[at]) == 1) continue;
        kv_pool_unref(c->pool, t->ids[at]);
        t->ids[at] = KV_NO_BLOCK;
        n++;
    }
    return n;
}

/* Give the table free blocks where it has none from entry @at on. */
static void take_blocks(struct kv_cache *c, struct kv_table *t, uint32_t at)
{
    for (; at < t->n_blocks; at++) {
        if (t->ids[at] != KV_NO_BLOCK) continue;
        int r = kv_pool_take(c->pool, &t->ids[at]);
        assert(r == 0); /* they were counted */
        (void)r;
    }
}

int seq_truncate_kv(struct kv_cache *c, struct seq *s, uint32_t n)
{
    struct kv_table *t = &s->kv;
    uint32_t at = n / KV_BLOCK, rest = n % KV_BLOCK, from = KV_NO_BLOCK;
    if (n >= t->n_tokens) return 0;
    if (seq_rotates(s) && t->n_tokens > s->context.ctx)
        return error_say(-EOPNOTSUPP, "a context that has rotated cannot be truncated");
    unindex(c, &s->reuse, n);
    if (rest && kv_pool_refs(c->pool, t->ids[at]) > 1) {
        from = t->ids[at]; /* the table's reference keeps it until it is copied */
        t->ids[at] = KV_NO_BLOCK;
    }
    uint32_t need = give_back(c, t, at) + (from != KV_NO_BLOCK);
    bool room = kv_cache_make_room(c, need);
    t->n_tokens = room ? n : at * KV_BLOCK;
    if (room) take_blocks(c, t, at);
    if (from != KV_NO_BLOCK && room) c->backend->ops->kv_copy(c->backend, 0, t->ids[at], from, rest);
    if (from != KV_NO_BLOCK) kv_pool_unref(c->pool, from);
    return room ? 0 : error_say(-ENOBUFS, "no block of KV is free for a sequence that is truncated");
}
