/* SPDX-License-Identifier: MIT */
/* The engine's thread: what it does in turn, and how it begins and ends. */
#include "daemon/engine/engine.h"
#include "daemon/engine/state.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define UPKEEP_USEC 5000000 /* that a stop waits for upkeep at most */

void engine_config_init(struct engine_config *c)
{
    *c = (struct engine_config){
        .parallel = 16,
        .kv_type = KERN_KV_F16,
        .queue = 256,
        .queue_timeout_usec = 600ull * 1000 * 1000,
        .batch_tokens = 512,
        .cache_bytes = 4ull << 30,
        .session_bytes = 1ull << 30,
        .session_count = SESSIONS_MAX,
        .disk_reserve = 256ull << 20,
    };
}

uint64_t engine_now(void)
{
    return clock_now_usec();
}

/* --- lists --- */

void seq_list_push(struct seq_list *l, struct seq *s)
{
    s->prev = l->tail;
    s->next = NULL;
    if (l->tail)
        l->tail->next = s;
    else
        l->head = s;
    l->tail = s;
}

static void list_remove(struct seq_list *l, struct seq *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else
        l->head = s->next;
    if (s->next)
        s->next->prev = s->prev;
    else
        l->tail = s->prev;
    s->prev = s->next = NULL;
}

/* --- events --- */

/* The event for the reader of @s; with @node it cannot fail. Takes what *ev holds. */
static int push_locked(struct engine *e, struct seq *s, struct proto_event *ev, bool last, struct queue_node *node)
{
    struct engine_event out = {.conn = s->conn, .last = last, .ev = *ev};
    memset(ev, 0, sizeof(*ev));
    out.ev.id = s->req.id;
    out.ev.index = s->nth;
    int r = queue_push(e->events, &out, node);
    if (r < 0) proto_event_fini(&out.ev);
    return r;
}

void engine_emit(struct engine *e, struct seq *s, struct proto_event *ev)
{
    if (s->silent) {
        proto_event_fini(ev);
        return;
    }
    bool text = ev->type == PROTO_EV_TEXT;
    pthread_mutex_lock(&e->lock);
    /* An answer with a hole in it is none; the sweep ends it. */
    if (push_locked(e, s, ev, false, NULL) < 0 && text) s->lost = true;
    pthread_mutex_unlock(&e->lock);
}

void engine_finish(struct engine *e, struct seq *s, struct proto_event *ev)
{
    bool first = s->state != SEQ_ENDED, last = first && seq_part(s);
    engine_free_slot(e, s);
    s->state = SEQ_ENDED;
    plan_part(e, s);
    tally_drop(s->tally);
    s->tally = NULL;
    if (ev) ev->more = !last;
    pthread_mutex_lock(&e->lock);
    if (ev && !s->silent)
        push_locked(e, s, ev, last, steal(s->end_node));
    else if (ev)
        proto_event_fini(ev);
    if (last && !s->public) e->load--;
    if (last && !s->public) share_give(e, s->uid);
    if (last && s->req.gen.detach) e->detached--;
    e->kick = true; /* somebody may have its blocks, or its session */
    if (!s->in_aux) list_remove(&e->all, s);
    pthread_mutex_unlock(&e->lock);
    if (!s->in_aux) seq_free(s);
}

void engine_insert(struct engine *e, struct seq *s, struct seq *after)
{
    pthread_mutex_lock(&e->lock);
    s->cancel_wanted = after->cancel_wanted;
    s->prev = after;
    s->next = after->next;
    after->next = s;
    if (s->next)
        s->next->prev = s;
    else
        e->all.tail = s;
    pthread_mutex_unlock(&e->lock);
}

void engine_free_slot(struct engine *e, struct seq *s)
{
    if (s->state != SEQ_RUNNING && s->state != SEQ_FETCHING) return;
    e->running--;
    engine_again(e); /* somebody may have it */
}

void engine_again(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->kick = true;
    pthread_mutex_unlock(&e->lock);
}

void engine_add(struct engine *e, struct seq *s)
{
    pthread_mutex_lock(&e->lock);
    seq_list_push(&e->inbox, s);
    pthread_mutex_unlock(&e->lock);
}

/* --- the thread --- */

/* Wait until there is something to do; false: quit. With the lock held. */
static bool wait_for_work(struct engine *e)
{
    while (!e->quit && !e->kick && !e->inbox.head && !e->returned) {
        uint64_t now = engine_now(), until = requests_next_deadline(e), store = store_next(e, now);
        if (store < until) until = store;
        if (turns_next(e) < until) until = turns_next(e);
        if (status_next(e) < until) until = status_next(e);
        if (step_ready(e)) {
            if (now >= e->window_end || e->running >= e->config.parallel) break;
            if (e->window_end < until) until = e->window_end;
        }
        if (until <= now) break;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000), .tv_nsec = (long)(until % 1000000 * 1000)};
        if (until == UINT64_MAX)
            pthread_cond_wait(&e->wake, &e->lock);
        else
            pthread_cond_timedwait(&e->wake, &e->lock, &t);
    }
    e->kick = false;
    return !e->quit;
}

static bool is_paused(const struct engine *e, uint64_t conn)
{
    for (const struct paused *p = e->paused; p; p = p->next)
        if (p->conn == conn) return true;
    return false;
}

/* What came in becomes the engine's: new requests, wishes. With the lock held. */
static void take_in(struct engine *e)
{
    struct seq *s;
    e->stopping = e->draining;
    configure_take(e);
    e->shed_begin |= e->shed_wanted;
    e->shed_wanted = false;
    while ((s = e->inbox.head)) {
        list_remove(&e->inbox, s);
        s->arrival = e->arrivals + 1;
        e->arrivals += s->req.gen.n > 1 ? s->req.gen.n : 1; /* a number for each answer */
        seq_list_push(&e->all, s);
    }
    for (s = e->all.head; s; s = s->next) {
        s->cancel = s->cancel_wanted;
        s->paused = is_paused(e, s->conn);
    }
}

static void engine_turn(struct engine *e, struct errand *returned, struct status_request *asking)
{
    errands_back(e, returned);
    if (e->state != ENGINE_FAILED) shed_look(e);
    status_answer(e, asking);
    requests_start_new(e);
    requests_sweep(e, engine_now());
    admit_waiting(e);
    if (step_ready(e) && (engine_now() >= e->window_end || e->running >= e->config.parallel)) step_run(e);
    if (e->state == ENGINE_FAILED) return;
    store_look(e, engine_now());
    turns_look(e, engine_now());
}

/* While the model loads, requests can be cancelled and can be too late. */
static void on_load_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct engine *e = ctx;
    atomic_fetch_add(&e->progress, 1);
    pthread_mutex_lock(&e->lock);
    take_in(e);
    pthread_mutex_unlock(&e->lock);
    requests_sweep(e, engine_now());
}

static int engine_load_all(struct engine *e)
{
    int r = load_model(&e->model, &e->config, on_load_progress, e);
    if (r == 0) r = kv_pool_new(&e->pool, e->model.backend->kv_blocks);
    if (r == 0) r = turns_open(e);
    if (r == 0) r = store_new(e);
    if (r == 0) r = sampler_new(&e->sampler, e->model.vocab);
    if (r == 0) r = step_new(e);
    if (r == 0) r = job_pool_new(&e->aux, ENGINE_JOB_THREADS, share_is_alone, e);
    if (r == 0) r = configure_begin(e);
    if (r == 0) public_warm(e);
    return r;
}

/* What the job pool still has is waited for, what waits there is taken back. */
static void engine_empty(struct engine *e)
{
    struct seq *s, *next;
    pthread_mutex_lock(&e->lock);
    take_in(e); /* the job pool may have some of these, too */
    pthread_mutex_unlock(&e->lock);
    for (s = e->all.head; s; s = next) {
        next = s->next;
        s->silent = true;
        seq_recall(e, s);
        requests_drop(e, s);
    }
    pthread_mutex_lock(&e->lock);
    while (e->errands) {
        while (!e->returned) pthread_cond_wait(&e->wake, &e->lock);
        struct errand *returned = e->returned;
        e->returned = NULL;
        pthread_mutex_unlock(&e->lock);
        errands_back(e, returned);
        pthread_mutex_lock(&e->lock);
    }
    while ((s = e->inbox.head)) {
        list_remove(&e->inbox, s);
        seq_free(s);
    }
    pthread_mutex_unlock(&e->lock);
}

static void engine_unload(struct engine *e)
{
    uint64_t now = engine_now(), flush = e->flush_until > now ? e->flush_until - now : 0;
    /* It uses the model; and without what it proves, nothing can be kept. */
    upkeep_end(e, flush < UPKEEP_USEC ? flush : UPKEEP_USEC);
    configure_end(e);
    engine_empty(e);
    turns_save_rest(e);
    e->aux = job_pool_free(e->aux);
    step_free(e);
    store_free(e, e->flush_until);
    e->sampler = sampler_free(e->sampler);
    e->sessions = session_store_free(e->sessions);
    e->pool = kv_pool_free(e->pool);
    loaded_fini(&e->model);
}

static void *engine_main(void *arg)
{
    struct engine *e = arg;
    pthread_mutex_lock(&e->own);
    int r = engine_load_all(e);
    pthread_mutex_lock(&e->lock);
    e->state = r < 0 ? ENGINE_FAILED : ENGINE_READY;
    if (r < 0) e->why = strdup(error_text(r));
    e->kick = true;
    queue_signal(e->events);
    if (r == 0) upkeep_start(e);
    while (wait_for_work(e)) {
        upkeep_look(e);
        take_in(e);
        struct errand *returned = e->returned;
        struct status_request *asking = status_due(e);
        e->returned = NULL;
        pthread_mutex_unlock(&e->lock);
        engine_turn(e, returned, asking);
        pthread_mutex_lock(&e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    engine_unload(e);
    pthread_mutex_unlock(&e->own);
    return NULL;
}

/* --- its beginning and end --- */

static int start_thread(struct engine *e)
{
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* but a fault is the thread's that makes it (main.c) */
    sigdelset(&all, SIGSYS); /* and a forbidden call */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = -pthread_create(&e->thread, NULL, engine_main, e);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r < 0) return error_say(r, "cannot start a thread: %s", strerror(-r));
    e->thread_started = true;
    return 0;
}

int engine_new(struct engine **out, const struct engine_config *c)
{
    if (c->parallel == 0) return error_say(-EINVAL, "parallel must be at least 1");
    if (c->batch_tokens == 0) return error_say(-EINVAL, "batch-tokens must be at least 1");
    struct engine *e = calloc(1, sizeof(*e));
    if (!e) return -ENOMEM;
    e->config = *c;
    plan_init(&e->plan, c->parallel, c->batch_tokens);
    e->started = engine_now();
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->own, NULL);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, &attr);
    pthread_condattr_destroy(&attr);
    int r = queue_new(&e->events);
    if (r == 0) r = start_thread(e);
    if (r < 0) {
        engine_free(e);
        return r;
    }
    *out = e;
    return 0;
}

struct engine *engine_free(struct engine *e)
{
    return engine_close(e, 0);
}

struct engine *engine_close(struct engine *e, uint64_t flush_usec)
{
    if (!e) return NULL;
    pthread_mutex_lock(&e->lock);
    e->flush_until = engine_now() + flush_usec;
    e->quit = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    if (e->thread_started) pthread_join(e->thread, NULL);
    while (e->paused) {
        struct paused *p = e->paused;
        e->paused = p->next;
        free(p);
    }
    while (e->tallies) {
        struct tally *t = e->tallies;
        e->tallies = t->next;
        free(t);
    }
    plan_fini(&e->plan);
    configure_fini(e);
    status_fini(e);
    queue_free(e->events);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->own);
    free(e->why);
    free(e->damage);
    free(e->shares);
    free(e);
    return NULL;
}
