/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

struct found {
    struct prefix_sum sum;
    uint64_t full, evictable, evict, write, disk;
};

/* What @n's children say about it. */
static void check_children(const struct prefix_node *n)
{
    uint32_t children = 0, memory = 0, disk = 0, pins = n->holds;
    const struct prefix_node *before = NULL;
    for (const struct tree_link *l = tree_first(&n->kin); l; l = tree_next(l)) {
        const struct prefix_node *c = NODE_OF(l, in_kin);
        assert(c->parent == n && c->root == n->root);
        children++;
        memory += c->block != PREFIX_NO_BLOCK;
        disk += c->on_disk;
        pins += c->pins > 0;
        if (before) {
            const uint32_t shorter = before->n < c->n ? before->n : c->n;
            const int r = memcmp(before->tokens, c->tokens, shorter * sizeof(*c->tokens));
            assert(r < 0 || (r == 0 && before->n < c->n));
        }
        before = c;
    }
    assert(tree_check(&n->kin) == children);
    assert(n->children == children && n->children_memory == memory && n->children_disk == disk && n->pins == pins);
}

static void check_listed(const struct tree_link *l, const struct tree *in, bool is, uint64_t used)
{
    assert(l->in == (is ? in : NULL));
    assert(!is || l->key == used);
}

static void check_node(const struct prefix *p, const struct prefix_node *n, struct found *f)
{
    const bool memory = n->block != PREFIX_NO_BLOCK, first = !n->parent->parent;
    assert(n->n >= 1 && n->n <= PREFIX_BLOCK && (n->n == PREFIX_BLOCK || !n->children));
    assert(prefix_by_id(p, n->id) == n && prefix_kin_exact(n->parent, n->tokens, n->n) == n);
    if (n->n == PREFIX_BLOCK) {
        assert(n->by_place.hash == prefix_kin_hash(p, n->parent, n->tokens));
        assert(prefix_kin_full(p, n->parent, n->tokens, n->by_place.hash) == n);
    }
    assert(memory || n->on_disk || n->writing || n->children || n->pins);
    assert(!memory || kv_pool_refs(p->pool, n->block) > 0);
    assert(!memory || first || n->parent->block != PREFIX_NO_BLOCK);
    assert(!n->on_disk || !n->writing);
    assert(n->used <= p->clock && n->uses <= PREFIX_USES && (n->uses || !prefix_node_readable(n)));
    assert(n->in_kin.own == (A_PLACE | (memory ? IN_MEMORY : 0) | (n->on_disk ? ON_DISK : 0)));
    if (memory && n->n < PREFIX_BLOCK && !n->pins && !n->tails) assert(!prefix_kin_longer(n->parent, n->tokens, n->n));

    const bool evict = memory && !n->children_memory && !n->pins;
    const bool write = memory && !n->on_disk && !n->writing && (first || n->parent->on_disk);
    const bool disk = n->on_disk && !n->children_disk && !n->pins;
    check_listed(&n->in_evict, &n->owner->evict[prefix_queue(n)], evict, n->used);
    check_listed(&n->in_write, &p->write, write, n->used);
    check_listed(&n->in_disk, &p->disk, disk, n->used);
    assert(n->listed == (evict || write || disk));

    f->sum.nodes++;
    f->sum.blocks_memory += memory;
    f->sum.blocks_disk += n->on_disk;
    f->full += n->n == PREFIX_BLOCK;
    f->evictable += memory && !n->pins;
    f->evict += evict;
    f->write += write;
    f->disk += disk;
}

/* Keys of @t ascend; how many there are. */
static uint64_t check_order(const struct tree *t)
{
    uint64_t before = 0;
    for (const struct tree_link *l = tree_first(t); l; l = tree_next(l)) {
        assert(before <= l->key);
        before = l->key;
    }
    return tree_check(t);
}

/* Also by the owner's clock its leaves are in the order of their uses. */
static uint64_t check_queue(const struct prefix_owner *o, uint32_t k)
{
    uint64_t before = 0;
    for (const struct tree_link *l = tree_first(&o->evict[k]); l; l = tree_next(l)) {
        const struct prefix_node *n = NODE_OF(l, in_evict);
        assert(before <= n->since && n->since <= o->clock);
        before = n->since;
    }
    return check_order(&o->evict[k]);
}

static bool sums_equal(const struct prefix_sum *a, const struct prefix_sum *b)
{
    return a->nodes == b->nodes && a->blocks_memory == b->blocks_memory && a->blocks_disk == b->blocks_disk &&
           a->evictions == b->evictions;
}

static void add_sum(struct prefix_sum *to, const struct prefix_sum *s)
{
    to->nodes += s->nodes;
    to->blocks_memory += s->blocks_memory;
    to->blocks_disk += s->blocks_disk;
    to->evictions += s->evictions;
}

static const struct prefix_owner *owner_of(const struct table_link *l)
{
    return (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, by_uid));
}

/* One owner against its nodes. */
static void check_owner(const struct prefix *p, const struct prefix_owner *o)
{
    struct prefix_sum own = {.evictions = o->sum.evictions};
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_id);
            if (n->owner != o) continue;
            own.nodes++;
            own.blocks_memory += n->block != PREFIX_NO_BLOCK;
            own.blocks_disk += n->on_disk;
        }
    assert(sums_equal(&own, &o->sum));
    uint32_t queues = 0;
    for (uint32_t i = 0; i < PREFIX_QUEUES; i++) queues += o->evict[i].top != NULL;
    check_listed(&o->in_owners, &p->owners, queues > 0, o->sum.blocks_memory);
    assert(!o->worth || o->sum.blocks_memory >= p->learn_from / PREFIX_UNLEARN);
}

void prefix_check(const struct prefix *p)
{
    struct found f = {0};
    uint64_t evict = 0, owners = 0;
    for (uint64_t i = 0; i <= p->spaces.mask; i++)
        for (const struct table_link *l = p->spaces.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_place);
            assert(!n->parent && !n->n && n->block == PREFIX_NO_BLOCK && n->children && !n->holds);
            assert(prefix_root_find(p, &n->root->space) == n);
            check_children(n);
        }
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            check_children(NODE_OF(l, by_id));
            check_node(p, NODE_OF(l, by_id), &f);
        }
    struct prefix_sum sum = {0};
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (const struct table_link *l = p->uids.slots[i]; l; l = l->next) {
            const struct prefix_owner *o = owner_of(l);
            check_owner(p, o);
            add_sum(&sum, &o->sum);
            for (uint32_t k = 0; k < PREFIX_QUEUES; k++) evict += check_queue(o, k);
            owners += o->in_owners.in != NULL;
        }
    f.sum.evictions = sum.evictions;
    assert(sums_equal(&sum, &f.sum) && sums_equal(&sum, &p->sum));
    assert(p->ids.count == f.sum.nodes && p->full.count == f.full && p->evictable == f.evictable);
    assert(evict == f.evict && check_order(&p->owners) == owners);
    assert(check_order(&p->write) == f.write && check_order(&p->disk) == f.disk);
}
