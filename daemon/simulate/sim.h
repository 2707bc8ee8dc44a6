/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A trace through the real scheduler and the real prefix index, on a machine whose steps take a modelled time. No
 * tensors: token ids are made from the trace's hash ids, a step lasts what its load says.
 */
#include "daemon/engine/sched.h"
#include "daemon/simulate/stats.h"
#include "daemon/simulate/trace.h"
#include <stdbool.h>

enum sim_policy {
    SIM_FCFS, /* by arrival, nobody overtakes, nobody is preempted, steps as full as they can be */
    SIM_HOB,  /* daemon/engine/sched.h */
    SIM_POLICIES,
};

struct sim_config {
    enum sim_policy policy;
    uint32_t parallel, batch_tokens;
    uint32_t users;
    /* Blocks of KV: a share of the trace's distinct ones; < 0: room for all. Never less than the largest request. */
    double room;
    uint32_t block; /* tokens that stand in one block of the index: 32 … TRACE_BLOCK, a power of two */
    double stretch; /* of the trace's clock */
    double step_ms[SCHED_TIME_TERMS]; /* as in struct sched_time */
};

struct sim_result {
    struct stats queue, ttft, itl; /* ms: until it starts; until its first token; between two tokens */
    struct stats *user_ttft;       /* [users] */
    uint64_t prompt, hit;          /* tokens, of all prompts; found in the cache when it first started */
    uint64_t computed;             /* tokens of prefill, also what was computed again */
    uint64_t preemptions[SCHED_BLOCKS + 1];
    uint64_t steps, evictions, room;
    double ms, busy_ms; /* the whole, and steps */
    double jain;        /* of users: units served ÷ an even share of all units, while it had requests */
    double jain_speed;  /* of users: time its requests would take alone ÷ time they took */
};

/* 0; -ENOMEM; -EINVAL with a sentence. sim_result_fini in both cases. */
int sim_run(struct sim_result *out, const struct trace *t, const struct sim_config *c);
void sim_result_fini(struct sim_result *r);

/* The stretch with which the machine, alone with all requests and an infinite cache, would be busy @load of the time.
 */
double sim_stretch(const struct trace *t, const struct sim_config *c, double load);
