/* SPDX-License-Identifier: MIT */
#include "daemon/request/step.h"
#include "daemon/request/answer.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdlib.h>

struct step_scratch {
    struct batch_entry *entries; /* [parallel] what the backend gets */
    const uint32_t **tables;     /* [parallel] block tables, one group each */
    uint8_t *want;               /* [batch_tokens] */
    float *logits;               /* [rows][hparams.vocab], rows: no more than sequences or tokens */
};

int step_new(struct core *core)
{
    size_t n = core->config.parallel, t = core->config.batch_tokens, rows = n < t ? n : t, values;
    struct step_scratch *x = core->step = calloc(1, sizeof(*x));
    if (!x || __builtin_mul_overflow(rows, (size_t)core->model.backend->hparams.vocab, &values)) return -ENOMEM;
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

void step_free(struct core *core)
{
    struct step_scratch *x = core->step;
    if (!x) return;
    free(x->entries);
    free(x->tables);
    free(x->want);
    free(x->logits);
    free(x);
    core->step = NULL;
}

bool step_ready(const struct core *core)
{
    for (const struct seq *s = core->seqs.head; s; s = s->next)
        if (s->state == SEQ_RUNNING && !s->request->control.paused) return true;
    return false;
}

/* A sequence that rotates has the blocks of what it sees, not of all its positions: those that it leaves behind become
 * the next ones. */
static int rotate(struct core *core, struct seq *s)
{
    uint32_t at = s->kv.n_tokens, left = seq_known(s) - at, batch = core->config.batch_tokens;
    uint32_t end = at + (left < batch ? left : batch), need = kv_table_blocks(end), from = 0, to = 0;
    if (!seq_rotates(s) || need <= s->kv.n_blocks) return 0;
    if (at >= s->context.ctx) {
        from = s->context.keep / KV_BLOCK;
        to = (at + 1 - (s->context.ctx - s->context.keep)) / KV_BLOCK;
    }
    int r = kv_table_rotate(&s->kv, core->cache.pool, from, to, need);
    if (r == 0 && s->kv.n_blocks < need && !kv_cache_make_room(&core->cache, need - s->kv.n_blocks))
        r = error_say(-ENOBUFS, "no block of KV is free for a context that rotates");
    return r < 0 ? r : kv_table_reserve(&s->kv, core->cache.pool, end);
}

static void rotate_all(struct core *core)
{
    for (struct seq *s = core->seqs.head, *next; s; s = next) {
        next = s->next;
        int r = s->state == SEQ_RUNNING ? rotate(core, s) : 0;
        if (r == -ENOBUFS && core->running > 1) {
            core->counts.preemptions++;
            answer_preempt(s); /* what it shared with others is theirs still: it waits for them */
        } else if (r < 0) {
            answer_fail(s->request, s, r, error_text(r));
        }
    }
}

static bool wants_logits(const struct seq *s, const struct sched_run *r)
{
    return r->logits && s->request->proto.type != PROTO_WARM;
}

static void fill_entries(struct core *core, size_t runs)
{
    struct step_scratch *x = core->step;
    const struct plan *p = &core->plan;
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
            .sinks = seq_rotates(s) ? s->context.keep : 0,
            .window = seq_rotates(s) ? s->context.ctx - s->context.keep : 0,
            .want = want,
        };
        want += r->n;
    }
}

/* The text events of token @id. The first one has its logprob in @row if that is wanted, even without text. 0; -ENOMEM,
 * and the answer ends. */
static int emit_token(struct core *core, struct seq *s, int32_t id, const float *row, struct output_step *out)
{
    struct proto_event ev = {.type = PROTO_EV_TEXT, .channel = out->channel};
    if (s->request->proto.gen.logprobs) {
        ev.ids = malloc(sizeof(*ev.ids));
        ev.logprobs = malloc(sizeof(*ev.logprobs));
        if (!ev.ids || !ev.logprobs) {
            proto_event_fini(&ev);
            return -ENOMEM;
        }
        float max, lse;
        backend_logsumexp(core->model.backend, row, &max, &lse);
        ev.ids[0] = id;
        ev.logprobs[0] = (row[id] - max) - lse;
        ev.n_ids = 1;
        if (out->n == 0) request_emit(s->request, s, &ev);
    }
    for (size_t i = 0; i < out->n; i++) {
        ev.channel = out->events[i].channel;
        ev.text.data = buf_steal(&out->events[i].text, &ev.text.len);
        request_emit(s->request, s, &ev);
        ev = (struct proto_event){.type = PROTO_EV_TEXT};
    }
    return 0;
}

/* Sample a token from @row. The answer continues, ends or is preempted. */
static void advance(struct core *core, struct seq *s, const float *row)
{
    struct output_step out = {0};
    enum proto_reason reason = PROTO_STOP_EOS;
    int32_t id = -1;
    int r = sampling_pick(&s->sampling, core->sample_scratch, row, s->prompt.tokens.ids, s->prompt.tokens.n, &id);
    if (r == 0) {
        if (s->generated == 0) s->times.first_token = clock_now_usec();
        r = seq_push(s, id, &out, &reason);
    }
    if (r >= 0 && emit_token(core, s, id, row, &out) < 0) r = -ENOMEM;
    output_step_fini(&out);
    if (r >= 0) s->request->user->counts.tokens_generated++;
    core->counts.sampled++;
    if (r < 0)
        answer_fail(s->request, s, r, error_text(r));
    else if (r == 1)
        answer_done(s->request, s, reason);
    else if (r == 2)
        answer_preempt(s);
}

/* The prompt of @s is computed: make the other answers, which wait as preempted sequences do. 0; -ENOMEM, and none is
 * made. */
static int fork_answers(struct core *core, struct seq *s)
{
    struct seq_group *g = s->group;
    struct seq *t;
    if (g->n == g->left || s->generated) return 0;
    for (uint32_t i = 1; i < g->n; i++) {
        if (seq_fork(&t, s, i) == 0 && (t->end_node = malloc(sizeof(*t->end_node)))) continue;
        for (; i > 0; i--) seq_free(g->seqs[i]);
        return -ENOMEM;
    }
    for (uint32_t i = 1; i < g->n; i++) {
        t = g->seqs[i];
        plan_wait(core, t);
        t->sched.found = seq_known(s); /* the KV of @s */
        t->sched.looked_step = core->counts.steps + 1;
        seq_list_push(&core->seqs, t);
    }
    g->left = g->n;
    return 0;
}

/* A token for @s, and if this row ends the prompt of several answers, for each of them. */
static void advance_all(struct core *core, struct seq *s, const float *row)
{
    struct seq_group *g = s->group;
    bool begin = s->generated == 0 && g->n > 1;
    int r = fork_answers(core, s);
    if (r < 0) {
        answer_fail(s->request, s, r, error_text(r));
        return;
    }
    if (!begin) {
        advance(core, s, row);
        return;
    }
    uint32_t n = g->n; /* the last answer to end frees the group */
    struct seq *all[PROTO_ANSWERS_MAX];
    for (uint32_t i = 0; i < n; i++) all[i] = g->seqs[i];
    for (uint32_t i = 0; i < n; i++) {
        if (i) seq_preempted(all[i], clock_now_usec());
        advance(core, all[i], row);
    }
}

/* A part of the prompt is computed. The first part counts the request. */
static void account_prefill(struct core *core, struct seq *s)
{
    static const char *const misses[] = {
        [PREFIX_ALL] = "", [PREFIX_NEW] = "never read before", [PREFIX_EVICTED] = "evicted"};
    bool first = s->sched.last_step == 0, prefill = s->generated == 0;
    s->sched.last_step = core->counts.steps;
    if (first && !s->request->control.internal) {
        struct user_counts *t = &s->request->user->counts;
        t->requests++;
        t->tokens_prompt += s->n_prompt;
        t->tokens_cached += s->cached;
        t->last_miss = s->cached + 1 >= seq_known(s) ? "" : misses[s->reuse.miss];
    }
    if (!prefill) return;
    struct proto_event ev = {
        .type = PROTO_EV_PREFILL, .done = s->kv.n_tokens, .total = s->n_prompt, .cached = s->cached};
    request_emit(s->request, s, &ev);
}

/* Its part of the step is computed. @row: its logits, if it wanted any. */
static void progress(struct core *core, struct seq *s, const struct sched_run *run, const float *row)
{
    s->kv.n_tokens += run->n;
    s->sched.spent += sched_units(&core->plan.config, &core->plan.reqs[run->index], run->n);
    reuse_advance(&core->cache, s);
    account_prefill(core, s);
    if (!run->logits) return;
    if (s->request->proto.type == PROTO_WARM)
        answer_done(s->request, s, PROTO_STOP_LENGTH);
    else
        advance_all(core, s, row);
}

void step_run(struct core *core)
{
    struct step_scratch *x = core->step;
    struct plan *p = &core->plan;
    struct backend *b = core->model.backend;
    struct sched_state st;
    struct sched_load load;
    rotate_all(core);
    if (plan_gather(core, &st) < 0) return;
    p->config.prefill_units = sched_time_prefill_units(&p->book.time, p->config.decode_units);
    uint32_t runs = sched_step(&p->config, &p->book, &st, p->scratch, p->runs, &load);
    if (runs == 0) return;
    fill_entries(core, runs);
    uint64_t began = clock_now_usec();
    pthread_mutex_unlock(&core->own); /* a status need not wait */
    int r = b->ops->forward(b, x->entries, runs, x->logits, NULL);
    pthread_mutex_lock(&core->own);
    double took = (double)(clock_now_usec() - began) / 1000;
    sched_done(&p->config, &p->book, &st, p->runs, runs, &load, took);
    plan_keep_accounts(core);
    struct rates_step step = {.usec = (uint64_t)(took * 1000), .sequences = runs};
    uint64_t sampled = core->counts.sampled;
    for (uint32_t i = 0; i < runs; i++) {
        core->counts.computed += p->runs[i].n;
        if (!p->reqs[p->runs[i].index].decoding) step.read += p->runs[i].n;
    }
    core->counts.steps++;
    atomic_fetch_add(&core->progress, 1);
    const float *row = x->logits;
    for (uint32_t i = 0; i < runs; i++) {
        struct seq *s = p->seqs[p->runs[i].index];
        bool rows = wants_logits(s, &p->runs[i]);
        if (r < 0)
            answer_fail(s->request, s, r, error_text(r));
        else
            progress(core, s, &p->runs[i], row);
        if (rows) row += b->hparams.vocab;
    }
    step.written = (uint32_t)(core->counts.sampled - sampled);
    rates_add(&core->rates, clock_now_usec(), &step);
}
