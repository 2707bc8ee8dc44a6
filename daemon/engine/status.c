/* SPDX-License-Identifier: MIT */
/* Status requests: they are gathered, and those of a uid that come together get one text. */
#include "daemon/engine/status-snapshot.h"
#include "daemon/engine/state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>

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
    queue_push(e->events, &out, steal(q->node)); /* with a node it cannot fail */
    e->load--;
    return request_free(q);
}

static void answer_all(struct engine *e, struct status_request *list, const struct status_snapshot *s)
{
    char *text = s ? status_json(s) : NULL;
    pthread_mutex_lock(&e->lock);
    while (list) list = answer(e, list, text);
    pthread_mutex_unlock(&e->lock);
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
    struct status_job *x = status_job_of(j), **at = &x->engine->status_jobs;
    pthread_mutex_lock(&x->engine->lock);
    while (*at != x) at = &(*at)->next;
    *at = x->next;
    pthread_mutex_unlock(&x->engine->lock);
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
    pthread_mutex_lock(&e->lock);
    x->next = e->status_jobs;
    e->status_jobs = x;
    pthread_mutex_unlock(&e->lock);
    job_pool_push(e->aux, &x->job);
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
    bool pool = e->state == ENGINE_READY;
    while (list) {
        struct status_request *mine = take_uid(&list);
        start(e, mine, pool);
    }
}

/* --- from other threads --- */

/* Is there a reason to wait longer? With the lock held. */
static bool may_wait(const struct engine *e)
{
    return e->state == ENGINE_READY && e->looking && e->asking && engine_now() < e->asking->since + STATUS_WAIT_USEC;
}

struct status_request *status_due(struct engine *e)
{
    if (!e->asking || may_wait(e)) return NULL;
    return steal(e->asking);
}

uint64_t status_next(const struct engine *e)
{
    if (!e->asking) return UINT64_MAX;
    return may_wait(e) ? e->asking->since + STATUS_WAIT_USEC : 0;
}

/* While it loads nothing but a few strings and numbers is told, for which the lock is enough. */
static void answer_loading(struct engine *e)
{
    struct status_request *list = e->state == ENGINE_LOADING ? steal(e->asking) : NULL;
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
    pthread_mutex_lock(&e->lock);
    answer_loading(e);
    bool any = e->asking && !may_wait(e);
    pthread_mutex_unlock(&e->lock);
    if (!any) return;
    /* A step can take seconds: while it computes, its thread lets go of what is its own. */
    if (pthread_mutex_trylock(&e->own) == 0) {
        pthread_mutex_lock(&e->lock);
        struct status_request *list = status_due(e);
        pthread_mutex_unlock(&e->lock);
        status_answer(e, list);
        pthread_mutex_unlock(&e->own);
        return;
    }
    pthread_mutex_lock(&e->lock);
    e->kick = true; /* it is at work itself, and looks soon */
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

int status_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req)
{
    struct status_request *q = calloc(1, sizeof(*q));
    struct queue_node *node = malloc(sizeof(*node));
    if (!q || !node) {
        free(q);
        free(node);
        return error_origin(-ENOMEM);
    }
    *q = (struct status_request){.node = node, .conn = conn, .id = req->id, .uid = uid, .since = engine_now()};
    pthread_mutex_lock(&e->lock);
    struct status_request **at = &e->asking;
    bool first = !*at;
    if (!first) { /* the first stays in front: it waits longest */
        q->next = (*at)->next;
        at = &(*at)->next;
    }
    *at = q;
    e->load++;
    bool look = e->state == ENGINE_READY && !e->looking;
    e->looking |= look;
    if (first) pthread_cond_signal(&e->wake); /* it counts the time */
    pthread_mutex_unlock(&e->lock);
    proto_request_fini(req);
    if (look)
        configure_look(e);
    else
        status_flush(e);
    return 0;
}

void status_fini(struct engine *e)
{
    while (e->asking) e->asking = request_free(e->asking);
    while (e->status_jobs) {
        struct status_job *x = e->status_jobs;
        e->status_jobs = x->next;
        job_free(x);
    }
}
