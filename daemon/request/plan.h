/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Between the sequences and the scheduler, which is a pure function: the view of all sequences that the scheduler gets,
 * and the accounts that it leaves. Engine thread only.
 */
#include "daemon/sched/scheduler.h"

struct core;
struct seq;
struct user;

struct plan {
    struct sched_config config;
    struct sched_book book;
    struct seq **seqs;            /* [n] the sequences of @reqs */
    struct sched_req *reqs;       /* [n] */
    struct sched_run *runs;       /* [n] the batch */
    struct sched_action *actions; /* [n] */
    uint32_t *places;             /* [n] positions in the queue */
    uint32_t n, cap;
    struct sched_user *accounts; /* [n_users] */
    struct user **users;         /* [n_users] */
    uint32_t n_users, cap_users;
    uint64_t gathered; /* how often */
    uint32_t group;    /* the KV group whose blocks the scheduler sees */
    void *scratch;
    size_t scratch_size;
};

void plan_init(struct plan *p, uint32_t parallel, uint32_t batch_tokens);
void plan_fini(struct plan *p);

/* View all sequences that wait or run. 0 or -ENOMEM, and then nothing is planned. */
int plan_gather(struct core *core, struct sched_state *out);
/* Take over the users' accounts as the scheduler has left them. */
void plan_keep_accounts(struct core *core);

/* @s waits from now on. */
void plan_wait(struct core *core, struct seq *s);
/* @s has its prompt: find the earlier sequence with the longest common prefix. */
void plan_join(struct core *core, struct seq *s);
/* @s has ended, or will not compute its prompt again: sequences that waited for its prefix find another. */
void plan_part(struct core *core, struct seq *s);
