/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Between the engine's sequences and the scheduler, which is a pure function: what it is shown of them, and what of its
 * decisions is done. Engine thread only.
 */
#include "daemon/sched/scheduler.h"

struct engine;
struct seq;
struct tally;

/* What the scheduler sees, and who that is. */
struct plan {
    struct sched_config config;
    struct sched_book book;
    struct seq **seqs;            /* [n] of @reqs */
    struct sched_req *reqs;       /* [n] */
    struct sched_run *runs;       /* [n] its batch */
    struct sched_action *actions; /* [n] */
    uint32_t *places;             /* [n] */
    uint32_t n, cap;
    struct sched_user *users; /* [n_users] */
    struct tally **whose;     /* [n_users] */
    uint32_t n_users, cap_users;
    uint64_t gathered; /* how often */
    void *scratch;
    size_t scratch_size;
};

void plan_init(struct plan *p, uint32_t parallel, uint32_t batch_tokens);
void plan_fini(struct plan *p);

/* Look at all sequences that wait or run. 0 or -ENOMEM, and then nothing is planned. */
int plan_gather(struct engine *e, struct sched_state *out);
/* The users' accounts, as the scheduler has left them. */
void plan_keep_accounts(struct engine *e);

/* @s has its prompt: whose beginning is it, of those that came before? */
void plan_join(struct engine *e, struct seq *s);
/* @s has ended, or will not compute its prompt again, and others may have waited for that. */
void plan_part(struct engine *e, const struct seq *s);
