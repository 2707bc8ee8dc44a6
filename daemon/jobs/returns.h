/* SPDX-License-Identifier: MIT */
#pragma once
/* Jobs whose results go back to the thread that sent them: the engine's thread sends, the pool runs, the engine's
 * thread takes the finished ones and calls their @back. */
#include "daemon/jobs/pool.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

struct return_job;

struct job_returns {
    struct job_pool *pool; /* of most jobs */
    pthread_mutex_t *lock; /* the owner's; guards @finished */
    pthread_cond_t *wake;  /* signalled when a job has finished */
    struct return_job *finished;
    atomic_uint out; /* jobs that were sent and not delivered */
};

/* Part of a larger object. From jobs_send until @back is called, or jobs_recall returns true, the pool has it. */
struct return_job {
    struct job job;
    struct job_returns *returns;
    struct job_pool *pool; /* that has it */
    bool again;            /* jobs_again was called */
    void (*back)(struct return_job *x);
    struct return_job *next;
};

#define return_job_of(j) ((struct return_job *)((char *)(j)-offsetof(struct return_job, job)))

/* Have the pool run @x for @uid; later jobs_deliver calls @back. Any thread. */
void jobs_send(struct job_returns *r, struct return_job *x, uid_t uid, void (*run)(struct job *),
               void (*back)(struct return_job *));
/* The same with another pool than r->pool. */
void jobs_send_to(struct job_returns *r, struct job_pool *pool, struct return_job *x, uid_t uid,
                  void (*run)(struct job *), void (*back)(struct return_job *));
/* While @x runs: it is not finished, and runs again after other jobs. */
void jobs_again(struct return_job *x);
/* Take back a job that still waits: true, and neither run nor @back is called. */
bool jobs_recall(struct return_job *x);
/* The finished jobs, the last one first. The caller holds the lock. */
struct return_job *jobs_finished(struct job_returns *r);
/* Call @back of each, in the order in which they finished. */
void jobs_deliver(struct job_returns *r, struct return_job *list);
