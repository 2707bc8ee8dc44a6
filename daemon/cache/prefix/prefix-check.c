/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Sums over all nodes. */
struct found {
    struct prefix_stats stats;
    uint64_t full, evictable, evict, write, disk;
};

/* Checks the counts and the order of the children of @n. */
static void check_children(const struct prefix_node *n)
{
    uint32_t children = 0, memory = 0, host = 0, disk = 0, pins = n->refs;
    const struct prefix_node *before = NULL;
    for (const struct tree_link *l = tree_first(&n->children); l; l = tree_next(l)) {
        const struct prefix_node *c = NODE_OF(l, in_children);
        assert(c->parent == n && c->root == n->root);
        children++;
        memory += c->block != KV_NO_BLOCK;
        host += prefix_host_slot(c) != KV_NO_BLOCK;
        disk += c->on_disk;
        pins += c->pins > 0;
        if (before) {
            const struct items a = prefix_node_items(before), b = prefix_node_items(c);
            assert(items_compare(&a, &b) < 0 && items_compare(&b, &a) > 0);
        }
        before = c;
    }
    assert(tree_check(&n->children) == children);
    assert(n->n_children == children && n->n_children_memory == memory && n->n_children_disk == disk &&
           n->pins == pins);
    assert(!n->host || n->host->n_children == host);
}

/* Asserts that the link is in @in with key @used, or in no tree. */
static void check_listed(const struct tree_link *l, const struct tree *in, bool is, uint64_t used)
{
    assert(l->in == (is ? in : NULL));
    assert(!is || l->key == used);
}

static void check_node(const struct prefix *p, const struct prefix_node *n, struct found *f)
{
    const bool memory = n->block != KV_NO_BLOCK, first = !n->parent->parent, host = prefix_node_on_host(n);
    assert(n->n >= 1 && n->n <= KV_BLOCK && (n->n == KV_BLOCK || !n->n_children));
    const struct items t = prefix_node_items(n);
    assert(prefix_by_id(p, n->id) == n && items_check(&t) && prefix_children_exact(n->parent, &t) == n);
    if (n->n == KV_BLOCK) {
        assert(n->by_hash.hash == prefix_children_hash(p, n->parent, &t));
        assert(prefix_children_full(p, n->parent, &t, n->by_hash.hash) == n);
    }
    assert(memory || host || n->on_disk || n->writing || n->n_children || n->pins || prefix_state_filed(n));
    assert(!memory || kv_pool_refs(p->pool, n->block) > 0);
    assert(!memory || first || n->parent->block != KV_NO_BLOCK);
    assert(!n->on_disk || !n->writing || n->group.n);
    assert(n->used <= p->clock && n->uses <= PREFIX_USES_MAX && (n->uses || !prefix_node_readable(n)));
    assert(n->in_children.own ==
           (INDEXED | (memory ? IN_MEMORY : 0) | (host ? ON_HOST : 0) | (n->on_disk ? ON_DISK : 0)));
    if (memory && n->n < KV_BLOCK && !n->pins && !n->tails) assert(!prefix_children_longer(n->parent, &t));

    const bool evict = memory && !n->n_children_memory && !n->pins;
    const bool more = n->group.n && !n->pins && prefix_node_lacks(n) != n->group.disk_lacks &&
                      (prefix_node_lacks(n) & n->group.disk_lacks) == prefix_node_lacks(n);
    const bool write = (memory || host) && (!n->on_disk || more) && !n->writing && (first || n->parent->on_disk);
    const bool disk = n->on_disk && !n->n_children_disk && !n->pins;
    check_listed(&n->queued.evict, &n->owner->evict[prefix_queue(n)], evict, n->used);
    check_listed(&n->queued.write, &p->write, write, n->used);
    check_listed(&n->queued.disk, &p->disk, disk, n->used);
    assert(n->listed == (evict || write || disk));

    f->stats.nodes++;
    f->stats.blocks_memory += memory;
    f->stats.blocks_host += prefix_host_slot(n) != KV_NO_BLOCK;
    f->stats.blocks_disk += n->on_disk;
    f->stats.states_memory += prefix_state_block(n) != KV_NO_BLOCK;
    f->stats.states_host += prefix_state_slot(n) != KV_NO_BLOCK;
    f->stats.states_disk += n->state && n->state->on_disk;
    f->full += n->n == KV_BLOCK;
    f->evictable += memory && !n->pins;
    f->evict += evict;
    f->write += write;
    f->disk += disk;
}

/* Asserts that the keys of @t ascend, and returns their number. */
static uint64_t check_order(const struct tree *t)
{
    uint64_t before = 0;
    for (const struct tree_link *l = tree_first(t); l; l = tree_next(l)) {
        assert(before <= l->key);
        before = l->key;
    }
    return tree_check(t);
}

/* Asserts that the order of a queue is also the order by the owner's clock. */
static uint64_t check_queue(const struct prefix_owner *o, uint32_t k)
{
    uint64_t before = 0;
    for (const struct tree_link *l = tree_first(&o->evict[k]); l; l = tree_next(l)) {
        const struct prefix_node *n = NODE_OF(l, queued.evict);
        assert(before <= n->since && n->since <= o->clock);
        before = n->since;
    }
    return check_order(&o->evict[k]);
}

static bool stats_equal(const struct prefix_stats *a, const struct prefix_stats *b)
{
    return a->nodes == b->nodes && a->blocks_memory == b->blocks_memory && a->blocks_disk == b->blocks_disk &&
           a->blocks_host == b->blocks_host && a->evictions == b->evictions && a->states_memory == b->states_memory &&
           a->states_host == b->states_host && a->states_disk == b->states_disk;
}

static void add_stats(struct prefix_stats *to, const struct prefix_stats *s)
{
    to->nodes += s->nodes;
    to->blocks_memory += s->blocks_memory;
    to->blocks_host += s->blocks_host;
    to->blocks_disk += s->blocks_disk;
    to->evictions += s->evictions;
    to->states_memory += s->states_memory;
    to->states_host += s->states_host;
    to->states_disk += s->states_disk;
}

static const struct prefix_owner *owner_of(const struct table_link *l)
{
    return (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, by_uid));
}

/* Compares the owner's statistics and queues with its nodes. */
static void check_owner(const struct prefix *p, const struct prefix_owner *o)
{
    struct prefix_stats own = {.evictions = o->stats.evictions};
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_id);
            if (n->owner != o) continue;
            own.nodes++;
            own.blocks_memory += n->block != KV_NO_BLOCK;
            own.blocks_host += prefix_host_slot(n) != KV_NO_BLOCK;
            own.blocks_disk += n->on_disk;
            own.states_memory += prefix_state_block(n) != KV_NO_BLOCK;
            own.states_host += prefix_state_slot(n) != KV_NO_BLOCK;
            own.states_disk += n->state && n->state->on_disk;
        }
    assert(stats_equal(&own, &o->stats));
    uint32_t queues = 0;
    for (uint32_t i = 0; i < PREFIX_QUEUES; i++) queues += o->evict[i].top != NULL;
    check_listed(&o->in_owners, &p->owners, queues > 0, o->stats.blocks_memory);
    assert(!o->score || o->stats.blocks_memory >= p->learn_from / PREFIX_FORGET_DIVISOR);
}

/* --- groups with a window --- */

/* Checks the list of @o in window @i and returns its length. */
static uint64_t check_windows_of(const struct prefix *p, const struct prefix_owner *o, uint32_t i)
{
    const struct prefix_window_group *g = &p->windows[i];
    const struct prefix_window *before = NULL;
    uint64_t listed = 0;
    for (const struct prefix_window *w = o->windows[i].oldest; w; before = w, w = w->newer) {
        assert(w->older == before && w == &w->node->group.windows[i] && w->node->owner == o);
        assert(w->block != KV_NO_BLOCK && w->node->block != KV_NO_BLOCK);
        assert(g->refs[w->block] && kv_pool_refs(g->pool, w->block) >= g->refs[w->block]);
        listed++;
    }
    assert(o->windows[i].newest == before && o->windows[i].n == listed);
    return listed;
}

static void check_windows(const struct prefix *p)
{
    for (uint32_t i = 0; i < p->n_windows; i++) {
        const struct prefix_window_group *g = &p->windows[i];
        uint64_t listed = 0, found = 0, refs = 0;
        for (uint64_t k = 0; k <= p->uids.mask; k++)
            for (struct table_link *l = p->uids.slots[k]; l; l = l->next) listed += check_windows_of(p, owner_of(l), i);
        for (uint64_t k = 0; k <= p->ids.mask; k++)
            for (const struct table_link *l = p->ids.slots[k]; l; l = l->next)
                found += NODE_OF(l, by_id)->group.windows[i].block != KV_NO_BLOCK;
        for (uint32_t k = 0; k < kv_pool_total(g->pool); k++) refs += g->refs[k];
        assert(listed == found && listed == refs);
    }
}

/* --- recurrent states --- */

/* Checks the list of an owner in a tier, and returns how many states it has. */
static uint64_t check_states_of(const struct prefix *p, const struct prefix_owner *o, enum prefix_tier tier)
{
    const struct prefix_state_tier *t = &p->states.tiers[tier];
    const struct prefix_state_list *list = &o->states[tier];
    const struct prefix_state *before = NULL;
    uint64_t listed = 0;
    for (const struct prefix_state *s = list->oldest; s; before = s, s = s->newer, listed++) {
        assert(s->older == before && s->node->state == s && s->node->owner == o);
        assert(s->blocks[tier] != KV_NO_BLOCK && s->blocks[!tier] == KV_NO_BLOCK);
        assert(kv_pool_refs(t->pool, s->blocks[tier]) > 0 && s->used <= p->clock);
        if (tier == PREFIX_MEMORY)
            assert(s->node->block != KV_NO_BLOCK && (!before || before->used <= s->used));
        else
            assert(prefix_node_readable(s->node) || s->node->writing);
    }
    assert(list->newest == before && listed == (tier ? o->stats.states_host : o->stats.states_memory));
    check_listed(&list->in_owners, &t->owners, listed > 0, listed);
    return listed;
}

static void check_states(const struct prefix *p)
{
    uint64_t listed[PREFIX_TIERS] = {0}, files = 0, write = 0;
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (const struct table_link *l = p->uids.slots[i]; l; l = l->next)
            for (enum prefix_tier t = 0; t < PREFIX_TIERS; t++) listed[t] += check_states_of(p, owner_of(l), t);
    assert(listed[PREFIX_MEMORY] == p->stats.states_memory && listed[PREFIX_HOST] == p->stats.states_host);
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_id);
            const struct prefix_state *s = n->state;
            assert(!s == (!p->states.tiers[PREFIX_MEMORY].pool || n->n < KV_BLOCK));
            if (!s) continue;
            const bool wanted =
                prefix_state_at_hand(n) && s->kind == PREFIX_STATE_TURN && n->on_disk && !s->on_disk && !s->writing;
            assert(s->node == n && !(s->on_disk && s->writing));
            assert(s->write.in == (wanted ? &p->states.write : NULL) && (!wanted || s->write.key == s->used));
            assert(s->file.in == (s->on_disk ? &p->states.files : NULL));
            assert(!s->on_disk || s->file.key == (prefix_node_readable(n) ? s->used : 0));
            files += s->on_disk;
            write += wanted;
        }
    assert(files == p->stats.states_disk && tree_check(&p->states.files) == files);
    assert(tree_check(&p->states.write) == write);
}

/* --- host memory --- */

static void check_hosts(const struct prefix *p)
{
    uint64_t evict = 0, listed = 0, owners = 0;
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_id);
            assert(!n->host == !p->hosts.pool);
            if (!n->host) continue;
            const bool slot = n->host->slot != KV_NO_BLOCK, removable = slot && !n->host->n_children && !n->pins;
            const int none = ~((2 << n->group.n) - 1) & PREFIX_ALL_GROUPS;
            assert(n->host->node == n && slot == (n->host->lacks != PREFIX_ALL_GROUPS));
            assert((n->host->lacks & (none | prefix_node_in_memory(n))) == (none | prefix_node_in_memory(n)));
            assert(!slot || prefix_node_at_hand(n));
            assert(!slot || kv_pool_refs(p->hosts.pool, n->host->slot) > 0);
            check_listed(&n->host->evict, &n->owner->hosts, removable, n->used);
            evict += removable;
        }
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (const struct table_link *l = p->uids.slots[i]; l; l = l->next) {
            const struct prefix_owner *o = owner_of(l);
            listed += check_order(&o->hosts);
            check_listed(&o->in_hosts, &p->hosts.owners, o->hosts.top, o->stats.blocks_host);
            owners += o->hosts.top != NULL;
        }
    assert(evict == listed && owners == check_order(&p->hosts.owners));
}

/* --- all --- */

void prefix_check(const struct prefix *p)
{
    struct found f = {0};
    uint64_t evict = 0, owners = 0;
    for (uint64_t i = 0; i <= p->namespaces.mask; i++)
        for (const struct table_link *l = p->namespaces.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_hash);
            assert(!n->parent && !n->n && n->block == KV_NO_BLOCK && n->n_children && !n->refs);
            assert(prefix_root_find(p, &n->root->namespace) == n);
            check_children(n);
        }
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            check_children(NODE_OF(l, by_id));
            check_node(p, NODE_OF(l, by_id), &f);
        }
    struct prefix_stats stats = {0};
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (const struct table_link *l = p->uids.slots[i]; l; l = l->next) {
            const struct prefix_owner *o = owner_of(l);
            check_owner(p, o);
            add_stats(&stats, &o->stats);
            for (uint32_t k = 0; k < PREFIX_QUEUES; k++) evict += check_queue(o, k);
            owners += o->in_owners.in != NULL;
        }
    f.stats.evictions = stats.evictions;
    assert(stats_equal(&stats, &f.stats) && stats_equal(&stats, &p->stats));
    assert(p->ids.count == f.stats.nodes && p->full.count == f.full && p->evictable == f.evictable);
    assert(evict == f.evict && check_order(&p->owners) == owners);
    check_windows(p);
    check_states(p);
    check_hosts(p);
    assert(check_order(&p->write) == f.write && check_order(&p->disk) == f.disk);
}
