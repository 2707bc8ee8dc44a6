/* SPDX-License-Identifier: MIT */
#pragma once
/* The state of hob-http: one thread and one event loop own all of it. */
#include "client/http/http-metrics.h"
#include "client/http/http-options.h"
#include "client/http/key-file.h"
#include "client/http/peer-uid.h"
#include <systemd/sd-event.h>

struct exchange;
struct peer;

struct gateway {
    const struct http_options *options; /* not owned */
    sd_event *event;                    /* not owned */
    struct MHD_Daemon *http;            /* owned by http-server.c */
    sd_event_source *more;              /* enabled: libmicrohttpd has more to do at once */
    struct keys keys;
    struct peer_uids peer_uids; /* used without keys */
    struct http_metrics metrics;
    struct exchange *exchanges; /* list of the requests in progress */
    struct peer *peers;         /* list of the connections */
    unsigned n_peers;
    uint64_t received; /* bytes of bodies */
    bool resumed;      /* libmicrohttpd has connections that are to continue */
};
