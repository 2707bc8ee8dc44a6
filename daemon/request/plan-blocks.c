/* SPDX-License-Identifier: MIT */
#include "daemon/request/plan-blocks.h"
#include "daemon/request/core.h"
#include <string.h>

/* Of a group with a window it may have given some back. */
uint32_t plan_blocks(const struct core *core, const struct seq *s, uint32_t group)
{
    uint32_t held = s->kv.tables[group].n_blocks;
    if (group && group == core->cache.state) return 1;
    if (!group) return s->state != SEQ_WAITING ? held : seq_blocks(s) - reuse_shared(s);
    uint32_t most = seq_group_blocks(s, &core->cache.backend->hparams.groups[group]);
    return s->state != SEQ_WAITING && held < most ? held : most;
}

void plan_count_held(struct core *core, struct seq *s)
{
    for (uint32_t g = 1; g < kv_cache_pools(&core->cache); g++) {
        uint32_t held = s->kv.tables[g].n_blocks ? plan_blocks(core, s, g) : 0;
        core->plan.held[g] += held - s->sched.held[g];
        s->sched.held[g] = held;
    }
}

uint32_t plan_free_blocks(const struct core *core, uint32_t group)
{
    const struct kv_cache *c = &core->cache;
    if (!group) return kv_pool_free_blocks(c->pools[0]) + prefix_evictable(c->prefix);
    uint32_t all = kv_pool_total(c->pools[group]), held = core->plan.held[group];
    return held < all ? all - held : 0;
}

/* The group with the smallest share of its blocks left: the scheduler counts blocks of one group only. */
static uint32_t tightest_group(const struct core *core)
{
    const struct kv_cache *c = &core->cache;
    uint32_t best = 0;
    for (uint32_t g = 1; g < kv_cache_pools(c); g++)
        if ((uint64_t)plan_free_blocks(core, g) * kv_pool_total(c->pools[best]) <
            (uint64_t)plan_free_blocks(core, best) * kv_pool_total(c->pools[g]))
            best = g;
    return best;
}

void plan_choose_group(struct core *core)
{
    struct plan *p = &core->plan;
    if (kv_cache_pools(&core->cache) < 2) return;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->stale[i]) plan_count_held(core, p->seqs[i]);
    uint32_t group = tightest_group(core);
    if (group != p->group) memset(p->stale, true, p->n * sizeof(*p->stale));
    p->group = group;
}
