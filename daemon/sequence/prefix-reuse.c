/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/prefix-reuse.h"
#include "daemon/sequence/sequence.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>

/* The positions whose KV others can use: beyond the context, a rotating sequence computes other bits than others. */
static uint32_t limit(const struct seq *s)
{
    return seq_rotates(s) ? s->context.ctx : UINT32_MAX;
}

/* The tokens that may come from the cache. The last token is always computed, because its logits are needed. */
static uint32_t findable(const struct seq *s)
{
    uint32_t n = seq_known(s) - 1;
    return n < limit(s) ? n : limit(s);
}

static uint32_t found(const struct prefix_match *m)
{
    return m->n + m->n_partial;
}

/* The match ends where host memory or the disk has the state, if one of them does: the KV in memory up to there is
 * shared, and the rest comes from them. Otherwise *m is as it was. */
static void reach_state(const struct kv_cache *c, const struct seq *s, struct prefix_match *m)
{
    struct prefix_node *x = m->state;
    uint32_t n = m->n + m->n_disk;
    if (!x || s->reuse.no_fetch || (!spill_states(c) && prefix_state_slot(x) == KV_NO_BLOCK)) {
        m->state = NULL;
        return;
    }
    for (; x && prefix_block(x) == KV_NO_BLOCK; x = prefix_parent(x)) n -= KV_BLOCK;
    m->node = x;
    m->n_disk += m->n - n;
    m->n = n;
}

/* Match the owner's blocks, and the public ones that the administrator has installed. True: the public match is longer.
 */
static bool find(const struct kv_cache *c, const struct seq *s, struct prefix_match *own, struct prefix_match *public)
{
    struct items items = seq_cache_items(s);
    items.n = findable(s);
    *own = *public = (struct prefix_match){0};
    if (s->reuse.alone) return false;
    prefix_find(c->prefix, &s->reuse.namespace, items, own);
    if (!c->has_public) return false;
    prefix_find(c->prefix, &c->public_namespace, items, public);
    return found(public) > found(own);
}

uint32_t reuse_known(const struct kv_cache *c, const struct seq *s)
{
    struct prefix_match own, public;
    return found(find(c, s, &own, &public) ? &public : &own);
}

/* --- answers to the same prompt --- */

/* The items from @from to @to. */
static struct items part(const struct seq *s, uint32_t from, uint32_t to)
{
    struct items t = items_from(seq_cache_items(s), from);
    t.n = to - from;
    return t;
}

/* The first @n items of two siblings are the same. Those of their prompt are, unless a context has left some out. */
static bool agree(const struct seq *a, const struct seq *b, uint32_t n)
{
    const uint32_t from = a->context.view || b->context.view ? 0 : (uint32_t)a->n_prompt;
    if (n <= from) return true;
    const struct items x = part(a, from, n), y = part(b, from, n);
    return items_equal(&x, &y);
}

/* The next sibling of @s after @t (NULL: the first) that has blocks, as they are in the index. */
static const struct seq *next_sibling(const struct seq *s, const struct seq *t)
{
    const struct seq_group *g = s->group;
    for (uint32_t i = t ? t->nth + 1 : 0; i < g->n; i++)
        if ((t = g->seqs[i]) && t != s && t->state == SEQ_RUNNING && !t->reuse.off) return t;
    return NULL;
}

uint32_t reuse_shared(const struct seq *s)
{
    uint32_t most = 0;
    for (const struct seq *t = NULL; (t = next_sibling(s, t));) {
        uint32_t n = t->reuse.indexed < findable(s) ? t->reuse.indexed : findable(s) / KV_BLOCK * KV_BLOCK;
        if (n > most && agree(s, t, n)) most = n;
    }
    return most / KV_BLOCK;
}

/* A sibling that is writing the block after the first @n tokens of @s, and in *partial how many of its tokens equal
 * those of @s. NULL: no sibling has more than @least. */
static const struct seq *writing_sibling(const struct seq *s, uint32_t n, uint32_t least, uint32_t *partial)
{
    const struct seq *best = NULL;
    *partial = least;
    for (const struct seq *t = NULL; (t = next_sibling(s, t));) {
        uint32_t end = t->kv.n_tokens < findable(s) ? t->kv.n_tokens : findable(s);
        if (t->reuse.indexed != n || end <= n || !agree(s, t, n)) continue;
        const struct items x = part(s, n, end), y = part(t, n, end);
        uint32_t common = items_common(&x, &y);
        if (common <= *partial) continue;
        *partial = common;
        best = t;
    }
    return best;
}

/* A sibling whose state and KV @s can continue from, after more than @least tokens. NULL: none. */
static const struct seq *counterpart(const struct kv_cache *c, const struct seq *s, uint32_t least)
{
    for (const struct seq *t = NULL; c->state && (t = next_sibling(s, t));) {
        const uint32_t n = t->kv.n_tokens;
        if (n > least && n <= findable(s) && t->reuse.indexed == n / KV_BLOCK * KV_BLOCK && agree(s, t, n) &&
            live_state_block(c, t) != KV_NO_BLOCK)
            return t;
    }
    return NULL;
}

/* The state that @s begins with: a block, which is held, and the tokens that it is after. @m becomes the KV to share.
 */
static uint32_t begin_state(struct kv_cache *c, struct seq *s, struct prefix_match *m, uint32_t *at)
{
    const struct seq *t = counterpart(c, s, m->n);
    uint32_t from = KV_NO_BLOCK;
    s->reuse.until = 0;
    *at = m->n;
    if (!c->state) return from;
    if (t) {
        *m = (struct prefix_match){.node = t->reuse.indexed_node, .n = t->reuse.indexed, .miss = m->miss};
        *at = t->kv.n_tokens;
        from = live_state_block(c, t);
    } else {
        reach_state(c, s, m);
        if (m->state) {
            s->reuse.until = m->n + m->n_disk;
            *at = LIVE_STATE_NONE;
            prefix_state_use(c->prefix, m->state);
        } else if (m->node) {
            from = prefix_state_block(m->node);
            prefix_state_use(c->prefix, m->node);
        }
    }
    if (from != KV_NO_BLOCK) kv_pool_ref(c->pools[c->state], from);
    return from;
}

/* The blocks of the chain up to m->node become the first of the table of group 0. */
static int share(struct kv_cache *c, struct seq *s, const struct prefix_match *m)
{
    struct kv_table *t = &s->kv.tables[0];
    uint32_t n = m->n / KV_BLOCK;
    int r = kv_table_grow(t, n);
    if (r < 0) return r;
    t->n_blocks = n;
    for (const struct prefix_node *x = m->node; x; x = prefix_parent(x)) {
        t->ids[--n] = prefix_block(x);
        kv_pool_ref(c->pools[0], prefix_block(x));
    }
    assert(n == 0);
    s->kv.n_tokens = m->n;
    return 0;
}

/* The same for a group with a window: what the next token does not see is left out. */
static int share_window(struct kv_cache *c, struct seq *s, uint32_t g, const struct prefix_match *m)
{
    struct kv_table *t = &s->kv.tables[g];
    uint32_t n = m->n / KV_BLOCK, first = kv_group_first(&c->backend->hparams.groups[g], m->n) / KV_BLOCK;
    int r = kv_table_grow(t, n);
    if (r < 0) return r;
    t->n_blocks = n;
    for (uint32_t i = 0; i < n; i++) t->ids[i] = KV_NO_BLOCK;
    for (const struct prefix_node *x = m->node; n > first; x = prefix_parent(x)) {
        t->ids[--n] = prefix_window_block(x, g);
        kv_pool_ref(c->pools[g], t->ids[n]);
    }
    return 0;
}

/* Give @s its blocks of the groups with a window. As reuse_begin. */
static int begin_windows(struct kv_cache *c, struct seq *s, const struct prefix_match *m)
{
    int r = 0;
    for (uint32_t g = 1; r == 0 && g < c->n_groups; g++) r = share_window(c, s, g, m); /* before any is evicted */
    for (uint32_t g = 1; r == 0 && g < c->n_groups; g++) {
        const struct kv_group *group = &c->backend->hparams.groups[g];
        struct kv_table *t = &s->kv.tables[g];
        uint32_t all = kv_table_blocks(seq_positions(s));
        uint32_t end = kv_group_first(group, m->n) / KV_BLOCK + seq_group_blocks(s, group);
        if (end > all) end = all;
        if (end > t->n_blocks && !kv_cache_make_room(c, g, end - t->n_blocks)) return 1;
        r = kv_table_reserve(t, c->pools[g], end * KV_BLOCK);
    }
    return r;
}

/* Index blocks of the public namespace in the owner's as well: one block, two nodes. */
static void take_over(struct kv_cache *c, struct seq *s, const struct prefix_node *public)
{
    const uint32_t n = s->reuse.indexed, state = public ? prefix_state_block(public) : KV_NO_BLOCK;
    s->reuse.indexed_node = NULL;
    s->reuse.indexed = 0;
    reuse_advance(c, s);
    if (state != KV_NO_BLOCK && s->reuse.indexed == n)
        prefix_state_attach(c->prefix, s->reuse.indexed_node, state, PREFIX_STATE_TURN);
}

/* Copy the first tokens of a block that others have into ours. */
static void copy_partial(struct kv_cache *c, struct seq *s, const struct prefix_match *m)
{
    struct backend *b = c->backend;
    uint32_t n, at = m->n / KV_BLOCK, from[KV_GROUPS_MAX];
    const struct seq *t = writing_sibling(s, m->n, m->n_partial, &n);
    if (c->state && n) n = s->live.at == LIVE_STATE_NONE ? 0 : s->live.at - m->n; /* as the counterpart */
    if (n == 0) return;
    for (uint32_t g = 0; g < c->n_groups; g++) {
        if (t)
            from[g] = t->kv.tables[g].ids[at];
        else
            from[g] = g ? prefix_window_block(m->partial, g) : prefix_block(m->partial);
        if (from[g] == KV_NO_BLOCK) return; /* to make room for @s, it was evicted */
    }
    for (uint32_t g = 0; g < c->n_groups; g++) b->ops->kv_copy(b, g, s->kv.tables[g].ids[at], from[g], n);
    s->kv.n_tokens = m->n + n;
}

static void drop(struct kv_cache *c, struct prefix_node *n)
{
    if (n) prefix_unref(c->prefix, n);
}

static void hold(struct kv_cache *c, struct prefix_node *n)
{
    if (n) prefix_ref(c->prefix, n);
}

/* Free @blocks while the nodes of @m are held. 0, or 1: there is no room. A partial match is dropped if its block is
 * the one that is missing. */
static int take_room(struct kv_cache *c, struct prefix_match *m, uint32_t blocks)
{
    if (kv_cache_make_room(c, 0, blocks)) return 0;
    if (!m->partial) return 1;
    drop(c, m->partial);
    m->partial = NULL;
    m->n_partial = 0;
    return kv_cache_make_room(c, 0, blocks) ? 0 : 1;
}

/* The sequence begins after what it found: others may do so there as well, where it parts from others, where its
 * messages part, and at the end of its prompt. */
static void set_anchors(struct kv_cache *c, struct seq *s, const struct prefix_match *m)
{
    struct prefix_node *at = m->partial ? m->partial : m->node;
    if (c->n_groups == 1) return;
    if (at) prefix_window_keep(c->prefix, at, PREFIX_KEEP);
    reuse_anchor(s, m->n_known, PREFIX_KEEP);
    if (s->context.view) return;
    reuse_anchor(s, (uint32_t)s->n_prompt, s->group->n > 1 ? PREFIX_KEEP_ONCE : PREFIX_KEEP);
    for (int last = 0; last < 2; last++) reuse_anchor(s, prompt_parts(&s->prompt, s->n_prompt, last), PREFIX_KEEP);
}

int reuse_begin(struct kv_cache *c, struct seq *s)
{
    struct prefix_match own, public;
    bool is_public = find(c, s, &own, &public);
    struct prefix_match *m = is_public ? &public : &own;
    reuse_end_far(c, s);
    if (is_public) m->state = NULL; /* host memory and disk are searched in the owner's namespace only */
    uint32_t state_at, state = begin_state(c, s, m, &state_at);
    uint32_t blocks = seq_blocks(s), need = blocks - m->n / KV_BLOCK;
    assert(s->kv.tables[0].n_blocks == 0 && !s->reuse.indexed_node);
    hold(c, m->node);
    hold(c, m->partial);
    int r = take_room(c, m, need);
    if (r == 0) r = share(c, s, m);
    if (r == 0) {
        r = kv_table_reserve(&s->kv.tables[0], c->pools[0], blocks * KV_BLOCK);
        assert(r != -ENOBUFS); /* they were counted */
    }
    if (r == 0) r = begin_windows(c, s, m);
    if (r == 0) r = live_state_begin(c, s, state, state_at);
    if (r == 0) copy_partial(c, s, m);
    if (r == 0) set_anchors(c, s, m);
    if (state != KV_NO_BLOCK) kv_pool_unref(c->pools[c->state], state);
    drop(c, m->partial);
    if (r != 0) {
        kv_cache_drop(c, &s->kv);
        drop(c, m->node);
        return r;
    }
    s->reuse.indexed_node = m->node;
    s->reuse.indexed = m->n;
    s->reuse.off = s->reuse.alone;
    s->reuse.miss = is_public ? PREFIX_ALL : m->miss;
    if (m->node && s->reuse.began)
        prefix_touch(c->prefix, m->node);
    else if (m->node)
        prefix_use(c->prefix, m->node);
    s->reuse.began = true;
    if (is_public) {
        take_over(c, s, m->node);
        drop(c, m->node);
    }
    return 0;
}

/* The block of @s in a group with a window becomes the node's, or the node's becomes that of @s. */
static void add_window(struct kv_cache *c, struct seq *s, uint32_t g, struct prefix_node *node, uint32_t n)
{
    uint32_t *mine = &s->kv.tables[g].ids[s->reuse.indexed / KV_BLOCK], its = prefix_window_block(node, g);
    if (*mine == KV_NO_BLOCK || *mine == its) return;
    if (its == KV_NO_BLOCK) {
        prefix_window_attach(c->prefix, node, g, *mine, n);
    } else if (n == KV_BLOCK) {
        kv_pool_ref(c->pools[g], its);
        kv_pool_unref(c->pools[g], *mine);
        *mine = its;
    }
}

void reuse_anchor(struct seq *s, uint32_t n, enum prefix_keep keep)
{
    struct reuse *u = &s->reuse;
    if (n <= u->indexed) return;
    for (uint32_t i = 0; i < u->n_anchors; i++) {
        if (u->anchors[i].n != n) continue;
        if (u->anchors[i].keep < keep) u->anchors[i].keep = keep;
        return;
    }
    if (u->n_anchors < REUSE_ANCHORS) u->anchors[u->n_anchors++] = (struct reuse_anchor){n, keep};
}

/* The window's blocks of the node that was just added: those for anchors up to it stay. */
static void trim(struct kv_cache *c, struct reuse *u, struct prefix_node *node)
{
    if (c->n_groups == 1) return;
    for (uint32_t i = u->n_anchors; i-- > 0;) {
        if (u->anchors[i].n > u->indexed) continue;
        prefix_window_keep(c->prefix, node, u->anchors[i].keep);
        u->anchors[i] = u->anchors[--u->n_anchors];
    }
    prefix_window_trim(c->prefix, node);
}

/* Index the next block of @s, which holds its next @n tokens. False: no memory. */
static bool add(struct kv_cache *c, struct seq *s, uint32_t n)
{
    struct reuse *u = &s->reuse;
    struct prefix_node *node;
    uint32_t at = u->indexed / KV_BLOCK, *ids = s->kv.tables[0].ids, mine = ids[at];
    const struct items items = part(s, u->indexed, u->indexed + n);
    int r = prefix_add(c->prefix, &u->namespace, u->indexed_node, items, mine, s->uid, &node);
    if (r < 0) {
        u->off = true; /* others have to compute these tokens again */
        return false;
    }
    if (n == KV_BLOCK && r == 1 && prefix_block(node) != mine) {
        ids[at] = prefix_block(node); /* another sequence was first, with the same bits */
        kv_pool_ref(c->pools[0], ids[at]);
        kv_pool_unref(c->pools[0], mine);
    }
    for (uint32_t g = 1; g < c->n_groups; g++) add_window(c, s, g, node, n);
    prefix_ref(c->prefix, node);
    drop(c, u->indexed_node);
    u->indexed_node = node;
    u->indexed += n;
    trim(c, u, node);
    return true;
}

void reuse_advance(struct kv_cache *c, struct seq *s)
{
    struct reuse *u = &s->reuse;
    uint32_t end = s->kv.n_tokens < limit(s) ? s->kv.n_tokens : limit(s);
    while (!u->off && u->indexed + KV_BLOCK <= end)
        if (!add(c, s, KV_BLOCK)) break;
    if (!u->off) live_state_index(c, s);
    if (end == s->kv.n_tokens || u->off) return;
    u->off = true; /* its blocks are about to be rotated out */
    drop(c, u->indexed_node);
    u->indexed_node = NULL;
}

struct prefix_id reuse_end(struct kv_cache *c, struct seq *s)
{
    struct reuse *u = &s->reuse;
    struct prefix_info info = {0};
    const bool any = s->kv.tables[0].n_blocks > 0;
    reuse_end_far(c, s);
    if (any) reuse_advance(c, s);
    if (any) live_state_end(c, s);
    if (any && !c->state && !u->off && u->indexed < s->kv.n_tokens) add(c, s, s->kv.n_tokens - u->indexed);
    if (u->indexed_node) {
        prefix_info(u->indexed_node, &info);
        prefix_touch(c->prefix, u->indexed_node);
        if (c->n_groups > 1) {
            prefix_window_keep(c->prefix, u->indexed_node, PREFIX_KEEP);
            prefix_window_thin(c->prefix, u->indexed_node);
        }
        prefix_unref(c->prefix, u->indexed_node);
    }
    u->indexed_node = NULL;
    u->indexed = 0;
    kv_cache_drop(c, &s->kv);
    return info.id;
}

bool reuse_aim(struct kv_cache *c, struct seq *s)
{
    struct reuse_far *f = &s->reuse.far;
    struct items items = seq_cache_items(s);
    struct prefix_match m;
    items.n = findable(s);
    prefix_find(c->prefix, &s->reuse.namespace, items, &m);
    const uint32_t end = m.n + (m.n_disk > m.n_partial ? m.n_disk : m.n_partial);
    if (f->failed || end <= s->kv.n_tokens) return false;
    f->target = end;
    f->fetched = s->reuse.indexed;
    f->node = s->reuse.indexed_node;
    hold(c, f->node);
    return true;
}

void reuse_end_far(struct kv_cache *c, struct seq *s)
{
    struct reuse_far *f = &s->reuse.far;
    drop(c, f->node);
    f->node = NULL;
    f->target = f->fetched = 0;
}

void reuse_drop(struct kv_cache *c, struct seq *s)
{
    reuse_end_far(c, s);
    kv_cache_drop(c, &s->kv);
    drop(c, s->reuse.indexed_node);
    s->reuse.indexed_node = NULL;
    s->reuse.indexed = 0;
}

int reuse_again(struct kv_cache *c, struct seq *s)
{
    reuse_drop(c, s);
    return reuse_begin(c, s);
}

struct prefix_node *reuse_below(const struct kv_cache *c, const struct seq *s, const struct prefix_node *after,
                                uint32_t from, uint32_t *n)
{
    const uint32_t end = c->state ? s->reuse.until : findable(s);
    if (from >= end) return NULL;
    struct prefix_node *x = prefix_child(c->prefix, &s->reuse.namespace, after, part(s, from, end), n);
    struct prefix_info info;
    if (!x || *n == 0) return NULL;
    if (prefix_block(x) != KV_NO_BLOCK) return NULL;
    prefix_info(x, &info);
    const bool below = info.on_disk || !(info.slot_lacks & 1);
    return below && (*n == info.n || *n < KV_BLOCK) ? x : NULL;
}
