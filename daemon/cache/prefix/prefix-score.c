/* SPDX-License-Identifier: MIT */
/* Selects the leaf of an owner to evict first, by scores that are learned from this owner's requests only. */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stdlib.h>

void prefix_score_use(struct prefix *p, struct prefix_node *n)
{
    struct prefix_owner *o = n->owner;
    n->uses += n->uses < PREFIX_USES_MAX;
    if (!o->score && o->stats.blocks_memory >= p->learn_from && (o->score = calloc(1, sizeof(*o->score))))
        eviction_score_init(o->score); /* without memory for scores the owner's queues are LRU */
    if (o->score && n->n == KV_BLOCK) eviction_score_learn(o->score, n->by_hash.hash, o->clock, n->uses);
}

void prefix_score_trim(const struct prefix *p, struct prefix_owner *o)
{
    if (o->stats.blocks_memory >= p->learn_from / PREFIX_FORGET_DIVISOR) return;
    free(o->score);
    o->score = NULL;
}

static uint32_t age_of(const struct prefix_owner *o, const struct tree_link *l)
{
    return eviction_score_age(o->clock - NODE_OF(l, queued.evict)->since);
}

/* The least recently used leaf of @class with age index @age; NULL: none. */
static struct tree_link *oldest_of(const struct prefix_owner *o, uint32_t class, uint32_t age)
{
    struct tree_link *found = NULL;
    for (struct tree_link *l = o->evict[class].top; l;) {
        const bool old = age_of(o, l) > age;
        if (!old) found = l;
        l = old ? l->right : l->left;
    }
    return found && age_of(o, found) == age ? found : NULL;
}

/* The least recently used leaf of all classes, without tails; NULL: none. */
static struct tree_link *oldest(const struct prefix_owner *o)
{
    struct tree_link *best = NULL;
    for (uint32_t c = 0; c < SCORE_CLASSES; c++) {
        struct tree_link *l = tree_first(&o->evict[c]);
        if (l && (!best || l->key < best->key)) best = l;
    }
    return best;
}

struct prefix_node *prefix_score_lowest(const struct prefix_owner *o)
{
    struct tree_link *first = oldest(o), *l = NULL;
    if (!first) return NODE_OF(tree_first(&o->evict[PREFIX_TAILS]), queued.evict);
    if (!o->score) return NODE_OF(first, queued.evict);
    const uint32_t most = age_of(o, first);
    for (uint32_t i = 0; !l && i < SCORE_CELLS; i++) {
        const struct eviction_score_cell *cell = &o->score->order[i];
        if (cell->age <= most && o->evict[cell->class].top) l = oldest_of(o, cell->class, cell->age);
    }
    assert(l); /* each leaf is in one of the cells */
    return NODE_OF(l, queued.evict);
}
