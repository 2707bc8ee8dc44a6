/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-host.h"
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>

void prefix_add_host(struct prefix *p, struct kv_pool *pool, prefix_host_fn copy, prefix_evict_fn on_evict, void *ctx)
{
    assert(!p->hosts.pool && !p->ids.count);
    p->hosts.pool = pool;
    p->hosts.copy = copy;
    p->hosts.on_evict = on_evict;
    p->hosts.ctx = ctx;
}

void prefix_host_init(struct prefix_node *n, struct prefix_host *host, uint32_t priority)
{
    *host = (struct prefix_host){.node = n, .slot = KV_NO_BLOCK, .lacks = PREFIX_ALL_GROUPS};
    tree_link_init(&host->evict, priority);
}

void prefix_host_requeue(struct prefix *p, struct prefix_node *n)
{
    struct prefix_host *h = n->host;
    if (!h) return;
    struct prefix_owner *o = n->owner;
    const bool evict = h->slot != KV_NO_BLOCK && !h->n_children && !n->pins;
    tree_move(evict ? &o->hosts : NULL, &h->evict, n->used);
    tree_move(o->hosts.top ? &p->hosts.owners : NULL, &o->in_hosts, o->stats.blocks_host);
}

/* The node gets this slot, or KV_NO_BLOCK: none. */
static void set_slot(struct prefix *p, struct prefix_node *n, uint32_t slot)
{
    const uint64_t more = slot != KV_NO_BLOCK ? 1 : (uint64_t)-1;
    n->host->slot = slot;
    n->host->lacks = PREFIX_ALL_GROUPS;
    n->owner->stats.blocks_host += more;
    p->stats.blocks_host += more;
    if (!n->parent->host) return; /* a root */
    n->parent->host->n_children += (uint32_t)more;
    prefix_host_requeue(p, n->parent);
}

/* The slot lacks other groups than before. */
static void changed(struct prefix *p, struct prefix_node *n)
{
    prefix_node_set_bits(n);
    prefix_node_requeue(p, n);
    prefix_state_requeue(p, n);
}

/* The node that loses its slot next; NULL: there is none. */
static struct prefix_node *lowest(const struct prefix *p)
{
    const struct tree_link *l = tree_last(&p->hosts.owners);
    if (!l) return NULL;
    const struct prefix_owner *o =
        (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, in_hosts));
    const struct tree_link *first = tree_first(&o->hosts);
    return ((const struct prefix_host *)((const char *)first - offsetof(struct prefix_host, evict)))->node;
}

/* The node loses its slot; it may be written to disk. */
static void leave(struct prefix *p, struct prefix_node *n)
{
    if (p->hosts.on_evict && prefix_window_writes(n)) prefix_node_offer(n, p->hosts.on_evict, p->hosts.ctx);
    if (!n->on_disk && n->block == KV_NO_BLOCK) prefix_ghost_add(p, n);
    prefix_host_drop(p, n);
    prefix_node_prune(p, n);
}

/* Takes a slot for @n, which is no leaf of host memory meanwhile. False: there is none. */
static bool take_slot(struct prefix *p, struct prefix_node *n)
{
    struct prefix_node *victim;
    uint32_t slot;
    while (kv_pool_take(p->hosts.pool, &slot) < 0) {
        if (!(victim = lowest(p))) return false;
        leave(p, victim);
    }
    set_slot(p, n, slot);
    return true;
}

bool prefix_host_keep(struct prefix *p, struct prefix_node *n, uint8_t groups)
{
    struct prefix_info info;
    if (!n->host || (n->host->slot == KV_NO_BLOCK && !take_slot(p, n))) return false;
    prefix_info(n, &info);
    const bool copied = p->hosts.copy(p->hosts.ctx, &info, groups, n->host->slot);
    if (copied) n->host->lacks &= (uint8_t)~groups;
    if (n->host->lacks == PREFIX_ALL_GROUPS) prefix_host_drop(p, n);
    changed(p, n);
    return copied;
}

void prefix_host_lose(struct prefix *p, struct prefix_node *n, uint8_t groups)
{
    if (prefix_host_slot(n) == KV_NO_BLOCK) return;
    n->host->lacks |= groups;
    if (n->host->lacks == PREFIX_ALL_GROUPS) prefix_host_drop(p, n);
    changed(p, n);
}

void prefix_host_drop(struct prefix *p, struct prefix_node *n)
{
    if (prefix_host_slot(n) == KV_NO_BLOCK) return;
    kv_pool_unref(p->hosts.pool, n->host->slot);
    set_slot(p, n, KV_NO_BLOCK);
    changed(p, n);
}

/* A node with one of these slots; NULL: there is none from entry *at of the table on. */
static struct prefix_node *next_of(const struct prefix *p, const bool *slots, uint64_t *at)
{
    for (; *at <= p->ids.mask; ++*at)
        for (struct table_link *l = p->ids.slots[*at]; l; l = l->next) {
            struct prefix_node *n = NODE_OF(l, by_id);
            if (prefix_host_slot(n) != KV_NO_BLOCK && slots[n->host->slot]) return n;
        }
    return NULL;
}

void prefix_host_lost(struct prefix *p, const bool *slots)
{
    uint64_t at = 0;
    for (struct prefix_node *n; (n = next_of(p, slots, &at));) {
        if (!n->on_disk && n->block == KV_NO_BLOCK) prefix_ghost_add(p, n);
        prefix_host_drop(p, n);
        prefix_node_prune(p, n);
    }
}
