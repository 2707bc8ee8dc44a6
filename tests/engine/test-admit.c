/* SPDX-License-Identifier: MIT */
/* Who gets a place: positions, limits, and blocks that run short. */
#include "tests/engine/harness.h"
#include <errno.h>

static void test_queue_positions_and_limit(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    h->config.queue = 3;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = 1900;
    r.gen.ignore_eos = true;
    uint64_t first = harness_submit_as(h, 5, 1000, &r), id[3];
    harness_wait_texts(h, first, 1);
    engine_pause(h->engine, 5, true);
    for (int i = 0; i < 3; i++) {
        r = harness_raw("the");
        id[i] = harness_submit(h, &r);
        harness_wait_any(h, id[i]);
    }
    r = harness_raw("one too many");
    r.id = 50;
    assert_int_equal(engine_submit(h->engine, 1, 1000, &r), -EBUSY);
    assert_non_null(r.gen.prompt.data); /* still the caller's */
    proto_request_fini(&r);
    r = harness_simple(PROTO_STATUS); /* can always be asked */
    struct answer *s = harness_run(h, &r);
    assert_int_equal(s->last.type, PROTO_EV_STATUS);
    assert_non_null(strstr(s->last.status.data, "\"queued\":3"));
    engine_cancel(h->engine, 5, first, false);
    harness_wait(h, first);
    for (int i = 0; i < 3; i++) {
        struct answer *a = harness_wait(h, id[i]);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_int_equal(a->queued[0], i + 1);
        assert_int_equal(a->queued_n, i + 1); /* told again whenever it moved up */
        for (unsigned k = 1; k < a->queued_n; k++) assert_int_equal(a->queued[k], a->queued[k - 1] - 1);
    }
}

/* Blocks for one sequence at a time only: all are served, one after the other, and none is refused. */
static void test_blocks_run_short(void **state)
{
    struct harness *h = *state;
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 9; /* 9 blocks: 2 layers, 2 KV heads, dim 16, f16 */
    harness_start(h);
    uint64_t id[6];
    struct answer *a[6];
    for (int i = 0; i < 6; i++) {
        struct proto_request r = harness_raw(harness_story);
        r.gen.max_tokens = 100;
        r.gen.ignore_eos = true;
        id[i] = harness_submit(h, &r);
    }
    for (int i = 0; i < 6; i++) {
        a[i] = harness_wait(h, id[i]);
        assert_done(a[i], PROTO_STOP_LENGTH);
        if (i) assert_same(a[0], a[i]);
    }
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = -1;
    r.gen.ignore_eos = true;
    struct answer *b = harness_run(h, &r); /* what fits is the context */
    assert_done(b, PROTO_STOP_CONTEXT);
    assert_int_equal(b->last.usage_prompt + b->last.usage_completion, 9 * 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_queue_positions_and_limit, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_blocks_run_short, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
