/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-state.h"
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

#define OLDEST     8   /* least recently used states that are compared */
#define GAP_MAX    256 /* blocks before a state that are searched for another */
#define DISK_WORTH 8   /* by which a state is worth less that is on disk too */
#define TURN_WORTH 4   /* by which the end of a turn is worth more */

void prefix_add_states(struct prefix *p, struct kv_pool *pool, prefix_evict_fn on_evict, void *ctx)
{
    assert(!p->states.pool && !p->ids.count);
    p->states.pool = pool;
    p->states.on_evict = on_evict;
    p->states.ctx = ctx;
}

void prefix_state_init(struct prefix_node *n, struct prefix_state *state, uint32_t priority)
{
    *state = (struct prefix_state){.node = n, .block = KV_NO_BLOCK};
    tree_link_init(&state->file, priority);
    tree_link_init(&state->write, priority);
}

uint32_t prefix_state_block(const struct prefix_node *n)
{
    return n->state ? n->state->block : KV_NO_BLOCK;
}

bool prefix_state_on_disk(const struct prefix_node *n)
{
    return n->state && n->state->on_disk;
}

/* --- the lists of owners and the queues --- */

static void list_push(struct prefix_owner *o, struct prefix_state *s)
{
    s->newer = NULL;
    s->older = o->newest;
    *(o->newest ? &o->newest->newer : &o->oldest) = s;
    o->newest = s;
}

static void list_take(struct prefix_owner *o, struct prefix_state *s)
{
    *(s->older ? &s->older->newer : &o->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &o->newest) = s->older;
    s->older = s->newer = NULL;
}

/* The owner of @n has one state more in memory, or one less. */
static void count(struct prefix *p, struct prefix_owner *o, bool more)
{
    o->stats.states_memory += more ? 1 : (uint64_t)-1;
    p->stats.states_memory += more ? 1 : (uint64_t)-1;
    tree_move(o->stats.states_memory ? &p->states.owners : NULL, &o->in_states, o->stats.states_memory);
}

void prefix_state_requeue(struct prefix *p, struct prefix_node *n)
{
    struct prefix_state *s = n->state;
    if (!s) return;
    const bool write =
        s->block != KV_NO_BLOCK && s->kind == PREFIX_STATE_TURN && n->on_disk && !s->on_disk && !s->writing;
    tree_move(write ? &p->states.write : NULL, &s->write, s->used);
    tree_move(s->on_disk ? &p->states.files : NULL, &s->file, prefix_node_readable(n) ? s->used : 0);
}

/* --- in memory --- */

bool prefix_state_attach(struct prefix *p, struct prefix_node *n, uint32_t block, enum prefix_state_kind kind)
{
    struct prefix_state *s = n->state;
    assert(s && n->block != KV_NO_BLOCK && block != KV_NO_BLOCK);
    const bool is_new = s->block == KV_NO_BLOCK;
    if (is_new) {
        kv_pool_ref(p->states.pool, block);
        s->block = block;
        s->kind = PREFIX_STATE_NEAR;
        list_push(n->owner, s);
        count(p, n->owner, true);
    }
    if (kind == PREFIX_STATE_TURN) s->kind = kind;
    prefix_state_use(p, n);
    return is_new;
}

void prefix_state_drop(struct prefix *p, struct prefix_node *n)
{
    struct prefix_state *s = n->state;
    if (prefix_state_block(n) == KV_NO_BLOCK) return;
    list_take(n->owner, s);
    kv_pool_unref(p->states.pool, s->block);
    s->block = KV_NO_BLOCK;
    count(p, n->owner, false);
    prefix_state_requeue(p, n);
}

void prefix_state_replace(struct prefix *p, struct prefix_node *n)
{
    if (n->state && n->state->kind == PREFIX_STATE_NEAR) prefix_state_drop(p, n);
}

void prefix_state_use(struct prefix *p, struct prefix_node *n)
{
    struct prefix_state *s = n->state;
    if (!prefix_state_readable(n)) return;
    s->used = ++p->clock;
    if (s->block != KV_NO_BLOCK) {
        list_take(n->owner, s);
        list_push(n->owner, s);
    }
    prefix_state_requeue(p, n);
}

uint32_t prefix_state_least(const uint32_t *at, const bool *turn, uint32_t n)
{
    const uint32_t end = at[n - 1];
    uint32_t least = 0;
    double lowest = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        double before = (double)(end - (i ? at[i - 1] : 0)) + 1, after = (double)(end - at[i + 1]) + 1;
        double worth = before / after * (turn[i] ? TURN_WORTH : 1);
        if (i && worth >= lowest) continue;
        least = i;
        lowest = worth;
    }
    return least;
}

void prefix_state_thin(struct prefix *p, struct prefix_node *n, uint32_t most)
{
    struct prefix_node *nodes[PREFIX_CHAIN_STATES];
    uint32_t at[PREFIX_CHAIN_STATES], blocks = 0, k = PREFIX_CHAIN_STATES;
    bool turn[PREFIX_CHAIN_STATES];
    if (most == 0) most = 1;
    for (struct prefix_node *x = n; x->parent; x = x->parent) blocks++;
    for (struct prefix_node *x = n; x->parent && k > 0; x = x->parent, blocks--) {
        if (prefix_state_block(x) == KV_NO_BLOCK) continue;
        nodes[--k] = x;
        at[k] = blocks;
        turn[k] = x->state->kind == PREFIX_STATE_TURN;
    }
    for (uint32_t left = PREFIX_CHAIN_STATES - k; left > most; left--) {
        uint32_t i = prefix_state_least(at + k, turn + k, left);
        prefix_state_drop(p, nodes[k + i]);
        memmove(nodes + k + 1, nodes + k, i * sizeof(*nodes));
        memmove(at + k + 1, at + k, i * sizeof(*at));
        memmove(turn + k + 1, turn + k, i * sizeof(*turn));
        k++;
    }
}

/* Blocks to compute again without the state, for each unit of time since its last use. */
static double worth(const struct prefix *p, const struct prefix_state *s)
{
    uint32_t gap = 1;
    for (const struct prefix_node *x = s->node->parent; x->parent && gap < GAP_MAX; x = x->parent, gap++)
        if (prefix_state_readable(x)) break;
    const double factor = (s->kind == PREFIX_STATE_TURN ? TURN_WORTH : 1) / (s->on_disk ? (double)DISK_WORTH : 1);
    return (double)gap / (double)(p->clock - s->used + 1) * factor;
}

/* A sequence begins with it, or another namespace has it too: its block does not become free. */
static bool is_held(const struct prefix *p, const struct prefix_state *s)
{
    return kv_pool_refs(p->states.pool, s->block) > 1;
}

/* The state of @o that is worth least and not held; NULL: there is none. */
static struct prefix_state *lowest_of(const struct prefix *p, const struct prefix_owner *o)
{
    struct prefix_state *best = NULL;
    double least = 0;
    uint32_t seen = 0;
    for (struct prefix_state *s = o->oldest; s && seen < OLDEST; s = s->newer) {
        if (is_held(p, s)) continue;
        const double w = worth(p, s);
        seen++;
        if (best && w >= least) continue;
        best = s;
        least = w;
    }
    return best;
}

static const struct prefix_owner *owner_of(const struct tree_link *l)
{
    return (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, in_states));
}

/* The state to evict next, of the owner with most of those that have one that is not held; NULL: there is none. */
static struct prefix_state *lowest(const struct prefix *p)
{
    const struct tree_link *most = tree_last(&p->states.owners);
    for (const struct tree_link *l = most; l; l = tree_previous(l)) {
        struct prefix_state *s = lowest_of(p, owner_of(l));
        if (s) return s;
    }
    return most ? owner_of(most)->oldest : NULL;
}

void prefix_state_leave(struct prefix *p, struct prefix_node *n, bool alone)
{
    struct prefix_state *s = n->state;
    if (prefix_state_block(n) == KV_NO_BLOCK) return;
    const bool useful = alone || n->on_disk || n->writing; /* its node's KV stays somewhere */
    if (p->states.on_evict && s->kind == PREFIX_STATE_TURN && !prefix_state_filed(n) && useful) {
        struct prefix_info info;
        prefix_info(n, &info);
        s->writing = p->states.on_evict(p->states.ctx, &info);
    }
    prefix_state_drop(p, n);
}

uint32_t prefix_state_evict(struct prefix *p, uint32_t states)
{
    uint32_t evicted = 0;
    for (struct prefix_state *s; evicted < states && (s = lowest(p)); evicted++) prefix_state_leave(p, s->node, true);
    return evicted;
}

/* --- lookup --- */

void prefix_state_fit(struct prefix_match *m, struct prefix_node *end, uint32_t n)
{
    struct prefix_node *last = m->node;
    uint32_t at = m->n;
    for (; last && last->state->block == KV_NO_BLOCK; last = prefix_parent(last)) at -= KV_BLOCK;
    for (; n > at && !prefix_state_readable(end); end = end->parent) n -= KV_BLOCK;
    if (at < m->n) m->miss = PREFIX_EVICTED;
    *m = (struct prefix_match){.node = last, .n = at, .n_known = m->n_known, .miss = m->miss};
    if (n <= at) return;
    m->state = end;
    m->n_disk = n - at;
}
