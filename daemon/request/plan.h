/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The plan: the sequences that wait or run, as the scheduler sees them. The scheduler is a pure function; the plan is
 * its input and its memory. A sequence is entered when it first waits and leaves when it has its answer. Between that,
 * whoever changes it calls plan_update, and plan_view makes anew only the scheduler's requests of sequences that
 * changed. Engine thread only.
 */
#include "daemon/model/kv-block.h"
#include "daemon/sched/scheduler.h"

struct core;
struct seq;
struct user;

struct plan {
    struct sched_config config;
    struct sched_book book;
    /* Entries, in the order in which they were made. They move only in plan_view and plan_reserve. */
    struct seq **seqs;      /* [n] NULL: left since the last view */
    struct sched_req *reqs; /* [n] as of the last view */
    bool *stale;            /* [n] reqs[i] is to be made anew */
    uint32_t n, cap;
    uint32_t n_viewed;  /* entries that the last view had */
    uint32_t n_left;    /* of @n, those that left since */
    uint64_t views;     /* how often plan_view was called */
    uint64_t look_step; /* before this step no waiting sequence is looked up in the cache again */
    uint32_t n_sharing; /* entries whose common prefix with another sequence is not computed */
    bool grouped;       /* n_sharing was not 0 at the last view */
    /* Counts, always up to date. */
    uint32_t n_queued; /* wait, have never run, and are not the daemon's own */
    uint32_t n_ready;  /* run, and their readers are not slow */
    /* Blocks. */
    uint32_t held[KV_GROUPS_MAX]; /* of each group with a window: what sequences hold, as of the last view, or since */
    uint32_t group;               /* the KV group whose blocks the last view showed */
    /* Users of the last view, by the first entry of each. */
    struct user **users;         /* [n_users] */
    struct sched_user *accounts; /* [n_users] */
    uint32_t n_users;
    /* Memory for the scheduler's results. */
    struct sched_run *runs;       /* [cap] the batch */
    struct sched_action *actions; /* [cap] */
    uint32_t *places;             /* [cap] positions in the queue */
    void *scratch;
};

void plan_init(struct plan *p, uint32_t parallel, uint32_t batch_tokens);
void plan_fini(struct plan *p);

/* Room for @n more sequences, for plan_wait. 0 or -ENOMEM. */
int plan_reserve(struct plan *p, uint32_t n);

/* The state of now for the scheduler, valid until a sequence enters or the next view. */
void plan_view(struct core *core, struct sched_state *out);
/* Copy the accounts of the view, as the scheduler has left them, to the users. */
void plan_keep_accounts(struct core *core);

/* Add units of service that no step has counted. */
void plan_charge(struct core *core, struct user *u, uint64_t units);

/* @s waits from now on. Unless it has an entry, it gets one, for which plan_reserve made room. */
void plan_wait(struct core *core, struct seq *s);
/* The state, tokens, blocks or control flags of @s changed. Nothing happens if it is not in the plan. */
void plan_update(struct core *core, struct seq *s);
/* @s neither waits nor runs any more. What it gives back later is counted by plan_count_held. */
void plan_leave(struct core *core, struct seq *s);

/* @s has its prompt: find the earlier sequence with the longest common prefix. */
void plan_join(struct core *core, struct seq *s);
/* @s has ended, or will not compute its prompt again: sequences that waited for its prefix find another. */
void plan_part(struct core *core, struct seq *s);
