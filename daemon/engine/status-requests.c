/* SPDX-License-Identifier: MIT */
#include "daemon/engine/status-requests.h"
#include "daemon/engine/state.h"
#include "daemon/engine/status-snapshot.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define WAIT_USEC 1000000 /* that a request waits for a look at the model's file */

/* The text for some requests of one uid, made in the job pool. */
struct status_job {
    struct job job;
    struct engine *engine;
    struct status_snapshot snapshot;
    struct status_request *requests;
    struct status_job *next; /* of the engine's list */
};

#define status_job_of(j) ((struct status_job *)((char *)(j)-offsetof(struct status_job, job)))

static struct status_request *request_free(struct status_request *q)
{
    struct status_request *next = q->next;
    free(q->node);
    free(q);
    return next;
}

/* Answer @q with @text, or that there was no memory; it is free after. With the lock held. */
static struct status_request *answer(struct engine *e, struct status_request *q, const char *text)
{
    struct engine_event out = {.conn = q->conn, .last = true, .ev = {.type = PROTO_EV_STATUS, .id = q->id}};
    if (!text || proto_text_set(&out.ev.status, text, strlen(text)) < 0) {
        out.ev = (struct proto_event){.type = PROTO_EV_ERROR, .id = q->id, .code = ENOMEM};
        (void)!proto_text_set(&out.ev.message, "no memory for the status", 24);
    }
    event_queue_push(e->core.mail.events, &out, steal(q->node)); /* with a node it cannot fail */
    e->core.mail.load--;
    return request_free(q);
}

static void answer_all(struct engine *e, struct status_request *list, const struct status_snapshot *s)
{
    char *text = s ? status_json(s) : NULL;
    pthread_mutex_lock(&e->core.mail.lock);
    while (list) list = answer(e, list, text);
    pthread_mutex_unlock(&e->core.mail.lock);
    free(text);
}

/* --- the job --- */

static void job_free(struct status_job *x)
{
    while (x->requests) x->requests = request_free(x->requests);
    status_snapshot_fini(&x->snapshot);
    free(x);
}

static void run(struct job *j)
{
    struct status_job *x = status_job_of(j);
    answer_all(x->engine, steal(x->requests), &x->snapshot);
}

static void done(struct job *j)
{
    struct status_job *x = status_job_of(j), **at = &x->engine->status.jobs;
    pthread_mutex_lock(&x->engine->core.mail.lock);
    while (*at != x) at = &(*at)->next;
    *at = x->next;
    pthread_mutex_unlock(&x->engine->core.mail.lock);
    job_free(x);
}

/* Answer @list, of one uid: by a job when there is a pool for it. As status_take wants it. */
static void start(struct engine *e, struct status_request *list, bool pool)
{
    struct status_job *x = calloc(1, sizeof(*x));
    if (!x || status_take(e, list->uid, &x->snapshot) < 0) {
        if (x) job_free(x);
        answer_all(e, list, NULL);
        return;
    }
    x->engine = e;
    x->requests = list;
    x->job = (struct job){.uid = list->uid, .run = run, .done = done};
    if (!pool) {
        answer_all(e, steal(x->requests), &x->snapshot);
        job_free(x);
        return;
    }
    pthread_mutex_lock(&e->core.mail.lock);
    x->next = e->status.jobs;
    e->status.jobs = x;
    pthread_mutex_unlock(&e->core.mail.lock);
    job_pool_push(e->core.mail.returns.pool, &x->job);
}

/* Those of @list that are of the first one's uid, out of it. */
static struct status_request *take_uid(struct status_request **list)
{
    struct status_request *mine = NULL, **end = &mine;
    uid_t uid = (*list)->uid;
    for (struct status_request **at = list; *at;) {
        struct status_request *q = *at;
        if (q->uid != uid) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        q->next = NULL;
        *end = q;
        end = &q->next;
    }
    return mine;
}

void status_answer(struct engine *e, struct status_request *list)
{
    bool pool = e->core.mail.state == ENGINE_READY;
    while (list) {
        struct status_request *mine = take_uid(&list);
        start(e, mine, pool);
    }
}

/* --- from other threads --- */

/* Is there a reason to wait longer? With the lock held. */
static bool may_wait(const struct engine *e)
{
    return e->core.mail.state == ENGINE_READY && e->watcher.looking && e->status.waiting &&
           clock_now_usec() < e->status.waiting->since + WAIT_USEC;
}

struct status_request *status_due(struct engine *e)
{
    if (!e->status.waiting || may_wait(e)) return NULL;
    return steal(e->status.waiting);
}

uint64_t status_next(const struct engine *e)
{
    if (!e->status.waiting) return UINT64_MAX;
    return may_wait(e) ? e->status.waiting->since + WAIT_USEC : 0;
}

/* While the model loads, the answer has only a few strings and numbers, which the lock protects. */
static void answer_loading(struct engine *e)
{
    struct status_request *list = e->core.mail.state == ENGINE_LOADING ? steal(e->status.waiting) : NULL;
    while (list) {
        struct status_request *mine = take_uid(&list);
        struct status_snapshot s;
        int r = status_take(e, mine->uid, &s);
        char *text = r < 0 ? NULL : status_json(&s);
        while (mine) mine = answer(e, mine, text);
        free(text);
        status_snapshot_fini(&s);
    }
}

void status_flush(struct engine *e)
{
    pthread_mutex_lock(&e->core.mail.lock);
    answer_loading(e);
    bool any = e->status.waiting && !may_wait(e);
    pthread_mutex_unlock(&e->core.mail.lock);
    if (!any) return;
    /* A step can take seconds: while it computes, its thread lets go of what is its own. */
    if (pthread_mutex_trylock(&e->core.own) == 0) {
        pthread_mutex_lock(&e->core.mail.lock);
        struct status_request *list = status_due(e);
        pthread_mutex_unlock(&e->core.mail.lock);
        status_answer(e, list);
        pthread_mutex_unlock(&e->core.own);
        return;
    }
    pthread_mutex_lock(&e->core.mail.lock);
    e->core.mail.kick = true; /* it is at work itself, and looks soon */
    pthread_cond_signal(&e->core.mail.wake);
    pthread_mutex_unlock(&e->core.mail.lock);
}

int status_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req)
{
    struct status_request *q = calloc(1, sizeof(*q));
    struct event_node *node = malloc(sizeof(*node));
    if (!q || !node) {
        free(q);
        free(node);
        return error_origin(-ENOMEM);
    }
    *q = (struct status_request){.node = node, .conn = conn, .id = req->id, .uid = uid, .since = clock_now_usec()};
    pthread_mutex_lock(&e->core.mail.lock);
    struct status_request **at = &e->status.waiting;
    bool first = !*at;
    if (!first) { /* the first stays in front: it waits longest */
        q->next = (*at)->next;
        at = &(*at)->next;
    }
    *at = q;
    e->core.mail.load++;
    bool look = e->core.mail.state == ENGINE_READY && !e->watcher.looking;
    e->watcher.looking |= look;
    if (first) pthread_cond_signal(&e->core.mail.wake); /* it counts the time */
    pthread_mutex_unlock(&e->core.mail.lock);
    proto_request_fini(req);
    if (look)
        model_watcher_look(&e->watcher);
    else
        status_flush(e);
    return 0;
}

void status_fini(struct engine *e)
{
    while (e->status.waiting) e->status.waiting = request_free(e->status.waiting);
    while (e->status.jobs) {
        struct status_job *x = e->status.jobs;
        e->status.jobs = x->next;
        job_free(x);
    }
}
