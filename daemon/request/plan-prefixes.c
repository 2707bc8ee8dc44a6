/* SPDX-License-Identifier: MIT */
/* Which sequence waits for which: those with a common prefix let the first one compute it. */
#include "daemon/request/plan.h"
#include "daemon/request/request.h"
#include <assert.h>
#include <string.h>

/* The length of the common prefix in tokens, whole blocks, because sequences share blocks. 0: not more than @least,
 * which is whole blocks too. */
static uint32_t common(const struct seq *a, const struct seq *b, uint32_t least)
{
    uint32_t n = seq_known(a) < seq_known(b) ? seq_known(a) : seq_known(b), i = 0;
    const size_t block = KV_BLOCK * sizeof(int32_t);
    const int32_t *x = seq_ids(a), *y = seq_ids(b);
    if (n < least + KV_BLOCK || memcmp(&a->reuse.namespace, &b->reuse.namespace, sizeof(a->reuse.namespace)) != 0)
        return 0;
    /* Most of many sequences with the same long prefix differ right after it. */
    if (memcmp(x + least, y + least, block) != 0) return 0;
    while (n - i >= KV_BLOCK && memcmp(x + i, y + i, block) == 0) i += KV_BLOCK;
    struct items s = seq_cache_items(a), t = seq_cache_items(b);
    s.n = t.n = i;
    if (s.n_runs || t.n_runs) i = items_common(&s, &t) / KV_BLOCK * KV_BLOCK;
    return i > least ? i : 0;
}

/* Does it still compute its prompt, or will it? */
static bool computes_prompt(const struct seq *s)
{
    return s->state <= SEQ_RUNNING && !s->generated;
}

void plan_join(struct core *core, struct seq *s)
{
    s->sched.with = NULL;
    s->sched.with_n = 0;
    for (struct seq *t = core->seqs.head; t; t = t->next) {
        if (t == s || t->sched.arrival > s->sched.arrival || !computes_prompt(t)) continue;
        uint32_t n = common(s, t, s->sched.with_n);
        if (n == 0) continue;
        s->sched.with = t;
        s->sched.with_n = n;
    }
    if (s->sched.with && core->cache.n_groups > 1) reuse_anchor(s->sched.with, s->sched.with_n, PREFIX_KEEP_ONCE);
    plan_update(core, s);
}

/* The first sequence that waited for @s looks for another one; the rest wait for the first now, because a search for
 * each would take quadratic time. Their common prefix with it is at least as long as what both had in common with @s.
 */
void plan_part(struct core *core, struct seq *s)
{
    struct seq *heir = NULL;
    uint32_t heir_n = 0;
    assert(!computes_prompt(s)); /* or plan_join would choose it again */
    for (struct seq *t = core->seqs.head; t; t = t->next) {
        if (t->sched.with != s) continue;
        if (!computes_prompt(t)) { /* it waits for none, and none can wait for it */
            t->sched.with = NULL;
            t->sched.with_n = 0;
            plan_update(core, t);
            continue;
        }
        uint32_t n = t->sched.with_n;
        if (heir && heir->sched.arrival < t->sched.arrival) {
            t->sched.with = heir;
            if (heir_n < n) t->sched.with_n = heir_n;
            if (core->cache.n_groups > 1) reuse_anchor(heir, t->sched.with_n, PREFIX_KEEP_ONCE);
            plan_update(core, t);
            continue;
        }
        plan_join(core, t);
        heir = t;
        heir_n = n;
    }
}
