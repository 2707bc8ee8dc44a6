/* SPDX-License-Identifier: MIT */
/*
 * The children of a node, ordered by their tokens. Any total order is good in which a sequence comes before each
 * sequence that begins with it; the order of bytes is the fastest. The child that shares the longest beginning with
 * some tokens is then one of the two neighbours of the place where these tokens would be inserted.
 */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

static int compare(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    int r = memcmp(a, b, (n_a < n_b ? n_a : n_b) * sizeof(*a));
    return r ? r : (int)n_a - (int)n_b;
}

/* The number of leading tokens that are equal. */
static uint32_t common_of(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t n = n_a < n_b ? n_a : n_b, i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

uint64_t prefix_children_hash(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens)
{
    return p->hash(tokens, KV_BLOCK * sizeof(*tokens), parent->by_hash.hash);
}

uint32_t prefix_children_prefetch(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens,
                                  uint32_t n, uint64_t hashes[PREFIX_PREFETCH])
{
    uint64_t hash = parent->by_hash.hash;
    uint32_t known = 0;
    for (; known < PREFIX_PREFETCH && n - known * KV_BLOCK >= KV_BLOCK; known++) {
        hash = p->hash(tokens + known * KV_BLOCK, KV_BLOCK * sizeof(*tokens), hash);
        hashes[known] = hash;
        __builtin_prefetch(&p->full.slots[hash & p->full.mask]);
    }
    for (uint32_t i = 0; i < known; i++) {
        const char *node = (const char *)p->full.slots[hashes[i] & p->full.mask];
        for (size_t byte = 0; node && byte < offsetof(struct prefix_node, refs); byte += 64)
            __builtin_prefetch(node + byte);
    }
    return known;
}

struct prefix_node *prefix_children_full(const struct prefix *p, const struct prefix_node *parent,
                                         const int32_t *tokens, uint64_t hash)
{
    for (struct table_link *l = table_first(&p->full, hash); l; l = table_next(l)) {
        struct prefix_node *n = NODE_OF(l, by_hash);
        if (n->parent == parent && memcmp(n->tokens, tokens, sizeof(n->tokens)) == 0) return n;
    }
    return NULL;
}

/* The last child that has a bit of @mask and is not after tokens[n]; with @behind, the first one that is after it. */
static struct prefix_node *neighbour(const struct prefix_node *parent, const int32_t *tokens, uint32_t n, uint8_t mask,
                                     bool behind)
{
    struct tree_link *l = parent->children.top, *found = NULL, *below = NULL;
    while (l && l->all & mask) {
        const struct prefix_node *x = NODE_OF(l, in_children);
        bool is_behind = compare(x->tokens, x->n, tokens, n) > 0;
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

struct prefix_node *prefix_children_nearest(const struct prefix_node *parent, const int32_t *tokens, uint32_t n,
                                            uint8_t mask, uint32_t *common)
{
    struct prefix_node *best = NULL;
    *common = 0;
    for (int behind = 0; behind <= 1; behind++) {
        struct prefix_node *x = neighbour(parent, tokens, n, mask, behind);
        uint32_t agree = x ? common_of(x->tokens, x->n, tokens, n) : 0;
        if (agree > *common) {
            best = x;
            *common = agree;
        }
    }
    return best;
}

struct prefix_node *prefix_children_exact(const struct prefix_node *parent, const int32_t *tokens, uint32_t n)
{
    struct prefix_node *x = neighbour(parent, tokens, n, ANY_CHILD, false);
    return x && compare(x->tokens, x->n, tokens, n) == 0 ? x : NULL;
}

struct prefix_node *prefix_children_longer(const struct prefix_node *parent, const int32_t *tokens, uint32_t n)
{
    struct prefix_node *x = neighbour(parent, tokens, n, IN_MEMORY, true);
    return x && common_of(x->tokens, x->n, tokens, n) == n ? x : NULL;
}

struct prefix_node *prefix_children_shorter(const struct prefix_node *parent, const int32_t *tokens, uint32_t n)
{
    /* A beginning of tokens[n] is ordered before tokens[n]. If the last child before tokens[n] is no beginning of it,
     * that child still shares each such beginning: continue with the shared tokens. */
    while (n > 1) {
        const uint32_t shorter = n - 1;
        struct prefix_node *x = neighbour(parent, tokens, shorter, ANY_CHILD, false);
        if (!x) return NULL;
        n = common_of(x->tokens, x->n, tokens, shorter);
        if (n == x->n) return x;
        n++; /* a child with exactly the shared tokens is a result too */
    }
    return NULL;
}

void prefix_children_insert(struct prefix_node *parent, struct prefix_node *child)
{
    struct tree_link *up = NULL, **slot = &parent->children.top;
    while (*slot) {
        up = *slot;
        const struct prefix_node *x = NODE_OF(up, in_children);
        int r = compare(child->tokens, child->n, x->tokens, x->n);
        assert(r != 0);
        slot = r < 0 ? &up->left : &up->right;
    }
    tree_attach(&parent->children, &child->in_children, up, slot);
}
