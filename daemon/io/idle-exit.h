/* SPDX-License-Identifier: MIT */
#pragma once
/* --idle-exit: the daemon stops when nobody has asked for anything for a while. */
#include "daemon/io/service.h"
#include <stdint.h>
#include <systemd/sd-event.h>

/* Set event, expired and ctx; the rest is {0}. */
struct idle_exit {
    sd_event *event;
    void (*expired)(void *ctx);
    void *ctx;
    sd_event_source *timer;
    uint64_t usec;     /* 0: never */
    uint64_t accepted; /* requests at the last look */
    bool serves;       /* it is ready, and does not stop */
    bool working;      /* a request is live, or was until a moment ago */
};

/* The daemon is ready. Until idle_exit_stop, an idle period of @usec ends in @expired. */
void idle_exit_start(struct idle_exit *x, uint64_t usec);
/* The value of --idle-exit now. If it is another one, the idle period begins anew. */
void idle_exit_change(struct idle_exit *x, uint64_t usec);
/* After each event: did requests come, and are there any? Status requests do not count: a daemon that is only watched
 * is idle. */
void idle_exit_look(struct idle_exit *x, const struct service *s);
void idle_exit_stop(struct idle_exit *x);
void idle_exit_fini(struct idle_exit *x);
