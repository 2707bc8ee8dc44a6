/* SPDX-License-Identifier: MIT */
#include "daemon/io/notify.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdint.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#define EXTEND_EVERY 5000000ull
#define EXTEND_BY    60000000ull

static int again(sd_event_source *s, uint64_t usec)
{
    int r = sd_event_source_set_time_relative(s, usec);

    return r < 0 ? r : sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int on_extend(sd_event_source *s, uint64_t now, void *ctx)
{
    struct notify *n = ctx;

    if (n->alive(n->ctx)) sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", EXTEND_BY);
    return again(s, EXTEND_EVERY);
}

/* The turn is a third of what the manager waits, so that one missed turn is no end. */
static uint64_t watchdog_turn(void)
{
    uint64_t usec;

    return sd_watchdog_enabled(0, &usec) > 0 ? usec / 3 : 0;
}

static int on_watchdog(sd_event_source *s, uint64_t now, void *ctx)
{
    struct notify *n = ctx;

    if (n->alive(n->ctx))
        sd_notify(0, "WATCHDOG=1");
    else
        log_warning("the engine has work and made no step since the last turn of the watchdog");
    return again(s, watchdog_turn());
}

void notify_init(struct notify *n, struct sd_event *event, bool (*alive)(void *ctx), void *ctx)
{
    *n = (struct notify){.event = event, .alive = alive, .ctx = ctx};
}

void notify_fini(struct notify *n)
{
    n->extend = sd_event_source_disable_unref(n->extend);
    n->watchdog = sd_event_source_disable_unref(n->watchdog);
}

void notify_loading(struct notify *n, const char *model)
{
    int r;

    sd_notifyf(0, "STATUS=Loading %s\nEXTEND_TIMEOUT_USEC=%llu", model, EXTEND_BY);
    r = sd_event_add_time_relative(n->event, &n->extend, CLOCK_MONOTONIC, EXTEND_EVERY, 0, on_extend, n);
    if (r < 0) log_warning("no timer for EXTEND_TIMEOUT_USEC: %s", error_text(error_origin(r)));
}

void notify_ready(struct notify *n, const char *model)
{
    uint64_t turn = watchdog_turn();
    int r = 0;

    n->extend = sd_event_source_disable_unref(n->extend);
    sd_notifyf(0, "READY=1\nSTATUS=Serving %s", model);
    if (turn) r = sd_event_add_time_relative(n->event, &n->watchdog, CLOCK_MONOTONIC, turn, 0, on_watchdog, n);
    if (r < 0) log_warning("no timer for the watchdog: %s", error_text(error_origin(r)));
}

void notify_reloading(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
               (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000);
}

void notify_reloaded(const char *model, const char *note)
{
    sd_notifyf(0, "READY=1\nSTATUS=Serving %s%s%s", model, note ? "; " : "", note ? note : "");
}

void notify_stopping(struct notify *n, const char *why)
{
    n->extend = sd_event_source_disable_unref(n->extend);
    sd_notifyf(0, "STOPPING=1\nSTATUS=Stopping: %s", why);
}

void notify_failed(struct notify *n, int code, const char *why)
{
    n->extend = sd_event_source_disable_unref(n->extend);
    sd_notifyf(0, "STATUS=%s\nERRNO=%d", why, code);
}
