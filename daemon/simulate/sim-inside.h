/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of the simulation, shared by its files. */
#include "daemon/cache/prefix/prefix.h"
#include "daemon/simulate/sim.h"

struct sim_seq {
    const struct trace_request *q;
    uint64_t id;             /* index in the trace */
    double arrived, token;   /* ms; time of its last token */
    bool started;            /* once */
    double alone;            /* ms that it would take alone */
    uint32_t generated, hit; /* tokens; found in the cache at the first start */
    uint64_t leader;         /* id of the request that it shares with; UINT64_MAX: none */
    uint32_t common;         /* tokens */
    /* while running */
    struct prefix_node *node; /* held: the last node of its tokens in the index */
    uint32_t n_nodes;         /* nodes up to that one */
    uint32_t *own;            /* [n_own] blocks that no node has */
    uint32_t n_own;
};

/* Statistics of a user. */
struct sim_user {
    uint32_t requests;  /* current */
    double even, got;   /* units: even share, and served, while it had requests */
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
    struct sim_seq *seqs;   /* [n], parallel to it */
    uint32_t n;
    struct sched_action *actions;
    struct sched_run *runs;
    void *scratch;
    double now;
    size_t next; /* index of the next request to arrive */
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
/* Tokens at the start of @q that are in the cache now, at most all. */
uint32_t sim_cache_find(struct sim *s, uint32_t i);
/* Takes the cached blocks, and new blocks for the rest. 0; 1: not enough blocks, nothing changed; -ENOMEM. */
int sim_cache_start(struct sim *s, uint32_t i);
/* Puts the computed blocks into the index. 0 or -ENOMEM. */
int sim_cache_add(struct sim *s, uint32_t i, bool answer);
void sim_cache_end(struct sim *s, uint32_t i); /* returns all blocks */

/* --- sim-fcfs.c --- */

uint32_t sim_fcfs_decide(const struct sched_config *c, const struct sched_state *s, struct sched_action *out);
uint32_t sim_fcfs_step(const struct sched_config *c, const struct sched_state *s, struct sched_run *out);
