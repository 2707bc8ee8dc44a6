/* SPDX-License-Identifier: MIT */
#include "daemon/engine/aux.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct aux {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct aux_job *head; /* in the order in which they are served */
    uint64_t round;       /* of the job taken last */
    bool stop;
    uint32_t n;
    pthread_t threads[];
};

static void *aux_main(void *arg)
{
    struct aux *a = arg;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->head && !a->stop) pthread_cond_wait(&a->work, &a->lock);
        if (a->stop) break;
        struct aux_job *j = a->head;
        a->head = j->next;
        a->round = j->round;
        pthread_mutex_unlock(&a->lock);
        j->run(j);
        j->done(j);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

int aux_new(struct aux **out, uint32_t threads)
{
    struct aux *a = calloc(1, sizeof(*a) + threads * sizeof(*a->threads));
    if (!a) return -ENOMEM;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    sigset_t all, old; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = 0;
    while (r == 0 && a->n < threads) {
        r = -pthread_create(&a->threads[a->n], NULL, aux_main, a);
        if (r == 0) a->n++;
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
    for (uint32_t i = 0; i < a->n; i++) pthread_join(a->threads[i], NULL);
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
