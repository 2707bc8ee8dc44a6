/* SPDX-License-Identifier: MIT */
#include "daemon/cache/cache.h"

int kv_cache_new(struct kv_cache *c, struct backend *b, const struct tier_config *t, struct job_returns *jobs)
{
    c->backend = b;
    int r = kv_pool_new(&c->pool, b->kv_blocks[0]);
    if (r == 0) r = prefix_new(&c->prefix, c->pool, NULL);
    return r < 0 ? r : tier_new(c, t, jobs);
}

void kv_cache_free(struct kv_cache *c, uint64_t until)
{
    tier_flush(c, until);
    c->prefix = prefix_free(c->prefix);
    tier_free(c);
    c->pool = kv_pool_free(c->pool);
}

bool kv_cache_make_room(struct kv_cache *c, uint32_t blocks)
{
    for (;;) {
        uint32_t have = kv_pool_free_blocks(c->pool);
        if (have >= blocks) return true;
        /* A block in two namespaces is free only when both have evicted it. */
        if (prefix_evict(c->prefix, blocks - have, tier_evicting, c) == 0) return false;
    }
}

void kv_cache_namespace(const struct kv_cache *c, const struct namespace_owner *owner, struct prefix_namespace *out)
{
    tier_namespace(c->tier, owner, out);
}
