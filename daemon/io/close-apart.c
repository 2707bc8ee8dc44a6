/* SPDX-License-Identifier: MIT */
#include "daemon/io/close-apart.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    THREADS_MAX = 256, /* of all users together */
    USER_THREADS = 8,
};

struct waiting {
    struct waiting *next;
    int fd;
};

/* The queue of a user. It exists while n > 0. */
struct queue {
    struct queue *next;
    uid_t uid;
    struct waiting *first, **last;
    size_t n; /* also those that threads are closing */
    int threads;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue *queues;
static int n_threads, n_closing; /* threads; those that close a descriptor now */

/* The queue of @uid. NULL: it has none. */
static struct queue *find(uid_t uid)
{
    struct queue *q = queues;
    while (q && q->uid != uid) q = q->next;
    return q;
}

static struct queue *make(uid_t uid)
{
    struct queue *q = calloc(1, sizeof(*q));
    if (!q) return NULL;
    q->uid = uid;
    q->last = &q->first;
    q->next = queues;
    queues = q;
    return q;
}

/* A queue whose descriptors wait for a thread. */
static struct queue *next_queue(void)
{
    struct queue *q = queues;
    while (q && (!q->first || q->threads == USER_THREADS)) q = q->next;
    return q;
}

static void forget_if_empty(struct queue *q)
{
    struct queue **at = &queues;
    if (q->n) return;
    while (*at != q) at = &(*at)->next;
    *at = q->next;
    free(q);
}

static void *run(void *arg);

/* One more thread, unless one is about to look for work. If none can be made, another one or the next call closes what
 * waits. */
static void start(void)
{
    pthread_attr_t a;
    pthread_t t;
    sigset_t all, old;
    if (n_threads > n_closing || n_threads == THREADS_MAX || pthread_attr_init(&a)) return;
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&a, 64 << 10);
    sigfillset(&all);
    sigdelset(&all, SIGBUS);                  /* but a fault is the thread's that makes it (main.c) */
    sigdelset(&all, SIGSYS);                  /* and a forbidden call */
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's */
    if (pthread_create(&t, &a, run, NULL) == 0) n_threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&a);
}

/* Close the first descriptor of @q, without the lock meanwhile. Another thread takes the next one. */
static void close_first(struct queue *q)
{
    struct waiting *w = q->first;
    q->first = w->next;
    if (!q->first) q->last = &q->first;
    q->threads++;
    n_closing++;
    if (next_queue()) start();
    pthread_mutex_unlock(&lock);
    close(w->fd);
    free(w);
    pthread_mutex_lock(&lock);
    n_closing--;
    q->threads--;
    q->n--;
    forget_if_empty(q);
}

static void *run(void *arg)
{
    struct queue *q;
    pthread_mutex_lock(&lock);
    while ((q = next_queue())) close_first(q);
    n_threads--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

void close_apart(int fd, uid_t uid)
{
    struct waiting *w = malloc(sizeof(*w));
    pthread_mutex_lock(&lock);
    struct queue *q = w ? find(uid) : NULL;
    if (w && !q) q = make(uid);
    if (q) {
        *w = (struct waiting){.fd = fd};
        *q->last = w;
        q->last = &w->next;
        q->n++;
        if (q->threads < USER_THREADS) start();
    }
    pthread_mutex_unlock(&lock);
    if (q) return;
    free(w);
    close(fd);
}

void close_apart_socket(int fd, uid_t uid)
{
    shutdown(fd, SHUT_RDWR);
    close_apart(fd, uid);
}

size_t close_apart_waiting(uid_t uid)
{
    pthread_mutex_lock(&lock);
    const struct queue *q = find(uid);
    size_t n = q ? q->n : 0;
    pthread_mutex_unlock(&lock);
    return n;
}
