/* SPDX-License-Identifier: MIT */
/* Covers request_emit() of request.c without memory for an event: an answer with a gap fails, while an event of
 * progress may be lost. */
#include "daemon/request/event-queue.h"
#include "tests/engine/harness.h"
#include "tests/support/memory.h"
#include <errno.h>

static struct proto_request endless(const char *session)
{
    struct proto_request r = harness_user(session, harness_story);
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    return r;
}

static void test_piece_of_an_answer(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 2; i++) {
        struct proto_request r = endless(i ? "s" : NULL), q = harness_user(i ? "s" : NULL, "the");
        harness_hold(h);
        uint64_t id = harness_submit(h, &r);
        while (h->answers[id].texts == 0) harness_turn(h);
        memory_fail_size(sizeof(struct event_node));
        harness_go(h);
        struct answer *a = harness_wait(h, id);
        assert_true(memory_end());
        assert_error(a, ENOMEM, "no memory for a part of the answer");
        assert_true(a->n < 1900);
        assert_int_equal(engine_load(h->engine), 0);
        assert_done(harness_run(h, &q), PROTO_STOP_LENGTH); /* its session is free, too */
    }
}

/* The first event behind the hold is of the prompt that is read. */
static void test_progress(void **state)
{
    struct harness *h = *state;
    struct answer *a[2];
    h->config.batch_tokens = 2;
    harness_start(h);
    for (int i = 0; i < 2; i++) {
        struct proto_request r = harness_raw(harness_story);
        assert_int_equal(proto_text_set(&r.gen.salt, i ? "a" : "b", 1), 0);
        harness_hold(h);
        uint64_t id = harness_submit(h, &r);
        if (i) memory_fail_size(sizeof(struct event_node));
        harness_go(h);
        a[i] = harness_wait(h, id);
        assert_int_equal(memory_end(), i);
        assert_done(a[i], PROTO_STOP_LENGTH);
    }
    assert_same(a[0], a[1]);
    assert_int_equal(a[1]->texts, a[0]->texts);
    assert_true(a[1]->events < a[0]->events);
}

/* The cursor of a list is set when its text exists, which is freed (sanitizers see it). */
static void test_list_without_a_cursor(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 2; i++) {
        struct proto_request r = harness_user(i ? "first" : "second", "the");
        r.gen.max_tokens = 1;
        assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    }
    struct proto_request r = harness_simple(PROTO_SESSION_LIST);
    r.limit = 1;
    struct answer *a = harness_run(h, &r);
    const size_t n = a->last.next.len;
    assert_true(n > 0);
    harness_hold(h);
    r = harness_simple(PROTO_SESSION_LIST);
    r.limit = 1;
    uint64_t id = harness_submit(h, &r);
    memory_fail_size(n + 1);
    harness_go(h);
    assert_error(harness_wait(h, id), ENOMEM, "no memory for the answer");
    assert_true(memory_end());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_piece_of_an_answer, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_progress, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_list_without_a_cursor, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests_name("lost", tests, NULL, NULL);
}
