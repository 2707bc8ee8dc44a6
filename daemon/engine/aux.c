/* SPDX-License-Identifier: MIT */
#include "daemon/engine/aux.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    struct aux *aux;
    pthread_t thread;
    bool busy;
    uid_t uid; /* whose job it runs */
};

struct aux {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct aux_job *head; /* in the order in which they are served */
    uint64_t round;       /* the highest of the jobs taken */
    bool stop;
    uint32_t n, started;
    struct worker workers[];
};

/* The first job whose uid leaves a thread to the others; NULL: none. */
static struct aux_job **next_job(struct aux *a)
{
    uint32_t most = a->n > 1 ? a->n - 1 : 1;
    for (struct aux_job **at = &a->head; *at; at = &(*at)->next) {
        uint32_t has = 0;
        for (uint32_t i = 0; i < a->n; i++) has += a->workers[i].busy && a->workers[i].uid == (*at)->uid;
        if (has < most) return at;
    }
    return NULL;
}

static void *aux_main(void *arg)
{
    struct worker *w = arg;
    struct aux *a = w->aux;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        struct aux_job **at = NULL, *j;
        while (!a->stop && !(at = next_job(a))) pthread_cond_wait(&a->work, &a->lock);
        if (a->stop) break;
        j = *at;
        *at = j->next;
        if (j->round > a->round) a->round = j->round;
        w->busy = true;
        w->uid = j->uid;
        pthread_mutex_unlock(&a->lock);
        j->run(j);
        j->done(j);
        pthread_mutex_lock(&a->lock);
        w->busy = false;
        pthread_cond_signal(&a->work); /* there may be two now that this uid may have: one for us, one for another */
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

int aux_new(struct aux **out, uint32_t threads)
{
    struct aux *a = calloc(1, sizeof(*a) + threads * sizeof(*a->workers));
    if (!a) return -ENOMEM;
    a->n = threads;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* but a fault is the thread's that makes it (main.c) */
    sigdelset(&all, SIGSYS); /* and a forbidden call */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = 0;
    while (r == 0 && a->started < threads) {
        struct worker *w = &a->workers[a->started];
        w->aux = a;
        r = -pthread_create(&w->thread, NULL, aux_main, w);
        if (r == 0) a->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r < 0) {
        aux_free(a);
        return error_say(r, "cannot start a thread: %s", strerror(-r));
    }
    *out = a;
    return 0;
}

struct aux *aux_free(struct aux *a)
{
    if (!a) return NULL;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    for (uint32_t i = 0; i < a->started; i++) pthread_join(a->workers[i].thread, NULL);
    pthread_cond_destroy(&a->work);
    pthread_mutex_destroy(&a->lock);
    free(a);
    return NULL;
}

void aux_push(struct aux *a, struct aux_job *j)
{
    pthread_mutex_lock(&a->lock);
    /* The k-th waiting job of a uid goes behind everybody's k-th. */
    j->round = a->round;
    for (struct aux_job *x = a->head; x; x = x->next)
        if (x->uid == j->uid && x->round >= j->round) j->round = x->round + 1;
    struct aux_job **at = &a->head;
    while (*at && (*at)->round <= j->round) at = &(*at)->next;
    j->next = *at;
    *at = j;
    pthread_cond_signal(&a->work);
    pthread_mutex_unlock(&a->lock);
}

bool aux_recall(struct aux *a, struct aux_job *j)
{
    pthread_mutex_lock(&a->lock);
    struct aux_job **at = &a->head;
    while (*at && *at != j) at = &(*at)->next;
    bool found = *at;
    if (found) *at = j->next;
    pthread_mutex_unlock(&a->lock);
    return found;
}
