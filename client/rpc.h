/* SPDX-License-Identifier: MIT */
#pragma once
/* One question to a daemon that runs, one answer: what the commands do. None is started. */
#include "client/connection.h"
#include "client/options.h"

/* When the daemon goes away, or is on its way out, before it has answered: is the next one asked? */
enum rpc_retry {
    RPC_ONCE,      /* no */
    RPC_IF_UNSEEN, /* if it is certain that nothing was done: it says that it is stopping, or did not even greet */
    RPC_ALWAYS,    /* yes: the question changes nothing */
};

struct rpc {
    enum proto_event_type want; /* the event that is the answer */
    enum rpc_retry retry;
    int64_t wait_ms; /* for it; -1: for ever */
};

/*
 * Send @request over @c, which is connected first if it is not; it stays so for the next one. 0: the caller owns *e and
 * calls proto_event_fini. Else the exit status; what is wrong has been said. connection_close in any case.
 */
int rpc_call(const struct options *o, struct connection *c, const struct proto_request *request, const struct rpc *how,
             struct proto_event *e);
