/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An HTTP request and its response. libmicrohttpd calls exchange_upload and exchange_respond; a route fills the
 * response, at once or when events of a daemon arrive. Meanwhile the connection is suspended, which costs no time.
 *
 * libmicrohttpd does not notice that the client of a suspended connection has closed it. So the event loop watches for
 * EPOLLRDHUP from the time at which the request is complete. A client that closes only its sending direction counts as
 * disconnected, as it does for most HTTP servers.
 */
#include "client/http/fault.h"
#include "client/http/gateway.h"
#include "client/http/upstream.h"
#include "libcommon/buf.h"
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

struct completion;
struct exchange;
struct session_lookup;
struct text_call;

/* The form of errors. */
enum api { API_OPENAI, API_ANTHROPIC };

struct http_route {
    const char *method, *path; /* a segment "*" stands for any name */
    enum api api;
    bool open; /* needs no key, and the pages of other sites may request it */
    /* The request is complete. 0: the response has begun, or an event will begin it; else negative with x->fault. */
    int (*handle)(struct exchange *x);
};

struct exchange {
    struct gateway *gateway;
    struct MHD_Connection *connection;
    struct exchange *next, **link; /* in gateway.exchanges */
    const struct http_route *route;
    char *name;      /* owned: the segment of the path that "*" stands for; NULL: none */
    struct key *key; /* held; NULL: the gateway needs none */
    char user[24];   /* without keys: the name of the client's uid; "": the gateway's own user */
    bool counted;    /* for the limits of the key */
    struct buf body; /* of the request */
    size_t held;     /* bytes of the body that count for body-budget.h; also after it was parsed */
    struct upstream *upstream;
    struct completion *completion; /* owned; NULL: none */
    struct session_lookup *lookup; /* owned; NULL: none */
    struct text_call *texts;       /* owned; NULL: none */
    struct fault fault;
    struct buf out;                    /* bytes of the response */
    size_t taken;                      /* bytes of @out that the client's connection has taken */
    int status;                        /* 0: the response has not begun */
    const char *content_type, *policy; /* Content-Security-Policy; NULL: none */
    bool stream;                       /* the response is an event stream */
    bool ended;                        /* nothing more is added to @out */
    bool queued, suspended;            /* libmicrohttpd has the response; the connection waits for exchange_wake */
    bool disconnected;                 /* the client has closed the connection */
    sd_event_source *hangup;
    uint64_t begun_usec, moved_usec; /* start; last time at which a byte was added or taken */
};

/* NULL: no memory. */
struct exchange *exchange_new(struct gateway *g, struct MHD_Connection *c, const struct http_route *route);
void exchange_free(struct exchange *x);

/* The name of the user whom the daemon shall serve; NULL: the uid of this process. */
const char *exchange_user(const struct exchange *x);

/* Add bytes of the request's body. 0; -EFBIG: over a limit, the rest is dropped; -ENOMEM. */
int exchange_upload(struct exchange *x, const char *data, size_t n);

/* The request is complete, or the connection was resumed: call the route, pass the response to libmicrohttpd, or
 * suspend the connection. */
enum MHD_Result exchange_respond(struct exchange *x);

/* Pass the response for x->fault to libmicrohttpd, before the body of the request was read. */
enum MHD_Result exchange_refuse(struct exchange *x);

/* x->out is the whole body of the response. */
void exchange_reply(struct exchange *x, int status, const char *content_type);

/* Begin an event stream, with x->out as its first bytes. */
void exchange_stream(struct exchange *x);

/* x->out has more bytes, or the stream is complete (@end). */
void exchange_more(struct exchange *x, bool end);

/* Answer with x->fault: as an error response, or as the last event of a stream that has begun. */
void exchange_fail(struct exchange *x);

/* Once a second: ping silent streams, end connections whose client takes nothing of its response. */
void exchange_tick(struct exchange *x, uint64_t now);
