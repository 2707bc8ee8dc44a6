/* SPDX-License-Identifier: MIT */
/* The blocks that nodes have in groups with a window. A node's blocks there are in lists of its owner, by last use. */
#include "daemon/cache/prefix/prefix-node.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stddef.h>
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

void prefix_window_init(const struct prefix *p, struct prefix_node *n)
{
    n->group.windows = (struct prefix_window *)(n + 1);
    n->group.n = (uint8_t)p->n_windows;
    for (uint32_t i = 0; i < p->n_windows; i++)
        n->group.windows[i] = (struct prefix_window){.node = n, .block = KV_NO_BLOCK};
}

uint32_t prefix_window_block(const struct prefix_node *n, uint32_t group)
{
    return group <= n->group.n ? n->group.windows[group - 1].block : KV_NO_BLOCK;
}

uint8_t prefix_window_lacks(const struct prefix_node *n)
{
    uint8_t lacks = 0;
    for (uint32_t i = 0; i < n->group.n; i++) lacks |= (uint8_t)((n->group.windows[i].block == KV_NO_BLOCK) << (i + 1));
    return lacks;
}

bool prefix_window_writes(const struct prefix_node *n)
{
    const uint8_t lacks = prefix_node_lacks(n);
    if (n->writing || !n->on_disk) return !n->writing;
    return !n->pins && n->group.disk_lacks & ~lacks && !(lacks & ~n->group.disk_lacks);
}

/* --- lists --- */

static void list_push(struct prefix_window_list *l, struct prefix_window *w)
{
    w->newer = NULL;
    w->older = l->newest;
    *(l->newest ? &l->newest->newer : &l->oldest) = w;
    l->newest = w;
    l->n++;
}

static void list_take(struct prefix_window_list *l, struct prefix_window *w)
{
    *(w->older ? &w->older->newer : &l->oldest) = w->newer;
    *(w->newer ? &w->newer->older : &l->newest) = w->older;
    w->older = w->newer = NULL;
    l->n--;
}

/* --- blocks that come and go --- */

void prefix_window_attach(struct prefix *p, struct prefix_node *n, uint32_t group, uint32_t block, uint32_t tokens)
{
    struct prefix_window_group *g = &p->windows[group - 1];
    struct prefix_window *w = &n->group.windows[group - 1];
    assert(n->block != KV_NO_BLOCK && w->block == KV_NO_BLOCK && block != KV_NO_BLOCK);
    if (tokens < n->n) return;
    kv_pool_ref(g->pool, block);
    g->refs[block]++;
    w->block = block;
    w->keep = PREFIX_KEEP_NOT;
    list_push(&n->owner->windows[group - 1], w);
    prefix_host_lose(p, n, (uint8_t)(1 << group));
    prefix_node_requeue(p, n);
}

void prefix_window_drop(struct prefix *p, uint32_t i, struct prefix_window *w)
{
    struct prefix_window_group *g = &p->windows[i];
    list_take(&w->node->owner->windows[i], w);
    g->refs[w->block]--;
    kv_pool_unref(g->pool, w->block);
    w->block = KV_NO_BLOCK;
}

void prefix_window_detach(struct prefix *p, struct prefix_node *n)
{
    for (uint32_t i = 0; i < p->n_windows; i++)
        if (n->group.windows[i].block != KV_NO_BLOCK) prefix_window_drop(p, i, &n->group.windows[i]);
}

/* The owner with most blocks in window @i but for those of @done, and how many the next one has; NULL: none has any. */
static struct prefix_owner *most_blocks(const struct prefix *p, uint32_t i, uint64_t done, uint32_t *next)
{
    struct prefix_owner *best = NULL;
    *next = 0;
    for (uint64_t k = 0; k <= p->uids.mask; k++)
        for (struct table_link *l = p->uids.slots[k]; l; l = l->next) {
            struct prefix_owner *o = (struct prefix_owner *)((char *)l - offsetof(struct prefix_owner, by_uid));
            const uint32_t n = o->window_pass == done ? 0 : o->windows[i].n;
            if (n > (best ? best->windows[i].n : 0)) {
                *next = best ? best->windows[i].n : 0;
                best = o;
            } else if (n > *next) {
                *next = n;
            }
        }
    return best;
}

/* Evicts up to @blocks blocks of @o that no table refers to. */
static uint32_t evict_of(struct prefix *p, struct prefix_owner *o, uint32_t i, uint32_t blocks,
                         prefix_evict_fn on_evict, void *ctx)
{
    struct prefix_window_group *g = &p->windows[i];
    uint32_t evicted = 0;
    for (struct prefix_window *w = o->windows[i].oldest, *next; w && evicted < blocks; w = next) {
        struct prefix_node *n = w->node;
        next = w->newer;
        if (kv_pool_refs(g->pool, w->block) > g->refs[w->block]) continue; /* a table has it */
        const bool kept = on_evict && prefix_host_keep(p, n, (uint8_t)(2 << i));
        if (on_evict && !kept && prefix_window_writes(n)) prefix_node_offer(n, on_evict, ctx);
        prefix_window_drop(p, i, w);
        prefix_node_requeue(p, n);
        evicted++;
    }
    return evicted;
}

uint32_t prefix_window_evict(struct prefix *p, uint32_t group, uint32_t blocks, prefix_evict_fn on_evict, void *ctx)
{
    const uint64_t pass = ++p->window_passes;
    struct prefix_owner *o;
    uint32_t evicted = 0, next;
    while (evicted < blocks && (o = most_blocks(p, group - 1, pass, &next))) {
        const uint32_t over = o->windows[group - 1].n - next + 1, left = blocks - evicted;
        const uint32_t want = over < left ? over : left, n = evict_of(p, o, group - 1, want, on_evict, ctx);
        if (n < want) o->window_pass = pass; /* tables have the others */
        evicted += n;
    }
    return evicted;
}

/* --- lookup --- */

void prefix_window_touch(struct prefix *p, struct prefix_node *n)
{
    for (uint32_t i = 0; i < p->n_windows; i++) {
        const struct prefix_window_group *g = &p->windows[i];
        uint32_t seen = 0;
        for (struct prefix_node *x = n; x->parent && seen < g->window; seen += x->n, x = x->parent) {
            if (x->group.windows[i].block == KV_NO_BLOCK) continue;
            list_take(&x->owner->windows[i], &x->group.windows[i]);
            list_push(&x->owner->windows[i], &x->group.windows[i]);
        }
    }
}

/* The node's block in window @i is in memory, or @disk: in its slot or its file. */
static bool has(const struct prefix_node *x, uint32_t i, bool disk)
{
    if (x->group.windows[i].block != KV_NO_BLOCK) return true;
    if (disk && x->host && !(x->host->lacks >> (i + 1) & 1)) return true;
    return disk && x->on_disk && !x->writing && !(x->group.disk_lacks >> (i + 1) & 1);
}

bool prefix_window_has_all(const struct prefix_node *n, bool disk)
{
    for (uint32_t i = 0; i < n->group.n; i++)
        if (!has(n, i, disk)) return false;
    return true;
}

/* A token at position @n sees something of the block at @at in a group in which @x has no block; *seen: it sees
 * something of the block in any group. */
static bool lacks(const struct prefix *p, const struct prefix_node *x, uint32_t at, uint32_t n, bool disk, bool *seen)
{
    *seen = false;
    for (uint32_t i = 0; i < p->n_windows; i++) {
        if (at + KV_BLOCK <= kv_window_first(p->windows[i].window, n)) continue;
        *seen = true;
        if (!has(x, i, disk)) return true;
    }
    return false;
}

struct prefix_node *prefix_window_fit(const struct prefix *p, struct prefix_node *end, uint32_t *n, bool disk)
{
    uint32_t at = *n;
    bool seen = true;
    for (struct prefix_node *x = end; seen && x && x->parent; x = x->parent) {
        at -= KV_BLOCK;
        if (!lacks(p, x, at, *n, disk, &seen)) continue;
        end = prefix_parent(x);
        *n = at;
    }
    return end;
}
