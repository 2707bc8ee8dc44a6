/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * State that all connections share: the event sources that give each its turn to be read (fair-queue.h chooses), and
 * the list of those with unwritten output. conns_flush writes it, once a wake-up.
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
    /* private to daemon/io/conn*.c, but for @queue */
    struct fairq queue;
    sd_event_source *input, *wait;
    struct conn *unsent;
};

/* @event, @limits, @ops and @ctx outlive @s. 0, or an error of sd-event; call conns_fini in either case. */
int conns_init(struct conns *s, struct sd_event *event, const struct conn_limits *limits, const struct conn_ops *ops,
               void *ctx);
void conns_fini(struct conns *s); /* all connections were freed */

/* @c has input to be handled: it gets a turn. */
void conns_queue(struct conn *c);

/* Write the output of all connections as far as the sockets take it. Call it after anything that may have sent. */
void conns_flush(struct conns *s);
