/* SPDX-License-Identifier: MIT */
#include "daemon/request/request-job.h"
#include "daemon/request/decode-media.h"
#include "daemon/request/types.h"
#include "daemon/sequence/fetch-blocks.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define request_of(x) ((struct request *)((char *)(x)-offsetof(struct request, job.base)))

static void run(struct job *j)
{
    struct request_job *job = &request_of(return_job_of(j))->job;
    job->result = job->work(request_of(&job->base));
    free(job->error);
    job->error = job->result < 0 ? strdup(error_text(job->result)) : NULL; /* the message belongs to this thread */
}

static void back(struct return_job *x)
{
    struct request *r = request_of(x);
    r->in_job = false;
    if (r->state == REQUEST_ENDED)
        request_returned(r, NULL);
    else
        r->job.finish(r, r->job.result);
}

static void send_to(struct request *r, struct job_pool *pool, int (*work)(struct request *r),
                    void (*finish)(struct request *r, int result))
{
    r->in_job = true;
    r->job.work = work;
    r->job.finish = finish;
    jobs_send_to(&r->core->mail.returns, pool, &r->job.base, r->uid, run, back);
}

void request_send(struct request *r, enum request_state state, int (*work)(struct request *r),
                  void (*finish)(struct request *r, int result))
{
    r->state = state;
    send_to(r, r->core->mail.returns.pool, work, finish);
}

void request_send_to(struct request *r, struct job_pool *pool, int (*work)(struct request *r),
                     void (*finish)(struct request *r, int result))
{
    r->state = REQUEST_PREPARING;
    send_to(r, pool, work, finish);
}

static void prepare(struct request *r)
{
    request_send(r, REQUEST_PREPARING, r->type->work, r->type->finish);
}

void request_prepare(struct request *r)
{
    if (!decode_media(r, prepare)) prepare(r);
}

const char *request_job_error(const struct request *r)
{
    return r->job.error ? r->job.error : error_text(r->job.result);
}

bool request_recall(struct request *r, struct seq *s)
{
    if (s && s->fetch) return seq_fetch_recall(&r->core->cache, s);
    if (r->in_job && !jobs_recall(&r->job.base)) return false;
    r->in_job = false;
    return true;
}
