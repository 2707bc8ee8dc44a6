/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/returns.h"

static void job_done(struct job *j)
{
    struct return_job *x = return_job_of(j);
    struct job_returns *r = x->returns;
    if (x->again) {
        x->again = false;
        job_pool_push(x->pool, j);
        return;
    }
    pthread_mutex_lock(r->lock);
    x->next = r->finished;
    r->finished = x;
    pthread_cond_signal(r->wake);
    pthread_mutex_unlock(r->lock);
}

void jobs_send(struct job_returns *r, struct return_job *x, uid_t uid, void (*run)(struct job *),
               void (*back)(struct return_job *))
{
    jobs_send_to(r, r->pool, x, uid, run, back);
}

void jobs_send_to(struct job_returns *r, struct job_pool *pool, struct return_job *x, uid_t uid,
                  void (*run)(struct job *), void (*back)(struct return_job *))
{
    x->returns = r;
    x->pool = pool;
    x->again = false;
    x->back = back;
    x->job.uid = uid;
    x->job.run = run;
    x->job.done = job_done;
    atomic_fetch_add(&r->out, 1);
    job_pool_push(pool, &x->job);
}

void jobs_again(struct return_job *x)
{
    x->again = true;
}

bool jobs_recall(struct return_job *x)
{
    if (!job_pool_recall(x->pool, &x->job)) return false;
    atomic_fetch_sub(&x->returns->out, 1);
    return true;
}

struct return_job *jobs_finished(struct job_returns *r)
{
    struct return_job *list = r->finished;
    r->finished = NULL;
    return list;
}

void jobs_deliver(struct job_returns *r, struct return_job *list)
{
    struct return_job *first = NULL, *next;
    for (; list; list = next) {
        next = list->next;
        list->next = first;
        first = list;
    }
    for (; first; first = next) {
        next = first->next;
        atomic_fetch_sub(&r->out, 1);
        first->back(first);
    }
}
