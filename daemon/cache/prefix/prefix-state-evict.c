/* SPDX-License-Identifier: MIT */
/* Recurrent states that leave memory, and then host memory: which ones, and what becomes of them. */
#include "daemon/cache/prefix/prefix-node.h"
#include "daemon/cache/prefix/prefix-state.h"
#include <stddef.h>

#define OLDEST     8   /* least recently used states that are compared */
#define GAP_MAX    256 /* blocks before a state that are searched for another */
#define DISK_WORTH 8   /* by which a state is worth less that is on disk too */

/* Blocks to compute again without the state, for each unit of time since its last use. */
static double worth(const struct prefix *p, const struct prefix_state *s)
{
    uint32_t gap = 1;
    for (const struct prefix_node *x = s->node->parent; x->parent && gap < GAP_MAX; x = x->parent, gap++)
        if (prefix_state_readable(x)) break;
    const double factor =
        (s->kind == PREFIX_STATE_TURN ? PREFIX_TURN_WORTH : 1) / (s->on_disk ? (double)DISK_WORTH : 1);
    return (double)gap / (double)(p->clock - s->used + 1) * factor;
}

/* A sequence begins with it, a job reads it, or another namespace has it too: its block does not become free. */
static bool is_held(const struct prefix *p, const struct prefix_state *s, enum prefix_tier tier)
{
    return kv_pool_refs(p->states.tiers[tier].pool, s->blocks[tier]) > 1;
}

/* The state of @o in the tier that is worth least and not held; NULL: there is none. */
static struct prefix_state *lowest_of(const struct prefix *p, const struct prefix_owner *o, enum prefix_tier tier)
{
    struct prefix_state *best = NULL;
    double least = 0;
    uint32_t seen = 0;
    for (struct prefix_state *s = o->states[tier].oldest; s && seen < OLDEST; s = s->newer) {
        if (is_held(p, s, tier)) continue;
        const double w = worth(p, s);
        seen++;
        if (best && w >= least) continue;
        best = s;
        least = w;
    }
    return best;
}

static const struct prefix_owner *owner_of(const struct tree_link *l, enum prefix_tier tier)
{
    const size_t at = offsetof(struct prefix_owner, states) + tier * sizeof(struct prefix_state_list);
    return (const struct prefix_owner *)((const char *)l - at - offsetof(struct prefix_state_list, in_owners));
}

/* The state that leaves the tier next, of the owner with most of those that have one that is not held; NULL: there is
 * none. */
static struct prefix_state *lowest(const struct prefix *p, enum prefix_tier tier)
{
    for (const struct tree_link *l = tree_last(&p->states.tiers[tier].owners); l; l = tree_previous(l)) {
        struct prefix_state *s = lowest_of(p, owner_of(l, tier), tier);
        if (s) return s;
    }
    return NULL;
}

/* The state is about to leave memory or host memory: it may be written to disk. */
static void offer(const struct prefix *p, struct prefix_state *s)
{
    struct prefix_info info;
    if (!p->states.on_evict || s->kind != PREFIX_STATE_TURN || prefix_state_filed(s->node)) return;
    prefix_info(s->node, &info);
    s->writing = p->states.on_evict(p->states.ctx, &info);
}

/* --- host memory --- */

/* Takes a slot, for which another state may lose its own. False: there is none. */
static bool take_slot(struct prefix *p, uint32_t *slot)
{
    struct prefix_state *victim;
    while (kv_pool_take(p->states.tiers[PREFIX_HOST].pool, slot) < 0) {
        if (!(victim = lowest(p, PREFIX_HOST))) return false;
        offer(p, victim);
        prefix_state_take(p, victim, PREFIX_HOST);
    }
    return true;
}

/* Copies the state to a slot, which is *slot. False: it is not there. */
static bool copy(struct prefix *p, const struct prefix_state *s, uint32_t *slot)
{
    struct kv_pool *pool = p->states.tiers[PREFIX_HOST].pool;
    struct prefix_info info;
    if (!pool || !take_slot(p, slot)) return false;
    prefix_info(s->node, &info);
    if (p->states.copy(p->states.copy_ctx, &info, *slot)) return true;
    kv_pool_unref(pool, *slot);
    return false;
}

void prefix_state_forget(struct prefix *p, struct prefix_node *n)
{
    if (n && n->state && !prefix_node_readable(n) && !n->writing) prefix_state_take(p, n->state, PREFIX_HOST);
}

void prefix_state_slots_lost(struct prefix *p, const bool *slots)
{
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            struct prefix_node *n = NODE_OF(l, by_id);
            const uint32_t slot = prefix_state_slot(n);
            if (slot != KV_NO_BLOCK && slots[slot]) prefix_state_take(p, n->state, PREFIX_HOST);
        }
}

/* --- memory --- */

void prefix_state_leave(struct prefix *p, struct prefix_node *n, bool alone)
{
    struct prefix_state *s = n->state;
    uint32_t slot = KV_NO_BLOCK;
    if (prefix_state_block(n) == KV_NO_BLOCK) return;
    const bool useful = alone || prefix_node_on_host(n) || n->on_disk || n->writing; /* its node's KV stays somewhere */
    const bool kept = useful && copy(p, s, &slot);
    if (useful && !kept) offer(p, s);
    prefix_state_take(p, s, PREFIX_MEMORY);
    if (kept) prefix_state_put(p, s, PREFIX_HOST, slot);
}

uint32_t prefix_state_evict(struct prefix *p, uint32_t states)
{
    uint32_t evicted = 0;
    for (; evicted < states; evicted++) {
        struct prefix_state *s = lowest(p, PREFIX_MEMORY);
        const struct tree_link *most = tree_last(&p->states.tiers[PREFIX_MEMORY].owners);
        if (!s && !most) break;
        if (!s) s = owner_of(most, PREFIX_MEMORY)->states[PREFIX_MEMORY].oldest; /* all are held */
        prefix_state_leave(p, s->node, true);
    }
    return evicted;
}
