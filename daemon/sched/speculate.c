/* SPDX-License-Identifier: MIT */
/* Proposed tokens of a step: those that are worth their time. They take no place from any other token. */
#include "daemon/sched/batch.h"

/* What a row must yield, for its time, in yields of the step without it: the estimates have errors. */
#define WORTH 1.1

/* After so many steps without a row although some were proposed, one is computed whatever it is expected to cost. The
 * estimate of what rows cost is learned from steps with rows only: else one that is too high would stay. */
#define UNTRIED_MOST 64

/* Milliseconds of the next row of a draft. */
static double row_ms(const struct step *t, const struct sched_run *run)
{
    const struct sched_req *r = &t->s->reqs[run->index];
    const struct sched_time *time = &t->b->time;
    return time->ms[SCHED_TIME_DRAFT] + time->ms[SCHED_TIME_PREFILL_KV] * sched_pairs(r->known + run->draft, 1);
}

static void add_row(struct step *t, struct sched_run *run)
{
    const struct sched_req *r = &t->s->reqs[run->index];
    t->load->prefill_kv += sched_pairs(r->known + run->draft, 1);
    t->load->draft++;
    run->draft++;
    run->n++;
    t->tokens--;
}

static void add_wanted(struct step *t)
{
    for (uint32_t i = 0; i < t->n_out; i++) {
        const struct sched_req *r = &t->s->reqs[t->out[i].index];
        if (!sched_decodes(r) || r->chance) continue;
        while (t->tokens && t->out[i].draft < r->draft) add_row(t, &t->out[i]);
    }
}

/* The part of the batch whose next proposed token yields the most for its time; NULL: none has one. */
static struct sched_run *best_row(const struct step *t, double *yield)
{
    struct sched_run *best = NULL;
    *yield = 0;
    for (uint32_t i = 0; i < t->n_out; i++) {
        struct sched_run *run = &t->out[i];
        const struct sched_req *r = &t->s->reqs[run->index];
        if (!sched_decodes(r) || !r->chance || run->draft >= r->draft) continue;
        double y = r->chance[run->draft] / row_ms(t, run);
        if (y <= *yield) continue;
        *yield = y;
        best = run;
    }
    return best;
}

/* Tokens that the step yields, in decoded ones. */
static double yield_of(const struct step *t)
{
    const struct sched_config *c = t->c;
    return t->load->decode + t->load->draft + (double)t->load->prefill * c->prefill_units / c->decode_units;
}

void sched_speculate(struct step *t)
{
    struct sched_run *run;
    double yield;
    add_wanted(t);
    if (t->b->time.samples == 0) return;
    double tokens = yield_of(t), ms = sched_time_of(&t->b->time, t->load);
    bool try = t->b->untried >= UNTRIED_MOST;
    while (t->tokens && (run = best_row(t, &yield)) && (try || yield * ms > WORTH * tokens)) {
        double row = row_ms(t, run);
        tokens += yield * row;
        ms += row;
        add_row(t, run);
        try = false;
    }
    t->load->untried = t->load->draft == 0 && best_row(t, &yield);
}
