/* SPDX-License-Identifier: MIT */
#include "daemon/io/account.h"
#include "daemon/io/service.h"
#include "libcommon/error.h"
#include "tests/io/wire.h"
#include "tests/support/tiny.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG = 30000 }; /* tokens of an answer that does not end while it is looked at */

/* A service with a real engine on a small model. */
struct fixture {
    sd_event *event;
    struct engine *engine;
    struct service *service;
    char model[64];
    struct buf out;
    unsigned stops;
    struct wire *watch;
};

static void on_stop(void *ctx, uid_t uid)
{
    struct fixture *g = ctx;
    struct proto_event e;

    g->stops++;
    assert_int_equal(uid, geteuid());
    if (g->watch) assert_false(wire_next(g->watch, &e)); /* it is told only after */
}

static void start(struct fixture *g, const char *content, size_t connections)
{
    struct engine_config ec;
    const struct service_config sc = {.model = "tiny", .connections = connections, .stop = on_stop, .ctx = g};

    snprintf(g->model, sizeof g->model, "/tmp/hob-service-XXXXXX");
    close(mkstemp(g->model));
    if (content) {
        FILE *f = fopen(g->model, "w");

        fputs(content, f);
        fclose(f);
    } else {
        struct tiny t;

        tiny_init(&t);
        t.ctx = 32768;
        assert_int_equal(tiny_write(&t, g->model), 0);
    }
    engine_config_init(&ec);
    ec.model_path = g->model;
    ec.model_name = (char *)"tiny";
    ec.threads = 1;
    ec.kv_bytes = 64 << 20;
    assert_true(sd_event_new(&g->event) >= 0);
    assert_int_equal(engine_new(&g->engine, &ec), 0);
    assert_int_equal(service_new(&g->service, g->event, g->engine, &sc), 0);
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *g = *state;

    service_free(g->service);
    engine_free(g->engine);
    sd_event_unref(g->event);
    buf_fini(&g->out);
    unlink(g->model);
    free(g);
    return 0;
}

static void turn(struct fixture *g)
{
    assert_true(sd_event_run(g->event, 10000) >= 0);
    service_reap(g->service);
}

static void open_wire(struct fixture *g, struct wire *w)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    wire_init(w, fds[1]);
    service_add(g->service, fds[0]);
}

/* The next event; waits for it. False: closed. */
static bool next(struct fixture *g, struct wire *w, struct proto_event *e)
{
    for (int i = 0; i < 20000; i++) {
        if (wire_next(w, e)) return true;
        if (w->eof) return false;
        assert_true(sd_event_run(g->event, 10000) >= 0);
        service_reap(g->service);
    }
    fail_msg("nothing came");
    return false;
}

static void greet(struct fixture *g, struct wire *w)
{
    struct proto_event e;

    open_wire(g, w);
    put_hello(&g->out, PROTO_VERSION);
    wire_write(w, &g->out);
    assert_true(next(g, w, &e));
    assert_int_equal(e.type, PROTO_EV_HELLO);
}

static void ask(struct fixture *g, struct wire *w, uint64_t id, int64_t tokens)
{
    struct proto_request r = {.type = PROTO_GENERATE, .id = id};

    proto_generate_init(&r.gen);
    r.gen.raw = true;
    r.gen.prompt = (struct proto_text){(char *)"hello", 5};
    r.gen.max_tokens = tokens;
    r.gen.ignore_eos = true;
    assert_int_equal(proto_write_request(&g->out, &r), 0);
    wire_write(w, &g->out);
}

static void request(struct fixture *g, struct wire *w, enum proto_type type, uint64_t id)
{
    put_request(&g->out, type, id);
    wire_write(w, &g->out);
}

/* Read up to the last event of @id; its type. With @e it is the caller's. */
static enum proto_event_type finish(struct fixture *g, struct wire *w, uint64_t id, struct proto_event *last)
{
    struct proto_event e;

    while (next(g, w, &e)) {
        enum proto_event_type type = e.type;
        bool end = type == PROTO_EV_DONE || type == PROTO_EV_ERROR || type == PROTO_EV_TOKENS ||
                   type == PROTO_EV_STATUS || type == PROTO_EV_STOPPING;

        end = end && e.id == id;
        if (end && last)
            *last = e;
        else
            proto_event_fini(&e);
        if (end) return type;
    }
    return 0;
}

static void expect_closed(struct fixture *g, struct wire *w)
{
    struct proto_event e;

    assert_false(next(g, w, &e));
}

static void answers_come_back_by_id(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    struct proto_event e;

    start(g, NULL, 0);
    greet(g, &w);
    ask(g, &w, 11, 5);
    request(g, &w, PROTO_TOKENIZE, 12);
    assert_int_equal(finish(g, &w, 11, &e), PROTO_EV_DONE);
    assert_int_equal(e.usage_completion, 5);
    proto_event_fini(&e);
    ask(g, &w, 11, 3); /* free again */
    assert_int_equal(finish(g, &w, 11, NULL), PROTO_EV_DONE);
    request(g, &w, PROTO_STATUS, 13);
    assert_int_equal(finish(g, &w, 13, &e), PROTO_EV_STATUS);
    assert_non_null(strstr(e.status.data, "ready"));
    proto_event_fini(&e);
    assert_int_equal(service_live(g->service), 0);
    assert_int_equal(service_accepted(g->service), 3); /* status is no work */
    wire_fini(&w);
}

static void duplicate_live_id_is_refused(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    struct proto_event e;

    start(g, NULL, 0);
    greet(g, &w);
    put_request(&g->out, PROTO_TOKENIZE, 1);
    put_request(&g->out, PROTO_TOKENIZE, 1);
    wire_write(&w, &g->out); /* both are read before the engine's answer to the first is */
    assert_int_equal(finish(g, &w, 1, &e), PROTO_EV_ERROR);
    assert_int_equal(e.code, EINVAL);
    proto_event_fini(&e);
    assert_int_equal(finish(g, &w, 1, NULL), PROTO_EV_TOKENS);
    wire_fini(&w);
}

static void cancel_ends_with_done(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    struct proto_event e;

    start(g, NULL, 0);
    greet(g, &w);
    request(g, &w, PROTO_CANCEL, 77); /* never was */
    ask(g, &w, 1, LONG);
    request(g, &w, PROTO_CANCEL, 1);
    assert_int_equal(finish(g, &w, 1, &e), PROTO_EV_DONE);
    assert_int_equal(e.reason, PROTO_STOP_CANCEL);
    proto_event_fini(&e);
    wire_fini(&w);
}

static void disconnect_cancels_and_is_forgotten(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    start(g, NULL, 0);
    greet(g, &w);
    for (uint64_t id = 1; id <= 20; id++) ask(g, &w, id, LONG);
    while (service_live(g->service) < 20) turn(g);
    wire_fini(&w);
    while (service_open(g->service)) turn(g);
    assert_int_equal(service_live(g->service), 0);
    while (engine_load(g->engine)) turn(g);
    greet(g, &w); /* and the next one is served */
    ask(g, &w, 1, 2);
    assert_int_equal(finish(g, &w, 1, NULL), PROTO_EV_DONE);
    wire_fini(&w);
}

static void connections_over_the_limit_are_told(void **state)
{
    struct fixture *g = *state;
    struct wire a, b, c;
    struct proto_event e;

    start(g, NULL, 4); /* of which one uid has half */
    greet(g, &a);
    greet(g, &b);
    open_wire(g, &c);
    assert_true(next(g, &c, &e));
    assert_int_equal(e.type, PROTO_EV_ERROR);
    assert_int_equal(e.code, EBUSY);
    proto_event_fini(&e);
    expect_closed(g, &c);
    wire_fini(&c);
    wire_fini(&a);
    while (service_open(g->service) > 1) turn(g);
    greet(g, &c);
    wire_fini(&b);
    wire_fini(&c);
}

/* Opens one more connection, which the service refuses. True: because the user has made too many new ones. */
static bool too_often(struct fixture *g)
{
    struct proto_event e;
    struct wire w;
    bool often;

    open_wire(g, &w);
    assert_true(wire_next(&w, &e));
    assert_int_equal(e.type, PROTO_EV_ERROR);
    assert_int_equal(e.code, EBUSY);
    often = strstr(e.message.data, "too many new connections");
    proto_event_fini(&e);
    assert_false(wire_next(&w, &e));
    assert_true(w.eof);
    wire_fini(&w);
    return often;
}

static void new_connections_over_the_rate_are_told(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    int n = 1;

    start(g, NULL, 2); /* of which one uid has one */
    greet(g, &w);
    while (n < 20 * ACCOUNT_BURST && !too_often(g)) n++;
    assert_in_range(n, ACCOUNT_BURST, 20 * ACCOUNT_BURST - 1); /* more than the burst: time passes meanwhile */
    while (!too_often(g)) continue;                            /* by the message that was kept */
    request(g, &w, PROTO_STATUS, 1);                           /* the open one is served as before */
    assert_int_equal(finish(g, &w, 1, NULL), PROTO_EV_STATUS);
    wire_fini(&w);
}

static void drain_serves_what_was_accepted(void **state)
{
    struct fixture *g = *state;
    struct wire idle, busy, late;
    struct proto_event e;

    start(g, NULL, 0);
    greet(g, &idle);
    greet(g, &busy);
    greet(g, &late);
    ask(g, &busy, 1, 100);
    while (service_live(g->service) == 0) turn(g);
    ask(g, &late, 1, 100); /* sent, but not read yet */
    service_drain(g->service);
    expect_closed(g, &idle);
    assert_false(service_quiet(g->service));
    assert_int_equal(finish(g, &late, 1, &e), PROTO_EV_DONE);
    assert_int_equal(e.usage_completion, 100);
    proto_event_fini(&e);
    assert_int_equal(finish(g, &busy, 1, NULL), PROTO_EV_DONE);
    expect_closed(g, &late);
    expect_closed(g, &busy);
    assert_true(service_quiet(g->service));
    wire_fini(&idle);
    wire_fini(&busy);
    wire_fini(&late);
}

static void new_requests_are_refused_while_draining(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    struct proto_event e;

    start(g, NULL, 0);
    greet(g, &w);
    ask(g, &w, 1, LONG);
    while (service_live(g->service) == 0) turn(g);
    service_drain(g->service);
    ask(g, &w, 2, 5);
    assert_int_equal(finish(g, &w, 2, &e), PROTO_EV_ERROR);
    assert_int_equal(e.code, ESHUTDOWN);
    proto_event_fini(&e);
    request(g, &w, PROTO_CANCEL, 1);
    assert_int_equal(finish(g, &w, 1, NULL), PROTO_EV_DONE);
    expect_closed(g, &w);
    wire_fini(&w);
}

static void stop_is_told_after_it_was_begun(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    struct proto_event e;

    start(g, NULL, 0);
    greet(g, &w);
    g->watch = &w;
    request(g, &w, PROTO_STOP, 4);
    assert_int_equal(finish(g, &w, 4, NULL), PROTO_EV_STOPPING);
    assert_int_equal(g->stops, 1);
    service_drain(g->service);
    request(g, &w, PROTO_STATUS, 5);
    assert_int_equal(finish(g, &w, 5, &e), PROTO_EV_STATUS);
    assert_non_null(strstr(e.status.data, "stopping"));
    proto_event_fini(&e);
    assert_int_equal(service_open(g->service), 1); /* it waits for the end */
    assert_true(service_quiet(g->service));
    wire_fini(&w);
}

static void failed_load_answers_with_the_reason(void **state)
{
    struct fixture *g = *state;
    struct wire w, late;
    struct proto_event e;
    const char *why;

    start(g, "this is no model", 0);
    greet(g, &w);
    greet(g, &late);
    ask(g, &w, 1, 5);
    ask(g, &w, 2, 5);
    while (service_accepted(g->service) < 2) turn(g);
    while (engine_state(g->engine, &why) != ENGINE_FAILED) turn(g);
    service_fail(g->service, EIO, why);
    for (uint64_t id = 1; id <= 2; id++) {
        assert_true(next(g, &w, &e));
        assert_int_equal(e.type, PROTO_EV_ERROR);
        assert_int_equal(e.code, EIO);
        assert_non_null(strstr(e.message.data, g->model));
        proto_event_fini(&e);
    }
    request(g, &late, PROTO_STATUS, 8);
    assert_int_equal(finish(g, &late, 8, &e), PROTO_EV_STATUS);
    assert_non_null(strstr(e.status.data, "failed"));
    proto_event_fini(&e);
    ask(g, &late, 9, 5);
    assert_int_equal(finish(g, &late, 9, &e), PROTO_EV_ERROR);
    assert_int_equal(e.code, EIO);
    assert_non_null(strstr(e.message.data, g->model));
    proto_event_fini(&e);
    expect_closed(g, &late);
    wire_fini(&w);
    wire_fini(&late);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(answers_come_back_by_id),
        T(duplicate_live_id_is_refused),
        T(cancel_ends_with_done),
        T(disconnect_cancels_and_is_forgotten),
        T(connections_over_the_limit_are_told),
        T(new_connections_over_the_rate_are_told),
        T(drain_serves_what_was_accepted),
        T(new_requests_are_refused_while_draining),
        T(stop_is_told_after_it_was_begun),
        T(failed_load_answers_with_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
