/* SPDX-License-Identifier: MIT */
#include "client/http/session-lookup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

enum { TRIES = 50, WAIT_USEC = 20000 };

struct session_lookup {
    struct exchange *exchange;
    struct proto_request request;
    char *socket;
    session_lookup_fn fn;
    unsigned tries;
    sd_event_source *timer; /* until the next try */
};

struct session_lookup *session_lookup_free(struct session_lookup *l)
{
    if (!l) return NULL;
    sd_event_source_disable_unref(l->timer);
    proto_request_fini(&l->request);
    free(l->socket);
    free(l);
    return NULL;
}

static void on_event(void *ctx, struct proto_event *e, int r);

static int ask(struct session_lookup *l)
{
    struct exchange *x = l->exchange;
    l->tries++;
    int r = upstream_open(&x->upstream, x->gateway->event, l->socket, exchange_user(x), &l->request, on_event, l);
    if (r == -ENOENT || r == -EAGAIN) return fault_set(&x->fault, 503, NULL, "%s", error_text(r));
    return r < 0 ? fault_of_error(&x->fault, r) : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *ctx)
{
    struct session_lookup *l = ctx;
    l->timer = sd_event_source_disable_unref(l->timer);
    if (!l->exchange->disconnected && ask(l) < 0) exchange_fail(l->exchange);
    return 0;
}

/* False: not again. */
static bool again(struct session_lookup *l)
{
    return l->tries < TRIES && sd_event_add_time_relative(l->exchange->gateway->event, &l->timer, CLOCK_MONOTONIC,
                                                          WAIT_USEC, 0, on_timer, l) >= 0;
}

static void on_event(void *ctx, struct proto_event *e, int r)
{
    struct session_lookup *l = ctx;
    struct exchange *x = l->exchange;
    bool answer = e && (e->type == PROTO_EV_SESSIONS || e->type == PROTO_EV_OK);
    if (x->ended || (e && !answer && e->type != PROTO_EV_ERROR)) return;
    x->upstream = upstream_close(x->upstream);
    bool none = e && e->type == PROTO_EV_ERROR && e->code == ENOENT;
    if (answer || none) {
        l->fn(x, none ? NULL : e);
        return;
    }
    if (e && e->code == EBUSY && again(l)) return;
    if (e)
        fault_of_event(&x->fault, e->code, e->message.data);
    else
        fault_set(&x->fault, 503, NULL, "%s", error_text(r));
    exchange_fail(x);
}

int session_lookup(struct exchange *x, const char *socket, enum proto_type type, const char *name, session_lookup_fn fn)
{
    struct session_lookup *l = calloc(1, sizeof(*l));
    if (!l) return fault_of_error(&x->fault, error_origin(-ENOMEM));
    *l = (struct session_lookup){.exchange = x, .request = {.type = type, .id = 1}, .fn = fn, .socket = strdup(socket)};
    x->lookup = l;
    int r = l->socket ? proto_text_set(&l->request.name, name, strlen(name)) : -ENOMEM;
    return r < 0 ? fault_of_error(&x->fault, error_origin(r)) : ask(l);
}
