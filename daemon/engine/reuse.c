/* SPDX-License-Identifier: MIT */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>

/* Beyond the context, what a rotating sequence computes is not what others would. */
static uint32_t limit(const struct seq *s)
{
    return seq_rotates(s) ? s->ctx : UINT32_MAX;
}

/* The last token is computed again: its logits are wanted. */
static uint32_t findable(const struct seq *s)
{
    uint32_t n = seq_known(s) - 1;
    return n < limit(s) ? n : limit(s);
}

static uint32_t found(const struct prefix_match *m)
{
    return m->n + m->n_partial;
}

/* What @s may read: its owner's, and what the administrator has installed for all. True: the latter has more. */
static bool find(const struct engine *e, const struct seq *s, struct prefix_match *own, struct prefix_match *public)
{
    prefix_find(e->prefix, &s->reuse.space, seq_ids(s), findable(s), own);
    *public = (struct prefix_match){0};
    if (!e->has_public) return false;
    prefix_find(e->prefix, &e->public_space, seq_ids(s), findable(s), public);
    return found(public) > found(own);
}

uint32_t reuse_known(const struct engine *e, const struct seq *s)
{
    struct prefix_match own, public;
    return found(find(e, s, &own, &public) ? &public : &own);
}

/* --- answers to the same prompt --- */

static bool agree(const struct seq *a, const struct seq *b, uint32_t from, uint32_t to)
{
    return memcmp(seq_ids(a) + from, seq_ids(b) + from, (to - from) * sizeof(*seq_ids(a))) == 0;
}

static bool same_request(const struct seq *a, const struct seq *b)
{
    return a && a->conn == b->conn && a->req.id == b->req.id;
}

/* The next one behind @t (NULL: the first) that has blocks, as they are in the index. The answers to a prompt stand
 * side by side in the list. */
static const struct seq *next_twin(const struct seq *s, const struct seq *t)
{
    if (!s->answers) return NULL;
    if (!t)
        for (t = s; same_request(t->prev, s);) t = t->prev;
    else
        t = t->next;
    for (; same_request(t, s); t = t->next)
        if (t != s && t->answers == s->answers && t->state == SEQ_RUNNING && !t->reuse.off) return t;
    return NULL;
}

uint32_t reuse_shared(const struct seq *s)
{
    uint32_t most = 0;
    for (const struct seq *t = NULL; (t = next_twin(s, t));) {
        uint32_t n = t->reuse.indexed < findable(s) ? t->reuse.indexed : findable(s) / PREFIX_BLOCK * PREFIX_BLOCK;
        if (n > most && agree(s, t, 0, n)) most = n;
    }
    return most / PREFIX_BLOCK;
}

/* The block behind the first @n tokens of @s that one of them is writing, and in *partial how many of its tokens are
 * those of @s; PREFIX_NO_BLOCK: nobody has more than @least. */
static uint32_t twin_block(const struct seq *s, uint32_t n, uint32_t least, uint32_t *partial)
{
    uint32_t block = PREFIX_NO_BLOCK;
    *partial = least;
    for (const struct seq *t = NULL; (t = next_twin(s, t));) {
        uint32_t end = t->kv.n_tokens < findable(s) ? t->kv.n_tokens : findable(s), at = n;
        if (t->reuse.indexed != n || end <= n || !agree(s, t, 0, n)) continue;
        while (at < end && seq_ids(s)[at] == seq_ids(t)[at]) at++;
        if (at - n <= *partial) continue;
        *partial = at - n;
        block = t->kv.ids[n / PREFIX_BLOCK];
    }
    return block;
}

bool reuse_make_room(struct engine *e, uint32_t blocks)
{
    for (;;) {
        uint32_t have = kv_pool_free_blocks(e->pool);
        if (have >= blocks) return true;
        /* One that two spaces have is free only when both gave it up. */
        if (prefix_evict(e->prefix, blocks - have, store_leaving, e) == 0) return false;
    }
}

/* The chain up to @node becomes the beginning of the table. */
static int share(struct engine *e, struct seq *s, const struct prefix_match *m)
{
    uint32_t n = m->n / PREFIX_BLOCK;
    int r = kv_table_grow(&s->kv, n);
    if (r < 0) return r;
    s->kv.n_blocks = n;
    for (const struct prefix_node *x = m->node; x; x = prefix_parent(x)) {
        s->kv.ids[--n] = prefix_block(x);
        kv_pool_ref(e->pool, prefix_block(x));
    }
    assert(n == 0);
    s->kv.n_tokens = m->n;
    return 0;
}

/* What came from the public space is the owner's too from now on: one block, two nodes. */
static void take_over(struct engine *e, struct seq *s)
{
    s->reuse.seat = NULL;
    s->reuse.indexed = 0;
    reuse_advance(e, s);
}

/* The beginning of a block that others have becomes the beginning of ours. */
static void copy_partial(struct engine *e, struct seq *s, const struct prefix_match *m)
{
    struct backend *b = e->model.backend;
    uint32_t n, from = twin_block(s, m->n, m->n_partial, &n);
    if (from == PREFIX_NO_BLOCK && n) from = prefix_block(m->partial);
    if (n == 0) return;
    b->ops->kv_copy(b, 0, s->kv.ids[m->n / PREFIX_BLOCK], from, n);
    s->kv.n_tokens = m->n + n;
}

static void drop(struct engine *e, struct prefix_node *n)
{
    if (n) prefix_drop(e->prefix, n);
}

static void hold(struct engine *e, struct prefix_node *n)
{
    if (n) prefix_hold(e->prefix, n);
}

/* Free blocks, with what @m found held. 0; or 1. Where a beginning to copy stands in the way of a last block, it goes.
 */
static int take_room(struct engine *e, struct prefix_match *m, uint32_t blocks)
{
    if (reuse_make_room(e, blocks)) return 0;
    if (!m->partial) return 1;
    drop(e, m->partial);
    m->partial = NULL;
    m->n_partial = 0;
    return reuse_make_room(e, blocks) ? 0 : 1;
}

int reuse_begin(struct engine *e, struct seq *s)
{
    struct prefix_match own, public;
    bool is_public = find(e, s, &own, &public);
    struct prefix_match *m = is_public ? &public : &own;
    uint32_t blocks = seq_blocks(s, e->config.batch_tokens), need = blocks - m->n / PREFIX_BLOCK;
    assert(s->kv.n_blocks == 0 && !s->reuse.seat);
    hold(e, m->node);
    hold(e, m->partial);
    int r = take_room(e, m, need);
    if (r == 0) r = share(e, s, m);
    if (r == 0) {
        r = kv_table_reserve(&s->kv, e->pool, blocks * PREFIX_BLOCK);
        assert(r != -ENOBUFS); /* they were counted */
    }
    if (r == 0) copy_partial(e, s, m);
    drop(e, m->partial);
    if (r != 0) {
        kv_table_fini(&s->kv, e->pool);
        drop(e, m->node);
        return r;
    }
    s->reuse.seat = m->node;
    s->reuse.indexed = m->n;
    s->reuse.off = false;
    s->miss = is_public ? PREFIX_ALL : m->miss;
    if (m->node && s->reuse.began)
        prefix_touch(e->prefix, m->node);
    else if (m->node)
        prefix_use(e->prefix, m->node);
    s->reuse.began = true;
    if (is_public) {
        take_over(e, s);
        drop(e, m->node);
    }
    return 0;
}

/* The next @n tokens of @s are in its next block. */
static bool add(struct engine *e, struct seq *s, uint32_t n)
{
    struct reuse *u = &s->reuse;
    struct prefix_node *node;
    uint32_t at = u->indexed / PREFIX_BLOCK, mine = s->kv.ids[at];
    int r = prefix_add(e->prefix, &u->space, u->seat, seq_ids(s) + u->indexed, n, mine, s->uid, &node);
    if (r < 0) {
        u->off = true; /* no memory for it: others compute this again */
        return false;
    }
    if (n == PREFIX_BLOCK && r == 1 && prefix_block(node) != mine) {
        s->kv.ids[at] = prefix_block(node); /* somebody was there first, with the same bits */
        kv_pool_ref(e->pool, s->kv.ids[at]);
        kv_pool_unref(e->pool, mine);
    }
    prefix_hold(e->prefix, node);
    drop(e, u->seat);
    u->seat = node;
    u->indexed += n;
    return true;
}

void reuse_advance(struct engine *e, struct seq *s)
{
    struct reuse *u = &s->reuse;
    uint32_t end = s->kv.n_tokens < limit(s) ? s->kv.n_tokens : limit(s);
    while (!u->off && u->indexed + PREFIX_BLOCK <= end)
        if (!add(e, s, PREFIX_BLOCK)) break;
    if (end == s->kv.n_tokens || u->off) return;
    u->off = true; /* and its own blocks are about to leave it, one by one */
    drop(e, u->seat);
    u->seat = NULL;
}

struct prefix_id reuse_end(struct engine *e, struct seq *s)
{
    struct reuse *u = &s->reuse;
    struct prefix_info info = {0};
    if (s->kv.n_blocks) reuse_advance(e, s);
    if (s->kv.n_blocks && !u->off && u->indexed < s->kv.n_tokens) add(e, s, s->kv.n_tokens - u->indexed);
    if (u->seat) {
        prefix_info(u->seat, &info);
        prefix_touch(e->prefix, u->seat);
        prefix_drop(e->prefix, u->seat);
    }
    u->seat = NULL;
    u->indexed = 0;
    kv_table_fini(&s->kv, e->pool);
    return info.id;
}

struct prefix_node *reuse_on_disk(const struct engine *e, const struct seq *s, const struct prefix_node *after,
                                  uint32_t from, uint32_t *n)
{
    if (from >= findable(s)) return NULL;
    struct prefix_node *x = prefix_child(e->prefix, &s->reuse.space, after, seq_ids(s) + from, findable(s) - from, n);
    struct prefix_info info;
    if (!x || *n == 0 || prefix_block(x) != PREFIX_NO_BLOCK) return NULL;
    prefix_info(x, &info);
    return info.on_disk && (*n == info.n || *n < PREFIX_BLOCK) ? x : NULL;
}
