/* SPDX-License-Identifier: MIT */
#include "daemon/request/draft.h"
#include "daemon/request/constraint.h"
#include "daemon/request/request.h"
#include "daemon/sequence/constrain.h"
#include "libcommon/error.h"

int draft_check(const struct core *core, int mode)
{
    if (mode == PROTO_SPECULATE_DRAFT)
        return error_say(-EOPNOTSUPP, "speculate: 'draft' needs a draft model, and the daemon has none");
    if (mode == PROTO_SPECULATE_LOOKUP && core->config.speculate == PROTO_SPECULATE_OFF)
        return error_say(-EOPNOTSUPP, "speculate: 'lookup' is not possible, the daemon's configuration has 'off'");
    return 0;
}

static bool is_wanted(const struct core *core, const struct seq *s)
{
    const struct request *r = s->request;
    return s->state == SEQ_RUNNING && r->proto.speculate != PROTO_SPECULATE_OFF &&
           core->config.speculate != PROTO_SPECULATE_OFF && r->proto.type != PROTO_WARM;
}

/* Tokens that can be of use: @s has blocks for them, and a step takes them beside the last known one. */
static uint32_t most(const struct core *core, const struct seq *s)
{
    if (s->request->control.paused || s->held) return 0;
    if (s->generated == 0 || seq_known(s) - s->kv.n_tokens != 1) return 0;
    uint32_t n = seq_positions(s) - seq_known(s), room = core->config.batch_tokens - 1;
    if (n > room) n = room;
    return n < SEQ_DRAFT_MAX ? n : SEQ_DRAFT_MAX;
}

/* Set the draft of @s. */
static void propose(struct core *core, struct seq *s)
{
    const struct drafter *d = &core->drafter;
    const struct constraint *x = s->request->constraint;
    uint32_t max = most(core, s),
             n = x && max && !constraint_busy(x) ? constrain_forced(&s->sampling, s->speculation.draft, max) : 0;
    bool forced = n > 0;
    if (d->read) d->read(d->ctx, s);
    if (!forced && max && d->propose) n = d->propose(d->ctx, s, s->speculation.draft, s->speculation.chance, max);
    if (n > max) n = max;
    for (s->speculation.n_draft = 0; s->speculation.n_draft < n; s->speculation.n_draft++)
        if ((uint32_t)s->speculation.draft[s->speculation.n_draft] >= core->model.backend->hparams.vocab) break;
    s->speculation.guessed = !forced && !d->always;
}

void draft_propose(struct core *core)
{
    for (struct seq *s = core->seqs.head; s; s = s->next) {
        uint32_t before = s->speculation.n_draft;
        bool guessed = s->speculation.guessed;
        s->speculation.n_draft = 0;
        s->speculation.guessed = false;
        if (is_wanted(core, s)) propose(core, s);
        if (s->speculation.n_draft != before || s->speculation.guessed != guessed) plan_update(core, s);
    }
}

void draft_computed(struct core *core, struct seq *s, uint32_t rows)
{
    const struct drafter *d = &core->drafter;
    struct user_counts *sum = &s->request->user->counts;
    s->speculation.drafted += rows;
    sum->tokens_drafted += rows;
    sum->passes++;
    if (d->computed && s->speculation.guessed) d->computed(d->ctx, s, rows);
}

void draft_accepted(struct core *core, struct seq *s)
{
    const struct drafter *d = &core->drafter;
    s->speculation.accepted++;
    s->request->user->counts.tokens_accepted++;
    if (d->accepted && s->speculation.guessed) d->accepted(d->ctx, s);
}
