/* SPDX-License-Identifier: MIT */
#include "daemon/engine/aux.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define USERS_IDLE_MAX 64 /* that have no job, and are remembered for what they have used up */

/* A uid whose jobs take more than a fiftieth of a CPU is heavy; all such together get a quarter of one. */
static const struct fairq_config fair = {.burst = 50000, .heavy_burst = 500000, .user_share = 50, .heavy_share = 4};

struct aux_user {
    struct fairq_user fair;
    uid_t uid;
    uint32_t jobs; /* that wait or run */
    struct aux_user *next;
};

struct worker {
    struct aux *aux;
    pthread_t thread;
};

struct aux {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct fairq queue;
    struct aux_user *users, others; /* others: all those for whom there was no memory */
    uint32_t idle;                  /* users without a job */
    bool (*alone)(void *ctx, uid_t uid);
    void *ctx;
    bool stop;
    uint32_t heavy; /* jobs of heavy users that run: half of the threads are for others */
    uint32_t n, started;
    struct worker workers[];
};

#define job_of(x)  ((struct aux_job *)((char *)(x)-offsetof(struct aux_job, entry)))
#define aux_of(x)  ((const struct aux *)((const char *)(x)-offsetof(struct aux, queue)))

static uint64_t usec_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static bool is_alone(const struct fairq *q, const struct fairq_user *u)
{
    const struct aux *a = aux_of(q);
    const struct aux_user *user = (const struct aux_user *)((const char *)u - offsetof(struct aux_user, fair));
    return a->alone && a->alone(a->ctx, user->uid);
}

/* --- users --- */

static void forget_one(struct aux *a)
{
    struct aux_user **oldest = NULL;
    for (struct aux_user **at = &a->users; *at; at = &(*at)->next)
        if ((*at)->jobs == 0) oldest = at;
    if (!oldest) return;
    struct aux_user *u = *oldest;
    *oldest = u->next;
    free(u);
    a->idle--;
}

/* The user of one more job. */
static struct aux_user *hold(struct aux *a, uid_t uid)
{
    struct aux_user **at = &a->users, *u;
    while (*at && (*at)->uid != uid) at = &(*at)->next;
    if ((u = *at)) {
        *at = u->next;
        if (u->jobs == 0) a->idle--;
    } else {
        u = calloc(1, sizeof(*u));
        if (!u) u = &a->others;
        u->uid = uid;
    }
    u->jobs++;
    if (u == &a->others) return u;
    u->next = a->users;
    return a->users = u;
}

static void drop(struct aux *a, struct aux_user *u)
{
    if (--u->jobs || u == &a->others) return;
    if (++a->idle > USERS_IDLE_MAX) forget_one(a);
}

/* --- jobs --- */

/* Waits for the job whose turn it is; NULL: stop. With the lock held. */
static struct aux_job *next_job(struct aux *a)
{
    uint64_t wait;
    while (!a->stop) {
        a->queue.no_heavy = a->heavy && a->heavy >= a->n / 2;
        struct fairq_entry *x = fairq_next(&a->queue, usec_of(CLOCK_MONOTONIC), &wait);
        if (x) return job_of(x);
        if (wait == 0) {
            pthread_cond_wait(&a->work, &a->lock);
            continue;
        }
        uint64_t until = usec_of(CLOCK_MONOTONIC) + wait;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000), .tv_nsec = (long)(until % 1000000 * 1000)};
        pthread_cond_timedwait(&a->work, &a->lock, &t);
    }
    return NULL;
}

/* It has left the queue, of @u, and runs. With the lock held. */
static void run_job(struct aux *a, struct aux_user *u, struct aux_job *j)
{
    bool charged = !j->uncharged, heavy = fairq_is_heavy(&a->queue, &u->fair, usec_of(CLOCK_MONOTONIC));
    a->heavy += heavy;
    fairq_block(&a->queue, &u->fair, true, 0); /* one at a time: a uid's jobs are done in their order */
    pthread_mutex_unlock(&a->lock);
    uint64_t begin = usec_of(CLOCK_THREAD_CPUTIME_ID);
    j->run(j);
    j->done(j);
    uint64_t spent = usec_of(CLOCK_THREAD_CPUTIME_ID) - begin, now = usec_of(CLOCK_MONOTONIC);
    pthread_mutex_lock(&a->lock);
    a->heavy -= heavy;
    if (charged) fairq_charge(&a->queue, &u->fair, spent, now);
    fairq_block(&a->queue, &u->fair, false, now);
    drop(a, u);
    pthread_cond_signal(&a->work); /* there may be two now that may run: one for us, one for another */
}

static void *aux_main(void *arg)
{
    struct worker *w = arg;
    struct aux *a = w->aux;
    struct aux_job *j;
    pthread_mutex_lock(&a->lock);
    while ((j = next_job(a))) run_job(a, j->user, j);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void aux_push(struct aux *a, struct aux_job *j)
{
    pthread_mutex_lock(&a->lock);
    j->entry = (struct fairq_entry){0};
    j->user = hold(a, j->uid);
    fairq_add(&a->queue, &j->user->fair, &j->entry, usec_of(CLOCK_MONOTONIC));
    pthread_cond_signal(&a->work);
    pthread_mutex_unlock(&a->lock);
}

bool aux_recall(struct aux *a, struct aux_job *j)
{
    pthread_mutex_lock(&a->lock);
    bool waits = j->entry.user;
    fairq_remove(&a->queue, &j->entry);
    if (waits) drop(a, j->user);
    pthread_mutex_unlock(&a->lock);
    return waits;
}

/* --- the pool --- */

static int start_threads(struct aux *a)
{
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* but a fault is the thread's that makes it (main.c) */
    sigdelset(&all, SIGSYS); /* and a forbidden call */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = 0;
    while (r == 0 && a->started < a->n) {
        struct worker *w = &a->workers[a->started];
        w->aux = a;
        r = -pthread_create(&w->thread, NULL, aux_main, w);
        if (r == 0) a->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r < 0 ? error_say(r, "cannot start a thread: %s", strerror(-r)) : 0;
}

int aux_new(struct aux **out, uint32_t threads, bool (*alone)(void *ctx, uid_t uid), void *ctx)
{
    struct aux *a = calloc(1, sizeof(*a) + threads * sizeof(*a->workers));
    if (!a) return -ENOMEM;
    a->n = threads;
    a->queue = (struct fairq){.config = fair, .alone = is_alone};
    a->alone = alone;
    a->ctx = ctx;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, &attr);
    pthread_condattr_destroy(&attr);
    int r = start_threads(a);
    if (r < 0)
        aux_free(a);
    else
        *out = a;
    return r;
}

struct aux *aux_free(struct aux *a)
{
    if (!a) return NULL;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    for (uint32_t i = 0; i < a->started; i++) pthread_join(a->workers[i].thread, NULL);
    while (a->users) {
        struct aux_user *u = a->users;
        a->users = u->next;
        free(u);
    }
    pthread_cond_destroy(&a->work);
    pthread_mutex_destroy(&a->lock);
    free(a);
    return NULL;
}
