/* SPDX-License-Identifier: MIT */
#include "client/rpc.h"
#include "client/endpoints.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <string.h>

#define RPC_TRIES 4
#define RPC_RETRY (-1) /* no exit status: ask another daemon */

/* 0, or the exit status. */
static int rpc_connect(const struct options *o, struct connection *c, bool start)
{
    struct endpoints endpoints;
    int r = endpoints_find(&endpoints, o), status = 0;
    if (r == 0) {
        r = start ? endpoints_connect_or_start(&endpoints) : endpoints_connect(&endpoints);
        if (r < 0 && r != -ENOMEM && r != -EINTR) {
            log_error("%s", error_text(r));
            status = exit_status_of_connect(r);
        }
    }
    endpoints_fini(&endpoints);
    if (status != 0) return status;
    if (r < 0) return exit_status_report(r);
    connection_open(c, r);
    interrupt_block();
    return 0;
}

/* Send the request. If the daemon closes the connection, it may have sent an error first, so this is no failure here.
 * 0, or the exit status. */
static int rpc_send(struct connection *c, const struct proto_request *request, bool hello)
{
    struct buf frames = BUF_INIT;
    int r = hello ? connection_hello(&frames, NULL) : 0;
    if (r == 0) r = proto_write_request(&frames, request);
    if (r == 0) r = connection_send(c, &frames, NULL, -1);
    buf_fini(&frames);
    return r < 0 ? exit_status_report(r) : 0;
}

static int rpc_refused(const struct proto_event *e, enum rpc_retry retry)
{
    if (e->code == ESHUTDOWN && retry != RPC_ONCE) return RPC_RETRY;
    log_error("%s", e->message.len ? e->message.data : strerror(e->code));
    return exit_status_of_event(e->code, false);
}

/* 0, RPC_RETRY, or the exit status. */
static int rpc_await(struct connection *c, uint64_t id, const struct rpc *how, struct proto_event *e)
{
    int64_t deadline = how->wait_ms >= 0 ? interrupt_now() + how->wait_ms : -1;
    for (;;) {
        int r = connection_next(c, e, deadline, -1);
        if (r == CONNECTION_CLOSED && (how->retry == RPC_ALWAYS || (how->retry == RPC_IF_UNSEEN && !c->greeted)))
            return RPC_RETRY;
        if (r == CONNECTION_CLOSED || r == -ETIMEDOUT) {
            log_error("the daemon %s",
                      r == CONNECTION_CLOSED ? "closed the connection before it answered" : "does not answer");
            return EXIT_NO_DAEMON;
        }
        if (r < 0) return exit_status_report(r);
        if (e->type == how->want && e->id == id) return 0;
        if (how->may_lack && e->type == PROTO_EV_ERROR && e->id == id && e->code == ENOENT) return 0;
        /* An error without an id concerns the connection. */
        r = e->type == PROTO_EV_ERROR && (e->id == id || e->id == 0) ? rpc_refused(e, how->retry) : 0;
        proto_event_fini(e);
        if (r != 0) return r;
    }
}

int rpc_call(const struct options *o, struct connection *c, const struct proto_request *request, const struct rpc *how,
             struct proto_event *e)
{
    static const int pause_ms[RPC_TRIES] = {0, 0, 50, 250};
    for (int i = 0; i < RPC_TRIES; i++) {
        bool fresh = c->fd < 0;
        int status = pause_ms[i] > 0 && interrupt_sleep(pause_ms[i]) < 0 ? EXIT_INTERRUPTED : 0;
        if (status == 0 && fresh) status = rpc_connect(o, c, how->start);
        if (status == 0) status = rpc_send(c, request, fresh);
        if (status == 0) status = rpc_await(c, request->id, how, e);
        if (status != RPC_RETRY) return status;
        connection_close(c);
        interrupt_unblock();
    }
    log_error("the daemon closed the connection without an answer; try again");
    return EXIT_NO_DAEMON;
}
