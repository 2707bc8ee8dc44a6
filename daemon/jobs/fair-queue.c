/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/fair-queue.h"
#include "libcommon/decay.h"
#include <assert.h>

/* us; limit how long past use counts against a user */
#define DEBT_MAX  1000000
#define DEBT_LONG 10000000 /* of a service that can take that long at once */

static uint64_t user_debt(const struct fairq *q, const struct fairq_user *u, uint64_t now)
{
    return decay_debt(u->debt, now - u->debt_at, q->config.user_share);
}

static uint64_t heavy_debt(const struct fairq *q, uint64_t now)
{
    return decay_debt(q->debt, now - q->debt_at, q->config.heavy_share);
}

static bool is_alone(const struct fairq *q, const struct fairq_user *u)
{
    return q->alone ? q->alone(q, u) : q->live == u->live;
}

static void push(struct fairq_list *l, struct fairq_user *u)
{
    u->next = NULL;
    if (l->last)
        l->last->next = u;
    else
        l->first = u;
    l->last = u;
    u->queued = true;
}

static void take_out(struct fairq_list *l, struct fairq_user *u)
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

bool fairq_is_heavy(const struct fairq *q, const struct fairq_user *u, uint64_t now)
{
    return user_debt(q, u, now) > q->config.burst;
}

/* Append @u to its list, if it has work and is not queued or blocked. */
static void queue(struct fairq *q, struct fairq_user *u, uint64_t now)
{
    if (u->queued || u->blocked || !u->first) return;
    push(fairq_is_heavy(q, u, now) ? &q->heavy : &q->light, u);
}

void fairq_add(struct fairq *q, struct fairq_user *u, struct fairq_entry *x, uint64_t now)
{
    if (x->user) return;
    x->user = u;
    x->next = NULL;
    if (u->last)
        u->last->next = x;
    else
        u->first = x;
    u->last = x;
    queue(q, u, now);
}

void fairq_remove(struct fairq *q, struct fairq_entry *x)
{
    struct fairq_user *u = x->user;
    struct fairq_entry **at, *before = NULL;
    if (!u) return;
    for (at = &u->first; *at != x; at = &(*at)->next) before = *at;
    *at = x->next;
    if (u->last == x) u->last = before;
    x->user = NULL;
    if (u->first) return;
    take_out(&q->light, u);
    take_out(&q->heavy, u);
    u->waits_from = 0;
}

void fairq_block(struct fairq *q, struct fairq_user *u, bool block, uint64_t now)
{
    u->blocked = block;
    if (!block) {
        queue(q, u, now);
        return;
    }
    take_out(&q->light, u);
    take_out(&q->heavy, u);
}

void fairq_live(struct fairq *q, struct fairq_user *u, int n)
{
    u->live += (uint64_t)n;
    q->live += (uint64_t)n;
}

/* Take the first entry of the first user in @l. If the user has more entries, it moves to the end of its list. */
static struct fairq_entry *take_turn(struct fairq *q, struct fairq_list *l, uint64_t now)
{
    struct fairq_user *u = l->first;
    struct fairq_entry *x = u->first;
    assert(x);
    if (u->waits_from) u->waited += now - u->waits_from;
    u->waits_from = 0;
    take_out(l, u);
    u->first = x->next;
    if (!u->first) u->last = NULL;
    x->user = NULL;
    queue(q, u, now);
    return x;
}

struct fairq_entry *fairq_next(struct fairq *q, uint64_t now, uint64_t *wait_usec)
{
    struct fairq_user *u = q->heavy.first;
    *wait_usec = 0;
    if (q->light.first) return take_turn(q, &q->light, now);
    if (!u || q->no_heavy) return NULL;
    uint64_t debt = heavy_debt(q, now);
    if (debt == 0 || is_alone(q, u)) return take_turn(q, &q->heavy, now);
    if (!u->waits_from) u->waits_from = now;
    *wait_usec = debt * q->config.heavy_share;
    return NULL;
}

/* The debt is not above @most then, or not above what it was. */
static void charge(struct fairq *q, struct fairq_user *u, uint64_t usec, uint64_t most, uint64_t now)
{
    const uint64_t before = user_debt(q, u, now);
    if (most < before) most = before;
    u->spent += usec;
    u->debt = before + usec < most ? before + usec : most;
    u->debt_at = now;
    if (u->debt <= q->config.burst || is_alone(q, u)) return; /* alone: it delayed no other user */
    q->debt = heavy_debt(q, now) + usec;
    if (q->debt > q->config.heavy_burst) q->debt = q->config.heavy_burst;
    q->debt_at = now;
}

void fairq_charge(struct fairq *q, struct fairq_user *u, uint64_t usec, uint64_t now)
{
    charge(q, u, usec, DEBT_MAX, now);
}

void fairq_charge_long(struct fairq *q, struct fairq_user *u, uint64_t usec, uint64_t now)
{
    charge(q, u, usec, DEBT_LONG, now);
}

bool fairq_any(const struct fairq *q)
{
    return q->light.first || q->heavy.first;
}
