/* SPDX-License-Identifier: MIT */
#include "daemon/request/draft.h"
#include "daemon/request/request.h"

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
    if (!d->propose) return;
    for (struct seq *s = core->seqs.head; s; s = s->next) {
        uint32_t max = most(core, s), n = max ? d->propose(d->ctx, s, s->draft, max) : 0, before = s->n_draft;
        if (n > max) n = max;
        for (s->n_draft = 0; s->n_draft < n; s->n_draft++)
            if ((uint32_t)s->draft[s->n_draft] >= core->model.backend->hparams.vocab) break;
        if (s->n_draft != before) plan_update(core, s);
    }
}
