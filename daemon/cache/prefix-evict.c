/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix-node.h"
#include <assert.h>
#include <stddef.h>

void prefix_mark_tail(struct prefix *p, struct prefix_id id, bool tail)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n || (!tail && !n->tails)) return;
    assert(!tail || n->tails < UINT32_MAX);
    n->tails += tail ? 1 : (uint32_t)-1;
    prefix_node_settle(p, n);
    prefix_node_subsume(p, n);
}

/* The leaf that goes next; NULL: none may. */
static struct prefix_node *victim(const struct prefix *p)
{
    const struct tree_link *l = tree_last(&p->owners);
    if (!l) return NULL;
    const struct prefix_owner *o =
        (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, in_owners));
    return prefix_worth_least(o);
}

uint32_t prefix_evict(struct prefix *p, uint32_t blocks, prefix_leave_fn leave, void *ctx)
{
    uint32_t gone = 0;
    for (struct prefix_node *n; gone < blocks && (n = victim(p)); gone++) {
        if (leave && !n->writing) {
            struct prefix_info info;
            prefix_info(n, &info);
            if (leave(ctx, &info) && !n->on_disk) n->writing = true;
        }
        if (!n->on_disk) prefix_node_given_up(p, n);
        n->owner->sum.evictions++;
        p->sum.evictions++;
        prefix_node_leave(p, n);
        prefix_node_collect(p, n);
    }
    return gone;
}

uint32_t prefix_evictable(const struct prefix *p)
{
    return (uint32_t)p->evictable;
}

void prefix_count(const struct prefix *p, uid_t uid, struct prefix_sum *out)
{
    const struct prefix_owner *o = prefix_owner_find(p, uid);
    if (uid == (uid_t)-1)
        *out = p->sum;
    else
        *out = o ? o->sum : (struct prefix_sum){0};
}
