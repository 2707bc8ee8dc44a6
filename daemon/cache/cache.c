/* SPDX-License-Identifier: MIT */
#include "daemon/cache/cache.h"
#include "daemon/cache/spill-states.h"
#include <errno.h>

#define STATE_PERCENT 50

int kv_cache_new(struct kv_cache *c, struct backend *b, const struct spill_config *t, struct job_returns *jobs)
{
    const struct hparams *s = &b->hparams;
    int r = 0;
    c->backend = b;
    c->n_groups = hparams_kv_groups(s);
    c->state = hparams_state(s) ? c->n_groups : 0;
    c->state_percent = STATE_PERCENT;
    for (uint32_t g = 0; r == 0 && g < kv_cache_pools(c); g++) r = kv_pool_new(&c->pools[g], b->kv_blocks[g]);
    if (r == 0) r = prefix_new(&c->prefix, c->pools[0], NULL);
    for (uint32_t g = 1; r == 0 && g < c->n_groups; g++)
        r = prefix_add_window(c->prefix, c->pools[g], s->groups[g].window);
    if (r == 0 && c->state) prefix_add_states(c->prefix, c->pools[c->state], spill_state_evicting, c);
    if (r == 0) r = host_pool_new(c, t->host_bytes, jobs);
    return r < 0 ? r : spill_new(c, t, jobs);
}

void kv_cache_free(struct kv_cache *c, uint64_t until)
{
    spill_flush(c, until);
    c->prefix = prefix_free(c->prefix);
    spill_free(c);
    host_pool_free(c);
    for (uint32_t g = 0; g < kv_cache_pools(c); g++) c->pools[g] = kv_pool_free(c->pools[g]);
}

static uint32_t evict(struct kv_cache *c, uint32_t group, uint32_t blocks)
{
    if (group && group == c->state) return prefix_state_evict(c->prefix, blocks);
    return group ? prefix_window_evict(c->prefix, group, blocks, spill_evicting, c)
                 : prefix_evict(c->prefix, blocks, spill_evicting, c);
}

bool kv_cache_make_room(struct kv_cache *c, uint32_t group, uint32_t blocks)
{
    for (;;) {
        uint32_t have = kv_pool_free_blocks(c->pools[group]);
        if (have >= blocks) return true;
        /* A block in two namespaces is free only when both have evicted it. */
        if (evict(c, group, blocks - have) == 0) return false;
    }
}

int kv_cache_slide(struct kv_cache *c, uint32_t group, struct kv_table *t, uint32_t from, uint32_t to, uint32_t end)
{
    uint32_t need = kv_table_blocks(end);
    if (need <= t->n_blocks) return 0;
    int r = kv_table_rotate(t, c->pools[group], from, to, need);
    if (r == 0 && t->n_blocks < need && !kv_cache_make_room(c, group, need - t->n_blocks)) r = -ENOBUFS;
    return r < 0 ? r : kv_table_reserve(t, c->pools[group], end);
}

void kv_cache_drop(struct kv_cache *c, struct kv_tables *t)
{
    for (uint32_t g = 0; g < kv_cache_pools(c); g++) kv_table_fini(&t->tables[g], c->pools[g]);
    t->n_tokens = 0;
}

void kv_cache_namespace(const struct kv_cache *c, const struct namespace_owner *owner, struct prefix_namespace *out)
{
    spill_namespace(c->spill, owner, out);
}
