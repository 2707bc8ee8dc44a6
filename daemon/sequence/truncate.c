/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/truncate.h"
#include "daemon/sequence/sequence.h"
#include "libcommon/error.h"
#include <assert.h>
#include <errno.h>

/* The sequence uses the index up to the last whole block within @n tokens. */
static void unindex(struct kv_cache *c, struct reuse *u, uint32_t n)
{
    struct prefix_node *old = u->indexed_node, *x = old;
    while (u->indexed > n) {
        u->indexed -= KV_BLOCK;
        if (x) x = prefix_parent(x);
    }
    if (x == old) return;
    if (x) prefix_ref(c->prefix, x);
    u->indexed_node = x;
    prefix_unref(c->prefix, old);
}

/* Give back the blocks from entry @at of the table on that others use, too. Returns how many they were. */
static uint32_t give_back(struct kv_pool *p, struct kv_table *t, uint32_t at)
{
    uint32_t n = 0;
    for (; at < t->n_blocks; at++) {
        if (t->ids[at] == KV_NO_BLOCK || kv_pool_refs(p, t->ids[at]) == 1) continue;
        kv_pool_unref(p, t->ids[at]);
        t->ids[at] = KV_NO_BLOCK;
        n++;
    }
    return n;
}

/* Give the table free blocks where it has none from entry @at on. */
static void take_blocks(struct kv_pool *p, struct kv_table *t, uint32_t at)
{
    for (; at < t->n_blocks; at++) {
        if (t->ids[at] != KV_NO_BLOCK) continue;
        int r = kv_pool_take(p, &t->ids[at]);
        assert(r == 0); /* they were counted */
        (void)r;
    }
}

/* Does the sequence still have all blocks that a token at position @n sees? */
static bool has_window(const struct kv_cache *c, const struct seq *s, uint32_t n)
{
    for (uint32_t g = 0; g < c->n_groups; g++) {
        const struct kv_group *group = &c->backend->hparams.groups[g];
        for (uint32_t i = kv_window_first(group->window, n) / KV_BLOCK; i * KV_BLOCK < n; i++)
            if (s->kv.tables[g].ids[i] == KV_NO_BLOCK) return false;
    }
    return true;
}

/* Take the block that position @n cuts out of the table, if others use it, and give back those behind it. The id of the
 * block, whose reference keeps it until it is copied, or KV_NO_BLOCK; *need: blocks that the table lacks now. */
static uint32_t detach(struct kv_pool *p, struct kv_table *t, uint32_t n, uint32_t *need)
{
    uint32_t at = n / KV_BLOCK, from = KV_NO_BLOCK;
    if (n % KV_BLOCK && kv_pool_refs(p, t->ids[at]) > 1) {
        from = t->ids[at];
        t->ids[at] = KV_NO_BLOCK;
    }
    *need = give_back(p, t, at) + (from != KV_NO_BLOCK);
    return from;
}

/* Can the KV end at position @n? 0; -EOPNOTSUPP with an error message. */
static int may_truncate(const struct kv_cache *c, const struct seq *s, uint32_t n)
{
    if (n >= s->kv.n_tokens) return 0;
    if (seq_rotates(s) && s->kv.n_tokens > s->context.ctx)
        return error_say(-EOPNOTSUPP, "a context that has rotated cannot be truncated");
    if (!has_window(c, s, n)) return error_say(-EOPNOTSUPP, "the window of position %u was freed already", n);
    return 0;
}

/* seq_truncate_kv, where it can be done. 0 or -ENOBUFS. */
static int truncate_kv(struct kv_cache *c, struct seq *s, uint32_t n)
{
    uint32_t at = n / KV_BLOCK, from[KV_GROUPS_MAX], need[KV_GROUPS_MAX];
    bool room = true;
    if (n >= s->kv.n_tokens) return 0;
    unindex(c, &s->reuse, n);
    for (uint32_t g = 0; g < c->n_groups; g++) from[g] = detach(c->pools[g], &s->kv.tables[g], n, &need[g]);
    for (uint32_t g = 0; g < c->n_groups; g++) room = room && kv_cache_make_room(c, g, need[g]);
    s->kv.n_tokens = room ? n : at * KV_BLOCK;
    for (uint32_t g = 0; g < c->n_groups; g++) {
        struct kv_table *t = &s->kv.tables[g];
        if (room) take_blocks(c->pools[g], t, at);
        if (from[g] == KV_NO_BLOCK) continue;
        if (room) c->backend->ops->kv_copy(c->backend, g, t->ids[at], from[g], n % KV_BLOCK);
        kv_pool_unref(c->pools[g], from[g]);
    }
    return room ? 0 : error_say(-ENOBUFS, "no KV block is free to truncate the sequence");
}

int seq_truncate_kv(struct kv_cache *c, struct seq *s, uint32_t n)
{
    int r = may_truncate(c, s, n);
    return r < 0 ? r : truncate_kv(c, s, live_state_rewind(c, s, n));
}

/* --- the answer --- */

/* What prompt and answer are with fewer tokens. */
struct shorter {
    struct output output;
    size_t text_len; /* bytes of the text */
    size_t end;      /* of the last token; inside a character it is behind the text */
};

/* Push the tokens of the answer that stay through a pipeline in its first state. 0; -ENOMEM. */
static int replay(const struct seq *s, uint32_t n, struct shorter *x)
{
    struct output_step out = {0};
    const struct tokens *t = &s->prompt.tokens;
    int r = output_clone_start(&x->output, &s->output);
    x->text_len = x->end = s->n_prompt ? t->ends[s->n_prompt - 1] : 0;
    for (size_t i = s->n_prompt; r >= 0 && i < n; i++) {
        output_step_clear(&out);
        r = output_push(&x->output, t->ids[i], &out);
        x->text_len += out.tail.len + out.text.len;
        x->end = x->text_len + out.pending;
    }
    output_step_fini(&out);
    if (r >= 0) return 0;
    output_fini(&x->output);
    return r;
}

static void cut(struct buf *b, size_t len)
{
    if (!b->data) return;
    b->len = len;
    b->data[len] = '\0';
}

/* Items that were computed in positions of which the first @n items make use, all but the last one. Where the shifts
 * differ, these are the first items, which stay: up to the run that a shift would cut (seq_make_view). */
static uint32_t useful_kv(const struct seq *s, uint32_t n)
{
    const struct seq_context *c = &s->context;
    const struct items all = prompt_items(&s->prompt);
    const struct item_run *run = items_run_at(&all, c->keep);
    if (c->policy != PROTO_CONTEXT_SHIFT) return n - 1;
    uint64_t now = seq_shift(all.n, c->ctx, c->keep), then = seq_shift(n, c->ctx, c->keep);
    uint32_t keep = run ? run->at : c->keep;
    if (now == then) return (uint32_t)(n - c->shifted) - 1;
    return then || n - 1 > keep ? keep : n - 1;
}

/* Make the view of the first @n items, as seq_make_view. */
static int view_first(struct seq *s, uint32_t n)
{
    struct tokens *t = &s->prompt.tokens;
    const size_t before = t->n;
    t->n = n;
    int r = s->context.policy == PROTO_CONTEXT_SHIFT ? seq_make_view(s) : 0;
    t->n = before;
    return r;
}

/* Before a shift that is taken back, there are more positions to come than after it. 0 or -ENOBUFS. */
static int cover_again(struct kv_cache *c, struct seq *s)
{
    struct kv_table *t = &s->kv.tables[0];
    if (t->n_blocks == 0 || seq_rotates(s)) return 0; /* it waits; or it gets its blocks step by step */
    int r = kv_cache_slide(c, 0, t, 0, 0, seq_positions(s));
    return r < 0 ? error_say(-ENOBUFS, "no KV block is free to truncate the sequence") : 0;
}

int seq_truncate(struct kv_cache *c, struct seq *s, uint32_t n)
{
    struct prompt *p = &s->prompt;
    struct shorter x;
    if (n >= p->tokens.n) return 0;
    assert(n > 0 && n >= s->n_prompt);
    uint32_t back = (uint32_t)p->tokens.n - n;
    int r = replay(s, n, &x);
    if (r < 0) return r;
    uint32_t kv = useful_kv(s, n);
    r = may_truncate(c, s, kv);
    if (r == 0) r = view_first(s, n);
    if (r < 0) {
        output_fini(&x.output);
        return r;
    }
    kv = live_state_rewind(c, s, kv < s->kv.n_tokens ? kv : s->kv.n_tokens);
    r = truncate_kv(c, s, kv);
    output_fini(&s->output);
    s->output = x.output;
    p->tokens.n = n;
    p->tokens.ends[n - 1] = (uint32_t)x.end;
    if (seq_adapted_follow(s) < 0 && r == 0) r = -ENOMEM;
    cut(&p->text, x.text_len);
    cut(&p->markup, x.text_len);
    sampling_rollback(&s->sampling, back);
    s->generated -= back;
    s->speculation.n_draft = 0;
    if (s->sched.reached > kv) s->sched.reached = kv;
    return r < 0 ? r : cover_again(c, s);
}
