/* SPDX-License-Identifier: MIT */
/*
 * The children of a node, in the order of their tokens: any total order in which a beginning stands before what it
 * begins will do, bytes are the fastest. What agrees with the most of some tokens is then one of the two neighbours of
 * the place where those would stand.
 */
#include "daemon/cache/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

static int compare(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    int r = memcmp(a, b, (n_a < n_b ? n_a : n_b) * sizeof(*a));
    return r ? r : (int)n_a - (int)n_b;
}

static uint32_t common_of(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t n = n_a < n_b ? n_a : n_b, i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

uint64_t prefix_kin_hash(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens)
{
    return p->hash(tokens, PREFIX_BLOCK * sizeof(*tokens), parent->by_place.hash);
}

uint32_t prefix_kin_ahead(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens, uint32_t n,
                          uint64_t hashes[PREFIX_AHEAD])
{
    uint64_t hash = parent->by_place.hash;
    uint32_t known = 0;
    for (; known < PREFIX_AHEAD && n - known * PREFIX_BLOCK >= PREFIX_BLOCK; known++) {
        hash = p->hash(tokens + known * PREFIX_BLOCK, PREFIX_BLOCK * sizeof(*tokens), hash);
        hashes[known] = hash;
        __builtin_prefetch(&p->full.slots[hash & p->full.mask]);
    }
    for (uint32_t i = 0; i < known; i++) {
        const char *node = (const char *)p->full.slots[hashes[i] & p->full.mask];
        for (size_t byte = 0; node && byte < offsetof(struct prefix_node, holds); byte += 64)
            __builtin_prefetch(node + byte);
    }
    return known;
}

struct prefix_node *prefix_kin_full(const struct prefix *p, const struct prefix_node *parent, const int32_t *tokens,
                                    uint64_t hash)
{
    for (struct table_link *l = table_first(&p->full, hash); l; l = table_next(l)) {
        struct prefix_node *n = NODE_OF(l, by_place);
        if (n->parent == parent && memcmp(n->tokens, tokens, sizeof(n->tokens)) == 0) return n;
    }
    return NULL;
}

/* The last child that is not behind tokens[n] (@behind: the first that is) and has a bit of @mask. */
static struct prefix_node *neighbour(const struct prefix_node *parent, const int32_t *tokens, uint32_t n, uint8_t mask,
                                     bool behind)
{
    struct tree_link *l = parent->kin.top, *found = NULL, *below = NULL;
    while (l && l->all & mask) {
        const struct prefix_node *x = NODE_OF(l, in_kin);
        bool is_behind = compare(x->tokens, x->n, tokens, n) > 0;
        if (is_behind == behind) {
            /* A candidate, with all on its far side; nearer ones are on the near side. */
            struct tree_link *far = behind ? l->right : l->left;
            if (l->own & mask)
                found = l, below = NULL;
            else if (far && far->all & mask)
                below = far;
        }
        l = is_behind ? l->left : l->right;
    }
    if (below) found = behind ? tree_first_of(below, mask) : tree_last_of(below, mask);
    return found ? NODE_OF(found, in_kin) : NULL;
}

struct prefix_node *prefix_kin_nearest(const struct prefix_node *parent, const int32_t *tokens, uint32_t n,
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

struct prefix_node *prefix_kin_exact(const struct prefix_node *parent, const int32_t *tokens, uint32_t n)
{
    struct prefix_node *x = neighbour(parent, tokens, n, ANY_CHILD, false);
    return x && compare(x->tokens, x->n, tokens, n) == 0 ? x : NULL;
}

struct prefix_node *prefix_kin_longer(const struct prefix_node *parent, const int32_t *tokens, uint32_t n)
{
    struct prefix_node *x = neighbour(parent, tokens, n, IN_MEMORY, true);
    return x && common_of(x->tokens, x->n, tokens, n) == n ? x : NULL;
}

struct prefix_node *prefix_kin_shorter(const struct prefix_node *parent, const int32_t *tokens, uint32_t n)
{
    /* A beginning B of tokens[n] stands before it. When the last child before it is not one, all of B is common to
     * that child too: go on with what is common. */
    while (n > 1) {
        const uint32_t shorter = n - 1;
        struct prefix_node *x = neighbour(parent, tokens, shorter, ANY_CHILD, false);
        if (!x) return NULL;
        n = common_of(x->tokens, x->n, tokens, shorter);
        if (n == x->n) return x;
        n++; /* a child of exactly the common tokens counts */
    }
    return NULL;
}

void prefix_kin_insert(struct prefix_node *parent, struct prefix_node *child)
{
    struct tree_link *up = NULL, **slot = &parent->kin.top;
    while (*slot) {
        up = *slot;
        const struct prefix_node *x = NODE_OF(up, in_kin);
        int r = compare(child->tokens, child->n, x->tokens, x->n);
        assert(r != 0);
        slot = r < 0 ? &up->left : &up->right;
    }
    tree_attach(&parent->kin, &child->in_kin, up, slot);
}
