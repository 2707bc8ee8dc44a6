/* SPDX-License-Identifier: MIT */
/* Covers spill.c and spill-open.c in an engine: the next process finds what this one has written. */
#include "tests/engine/harness.h"
#include <unistd.h>

/* The next process finds on disk what this one has computed, all types of KV. */
static void on_disk(struct harness *h, enum kern_kv type)
{
    char doc[4096];
    h->config.kv_type = type;
    harness_dirs(h);
    harness_text(doc, sizeof(doc), 5, 220);
    harness_start(h);
    harness_wait_disk(h);
    struct answer keep = {0}, *cold = harness_run_seeded(h, 1000, doc, " what?");
    uint64_t n = cold->last.usage_prompt;
    keep = answer_take(cold);
    harness_stop(h);
    for (int i = 0; i < 2; i++) {
        harness_start(h);
        struct answer *warm = harness_run_seeded(h, 1000, doc, " what?");
        assert_int_equal(warm->last.usage_cached, n - 1);
        assert_same(&keep, warm);
        assert_int_equal(harness_run_seeded(h, 1001 + 10 * (uid_t)i, doc, " what?")->last.usage_cached, 0);
        struct answer *b = harness_run_seeded(h, 1000, doc, " and then?");
        assert_true(b->last.usage_cached > n - 20);
        assert_same(b, harness_run_seeded(h, 1002 + 10 * (uid_t)i, doc, " and then?"));
        harness_wait_disk(h);
        harness_stop(h);
    }
    answer_fini(&keep);
}

static void test_restart_f16(void **state)
{
    on_disk(*state, KERN_KV_F16);
}

static void test_restart_f32(void **state)
{
    on_disk(*state, KERN_KV_F32);
}

static void test_restart_q8(void **state)
{
    on_disk(*state, KERN_KV_Q8);
}

/* The disk has room for less than memory: writing comes to an end all the same, when nothing is done and at the stop,
 * and what was used last is what stays. */
static void test_disk_smaller_than_memory(void **state)
{
    struct harness *h = *state;
    const long long file = 3 * 4096, files = 10; /* two thirds of it are KV and a header */
    char doc[4096];
    h->config.cache_bytes = (uint64_t)(files * file);
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    for (unsigned i = 0; i < 6; i++) {
        harness_text(doc, sizeof(doc), 10 + i, 120);
        harness_run_seeded(h, 1000, doc, "");
    }
    assert_true(harness_status(h, 0, "blocks_memory") > 6 * files);
    while (harness_status(h, 0, "disk_written") < files * file) usleep(1000);
    usleep(300000); /* room for many more than there should be */
    assert_in_range(harness_status(h, 0, "disk_written"), files * file, 4 * files * file);
    harness_stop(h); /* does not take all the time it may */
    harness_start(h);
    struct answer *again = harness_run_seeded(h, 1000, doc, "");
    assert_true(again->last.usage_cached >= (uint64_t)(files - 1) * 32);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_restart_f16),
        TEST(test_restart_f32),
        TEST(test_restart_q8),
        TEST(test_disk_smaller_than_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
