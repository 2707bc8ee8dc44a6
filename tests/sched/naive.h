/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The rules of scheduler.h once more, slow and simple: no heaps, no parts by user, no shortcuts but those that the
 * rules name. The input stays unchanged, except where noted.
 */
#include "daemon/sched/scheduler.h"

#define NAIVE_MOST 96 /* requests, users */

struct naive_decision {
    struct sched_action out[NAIVE_MOST];
    uint32_t n;
    struct sched_user users[NAIVE_MOST]; /* afterwards */
    uint64_t floor;                      /* likewise */
};

/* False: the rules leave open which of two users comes first, so there is nothing to compare. */
bool naive_decide(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                  struct naive_decision *d);

struct naive_batch {
    struct sched_run runs[NAIVE_MOST]; /* by index of request; n == 0: not in the batch */
    struct sched_load load;
};

/* The parts get proposed tokens in the order of order[n], which the rules leave open. */
void naive_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                const struct sched_run *order, uint32_t n, struct naive_batch *out);

void naive_positions(const struct sched_config *c, const struct sched_state *s, uint32_t *pos);
uint32_t naive_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                      enum sched_class class);

/* Changes @b, but not its estimate of times, and the accounts. */
void naive_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                const struct sched_run *runs, uint32_t n, const struct sched_load *load);
