/* SPDX-License-Identifier: MIT */
/* Covers engine.c and api.c: the engine's life, with tiny models. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <poll.h>

static void test_pause(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = 200;
    r.gen.ignore_eos = true;
    struct answer *alone = harness_run(h, &r);

    r = harness_raw(harness_story);
    r.gen.max_tokens = 200;
    r.gen.ignore_eos = true;
    uint64_t slow = harness_submit_as(h, 5, 1000, &r);
    engine_pause(h->engine, 5, true);
    /* Others go on; what the slow one had in the queue came before. */
    r = harness_raw("the");
    harness_wait(h, harness_submit_as(h, 6, 1000, &r));
    unsigned seen = h->answers[slow].events;
    for (int i = 0; i < 3; i++) {
        r = harness_raw("the");
        harness_wait(h, harness_submit_as(h, 6, 1000, &r));
    }
    assert_int_equal(h->answers[slow].events, seen);
    assert_false(h->answers[slow].ended);
    engine_pause(h->engine, 5, false);
    struct answer *b = harness_wait(h, slow);
    assert_done(b, PROTO_STOP_LENGTH);
    assert_same(alone, b);
}

static void test_load_failure(void **state)
{
    struct harness *h = *state;
    h->config.model_path = (char *)"/nonexistent/model.gguf";
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    struct proto_request r = harness_raw("x"); /* before or after it failed: the same answer */
    assert_error(harness_run(h, &r), EIO, "/nonexistent/model.gguf");
    const char *why = NULL;
    assert_int_equal(engine_state(h->engine, &why), ENGINE_FAILED);
    assert_non_null(strstr(why, "/nonexistent/model.gguf"));
    r = harness_raw("x");
    assert_error(harness_run(h, &r), EIO, "/nonexistent/model.gguf");
    r = harness_simple(PROTO_STATUS);
    struct answer *a = harness_run(h, &r);
    assert_non_null(strstr(a->last.status.data, "\"state\":\"failed\""));
}

static void test_submitted_while_loading(void **state)
{
    struct harness *h = *state;
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    struct proto_request r = harness_raw("x");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    r = harness_simple(PROTO_STATUS);
    struct answer *a = harness_run(h, &r);
    assert_non_null(strstr(a->last.status.data, "\"state\":\"ready\""));
    assert_non_null(strstr(a->last.status.data, "\"arch\":\"llama\""));
}

/* Each is answered at once, with settings that the engine changes at the end of the load: without a lock, the thread
 * sanitizer reports it. */
static void test_status_while_loading(void **state)
{
    struct harness *h = *state;
    bool ready = false;
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    while (!ready) {
        struct proto_request r = harness_simple(PROTO_STATUS);
        const struct answer *a = harness_run(h, &r);
        assert_non_null(strstr(a->last.status.data, "\"batch_tokens\":"));
        ready = strstr(a->last.status.data, "\"state\":\"ready\"");
        if (!ready) assert_non_null(strstr(a->last.status.data, "\"state\":\"loading\""));
        harness_forget(h);
    }
}

static void test_drain(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story), q = harness_raw("x");
    uint64_t id = harness_submit(h, &r);
    engine_drain(h->engine);
    q.id = 99;
    assert_int_equal(engine_submit(h->engine, 1, 1000, &q), -ESHUTDOWN);
    proto_request_fini(&q);
    assert_done(harness_wait(h, id), PROTO_STOP_LENGTH);
    assert_int_equal(engine_load(h->engine), 0);
    r = harness_simple(PROTO_STATUS);
    assert_non_null(strstr(harness_run(h, &r)->last.status.data, "\"state\":\"stopping\""));
}

/* Nobody reads the events: the engine does not wait, and the events can be read later. */
static void test_nobody_reads_events(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = 1800;
    r.gen.ignore_eos = true;
    uint64_t id = harness_submit(h, &r);
    for (int i = 0; i < 6000 && engine_load(h->engine); i++) poll(NULL, 0, 10);
    assert_int_equal(engine_load(h->engine), 0);
    struct answer *a = harness_wait(h, id);
    assert_done(a, PROTO_STOP_LENGTH);
    assert_int_equal(a->n, 1800);
}

static void test_free_in_the_middle(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 20; i++) {
        struct proto_request r = harness_raw(harness_story);
        r.gen.max_tokens = 500;
        harness_submit(h, &r);
    }
    harness_wait_texts(h, 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pause, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_load_failure, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_submitted_while_loading, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_status_while_loading, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_drain, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_reads_events, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_free_in_the_middle, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
