/* SPDX-License-Identifier: MIT */
#pragma once
/* Inside the simulation: what its files share. */
#include "daemon/cache/prefix.h"
#include "daemon/simulate/sim.h"

struct sim_seq {
    const struct trace_request *q;
    uint64_t id;             /* in the trace */
    double arrived, token;   /* ms; when its last token came */
    bool started;            /* once */
    double alone;            /* ms it would take alone */
    uint32_t generated, hit; /* tokens; from the cache when it first started */
    uint64_t leader;         /* the id of the one it shares with; UINT64_MAX: none */
    uint32_t common;         /* tokens */
    /* while it runs */
    struct prefix_node *node; /* held: the last one of its own tokens in the index */
    uint32_t n_nodes;         /* up to there */
    uint32_t *own;            /* [n_own] blocks it has and that no node has */
    uint32_t n_own;
};

/* Of a user. */
struct sim_user {
    uint32_t requests;  /* now */
    double even, got;   /* units, while it had some */
    double alone, took; /* ms of its requests */
};

struct sim {
    const struct trace *t;
    const struct sim_config *c;
    struct sim_result *out;
    struct sched_config sched;
    struct sched_book book;
    struct sched_time machine;
    struct sched_user *users;
    struct sched_req *reqs; /* [n] */
    struct sim_seq *seqs;   /* [n], beside them */
    uint32_t n;
    struct sched_action *actions;
    struct sched_run *runs;
    void *scratch;
    double now;
    size_t next; /* of the trace: the next to arrive */
    struct kv_pool *pool;
    struct prefix *prefix;
    int32_t *ids;             /* scratch: the tokens of one request */
    struct sim_user *by_user; /* [users] */
    uint32_t n_active;        /* users that have requests */
};

/* --- sim-cache.c --- */

int sim_cache_new(struct sim *s);
void sim_cache_free(struct sim *s);
uint32_t sim_cache_free_blocks(const struct sim *s);
uint32_t sim_cache_blocks(const struct sim *s, const struct trace_request *q); /* of prompt and answer */
/* Tokens of @q's beginning in the cache now, at most all. */
uint32_t sim_cache_find(struct sim *s, uint32_t i);
/* Take what is in the cache and blocks for the rest. 0; 1: they do not suffice, nothing changed; -ENOMEM. */
int sim_cache_start(struct sim *s, uint32_t i);
/* What was computed so far goes to the index. 0 or -ENOMEM. */
int sim_cache_add(struct sim *s, uint32_t i, bool answer);
void sim_cache_end(struct sim *s, uint32_t i); /* gives everything back */

/* --- sim-fcfs.c --- */

uint32_t sim_fcfs_decide(const struct sched_config *c, const struct sched_state *s, struct sched_action *out);
uint32_t sim_fcfs_step(const struct sched_config *c, const struct sched_state *s, struct sched_run *out);
