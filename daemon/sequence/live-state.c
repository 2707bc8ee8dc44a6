/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/live-state.h"
#include "daemon/cache/payload.h"
#include "daemon/sequence/sequence.h"
#include "daemon/sequence/truncate.h"
#include <assert.h>
#include <errno.h>

#define EVERY_ROW_BYTES (1u << 20) /* of a state, up to which each row of a draft stores one */
#define NEAR_ROOM       24u        /* saves that are left for others than those at distances */
#define DISTANCES       8u         /* saves at growing distances before the end of a prompt, at most */

static struct kv_table *table_of(const struct kv_cache *c, struct seq *s)
{
    return &s->kv.tables[c->state];
}

uint32_t live_state_message(const struct prompt *p)
{
    size_t i = p->markup.len, n = p->tokens.n;
    while (i > 0 && p->markup.data[i - 1]) i--;
    while (i > 0 && !p->markup.data[i - 1]) i--;
    if (i == 0) return 0; /* a text that no template has written */
    while (n > 0 && p->tokens.ends[n - 1] > i) n--;
    return (uint32_t)n;
}

static struct state_sizes sizes(const struct kv_cache *c)
{
    const struct hparams *h = &c->backend->hparams;
    return (struct state_sizes){
        .state = h->groups[c->state].state_bytes, .block = payload_bytes(c->backend, 0), .percent = c->state_percent};
}

/* --- blocks of the table --- */

/* Give back the states behind the live one. */
static void drop_saves(struct kv_cache *c, struct seq *s)
{
    struct kv_table *t = table_of(c, s);
    while (t->n_blocks > 1) kv_pool_unref(c->pools[c->state], t->ids[--t->n_blocks]);
    s->live.n_saves = 0;
}

/* One block more at the end of the table. 0; -ENOBUFS; -ENOMEM. */
static int take_block(struct kv_cache *c, struct seq *s)
{
    struct kv_table *t = table_of(c, s);
    if (!kv_cache_make_room(c, c->state, 1)) return -ENOBUFS;
    return kv_table_reserve(t, c->pools[c->state], (t->n_blocks + 1) * KV_BLOCK);
}

/* The block @id, which the table has too, is the live state. If others refer to it, too, it is copied. */
static void make_live(struct kv_cache *c, struct seq *s, uint32_t i)
{
    struct kv_table *t = table_of(c, s);
    const uint32_t id = t->ids[i];
    if (kv_pool_refs(c->pools[c->state], id) > 1) {
        c->backend->ops->kv_copy(c->backend, c->state, t->ids[0], id, 0);
        return;
    }
    t->ids[i] = t->ids[0];
    t->ids[0] = id;
}

/* --- begin and end --- */

/* The state @from, which the index has just given up, becomes the live one. False: others have it, too. */
static bool take_over(struct kv_cache *c, struct seq *s, uint32_t from)
{
    struct kv_table *t = table_of(c, s);
    if (from == KV_NO_BLOCK || kv_pool_refs(c->pools[c->state], from) > 1 || kv_table_grow(t, 1) < 0) return false;
    kv_pool_ref(c->pools[c->state], from);
    t->ids[0] = from;
    t->n_blocks = 1;
    return true;
}

int live_state_begin(struct kv_cache *c, struct seq *s, uint32_t from, uint32_t at)
{
    struct live_state *x = &s->live;
    if (!c->state) return 0;
    assert(table_of(c, s)->n_blocks == 0);
    x->n_saves = x->rolled = 0;
    int r = take_block(c, s);
    if (r == -ENOBUFS && take_over(c, s, from)) {
        x->at = at;
        return 0;
    }
    if (r < 0) return r == -ENOBUFS ? 1 : r;
    x->at = at;
    if (from != KV_NO_BLOCK) c->backend->ops->kv_copy(c->backend, c->state, table_of(c, s)->ids[0], from, 0);
    return 0;
}

uint32_t live_state_block(const struct kv_cache *c, const struct seq *s)
{
    const struct kv_table *t = &s->kv.tables[c->state];
    return c->state && t->n_blocks && s->live.at == s->kv.n_tokens ? t->ids[0] : KV_NO_BLOCK;
}

bool live_state_ready(const struct kv_cache *c, const struct seq *s)
{
    return !c->state || s->live.at == s->kv.n_tokens;
}

/* The indexed node after the first @at tokens. */
static struct prefix_node *node_at(const struct seq *s, uint32_t at)
{
    struct prefix_node *x = s->reuse.indexed_node;
    for (uint32_t n = s->reuse.indexed; x && n > at; n -= KV_BLOCK) x = prefix_parent(x);
    return x;
}

void live_state_end(struct kv_cache *c, struct seq *s)
{
    const struct reuse *u = &s->reuse;
    struct prefix_node *n = u->indexed_node;
    if (!c->state || !n || table_of(c, s)->n_blocks == 0) return;
    uint32_t block = prefix_state_block(n), live = live_state_block(c, s);
    if (block == KV_NO_BLOCK && u->indexed == s->kv.n_tokens) block = live;
    if (block != KV_NO_BLOCK) prefix_state_attach(c->prefix, n, block, PREFIX_STATE_TURN);
}

/* --- a pass --- */

/* Note a state to be stored by the next pass, after @n tokens. */
static bool add_save(struct kv_cache *c, struct seq *s, uint32_t n, enum prefix_state_kind kind, bool snapshot,
                     bool rolls)
{
    struct live_state *x = &s->live;
    const uint32_t i = x->n_saves;
    if (i == LIVE_STATE_SAVES || (i + NEAR_ROOM >= LIVE_STATE_SAVES && snapshot && !rolls && kind == PREFIX_STATE_NEAR))
        return false;
    if (take_block(c, s) < 0) return false;
    x->saves[i] = (struct state_save){.n = n, .block = table_of(c, s)->ids[i + 1]};
    x->meaning[i].at = s->kv.n_tokens + n;
    x->meaning[i].kind = kind;
    x->meaning[i].snapshot = snapshot;
    x->meaning[i].rolls = rolls;
    x->meaning[i].indexed = false;
    x->n_saves++;
    return true;
}

/* The blocks from one state to the next where states are small, 0: they are not. In a pass of @n tokens there are no
 * more of them than it can store; otherwise those behind them would be missing. */
static uint32_t stride_of(const struct state_sizes *size, uint32_t n)
{
    uint32_t stride = state_stride(size);
    while (stride && n / KV_BLOCK / stride + DISTANCES > LIVE_STATE_SAVES - NEAR_ROOM) stride *= 2;
    return stride;
}

bool live_state_prepare(struct kv_cache *c, struct seq *s, uint32_t n, uint32_t draft, uint32_t shared)
{
    if (!c->state) return true;
    const uint32_t at = s->kv.n_tokens, known = n - draft;
    const struct state_sizes size = sizes(c);
    const struct state_plan plan = {
        .prompt = (uint32_t)s->n_prompt, .message = s->live.message, .shared = shared, .stride = stride_of(&size, n)};
    const bool view = s->context.view; /* positions are not those of the prompt */
    assert(live_state_ready(c, s));
    drop_saves(c, s);
    for (uint32_t k = 1; k <= n; k++) {
        enum prefix_state_kind kind = PREFIX_STATE_NEAR;
        const bool row = draft && k >= known && k < n && state_row(k - known, size.state <= EVERY_ROW_BYTES);
        const bool whole = (at + k) % KV_BLOCK == 0 && !s->reuse.off;
        const bool wanted = whole && !view && state_wanted(&plan, at + k, &kind), rolls = whole && k + KV_BLOCK > n;
        if (!row && !wanted && !rolls) continue;
        if (!whole && k > known && kv_pool_free_blocks(c->pools[c->state]) == 0) continue; /* evict none for it */
        if (!wanted) kind = PREFIX_STATE_NEAR;
        if (!add_save(c, s, k, kind, whole, rolls && !wanted) && row && k == known) return false;
    }
    return true;
}

struct batch_state live_state_entry(const struct kv_cache *c, const struct seq *s)
{
    if (!c->state) return (struct batch_state){0};
    return (struct batch_state){
        .block = s->kv.tables[c->state].ids[0], .n_saves = s->live.n_saves, .saves = s->live.saves};
}

void live_state_passed(struct kv_cache *c, struct seq *s, uint32_t n)
{
    if (c->state) s->live.at += n;
}

/* Snapshot @i enters the index. */
static void index_save(struct kv_cache *c, struct seq *s, uint32_t i)
{
    struct live_state *x = &s->live;
    const struct state_sizes size = sizes(c);
    const uint32_t at = x->meaning[i].at;
    struct prefix_node *n = node_at(s, at), *old = NULL;
    x->meaning[i].indexed = true;
    bool is_new = prefix_state_attach(c->prefix, n, x->saves[i].block, x->meaning[i].kind);
    if (x->rolled && x->rolled < at) old = node_at(s, x->rolled);
    if (old) prefix_state_replace(c->prefix, old);
    x->rolled = is_new && x->meaning[i].rolls ? at : 0;
    prefix_state_thin(c->prefix, n, state_chain(&size, at));
}

void live_state_index(struct kv_cache *c, struct seq *s)
{
    struct live_state *x = &s->live;
    if (!c->state) return;
    for (uint32_t i = 0; i < x->n_saves; i++)
        if (x->meaning[i].snapshot && !x->meaning[i].indexed && x->meaning[i].at <= s->reuse.indexed)
            index_save(c, s, i);
}

/* --- going back --- */

/* The last stored state at or before @n tokens; n_saves: none. */
static uint32_t last_save(const struct live_state *x, uint32_t n)
{
    uint32_t best = x->n_saves;
    for (uint32_t i = 0; i < x->n_saves && x->meaning[i].at <= n; i++) best = i;
    return best;
}

uint32_t live_state_rewind(struct kv_cache *c, struct seq *s, uint32_t n)
{
    struct live_state *x = &s->live;
    if (!c->state || x->at == n || table_of(c, s)->n_blocks == 0) return n;
    const uint32_t i = last_save(x, n);
    uint32_t at = s->reuse.indexed;
    struct prefix_node *node = s->reuse.indexed_node;
    while (node && (at > n || prefix_state_block(node) == KV_NO_BLOCK)) {
        node = prefix_parent(node);
        at -= KV_BLOCK;
    }
    if (i < x->n_saves && (!node || x->meaning[i].at >= at)) {
        x->at = x->meaning[i].at;
        make_live(c, s, i + 1);
    } else {
        x->at = node ? at : 0;
        if (node) c->backend->ops->kv_copy(c->backend, c->state, table_of(c, s)->ids[0], prefix_state_block(node), 0);
    }
    drop_saves(c, s);
    if (x->rolled > x->at) x->rolled = 0;
    return x->at;
}

int live_state_settle(struct kv_cache *c, struct seq *s)
{
    int r = 0;
    if (!c->state || table_of(c, s)->n_blocks == 0) return 0;
    if (!live_state_ready(c, s)) r = seq_truncate_kv(c, s, s->kv.n_tokens);
    drop_saves(c, s);
    return r;
}
