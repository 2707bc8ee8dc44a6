/* SPDX-License-Identifier: MIT */
#include "daemon/request/step.h"
#include "daemon/request/advance.h"
#include "daemon/request/constraint.h"
#include "daemon/request/draft-model.h"
#include "daemon/request/encode-media.h"
#include "daemon/request/finish.h"
#include "daemon/request/logits-rows.h"
#include "daemon/request/mask-job.h"
#include "daemon/request/model-draft.h"
#include "daemon/request/recover.h"
#include "daemon/request/row-picks.h"
#include "daemon/request/step-states.h"
#include "daemon/request/texts.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct step_scratch {
    struct batch_entry *entries; /* [sequences of a step] what the backend gets */
    const uint32_t **tables;     /* [sequences of a step][n_groups] block tables */
    uint8_t *want;               /* [batch_tokens] */
    struct item_place *places;   /* [batch_tokens] of the entries of sequences with grids */
    int32_t *tokens;             /* [batch_tokens] of the entries with proposed tokens */
    int32_t *best;               /* [sequences of a step] of those that want no more than the id of the largest logit */
    struct row_picks picks;
    struct logits_rows logits; /* of as many sequences as a step may have; more once tokens were proposed */
    float *hidden; /* [batch_tokens][dim] states for an MTP layer, rows for the vectors of texts; NULL: neither */
};

static int reserve_rows(struct core *core, size_t rows)
{
    return logits_rows_reserve(&core->step->logits, core->model.backend, core->model.vocab, rows);
}

int step_new(struct core *core)
{
    size_t t = core->config.batch_tokens, n = core->plan.config.parallel_most;
    struct step_scratch *x = core->step = calloc(1, sizeof(*x));
    if (!x) return -ENOMEM;
    if (n > t) n = t; /* each sequence of a batch has a token */
    x->entries = calloc(n, sizeof(*x->entries));
    x->tables = calloc(n * kv_cache_pools(&core->cache), sizeof(*x->tables));
    x->want = calloc(t, sizeof(*x->want));
    x->best = calloc(n, sizeof(*x->best));
    x->tokens = calloc(t, sizeof(*x->tokens));
    x->places = calloc(t, sizeof(*x->places));
    const struct draft_model *draft = core->model.draft;
    const struct hparams *h = &core->model.backend->hparams;
    const bool hidden = (draft && draft->mtp) || h->embedding.pooling != POOLING_NONE;
    if (hidden) x->hidden = calloc(t, h->dim * sizeof(*x->hidden));
    if (!x->entries || !x->tables || !x->want || !x->best || !x->tokens || !x->places || (hidden && !x->hidden) ||
        row_picks_init(&x->picks, n) < 0)
        return error_say(-ENOMEM, "no memory for batches of %zu tokens of %zu sequences", t, n);
    return h->embedding.whole ? 0 : reserve_rows(core, n);
}

void step_free(struct core *core)
{
    struct step_scratch *x = core->step;
    if (!x) return;
    free(x->entries);
    free(x->tables);
    free(x->want);
    free(x->best);
    free(x->places);
    free(x->tokens);
    row_picks_fini(&x->picks);
    logits_rows_fini(&x->logits);
    free(x->hidden);
    free(x);
    core->step = NULL;
}

bool step_ready(const struct core *core)
{
    return core->plan.n_ready > 0;
}

/* Give @s the blocks that the next step writes. A sequence that rotates has those of what it sees, not of all its
 * positions: those that it leaves behind become the next ones. */
static int rotate(struct core *core, struct seq *s)
{
    const struct seq_context *c = &s->context;
    uint32_t at = s->kv.n_tokens, left = seq_known(s) - at + s->speculation.n_draft, batch = core->config.batch_tokens;
    uint32_t end = at + (left < batch ? left : batch), from = 0, to = 0;
    if (!seq_rotates(s)) return seq_cover(&core->cache, s, end); /* a model with windows does not rotate */
    if (at >= c->ctx) {
        from = c->keep / KV_BLOCK;
        to = (at + 1 - (c->ctx - c->keep)) / KV_BLOCK;
    }
    int r = kv_cache_slide(&core->cache, 0, &s->kv.tables[0], from, to, end);
    return r == -ENOBUFS ? error_say(r, "no KV block is free to rotate the context") : r;
}

static void rotate_all(struct core *core)
{
    for (struct seq *s = core->seqs.head, *next; s; s = next) {
        next = s->next;
        if (s->state != SEQ_RUNNING || (core->cache.n_groups == 1 && !seq_rotates(s))) continue;
        int r = rotate(core, s);
        plan_update(core, s);
        if (r == -ENOBUFS && core->running > 1) {
            core->counts.preemptions++;
            answer_preempt(s); /* what it shared with others is theirs still: it waits for them */
        } else if (r < 0 && s->request->texts) {
            texts_fail(s, r);
        } else if (r < 0) {
            answer_fail(s->request, s, r, error_text(r));
        }
    }
}

static bool wants_logits(const struct seq *s, const struct sched_run *r)
{
    return r->logits && s->request->proto.type != PROTO_WARM && !s->request->texts;
}

/* A row of @s gives one token: it is not the first one of several answers. */
static bool is_one_answer(const struct seq *s)
{
    return s->generated || s->group->n == 1;
}

/* The run wants the id of the largest logit alone, and the backend finds it. */
static bool wants_best(const struct core *core, const struct seq *s, const struct sched_run *r)
{
    const struct proto_generate *g = &s->request->proto.gen;
    return core->model.backend->ops->picks && wants_logits(s, r) && r->draft == 0 && sampling_is_best(&s->sampling) &&
           !g->logprobs && g->top_logprobs < 0 && is_one_answer(s);
}

/* The tokens of an entry; NULL: they are embeddings. @to: where they are put together if some of them are proposed. */
static const int32_t *entry_tokens(const struct seq *s, const struct sched_run *r, int32_t *to)
{
    const int32_t *known = seq_ids(s) + s->kv.n_tokens;
    uint32_t n = r->n - r->draft;
    if (known[0] == ITEM_EMBD) return NULL;
    if (r->draft == 0) return known;
    memcpy(to, known, n * sizeof(*to));
    memcpy(to + n, s->speculation.draft, r->draft * sizeof(*to));
    return to;
}

/* The rows of logits that the run wants. */
static uint32_t rows_of(const struct core *core, const struct seq *s, const struct sched_run *r)
{
    return wants_logits(s, r) && !wants_best(core, s, r) ? 1 + r->draft : 0;
}

/* Room for the logits of all rows. Without memory no token that is proposed is computed. */
static void make_rows(struct core *core, size_t runs)
{
    struct sched_run *run = core->plan.runs;
    size_t rows = 0;
    for (size_t i = 0; i < runs; i++) rows += rows_of(core, core->plan.seqs[run[i].index], &run[i]);
    if (reserve_rows(core, rows) == 0) return;
    for (size_t i = 0; i < runs; i++) {
        run[i].n -= run[i].draft;
        run[i].draft = 0;
    }
}

/* The last rows of its entry whose states an MTP layer needs. */
static uint32_t hidden_rows(const struct core *core, const struct seq *s, const struct sched_run *r)
{
    const uint32_t from = model_draft_states_from(core, s), at = s->kv.n_tokens;
    if (!core->step->hidden || s->request->texts || from >= at + r->n) return 0;
    return from > at ? at + r->n - from : r->n;
}

static void fill_entries(struct core *core, size_t runs)
{
    struct step_scratch *x = core->step;
    const struct plan *p = &core->plan;
    uint8_t *want = x->want;
    const bool grids = hparams_grids(&core->model.backend->hparams);
    uint32_t n_groups = core->cache.n_groups, pools = kv_cache_pools(&core->cache);
    for (size_t i = 0; i < runs; i++) {
        const struct sched_run *r = &p->runs[i];
        const struct seq *s = p->seqs[r->index];
        const struct items all = seq_items(s);
        struct item_place *places = x->places + (want - x->want);
        const uint32_t **tables = &x->tables[i * pools]; /* none of the states */
        for (uint32_t g = 0; g < n_groups; g++) tables[g] = s->kv.tables[g].ids;
        for (uint32_t k = 0; k < r->n; k++) want[k] = WANT_NOTHING;
        assert(!p->reqs[r->index].whole || r->n == p->reqs[r->index].stretch);
        if (s->request->texts) texts_want(s, r->n, want);
        const bool best = wants_best(core, s, r);
        if (wants_logits(s, r)) memset(want + r->n - 1 - r->draft, best ? WANT_BEST : WANT_LOGITS, 1 + r->draft);
        for (uint32_t k = r->n - hidden_rows(core, s, r); k < r->n; k++) want[k] |= WANT_HIDDEN;
        x->entries[i] = (struct batch_entry){
            .blocks = tables,
            .state = live_state_entry(&core->cache, s),
            .pos = s->kv.n_tokens,
            .n = r->n,
            .tokens = entry_tokens(s, r, x->tokens + (want - x->want)),
            .places = grids && items_places(&all, s->kv.n_tokens, r->n, places) ? places : NULL,
            .embd = seq_ids(s)[s->kv.n_tokens] == ITEM_EMBD ? seq_embd(s, s->kv.n_tokens) : NULL,
            .adapter = s->kv.n_tokens >= seq_adapted_from(s) ? s->context.adapter.number : 0,
            .adapter_scale = s->context.adapter.scale,
            .sinks = seq_rotates(s) ? s->context.keep : 0,
            .window = seq_rotates(s) ? s->context.ctx - s->context.keep : 0,
            .whole = p->reqs[r->index].whole,
            .types = s->request->texts ? texts_types(s) : NULL,
            .want = want,
            .best = best ? &x->best[i] : NULL,
        };
        want += r->n;
    }
}

/* The rows of the runs, from which tokens are picked together: of each answer the next token, unless it has a
 * constraint, whose masks may take long, or is the first one of several answers. Returns the
 * number of rows. */
static size_t list_picks(struct core *core, size_t runs)
{
    struct step_scratch *x = core->step;
    const struct plan *p = &core->plan;
    size_t row = 0;
    x->picks.n = runs;
    for (size_t i = 0; i < runs; i++) {
        const struct sched_run *r = &p->runs[i];
        struct seq *s = p->seqs[r->index];
        const uint32_t rows = rows_of(core, s, r);
        x->picks.list[i] = (struct row_pick){.id = -1};
        if (!rows) continue;
        x->picks.list[i].s = !s->request->constraint && is_one_answer(s) ? s : NULL;
        x->picks.list[i].logits = logits_rows_at(&x->logits, row);
        row += rows;
    }
    return row;
}

/* Token @i of the draft is computed, and was sampled: its KV counts from now on. False: another token was sampled. */
static bool accept_draft(struct core *core, struct seq *s, uint32_t i)
{
    const struct tokens *t = &s->prompt.tokens;
    if (t->ids[t->n - 1] != s->speculation.draft[i]) return false;
    s->kv.n_tokens++;
    draft_accepted(core, s);
    reuse_advance(&core->cache, s);
    return true;
}

/* A part of the prompt is computed. The first part counts the request. */
static void account_prefill(struct core *core, struct seq *s)
{
    static const char *const misses[] = {
        [PREFIX_ALL] = "", [PREFIX_NEW] = "never read before", [PREFIX_EVICTED] = "evicted"};
    bool first = s->sched.last_step == 0, prefill = s->generated == 0;
    s->sched.last_step = core->counts.steps;
    if (s->request->texts) return; /* they are counted at its end */
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

/* Count the units of its part of the step, before the part counts as computed. */
static void account_units(struct core *core, struct seq *s, const struct sched_run *run)
{
    const struct sched_config *c = &core->plan.config;
    const struct sched_req *r = &core->plan.reqs[run->index];
    struct seq_schedule *x = &s->sched;
    uint32_t from = s->kv.n_tokens, again = x->reached > from ? x->reached - from : 0;
    x->spent += sched_units(c, r, run->n);
    x->redone += sched_units(c, r, again < run->n ? again : run->n);
    if (x->reached < from + run->n - run->draft) x->reached = from + run->n - run->draft;
}

/* Advance, and note a constraint whose masks take long. */
static bool sample(struct core *core, struct seq *s, struct logits row)
{
    struct constraint *x = s->request->constraint;
    uint64_t began = x && !x->slow ? clock_now_usec() : 0;
    if (began) constraint_keep(core->model.constraints, x); /* the request may end */
    bool continues = advance(core, s, row);
    if (began && clock_now_usec() - began >= MASK_SLOW_USEC) x->slow = true;
    if (began) constraint_drop(core->model.constraints, x);
    return continues;
}

/* Its part of the step is computed. @row: its logits, if it wanted any: for its last known token, and behind it for
 * each of those proposed. A row counts only if the token before it was sampled; neither the output nor the sampling nor
 * the prefix index sees a token that was not. The KV of such a token lies behind kv.n_tokens, and is overwritten.
 * @until: as for mask_job_ready(). */
static void progress(struct core *core, struct seq *s, const struct sched_run *run, struct logits row, uint64_t until)
{
    account_units(core, s, run);
    live_state_passed(&core->cache, s, run->n);
    s->kv.n_tokens += run->n - run->draft;
    reuse_advance(&core->cache, s);
    account_prefill(core, s);
    plan_update(core, s);
    if (!run->logits) {
        int r = encode_ahead(core, s);
        if (r < 0) answer_fail(s->request, s, r, error_text(r));
        return;
    }
    if (s->request->texts) {
        texts_computed(s);
        return;
    }
    if (s->request->proto.type == PROTO_WARM) {
        answer_done(s->request, s, PROTO_STOP_LENGTH);
        return;
    }
    draft_computed(core, s, run->draft);
    if (!mask_job_ready(core, s, row.row, until)) return;
    bool continues = sample(core, s, row);
    for (uint32_t i = 0; continues && i < run->draft && accept_draft(core, s, i); i++) {
        row = logits_rows_next(&core->step->logits, row);
        continues = sample(core, s, row);
    }
}

/* Before any of the sequences ends. */
static void keep_hidden(struct core *core, uint32_t runs)
{
    const float *row = core->step->hidden;
    for (uint32_t i = 0; i < runs; i++) {
        const struct sched_run *run = &core->plan.runs[i];
        struct seq *s = core->plan.seqs[run->index];
        const uint32_t n = s->request->texts ? texts_want(s, run->n, NULL) : hidden_rows(core, s, run);
        if (n && s->request->texts)
            texts_rows(s, run->n, row);
        else if (n)
            model_draft_states(core, s, s->kv.n_tokens + run->n - n, n, row);
        row += (size_t)n * core->model.backend->hparams.dim;
    }
}

/* The step's @runs are computed, or it has failed with @r. */
static void distribute(struct core *core, uint32_t runs, int r)
{
    const struct plan *p = &core->plan;
    const struct step_scratch *x = core->step;
    const uint64_t until = clock_now_usec() + MASK_WAIT_USEC;
    for (uint32_t i = 0; i < runs; i++) {
        const struct sched_run run = p->runs[i]; /* the plan's arrays grow when an answer is forked */
        struct seq *s = p->seqs[run.index];
        if (!s) continue; /* another text has ended the request that it was of */
        struct logits logits = {.best = x->best[i]};
        if (!x->entries[i].best) logits = row_picks_at(&x->picks, i);
        if (r < 0)
            answer_fail(s->request, s, r, error_text(r));
        else
            progress(core, s, &run, logits, until);
    }
}

void step_run(struct core *core)
{
    struct step_scratch *x = core->step;
    struct plan *p = &core->plan;
    struct backend *b = core->model.backend;
    struct sched_state st;
    struct sched_load load;
    energy_begin(&core->energy, &core->seqs, clock_now_usec());
    draft_propose(core);
    rotate_all(core);
    plan_view(core, &st);
    p->config.prefill_units = sched_time_prefill_units(&p->book.time, p->config.decode_units);
    uint32_t runs = sched_step(&p->config, &p->book, &st, p->scratch, p->runs, &load);
    if (runs == 0) return;
    make_rows(core, runs);
    step_states_prepare(core, runs);
    fill_entries(core, runs);
    const size_t rows = list_picks(core, runs);
    mask_jobs_begin(core, runs);
    uint64_t began = clock_now_usec();
    pthread_mutex_unlock(&core->own); /* a status need not wait */
    int r = b->ops->forward(b, x->entries, runs, x->logits.logits, x->hidden);
    if (r == 0) logits_rows_peaks(&x->logits, b, rows);
    if (r == 0) row_picks_run(&x->picks, core);
    pthread_mutex_lock(&core->own);
    double took = (double)(clock_now_usec() - began) / 1000;
    sched_done(&p->config, &p->book, &st, p->runs, runs, &load, took);
    plan_keep_accounts(core);
    struct rates_step step = {.usec = (uint64_t)(took * 1000), .sequences = runs};
    const struct core_counts before = core->counts;
    for (uint32_t i = 0; i < runs; i++) {
        core->counts.computed += p->runs[i].n;
        energy_computed(&core->energy, p->seqs[p->runs[i].index], &p->runs[i]);
        if (!p->reqs[p->runs[i].index].decoding) step.read += p->runs[i].n;
    }
    core->counts.steps++;
    atomic_fetch_add(&core->progress, 1);
    if (r == 0 && x->hidden) keep_hidden(core, runs);
    if (r == -EIO && b->ops->recover)
        recover_begin(core);
    else
        distribute(core, runs, r);
    step_states_settle(core);
    step.written = (uint32_t)(core->counts.sampled - before.sampled);
    step.drafted = (uint32_t)(core->counts.drafted - before.drafted);
    step.accepted = (uint32_t)(core->counts.accepted - before.accepted);
    uint64_t now = clock_now_usec();
    rates_add(&core->rates, now, &step);
    energy_end(&core->energy, &core->seqs, now, !step_ready(core));
}
