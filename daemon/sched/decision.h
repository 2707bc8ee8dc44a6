/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to sched_decide: its state, which decide.c and preempt.c share. */
#include "daemon/sched/internal.h"

struct decision {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct sched_scratch x;
    struct sched_action *out;
    uint32_t n_out, n_heap;
    uint32_t n_running, n_waiting; /* in x.list: the running requests at its start, the waiting ones at its end */
    uint32_t moved;                /* preemptions so far */
    uint32_t slots, blocks;        /* free slots and blocks */
    uint32_t higher;               /* running requests of higher classes than batch */
    uint32_t slots_most;           /* largest number of slots of one user */
    uint64_t served_most;          /* largest account of the users that run something */
    bool slow;                     /* a running request has a slow reader and may be preempted */
    bool memory_short; /* the waiting requests do not all fit into memory: a victim may lose its computed tokens */
    bool refused;      /* no victim was found for a user with this number of slots and this account */
    uint32_t refused_slots;
    uint64_t refused_served;
    bool searched_blocks; /* a search for blocks was made; it is long, so a decision makes one at most */
};

static inline void decision_add(struct decision *d, uint32_t index, enum sched_reason reason)
{
    d->out[d->n_out++] = (struct sched_action){index, reason};
    d->x.done[index] = true;
}

static inline bool decision_is_slow(const struct decision *d, const struct sched_req *r)
{
    return r->paused && d->s->now_ms >= r->paused_ms && d->s->now_ms - r->paused_ms >= d->c->yield_ms;
}

/* True if @r has only a few tokens of its prompt left, so that it needs a slot for a step or two. */
static inline bool decision_is_first_token(const struct decision *d, const struct sched_req *r)
{
    return !r->decoding && r->known - r->computed <= d->c->express_tokens;
}

/* True if as many requests of higher classes than batch run as there may: only one of them makes room for @r. */
static inline bool decision_is_full_for(const struct decision *d, const struct sched_req *r)
{
    return sched_is_higher(r) && d->higher >= d->c->parallel;
}

static inline bool decision_lacks_slot(const struct decision *d, const struct sched_req *r)
{
    return !d->slots || decision_is_full_for(d, r);
}

/* Preempt requests until @r has a slot and enough blocks. False: this is impossible, and no request is preempted. */
bool decision_make_room(struct decision *d, const struct sched_req *r);
