/* SPDX-License-Identifier: MIT */
/* One step: a batch over all live sequences, a token for each row of logits. */
#include "daemon/engine/rng.h"
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include <stdlib.h>

struct step_scratch {
    struct batch_entry *entries; /* [parallel] what the backend gets */
    const uint32_t **tables;     /* [parallel] block tables, one group each */
    uint8_t *want;               /* [batch_tokens] */
    float *logits;               /* [rows][shape.vocab], rows: no more than sequences or tokens */
};

int step_new(struct engine *e)
{
    size_t n = e->config.parallel, t = e->config.batch_tokens, rows = n < t ? n : t, values;
    struct step_scratch *x = e->scratch = calloc(1, sizeof(*x));
    if (!x || __builtin_mul_overflow(rows, (size_t)e->model.backend->shape.vocab, &values)) return -ENOMEM;
    x->entries = calloc(n, sizeof(*x->entries));
    x->tables = calloc(n, sizeof(*x->tables));
    x->want = calloc(t, sizeof(*x->want));
    /* the backend writes rows with vector stores */
    if (__builtin_mul_overflow(values, sizeof(*x->logits), &values) || values > SIZE_MAX - KERN_ALIGN) return -ENOMEM;
    x->logits = aligned_alloc(KERN_ALIGN, kern_align(values));
    if (!x->entries || !x->tables || !x->want || !x->logits)
        return error_say(-ENOMEM, "no memory for the logits of %zu sequences (%zu bytes)", rows, values);
    return 0;
}

void step_free(struct engine *e)
{
    struct step_scratch *x = e->scratch;
    if (!x) return;
    free(x->entries);
    free(x->tables);
    free(x->want);
    free(x->logits);
    free(x);
    e->scratch = NULL;
}

bool step_ready(const struct engine *e)
{
    for (const struct seq *s = e->all.head; s; s = s->next)
        if (s->state == SEQ_RUNNING && !s->paused) return true;
    return false;
}

/* A sequence that rotates has the blocks of what it sees, not of all its positions: those that it leaves behind become
 * the next ones. */
static int rotate(struct engine *e, struct seq *s)
{
    uint32_t at = s->kv.n_tokens, left = seq_known(s) - at, batch = e->config.batch_tokens;
    uint32_t end = at + (left < batch ? left : batch), need = kv_table_blocks(end), from = 0, to = 0;
    if (!seq_rotates(s) || need <= s->kv.n_blocks) return 0;
    if (at >= s->ctx) {
        from = s->keep / PREFIX_BLOCK;
        to = (at + 1 - (s->ctx - s->keep)) / PREFIX_BLOCK;
    }
    int r = kv_table_rotate(&s->kv, e->pool, from, to, need);
    if (r == 0 && s->kv.n_blocks < need && !reuse_make_room(e, need - s->kv.n_blocks))
        r = error_say(-ENOBUFS, "no block of KV is free for a context that rotates");
    return r < 0 ? r : kv_table_reserve(&s->kv, e->pool, end);
}

static void rotate_all(struct engine *e)
{
    for (struct seq *s = e->all.head, *next; s; s = next) {
        next = s->next;
        int r = s->state == SEQ_RUNNING ? rotate(e, s) : 0;
        if (r == -ENOBUFS && e->running > 1) {
            e->preemptions++;
            requests_requeue(e, s); /* what it shared with others is theirs still: it waits for them */
        } else if (r < 0) {
            requests_fail(e, s, r, error_text(r));
        }
    }
}

static bool wants_logits(const struct seq *s, const struct sched_run *r)
{
    return r->logits && s->req.type != PROTO_WARM;
}

static void fill_entries(struct engine *e, size_t runs)
{
    struct step_scratch *x = e->scratch;
    const struct plan *p = &e->plan;
    uint8_t *want = x->want;
    for (size_t i = 0; i < runs; i++) {
        const struct sched_run *r = &p->runs[i];
        const struct seq *s = p->seqs[r->index];
        x->tables[i] = s->kv.ids;
        for (uint32_t k = 0; k < r->n; k++) want[k] = WANT_NOTHING;
        if (wants_logits(s, r)) want[r->n - 1] = WANT_LOGITS;
        x->entries[i] = (struct batch_entry){
            .blocks = &x->tables[i],
            .pos = s->kv.n_tokens,
            .n = r->n,
            .tokens = seq_ids(s) + s->kv.n_tokens,
            .sinks = seq_rotates(s) ? s->keep : 0,
            .window = seq_rotates(s) ? s->ctx - s->keep : 0,
            .want = want,
        };
        want += r->n;
    }
}

/* The text, and what --logprobs asks of token @id in @row. Without memory for it the answer ends. */
static int emit_text(struct engine *e, struct seq *s, int32_t id, const float *row, struct buf *shown)
{
    struct proto_event ev = {.type = PROTO_EV_TEXT, .channel = s->channel};
    if (s->req.gen.logprobs) {
        ev.ids = malloc(sizeof(*ev.ids));
        ev.logprobs = malloc(sizeof(*ev.logprobs));
        if (!ev.ids || !ev.logprobs) {
            proto_event_fini(&ev);
            return -ENOMEM;
        }
        float max, lse;
        e->model.backend->kern->logsumexp(&max, &lse, row, e->model.backend->shape.vocab);
        ev.ids[0] = id;
        ev.logprobs[0] = (row[id] - max) - lse;
        ev.n_ids = 1;
    } else if (shown->len == 0) {
        return 0;
    }
    if (shown->len) ev.text.data = buf_steal(shown, &ev.text.len);
    engine_emit(e, s, &ev);
    return 0;
}

/* Sample from its row, and go on or end. */
static void advance(struct engine *e, struct seq *s, const float *row)
{
    struct buf shown = BUF_INIT;
    enum proto_reason reason = PROTO_STOP_EOS;
    int32_t id = -1;
    double u = rng_uniform((uint64_t)s->seed, s->nth, s->generated);
    int r = sampler_pick(e->sampler, &s->params, &s->sampling, row, s->prompt.tokens.ids, s->prompt.tokens.n, u, &id);
    if (r == 0) {
        if (s->generated == 0) s->first_token = engine_now();
        r = seq_push(s, &e->model, id, &shown, &reason);
    }
    if (r >= 0 && emit_text(e, s, id, row, &shown) < 0) r = -ENOMEM;
    buf_fini(&shown);
    if (r >= 0) s->tally->tokens_generated++;
    e->sampled++;
    if (r < 0)
        requests_fail(e, s, r, error_text(r));
    else if (r == 1)
        requests_done(e, s, reason);
    else if (r == 2)
        requests_requeue(e, s);
}

/* Its prompt is read: each of the answers becomes a sequence, which waits as one that has given its slot up; *last is
 * the last of them, in the order of the list. 0; -ENOMEM, and there is none. */
static int fork_answers(struct engine *e, struct seq *s, struct seq **last)
{
    uint32_t n = s->req.gen.n, made = 1;
    struct seq *forks[PROTO_ANSWERS_MAX] = {s};
    *last = s;
    if (n <= 1 || s->generated) return 0;
    struct answers *a = calloc(1, sizeof(*a));
    while (a && made < n && seq_fork(&forks[made], s, made) == 0) made++;
    if (made < n) {
        while (--made > 0) seq_free(forks[made]);
        free(a);
        return -ENOMEM;
    }
    a->left = n;
    s->answers = a;
    for (uint32_t i = 1; i < n; i++) {
        struct seq *t = forks[i];
        t->answers = a;
        t->tally = tally_hold(e, t->uid); /* it is there: s holds it */
        t->since = e->plan.book.clock;
        t->found = seq_known(s); /* from one of the others */
        t->looked_step = e->steps + 1;
        engine_insert(e, t, forks[i - 1]);
    }
    *last = forks[n - 1];
    return 0;
}

/* A token for it, and when this row ends the prompt of several answers, for each. */
static void advance_all(struct engine *e, struct seq *s, const float *row)
{
    struct seq *last;
    int r = fork_answers(e, s, &last);
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return;
    }
    for (bool more = true; more;) {
        struct seq *next = s->next;
        more = s != last;
        if (s->nth && s->state == SEQ_WAITING) seq_park(s, engine_now());
        advance(e, s, row);
        s = next;
    }
}

/* The prompt's part of a run is done; its first one counts the request. */
static void account_prefill(struct engine *e, struct seq *s)
{
    static const char *const misses[] = {
        [PREFIX_ALL] = "", [PREFIX_NEW] = "never read before", [PREFIX_EVICTED] = "evicted"};
    bool first = s->last_step == 0, prefill = s->generated == 0;
    s->last_step = e->steps;
    if (first && !s->public) {
        struct tally *t = s->tally;
        t->requests++;
        t->tokens_prompt += s->n_prompt;
        t->tokens_cached += s->cached;
        t->last_miss = s->cached + 1 >= seq_known(s) ? "" : misses[s->miss];
    }
    if (!prefill) return;
    struct proto_event ev = {
        .type = PROTO_EV_PREFILL, .done = s->kv.n_tokens, .total = s->n_prompt, .cached = s->cached};
    engine_emit(e, s, &ev);
}

/* Its part of the step is computed. @row: its logits, if it wanted any. */
static void progress(struct engine *e, struct seq *s, const struct sched_run *run, const float *row)
{
    s->kv.n_tokens += run->n;
    s->spent += sched_units(&e->plan.config, &e->plan.reqs[run->index], run->n);
    reuse_advance(e, s);
    account_prefill(e, s);
    if (!run->logits) return;
    if (s->req.type == PROTO_WARM)
        requests_done(e, s, PROTO_STOP_LENGTH);
    else
        advance_all(e, s, row);
}

void step_run(struct engine *e)
{
    struct step_scratch *x = e->scratch;
    struct plan *p = &e->plan;
    struct backend *b = e->model.backend;
    struct sched_state st;
    struct sched_load load;
    rotate_all(e);
    if (plan_gather(e, &st) < 0) return;
    uint32_t runs = sched_step(&p->config, &p->book, &st, p->scratch, p->runs, &load);
    if (runs == 0) return;
    fill_entries(e, runs);
    uint64_t began = engine_now();
    pthread_mutex_unlock(&e->own); /* a status need not wait */
    int r = b->ops->forward(b, x->entries, runs, x->logits, NULL);
    pthread_mutex_lock(&e->own);
    double took = (double)(engine_now() - began) / 1000;
    sched_done(&p->config, &p->book, &st, p->runs, runs, &load, took);
    plan_keep_accounts(e);
    struct rates_step step = {.usec = (uint64_t)(took * 1000), .sequences = runs};
    uint64_t sampled = e->sampled;
    for (uint32_t i = 0; i < runs; i++) {
        e->computed += p->runs[i].n;
        if (!p->reqs[p->runs[i].index].decoding) step.read += p->runs[i].n;
    }
    e->steps++;
    atomic_fetch_add(&e->progress, 1);
    const float *row = x->logits;
    for (uint32_t i = 0; i < runs; i++) {
        struct seq *s = p->seqs[p->runs[i].index];
        bool rows = wants_logits(s, &p->runs[i]);
        if (r < 0)
            requests_fail(e, s, r, error_text(r));
        else
            progress(e, s, &p->runs[i], row);
        if (rows) row += b->shape.vocab;
    }
    step.written = (uint32_t)(e->sampled - sampled);
    rates_add(&e->rates, engine_now(), &step);
}
