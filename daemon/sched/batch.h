/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the scheduler: the batch that is being filled, which step.c and express.c share. */
#include "daemon/sched/internal.h"

struct step {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct sched_scratch x;
    struct sched_run *out;
    struct sched_load *load;
    uint32_t n_out, n_decode, n_prefill; /* parts of the batch; requests that can decode; requests that need prefill */
    uint32_t tokens;                     /* tokens left for prefill */
    uint32_t user;                       /* user of the first ready request */
    uint32_t part;                       /* the request of which an express step computes a part; SCHED_NONE: none */
    bool shared;                         /* requests of several users have tokens to compute */
    bool higher;                         /* one of them is of a higher class than batch */
    uint64_t least_decode, most_prefill; /* smallest account of a user that decodes, largest of one that prefills */
    uint32_t due;                        /* the request whose whole stretch has to be in the step; SCHED_NONE: none */
    bool is_short;                       /* only t->tokens limit the prefill */
    bool limited;                        /* the step has a time limit: @ms are left for prefill */
    double ms;
};

/* Has @r tokens to compute now? */
static inline bool sched_is_ready(const struct sched_req *r)
{
    return r->running && !r->paused && !r->busy && r->computed < r->known;
}

/* The tokens of @r that one step may compute. */
static inline uint32_t sched_next_of(const struct sched_req *r)
{
    uint32_t left = r->known - r->computed;
    return r->stretch && r->stretch < left ? r->stretch : left;
}

/* Thousands of pairs of tokens that see each other, for @n tokens after @before others. */
static inline double sched_pairs(uint32_t before, uint32_t n)
{
    return ((double)before * n + (double)n * n / 2) / 1000;
}

/* Add @n tokens of a request to the batch. */
void sched_batch_add(struct step *t, uint32_t index, uint32_t n);

/* Move to items[i] the one of items[i … n) whose turn it is to decode: that of a user with the fewest such turns in
 * this step, then of the user whose last decoded token is the oldest. Its user has one turn more. */
void sched_next_turn(struct step *t, uint32_t i, uint32_t n);

/* Add proposed tokens to the batch, in the room that is left. */
void sched_speculate(struct step *t);

/* Replace the batch by an express step if that is much shorter. */
void sched_express(struct step *t);

/* @ratio times the milliseconds to decode one token of one request. */
double sched_some_ms(const struct step *t, double ratio);
