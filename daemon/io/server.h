/* SPDX-License-Identifier: MIT */
#pragma once
/* The daemon's main thread: one event loop for sockets, signals and timers around an engine and a service.
 */
#include "daemon/engine/engine.h"
#include "daemon/io/listener.h"
#include "libcommon/sandbox.h"
#include <stdint.h>

/* Names of settings, separated by commas; NULL: none. The caller of reload frees them. */
struct server_reload {
    char *taken;   /* in effect now */
    char *pending; /* changed, but in effect only after a restart */
};

struct server_config {
    const struct engine_config *engine;
    struct listener *listener;     /* open; closed by server_run */
    const struct sandbox *sandbox; /* the files it reaches; read at start; NULL: no sandbox */
    const uid_t *gateways;         /* [n_gateways] who may name users, besides root and this process's uid */
    size_t n_gateways;
    uint64_t client_bytes;   /* of input, requests and output of all connections; 0: a share of memory */
    uint64_t idle_exit_usec; /* 0: never */
    uint64_t stop_timeout_usec;
    /* SIGHUP: read the configuration again, and change this struct and *engine in place, as far as a running
     * daemon, whose engine is @e, can. NULL: nothing to read again. 0 and *changed; -errno with a message, and nothing
     * has changed. */
    int (*reload)(void *ctx, struct engine *e, struct server_reload *changed);
    void *ctx;
};

/*
 * Serve until a signal, a peer or idleness ends it. Blocks SIGTERM, SIGINT and SIGHUP in this thread (which must still
 * be the only one) and ignores SIGPIPE and SIGXFSZ. The engine may still run when this returns, so the objects that @c
 * points to, except @sandbox, have to live as long as the process. Returns the exit code: 0 stopped as asked, 1 failed
 * (the reason is the last line logged).
 */
int server_run(const struct server_config *c);
