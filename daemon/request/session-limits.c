/* SPDX-License-Identifier: MIT */
#include "daemon/request/session-limits.h"
#include "daemon/model/fingerprint.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <unistd.h>

#define BYTES_MAX        (256ull << 20) /* in memory, of one user */
#define RESIDENT_BYTES   (64ull << 20)  /* in memory, of all users, beyond which idle sessions are unloaded */
#define UNLOADS_PER_TURN 4
#define IDLE_BYTES       (8ull << 20) /* in memory, of sessions unused for IDLE_USEC; beyond it they are unloaded */
#define IDLE_USEC        3000000
#define IDLE_NEXT        10000 /* us until the next turn that unloads some */
#define LOCK_USEC        20000 /* between two attempts to lock a directory that another daemon still has */
#define LOCK_TRIES       500
/* Between two searches for expired sessions: as long as sessions may live, within these limits. */
#define EXPIRE_LEAST 1000000ull
#define EXPIRE_MOST  600000000ull

/* --- opening --- */

static bool quits(struct core *core)
{
    pthread_mutex_lock(&core->mail.lock);
    bool quit = core->mail.quit;
    pthread_mutex_unlock(&core->mail.lock);
    return quit;
}

static struct session_store_config limits(const struct core *core)
{
    return (struct session_store_config){
        .dir = core->config.state_dir,
        .sessions_max_per_uid = core->config.sessions.count,
        .disk_max_per_uid = core->config.sessions.bytes,
        .disk_reserve = core->config.disk_reserve,
    };
}

void sessions_limit(struct core *core)
{
    const struct session_store_config c = limits(core);
    if (core->sessions) session_store_limit(core->sessions, &c);
}

/* An error that another start may not have. Sessions that only this daemon has would end with it, and those on disk
 * would be hidden meanwhile. */
static bool passes(int r)
{
    return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EINTR || r == -EIO;
}

int sessions_open(struct core *core)
{
    const struct session_store_config c = limits(core);
    fingerprint_of_identity(core->model_here, core->model.gguf);
    if (c.dir) {
        int r;
        /* The previous daemon may still be writing. */
        for (int i = 0; (r = session_store_open(&core->sessions, BYTES_MAX, &c)) == -EBUSY; i++) {
            if (i == LOCK_TRIES || quits(core)) break;
            if (i == 10) log_info("waiting for another daemon to exit: %s", error_text(r));
            usleep(LOCK_USEC);
        }
        if (r == 0 || r == -EBUSY || passes(r)) return r;
        log_warning("sessions are kept only in memory: %s", error_text(r));
    }
    int r = session_store_new(&core->sessions, BYTES_MAX);
    sessions_limit(core);
    return r;
}

void sessions_set_tail(struct core *core, struct session *x, struct prefix_id id)
{
    prefix_mark_tail(core->cache.prefix, id, true);
    const struct session_tail before = session_tail(x);
    prefix_mark_tail(core->cache.prefix, (struct prefix_id){before.high, before.low}, false);
    session_set_tail(x, (struct session_tail){id.high, id.low});
}

/* --- expiry --- */

struct erasure {
    struct return_job job;
    struct core *core;
    struct session *x;
};

#define erasure_of(j) ((struct erasure *)((char *)(j)-offsetof(struct erasure, job)))

static void run_erase(struct job *j)
{
    int r = session_erase(erasure_of(return_job_of(j))->x);
    if (r < 0) log_warning("an expired session cannot be removed: %s", error_text(r));
}

static void erased(struct return_job *j)
{
    struct erasure *a = erasure_of(j);
    session_release(a->core->sessions, a->x);
    free(a);
}

uint64_t sessions_next(const struct core *core)
{
    if (core->mail.state != ENGINE_READY || core->stopping) return UINT64_MAX;
    uint64_t expire = core->config.sessions.ttl_usec ? core->sessions_next.expire : UINT64_MAX;
    return expire < core->sessions_next.unload ? expire : core->sessions_next.unload;
}

/* Unload idle sessions when all take too much memory, or when they were not used for a while. An unloaded session is
 * read from disk again when it is used. */
static void unload_some(struct core *core, uint64_t now)
{
    size_t sessions;
    uint64_t bytes, idle;
    bool any = false;
    session_count(core->sessions, (uid_t)-1, &sessions, &bytes);
    for (int i = 0; i < UNLOADS_PER_TURN && bytes > IDLE_BYTES; i++) {
        any = session_idle_usec(core->sessions, &idle);
        if (!any || (bytes <= RESIDENT_BYTES && idle < IDLE_USEC)) break;
        session_unload_idle(core->sessions);
        session_count(core->sessions, (uid_t)-1, &sessions, &bytes);
    }
    core->sessions_next.unload = UINT64_MAX;
    if (bytes > IDLE_BYTES && any) core->sessions_next.unload = now + (idle < IDLE_USEC ? IDLE_USEC - idle : IDLE_NEXT);
}

void sessions_turn(struct core *core, uint64_t now)
{
    struct session *x;
    uint64_t ttl = core->config.sessions.ttl_usec;
    unload_some(core, now);
    if (!ttl || core->stopping || now < core->sessions_next.expire) return;
    core->sessions_next.expire = now + (ttl < EXPIRE_LEAST ? EXPIRE_LEAST : ttl > EXPIRE_MOST ? EXPIRE_MOST : ttl);
    while (session_acquire_expired(core->sessions, ttl, &x)) {
        struct erasure *a = calloc(1, sizeof(*a));
        if (!a) {
            session_release(core->sessions, x);
            return;
        }
        a->core = core;
        a->x = x;
        sessions_set_tail(core, x, (struct prefix_id){0});
        jobs_send(&core->mail.returns, &a->job, session_uid(x), run_erase, erased);
    }
}

void sessions_save_rest(struct core *core)
{
    struct session *x;
    size_t sessions = 0;
    uint64_t bytes;
    if (core->sessions) session_count(core->sessions, (uid_t)-1, &sessions, &bytes);
    while (sessions-- > 0 && session_acquire_unsaved(core->sessions, &x)) {
        int r = session_save(x);
        if (r < 0) log_error("%s", error_text(r));
        session_release(core->sessions, x);
    }
}
