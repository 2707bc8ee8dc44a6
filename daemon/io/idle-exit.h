/* SPDX-License-Identifier: MIT */
#pragma once
/* --idle-exit: the daemon stops after a time without requests. */
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
    uint64_t accepted; /* requests at the last call of idle_exit_look */
    bool serves;       /* the daemon is ready and not stopping */
    bool working;      /* a request was live at the last call of idle_exit_look */
};

/* The daemon is ready. Until idle_exit_stop, an idle period of @usec ends in @expired. */
void idle_exit_start(struct idle_exit *x, uint64_t usec);
/* Set --idle-exit. If the value differs, the idle period starts again. */
void idle_exit_change(struct idle_exit *x, uint64_t usec);
/* Call after each event: checks for new and unfinished requests. Status requests do not count: a daemon that only
 * answers hob status is idle. */
void idle_exit_look(struct idle_exit *x, const struct service *s);
void idle_exit_stop(struct idle_exit *x);
void idle_exit_fini(struct idle_exit *x);
