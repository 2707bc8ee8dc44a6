/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Requests of connections go to the engine, its events come back to them. When the model cannot be loaded, everything
 * is answered with the reason.
 */
#include "daemon/engine/engine.h"
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct service;
struct conn_limits;

struct service_config {
    const char *model;                /* its name, for status */
    const struct conn_limits *limits; /* of a connection; NULL: conn_limits_default */
    size_t connections, per_uid;      /* 0: 1024, 256 */
    uint64_t bytes, uid_bytes;        /* input, requests and output of all uids, of one; 0: 512 MiB, 256 MiB */
    /* A peer that may do so asked the daemon to stop; called before it is answered. */
    void (*stop)(void *ctx, uid_t uid);
    void *ctx;
};

/* @c's strings and limits, @event and @engine outlive it. 0, -ENOMEM, or what sd-event says. */
int service_new(struct service **out, struct sd_event *event, struct engine *engine, const struct service_config *c);
/* The engine is about to end: nothing more is taken from it. NULL ok. */
void service_mute(struct service *s);
struct service *service_free(struct service *s); /* closes all connections; NULL ok, returns NULL */

/* A new connection; takes @fd, which is non-blocking. A peer over a limit is told so and closed. */
void service_add(struct service *s, int fd);

/* Some request of a peer, gone or not, has not got its last event, or goes on without one. */
bool service_busy(const struct service *s);

/* Free what has finished. To be called between events (a post source does). */
void service_reap(struct service *s);

/* Handle what has arrived from every peer, then take no more: connections without a live request are closed, the others
 * when their last answer is out. New requests are refused. Peers that asked for the stop see the end by the socket's.
 */
void service_drain(struct service *s);

/* Answer all live requests, and those that come, with this error; connections end with it. */
void service_fail(struct service *s, int code, const char *why);

/* Requests of peers that are still there and have not got their last event, and those that go on without. */
size_t service_live(const struct service *s);
/* Nobody waits: no such request, and all output is out. */
bool service_quiet(const struct service *s);
/* Open connections. */
size_t service_open(const struct service *s);
/* Some reader is slow and its sequences are paused. */
bool service_paused(const struct service *s);
/* Bytes of input, requests and output of all connections. */
uint64_t service_bytes(const struct service *s);
/* Generate and tokenize requests that were accepted, ever. */
uint64_t service_accepted(const struct service *s);
