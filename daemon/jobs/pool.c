/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/pool.h"
#include "libcommon/clock.h"
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

/* Jobs of a user that take turns. */
struct job_line {
    struct fairq_user fair;
    uid_t uid;
    uint32_t running;
};

struct job_user {
    struct job_line main, side;
    uint32_t jobs; /* that wait or run */
    struct job_user *next;
};

struct worker {
    struct job_pool *pool;
    pthread_t thread;
};

struct job_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct fairq queue;
    struct job_user *users, others; /* others: all those for whom there was no memory */
    uint32_t idle;                  /* users without a job */
    bool (*alone)(void *ctx, uid_t uid);
    void *ctx;
    bool stop;
    uint32_t heavy; /* jobs of heavy users that run: half of the threads are for others */
    uint32_t n, started;
    struct worker workers[];
};

#define job_of(x)  ((struct job *)((char *)(x)-offsetof(struct job, entry)))
#define pool_of(x) ((const struct job_pool *)((const char *)(x)-offsetof(struct job_pool, queue)))

static bool is_alone(const struct fairq *q, const struct fairq_user *u)
{
    const struct job_pool *p = pool_of(q);
    const struct job_line *line = (const struct job_line *)((const char *)u - offsetof(struct job_line, fair));
    return p->alone && p->alone(p->ctx, line->uid);
}

/* --- users --- */

static void forget_one(struct job_pool *p)
{
    struct job_user **oldest = NULL;
    for (struct job_user **at = &p->users; *at; at = &(*at)->next)
        if ((*at)->jobs == 0) oldest = at;
    if (!oldest) return;
    struct job_user *u = *oldest;
    *oldest = u->next;
    free(u);
    p->idle--;
}

/* The user of one more job. */
static struct job_user *hold(struct job_pool *p, uid_t uid)
{
    struct job_user **at = &p->users, *u;
    while (*at && (*at)->main.uid != uid) at = &(*at)->next;
    if ((u = *at)) {
        *at = u->next;
        if (u->jobs == 0) p->idle--;
    } else {
        u = calloc(1, sizeof(*u));
        if (!u) u = &p->others;
        u->main.uid = u->side.uid = uid;
    }
    u->jobs++;
    if (u == &p->others) return u;
    u->next = p->users;
    return p->users = u;
}

static void drop(struct job_pool *p, struct job_user *u)
{
    if (--u->jobs || u == &p->others) return;
    if (++p->idle > USERS_IDLE_MAX) forget_one(p);
}

/* --- jobs --- */

/* Waits for the job whose turn it is; NULL: stop. With the lock held. */
static struct job *next_job(struct job_pool *p)
{
    uint64_t wait;
    while (!p->stop) {
        p->queue.no_heavy = p->heavy && p->heavy >= p->n / 2;
        struct fairq_entry *x = fairq_next(&p->queue, clock_now_usec(), &wait);
        if (x) return job_of(x);
        if (wait == 0) {
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        uint64_t until = clock_now_usec() + wait;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000), .tv_nsec = (long)(until % 1000000 * 1000)};
        pthread_cond_timedwait(&p->work, &p->lock, &t);
    }
    return NULL;
}

static struct job_line *line_of(struct job *j)
{
    return j->side ? &j->user->side : &j->user->main;
}

/* How many jobs of a line may run at once: of the main one only one, so that they are done in their order. */
static uint32_t line_max(const struct job_pool *p, const struct job *j)
{
    return j->side && p->n >= 4 ? p->n / 2 : 1;
}

/* It has left the queue, and runs. With the lock held. */
static void run_job(struct job_pool *p, struct job *j)
{
    struct job_user *u = j->user;
    struct job_line *line = line_of(j);
    bool charged = !j->uncharged, elapsed = j->elapsed,
         heavy = fairq_is_heavy(&p->queue, &line->fair, clock_now_usec());
    p->heavy += heavy;
    if (++line->running == line_max(p, j)) fairq_block(&p->queue, &line->fair, true, 0);
    pthread_mutex_unlock(&p->lock);
    uint64_t begin = elapsed ? clock_now_usec() : clock_thread_usec();
    error_forget();
    j->run(j);
    j->done(j);
    uint64_t now = clock_now_usec(), spent = (elapsed ? now : clock_thread_usec()) - begin;
    pthread_mutex_lock(&p->lock);
    p->heavy -= heavy;
    if (charged) (elapsed ? fairq_charge_long : fairq_charge)(&p->queue, &line->fair, spent, now);
    line->running--;
    fairq_block(&p->queue, &line->fair, false, now);
    drop(p, u);
    pthread_cond_signal(&p->work); /* there may be two now that may run: one for us, one for another */
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct job_pool *p = w->pool;
    struct job *j;
    pthread_mutex_lock(&p->lock);
    while ((j = next_job(p))) run_job(p, j);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void job_pool_push(struct job_pool *p, struct job *j)
{
    pthread_mutex_lock(&p->lock);
    j->entry = (struct fairq_entry){0};
    j->user = hold(p, j->uid);
    fairq_add(&p->queue, &line_of(j)->fair, &j->entry, clock_now_usec());
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

bool job_pool_recall(struct job_pool *p, struct job *j)
{
    pthread_mutex_lock(&p->lock);
    bool waits = j->entry.user;
    fairq_remove(&p->queue, &j->entry);
    if (waits) drop(p, j->user);
    pthread_mutex_unlock(&p->lock);
    return waits;
}

/* --- the pool --- */

static int start_threads(struct job_pool *p)
{
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* but a fault is the thread's that makes it (main.c) */
    sigdelset(&all, SIGSYS); /* and a forbidden call */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = 0;
    while (r == 0 && p->started < p->n) {
        struct worker *w = &p->workers[p->started];
        w->pool = p;
        r = -pthread_create(&w->thread, NULL, worker_main, w);
        if (r == 0) p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r < 0 ? error_say(r, "cannot start a thread: %s", strerror(-r)) : 0;
}

int job_pool_new(struct job_pool **out, uint32_t threads, bool (*alone)(void *ctx, uid_t uid), void *ctx)
{
    struct job_pool *p = calloc(1, sizeof(*p) + threads * sizeof(*p->workers));
    if (!p) return -ENOMEM;
    p->n = threads;
    p->queue = (struct fairq){.config = fair, .alone = is_alone};
    p->alone = alone;
    p->ctx = ctx;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, &attr);
    pthread_condattr_destroy(&attr);
    int r = start_threads(p);
    if (r < 0)
        job_pool_free(p);
    else
        *out = p;
    return r;
}

struct job_pool *job_pool_free(struct job_pool *p)
{
    if (!p) return NULL;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    while (p->users) {
        struct job_user *u = p->users;
        p->users = u->next;
        free(u);
    }
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}
