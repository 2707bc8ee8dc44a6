/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A machine made of numbers under the real scheduler: users who ask, cancel, stall and come back; a pool of blocks, a
 * cache that remembers (not always) what was preempted, and beginnings in common. Asserts after each decision and step.
 */
#include "daemon/sched/scheduler.h"

#define FIXTURE_REQS    96
#define FIXTURE_USERS   6
#define FIXTURE_GROUPS  8
#define FIXTURE_BLOCK   32
#define FIXTURE_LONGEST 3402 /* tokens of the largest request */

struct fixture_req {
    bool used, gone_on; /* a request; it was running before */
    uint32_t prompt, max, generated;
    uint32_t own;     /* blocks */
    uint32_t taken;   /* tokens from its group's blocks */
    uint32_t kept;    /* preempted: tokens that the cache still has */
    uint32_t reached; /* tokens that were computed, in any slot */
    int group;        /* -1: none */
    uint32_t common;
    uint64_t could_since, own_since; /* clock, and service of its user, since it could run; UINT64_MAX: it cannot */
    uint64_t stepped;                /* when it last could go on in a step, or did */
    uint32_t run_at, run_n;          /* tokens of the prompt that are computed in one step; 0: none */
};

struct fixture_group {
    uint32_t cached; /* tokens in the cache, whole blocks */
    uint32_t user;
};

struct fixture {
    struct sched_config c;
    struct sched_book b;
    struct sched_req reqs[FIXTURE_REQS];
    struct fixture_req more[FIXTURE_REQS];
    struct fixture_group groups[FIXTURE_GROUPS];
    struct sched_user users[FIXTURE_USERS];
    uint64_t service[FIXTURE_USERS];
    uint64_t steps, arrivals, now_ms, rnd;
    uint32_t n, pool, free;
    bool shared_victim; /* of this decision: somebody else might find its blocks */
    bool quiet;         /* no new requests, nobody stalls */
    uint64_t no_run;    /* the last step in which no run was ready, or one was computed */
    double machine[SCHED_TIME_TERMS];
    /* what was seen */
    uint64_t starts, preemptions[SCHED_QUANTUM + 1], cancels, stalls, resumed, lead, mixed, slow, finished, restarts,
        too_few, runs, due;
};

uint32_t fixture_rnd(struct fixture *g, uint32_t n);
void fixture_init(struct fixture *g, uint64_t seed);
void fixture_step(struct fixture *g);  /* events, a decision, a batch, all checked */
void fixture_drain(struct fixture *g); /* until nothing is left, and the pool is whole */
