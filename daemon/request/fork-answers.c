/* SPDX-License-Identifier: MIT */
#include "daemon/request/fork-answers.h"
#include "daemon/request/core.h"
#include <errno.h>
#include <stdlib.h>

int fork_answers(struct core *core, struct seq *s)
{
    struct seq_group *g = s->group;
    struct seq *t;
    if (plan_reserve(&core->plan, g->n - 1) < 0) return -ENOMEM;
    for (uint32_t i = 1; i < g->n; i++) {
        if (seq_fork(&t, s, i) == 0 && (t->end_node = malloc(sizeof(*t->end_node)))) continue;
        for (; i > 0; i--) seq_free(g->seqs[i]);
        return -ENOMEM;
    }
    for (uint32_t i = 1; i < g->n; i++) {
        t = g->seqs[i];
        plan_wait(core, t);
        t->sched.found = seq_known(s); /* the KV of @s */
        t->sched.looked_step = core->counts.steps + 1;
        seq_list_push(&core->seqs, t);
    }
    g->left = g->n;
    return 0;
}
