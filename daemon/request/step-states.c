/* SPDX-License-Identifier: MIT */
#include "daemon/request/step-states.h"
#include "daemon/request/finish.h"
#include "daemon/request/texts.h"
#include "libcommon/error.h"

/* The tokens that @s has in common with sequences that wait for them. The longest, if there are several: from the
 * others the least is computed again. */
static uint32_t shared(const struct core *core, const struct seq *s)
{
    uint32_t n = 0;
    if (!core->plan.n_sharing || s->generated) return 0;
    for (const struct seq *t = core->seqs.head; t; t = t->next)
        if (t->sched.with == s && t->sched.with_n > n) n = t->sched.with_n;
    return n;
}

void step_states_prepare(struct core *core, uint32_t runs)
{
    struct kv_cache *c = &core->cache;
    if (!c->state) return;
    for (uint32_t i = 0; i < runs; i++) {
        struct sched_run *r = &core->plan.runs[i];
        struct seq *s = core->plan.seqs[r->index];
        if (live_state_prepare(c, s, r->n, r->draft, shared(core, s))) continue;
        r->n -= r->draft;
        r->draft = 0;
        live_state_prepare(c, s, r->n, 0, shared(core, s));
    }
}

void step_states_settle(struct core *core)
{
    if (!core->cache.state) return;
    for (struct seq *s = core->seqs.head, *next; s; s = next) {
        next = s->next;
        if (s->state != SEQ_RUNNING && s->state != SEQ_ENCODING) continue;
        int r = live_state_settle(&core->cache, s);
        plan_update(core, s);
        if (r == -ENOBUFS) {
            core->counts.preemptions++;
            answer_preempt(s);
        } else if (r < 0 && s->request->texts) {
            texts_fail(s, r);
        } else if (r < 0) {
            answer_fail(s->request, s, r, error_text(r));
        }
    }
}
