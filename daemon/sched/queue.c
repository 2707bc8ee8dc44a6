/* SPDX-License-Identifier: MIT */
/* The queue: places in it, and who is refused when it is full. */
#include "daemon/sched/internal.h"
#include <string.h>

/* Each user's waiting requests into its part of items. Running ones count for who[].ahead. */
static void sort_out(const struct sched_config *c, const struct sched_state *s, const struct sched_scratch *x)
{
    memset(x->who, 0, s->n_users * sizeof(*x->who));
    for (uint32_t i = 0; i < s->n; i++) {
        struct sched_who *w = &x->who[s->reqs[i].user];
        if (s->reqs[i].running)
            w->ahead += sched_ahead(c, &s->reqs[i], s->reqs[i].spent);
        else
            w->n++;
    }
    sched_parts(x, s->n_users);
    for (uint32_t i = 0; i < s->n; i++) {
        struct sched_who *w = &x->who[s->reqs[i].user];
        if (!s->reqs[i].running) x->items[w->first + w->n++] = sched_item_of(&s->reqs[i], i);
    }
}

/* In place of (class, arrival): the account the user will have when its turn comes. */
static void tag(const struct sched_config *c, const struct sched_state *s, const struct sched_scratch *x, uint32_t user)
{
    const struct sched_who *w = &x->who[user];
    struct sched_item *part = x->items + w->first;
    uint64_t account = s->users[user].served + w->ahead;
    sched_heap_make(part, w->n);
    for (uint32_t left = w->n; left > 0; left--) { /* the first ones gather at the end */
        struct sched_item first = part[0];
        sched_heap_pop(part, left);
        const struct sched_req *r = &s->reqs[first.index];
        part[left - 1] = (struct sched_item){account, r->arrival, first.index};
        account += sched_ahead(c, r, 0);
    }
}

void sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos)
{
    struct sched_scratch x = sched_scratch_cut(scratch, s->n, s->n_users);
    uint32_t n = 0, place = 0;
    sort_out(c, s, &x);
    memset(pos, 0, s->n * sizeof(*pos));
    for (uint32_t u = 0; u < s->n_users; u++) {
        if (x.who[u].n) tag(c, s, &x, u);
        n += x.who[u].n;
    }
    sched_heap_make(x.items, n);
    while (n) {
        pos[x.items[0].index] = ++place;
        n = sched_heap_pop(x.items, n);
    }
}

/* The newest of the lowest class below @class of @user's that never ran, or SCHED_NONE. */
static uint32_t least_of(const struct sched_state *s, const bool *preempted, uint32_t user, int class)
{
    uint32_t best = SCHED_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i], *b = best == SCHED_NONE ? NULL : &s->reqs[best];
        if (r->running || r->user != user || (int)r->class <= class || (preempted && preempted[i])) continue;
        if (!b || r->class > b->class || (r->class == b->class && r->arrival > b->arrival)) best = i;
    }
    return best;
}

uint32_t sched_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                      enum sched_class class, void *scratch)
{
    struct sched_who *who = sched_scratch_cut(scratch, s->n, s->n_users).who;
    uint32_t waiting = 0, users = 0, most = user, best;
    memset(who, 0, s->n_users * sizeof(*who));
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->reqs[i].running && !(preempted && preempted[i])) who[s->reqs[i].user].waiting++;
    for (uint32_t u = 0; u < s->n_users; u++) {
        waiting += who[u].waiting;
        users += who[u].waiting || u == user;
        if (who[u].waiting > who[most].waiting) most = u;
    }
    if (waiting < queue) return SCHED_NONE;
    if (most != user && who[user].waiting < queue / users && who[most].waiting > who[user].waiting)
        best = least_of(s, preempted, most, -1);
    else
        best = least_of(s, preempted, user, class);
    return best == SCHED_NONE ? s->n : best;
}
