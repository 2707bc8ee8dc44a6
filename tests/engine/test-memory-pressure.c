/* SPDX-License-Identifier: MIT */
/* Memory is short: what nobody uses goes, and no bit of an answer changes. That the kernel tells so cannot be made to
 * happen here; what is done then is called as the loop calls it. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <stdio.h>

#define BLOCK (2 * 32 * 2 * 2 * 16 * 2) /* bytes, of the tiny model */

/* About 80 tokens, of user @i. */
static struct proto_request ask(unsigned i)
{
    char text[512];
    size_t n = 0;
    for (unsigned w = 0; w < 60; w++) n += (size_t)snprintf(text + n, sizeof(text) - n, " %u", (i * 7 + w * w) % 13);
    return harness_seeded(text);
}

static struct answer *run(struct harness *h, unsigned i, uid_t uid)
{
    struct proto_request r = ask(i);
    struct answer *a = harness_wait(h, harness_submit_as(h, 1, uid, &r));
    assert_done(a, PROTO_STOP_LENGTH);
    return a;
}

static void assert_sums(struct harness *h, long long blocks)
{
    assert_int_equal(harness_status(h, 0, "kv_blocks_free") + harness_status(h, 0, "kv_blocks_unused"), blocks);
}

static void test_a_quarter_goes_each_time(void **state)
{
    struct harness *h = *state;
    struct answer *first[6];
    h->config.kv_bytes = BLOCK * 64;
    harness_start(h);
    for (unsigned i = 0; i < 6; i++) first[i] = run(h, i, 1000 + i % 2);
    long long unused = harness_status(h, 0, "kv_blocks_unused"), shed = 0;
    assert_true(unused > 12);
    while (unused) {
        engine_shed(h->engine);
        assert_int_equal(harness_status(h, 0, "kv_blocks_unused"), unused - (unused + 3) / 4);
        shed += (unused + 3) / 4;
        unused -= (unused + 3) / 4;
        assert_int_equal(harness_status(h, 0, "shed"), shed);
        assert_int_equal(harness_status(h, 0, "evictions"), shed);
        assert_sums(h, 64);
    }
    engine_shed(h->engine); /* nothing is left to give */
    assert_int_equal(harness_status(h, 0, "shed"), shed);
    for (unsigned i = 0; i < 6; i++) { /* the memory is mapped again when it is written */
        struct answer *again = run(h, i, 1000 + i % 2);
        assert_true(again->last.usage_cached <= (i < 2 ? 0 : 2)); /* the first token is everybody's */
        assert_same(first[i], again);
    }
    struct proto_request r = harness_simple(PROTO_STATUS); /* it tells of others */
    assert_null(strstr(harness_wait(h, harness_submit_as(h, 1, 1000, &r))->last.status.data, "\"shed\""));
}

/* What was used last goes last. */
static void test_the_coldest_go(void **state)
{
    struct harness *h = *state;
    h->config.kv_bytes = BLOCK * 64;
    harness_start(h);
    for (unsigned i = 0; i < 4; i++) run(h, i, 1000);
    engine_shed(h->engine);
    struct answer *hot = run(h, 3, 1000);
    assert_int_equal(hot->last.usage_cached, hot->last.usage_prompt - 1);
    struct answer *cold = run(h, 0, 1000);
    assert_true(cold->last.usage_cached < cold->last.usage_prompt - 1);
}

/* A session that nobody uses is on disk only. */
static void test_sessions_go(void **state)
{
    struct harness *h = *state;
    char command[160];
    harness_dirs(h);
    harness_start(h);
    for (int shed = 0; shed < 2; shed++) {
        struct proto_request r = harness_user("s", "tell"), again = harness_user("s", "tell");
        assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
        if (shed) engine_shed(h->engine);
        harness_status(h, 0, "sessions");
        snprintf(command, sizeof(command), "rm '%s'/1000/*.log", h->state_dir);
        assert_int_equal(system(command), 0);
        struct answer *a = harness_run(h, &again);
        if (shed)
            assert_error(a, ENOENT, "was removed");
        else
            assert_done(a, PROTO_STOP_LENGTH);
    }
}

/* While sequences run, at any of their steps, with beginnings that they share. */
static void test_running_ones_keep_theirs(void **state)
{
    struct harness *h = *state;
    struct answer *a[12];
    uint64_t id[12];
    h->config.kv_bytes = BLOCK * 64;
    h->config.batch_tokens = 24;
    harness_start(h);
    for (unsigned i = 0; i < 4; i++) run(h, i, 1000);
    for (unsigned i = 0; i < 12; i++) {
        struct proto_request r = ask(i % 6);
        id[i] = harness_submit_as(h, 10 + i, 1000, &r);
        harness_wait_any(h, id[i]);
        engine_shed(h->engine);
    }
    for (unsigned i = 0; i < 12; i++) {
        for (unsigned texts = 1; texts < 30; texts += 3) {
            harness_wait_texts(h, id[i], texts);
            engine_shed(h->engine);
        }
        a[i] = harness_wait(h, id[i]);
        assert_done(a[i], PROTO_STOP_LENGTH);
    }
    assert_true(harness_status(h, 0, "shed") > 0);
    assert_sums(h, 64);
    for (unsigned i = 0; i < 12; i++) assert_same(a[i], run(h, i % 6, 2000 + i)); /* a uid that has nothing yet */
}

/* It may be told before there is anything. */
static void test_while_loading(void **state)
{
    struct harness *h = *state;
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    engine_shed(h->engine);
    run(h, 1, 1000);
    assert_int_equal(harness_status(h, 0, "shed"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_quarter_goes_each_time), TEST(test_the_coldest_go), TEST(test_sessions_go),
        TEST(test_running_ones_keep_theirs), TEST(test_while_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
