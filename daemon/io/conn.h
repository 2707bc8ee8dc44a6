/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One peer: bytes in become requests, events become bytes out. It keeps the rules of the wire (hello first, one live
 * request per id, limits), never waits, and forgets no request that the engine still holds: when its peer is gone it
 * stays, closed, until each of them has ended.
 */
#include "daemon/io/account.h"
#include "daemon/io/conns.h"
#include "libcommon/proto.h"
#include <stdbool.h>

struct conn;

struct conn_ops {
    /* A request after hello; the id is not checked yet. The callee may take what @r holds (and leaves it zero). */
    void (*request)(void *ctx, struct conn *c, struct proto_request *r);
    /* Its reader is slow and its answers should pause; or no longer. */
    void (*pause)(void *ctx, struct conn *c, bool pause);
    /* The peer is gone: end request @id. */
    void (*abandon)(void *ctx, struct conn *c, uint64_t id);
    /* The socket is closed and no request is live: @c is to be freed. Once, from inside any function here: free it
     * later. */
    void (*finished)(void *ctx, struct conn *c);
};

struct conn_limits {
    size_t high, low; /* bytes of output at which answers pause (input too), and go on */
    size_t hard;      /* bytes of output at which one more text drops the connection; other events end their requests,
                       * which are few, and count for the uid's bytes */
    size_t requests;  /* live ones */
    size_t frame;     /* largest body of a message */
    size_t jobs;      /* live ones of a user that are neither generated nor queued; the next one waits, unread */
    size_t errors;    /* messages that break the protocol, more than good ones, at which the connection ends */
};

extern const struct conn_limits conn_limits_default;

/*
 * Takes @fd (non-blocking) and one connection of @a, also on failure. @s outlives it. 0, -ENOMEM, or what
 * sd_event_add_io says.
 */
int conn_new(struct conn **out, struct conns *s, int fd, uint64_t id, struct account *a);
struct conn *conn_free(struct conn *c); /* NULL ok, returns NULL */

uint64_t conn_id(const struct conn *c);
uid_t conn_uid(const struct conn *c);

/*
 * Request @id is live from now on and holds @bytes. 0; -EINVAL it is live already; -EBUSY too many are; -EDQUOT the
 * uid's bytes are used up; -ENOMEM; each with a sentence.
 */
int conn_begin(struct conn *c, uint64_t id, size_t bytes);
/* The same for a request that is neither generated nor queued (conn_is_job). */
int conn_begin_job(struct conn *c, uint64_t id, size_t bytes);
bool conn_is_job(enum proto_type t);
/* Request @id is live no longer (if it is). */
void conn_end(struct conn *c, uint64_t id);
bool conn_is_live(const struct conn *c, uint64_t id);
size_t conn_live(const struct conn *c);
/* Live ids: @i < conn_live. */
uint64_t conn_live_at(const struct conn *c, size_t i);

/* Queue an event; conns_flush writes it. After the peer is gone it does nothing. An event over the
 * protocol's limits is replaced by an error. */
void conn_send(struct conn *c, const struct proto_event *e);
/* conn_send of an error event. @code is a positive errno. */
void conn_send_error(struct conn *c, uint64_t id, int code, const char *message);

/* Read and handle what has arrived, without waiting: at most so many messages, and about so many bytes of new input.
 * True: there may be more. */
bool conn_read(struct conn *c, size_t messages, size_t bytes);
/* The same for all that has arrived, of which the event loop need not know yet, up to about so many bytes. */
void conn_read_rest(struct conn *c, size_t bytes);
/* Write what the socket takes now. */
void conn_flush(struct conn *c);

bool conn_paused(const struct conn *c);
/* The socket is closed; what is live still waits for the engine. */
bool conn_is_gone(const struct conn *c);
/* The peer has everything that was sent. True also when it is gone. */
bool conn_flushed(const struct conn *c);

/* Read no more; close as soon as all live requests have ended and the peer has everything. */
void conn_finish(struct conn *c);
/* The same, but what has not been written by now is lost, and live requests are abandoned. */
void conn_drop(struct conn *c);
