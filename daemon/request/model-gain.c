/* SPDX-License-Identifier: MIT */
/* The draft model: which passes are expected to pay. All is expected time of the machine by step-time.h. */
#include "daemon/request/model-draft-inside.h"
#include "daemon/speculate/calibration.h"

#define WORTH     1.1  /* what a round must yield, for its time, in yields of the step without it */
#define IDLE_MOST 64   /* steps of a sequence without a draft, after which one is made to learn from */
#define OTHERS    0.25 /* of a step: the time of passes while it decodes sequences that get no draft */
#define ANSWER    128  /* tokens of which every answer is expected to have some more */
#define LITTLE    0.02 /* of the time of an answer, or since its last draft, for which items are read without credit */
#define DEEP      4    /* tokens of a draft for which a gain is looked for */

static double one_ms(const struct sched_time *t, double pos)
{
    return t->ms[SCHED_TIME_DECODE] + t->ms[SCHED_TIME_DECODE_KV] * pos / 1000;
}

double model_row_ms(const struct core *core, double pos)
{
    const struct sched_time *t = &core->plan.book.time;
    return t->ms[SCHED_TIME_DRAFT] + t->ms[SCHED_TIME_PREFILL_KV] * pos / 1000;
}

void model_expect(struct core *core, struct model_drafter *m)
{
    struct sched_load load = {0};
    for (const struct seq *s = core->seqs.head; s; s = s->next) {
        if (s->state != SEQ_RUNNING || s->generated == 0 || s->request->control.paused || s->held) continue;
        load.decode++;
        load.decode_kv += (double)seq_known(s) / 1000;
    }
    m->decoding = load.decode;
    m->tokens_step = load.decode;
    m->step_ms = sched_time_of(&core->plan.book.time, &load);
    m->rows_ms = m->passes_ms = 0;
}

static float mean(const struct model_place *p)
{
    return calibration_mean(&p->d->calibration, &p->s->speculation.past->calibration);
}

/* Milliseconds of a decoded row of @p, whose layer attends from the base on, when the sequence has @known items. */
static double pass_ms(const struct model_drafter *m, const struct model_place *p, double known)
{
    return one_ms(&m->time, known - p->d->base);
}

/* Milliseconds of @p in the next round, and of the row that it adds to the step. */
static double place_ms(const struct core *core, const struct model_drafter *m, const struct model_place *p)
{
    double pos = seq_known(p->s) + p->d->n_ids, more = p->d->n_ids ? 0 : (double)seq_known(p->s) - p->d->n - 1;
    return pass_ms(m, p, pos) + more * m->time.ms[SCHED_TIME_PREFILL] + model_row_ms(core, pos);
}

/* It pays its own part of the round, the account of its user too. */
static bool is_worth(const struct core *core, const struct model_drafter *m, const struct model_place *p)
{
    double ms = place_ms(core, m, p);
    if (!(p->s->speculation.past->model_account > 0)) return false;
    return p->chance * mean(p) * (m->step_ms + m->rows_ms) > WORTH * m->tokens_step * ms;
}

/* Of the round as a whole. */
static bool pays(const struct core *core, const struct model_drafter *m)
{
    double tokens = 0, ms = m->time.ms[SCHED_TIME_FIXED];
    for (uint32_t i = 0; i < m->n; i++) {
        const struct model_place *p = &m->places[i];
        if (!p->takes) continue;
        tokens += (double)p->chance * mean(p);
        ms += place_ms(core, m, p);
    }
    return tokens * (m->step_ms + m->rows_ms) > WORTH * m->tokens_step * ms;
}

/* Would the next round make others wait for what they do not get? */
static bool delays(const struct core *core, const struct model_drafter *m)
{
    const struct sched_load load = {.decode = m->n};
    return m->decoding > m->n && m->passes_ms + sched_time_of(&m->time, &load) > OTHERS * m->step_ms;
}

/* All that may take part: of an unknown time, or to learn how good the drafts are. */
static bool take_due(const struct core *core, struct model_drafter *m)
{
    bool any = false;
    for (uint32_t i = 0; i < m->n; i++) {
        struct model_place *p = &m->places[i];
        const struct calibration *user = &p->s->speculation.past->calibration;
        bool fresh = calibration_is_new(user) && p->s->speculation.past->model_account > 0;
        bool due = m->time.samples == 0 || p->d->idle >= IDLE_MOST || fresh;
        p->takes = !p->ended && (core->drafter.always || (p->d->n_ids == 0 && due));
        any = any || p->takes;
    }
    return any;
}

bool model_choose(const struct core *core, struct model_drafter *m)
{
    bool any = false;
    if (core->drafter.always) return take_due(core, m);
    if (core->plan.book.time.samples == 0 || delays(core, m)) return false;
    for (uint32_t i = 0; m->time.samples && i < m->n; i++) {
        struct model_place *p = &m->places[i];
        p->takes = !p->ended && is_worth(core, m, p);
        any = any || p->takes;
    }
    return (any && pays(core, m)) || take_due(core, m);
}

/* The share of the time that drafts save, if all are as long as is best. */
static double saving(const struct core *core, const struct model_drafter *m, const struct model_place *p)
{
    double a = mean(p), pos = seq_known(p->s), tokens = 1, ms = m->step_ms, all = 1, best = 0;
    double round = m->time.ms[SCHED_TIME_FIXED] + pass_ms(m, p, pos) + model_row_ms(core, pos);
    for (int i = 0; i < DEEP; i++) {
        all *= a;
        tokens += all;
        ms += round;
        double now = 1 - ms / m->step_ms / tokens;
        if (now > best) best = now;
    }
    return best;
}

bool model_reading_pays(const struct core *core, const struct model_drafter *m, const struct model_place *p, uint32_t n)
{
    const struct seq *s = p->s;
    const double depth = p->d->n - p->d->base;
    const struct sched_load load = {.prefill = n, .prefill_kv = (depth * n + (double)n * n / 2) / 1000};
    double more = s->generated > ANSWER ? s->generated : ANSWER, left = (double)s->max_tokens - s->generated;
    if (core->drafter.always || m->time.samples == 0) return true;
    const double ms = sched_time_of(&m->time, &load);
    if (ms > s->speculation.past->model_account * m->step_ms && ms > LITTLE * s->generated * m->step_ms) return false;
    if (calibration_is_new(&s->speculation.past->calibration) && n < ANSWER) return true;
    if (left < more) more = left;
    return 2 * ms <= more * m->step_ms * saving(core, m, p) || ms <= LITTLE * p->d->idle * m->step_ms;
}

static uint32_t sequences(const struct core *core)
{
    return core->running ? core->running : 1;
}

void model_draft_computed(const struct core *core, struct seq *s, uint32_t rows)
{
    const struct sched_load load = {.decode = sequences(core)};
    double step = sched_time_of(&core->plan.book.time, &load);
    if (!core->drafter.model || !s->speculation.past) return;
    past_spend(s->speculation.past, rows * model_row_ms(core, seq_known(s)) / step - PAST_ALLOWANCE / sequences(core));
}

void model_draft_accepted(const struct core *core, struct seq *s)
{
    if (s->speculation.past) past_spend(s->speculation.past, -1.0 / sequences(core));
}
