/* SPDX-License-Identifier: MIT */
/* The blocks that nodes have in groups with a window. A node's blocks there are in a list of their group, by last use.
 */
#include "daemon/cache/prefix/prefix-node.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>

int prefix_add_window(struct prefix *p, struct kv_pool *pool, uint32_t window)
{
    assert(window && p->n_windows < PREFIX_WINDOWS && !p->ids.count);
    struct prefix_window_group *g = &p->windows[p->n_windows];
    uint32_t *refs = calloc(kv_pool_total(pool) + (size_t)1, sizeof(*refs));
    if (!refs) return -ENOMEM;
    *g = (struct prefix_window_group){.pool = pool, .window = window, .refs = refs};
    p->n_windows++;
    return 0;
}

void prefix_window_fini(struct prefix *p)
{
    for (uint32_t i = 0; i < p->n_windows; i++) free(p->windows[i].refs);
}

void prefix_window_init(struct prefix_node *n)
{
    n->windows = (struct prefix_window *)(n + 1);
    for (uint32_t i = 0; i < PREFIX_WINDOWS; i++)
        n->windows[i] = (struct prefix_window){.node = n, .block = KV_NO_BLOCK};
}

uint32_t prefix_window_block(const struct prefix_node *n, uint32_t group)
{
    return n->windows ? n->windows[group - 1].block : KV_NO_BLOCK;
}

bool prefix_window_whole(const struct prefix *p, const struct prefix_node *n)
{
    for (uint32_t i = 0; i < p->n_windows; i++)
        if (n->windows[i].block == KV_NO_BLOCK) return false;
    return true;
}

/* --- the list of a group --- */

static void list_push(struct prefix_window_group *g, struct prefix_window *w)
{
    w->newer = NULL;
    w->older = g->newest;
    *(g->newest ? &g->newest->newer : &g->oldest) = w;
    g->newest = w;
}

static void list_take(struct prefix_window_group *g, struct prefix_window *w)
{
    *(w->older ? &w->older->newer : &g->oldest) = w->newer;
    *(w->newer ? &w->newer->older : &g->newest) = w->older;
    w->older = w->newer = NULL;
}

/* --- blocks that come and go --- */

void prefix_window_attach(struct prefix *p, struct prefix_node *n, uint32_t group, uint32_t block, uint32_t tokens)
{
    struct prefix_window_group *g = &p->windows[group - 1];
    struct prefix_window *w = &n->windows[group - 1];
    assert(n->block != KV_NO_BLOCK && w->block == KV_NO_BLOCK && block != KV_NO_BLOCK);
    if (tokens < n->n) return;
    kv_pool_ref(g->pool, block);
    g->refs[block]++;
    w->block = block;
    list_push(g, w);
    prefix_node_requeue(p, n);
}

static void detach(struct prefix_window_group *g, struct prefix_window *w)
{
    list_take(g, w);
    g->refs[w->block]--;
    kv_pool_unref(g->pool, w->block);
    w->block = KV_NO_BLOCK;
}

void prefix_window_detach(struct prefix *p, struct prefix_node *n)
{
    for (uint32_t i = 0; i < p->n_windows; i++)
        if (n->windows[i].block != KV_NO_BLOCK) detach(&p->windows[i], &n->windows[i]);
}

uint32_t prefix_window_evict(struct prefix *p, uint32_t group, uint32_t blocks, prefix_evict_fn on_evict, void *ctx)
{
    struct prefix_window_group *g = &p->windows[group - 1];
    uint32_t evicted = 0;
    for (struct prefix_window *w = g->oldest, *next; w && evicted < blocks; w = next) {
        struct prefix_node *n = w->node;
        next = w->newer;
        if (kv_pool_refs(g->pool, w->block) > g->refs[w->block]) continue; /* a table has it */
        if (on_evict && !n->on_disk && !n->writing && prefix_window_whole(p, n)) {
            struct prefix_info info;
            prefix_info(n, &info);
            n->writing = on_evict(ctx, &info);
        }
        detach(g, w);
        prefix_node_requeue(p, n);
        evicted++;
    }
    return evicted;
}

/* --- lookup --- */

void prefix_window_touch(struct prefix *p, struct prefix_node *n)
{
    for (uint32_t i = 0; i < p->n_windows; i++) {
        struct prefix_window_group *g = &p->windows[i];
        uint32_t seen = 0;
        for (const struct prefix_node *x = n; x->parent && seen < g->window; seen += x->n, x = x->parent) {
            if (x->windows[i].block == KV_NO_BLOCK) continue;
            list_take(g, &x->windows[i]);
            list_push(g, &x->windows[i]);
        }
    }
}

/* A token at position @n sees something of the block at @at in a group in which @x has no block; *seen: it sees
 * something of the block in any group. */
static bool lacks(const struct prefix *p, const struct prefix_node *x, uint32_t at, uint32_t n, bool *seen)
{
    *seen = false;
    for (uint32_t i = 0; i < p->n_windows; i++) {
        if (at + KV_BLOCK <= kv_window_first(p->windows[i].window, n)) continue;
        *seen = true;
        if (x->windows[i].block == KV_NO_BLOCK) return true;
    }
    return false;
}

void prefix_window_fit(const struct prefix *p, struct prefix_match *m)
{
    struct prefix_node *end = m->node;
    uint32_t n = m->n, at = n;
    bool seen = true;
    for (struct prefix_node *x = end; seen && x && x->parent; x = x->parent) {
        at -= KV_BLOCK;
        if (!lacks(p, x, at, n, &seen)) continue;
        end = prefix_parent(x);
        n = at;
    }
    if (n < m->n)
        *m = (struct prefix_match){.node = end, .n = n, .miss = PREFIX_EVICTED};
    else if (m->partial && !prefix_window_whole(p, m->partial))
        m->partial = NULL, m->n_partial = 0;
}

/* --- check --- */

void prefix_window_check(const struct prefix *p)
{
    for (uint32_t i = 0; i < p->n_windows; i++) {
        const struct prefix_window_group *g = &p->windows[i];
        const struct prefix_window *before = NULL;
        uint64_t listed = 0, found = 0, refs = 0;
        for (const struct prefix_window *w = g->oldest; w; before = w, w = w->newer) {
            assert(w->older == before && w == &w->node->windows[i]);
            assert(w->block != KV_NO_BLOCK && w->node->block != KV_NO_BLOCK);
            assert(g->refs[w->block] && kv_pool_refs(g->pool, w->block) >= g->refs[w->block]);
            listed++;
        }
        assert(g->newest == before);
        for (uint64_t k = 0; k <= p->ids.mask; k++)
            for (const struct table_link *l = p->ids.slots[k]; l; l = l->next)
                found += NODE_OF(l, by_id)->windows[i].block != KV_NO_BLOCK;
        for (uint32_t k = 0; k < kv_pool_total(g->pool); k++) refs += g->refs[k];
        assert(listed == found && listed == refs);
    }
}
