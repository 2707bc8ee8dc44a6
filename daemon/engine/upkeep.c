/* SPDX-License-Identifier: MIT */
#include "daemon/engine/state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IOPRIO_WHO_PROCESS 1 /* linux/ioprio.h, which older systems lack */
#define IOPRIO_IDLE        (3 << 13)

/* This thread only: in Linux 0 means the caller in all of these. Refusals cost nothing but politeness. */
static void step_back(void)
{
    if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) < 0) log_debug("SCHED_IDLE: %s", strerror(errno));
    if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) < 0) log_debug("ioprio: %s", strerror(errno));
}

static void *upkeep_main(void *arg)
{
    struct engine *e = arg;
    struct backend *b = e->model.backend;
    step_back();
    int r = b->ops->background_verify(b, &e->upkeep_stop);
    pthread_mutex_lock(&e->lock);
    e->kick = true;
    e->proved = r == 0 && !atomic_load(&e->upkeep_stop);
    e->damaged = r < 0;
    if (r < 0) e->damage = strdup(error_text(r));
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Whatever was said since the start may be wrong, and sessions hold it: the process ends, and the next one packs anew
 * from the model's own file. */
void upkeep_look(struct engine *e)
{
    e->kept_good = e->proved;
    if (!e->damaged || e->state == ENGINE_FAILED) return;
    e->state = ENGINE_FAILED;
    e->why = steal(e->damage);
    queue_signal(e->events);
}

void upkeep_start(struct engine *e)
{
    int r = pthread_create(&e->upkeep, NULL, upkeep_main, e);
    if (r == 0)
        e->upkeep_started = true;
    else
        log_warning("no thread for upkeep: %s", strerror(r));
}

void upkeep_end(struct engine *e, uint64_t usec)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    usec += (uint64_t)t.tv_nsec / 1000;
    t.tv_sec += (time_t)(usec / 1000000);
    t.tv_nsec = (long)(usec % 1000000 * 1000);
    if (e->upkeep_started && pthread_timedjoin_np(e->upkeep, NULL, &t) != 0) {
        atomic_store(&e->upkeep_stop, true);
        pthread_join(e->upkeep, NULL);
    }
    e->upkeep_started = false;
    e->kept_good = e->proved;
}
