/* SPDX-License-Identifier: MIT */
#pragma once
/* The members of a service. Only service.c and service-requests.c include this. */
#include "daemon/io/conns.h"
#include "daemon/io/service.h"
#include "libcommon/proto.h"

struct accounts;
struct conn;

struct peer {
    struct conn *conn;
    bool finished; /* to be freed by service_reap */
    bool asked;    /* it asked for the stop: stays open until the end */
};

struct service {
    struct service_config config;
    struct engine *engine;
    sd_event_source *source;
    struct accounts *accounts;
    struct conns conns;
    struct peer *peers; /* [n_peers], ids ascending */
    size_t n_peers, peers_cap;
    uint64_t last_id, accepted;
    bool draining, any_finished;
    int fail_code; /* not 0: service_fail was called */
    char *fail_why;
};

/* service.c: the peer with the connection of this id; NULL: none. */
struct peer *service_find(const struct service *s, uint64_t id);

/* service-requests.c: answer @r of @c here, or pass it to the engine. @ctx: struct service. */
void service_request(void *ctx, struct conn *c, struct proto_request *r);
