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

/* Lower the priority of this thread: in Linux, 0 means the calling thread in all of these calls. Failures are harmless.
 */
static void lower_priority(void)
{
    if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) < 0) log_debug("SCHED_IDLE: %s", strerror(errno));
    if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) < 0) log_debug("ioprio: %s", strerror(errno));
}

static void *verify_main(void *arg)
{
    struct background_verify *v = arg;
    struct backend *b = v->core->model.backend;
    struct mailbox *m = &v->core->mail;
    lower_priority();
    int r = b->ops->verify_weights(b, &v->stop);
    pthread_mutex_lock(&m->lock);
    v->verified = r == 0;
    v->damaged = r < 0;
    if (r < 0) v->why = strdup(error_text(r));
    mailbox_kick_locked(m);
    pthread_mutex_unlock(&m->lock);
    if (r == 0) b->ops->keep_weights(b, &v->stop);
    return NULL;
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

void background_verify_start(struct background_verify *v, struct core *core)
{
    v->core = core;
    int r = pthread_create(&v->thread, NULL, verify_main, v);
    if (r == 0)
        v->started = true;
    else
        log_warning("the weights are not verified: cannot start a thread: %s", strerror(r));
}

void background_verify_end(struct background_verify *v, uint64_t usec)
{
    struct timespec t;
    if (!v->started) return;
    clock_gettime(CLOCK_REALTIME, &t);
    usec += (uint64_t)t.tv_nsec / 1000;
    t.tv_sec += (time_t)(usec / 1000000);
    t.tv_nsec = (long)(usec % 1000000 * 1000);
    if (pthread_timedjoin_np(v->thread, NULL, &t) != 0) {
        atomic_store(&v->stop, true);
        pthread_join(v->thread, NULL);
    }
    v->started = false;
    v->core->cache.may_keep = v->verified;
}
