/* SPDX-License-Identifier: MIT */
#pragma once
/* One request to a daemon and its answer. */
#include "client/connection.h"
#include "client/options.h"

/* Whether to retry if the daemon closes the connection, or is stopping, before it answers. */
enum rpc_retry {
    RPC_ONCE,      /* never */
    RPC_IF_UNSEEN, /* only if the daemon did nothing: it is stopping, or sent no hello */
    RPC_ALWAYS,    /* always: the request changes nothing */
};

struct rpc {
    enum proto_event_type want; /* type of the answer */
    enum rpc_retry retry;
    int64_t wait_ms; /* timeout; -1: none */
    bool start;      /* start a daemon if none runs */
    bool may_lack;   /* the error ENOENT is an answer: *e is then of type PROTO_EV_ERROR */
};

/* Send @request over @c and wait for the answer. Connects @c first if needed; @c stays connected. 0: the caller owns *e
 * and calls proto_event_fini. Else the exit status; the error is printed. Call connection_close in any case. */
int rpc_call(const struct options *o, struct connection *c, const struct proto_request *request, const struct rpc *how,
             struct proto_event *e);
