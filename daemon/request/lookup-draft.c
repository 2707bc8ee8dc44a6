/* SPDX-License-Identifier: MIT */
#include "daemon/request/lookup-draft.h"
#include "daemon/request/request.h"
#include "daemon/speculate/guesser.h"

#define READ_STEP 4096 /* tokens of a prompt that are read before one step */
#define LEAD      32   /* tokens of the prompt that lead to an answer */

_Static_assert(sizeof(struct prefix_namespace) == PAST_NAME, "a namespace names a past");

/* The share of a step by which a row makes it longer. */
static double cost_of(const struct core *core)
{
    const struct sched_time *t = &core->plan.book.time;
    const struct sched_load load = {.decode = core->running ? core->running : 1};
    return t->ms[SCHED_TIME_DRAFT] / sched_time_of(t, &load);
}

/* Without memory nothing is proposed. */
static void begin(struct core *core, struct seq *s)
{
    struct seq_speculation *x = &s->speculation;
    x->past = past_hold(&core->drafter.pasts, s->reuse.namespace.bytes, s->uid);
    if (x->past && guesser_new(&x->guesser, x->past) < 0) {
        past_drop(&core->drafter.pasts, x->past);
        x->past = NULL;
    }
}

static void read_sequence(void *ctx, struct seq *s)
{
    struct core *core = ctx;
    const struct tokens *t = &s->prompt.tokens;
    if (!s->speculation.guesser && !s->request->control.internal) begin(core, s);
    if (s->speculation.guesser) guesser_read(s->speculation.guesser, t->ids, (uint32_t)t->n, READ_STEP);
}

static uint32_t propose(void *ctx, struct seq *s, int32_t *out, float *chance, uint32_t max)
{
    const struct core *core = ctx;
    const struct tokens *t = &s->prompt.tokens;
    const struct seq_speculation *x = &s->speculation;
    if (!x->guesser) return 0;
    uint32_t n = guesser_propose(x->guesser, t->ids, (uint32_t)t->n, out, chance, max);
    return past_rows(x->past, cost_of(core), n);
}

static void computed(void *ctx, struct seq *s, uint32_t rows)
{
    const struct core *core = ctx;
    if (s->speculation.past) past_pay(s->speculation.past, rows, cost_of(core), core->running ? core->running : 1);
}

static void accepted(void *ctx, struct seq *s)
{
    const struct core *core = ctx;
    if (s->speculation.past) past_earn(s->speculation.past, core->running ? core->running : 1);
}

void lookup_draft_use(struct core *core)
{
    struct drafter *d = &core->drafter;
    d->propose = propose;
    d->read = read_sequence;
    d->computed = computed;
    d->accepted = accepted;
    d->ctx = core;
}

void lookup_draft_leave(struct core *core, struct seq *s, bool ended)
{
    struct seq_speculation *x = &s->speculation;
    const struct tokens *t = &s->prompt.tokens;
    if (!x->past) return;
    size_t from = s->n_prompt < LEAD ? 0 : s->n_prompt - LEAD;
    if (ended && t->n > s->n_prompt) past_add(&core->drafter.pasts, x->past, t->ids + from, (uint32_t)(t->n - from));
    x->guesser = guesser_free(x->guesser);
    past_drop(&core->drafter.pasts, x->past);
    x->past = NULL;
}
