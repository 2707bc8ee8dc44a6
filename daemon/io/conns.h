/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What all connections share: the event sources that give each its turn to be read (fair-queue.h says whose it is), and the
 * list of those with output that is not written yet. Output is gathered: conns_flush writes it, once a wake-up.
 */
#include "daemon/jobs/fair-queue.h"
#include <systemd/sd-event.h>

struct conn;
struct conn_limits;
struct conn_ops;

struct conns {
    struct sd_event *event;
    const struct conn_limits *limits;
    const struct conn_ops *ops;
    void *ctx; /* of @ops */
    /* conns.c's own */
    struct fairq queue;
    sd_event_source *input, *wait;
    struct conn *unsent;
};

/* @event, @limits, @ops and @ctx outlive @s. 0, or what sd-event says; conns_fini in either case. */
int conns_init(struct conns *s, struct sd_event *event, const struct conn_limits *limits, const struct conn_ops *ops,
               void *ctx);
void conns_fini(struct conns *s); /* all connections were freed */

/* @c has input to be handled: it gets a turn. */
void conns_queue(struct conn *c);

/* Write what waits, as far as the sockets take it. To be called at the end of whatever may have sent. */
void conns_flush(struct conns *s);
