/* SPDX-License-Identifier: MIT */
#include "daemon/engine/background-verify.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define IOPRIO_WHO_PROCESS 1 /* linux/ioprio.h, which older systems lack */
#define IOPRIO_IDLE        (3 << 13)

enum { PENDING, GOOD, DAMAGED }; /* background_verify.result */

/* Lower the priority of this thread: in Linux, 0 means the calling thread in all of these calls. Failures are harmless.
 */
static void lower_priority(void)
{
    if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) < 0) log_debug("SCHED_IDLE: %s", strerror(errno));
    if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) < 0) log_debug("ioprio: %s", strerror(errno));
}

/* A thread has verified the weights, as @r says. True: it is the first one, which settles the result for both. If @r is
 * negative, *why becomes the damage. */
static bool settle(struct background_verify *v, int r, char **why)
{
    int pending = PENDING;
    if (r < 0) *why = strdup(error_text(r));
    return r <= 0 && atomic_compare_exchange_strong(&v->result, &pending, r ? DAMAGED : GOOD);
}

/* It takes no lock: it could lose the CPU with it, for seconds. */
static void *idle_main(void *arg)
{
    struct background_verify *v = arg;
    struct backend *b = v->core->model.backend;
    lower_priority();
    int r = b->ops->verify_weights(b, &v->idle_stop);
    if (!settle(v, r, &v->idle_why)) return NULL;
    atomic_store(&v->stop, true);
    sem_post(&v->wake);
    if (r == 0) b->ops->keep_weights(b, &v->idle_stop);
    return NULL;
}

/* Publish what is known now. Takes @why, the damage; NULL: it is published already, or there is none. */
static void report(struct background_verify *v, char *why, bool done)
{
    struct mailbox *m = &v->core->mail;
    const int result = atomic_load(&v->result);
    pthread_mutex_lock(&m->lock);
    v->verified = result == GOOD;
    v->damaged = result == DAMAGED;
    v->done = done;
    if (why) v->why = why;
    mailbox_kick_locked(m);
    pthread_mutex_unlock(&m->lock);
}

/* The idle thread has not settled the result, and the engine stops. True: this one has. */
static bool verify_now(struct background_verify *v, char **why)
{
    struct backend *b = v->core->model.backend;
    if (!settle(v, b->ops->verify_weights(b, &v->stop), why)) return false;
    atomic_store(&v->idle_stop, true);
    return true;
}

static void *verify_main(void *arg)
{
    struct background_verify *v = arg;
    struct backend *b = v->core->model.backend;
    char *why = NULL;
    int r = pthread_create(&v->idle, NULL, idle_main, v);
    if (r) log_warning("the weights are verified at the end only: cannot start a thread: %s", strerror(r));
    while (sem_wait(&v->wake) < 0) continue;
    const bool mine = atomic_load(&v->result) == PENDING && verify_now(v, &why);
    const int result = atomic_load(&v->result);
    if (result != PENDING) report(v, mine ? steal(why) : steal(v->idle_why), false);
    if (mine && result == GOOD) {
        if (!b->weights_mapped) b->ops->keep_weights(b, &v->stop); /* no huge pages for a process that ends */
        report(v, NULL, true); /* and what the idle thread does is of no use any more */
    }
    if (r == 0) pthread_join(v->idle, NULL);
    report(v, NULL, true);
    free(why);
    free(v->idle_why);
    return NULL;
}

void background_verify_start(struct background_verify *v, struct core *core)
{
    v->core = core;
    sem_init(&v->wake, 0, 0);
    int r = pthread_create(&v->thread, NULL, verify_main, v);
    v->started = r == 0;
    if (r) log_warning("the weights are not verified: cannot start a thread: %s", strerror(r));
}

/* With damaged weights, every answer since the start may be wrong. The process ends, and the next one packs the weights
 * again from the model's own file. */
void background_verify_look(struct background_verify *v)
{
    struct mailbox *m = &v->core->mail;
    v->core->cache.may_keep = v->verified;
    if (!v->damaged || m->state == ENGINE_FAILED) return;
    mailbox_fail_locked(m, steal(v->why));
}

/* --- at a stop --- */

/* Wait until *@done or @until, if there is no damage. The caller holds the lock. */
static void wait_for(struct background_verify *v, const bool *done, uint64_t until)
{
    struct mailbox *m = &v->core->mail;
    const struct timespec t = {.tv_sec = (time_t)(until / 1000000), .tv_nsec = (long)(until % 1000000 * 1000)};
    while (!*done && !v->damaged && pthread_cond_timedwait(&m->wake, &m->lock, &t) == 0) continue;
}

void background_verify_hurry(struct background_verify *v)
{
    if (v->started) sem_post(&v->wake);
}

void background_verify_await(struct background_verify *v, uint64_t until)
{
    if (!v->started) return;
    pthread_mutex_lock(&v->core->mail.lock);
    wait_for(v, &v->verified, until);
    v->core->cache.may_keep = v->verified;
    pthread_mutex_unlock(&v->core->mail.lock);
}

void background_verify_end(struct background_verify *v, uint64_t until)
{
    if (!v->started) return;
    pthread_mutex_lock(&v->core->mail.lock);
    /* huge pages for mapped weights serve nobody any more */
    if (v->verified && !v->core->model.backend->weights_mapped) wait_for(v, &v->done, until);
    pthread_mutex_unlock(&v->core->mail.lock);
    atomic_store(&v->stop, true);
    atomic_store(&v->idle_stop, true);
    sem_post(&v->wake);
    pthread_join(v->thread, NULL);
    sem_destroy(&v->wake);
    v->started = false;
}
