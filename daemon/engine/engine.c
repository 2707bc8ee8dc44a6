/* SPDX-License-Identifier: MIT */
/* The engine's thread: what it does in turn, and how it begins and ends. */
#include "daemon/engine/engine.h"
#include "daemon/engine/memory-pressure.h"
#include "daemon/engine/state.h"
#include "daemon/engine/status-requests.h"
#include "daemon/request/admit.h"
#include "daemon/request/encode-media.h"
#include "daemon/request/lookup-draft.h"
#include "daemon/request/media-room.h"
#include "daemon/request/model-draft.h"
#include "daemon/request/named-users.h"
#include "daemon/request/public-prefixes.h"
#include "daemon/request/recover.h"
#include "daemon/request/request-job.h"
#include "daemon/request/request.h"
#include "daemon/request/session-limits.h"
#include "daemon/request/start.h"
#include "daemon/request/step.h"
#include "daemon/request/texts.h"
#include "daemon/request/turn.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define JOB_THREADS 4       /* some of them wait for a disk */
#define VERIFY_USEC 5000000 /* that a stop waits for the verified and the packed weights at most */

/* --- the thread --- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Some sequence can be computed, and the first batch waits for no more requests. */
static bool may_step(const struct core *core, uint64_t now)
{
    return step_ready(core) && (now >= core->admission.window_end || core->running >= core->config.parallel);
}

/* When there will be work even if nothing comes in; us. */
static uint64_t next_work(struct engine *e, uint64_t now)
{
    struct core *core = &e->core;
    if (may_step(core, now) || encode_ready(core)) return 0;
    uint64_t at = least(requests_next_deadline(core), spill_next(&core->cache, now));
    at = least(at, sessions_next(core));
    at = least(at, status_next(e));
    return step_ready(core) ? least(at, core->admission.window_end) : at;
}

/* Wait until there is work. False: quit. The caller holds the lock. */
static bool wait_for_work(struct engine *e)
{
    struct mailbox *m = &e->core.mail;
    while (!m->quit && !m->kick && !m->inbox.head && !m->returns.finished) {
        uint64_t now = clock_now_usec(), until = next_work(e, now);
        if (until <= now) break;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000), .tv_nsec = (long)(until % 1000000 * 1000)};
        if (until == UINT64_MAX)
            pthread_cond_wait(&m->wake, &m->lock);
        else
            pthread_cond_timedwait(&m->wake, &m->lock, &t);
    }
    m->kick = false;
    return !m->quit;
}

static void take_control(const struct mailbox *m, struct request *r)
{
    bool paused = mailbox_is_paused(m, r->conn);
    r->control.cancel = r->control.cancel_wanted;
    if (r->control.paused == paused) return;
    r->control.paused = paused;
    for (uint32_t i = 0; i < r->answers.n; i++)
        if (r->answers.seqs[i]) plan_update(r->core, r->answers.seqs[i]);
    if (r->texts) texts_update(r);
}

/* Take over new requests and control flags from the mailbox. The caller holds the lock. */
static void take_in(struct engine *e)
{
    struct core *core = &e->core;
    struct mailbox *m = &core->mail;
    struct request *r;
    core->stopping = core->cache.stopping = m->draining;
    configure_take(e);
    e->pressure.begin |= e->pressure.wanted;
    e->pressure.wanted = false;
    users_forget(&m->users, core->plan.book.floor + core->plan.config.quantum);
    bool control = m->control;
    m->control = false;
    while ((r = m->inbox.head)) {
        request_list_remove(&m->inbox, r);
        take_control(m, r);
        r->arrival = core->arrivals + 1;
        core->arrivals += r->answers.n > 1 ? r->answers.n : 1; /* a number for each answer */
        request_list_push(&core->requests, r);
    }
    for (r = control ? core->requests.head : NULL; r; r = r->next) take_control(m, r);
}

static void turn(struct engine *e, struct return_job *finished, struct status_request *asking)
{
    struct core *core = &e->core;
    error_forget();
    jobs_deliver(&core->mail.returns, finished);
    if (core->mail.state != ENGINE_FAILED) memory_pressure_turn(&e->pressure, core);
    status_answer(e, asking);
    requests_start_new(core);
    requests_sweep(core, clock_now_usec());
    recover_turn(core);
    admit_waiting(core);
    uint64_t began = clock_now_usec();
    bool steps = may_step(core, began);
    if (steps) step_run(core);
    encode_turn(core, steps ? clock_now_usec() - began : 0);
    if (core->mail.state == ENGINE_FAILED) return;
    spill_turn(&core->cache, clock_now_usec(), core->counts.steps);
    sessions_turn(core, clock_now_usec());
}

/* While the model loads, requests can be cancelled and can be too late. */
static void on_load_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct engine *e = ctx;
    (void)done;
    (void)total;
    atomic_fetch_add(&e->core.progress, 1);
    pthread_mutex_lock(&e->core.mail.lock);
    take_in(e);
    pthread_mutex_unlock(&e->core.mail.lock);
    requests_sweep(&e->core, clock_now_usec());
}

static void on_looked(void *ctx)
{
    status_flush(ctx);
}

/* Of this thread and of those that it starts: the threads that compute and those of jobs. */
static int set_nice(int nice)
{
    if (!nice || setpriority(PRIO_PROCESS, 0, nice) == 0) return 0;
    return error_say(-errno, "cannot set the nice value %d: %s", nice, strerror(errno));
}

/* The backend chooses the tokens of a step that are not configured; texts may need more slots. */
static void configure_steps(struct core *core)
{
    pthread_mutex_lock(&core->mail.lock); /* the main thread reads them: may_submit, a status while the model loads */
    core->config.batch_tokens = core->model.backend->config.batch_tokens;
    texts_configure(core);
    pthread_mutex_unlock(&core->mail.lock);
    struct sched_config *c = &core->plan.config;
    sched_config_init(c, core->config.parallel, core->config.batch_tokens);
    if (!hparams_state(&core->model.backend->hparams)) return;
    /* A sequence that runs has a state. Half of them stay those of the cache. */
    const uint32_t states = core->model.backend->kv_blocks[core->model.backend->hparams.n_groups - 1] / 2;
    const uint32_t most = states > c->parallel ? states : c->parallel;
    if (c->parallel_batch > most) c->parallel_batch = most;
    if (c->parallel_most > most) c->parallel_most = most;
}

static int load_all(struct engine *e)
{
    struct core *core = &e->core;
    const struct engine_config *c = &core->config;
    int r = set_nice(c->nice);
    if (r == 0) r = load_model(&core->model, c, on_load_progress, e);
    if (r == 0) r = sessions_open(core);
    const struct spill_config spill = {.host_bytes = core->model.kv_host_bytes,
                                       .cache_dir = c->cache_dir,
                                       .state_dir = c->state_dir,
                                       .cache_bytes = c->cache_bytes,
                                       .disk_reserve = c->disk_reserve};
    if (r == 0) r = kv_cache_new(&core->cache, core->model.backend, &spill, &core->mail.returns);
    core->cache.state_percent = 100 * c->state_share / (100 - c->state_share);
    if (r == 0) r = media_room_new(core);
    if (r == 0) configure_steps(core);
    if (r == 0) r = sample_scratch_new(&core->sample_scratch, core->model.vocab);
    if (r == 0) r = step_new(core);
    if (r == 0) r = job_pool_new(&core->mail.returns.pool, JOB_THREADS, users_is_alone, &core->mail.users);
    if (r == 0) r = model_watcher_start(&e->watcher, core, on_looked, e);
    if (r == 0) lookup_draft_use(core);
    if (r == 0) r = model_draft_new(core);
    if (r == 0) public_prefixes_warm(core);
    return r;
}

/* End all requests: jobs that run are waited for, those that wait are taken back. */
static void end_all(struct engine *e)
{
    struct core *core = &e->core;
    struct mailbox *m = &core->mail;
    struct request *next;
    media_room_stop(core, e->flush_until);
    pthread_mutex_lock(&m->lock);
    take_in(e); /* some of these may have jobs, too */
    pthread_mutex_unlock(&m->lock);
    for (struct request *r = core->requests.head; r; r = next) {
        next = r->next;
        r->control.silent = true;
        if (r->in_job) request_recall(r, NULL);
        for (uint32_t i = 0; i < r->answers.n; i++)
            if (r->answers.seqs[i] && r->answers.seqs[i]->fetch) request_recall(r, r->answers.seqs[i]);
        turn_cut(r);
        request_drop(r);
    }
    pthread_mutex_lock(&m->lock);
    while (atomic_load(&m->returns.out)) {
        while (!m->returns.finished) pthread_cond_wait(&m->wake, &m->lock);
        struct return_job *finished = jobs_finished(&m->returns);
        pthread_mutex_unlock(&m->lock);
        jobs_deliver(&m->returns, finished);
        pthread_mutex_lock(&m->lock);
    }
    for (struct request *r; (r = m->inbox.head);) {
        request_list_remove(&m->inbox, r);
        user_drop(r->user);
        r->user = NULL;
        request_free(r);
    }
    pthread_mutex_unlock(&m->lock);
}

static void unload(struct engine *e)
{
    struct core *core = &e->core;
    const uint64_t now = clock_now_usec(), until = least(e->flush_until, now + VERIFY_USEC);
    if (until > now) background_verify_hurry(&e->verify); /* without its result nothing can be kept */
    model_watcher_end(&e->watcher);
    end_all(e);
    sessions_save_rest(core);
    core->mail.returns.pool = job_pool_free(core->mail.returns.pool);
    step_free(core);
    media_room_free(core);
    background_verify_await(&e->verify, until);
    kv_cache_free(&core->cache, e->flush_until);
    model_draft_free(core);
    pasts_fini(&core->drafter.pasts);
    vector_cache_fini(&core->vectors);
    core->sample_scratch = sample_scratch_free(core->sample_scratch);
    output_step_fini(&core->output);
    core->sessions = session_store_free(core->sessions);
    background_verify_end(&e->verify, until); /* it may have to wait for a thread that gets no CPU time */
    loaded_fini(&core->model);
    energy_close(&core->energy);
}

static void *engine_main(void *arg)
{
    struct engine *e = arg;
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&e->core.own);
    energy_open(&e->core.energy, e->core.config.root ? e->core.config.root : "");
    int r = load_all(e);
    energy_skip(&e->core.energy, clock_now_usec());
    pthread_mutex_lock(&m->lock);
    m->state = r < 0 ? ENGINE_FAILED : ENGINE_READY;
    if (r == -ENOMEM) error_in(r, "loading %s", e->core.config.model_name);
    if (r < 0) m->error = strdup(error_text(r));
    m->kick = true;
    event_queue_signal(m->events);
    if (r == 0) background_verify_start(&e->verify, &e->core);
    while (wait_for_work(e)) {
        if (e->verify.core) background_verify_look(&e->verify);
        take_in(e);
        struct return_job *finished = jobs_finished(&m->returns);
        struct status_request *asking = status_due(e);
        pthread_mutex_unlock(&m->lock);
        turn(e, finished, asking);
        pthread_mutex_lock(&m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    unload(e);
    pthread_mutex_unlock(&e->core.own);
    return NULL;
}

/* --- its beginning and end --- */

static int start_thread(struct engine *e)
{
    sigset_t all, old; /* the main thread handles signals */
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* but a fault belongs to the thread that causes it (main.c), */
    sigdelset(&all, SIGSYS); /* and so does a forbidden system call */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = -pthread_create(&e->thread, NULL, engine_main, e);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r < 0) return error_say(r, "cannot start a thread: %s", strerror(-r));
    e->thread_started = true;
    return 0;
}

int engine_new(struct engine **out, const struct engine_config *c)
{
    if (c->parallel == 0) return error_say(-EINVAL, "parallel must be at least 1");
    struct engine *e = calloc(1, sizeof(*e));
    if (!e) return -ENOMEM;
    e->core.config = *c;
    e->started = clock_now_usec();
    plan_init(&e->core.plan, c->parallel, c->batch_tokens);
    pthread_mutex_init(&e->core.own, NULL);
    int r = mailbox_init(&e->core.mail);
    if (r == 0) r = named_users_new(&e->core.mail.named_users, c->state_dir);
    if (r == 0) r = start_thread(e);
    if (r < 0) {
        engine_free(e);
        return r;
    }
    *out = e;
    return 0;
}

struct engine *engine_free(struct engine *e)
{
    return engine_close(e, 0);
}

struct engine *engine_close(struct engine *e, uint64_t flush_usec)
{
    if (!e) return NULL;
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&m->lock);
    e->flush_until = clock_now_usec() + flush_usec;
    m->quit = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    if (e->thread_started) pthread_join(e->thread, NULL);
    plan_fini(&e->core.plan);
    configure_fini(e);
    status_fini(e);
    mailbox_fini(m);
    named_users_free(e->core.mail.named_users);
    pthread_mutex_destroy(&e->core.own);
    free(e->verify.why);
    free(e);
    return NULL;
}
