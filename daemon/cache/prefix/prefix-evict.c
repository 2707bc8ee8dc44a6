/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>

void prefix_mark_tail(struct prefix *p, struct prefix_id id, bool tail)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n || (!tail && !n->tails)) return;
    assert(!tail || n->tails < UINT32_MAX);
    n->tails += tail ? 1 : (uint32_t)-1;
    prefix_node_requeue(p, n);
    prefix_node_drop_covered(p, n);
}

/* The leaf to evict next; NULL: there is none. */
static struct prefix_node *lowest_leaf(const struct prefix *p)
{
    const struct tree_link *l = tree_last(&p->owners);
    if (!l) return NULL;
    const struct prefix_owner *o =
        (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, in_owners));
    return prefix_score_lowest(o);
}

uint32_t prefix_evict(struct prefix *p, uint32_t blocks, prefix_evict_fn on_evict, void *ctx)
{
    uint32_t evicted = 0;
    for (struct prefix_node *n; evicted < blocks && (n = lowest_leaf(p)); evicted++) {
        const bool kept = on_evict && prefix_host_keep(p, n, prefix_node_in_memory(n));
        if (on_evict && !kept && !n->writing) prefix_node_offer(n, on_evict, ctx);
        if (!kept && !n->on_disk) prefix_ghost_add(p, n);
        n->owner->stats.evictions++;
        p->stats.evictions++;
        prefix_state_leave(p, n, false);
        if (!kept) prefix_host_drop(p, n);
        prefix_node_detach_block(p, n);
        prefix_node_prune(p, n);
    }
    return evicted;
}

uint32_t prefix_evictable(const struct prefix *p)
{
    return (uint32_t)p->evictable;
}

void prefix_stats_get(const struct prefix *p, uid_t uid, struct prefix_stats *out)
{
    const struct prefix_owner *o = prefix_owner_find(p, uid);
    if (uid == (uid_t)-1)
        *out = p->stats;
    else
        *out = o ? o->stats : (struct prefix_stats){0};
}
