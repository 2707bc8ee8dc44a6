/* SPDX-License-Identifier: MIT */
#include "daemon/request/draft.h"
#include "daemon/request/constraint.h"
#include "daemon/request/request.h"
#include "daemon/sequence/constrain.h"

/* Tokens that can be of use: @s has blocks for them, and a step takes them beside the last known one. */
static uint32_t most(const struct core *core, const struct seq *s)
{
    if (s->state != SEQ_RUNNING || s->request->control.paused) return 0;
    if (s->generated == 0 || seq_known(s) - s->kv.n_tokens != 1) return 0;
    uint32_t n = seq_positions(s) - seq_known(s), room = core->config.batch_tokens - 1;
    if (n > room) n = room;
    return n < SEQ_DRAFT_MAX ? n : SEQ_DRAFT_MAX;
}

void draft_propose(struct core *core)
{
    const struct drafter *d = &core->drafter;
    for (struct seq *s = core->seqs.head; s; s = s->next) {
        uint32_t max = most(core, s), before = s->n_draft;
        const struct constraint *x = s->request->constraint;
        uint32_t n = x && max && !constraint_busy(x) ? constrain_forced(&s->sampling, s->draft, max) : 0;
        if (n == 0 && max && d->propose) n = d->propose(d->ctx, s, s->draft, max);
        if (n > max) n = max;
        for (s->n_draft = 0; s->n_draft < n; s->n_draft++)
            if ((uint32_t)s->draft[s->n_draft] >= core->model.backend->hparams.vocab) break;
        if (s->n_draft != before) plan_update(core, s);
    }
}
