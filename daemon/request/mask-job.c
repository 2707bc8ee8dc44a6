/* SPDX-License-Identifier: MIT */
#include "daemon/request/mask-job.h"
#include "daemon/request/advance.h"
#include "daemon/request/constraint.h"
#include "daemon/request/request.h"
#include "daemon/sequence/constrain.h"
#include <stdlib.h>
#include <string.h>

struct mask_place {
    struct mask_place *next;
    struct grammar_state *st;
};

/* The masks of one constraint: its grammar computes one at a time. */
struct mask_job {
    struct return_job job;
    struct mask_job *next; /* to be sent */
    struct core *core;
    struct constraint *constraint; /* held */
    struct mask_place *places;
    uid_t uid;
    uint64_t mask[]; /* [token_trie_words] not used: the grammar keeps it if it took long */
};

static struct mask_job *new_job(struct core *core, const struct seq *s)
{
    struct constraint *x = s->request->constraint;
    struct mask_job *m = calloc(1, sizeof(*m) + token_trie_words(x->trie) * sizeof(*m->mask));
    if (!m) return NULL;
    m->core = core;
    m->constraint = x;
    m->uid = s->uid;
    return m;
}

/* Adds the mask that @s needs to a job of @list. Without memory the engine computes it. */
static void add_mask(struct mask_job **list, struct core *core, const struct seq *s, uint32_t drafted)
{
    struct grammar_state *st;
    if (constrain_place(&s->sampling, s->speculation.draft, drafted, &st) <= 0) return;
    struct mask_place *p = calloc(1, sizeof(*p));
    struct mask_job *m = *list;
    while (m && m->constraint != s->request->constraint) m = m->next;
    if (p && !m && (m = new_job(core, s))) {
        m->next = *list;
        *list = m;
    }
    if (!p || !m) {
        grammar_state_free(st);
        free(p);
        return;
    }
    *p = (struct mask_place){m->places, st};
    m->places = p;
}

static void run(struct job *j)
{
    struct mask_job *m = (struct mask_job *)return_job_of(j);
    for (struct mask_place *p; (p = m->places);) {
        (void)!grammar_state_mask(p->st, m->constraint->trie,
                                  m->mask); /* an error comes back when the token is sampled */
        m->places = p->next;
        grammar_state_free(p->st);
        free(p);
    }
    constraint_job_ends(m->constraint);
}

/* A sequence that sits out and whose constraint is @x; NULL: none. */
static struct seq *held_by(struct core *core, const struct constraint *x)
{
    struct seq *s = core->seqs.head;
    while (s && !(s->held && s->request->constraint == x)) s = s->next;
    return s;
}

static void back(struct return_job *job)
{
    struct mask_job *m = (struct mask_job *)job;
    struct core *core = m->core;
    struct seq *s;
    while (!constraint_busy(m->constraint) && (s = held_by(core, m->constraint))) {
        float *row = s->held;
        s->held = NULL;
        plan_update(core, s);
        if (s->state == SEQ_RUNNING)
            advance(core, s, (struct logits){.row = row}); /* otherwise its last token is computed again */
        free(row);
    }
    constraint_drop(core->model.constraints, m->constraint);
    free(m);
}

void mask_jobs_begin(struct core *core, uint32_t n)
{
    const struct plan *p = &core->plan;
    struct mask_job *list = NULL, *m;
    if (core->running < 2) return;
    for (uint32_t i = 0; i < n; i++) {
        const struct sched_run *r = &p->runs[i];
        struct seq *s = p->seqs[r->index];
        const struct constraint *x = s->request->constraint;
        if (r->logits && x && x->slow && !constraint_busy(x)) add_mask(&list, core, s, r->draft);
    }
    /* From the first one that is sent on, the grammars may be busy. */
    while ((m = list)) {
        list = m->next;
        constraint_job_begins(core->model.constraints, m->constraint);
        m->job.job.uncharged = m->job.job.side = true; /* a part of the step */
        jobs_send(&core->mail.returns, &m->job, m->uid, run, back);
    }
}

bool mask_job_ready(struct core *core, struct seq *s, const float *row, uint64_t until)
{
    size_t bytes = core->model.backend->hparams.vocab * sizeof(*row);
    if (!s->request->constraint || constraint_wait(s->request->constraint, until)) return true;
    s->held = malloc(bytes);
    if (!s->held) return true; /* it waits, and the others with it */
    memcpy(s->held, row, bytes);
    plan_update(core, s);
    return false;
}
