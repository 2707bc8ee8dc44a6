/* SPDX-License-Identifier: MIT */
/*
 * The children of a node, ordered by their tokens. Any total order is good in which a sequence comes before each
 * sequence that begins with it; items_compare has one. The child that shares the longest beginning with
 * some tokens is then one of the two neighbours of the place where these tokens would be inserted.
 */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

/* The hash of the first 32 tokens of @t, which follow tokens with the hash @before. */
static uint64_t hash_block(const struct prefix *p, const struct items *t, uint64_t before)
{
    const uint64_t hash = p->hash(t->ids, KV_BLOCK * sizeof(*t->ids), before);
    if (t->n_runs == 0) return hash;
    struct item_run runs[KV_BLOCK];
    const struct items block = {.ids = t->ids, .n = KV_BLOCK, .base = t->base, .runs = t->runs, .n_runs = t->n_runs};
    const uint32_t n = items_cut(&block, runs);
    return n ? p->hash(runs, n * sizeof(*runs), hash) : hash;
}

uint64_t prefix_children_hash(const struct prefix *p, const struct prefix_node *parent, const struct items *t)
{
    return hash_block(p, t, parent->by_hash.hash);
}

uint32_t prefix_children_prefetch(const struct prefix *p, const struct prefix_node *parent, const struct items *t,
                                  uint64_t hashes[PREFIX_PREFETCH])
{
    struct items rest = *t;
    uint64_t hash = parent->by_hash.hash;
    uint32_t known = 0;
    for (; known < PREFIX_PREFETCH && rest.n >= KV_BLOCK; rest = items_from(rest, KV_BLOCK)) {
        hash = hash_block(p, &rest, hash);
        hashes[known++] = hash;
        __builtin_prefetch(&p->full.slots[hash & p->full.mask]);
    }
    for (uint32_t i = 0; i < known; i++) {
        const char *node = (const char *)p->full.slots[hashes[i] & p->full.mask];
        for (size_t byte = 0; node && byte < offsetof(struct prefix_node, refs); byte += 64)
            __builtin_prefetch(node + byte);
    }
    return known;
}

static int compare(const struct prefix_node *x, const struct items *t)
{
    const struct items own = prefix_node_items(x);
    return items_compare(&own, t);
}

/* The number of leading tokens that are equal. */
static uint32_t common_of(const struct prefix_node *x, const struct items *t)
{
    const struct items own = prefix_node_items(x);
    return items_common(&own, t);
}

struct prefix_node *prefix_children_full(const struct prefix *p, const struct prefix_node *parent,
                                         const struct items *t, uint64_t hash)
{
    for (struct table_link *l = table_first(&p->full, hash); l; l = table_next(l)) {
        struct prefix_node *n = NODE_OF(l, by_hash);
        if (n->parent != parent || memcmp(n->tokens, t->ids, sizeof(n->tokens)) != 0) continue;
        if (!n->n_runs || common_of(n, t) == KV_BLOCK) return n; /* without runs, equal ids are tokens */
    }
    return NULL;
}

/* The last child that has a bit of @mask and is not after @t; with @behind, the first one that is after it. */
static struct prefix_node *neighbour(const struct prefix_node *parent, const struct items *t, uint8_t mask, bool behind)
{
    struct tree_link *l = parent->children.top, *found = NULL, *below = NULL;
    while (l && l->all & mask) {
        const struct prefix_node *x = NODE_OF(l, in_children);
        bool is_behind = compare(x, t) > 0;
        if (is_behind == behind) {
            /* The link and its far subtree are candidates; closer candidates are in the near subtree. */
            struct tree_link *far = behind ? l->right : l->left;
            if (l->own & mask)
                found = l, below = NULL;
            else if (far && far->all & mask)
                below = far;
        }
        l = is_behind ? l->left : l->right;
    }
    if (below) found = behind ? tree_first_of(below, mask) : tree_last_of(below, mask);
    return found ? NODE_OF(found, in_children) : NULL;
}

struct prefix_node *prefix_children_nearest(const struct prefix_node *parent, const struct items *t, uint8_t mask,
                                            uint32_t *common)
{
    struct prefix_node *best = NULL;
    *common = 0;
    for (int behind = 0; behind <= 1; behind++) {
        struct prefix_node *x = neighbour(parent, t, mask, behind);
        uint32_t agree = x ? common_of(x, t) : 0;
        if (agree > *common) {
            best = x;
            *common = agree;
        }
    }
    return best;
}

struct prefix_node *prefix_children_exact(const struct prefix_node *parent, const struct items *t)
{
    struct prefix_node *x = neighbour(parent, t, ANY_CHILD, false);
    return x && compare(x, t) == 0 ? x : NULL;
}

struct prefix_node *prefix_children_longer(const struct prefix_node *parent, const struct items *t)
{
    struct prefix_node *x = neighbour(parent, t, IN_MEMORY, true);
    return x && common_of(x, t) == t->n ? x : NULL;
}

struct prefix_node *prefix_children_shorter(const struct prefix_node *parent, const struct items *t)
{
    /* A beginning of @t is ordered before @t. If the last child before @t is no beginning of it, that child still
     * shares each such beginning: continue with the shared tokens. */
    struct items shorter = *t;
    for (uint32_t n = t->n; n > 1;) {
        shorter.n = n - 1;
        struct prefix_node *x = neighbour(parent, &shorter, ANY_CHILD, false);
        if (!x) return NULL;
        n = common_of(x, &shorter);
        if (n == x->n) return x;
        n++; /* a child with exactly the shared tokens is a result too */
    }
    return NULL;
}

void prefix_children_insert(struct prefix_node *parent, struct prefix_node *child)
{
    struct tree_link *up = NULL, **slot = &parent->children.top;
    const struct items t = prefix_node_items(child);
    while (*slot) {
        up = *slot;
        int r = compare(NODE_OF(up, in_children), &t);
        assert(r != 0);
        slot = r > 0 ? &up->left : &up->right;
    }
    tree_attach(&parent->children, &child->in_children, up, slot);
}
