/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The job pool: a few threads for work that is neither socket nor tensor (templates, tokenizing, session logs, KV on
 * disk). Jobs wait in a fair queue (fair-queue.h): the pool serves users in turn, so that one user's many jobs delay
 * another user's first job by one job at most. The jobs of one uid run one at a time, in the order of their arrival;
 * only its side jobs run beside them and each other, on half of the threads at most, and take turns of their own. A uid
 * whose jobs take much CPU time is throttled while other users wait for answers, which are computed on the same CPUs.
 */
#include "daemon/jobs/fair-queue.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct job_pool;

/* Part of a larger object of its owner, who touches no field between job_pool_push and the call of @done. */
struct job {
    uid_t uid;
    bool uncharged; /* its CPU time is not charged to the uid, because admission has limited this work already */
    bool side;      /* may run beside other jobs of its uid, and in any order */
    bool elapsed;   /* the uid is charged for the time that it takes, because another process works for it */
    void (*run)(struct job *j);
    void (*done)(struct job *j); /* called by the same thread right after run; may free the job */
    /* private to the pool */
    struct fairq_entry entry;
    struct job_user *user;
};

/* @alone(@ctx, uid): true if no user but @uid waits for an answer. Any thread calls it, without locks of the caller's;
 * NULL: never alone. Returns 0 and *out, which the caller frees; -ENOMEM; or -EAGAIN and an error message if no thread
 * can be started. */
int job_pool_new(struct job_pool **out, uint32_t threads, bool (*alone)(void *ctx, uid_t uid), void *ctx);
/* Waits for running jobs; waiting jobs are dropped without run or done. NULL ok, returns NULL. */
struct job_pool *job_pool_free(struct job_pool *p);

void job_pool_push(struct job_pool *p, struct job *j);

/* Take back a waiting job. True: it is its owner's again, neither run nor done was or will be called. False: it is
 * running or has run. */
bool job_pool_recall(struct job_pool *p, struct job *j);
