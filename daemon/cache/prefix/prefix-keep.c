/* SPDX-License-Identifier: MIT */
/* Which blocks of groups with a window the index keeps for later hits, and which it gives up (prefix.h). */
#include "daemon/cache/prefix/prefix-node.h"

/* How far before its end a chain can be continued, too: the blocks of so many more positions are kept. */
#define SLACK (2 * KV_BLOCK)

/* A token after a node sees nothing of what ends so many positions before it, or is further away than SLACK. */
static uint32_t reach(const struct prefix_window_group *g)
{
    return g->window + SLACK;
}

void prefix_window_keep(struct prefix *p, struct prefix_node *n, enum prefix_keep keep)
{
    for (uint32_t i = 0; i < n->group.n; i++) {
        uint32_t seen = 0;
        for (struct prefix_node *x = n; x->parent && seen < reach(&p->windows[i]); seen += x->n, x = x->parent)
            if (x->group.windows[i].keep < keep) x->group.windows[i].keep = keep;
    }
}

void prefix_window_trim(struct prefix *p, struct prefix_node *n)
{
    for (uint32_t i = 0; i < n->group.n; i++) {
        struct prefix_node *x = n;
        uint32_t seen = 0;
        for (; x->parent && seen < reach(&p->windows[i]); x = x->parent) seen += x->n;
        if (!x->parent || x->group.windows[i].block == KV_NO_BLOCK || x->group.windows[i].keep) continue;
        prefix_window_drop(p, i, &x->group.windows[i]);
        prefix_node_requeue(p, x);
    }
}

/* One part in so many of a chain's blocks stays at each end, if that is more than a window. */
#define THIN_PART 32

/* Counts the blocks in window @i of the chain up to @n that no end or branch needs, and gives up those from the
 * @from-th until the @to-th on, counted from the end. */
static uint32_t thin(struct prefix *p, struct prefix_node *n, uint32_t i, uint32_t from, uint32_t to)
{
    uint32_t spare = 0, far = 0; /* positions since the last end or branch */
    for (struct prefix_node *x = n; x->parent; far += x->n, x = x->parent) {
        struct prefix_window *w = &x->group.windows[i];
        if (x->n_children_memory > 1) far = 0;
        if (far < reach(&p->windows[i]) || w->block == KV_NO_BLOCK || w->keep == PREFIX_KEEP_ONCE) continue;
        if (spare >= from && spare < to) {
            prefix_window_drop(p, i, w);
            prefix_node_requeue(p, x);
        }
        spare++;
    }
    return spare;
}

void prefix_window_thin(struct prefix *p, struct prefix_node *n)
{
    uint32_t chain = 0;
    for (const struct prefix_node *x = n; x->parent; x = x->parent) chain++;
    for (uint32_t i = 0; i < n->group.n; i++) {
        const uint32_t window = reach(&p->windows[i]) / KV_BLOCK, part = chain / THIN_PART;
        const uint32_t most = part > window ? part : window, spare = thin(p, n, i, 0, 0);
        if (spare > 2 * most) thin(p, n, i, most, spare - most);
        for (struct prefix_node *x = n; x->parent; x = x->parent)
            if (x->group.windows[i].keep == PREFIX_KEEP_ONCE) x->group.windows[i].keep = PREFIX_KEEP;
    }
}
