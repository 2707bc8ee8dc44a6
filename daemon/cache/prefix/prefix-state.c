/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-state.h"
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

void prefix_add_states(struct prefix *p, struct kv_pool *pool, prefix_evict_fn on_evict, void *ctx)
{
    assert(!p->states.tiers[PREFIX_MEMORY].pool && !p->ids.count);
    p->states.tiers[PREFIX_MEMORY].pool = pool;
    p->states.on_evict = on_evict;
    p->states.ctx = ctx;
}

void prefix_add_state_slots(struct prefix *p, struct kv_pool *pool, prefix_state_copy_fn copy, void *ctx)
{
    assert(!p->states.tiers[PREFIX_HOST].pool && !p->ids.count);
    p->states.tiers[PREFIX_HOST].pool = pool;
    p->states.copy = copy;
    p->states.copy_ctx = ctx;
}

void prefix_state_init(struct prefix_node *n, struct prefix_state *state, uint32_t priority)
{
    *state = (struct prefix_state){.node = n, .blocks = {KV_NO_BLOCK, KV_NO_BLOCK}};
    tree_link_init(&state->file, priority);
    tree_link_init(&state->write, priority);
}

uint32_t prefix_state_block(const struct prefix_node *n)
{
    return n->state ? n->state->blocks[PREFIX_MEMORY] : KV_NO_BLOCK;
}

uint32_t prefix_state_slot(const struct prefix_node *n)
{
    return n->state ? n->state->blocks[PREFIX_HOST] : KV_NO_BLOCK;
}

bool prefix_state_on_disk(const struct prefix_node *n)
{
    return n->state && n->state->on_disk;
}

/* --- the lists of owners and the queues --- */

static void list_push(struct prefix_state_list *l, struct prefix_state *s)
{
    s->newer = NULL;
    s->older = l->newest;
    *(l->newest ? &l->newest->newer : &l->oldest) = s;
    l->newest = s;
}

static void list_take(struct prefix_state_list *l, struct prefix_state *s)
{
    *(s->older ? &s->older->newer : &l->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &l->newest) = s->older;
    s->older = s->newer = NULL;
}

static uint64_t *count_of(struct prefix_stats *s, enum prefix_tier tier)
{
    return tier == PREFIX_HOST ? &s->states_host : &s->states_memory;
}

/* The owner has one state more in the tier, or one less. */
static void count(struct prefix *p, struct prefix_owner *o, enum prefix_tier tier, bool more)
{
    uint64_t *own = count_of(&o->stats, tier);
    *own += more ? 1 : (uint64_t)-1;
    *count_of(&p->stats, tier) += more ? 1 : (uint64_t)-1;
    tree_move(*own ? &p->states.tiers[tier].owners : NULL, &o->states[tier].in_owners, *own);
}

void prefix_state_requeue(struct prefix *p, struct prefix_node *n)
{
    struct prefix_state *s = n->state;
    if (!s) return;
    const bool write =
        prefix_state_at_hand(n) && s->kind == PREFIX_STATE_TURN && n->on_disk && !s->on_disk && !s->writing;
    tree_move(write ? &p->states.write : NULL, &s->write, s->used);
    tree_move(s->on_disk ? &p->states.files : NULL, &s->file, prefix_node_readable(n) ? s->used : 0);
}

/* --- in memory and host memory --- */

void prefix_state_put(struct prefix *p, struct prefix_state *s, enum prefix_tier tier, uint32_t block)
{
    struct prefix_owner *o = s->node->owner;
    assert(!prefix_state_at_hand(s->node));
    s->blocks[tier] = block;
    list_push(&o->states[tier], s);
    count(p, o, tier, true);
    prefix_state_requeue(p, s->node);
}

void prefix_state_take(struct prefix *p, struct prefix_state *s, enum prefix_tier tier)
{
    struct prefix_owner *o = s->node->owner;
    if (s->blocks[tier] == KV_NO_BLOCK) return;
    list_take(&o->states[tier], s);
    kv_pool_unref(p->states.tiers[tier].pool, s->blocks[tier]);
    s->blocks[tier] = KV_NO_BLOCK;
    count(p, o, tier, false);
    prefix_state_requeue(p, s->node);
}

bool prefix_state_attach(struct prefix *p, struct prefix_node *n, uint32_t block, enum prefix_state_kind kind)
{
    struct prefix_state *s = n->state;
    assert(s && n->block != KV_NO_BLOCK && block != KV_NO_BLOCK);
    const bool is_new = prefix_state_block(n) == KV_NO_BLOCK;
    if (is_new) {
        if (prefix_state_slot(n) == KV_NO_BLOCK) s->kind = PREFIX_STATE_NEAR;
        prefix_state_take(p, s, PREFIX_HOST);
        kv_pool_ref(p->states.tiers[PREFIX_MEMORY].pool, block);
        prefix_state_put(p, s, PREFIX_MEMORY, block);
    }
    if (kind == PREFIX_STATE_TURN) s->kind = kind;
    prefix_state_use(p, n);
    return is_new;
}

void prefix_state_drop(struct prefix *p, struct prefix_node *n)
{
    for (enum prefix_tier t = 0; n->state && t < PREFIX_TIERS; t++) prefix_state_take(p, n->state, t);
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
    for (enum prefix_tier t = 0; t < PREFIX_TIERS; t++) {
        if (s->blocks[t] == KV_NO_BLOCK) continue;
        list_take(&n->owner->states[t], s);
        list_push(&n->owner->states[t], s);
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
        double worth = before / after * (turn[i] ? PREFIX_TURN_WORTH : 1);
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

/* --- lookup --- */

void prefix_state_fit(struct prefix_match *m, struct prefix_node *end, uint32_t n)
{
    struct prefix_node *last = m->node;
    uint32_t at = m->n;
    for (; last && prefix_state_block(last) == KV_NO_BLOCK; last = prefix_parent(last)) at -= KV_BLOCK;
    for (; n > at && !prefix_state_readable(end); end = end->parent) n -= KV_BLOCK;
    if (at < m->n) m->miss = PREFIX_EVICTED;
    *m = (struct prefix_match){.node = last, .n = at, .n_known = m->n_known, .miss = m->miss};
    if (n <= at) return;
    m->state = end;
    m->n_disk = n - at;
}
