/* SPDX-License-Identifier: MIT */
#include "daemon/io/server.h"
#include "daemon/io/accept-pace.h"
#include "daemon/io/idle-exit.h"
#include "daemon/io/memory-trim.h"
#include "daemon/io/notify.h"
#include "daemon/io/pressure.h"
#include "daemon/io/priority.h"
#include "daemon/io/reload.h"
#include "daemon/io/service.h"
#include "daemon/io/timer.h"
#include "libcommon/cgroup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPT_RETRY       100000ull  /* when descriptors are short */
#define FLUSH_MOST         8000000ull /* a new daemon waits a little longer than that */
#define FAIL_GRACE         1000000ull /* for a peer that has connected and has not asked yet */
#define CLIENT_BYTES_LEAST (64ull << 20)
#define CLIENT_BYTES_MOST  (512ull << 20)
enum { ACCEPTS_PER_WAKE = 64, BACKLOG_WAKES = 64 };

enum phase { LOADING, READY, STOPPING, FAILED };

struct server {
    const struct server_config *config;
    sd_event *event;
    sd_event_source *accept, *retry, *deadline, *post, *signals[3];
    struct idle_exit idle;
    struct memory_trim trim;
    struct notify notify;
    struct pressure pressure;
    struct engine *engine;
    struct service *service;
    enum phase phase;
    bool stop_wanted;
    bool leave;        /* at once: do not wait for the engine's step */
    uint64_t progress; /* at the last look */
    struct accept_pace accept_pace;
    uint64_t deadline_at; /* of a stop, monotonic us */
};

static int on_retry(sd_event_source *source, uint64_t now, void *ctx)
{
    struct server *s = ctx;
    if (s->accept) sd_event_source_set_enabled(s->accept, SD_EVENT_ON);
    return 0;
}

/* 0: no connection waits; 1: more may wait; -errno. */
static int accept_some(struct server *s)
{
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        int fd = accept4(s->config->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            service_add(s->service, fd);
        else if (errno == EAGAIN)
            return 0;
        else if (errno != EINTR && errno != ECONNABORTED)
            return -errno;
    }
    return 1;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
    struct server *s = ctx;
    uint64_t begin = clock_thread_usec(), pause = ACCEPT_RETRY;
    int r = accept_some(s);
    if (r >= 0)
        pause = accept_pace_charge(&s->accept_pace, clock_thread_usec() - begin, clock_now_usec());
    else
        log_debug("accept: %s", strerror(-r)); /* The socket stays readable: without a pause this would spin. */
    if (!pause) return 0;
    sd_event_source_set_enabled(source, SD_EVENT_OFF);
    timer_arm(s->event, &s->retry, pause, on_retry, s);
    return 0;
}

/* Accept the connections that wait in the socket, then close it. An inherited one keeps them for the next daemon,
 * unless that would fail as this one does (@none_follows); it stays connectable, so that the number is limited. */
static void stop_listening(struct server *s, bool none_follows)
{
    listener_retire(s->config->listener);
    if (!s->accept) return;
    s->accept = sd_event_source_disable_unref(s->accept);
    if (!s->config->listener->inherited)
        while (accept_some(s) > 0) continue;
    else if (none_follows)
        for (int i = 0; i < BACKLOG_WAKES && accept_some(s) > 0; i++) continue;
    listener_fini(s->config->listener);
}

static bool stops(const struct server *s)
{
    return s->stop_wanted || s->phase >= STOPPING;
}

/* Any handler may call it. The stop begins in the post source, when no message is being handled. */
static void want_stop(struct server *s, const char *why)
{
    if (stops(s)) return;
    s->stop_wanted = true;
    listener_retire(s->config->listener);
    log_info("stopping: %s", why);
    notify_stopping(&s->notify, why);
}

static int on_deadline(sd_event_source *source, uint64_t now, void *ctx)
{
    struct server *s = ctx;
    if (s->phase == STOPPING) {
        log_warning("--stop-timeout has passed; ending the unfinished requests");
        service_fail(s->service, ESHUTDOWN, "the daemon stopped before the answer was complete");
    }
    /* A request that continues without its peer writes to its session when it ends: wait for the step. */
    s->leave = s->phase != STOPPING || engine_detached(s->engine) == 0;
    return sd_event_exit(s->event, s->phase == FAILED);
}

static void on_idle(void *ctx)
{
    want_stop(ctx, "no request for the time of --idle-exit");
}

static void on_stop_request(void *ctx, uid_t uid)
{
    want_stop(ctx, uid ? "requested by its user" : "requested by root");
}

static void on_reload(struct server *s)
{
    if (!s->config->reload || stops(s)) {
        log_info("SIGHUP: ignored, no configuration is read now");
        return;
    }
    reload(s->config, s->engine, s->phase == READY ? &s->notify : NULL);
    idle_exit_change(&s->idle, s->config->idle_exit_usec);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *ctx)
{
    struct server *s = ctx;
    if (si->ssi_signo == SIGHUP) {
        on_reload(s);
    } else if (stops(s)) {
        log_info("stopping at once");
        s->leave = true;
        return sd_event_exit(s->event, s->phase == FAILED);
    } else {
        want_stop(s, si->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    }
    return 0;
}

static void begin_stop(struct server *s)
{
    s->phase = STOPPING;
    stop_listening(s, false);
    service_drain(s->service);
    idle_exit_stop(&s->idle);
    timer_arm(s->event, &s->deadline, s->config->stop_timeout_usec, on_deadline, s);
    s->deadline_at = clock_now_usec() + s->config->stop_timeout_usec;
}

static void fail(struct server *s, const char *why)
{
    bool loading = s->phase == LOADING;
    s->phase = FAILED;
    log_error("%s", why);
    notify_failed(&s->notify, EIO, why);
    stop_listening(s, loading); /* damaged packed weights are found later, and made anew by the next daemon */
    service_fail(s->service, EIO, why);
    timer_arm(s->event, &s->deadline, FAIL_GRACE, on_deadline, s);
}

static void look_at_engine(struct server *s)
{
    const char *why = NULL;
    enum engine_state state = engine_state(s->engine, &why);
    if (state == ENGINE_FAILED && s->phase != FAILED) {
        fail(s, why ? why : "the model could not be loaded");
    } else if (state == ENGINE_READY && s->phase == LOADING) {
        s->phase = READY;
        log_info("serving %s at %s", s->config->engine->model_name, s->config->listener->path);
        if (!s->stop_wanted) notify_ready(&s->notify, s->config->engine->model_name);
        idle_exit_start(&s->idle, s->config->idle_exit_usec);
    }
}

/* After each event. */
static int on_post(sd_event_source *source, void *ctx)
{
    struct server *s = ctx;
    service_reap(s->service);
    memory_trim_look(&s->trim, s->service);
    look_at_engine(s);
    if (s->stop_wanted && s->phase < STOPPING) begin_stop(s);
    if (s->phase == STOPPING && service_quiet(s->service)) return sd_event_exit(s->event, 0);
    if (s->phase == FAILED && service_open(s->service) == 0) return sd_event_exit(s->event, 1);
    idle_exit_look(&s->idle, s->service);
    return 0;
}

static bool alive(void *ctx)
{
    struct server *s = ctx;
    uint64_t before = s->progress;
    s->progress = engine_progress(s->engine);
    if (s->progress != before) return true;
    if (s->phase == LOADING) return false;
    /* If slow readers hold all slots, no progress is normal. */
    return service_live(s->service) == 0 || service_paused(s->service);
}

static void on_pressure(void *ctx)
{
    struct server *s = ctx;
    engine_shed(s->engine);
}

static int block_signals(void)
{
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on files makes a write fail, not the daemon */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? error_origin(-errno) : 0;
}

static int start_loop(struct server *s)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    int r = block_signals();
    if (r < 0) return r;
    r = sd_event_new(&s->event);
    for (int i = 0; i < 3 && r >= 0; i++) {
        r = sd_event_add_signal(s->event, &s->signals[i], signals[i], on_signal, s);
        if (r >= 0) r = sd_event_source_set_priority(s->signals[i], PRIORITY_SIGNAL);
    }
    if (r >= 0) r = sd_event_add_post(s->event, &s->post, on_post, s);
    if (r >= 0) r = sd_event_source_set_priority(s->post, PRIORITY_POST);
    if (r < 0) return error_in(error_origin(r), "the event loop");
    s->idle = (struct idle_exit){.event = s->event, .expired = on_idle, .ctx = s};
    s->trim = (struct memory_trim){.event = s->event};
    notify_init(&s->notify, s->event, alive, s);
    return 0;
}

/* A 32nd of the available memory, within bounds: one large request fits, and many do not take too much. */
static uint64_t client_bytes(const struct server_config *c)
{
    uint64_t share = cgroup_memory_available("") / 32;
    if (c->client_bytes) return c->client_bytes;
    return share < CLIENT_BYTES_LEAST ? CLIENT_BYTES_LEAST : share > CLIENT_BYTES_MOST ? CLIENT_BYTES_MOST : share;
}

static int start(struct server *s)
{
    const struct service_config config = {.model = s->config->engine->model_name,
                                          .bytes = client_bytes(s->config),
                                          .gateways = s->config->gateways,
                                          .n_gateways = s->config->n_gateways,
                                          .stop = on_stop_request,
                                          .ctx = s};
    int r = start_loop(s);

    if (r < 0) return r;
    pressure_init(&s->pressure, s->event, "", on_pressure, s); /* before the sandbox: its file can be anywhere */
    if (s->config->sandbox) sandbox_enter(s->config->sandbox);
    r = engine_new(&s->engine, s->config->engine);
    if (r < 0) return r;
    notify_loading(&s->notify, s->config->engine->model_name);
    r = service_new(&s->service, s->event, s->engine, &config);
    if (r < 0) return r;
    r = sd_event_add_io(s->event, &s->accept, s->config->listener->fd, EPOLLIN, on_accept, s);
    if (r >= 0) r = sd_event_source_set_priority(s->accept, PRIORITY_INPUT);
    return r < 0 ? error_in(error_origin(r), "the listening socket") : 0;
}

/* The time limit for writing KV blocks: the rest of --stop-timeout. */
static uint64_t flush_time(const struct server *s)
{
    uint64_t now = clock_now_usec(), left = s->deadline_at > now ? s->deadline_at - now : 0;
    if (s->phase != STOPPING) return 0;
    return left < FLUSH_MOST ? left : FLUSH_MOST;
}

static void end(struct server *s)
{
    sd_event_source *const sources[] = {s->accept,     s->retry,      s->deadline,  s->post,
                                        s->signals[0], s->signals[1], s->signals[2]};

    listener_fini(s->config->listener);
    service_mute(s->service);
    /* At a stop without delay, or while the model loads, do not wait for the engine: the exit of the process frees its
     * memory. Otherwise the connections close after all data is on disk. */
    if (s->engine && !s->leave && engine_state(s->engine, NULL) != ENGINE_LOADING)
        engine_close(s->engine, flush_time(s));
    service_free(s->service);
    notify_fini(&s->notify);
    pressure_fini(&s->pressure);
    idle_exit_fini(&s->idle);
    memory_trim_fini(&s->trim);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) sd_event_source_disable_unref(sources[i]);
    sd_event_unref(s->event);
}

int server_run(const struct server_config *c)
{
    struct server s = {.config = c, .notify = NOTIFY_INIT};
    int r = start(&s);
    if (r >= 0) {
        r = sd_event_loop(s.event);
        if (r < 0) error_in(error_origin(r), "the event loop");
    }
    if (r < 0) log_error("%s", error_text(r));
    end(&s);
    return r != 0;
}
