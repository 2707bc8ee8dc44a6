/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One peer: input becomes requests, events become output. It checks the rules of the protocol (hello first, one live
 * request per id, limits) and never blocks. When the peer disconnects, the connection is closed but exists until the
 * engine has ended its last live request.
 */
#include "daemon/io/account.h"
#include "libcommon/proto.h"
#include <stdbool.h>

struct conn;
struct conns;

struct conn_ops {
    /* A request after hello; the id is not checked yet. The callee may take the members of @r and leave it zero. */
    void (*request)(void *ctx, struct conn *c, struct proto_request *r);
    /* Pause its answers because its reader is slow, or resume them. */
    void (*pause)(void *ctx, struct conn *c, bool pause);
    /* The connection is closed: end request @id. */
    void (*abandon)(void *ctx, struct conn *c, uint64_t id);
    /* The socket is closed and no request is live: free @c, but later: any function here may call this. Called once. */
    void (*finished)(void *ctx, struct conn *c);
    /* Its hello names the user @name: move it to that user's account by conn_move. 0, or -errno with a message. */
    int (*user)(void *ctx, struct conn *c, const struct proto_text *name);
};

/* About the main thread's time for a new connection, in us. */
enum { CONN_ACCEPT_USEC = 20 };

struct conn_limits {
    size_t high, low; /* bytes of output at which answers (and input) pause, and resume */
    size_t hard;      /* bytes of output at which one more text drops the connection; other events end their requests,
                       * which are few, and count for the uid's bytes */
    size_t requests;  /* live ones */
    size_t frame;     /* largest body of a message */
    size_t jobs;      /* live ones of a user that are neither generated nor queued; the next one is held */
    size_t errors;    /* messages that break the protocol, minus good ones; at more the connection ends */
};

extern const struct conn_limits conn_limits_default;

/*
 * Takes @fd (non-blocking) and one connection of @a, also on failure. @s outlives it. 0, -ENOMEM, or an
 * error of sd_event_add_io.
 */
int conn_new(struct conn **out, struct conns *s, int fd, uint64_t id, struct account *a);
struct conn *conn_free(struct conn *c); /* NULL ok, returns NULL */

uint64_t conn_id(const struct conn *c);
uid_t conn_uid(const struct conn *c); /* a number of request/named-users.h if a gateway has named its user */

/* Move the connection, which has no requests, to the account of its gateway's user @name with @number. As account_move;
 * or -EDQUOT. */
int conn_move(struct conn *c, uid_t number, const char *name);

/*
 * Request @id becomes live and holds @bytes. 0, or with a message: -EINVAL it is live already; -EBUSY too many are
 * live; -EDQUOT the uid's bytes are used up; -ENOMEM.
 */
int conn_begin(struct conn *c, uint64_t id, size_t bytes);
/* The same for a request that is neither generated nor queued (conn_is_job). */
int conn_begin_job(struct conn *c, uint64_t id, size_t bytes);
bool conn_is_job(enum proto_type t);
/* Request @id, if live, has ended. */
void conn_end(struct conn *c, uint64_t id);
bool conn_is_live(const struct conn *c, uint64_t id);
size_t conn_live(const struct conn *c);
/* Live ids: @i < conn_live. */
uint64_t conn_live_at(const struct conn *c, size_t i);

/* Queue an event; conns_flush writes it. On a closed connection it does nothing. An event over
 * the protocol's limits is replaced by an error. */
void conn_send(struct conn *c, const struct proto_event *e);
/* conn_send of an error event. @code is a positive errno. */
void conn_send_error(struct conn *c, uint64_t id, int code, const char *message);

/* Read and handle what has arrived, without waiting: at most so many messages, and about so many bytes of new input.
 * True: there may be more. */
bool conn_read(struct conn *c, size_t messages, size_t bytes);
/* The same for all that has arrived, of which the event loop need not know yet, up to about so many bytes. */
void conn_read_rest(struct conn *c, size_t bytes);
/* Write as much as the socket takes. */
void conn_flush(struct conn *c);

bool conn_paused(const struct conn *c);
/* The socket is closed; live requests may still wait for the engine. */
bool conn_is_closed(const struct conn *c);
/* All output was written, or the connection is closed. */
bool conn_flushed(const struct conn *c);

/* Read no more; close when all live requests have ended and all output is written. */
void conn_finish(struct conn *c);
/* Close now: unwritten output is lost, and live requests are abandoned. */
void conn_drop(struct conn *c);
