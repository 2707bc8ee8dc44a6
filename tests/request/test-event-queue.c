/* SPDX-License-Identifier: MIT */
#include "daemon/request/event-queue.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool readable(const struct event_queue *q)
{
    struct pollfd p = {.fd = event_queue_fd(q), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static struct engine_event event(uint64_t id)
{
    struct engine_event e = {.conn = 1, .ev = {.type = PROTO_EV_TEXT, .id = id}};
    assert_int_equal(proto_text_set(&e.ev.text, "text", 4), 0);
    return e;
}

/* In order, and the descriptor readable exactly while there is something or somebody signalled. Nobody has to read for
 * it to take more. */
static void test_order_and_descriptor(void **state)
{
    struct event_queue *q = NULL;
    struct engine_event e;
    uint64_t in = 0, out = 0;
    assert_int_equal(event_queue_new(&q), 0);
    assert_false(readable(q));
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < 2000; i++) {
            struct event_node *node = i % 2 ? malloc(sizeof(*node)) : NULL;
            e = event(++in);
            assert_int_equal(event_queue_push(q, &e, node), 0);
            assert_null(e.ev.text.data); /* taken */
        }
        assert_true(readable(q));
        for (int i = 0; i < 300; i++) {
            assert_true(event_queue_pop(q, &e));
            assert_int_equal(e.ev.id, ++out);
            proto_event_fini(&e.ev);
        }
    }
    while (event_queue_pop(q, &e)) {
        assert_int_equal(e.ev.id, ++out);
        proto_event_fini(&e.ev);
    }
    assert_int_equal(in, out);
    assert_false(readable(q));
    event_queue_signal(q);
    assert_true(readable(q));
    assert_false(event_queue_pop(q, &e));
    assert_false(readable(q));
    assert_null(event_queue_free(q));
}

static void test_free_frees_events(void **state)
{
    struct event_queue *q = NULL;
    assert_int_equal(event_queue_new(&q), 0);
    struct engine_event e = event(1);
    assert_int_equal(event_queue_push(q, &e, NULL), 0);
    assert_null(event_queue_free(q)); /* the leak checkers see the text */
    assert_null(event_queue_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_descriptor),
        cmocka_unit_test(test_free_frees_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
