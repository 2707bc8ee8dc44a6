/* SPDX-License-Identifier: MIT */
#include "daemon/io/fairq.h"
#include <assert.h>

enum {
    USER_SHARE = 10, /* a light user gets a tenth of the thread's time, */
    HEAVY_SHARE = 5, /* and all heavy users together a fifth */
};
#define DEBT_MAX  1000000 /* us of a user: what was used up is forgotten after ten seconds */
#define HEAVY_MAX 20000   /* us of all heavy users: they wait a tenth of a second at most */

static uint64_t reduced(uint64_t debt, uint64_t elapsed, unsigned share)
{
    uint64_t less = elapsed / share;

    return less < debt ? debt - less : 0;
}

static void add_debt(struct fairq *s, struct fairq_user *u, uint64_t usec, uint64_t now)
{
    u->debt = reduced(u->debt, now - u->debt_at, USER_SHARE) + usec;
    if (u->debt > DEBT_MAX) u->debt = DEBT_MAX;
    u->debt_at = now;
    if (u->debt <= FAIRQ_BURST) return;
    s->debt = reduced(s->debt, now - s->debt_at, HEAVY_SHARE) + usec;
    if (s->debt > HEAVY_MAX) s->debt = HEAVY_MAX;
    s->debt_at = now;
}

static void push(struct fairq_line *l, struct fairq_user *u)
{
    u->next = NULL;
    if (l->last)
        l->last->next = u;
    else
        l->first = u;
    l->last = u;
    u->queued = true;
}

static void take_out(struct fairq_line *l, struct fairq_user *u)
{
    struct fairq_user **at = &l->first, *before = NULL;

    while (*at && *at != u) {
        before = *at;
        at = &(*at)->next;
    }
    if (!*at) return;
    *at = u->next;
    if (l->last == u) l->last = before;
    u->queued = false;
}

static void stop_waiting(struct fairq_user *u, uint64_t now)
{
    if (u->waits_from) u->waited += now - u->waits_from;
    u->waits_from = 0;
}

static void queue(struct fairq *s, struct fairq_user *u, uint64_t now)
{
    bool heavy = reduced(u->debt, now - u->debt_at, USER_SHARE) > FAIRQ_BURST;

    push(heavy ? &s->heavy : &s->light, u);
}

void fairq_add(struct fairq *s, struct fairq_user *u, struct fairq_entry *t, uint64_t now)
{
    if (t->user) return;
    t->user = u;
    t->next = NULL;
    if (u->last)
        u->last->next = t;
    else
        u->first = t;
    u->last = t;
    if (!u->queued) queue(s, u, now);
}

void fairq_remove(struct fairq *s, struct fairq_entry *t)
{
    struct fairq_user *u = t->user;
    struct fairq_entry **at, *before = NULL;

    if (!u) return;
    for (at = &u->first; *at != t; at = &(*at)->next) before = *at;
    *at = t->next;
    if (u->last == t) u->last = before;
    t->user = NULL;
    if (u->first) return;
    take_out(&s->light, u);
    take_out(&s->heavy, u);
    u->waits_from = 0;
}

void fairq_live(struct fairq *s, struct fairq_user *u, int n)
{
    u->live += (uint64_t)n;
    s->live += (uint64_t)n;
}

/* The user's first connection; the user goes to the end of the line if there are more. */
static struct fairq_entry *take_turn(struct fairq *s, struct fairq_line *l, uint64_t now)
{
    struct fairq_user *u = l->first;
    struct fairq_entry *t = u->first;

    assert(t);
    stop_waiting(u, now);
    take_out(l, u);
    u->first = t->next;
    if (!u->first) u->last = NULL;
    t->user = NULL;
    if (u->first) queue(s, u, now);
    return t;
}

struct fairq_entry *fairq_next(struct fairq *s, uint64_t now, uint64_t *wait_usec)
{
    struct fairq_user *u = s->heavy.first;
    uint64_t debt;

    *wait_usec = 0;
    if (s->light.first) return take_turn(s, &s->light, now);
    if (!u) return NULL;
    debt = reduced(s->debt, now - s->debt_at, HEAVY_SHARE);
    if (debt == 0 || s->live == u->live) return take_turn(s, &s->heavy, now);
    if (!u->waits_from) u->waits_from = now;
    *wait_usec = debt * HEAVY_SHARE;
    return NULL;
}

void fairq_charge(struct fairq *s, struct fairq_user *u, uint64_t usec, uint64_t now)
{
    u->spent += usec;
    add_debt(s, u, usec, now);
}

bool fairq_any(const struct fairq *s)
{
    return s->light.first || s->heavy.first;
}
