/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea and Flood, 2014): good for priorities that nobody can predict, not for secrets. */
static uint32_t draw(struct prefix *p)
{
    uint64_t z = p->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)(z >> 32);
}

/* --- lookup and creation --- */

uint64_t prefix_root_hash(const struct prefix *p, const struct prefix_namespace *ns)
{
    return p->hash(ns, sizeof(*ns), p->seed);
}

struct prefix_node *prefix_root_find(const struct prefix *p, const struct prefix_namespace *ns)
{
    const uint64_t hash = prefix_root_hash(p, ns);
    for (struct table_link *l = table_first(&p->namespaces, hash); l; l = table_next(l)) {
        struct prefix_node *n = NODE_OF(l, by_hash);
        if (memcmp(&n->root->namespace, ns, sizeof(*ns)) == 0) return n;
    }
    return NULL;
}

struct prefix_node *prefix_root_make(struct prefix *p, const struct prefix_namespace *ns)
{
    struct prefix_node *found = prefix_root_find(p, ns);
    if (found) return found;
    struct prefix_root *root = calloc(1, sizeof(*root));
    if (!root) return NULL;
    root->node.root = root;
    root->node.block = KV_NO_BLOCK;
    root->namespace = *ns;
    table_add(&p->namespaces, &root->node.by_hash, prefix_root_hash(p, ns));
    return &root->node;
}

static uint64_t id_hash(const struct prefix *p, struct prefix_id id)
{
    const uint64_t words[2] = {id.high, id.low};
    return p->hash(words, sizeof(words), p->seed);
}

struct prefix_node *prefix_by_id(const struct prefix *p, struct prefix_id id)
{
    for (struct table_link *l = table_first(&p->ids, id_hash(p, id)); l; l = table_next(l)) {
        struct prefix_node *n = NODE_OF(l, by_id);
        if (n->id.high == id.high && n->id.low == id.low) return n;
    }
    return NULL;
}

static uint64_t uid_hash(const struct prefix *p, uid_t uid)
{
    return p->hash(&uid, sizeof(uid), p->seed);
}

struct prefix_owner *prefix_owner_find(const struct prefix *p, uid_t uid)
{
    for (struct table_link *l = table_first(&p->uids, uid_hash(p, uid)); l; l = table_next(l)) {
        struct prefix_owner *o = (struct prefix_owner *)((char *)l - offsetof(struct prefix_owner, by_uid));
        if (o->uid == uid) return o;
    }
    return NULL;
}

static struct prefix_owner *owner_make(struct prefix *p, uid_t uid)
{
    struct prefix_owner *o = prefix_owner_find(p, uid);
    if (o) return o;
    o = calloc(1, sizeof(*o));
    if (!o) return NULL;
    o->uid = uid;
    tree_link_init(&o->in_owners, draw(p));
    for (int i = 0; i < PREFIX_TIERS; i++) tree_link_init(&o->states[i].in_owners, draw(p));
    tree_link_init(&o->in_hosts, draw(p));
    table_add(&p->uids, &o->by_uid, uid_hash(p, uid));
    return o;
}

/* A node with the tokens @t, and with room for windows, a state and a slot if there are any. NULL: no memory. */
static struct prefix_node *node_alloc(const struct prefix *p, const struct items *t)
{
    struct item_run runs[KV_BLOCK];
    const uint32_t n_runs = t->n_runs ? items_cut(t, runs) : 0;
    const size_t state = sizeof(struct prefix_node) + p->n_windows * sizeof(struct prefix_window);
    const bool with_state = p->states.tiers[PREFIX_MEMORY].pool && t->n == KV_BLOCK;
    const size_t host = state + (with_state ? sizeof(struct prefix_state) : 0);
    const size_t at = host + (p->hosts.pool ? sizeof(struct prefix_host) : 0);
    struct prefix_node *x = calloc(1, at + n_runs * sizeof(*runs));
    if (!x) return NULL;
    x->n = (uint8_t)t->n;
    memcpy(x->tokens, t->ids, t->n * sizeof(*t->ids));
    if (p->n_windows) prefix_window_init(p, x);
    if (with_state) x->state = (struct prefix_state *)((char *)x + state);
    if (p->hosts.pool) x->host = (struct prefix_host *)((char *)x + host);
    if (n_runs == 0) return x;
    x->n_runs = (uint8_t)n_runs;
    x->runs = memcpy((char *)x + at, runs, n_runs * sizeof(*runs));
    return x;
}

struct prefix_node *prefix_node_make(struct prefix *p, struct prefix_node *parent, struct prefix_id id,
                                     const struct items *t, uid_t uid)
{
    struct prefix_owner *owner = owner_make(p, uid);
    struct prefix_node *x = owner ? node_alloc(p, t) : NULL;
    if (!x) return NULL;
    x->parent = parent;
    x->root = parent->root;
    x->owner = owner;
    x->id = id;
    x->block = KV_NO_BLOCK;
    const uint32_t priority = draw(p);
    tree_link_init(&x->in_children, priority);
    tree_link_init(&x->queued.evict, priority);
    tree_link_init(&x->queued.write, priority);
    tree_link_init(&x->queued.disk, priority);
    if (x->state) prefix_state_init(x, x->state, priority);
    if (x->host) prefix_host_init(x, x->host, priority);
    x->in_children.own = INDEXED;
    if (t->n == KV_BLOCK) table_add(&p->full, &x->by_hash, prefix_children_hash(p, parent, t));
    table_add(&p->ids, &x->by_id, id_hash(p, id));
    prefix_children_insert(parent, x);
    parent->n_children++;
    owner->stats.nodes++;
    p->stats.nodes++;
    return x;
}

/* --- freeing --- */

static void node_free(struct prefix *p, struct prefix_node *n)
{
    assert(!n->queued.evict.in && !n->queued.write.in && !n->queued.disk.in && prefix_host_slot(n) == KV_NO_BLOCK &&
           !prefix_state_at_hand(n));
    tree_take(&n->in_children);
    if (n->n == KV_BLOCK) table_remove(&p->full, &n->by_hash);
    table_remove(&p->ids, &n->by_id);
    n->parent->n_children--;
    n->owner->stats.nodes--;
    p->stats.nodes--;
    free(n);
}

void prefix_node_prune(struct prefix *p, struct prefix_node *n)
{
    prefix_state_forget(p, n);
    while (n && !n->n_children && !n->pins && !n->writing && !prefix_node_readable(n) && !prefix_state_filed(n)) {
        struct prefix_node *parent = n->parent;
        if (parent) {
            node_free(p, n);
        } else {
            table_remove(&p->namespaces, &n->by_hash);
            free(n->root);
        }
        n = parent;
    }
}

/* --- changes of state --- */

/* Moves the owner to its place among the owners, by blocks in memory. */
static void owner_requeue(struct prefix *p, struct prefix_owner *o)
{
    bool any = false;
    for (uint32_t i = 0; i < PREFIX_QUEUES; i++) any |= o->evict[i].top != NULL;
    tree_move(any ? &p->owners : NULL, &o->in_owners, o->stats.blocks_memory);
    prefix_score_trim(p, o);
}

void prefix_node_requeue(struct prefix *p, struct prefix_node *n)
{
    const bool memory = n->block != KV_NO_BLOCK;
    const bool evict = memory && !n->n_children_memory && !n->pins;
    const bool write = prefix_node_at_hand(n) && (!n->parent->parent || n->parent->on_disk) && prefix_window_writes(n);
    const bool disk = n->on_disk && !n->n_children_disk && !n->pins;
    prefix_host_requeue(p, n);
    if (!n->listed && !evict && !write && !disk) return; /* nor is a root in any queue */
    n->listed = evict || write || disk;
    tree_move(evict ? &n->owner->evict[prefix_queue(n)] : NULL, &n->queued.evict, n->used);
    tree_move(write ? &p->write : NULL, &n->queued.write, n->used);
    tree_move(disk ? &p->disk : NULL, &n->queued.disk, n->used);
    owner_requeue(p, n->owner);
}

void prefix_node_set_bits(struct prefix_node *n)
{
    int bits = INDEXED | (n->block != KV_NO_BLOCK ? IN_MEMORY : 0) | (n->on_disk ? ON_DISK : 0);
    if (prefix_node_on_host(n)) bits |= ON_HOST;
    tree_set_own(&n->in_children, (uint8_t)bits);
}

uint8_t prefix_node_in_memory(const struct prefix_node *n)
{
    const int windows = (2 << n->group.n) - 2;
    return (uint8_t)((n->block != KV_NO_BLOCK) | (windows & ~prefix_window_lacks(n)));
}

uint8_t prefix_node_lacks(const struct prefix_node *n)
{
    return prefix_window_lacks(n) & (n->host ? n->host->lacks : PREFIX_ALL_GROUPS);
}

void prefix_node_attach_block(struct prefix *p, struct prefix_node *n, uint32_t block)
{
    assert(n->block == KV_NO_BLOCK && block != KV_NO_BLOCK);
    kv_pool_ref(p->pool, block);
    n->block = block;
    n->parent->n_children_memory++;
    n->owner->stats.blocks_memory++;
    p->stats.blocks_memory++;
    if (!n->pins) p->evictable++;
    prefix_node_set_bits(n);
    prefix_host_lose(p, n, 1);
    prefix_state_requeue(p, n);
    prefix_node_requeue(p, n); /* the parent is pinned, so that it is in no queue of leaves before or after */
    owner_requeue(p, n->owner);
}

void prefix_node_detach_block(struct prefix *p, struct prefix_node *n)
{
    assert(n->block != KV_NO_BLOCK && !n->n_children_memory && !n->pins && prefix_state_block(n) == KV_NO_BLOCK);
    kv_pool_unref(p->pool, n->block);
    prefix_window_detach(p, n);
    n->block = KV_NO_BLOCK;
    n->parent->n_children_memory--;
    n->owner->stats.blocks_memory--;
    p->stats.blocks_memory--;
    p->evictable--;
    prefix_node_set_bits(n);
    prefix_node_requeue(p, n->parent);
    prefix_node_requeue(p, n);
    prefix_state_requeue(p, n);
    owner_requeue(p, n->owner);
}

void prefix_node_set_disk(struct prefix *p, struct prefix_node *n, bool on_disk)
{
    if (n->on_disk == on_disk) return;
    n->on_disk = on_disk;
    if (on_disk) {
        n->parent->n_children_disk++;
        n->owner->stats.blocks_disk++;
        p->stats.blocks_disk++;
    } else {
        n->parent->n_children_disk--;
        n->owner->stats.blocks_disk--;
        p->stats.blocks_disk--;
    }
    prefix_node_set_bits(n);
    prefix_node_requeue(p, n->parent);
    prefix_node_requeue(p, n);
    prefix_state_requeue(p, n);
    /* Children can be written only while the parent is on disk. The loop runs once for each file that is written or
     * removed, so that its cost is acceptable. */
    for (struct tree_link *l = tree_first_of(n->children.top, IN_MEMORY | ON_HOST); l; l = tree_next(l))
        prefix_node_requeue(p, NODE_OF(l, in_children));
}

void prefix_node_offer(struct prefix_node *n, prefix_evict_fn on_evict, void *ctx)
{
    struct prefix_info info;
    prefix_info(n, &info);
    n->group.write_lacks = info.lacks = prefix_node_lacks(n);
    const bool write = prefix_window_writes(n);
    if (on_evict(ctx, &info) && write) n->writing = true;
}

void prefix_ghost_add(struct prefix *p, const struct prefix_node *n)
{
    const uint64_t hash = n->by_hash.hash;
    if (n->n == KV_BLOCK) p->ghosts[hash & p->ghost_mask] = (hash & ~(uint64_t)PREFIX_USES_MAX) | n->uses;
}

uint8_t prefix_ghost_uses(const struct prefix *p, uint64_t hash)
{
    const uint64_t was = p->ghosts[hash & p->ghost_mask];
    return (was ^ hash) & ~(uint64_t)PREFIX_USES_MAX ? 0 : was & PREFIX_USES_MAX;
}

void prefix_node_drop_covered(struct prefix *p, struct prefix_node *n)
{
    if (n->n == KV_BLOCK || !prefix_node_at_hand(n) || n->pins || n->tails) return;
    const struct items t = prefix_node_items(n);
    if (!prefix_children_longer(n->parent, &t)) return;
    n->used = 0; /* its file is removed first */
    if (n->block != KV_NO_BLOCK) prefix_node_detach_block(p, n);
    prefix_host_drop(p, n);
    prefix_node_prune(p, n);
}
