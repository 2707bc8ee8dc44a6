/* SPDX-License-Identifier: MIT */
/* The queue: positions, and admission to a full queue. */
#include "daemon/sched/internal.h"
#include <string.h>

/* Group the waiting requests by user, and sum up the expected units of the running requests. */
static void collect_waiting(const struct sched_config *c, const struct sched_state *s, const struct sched_scratch *x)
{
    memset(x->usage, 0, s->n_users * sizeof(*x->usage));
    for (uint32_t i = 0; i < s->n; i++) {
        struct sched_usage *w = &x->usage[s->reqs[i].user];
        if (s->reqs[i].running)
            w->expected += sched_expected_units(c, &s->reqs[i], s->reqs[i].spent);
        else
            w->n++;
    }
    sched_partition(x, s->n_users);
    for (uint32_t i = 0; i < s->n; i++) {
        struct sched_usage *w = &x->usage[s->reqs[i].user];
        if (!s->reqs[i].running) x->items[w->first + w->n++] = sched_item_of(&s->reqs[i], i);
    }
}

/* Replace the keys of a user's items, (class, arrival), by the account that the user will have at each start. */
static void assign_accounts(const struct sched_config *c, const struct sched_state *s, const struct sched_scratch *x,
                            uint32_t user)
{
    const struct sched_usage *w = &x->usage[user];
    struct sched_item *part = x->items + w->first;
    uint64_t account = s->users[user].served + w->expected;
    sched_heap_make(part, w->n);
    for (uint32_t left = w->n; left > 0; left--) { /* the first items collect at the end of the part */
        struct sched_item first = part[0];
        sched_heap_pop(part, left);
        const struct sched_req *r = &s->reqs[first.index];
        part[left - 1] = (struct sched_item){account, r->arrival, first.index};
        account += sched_expected_units(c, r, 0);
    }
}

void sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos)
{
    struct sched_scratch x = sched_scratch_init(scratch, s->n, s->n_users);
    uint32_t n = 0, place = 0;
    collect_waiting(c, s, &x);
    memset(pos, 0, s->n * sizeof(*pos));
    for (uint32_t u = 0; u < s->n_users; u++) {
        if (x.usage[u].n) assign_accounts(c, s, &x, u);
        n += x.usage[u].n;
    }
    sched_heap_make(x.items, n);
    while (n) {
        pos[x.items[0].index] = ++place;
        n = sched_heap_pop(x.items, n);
    }
}

/* The newest request of the lowest class of @user, if that is below @class; only requests that never ran. Or
 * SCHED_NONE. */
static uint32_t find_lowest(const struct sched_state *s, const bool *preempted, uint32_t user, int class)
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
    struct sched_usage *usage = sched_scratch_init(scratch, s->n, s->n_users).usage;
    uint32_t waiting = 0, users = 0, most = user, best;
    memset(usage, 0, s->n_users * sizeof(*usage));
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->reqs[i].running && !(preempted && preempted[i])) usage[s->reqs[i].user].waiting++;
    for (uint32_t u = 0; u < s->n_users; u++) {
        waiting += usage[u].waiting;
        users += usage[u].waiting || u == user;
        if (usage[u].waiting > usage[most].waiting) most = u;
    }
    if (waiting < queue) return SCHED_NONE;
    if (usage[user].waiting < queue / users) /* so that another has more */
        best = find_lowest(s, preempted, most, -1);
    else
        best = find_lowest(s, preempted, user, class);
    return best == SCHED_NONE ? s->n : best;
}
