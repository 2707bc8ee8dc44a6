/* SPDX-License-Identifier: MIT */
#include "daemon/request/draft.h"
#include "daemon/request/constraint.h"
#include "daemon/request/lookup-draft.h"
#include "daemon/request/model-draft.h"
#include "daemon/request/request.h"
#include "daemon/sequence/constrain.h"
#include "libcommon/error.h"

enum { BY_FORCE = 1, BY_LOOKUP = 2, BY_MODEL = 4 };

static unsigned allowed(enum proto_speculate mode)
{
    static const unsigned sets[] = {[PROTO_SPECULATE_UNSET] = BY_FORCE | BY_LOOKUP | BY_MODEL,
                                    [PROTO_SPECULATE_AUTO] = BY_FORCE | BY_LOOKUP | BY_MODEL,
                                    [PROTO_SPECULATE_OFF] = 0,
                                    [PROTO_SPECULATE_LOOKUP] = BY_FORCE | BY_LOOKUP,
                                    [PROTO_SPECULATE_DRAFT] = BY_FORCE | BY_MODEL};
    return sets[mode];
}

int draft_check(const struct core *core, enum proto_speculate mode)
{
    enum proto_speculate all = core->config.speculation.mode;
    bool one = mode == PROTO_SPECULATE_LOOKUP || mode == PROTO_SPECULATE_DRAFT;
    if (mode == PROTO_SPECULATE_DRAFT && !core->model.draft)
        return error_say(
            -EOPNOTSUPP,
            "speculate: 'draft' needs a draft model or a model with an MTP layer, and the daemon has none");
    if (!one || !(allowed(mode) & ~allowed(all))) return 0;
    return error_say(-EOPNOTSUPP, "speculate: '%s' is not possible, the daemon's configuration has '%s'",
                     proto_speculate_name(mode), proto_speculate_name(all));
}

/* Who may propose tokens of @s now. */
static unsigned wanted(const struct core *core, const struct seq *s)
{
    if (s->state != SEQ_RUNNING || s->request->proto.type == PROTO_WARM || s->request->texts) return 0;
    return allowed(s->request->proto.speculate) & allowed(core->config.speculation.mode);
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

/* Set the draft of @s, by one of @who. */
static void propose(struct core *core, struct seq *s, unsigned who)
{
    const struct drafter *d = &core->drafter;
    const struct constraint *x = s->request->constraint;
    uint32_t max = most(core, s),
             n = x && max && !constraint_busy(x) ? constrain_forced(&s->sampling, s->speculation.draft, max) : 0;
    bool forced = n > 0, asked = !forced && max && d->propose && (who & BY_LOOKUP);
    if (d->read) d->read(d->ctx, s);
    if (asked) n = d->propose(d->ctx, s, s->speculation.draft, s->speculation.chance, max);
    if (n > max) n = max;
    for (s->speculation.n_draft = 0; s->speculation.n_draft < n; s->speculation.n_draft++)
        if ((uint32_t)s->speculation.draft[s->speculation.n_draft] >= core->model.backend->hparams.vocab) break;
    s->speculation.guessed = !forced && !d->always;
    s->speculation.most = forced || !(who & BY_MODEL) ? 0 : max;
}

void draft_propose(struct core *core)
{
    for (struct seq *s = core->seqs.head; s; s = s->next) {
        uint32_t before = s->speculation.n_draft;
        bool guessed = s->speculation.guessed;
        unsigned who = wanted(core, s);
        s->speculation.n_draft = s->speculation.most = 0;
        s->speculation.guessed = s->speculation.by_model = false;
        s->speculation.states = who & BY_MODEL;
        if (who) propose(core, s, who);
        if (s->speculation.n_draft != before || s->speculation.guessed != guessed) plan_update(core, s);
    }
    model_draft_propose(core);
}

void draft_computed(struct core *core, struct seq *s, uint32_t rows)
{
    const struct drafter *d = &core->drafter;
    struct user_counts *sum = &s->request->user->counts;
    s->speculation.drafted += rows;
    sum->tokens_drafted += rows;
    core->counts.drafted += rows;
    if (s->speculation.by_model) sum->model_drafted += rows;
    if (s->speculation.by_model) s->speculation.drafted_model += rows;
    sum->passes++;
    if (!s->speculation.guessed) return;
    model_draft_computed(core, s, s->speculation.by_model ? rows : 0);
    if (d->computed) d->computed(d->ctx, s, s->speculation.by_model ? 0 : rows);
}

void draft_accepted(struct core *core, struct seq *s)
{
    const struct drafter *d = &core->drafter;
    s->speculation.accepted++;
    core->counts.accepted++;
    s->request->user->counts.tokens_accepted++;
    if (s->speculation.by_model) s->request->user->counts.model_accepted++;
    if (!s->speculation.guessed) return;
    if (s->speculation.by_model)
        model_draft_accepted(core, s);
    else if (d->accepted)
        d->accepted(d->ctx, s);
}

void draft_leave(struct core *core, struct seq *s, bool ended)
{
    model_draft_leave(core, s);
    lookup_draft_leave(core, s, ended);
}
