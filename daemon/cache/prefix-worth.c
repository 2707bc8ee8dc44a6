/* SPDX-License-Identifier: MIT */
/* Which of an owner's leaves goes first: what is learned from its requests, and from nobody else's. */
#include "daemon/cache/prefix-node.h"
#include <assert.h>
#include <stdlib.h>

void prefix_worth_used(struct prefix *p, struct prefix_node *n)
{
    struct prefix_owner *o = n->owner;
    n->uses += n->uses < PREFIX_USES;
    if (!o->worth && o->sum.blocks_memory >= p->learn_from && (o->worth = calloc(1, sizeof(*o->worth))))
        worth_init(o->worth); /* without memory for it nothing is learned, and all else goes on */
    if (o->worth && n->n == PREFIX_BLOCK) worth_learn(o->worth, n->by_place.hash, o->clock, n->uses);
}

void prefix_worth_settle(const struct prefix *p, struct prefix_owner *o)
{
    if (!o->worth || o->sum.blocks_memory >= p->learn_from / PREFIX_UNLEARN) return;
    free(o->worth);
    o->worth = NULL;
}

static uint32_t age_of(const struct prefix_owner *o, const struct tree_link *l)
{
    return worth_age(o->clock - NODE_OF(l, in_evict)->since);
}

/* The oldest leaf of @class whose age is in @age; NULL: none. */
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

/* The least recently used of all classes. */
static struct tree_link *oldest(const struct prefix_owner *o)
{
    struct tree_link *best = NULL;
    for (uint32_t c = 0; c < WORTH_CLASSES; c++) {
        struct tree_link *l = tree_first(&o->evict[c]);
        if (l && (!best || l->key < best->key)) best = l;
    }
    return best;
}

struct prefix_node *prefix_worth_least(const struct prefix_owner *o)
{
    struct tree_link *first = oldest(o), *l = NULL;
    if (!first) return NODE_OF(tree_first(&o->evict[PREFIX_TAILS]), in_evict);
    if (!o->worth) return NODE_OF(first, in_evict);
    const uint32_t most = age_of(o, first);
    for (uint32_t i = 0; !l && i < WORTH_CELLS; i++) {
        const struct worth_cell *cell = &o->worth->order[i];
        if (cell->age <= most && o->evict[cell->class].top) l = oldest_of(o, cell->class, cell->age);
    }
    assert(l); /* each leaf is in a cell */
    return NODE_OF(l, in_evict);
}
