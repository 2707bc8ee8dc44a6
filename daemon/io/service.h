/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Passes requests of connections to the engine, and its events back. When the model cannot be loaded, it answers each
 * request with the reason.
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
    const uid_t *gateways;            /* [n_gateways] who may name users, besides root and this process's uid */
    size_t n_gateways;
    /* A peer that may do so asked the daemon to stop; called before it is answered. */
    void (*stop)(void *ctx, uid_t uid);
    void *ctx;
};

/* @c's strings, limits and gateways, @event and @engine outlive it. 0, -ENOMEM, or an error of sd-event. */
int service_new(struct service **out, struct sd_event *event, struct engine *engine, const struct service_config *c);
/* Take no more events from the engine, which is about to end. NULL ok. */
void service_mute(struct service *s);
struct service *service_free(struct service *s); /* closes all connections; NULL ok, returns NULL */

/* A new connection; takes @fd, which is non-blocking. A peer over a limit gets an error and is closed. */
void service_add(struct service *s, int fd);

/* A request has not ended, whether its peer is still connected or not. */
bool service_busy(const struct service *s);

/* Free finished connections. Call it between events, as a post source does. */
void service_reap(struct service *s);

/* Handle the input that has arrived from every peer, then refuse new requests. Connections without a live request are
 * closed, the others after their last answer. Peers that asked for the stop stay connected until service_free. */
void service_drain(struct service *s);

/* Answer all live and new requests with this error, and close their connections after it. */
void service_fail(struct service *s, int code, const char *why);

/* Live requests of connected peers, and requests that continue without their peer. */
size_t service_live(const struct service *s);
/* True if service_live() is 0 and all output is written. */
bool service_quiet(const struct service *s);
/* Open connections. */
size_t service_open(const struct service *s);
/* A reader is slow and its sequences are paused. */
bool service_paused(const struct service *s);
/* Bytes of input, requests and output of all connections. */
uint64_t service_bytes(const struct service *s);
/* Number of requests accepted since the start, except status. */
uint64_t service_accepted(const struct service *s);
