/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Replays a trace through the real scheduler and the real prefix index, on a machine with a modelled step time. There
 * are no tensors: token ids are made from the hash ids of the trace, and the load of a step gives its duration.
 */
#include "daemon/sched/scheduler.h"
#include "daemon/simulate/stats.h"
#include "daemon/simulate/trace.h"
#include <stdbool.h>

enum sim_policy {
    SIM_FCFS, /* by arrival, without overtaking or preemption, steps as full as possible */
    SIM_HOB,  /* daemon/sched/scheduler.h */
    SIM_POLICIES,
};

struct sim_config {
    enum sim_policy policy;
    uint32_t parallel, batch_tokens;
    uint32_t users;
    /* KV blocks: a share of the distinct blocks of the trace; < 0: room for all. At least the largest request. */
    double room;
    uint32_t block;                   /* tokens per block of the index: 32 … TRACE_BLOCK, a power of two */
    double stretch;                   /* factor on the clock of the trace */
    double step_ms[SCHED_TIME_PLAIN]; /* as in struct sched_time */
};

struct sim_result {
    struct stats queue, ttft, itl; /* ms: until a request starts; until its first token; between two tokens */
    struct stats *user_ttft;       /* [users] */
    uint64_t prompt, hit;          /* tokens of all prompts; of those, found in the cache at the first start */
    uint64_t computed;             /* prefilled tokens, repetitions included */
    uint64_t preemptions[SCHED_QUANTUM + 1];
    uint64_t steps, evictions, room;
    double ms, busy_ms; /* total time, and number of steps */
    double jain;        /* of users: units served ÷ an even share of all units, while the user had requests */
    double jain_speed;  /* of users: time that the requests would take alone ÷ time that they took */
};

/* 0; -ENOMEM; -EINVAL: sets the error message. Call sim_result_fini in every case. */
int sim_run(struct sim_result *out, const struct trace *t, const struct sim_config *c);
void sim_result_fini(struct sim_result *r);

/* The stretch at which the machine, with all requests and an infinite cache, would be busy for @load of the time. */
double sim_stretch(const struct trace *t, const struct sim_config *c, double load);
