/* SPDX-License-Identifier: MIT */
#include "client/embed/embed-call.h"
#include "client/endpoints.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

enum {
    EMBED_TRIES = 4,
    EMBED_RETRY = -1, /* no exit status: ask another daemon */
    EMBED_TEXTS = 2048,
    EMBED_BYTES = 4 << 20, /* texts of one request, if it has more than one */
    EMBED_GRACE_MS = 2000, /* for the daemon to tell that the time is over */
};

/* An ask on its way. */
struct asking {
    const struct embed_ask *ask;
    embed_piece piece;
    void *ctx;
    size_t done;  /* texts whose vectors came */
    size_t first; /* of them all: the first text of the request */
    size_t n;     /* texts of the request */
    uint32_t dim; /* of all vectors; 0: none came */
};

void embed_client_init(struct embed_client *c, const struct options *o)
{
    *c = (struct embed_client){.o = o, .c = CONNECTION_INIT};
}

void embed_client_fini(struct embed_client *c)
{
    if (c->c.fd >= 0) interrupt_unblock();
    connection_close(&c->c);
}

static void hang_up(struct embed_client *c)
{
    if (c->c.fd >= 0) interrupt_unblock();
    connection_close(&c->c);
}

/* 0, or the exit status. */
static int reach(struct embed_client *c)
{
    struct endpoints endpoints;
    int r = endpoints_find(&endpoints, c->o);
    const bool found = r == 0;
    if (found) r = endpoints_connect_or_start(&endpoints);
    endpoints_fini(&endpoints);
    if (r >= 0) {
        connection_open(&c->c, r);
        c->c.needs = PROTO_FEATURE_EMBED;
        interrupt_block();
        return 0;
    }
    if (r == -EINTR || r == -ENOMEM) return exit_status_report(r);
    if (!found) return exit_status_before(r);
    log_error("%s", error_text(r));
    return exit_status_of_connect(r);
}

/* As many texts from @s->done as fit into one request. */
static void choose(struct asking *s)
{
    size_t bytes = 0, n = 0;
    s->first = s->done;
    while (n < EMBED_TEXTS && s->first + n < s->ask->n) {
        bytes += s->ask->texts[s->first + n].len;
        if (n && bytes > EMBED_BYTES) break;
        n++;
    }
    s->n = n;
}

/* 0, or the exit status. A daemon that closes the connection may have sent an error first, so that is no failure. */
static int ask_daemon(struct embed_client *c, struct asking *s, bool hello)
{
    const struct embed_ask *a = s->ask;
    struct proto_request r = {.type = a->question ? PROTO_RANK : PROTO_EMBED, .id = ++c->id};
    proto_generate_init(&r.gen);
    r.gen.priority = c->o->priority;
    r.gen.timeout_ms = c->o->timeout_ms;
    /* borrowed, never freed through @r */
    r.embed = (struct proto_embed){.texts = (struct proto_text *)a->texts + s->first,
                                   .n_texts = s->n,
                                   .question = (struct proto_text *)a->question,
                                   .pooling = a->pooling,
                                   .dims = a->dims,
                                   .unscaled = a->unscaled};
    struct buf frames = BUF_INIT;
    int e = hello ? connection_hello(&frames, NULL) : 0;
    if (e == 0) e = proto_write_request(&frames, &r);
    if (e == 0) e = connection_send(&c->c, &frames, NULL, -1);
    buf_fini(&frames);
    return e < 0 ? exit_status_report(e) : 0;
}

/* 0, or the exit status: vectors that do not follow the ones before. */
static int take(struct embed_client *c, struct asking *s, struct proto_vectors *v)
{
    if (s->first + v->first != s->done || v->n > s->first + s->n - s->done || (s->dim && v->dim != s->dim)) {
        log_error("the daemon sent vectors of other texts than expected");
        return EXIT_FAILED;
    }
    s->dim = v->dim;
    v->first = (uint32_t)s->done;
    s->done += v->n;
    return s->piece(s->ctx, v);
}

static int refused(struct embed_client *c, const struct proto_event *e)
{
    if (e->code == ESHUTDOWN) return EMBED_RETRY;
    c->too_long = e->code == E2BIG;
    if (c->too_long && c->shortens) return EXIT_FAILED;
    log_error("%s", e->message.len ? e->message.data : strerror(e->code));
    return exit_status_of_event(e->code, false);
}

/* Handle an event of the request. *ended: it was the last one. 0, EMBED_RETRY, or the exit status. */
static int handle(struct embed_client *c, struct asking *s, struct proto_event *e, bool *ended)
{
    if (e->type == PROTO_EV_ERROR && (e->id == c->id || e->id == 0)) return refused(c, e);
    if (e->id != c->id) return 0;
    if (e->type == PROTO_EV_EMBEDDINGS || e->type == PROTO_EV_SCORES) return take(c, s, &e->vectors);
    if (e->type != PROTO_EV_DONE) return 0;
    *ended = true;
    c->tokens += e->usage_prompt;
    c->cached += e->usage_cached;
    if (s->done == s->first + s->n) return 0;
    log_error("the daemon ended the request before its last vector");
    return EXIT_FAILED;
}

static int await(struct embed_client *c, struct asking *s)
{
    const int64_t timeout = c->o->timeout_ms;
    int64_t deadline = timeout > 0 && timeout < INT64_MAX / 2 ? interrupt_now() + timeout + EMBED_GRACE_MS : -1;
    for (bool ended = false; !ended;) {
        struct proto_event e;
        int r = connection_next(&c->c, &e, deadline, -1);
        if (r == CONNECTION_CLOSED) return EMBED_RETRY;
        if (r == -ETIMEDOUT) {
            log_error("%s", error_text(r));
            return EXIT_BUSY;
        }
        if (r < 0) return exit_status_report(r);
        r = handle(c, s, &e, &ended);
        proto_event_fini(&e);
        if (r != 0) return r;
    }
    return 0;
}

/* One request, asked of several daemons if they end. */
static int request(struct embed_client *c, struct asking *s)
{
    static const int pause_ms[EMBED_TRIES] = {0, 0, 50, 250};
    for (int i = 0; i < EMBED_TRIES; i++) {
        const bool fresh = c->c.fd < 0;
        const size_t before = s->done;
        int status = pause_ms[i] > 0 && interrupt_sleep(pause_ms[i]) < 0 ? EXIT_INTERRUPTED : 0;
        if (status == 0 && fresh) status = reach(c);
        choose(s);
        if (status == 0) status = ask_daemon(c, s, fresh);
        if (status == 0) status = await(c, s);
        if (status != EMBED_RETRY) return status;
        hang_up(c);
        if (s->done > before) i = 0;
        if (s->done == s->ask->n) return 0;
    }
    log_error("the daemon closed the connection without an answer; try again");
    return EXIT_NO_DAEMON;
}

int embed_stream(struct embed_client *c, const struct embed_ask *ask, embed_piece piece, void *ctx)
{
    struct asking s = {.ask = ask, .piece = piece, .ctx = ctx};
    int status = 0;
    c->too_long = false;
    while (status == 0 && s.done < ask->n) status = request(c, &s);
    if (status != 0) hang_up(c); /* which cancels what is left */
    return status;
}

struct collection {
    struct embed_vectors *out;
    size_t n;
};

static int collect(void *ctx, const struct proto_vectors *v)
{
    struct collection *c = ctx;
    struct embed_vectors *out = c->out;
    if (!out->values) {
        out->dim = v->dim;
        out->values = reallocarray(NULL, c->n, v->dim * sizeof(*out->values));
        if (!out->values) return exit_status_report(error_say(-ENOMEM, "no memory for the vectors of %zu texts", c->n));
    }
    memcpy(out->values + (size_t)v->first * v->dim, v->values, (size_t)v->n * v->dim * sizeof(*v->values));
    out->n += v->n;
    return 0;
}

int embed_texts(struct embed_client *c, const struct embed_ask *ask, struct embed_vectors *out)
{
    *out = (struct embed_vectors){0};
    struct collection all = {out, ask->n};
    int status = embed_stream(c, ask, collect, &all);
    if (status != 0) embed_vectors_fini(out);
    return status;
}

void embed_vectors_fini(struct embed_vectors *v)
{
    free(v->values);
    *v = (struct embed_vectors){0};
}
