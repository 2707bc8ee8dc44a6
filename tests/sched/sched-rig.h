/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A machine made of numbers under the real scheduler: users who ask, cancel, stall and come back; a pool of blocks, a
 * cache that remembers (not always) what was preempted, and beginnings in common. Asserts after each decision and step.
 */
#include "daemon/sched/scheduler.h"

#define RIG_REQS    96
#define RIG_USERS   6
#define RIG_GROUPS  8
#define RIG_BLOCK   32
#define RIG_LONGEST 3402 /* tokens of the largest request */

struct rig_req {
    bool used, gone_on; /* a request; it was running before */
    uint32_t prompt, max, generated;
    uint32_t own;   /* blocks */
    uint32_t taken; /* tokens from its group's blocks */
    uint32_t kept;  /* preempted: tokens that the cache still has */
    int group;      /* -1: none */
    uint32_t common;
    uint64_t could_since, own_since; /* clock, and service of its user, since it could run; UINT64_MAX: it cannot */
    uint64_t stepped;                /* when it last could go on in a step, or did */
};

struct rig_group {
    uint32_t cached; /* tokens in the cache, whole blocks */
    uint32_t user;
};

struct rig {
    struct sched_config c;
    struct sched_book b;
    struct sched_req reqs[RIG_REQS];
    struct rig_req more[RIG_REQS];
    struct rig_group groups[RIG_GROUPS];
    struct sched_user users[RIG_USERS];
    uint64_t service[RIG_USERS];
    uint64_t steps, arrivals, now_ms, rnd;
    uint32_t n, pool, free;
    bool shared_victim; /* of this decision: somebody else might find its blocks */
    bool quiet;         /* no new requests, nobody stalls */
    double machine[SCHED_TIME_TERMS];
    /* what was seen */
    uint64_t starts, preemptions[SCHED_BLOCKS + 1], cancels, stalls, resumed, lead, mixed, slow, finished, restarts,
        too_few;
};

uint32_t rig_rnd(struct rig *g, uint32_t n);
void rig_init(struct rig *g, uint64_t seed);
void rig_step(struct rig *g);  /* events, a decision, a batch, all checked */
void rig_drain(struct rig *g); /* until nothing is left, and the pool is whole */
