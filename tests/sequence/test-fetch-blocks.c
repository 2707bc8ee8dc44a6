/* SPDX-License-Identifier: MIT */
/* Reading blocks back from the disk, for sequences of an engine. */
#include "tests/engine/harness.h"
#include <stdio.h>

/* Blocks that left memory for the disk come back; a little memory, a lot on disk. */
static void test_disk_behind_memory(void **state)
{
    struct harness *h = *state;
    struct answer *first[6];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 40;
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    uint64_t cached = 0;
    for (int round = 0; round < 4; round++)
        for (unsigned i = 0; i < 6; i++) {
            char doc[4096];
            harness_text(doc, sizeof(doc), 10 + i, 120);
            struct answer *a = harness_run_seeded(h, 1000, doc, "");
            if (round == 0)
                first[i] = a;
            else
                assert_same(first[i], a);
            if (round) cached += a->last.usage_cached;
        }
    assert_true(cached > 0);
    assert_true(harness_status(h, 0, "disk_read") > 0);
    assert_all_blocks_free(h);
}

/* A slot changes hands and there is no room for both: what the one who resumes reads back was computed by itself. */
static void test_disk_behind_a_slot(void **state)
{
    struct harness *h = *state;
    uint64_t id[2];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 40;
    h->config.parallel = 1;
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    for (unsigned i = 0; i < 2; i++) {
        struct proto_request r = harness_seeded(harness_story);
        r.gen.max_tokens = 1100;
        id[i] = harness_submit_as(h, 5 + i, 1000 + i, &r);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct answer *a = harness_wait(h, id[i]);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_int_equal(a->last.usage_cached, 0);
        assert_same(a, &h->answers[id[0]]);
    }
    assert_true(harness_status(h, 0, "preemptions") > 0);
    assert_true(harness_status(h, 0, "disk_read") > 0);
}

/* It has its blocks and waits for the job pool to read them, which has something else of its user's to do: it is ended
 * there, by a cancel or with the engine. */
static void test_ended_before_it_is_read(void **state)
{
    struct harness *h = *state;
    char doc[4096], asked[4200];
    size_t len = 900000;
    harness_dirs(h);
    harness_text(doc, sizeof(doc), 5, 220);
    snprintf(asked, sizeof(asked), "%s what?", doc);
    harness_start(h);
    harness_wait_disk(h);
    harness_run_seeded(h, 1000, doc, " what?");
    harness_stop(h);
    h->config.parallel = 1;
    for (int stop = 0; stop < 2; stop++) {
        harness_start(h);
        harness_wait_disk(h);
        struct proto_request before = harness_seeded(harness_story), r = harness_seeded(asked);
        before.gen.max_tokens = 1500;
        uint64_t first = harness_submit_as(h, 2, 1000, &before);
        harness_wait_texts(h, first, 1);
        uint64_t id = harness_submit(h, &r);
        harness_wait_any(h, id); /* it has its place in the queue */
        for (int i = 0; i < 3; i++) {
            struct proto_request busy = harness_simple(PROTO_TOKENIZE);
            busy.text.data = malloc(len + 1);
            assert_non_null(busy.text.data);
            for (size_t k = 0; k < len; k++) busy.text.data[k] = "the little house "[k % 17];
            busy.text.data[len] = 0;
            busy.text.len = len;
            harness_submit_as(h, 3, 1000, &busy);
        }
        harness_status(h, 0, "queued"); /* they are taken */
        engine_cancel(h->engine, 2, first);
        harness_wait(h, first);
        harness_status(h, 0, "queued"); /* so is the slot */
        if (!stop) {
            engine_cancel(h->engine, 1, id);
            assert_done(harness_wait(h, id), PROTO_STOP_CANCEL);
            harness_run_seeded(h, 1000, doc, " and then?");
            assert_all_blocks_free(h);
        }
        harness_stop(h);
    }
}

/* A prompt of more blocks than one job reads: several jobs, one after the other, read all of it. */
static void test_several_jobs(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    harness_dirs(h);
    harness_text(doc, sizeof(doc), 9, 500);
    harness_start(h);
    harness_wait_disk(h);
    uint64_t n = harness_run_seeded(h, 1000, doc, "")->last.usage_prompt;
    assert_true(n > 2 * 16 * 32);
    harness_stop(h);
    harness_start(h);
    harness_wait_disk(h);
    struct answer *warm = harness_run_seeded(h, 1000, doc, "");
    assert_int_equal(warm->last.usage_cached, n - 1);
    assert_same(warm, harness_run_seeded(h, 1001, doc, ""));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_disk_behind_memory),
        TEST(test_disk_behind_a_slot),
        TEST(test_several_jobs),
        TEST(test_ended_before_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
