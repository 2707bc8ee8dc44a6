/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/sequence.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- lists --- */

void seq_list_push(struct seq_list *l, struct seq *s)
{
    s->prev = l->tail;
    s->next = NULL;
    if (l->tail)
        l->tail->next = s;
    else
        l->head = s;
    l->tail = s;
}

void seq_list_remove(struct seq_list *l, struct seq *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else if (l->head == s)
        l->head = s->next;
    else
        return; /* it had no prompt yet */
    if (s->next)
        s->next->prev = s->prev;
    else
        l->tail = s->prev;
    s->prev = s->next = NULL;
}

/* --- begin and end --- */

int seq_new(struct seq **out, struct request *request, struct seq_group *group, uint32_t nth)
{
    struct seq *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->request = request;
    s->group = group;
    s->nth = nth;
    group->seqs[nth] = s;
    *out = s;
    return 0;
}

struct seq *seq_free(struct seq *s)
{
    if (!s) return NULL;
    assert(s->kv.tables[0].n_blocks == 0 && !s->reuse.indexed_node && !s->fetch && !s->speculation.past &&
           !s->speculation.model);
    s->group->seqs[s->nth] = NULL;
    prompt_fini(&s->prompt);
    free(s->end_node);
    free(s->context.view);
    run_list_fini(&s->context.view_runs);
    seq_adapted_fini(&s->context.adapter);
    free(s->biases);
    free(s->held);
    sampling_fini(&s->sampling);
    output_fini(&s->output);
    free(s);
    return NULL;
}

void seq_preempted(struct seq *s, uint64_t now)
{
    s->times.preempted = now;
}

void seq_resumed(struct seq *s, uint64_t now)
{
    struct seq_times *t = &s->times;
    if (t->preempted) t->waited[t->first_token > 0] += now - t->preempted;
    t->preempted = 0;
}

/* --- several answers --- */

static int copy_context(struct seq_context *to, const struct seq_context *from)
{
    *to = *from;
    to->view = NULL;
    to->view_runs = (struct run_list){0};
    to->adapter.ids = NULL;
    to->adapter.runs = NULL;
    to->adapter.n = to->adapter.cap = to->adapter.n_runs = 0;
    if (!from->view) return 0;
    to->view = calloc(from->ctx, sizeof(*to->view));
    if (!to->view) return -ENOMEM;
    memcpy(to->view, from->view, from->n_view * sizeof(*to->view));
    return run_list_copy(&to->view_runs, &from->view_runs, 0, UINT64_MAX, 0);
}

int seq_fork(struct seq **out, const struct seq *s, uint32_t nth)
{
    struct seq *t;
    int r = seq_new(&t, s->request, s->group, nth);
    if (r < 0) return r;
    t->uid = s->uid;
    t->state = SEQ_WAITING;
    t->n_prompt = s->n_prompt;
    t->cached = s->cached;
    t->max_tokens = s->max_tokens;
    t->max_is_context = s->max_is_context;
    t->reuse.namespace = s->reuse.namespace;
    t->reuse.miss = s->reuse.miss;
    t->sched.arrival = s->sched.arrival + nth;
    t->sched.last_step = s->sched.last_step;
    t->times.admitted = s->times.admitted;
    r = prompt_copy(&t->prompt, &s->prompt);
    if (r == 0) r = copy_context(&t->context, &s->context);
    if (r == 0) r = seq_adapted_follow(t);
    if (r == 0) r = sampling_clone(&t->sampling, &s->sampling);
    t->sampling.answer = nth;
    if (r == 0) r = output_clone(&t->output, &s->output);
    t->output.call_seed += nth;
    if (r < 0)
        seq_free(t);
    else
        *out = t;
    return r;
}

/* --- embeddings --- */

/* The embeddings of each run of seq_items(). */
static struct embeddings *const *embd_of(const struct seq *s)
{
    return s->context.view ? s->context.view_runs.embd : s->prompt.runs.embd;
}

const float *seq_embd(const struct seq *s, uint32_t at)
{
    const struct items t = seq_items(s);
    const struct item_run *r = items_run_at(&t, at);
    const struct embeddings *e = embd_of(s)[r - t.runs];
    return e->values + (size_t)(at - r->at) * e->dim;
}

struct run_list *seq_runs(struct seq *s)
{
    return s->context.view ? &s->context.view_runs : &s->prompt.runs;
}

struct prompt_media *seq_media(const struct seq *s, const uint8_t digest[16])
{
    const struct prompt *p = &s->prompt;
    for (size_t i = 0; i < p->n_media; i++)
        for (uint32_t k = 0; k < p->media[i].n; k++)
            if (memcmp(p->runs.runs[p->media[i].first + k].digest, digest, 16) == 0) return &p->media[i];
    return NULL;
}

void seq_attach_embd(struct seq *s, const uint8_t digest[16], struct embeddings *e)
{
    struct run_list *l = seq_runs(s);
    for (uint32_t i = l->n; i-- > 0 && l->runs[i].at + l->runs[i].n > s->kv.n_tokens;)
        if (!l->embd[i] && memcmp(l->runs[i].digest, digest, 16) == 0) l->embd[i] = embeddings_ref(e);
}

void seq_drop_embd(struct seq *s)
{
    struct run_list *l = seq_runs(s), *whole = &s->prompt.runs;
    for (uint32_t i = 0; i < l->n && l->runs[i].at + l->runs[i].n <= s->kv.n_tokens; i++)
        if (l->embd[i] && seq_media(s, l->runs[i].digest)) l->embd[i] = embeddings_unref(l->embd[i]);
    for (uint32_t i = 0; l != whole && i < whole->n; i++)
        if (whole->embd[i] && seq_media(s, whole->runs[i].digest)) whole->embd[i] = embeddings_unref(whole->embd[i]);
}

int seq_no_embd(const struct item_run *run)
{
    return error_say(-ENODATA,
                     "the session has %s whose embeddings are not available, and the cache has no KV of it any more: "
                     "send it again in a new session",
                     run->kind == ITEM_IMAGE ? "an image" : "sound");
}

int seq_check_whole(const struct seq *s, const struct hparams *h, const struct item_run *r, uint32_t from)
{
    const uint32_t left = r->at + r->n - (r->at > from ? r->at : from);
    if (!hparams_whole(h, r->kind) || left <= s->context.batch) return 0;
    return error_say(-E2BIG,
                     "an image of %u items: a '%s' model computes all items of an image in one step, which has %u (the "
                     "daemon's --batch-tokens)",
                     r->n, h->arch, s->context.batch);
}

int seq_check_embd(const struct seq *s, const struct hparams *h)
{
    const struct items t = seq_items(s);
    for (uint32_t i = t.n_runs; i-- > 0 && t.runs[i].at + t.runs[i].n > s->kv.n_tokens;) {
        const struct embeddings *e = embd_of(s)[i];
        if (!e) return seq_no_embd(&t.runs[i]);
        if (e->dim != h->dim)
            return error_say(-EINVAL, "embeddings of %u values do not fit a model of %u", e->dim, h->dim);
        int r = seq_check_whole(s, h, &t.runs[i], s->kv.n_tokens);
        if (r < 0) return r;
    }
    return 0;
}

/* --- positions --- */

uint64_t seq_shift(uint64_t n, uint32_t ctx, uint32_t keep)
{
    uint64_t half = (ctx - keep) / 2;
    return n < ctx ? 0 : half * (1 + (n - ctx) / half);
}

/* The end of the first items that stay, and the beginning of the last ones, so that no run is cut. False: there are no
 * last ones. */
static bool shift_bounds(const struct prompt *p, uint32_t *keep, uint64_t *rest)
{
    const struct items all = prompt_items(p);
    const struct item_run *first = items_run_at(&all, *keep), *last = items_run_at(&all, (uint32_t)*rest);
    if (first && first->at < *keep) *keep = first->at;
    if (last && last->at < *rest) *rest = (uint64_t)last->at + last->n;
    return *rest < all.n;
}

/* The view is a function of the items, not of their history. */
int seq_make_view(struct seq *s)
{
    struct seq_context *c = &s->context;
    const struct prompt *p = &s->prompt;
    uint64_t n = p->tokens.n, out = seq_shift(n, c->ctx, c->keep), rest = c->keep + out;
    uint32_t keep = c->keep;
    struct run_list runs = {0};
    if (out == 0) {
        free(c->view);
        c->view = NULL;
        run_list_fini(&c->view_runs);
        c->n_view = 0;
        c->shifted = 0;
        return 0;
    }
    if (!shift_bounds(p, &keep, &rest))
        return error_say(-E2BIG, "a context of %u cannot shift: a run of embeddings at the end does not fit", c->ctx);
    int r = run_list_copy(&runs, &p->runs, 0, keep, 0);
    if (r == 0) r = run_list_copy(&runs, &p->runs, rest, UINT64_MAX, rest - keep);
    if (r == 0 && !c->view && !(c->view = calloc(c->ctx, sizeof(*c->view)))) r = -ENOMEM;
    if (r < 0) {
        run_list_fini(&runs);
        return r;
    }
    run_list_fini(&c->view_runs);
    c->view_runs = runs;
    c->shifted = rest - keep;
    c->view_keep = keep;
    c->n_view = (uint32_t)(n - c->shifted);
    memcpy(c->view, p->tokens.ids, keep * sizeof(*c->view));
    memcpy(c->view + keep, p->tokens.ids + rest, (n - rest) * sizeof(*c->view));
    return 0;
}

uint32_t seq_positions(const struct seq *s)
{
    uint32_t n = seq_known(s) + (s->max_tokens - s->generated) - 1; /* the last token sampled is never computed */
    return s->context.policy == PROTO_CONTEXT_SHIFT && n > s->context.ctx ? s->context.ctx : n;
}

bool seq_rotates(const struct seq *s)
{
    return s->context.policy == PROTO_CONTEXT_ROTATE && seq_positions(s) > s->context.ctx;
}

uint32_t seq_blocks(const struct seq *s)
{
    uint32_t all = kv_table_blocks(seq_positions(s));
    /* the positions that a step's tokens see, with whole blocks at both ends of the window and of the kept part */
    uint32_t most = kv_table_blocks(s->context.ctx) + kv_table_blocks(s->context.batch) + 2;
    return seq_rotates(s) && most < all ? most : all;
}

uint32_t seq_group_blocks(const struct seq *s, const struct kv_group *g)
{
    if (!g->window) return seq_blocks(s);
    uint64_t all = kv_table_blocks(seq_positions(s)), most = kv_group_blocks(g, s->context.batch);
    return (uint32_t)(most < all ? most : all);
}

int seq_cover(struct kv_cache *c, struct seq *s, uint32_t end)
{
    int r = 0;
    for (uint32_t g = 1; r == 0 && g < c->n_groups; g++) {
        uint32_t first = kv_group_first(&c->backend->hparams.groups[g], s->kv.n_tokens) / KV_BLOCK;
        r = kv_cache_slide(c, g, &s->kv.tables[g], 0, first, end);
        if (r == -ENOBUFS) r = error_say(r, "no KV block is free for the layers with a sliding window");
    }
    return r;
}

/* --- tokens --- */

/* Record the text that completes the last token: the rest of a character. */
static int record_tail(struct prompt *p, const struct output_step *out)
{
    if (out->tail.len == 0) return 0;
    if (prompt_record(p, out->tail.data, out->tail.len, false) < 0) return -ENOMEM;
    p->tokens.ends[p->tokens.n - 1] = (uint32_t)p->text.len;
    return 0;
}

static int record_token(struct prompt *p, int32_t id, const struct output_step *out)
{
    if (record_tail(p, out) < 0) return -ENOMEM;
    if (out->text.len && prompt_record(p, out->text.data, out->text.len, out->markup) < 0) return -ENOMEM;
    /* A token that ends inside a character ends at the bytes that it will have there. */
    return tokens_push(&p->tokens, id, (uint32_t)(p->text.len + out->pending));
}

int seq_cut(struct seq *s, struct output_step *out)
{
    buf_clear(&out->tail); /* the previous token's, recorded already */
    int r = output_finish(&s->output, out);
    return r < 0 ? r : record_tail(&s->prompt, out);
}

/* Append the token to the view of a context that shifts. 2: it is time to shift, and it has shifted. Where a run was
 * left out whole the context is not full then, but the time depends on the number of items alone. */
static int extend_view(struct seq *s, int32_t id)
{
    struct seq_context *c = &s->context;
    uint64_t n = s->prompt.tokens.n;
    if (c->view) c->view[c->n_view++] = id;
    if (c->policy != PROTO_CONTEXT_SHIFT || seq_shift(n, c->ctx, c->keep) == seq_shift(n - 1, c->ctx, c->keep))
        return 0;
    int r = seq_make_view(s);
    return r < 0 ? r : 2;
}

/* As seq_push, but for seq_cache_items(). */
static int push(struct seq *s, int32_t id, struct output_step *out, enum proto_reason *reason)
{
    s->generated++;
    int r = output_push(&s->output, id, out);
    if (r >= 0 && record_token(&s->prompt, id, out) < 0) r = -ENOMEM;
    if (r != 0) {
        *reason = PROTO_STOP_EOS;
        return r;
    }
    if (s->generated < s->max_tokens) return extend_view(s, id);
    r = seq_cut(s, out);
    *reason = s->max_is_context ? PROTO_STOP_CONTEXT : PROTO_STOP_LENGTH;
    return r < 0 ? r : 1;
}

int seq_push(struct seq *s, int32_t id, struct output_step *out, enum proto_reason *reason)
{
    int r = push(s, id, out, reason);
    return r >= 0 && seq_adapted_follow(s) < 0 ? -ENOMEM : r;
}
