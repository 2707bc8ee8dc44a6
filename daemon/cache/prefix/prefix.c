/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix.h"
#include "daemon/cache/prefix/prefix-node.h"
#include "libcommon/error.h"
#include "libcommon/random.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint64_t hash_xxh3(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

static int tables_init(struct prefix *p)
{
    const uint64_t blocks = kv_pool_total(p->pool);
    uint64_t places = 64;
    while (places < 2 * blocks) places *= 2;
    p->ghosts = calloc(places, sizeof(*p->ghosts));
    p->ghost_mask = places - 1;
    if (!p->ghosts || table_init(&p->full, blocks) < 0 || table_init(&p->ids, blocks) < 0 ||
        table_init(&p->namespaces, 0) < 0 || table_init(&p->uids, 0) < 0)
        return -ENOMEM;
    return 0;
}

static void tables_fini(struct prefix *p)
{
    table_fini(&p->full);
    table_fini(&p->ids);
    table_fini(&p->namespaces);
    table_fini(&p->uids);
    free(p->ghosts);
}

int prefix_new(struct prefix **out, struct kv_pool *pool, prefix_hash_fn hash)
{
    uint64_t drawn[3];
    int r = random_fill(drawn, sizeof(drawn));
    if (r < 0) return r;
    struct prefix *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->pool = pool;
    p->hash = hash ? hash : hash_xxh3;
    p->seed = hash ? 0 : drawn[0];
    p->random = hash ? 0 : drawn[1]; /* a test needs the same numbers each time */
    p->high = drawn[2];
    p->low = 1;
    p->learn_from = PREFIX_LEARN_BLOCKS;
    if (tables_init(p) < 0) {
        tables_fini(p);
        free(p);
        return -ENOMEM;
    }
    *out = p;
    return 0;
}

/* Frees all entries of @t. The link of an entry is @offset bytes into it. */
static void free_entries(struct table *t, size_t offset)
{
    for (uint64_t i = 0; i <= t->mask; i++)
        for (struct table_link *l = t->slots[i], *next; l; l = next) {
            next = l->next;
            free((char *)l - offset);
        }
}

struct prefix *prefix_free(struct prefix *p)
{
    if (!p) return NULL;
    for (uint64_t i = 0; i <= p->namespaces.mask; i++)
        for (struct table_link *l = p->namespaces.slots[i]; l; l = l->next) assert(!NODE_OF(l, by_hash)->pins);
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            struct prefix_node *n = NODE_OF(l, by_id);
            if (n->block != KV_NO_BLOCK) kv_pool_unref(p->pool, n->block);
            if (prefix_host_slot(n) != KV_NO_BLOCK) kv_pool_unref(p->hosts.pool, n->host->slot);
            prefix_window_detach(p, n);
            prefix_state_drop(p, n);
        }
    prefix_window_fini(p);
    free_entries(&p->ids, offsetof(struct prefix_node, by_id));
    free_entries(&p->namespaces, offsetof(struct prefix_root, node.by_hash));
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (struct table_link *l = p->uids.slots[i]; l; l = l->next)
            free(((struct prefix_owner *)((char *)l - offsetof(struct prefix_owner, by_uid)))->score);
    free_entries(&p->uids, offsetof(struct prefix_owner, by_uid));
    tables_fini(p);
    free(p);
    return NULL;
}

/* --- lookup --- */

/* Descends from *at along *t through full children with a bit of @mask. Returns the number of tokens of these children;
 * *at is the last of them, and *t begins behind it. *nearest is the child of *at that shares the longest beginning with
 * *t, *common tokens; NULL: none does. */
static uint32_t walk(const struct prefix *p, struct prefix_node **at, struct items *t, uint8_t mask,
                     struct prefix_node **nearest, uint32_t *common)
{
    uint64_t hashes[PREFIX_PREFETCH];
    const uint32_t n = t->n;
    for (uint32_t i = 0, known = 0; t->n >= KV_BLOCK; i++) {
        if (i == known) {
            known = prefix_children_prefetch(p, *at, t, hashes);
            i = 0;
        }
        struct prefix_node *child = prefix_children_full(p, *at, t, hashes[i]);
        if (!child || !(child->in_children.own & mask)) break;
        *at = child;
        *t = items_from(*t, KV_BLOCK);
    }
    *nearest = prefix_children_nearest(*at, t, mask, common);
    return n - t->n;
}

/* The reason why only @found of the tokens @t after @at are readable. */
static enum prefix_miss miss_of(const struct prefix *p, const struct prefix_node *at, const struct items *t,
                                uint32_t found)
{
    uint32_t common;
    if (found == t->n) return PREFIX_ALL;
    if (prefix_children_nearest(at, t, ANY_CHILD, &common) && common > found) return PREFIX_EVICTED;
    if (t->n < KV_BLOCK) return PREFIX_NEW;
    return prefix_ghost_uses(p, prefix_children_hash(p, at, t)) ? PREFIX_EVICTED : PREFIX_NEW;
}

/* Shortens the match to one that can be continued in all groups. Memory and disk have the tokens up to @end, @n_end,
 * and the first @n_common of its child @nearest. */
static void fit(const struct prefix *p, struct prefix_match *m, struct prefix_node *end, uint32_t n_end,
                const struct prefix_node *nearest, uint32_t n_common)
{
    uint32_t n = m->n, n_disk = n_end;
    struct prefix_node *node = prefix_window_fit(p, m->node, &n, false);
    prefix_window_fit(p, end, &n_disk, true);
    if (n_disk == n_end && nearest && prefix_window_has_all(nearest, true)) n_disk += n_common;
    if (n < m->n || (m->partial && !prefix_window_has_all(m->partial, false))) {
        m->partial = NULL;
        m->n_partial = 0;
    }
    m->node = node;
    m->n = n;
    m->n_disk = n_disk > n + m->n_partial ? n_disk - n : 0;
    if (n + m->n_partial < n_end + n_common && n_disk < n_end + n_common) m->miss = PREFIX_EVICTED;
}

void prefix_find(const struct prefix *p, const struct prefix_namespace *ns, struct items items,
                 struct prefix_match *out)
{
    *out = (struct prefix_match){0};
    struct prefix_node *at = prefix_root_find(p, ns), *nearest;
    if (!at) {
        const struct prefix_node no_root = {.by_hash.hash = prefix_root_hash(p, ns)};
        out->miss = miss_of(p, &no_root, &items, 0);
        return;
    }
    const uint32_t all = items.n;
    out->n = walk(p, &at, &items, IN_MEMORY, &out->partial, &out->n_partial);
    if (at->parent) out->node = at;
    uint32_t common, on = walk(p, &at, &items, READABLE, &nearest, &common);
    if (on + common > out->n_partial) out->n_disk = on + common;
    out->n_known = out->n + (on + common > out->n_partial ? on + common : out->n_partial);
    out->miss = miss_of(p, at, &items, common);
    if (p->n_windows) fit(p, out, at, out->n + on, nearest, common);
    if (p->states.tiers[PREFIX_MEMORY].pool) prefix_state_fit(out, at, all - items.n);
}

struct prefix_node *prefix_child(const struct prefix *p, const struct prefix_namespace *ns,
                                 const struct prefix_node *parent, struct items items, uint32_t *common)
{
    const struct prefix_node *at = parent ? parent : prefix_root_find(p, ns);
    *common = 0;
    return at ? prefix_children_nearest(at, &items, READABLE, common) : NULL;
}

struct prefix_node *prefix_parent(const struct prefix_node *n)
{
    return n->parent->parent ? n->parent : NULL;
}

uint32_t prefix_block(const struct prefix_node *n)
{
    return n->block;
}

void prefix_info(const struct prefix_node *n, struct prefix_info *out)
{
    *out = (struct prefix_info){
        .id = n->id,
        .parent = n->parent->id,
        .namespace = n->root->namespace,
        .uid = n->owner->uid,
        .n = n->n,
        .runs = n->runs,
        .n_runs = n->n_runs,
        .block = n->block,
        .blocks = {n->block},
        .state = prefix_state_block(n),
        .state_slot = prefix_state_slot(n),
        .slot = prefix_host_slot(n),
        .used = n->used,
        .on_disk = n->on_disk && !n->writing,
        .lacks = n->on_disk ? n->group.disk_lacks : prefix_node_lacks(n),
        .slot_lacks = n->host ? n->host->lacks : PREFIX_ALL_GROUPS,
    };
    for (uint32_t g = 1; g < KV_GROUPS_MAX; g++) out->blocks[g] = prefix_window_block(n, g);
    memcpy(out->tokens, n->tokens, n->n * sizeof(*n->tokens));
}

/* Marks @n and its ancestors as used now. @begins: by a new request that begins with their tokens. */
static void touch(struct prefix *p, struct prefix_node *n, bool begins)
{
    p->clock++;
    n->owner->clock += begins;
    prefix_window_touch(p, n);
    for (; n->parent; n = n->parent) {
        n->used = p->clock;
        n->since = n->owner->clock;
        if (begins) prefix_score_use(p, n);
        prefix_node_requeue(p, n);
    }
}

void prefix_use(struct prefix *p, struct prefix_node *n)
{
    touch(p, n, true);
}

void prefix_touch(struct prefix *p, struct prefix_node *n)
{
    touch(p, n, false);
}

/* --- references and insertion --- */

void prefix_ref(struct prefix *p, struct prefix_node *n)
{
    assert(n->refs < UINT32_MAX);
    n->refs++;
    for (; n; n = n->parent) {
        assert(n->pins < UINT32_MAX);
        if (n->pins++) return; /* its ancestors have this node's pin already */
        if (n->block != KV_NO_BLOCK) p->evictable--;
        prefix_node_requeue(p, n);
    }
}

void prefix_unref(struct prefix *p, struct prefix_node *n)
{
    assert(n->refs > 0);
    n->refs--;
    for (struct prefix_node *x = n; x; x = x->parent) {
        assert(x->pins > 0);
        if (--x->pins) break;
        if (x->block != KV_NO_BLOCK) p->evictable++;
        prefix_node_requeue(p, x);
    }
    if (prefix_node_at_hand(n))
        prefix_node_drop_covered(p, n);
    else
        prefix_node_prune(p, n);
}

/* Drops the children of @at that the new child with the tokens @t covers. */
static void drop_covered_siblings(struct prefix *p, struct prefix_node *at, struct items t)
{
    struct prefix_node *shorter = prefix_children_shorter(at, &t);
    while (shorter) {
        t.n = shorter->n;
        if (!shorter->pins && !shorter->tails) {
            shorter->used = 0; /* its file is removed first */
            prefix_node_requeue(p, shorter);
        }
        prefix_node_drop_covered(p, shorter);
        shorter = prefix_children_shorter(at, &t);
    }
}

static struct prefix_node *same_place(const struct prefix *p, const struct prefix_node *at, const struct items *t)
{
    if (t->n == KV_BLOCK) return prefix_children_full(p, at, t, prefix_children_hash(p, at, t));
    return prefix_children_exact(at, t);
}

int prefix_add(struct prefix *p, const struct prefix_namespace *ns, struct prefix_node *parent, struct items items,
               uint32_t block, uid_t uid, struct prefix_node **out)
{
    assert(items.n >= 1 && items.n <= KV_BLOCK);
    struct prefix_node *at = parent;
    if (parent) {
        assert(parent->pins && parent->block != KV_NO_BLOCK && parent->n == KV_BLOCK);
        assert(memcmp(&parent->root->namespace, ns, sizeof(*ns)) == 0);
    } else if (!(at = prefix_root_make(p, ns))) {
        return -ENOMEM;
    }
    struct prefix_node *x = same_place(p, at, &items), *existing = NULL;
    if (x && x->block != KV_NO_BLOCK)
        existing = x;
    else if (items.n < KV_BLOCK)
        existing = prefix_children_longer(at, &items);
    if (!existing && !x) {
        x = prefix_node_make(p, at, (struct prefix_id){p->high, p->low}, &items, uid);
        if (!x) {
            prefix_node_prune(p, at);
            return -ENOMEM;
        }
        p->low++;
        if (items.n == KV_BLOCK) x->uses = prefix_ghost_uses(p, x->by_hash.hash);
    }
    *out = existing ? existing : x;
    (*out)->used = ++p->clock;
    (*out)->since = ++(*out)->owner->clock;
    if (!existing) prefix_score_use(p, x);
    prefix_node_requeue(p, *out);
    if (existing) return 1;
    prefix_node_attach_block(p, x, block);
    drop_covered_siblings(p, at, items);
    return 0;
}
