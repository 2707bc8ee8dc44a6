/* SPDX-License-Identifier: MIT */
#include "daemon/io/close-apart.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

enum { THREADS_MAX = 256 }; /* that wait, of all peers together */

static atomic_int threads;

static void *run(void *arg)
{
    close((int)(intptr_t)arg);
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

static int start(int fd)
{
    pthread_attr_t a;
    pthread_t t;
    sigset_t all, old;
    int r = pthread_attr_init(&a);
    if (r) return r;
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&a, 64 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's */
    r = pthread_create(&t, &a, run, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&a);
    return r;
}

void close_apart(int fd)
{
    if (atomic_fetch_add(&threads, 1) < THREADS_MAX && start(fd) == 0) return;
    atomic_fetch_sub(&threads, 1);
    close(fd);
}
