/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/sequence.h"
#include <assert.h>
#include <errno.h>
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
    assert(s->kv.n_blocks == 0 && !s->reuse.node && !s->fetch);
    s->group->seqs[s->nth] = NULL;
    prompt_fini(&s->prompt);
    free(s->end_node);
    free(s->context.view);
    free(s->sampling.biases);
    stop_fini(&s->output.stop);
    buf_fini(&s->output.answer);
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

static int copy_sampling(struct seq_sampling *to, const struct seq_sampling *from)
{
    *to = *from;
    to->biases = NULL;
    if (!from->n_biases) return 0;
    to->biases = calloc(from->n_biases, sizeof(*to->biases));
    if (!to->biases) return -ENOMEM;
    memcpy(to->biases, from->biases, from->n_biases * sizeof(*to->biases));
    to->params.bias = to->biases;
    return 0;
}

static int copy_context(struct seq_context *to, const struct seq_context *from)
{
    *to = *from;
    to->view = NULL;
    if (!from->view) return 0;
    to->view = calloc(from->ctx, sizeof(*to->view));
    if (!to->view) return -ENOMEM;
    memcpy(to->view, from->view, from->n_view * sizeof(*to->view));
    return 0;
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
    t->reuse.space = s->reuse.space;
    t->reuse.miss = s->reuse.miss;
    t->sched.arrival = s->sched.arrival + nth;
    t->sched.last_step = s->sched.last_step;
    t->times.admitted = s->times.admitted;
    r = prompt_copy(&t->prompt, &s->prompt);
    if (r == 0) r = copy_context(&t->context, &s->context);
    if (r == 0) r = copy_sampling(&t->sampling, &s->sampling);
    if (r < 0)
        seq_free(t);
    else
        *out = t;
    return r;
}

/* --- positions --- */

uint64_t seq_shift(uint64_t n, uint32_t ctx, uint32_t keep)
{
    uint64_t half = (ctx - keep) / 2;
    return n < ctx ? 0 : half * (1 + (n - ctx) / half);
}

/* The view is a function of the number of tokens, not of their history. */
int seq_make_view(struct seq *s)
{
    struct seq_context *c = &s->context;
    uint64_t n = s->prompt.tokens.n, out = seq_shift(n, c->ctx, c->keep);
    if (out == 0) return 0;
    if (!c->view) c->view = calloc(c->ctx, sizeof(*c->view));
    if (!c->view) return -ENOMEM;
    const int32_t *ids = s->prompt.tokens.ids;
    c->shifted = out;
    c->n_view = (uint32_t)(n - out);
    memcpy(c->view, ids, c->keep * sizeof(*ids));
    memcpy(c->view + c->keep, ids + c->keep + out, (c->n_view - c->keep) * sizeof(*ids));
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

/* --- the text of the answer --- */

/* What is in @shown from @before on is of the answer, unless it was only thought. */
static int keep_shown(struct seq *s, const struct buf *shown, size_t before)
{
    if (shown->len == before || s->output.harmony.thinking) return 0;
    return buf_append(&s->output.answer, shown->data + before, shown->len - before);
}

static int show(struct seq *s, struct buf *shown, const char *text, size_t len)
{
    size_t before = shown->len;
    if (!harmony_text(&s->output.harmony, text, len)) return 0;
    int r = stop_feed(&s->output.stop, text, len, shown);
    if (r >= 0 && fim_end(&s->output.lines, shown, before)) r = 1;
    return r < 0 || keep_shown(s, shown, before) == 0 ? r : -ENOMEM;
}

/* An incomplete character that nothing will complete any more is text after all (U+FFFD). 1: that made a stop string.
 */
static int show_partial(struct seq *s, struct buf *shown)
{
    struct prompt *p = &s->prompt;
    if (s->output.detok.n_pending == 0) return 0;
    struct buf tail = BUF_INIT;
    int r = detok_flush(&s->output.detok, &tail);
    if (r == 0) r = prompt_record(p, tail.data ? tail.data : "", tail.len, false);
    if (r == 0) {
        p->tokens.ends[p->tokens.n - 1] = (uint32_t)p->text.len;
        r = show(s, shown, tail.data ? tail.data : "", tail.len);
    }
    buf_fini(&tail);
    return r;
}

/* Nothing more comes of this text. 1: its last character made a stop string. */
static int show_rest(struct seq *s, struct buf *shown)
{
    int r = show_partial(s, shown);
    if (r != 0) return r;
    size_t before = shown->len;
    r = stop_flush(&s->output.stop, shown);
    if (r == 0) fim_end(&s->output.lines, shown, before);
    return r == 0 ? keep_shown(s, shown, before) : r;
}

int seq_cut(struct seq *s, struct buf *shown)
{
    int r = show_rest(s, shown);
    return r < 0 ? r : 0;
}

/* A control token: no text of the answer, but of the sequence, as markup. */
static int push_control(struct seq *s, const struct tokenizer *k, int32_t id)
{
    struct prompt *p = &s->prompt;
    size_t len;
    const char *piece = tokenizer_piece(k, id, &len);
    harmony_control(&s->output.harmony, piece, len);
    int r = prompt_record(p, piece, len, true);
    return r < 0 ? r : tokens_push(&p->tokens, id, (uint32_t)p->text.len);
}

static int push_text(struct seq *s, const struct tokenizer *k, int32_t id, struct buf *shown)
{
    struct prompt *p = &s->prompt;
    struct buf text = BUF_INIT;
    int r = detok_push(&s->output.detok, k, id, &text);
    if (r == 0) r = prompt_record(p, text.data ? text.data : "", text.len, false);
    /* A token that ends inside a character ends at the bytes it will have there. */
    if (r == 0) r = tokens_push(&p->tokens, id, (uint32_t)(p->text.len + s->output.detok.n_pending));
    if (r == 0) r = show(s, shown, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return r;
}

/* The token joins what is to be computed. */
static int go_on(struct seq *s, int32_t id)
{
    if (s->context.view) s->context.view[s->context.n_view++] = id;
    if (s->context.policy != PROTO_CONTEXT_SHIFT || seq_known(s) < s->context.ctx) return 0;
    int r = seq_make_view(s);
    return r < 0 ? r : 2;
}

int seq_push(struct seq *s, const struct tokenizer *k, int32_t id, struct buf *shown, enum proto_reason *reason)
{
    s->generated++;
    s->output.channel =
        harmony_channel(&s->output.harmony); /* what a control token changes is for what comes after it */
    bool control = tokenizer_is_control(k, id), eog = tokenizer_is_eog(k, id);
    int r;
    if (eog) {
        r = seq_cut(s, shown);
        if (r == 0) r = push_control(s, k, id);
        *reason = PROTO_STOP_EOS;
        return r < 0 ? r : 1;
    }
    r = !control ? push_text(s, k, id, shown) : s->output.harmony.begun ? show_rest(s, shown) : show_partial(s, shown);
    if (r >= 0 && control && push_control(s, k, id) < 0) r = -ENOMEM;
    if (r != 0) { /* 1: a stop string */
        *reason = PROTO_STOP_EOS;
        return r;
    }
    if (s->generated < s->max_tokens) return go_on(s, id);
    r = seq_cut(s, shown);
    *reason = s->max_is_context ? PROTO_STOP_CONTEXT : PROTO_STOP_LENGTH;
    return r < 0 ? r : 1;
}
