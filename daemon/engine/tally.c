/* SPDX-License-Identifier: MIT */
/* What is kept of each user: sums, and the account with the scheduler. The one used last stands first. */
#include "daemon/engine/state.h"
#include <assert.h>
#include <stdlib.h>

#define TALLIES_MOST 1024 /* a user may have many uids */

void tally_add(struct tally *sum, const struct tally *t)
{
    sum->requests += t->requests;
    sum->tokens_prompt += t->tokens_prompt;
    sum->tokens_cached += t->tokens_cached;
    sum->tokens_generated += t->tokens_generated;
    if (!sum->last_miss) sum->last_miss = t->last_miss;
}

/* The least recently used one that has no request and, but for less than it gets in a turn, the account that it would
 * be given again. */
static void forget_one(struct engine *e)
{
    const uint64_t most = e->plan.book.floor + e->plan.config.quantum;
    struct tally **last = NULL, *t;
    for (struct tally **at = &e->tallies; *at; at = &(*at)->next)
        if ((*at)->live == 0 && (*at)->account.served <= most) last = at;
    if (!last) return;
    t = *last;
    *last = t->next;
    tally_add(&e->forgotten, t);
    free(t);
    e->n_tallies--;
}

struct tally *tally_hold(struct engine *e, uid_t uid)
{
    struct tally **at = &e->tallies, *t;
    while (*at && (*at)->uid != uid) at = &(*at)->next;
    if ((t = *at)) {
        *at = t->next;
    } else {
        if (e->n_tallies >= TALLIES_MOST) forget_one(e);
        t = calloc(1, sizeof(*t));
        if (!t) return NULL;
        t->uid = uid;
        e->n_tallies++;
    }
    t->next = e->tallies;
    t->live++;
    return e->tallies = t;
}

void tally_drop(struct tally *t)
{
    if (!t) return;
    assert(t->live > 0);
    t->live--;
}
