/* SPDX-License-Identifier: MIT */
/* The prefix cache through the engine: who finds what, and that finding changes no bit. */
#include "tests/engine/harness.h"
#include <stdio.h>

static struct proto_request ask(const char *first, const char *second)
{
    char both[8192];
    snprintf(both, sizeof(both), "%s%s", first, second);
    return harness_seeded(both);
}

static void test_again_and_variants(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    harness_text(doc, sizeof(doc), 1, 200);
    harness_start(h);
    struct answer *cold = harness_run_seeded(h, 1000, doc, " one?");
    uint64_t n = cold->last.usage_prompt;
    assert_int_equal(cold->last.usage_cached, 0);
    assert_true(n > 100);
    struct answer *warm = harness_run_seeded(h, 1000, doc, " one?");
    assert_int_equal(warm->last.usage_cached, n - 1); /* to the token; the last is asked again */
    assert_same(cold, warm);
    struct answer *other = harness_run_seeded(h, 1001, doc, " one?");
    assert_int_equal(other->last.usage_cached, 0); /* somebody else's is not found */
    assert_same(cold, other);
    struct proto_request r = ask(doc, " one?");
    assert_int_equal(proto_text_set(&r.gen.salt, "pepper", 6), 0);
    struct answer *salted = harness_run(h, &r);
    assert_int_equal(salted->last.usage_cached, 0);
    assert_same(cold, salted);
    struct answer *beginning = harness_run_seeded(h, 1000, doc, " and two");
    assert_true(beginning->last.usage_cached > n - 12 && beginning->last.usage_cached < n);
    struct answer *alone = harness_run_seeded(h, 1002, doc, " and two");
    assert_same(beginning, alone);
    assert_int_equal(harness_status(h, 1000, "tokens_found"), 2 * n - 1 + (long long)beginning->last.usage_cached - n);
}

/* Each prefix of a text, against the same cold: whole blocks and partial ones. */
static void test_every_length(void **state)
{
    struct harness *h = *state;
    char doc[1024];
    harness_text(doc, sizeof(doc), 3, 60);
    harness_start(h);
    harness_run_seeded(h, 1000, doc, "");
    for (unsigned words = 1; words < 60; words += 4) {
        char part[1024];
        harness_text(part, sizeof(part), 3, words);
        struct answer *warm = harness_run_seeded(h, 1000, part, "!"),
                      *cold = harness_run_seeded(h, 2000 + words, part, "!");
        assert_int_equal(cold->last.usage_cached, 0);
        assert_true(warm->last.usage_cached + 4 > warm->last.usage_prompt);
        assert_same(cold, warm);
    }
}

/* Room for about three texts: what was evicted is computed again, to the same bits, and nobody is refused. */
static void test_eviction(void **state)
{
    struct harness *h = *state;
    struct answer *first[8];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 40;
    harness_start(h);
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < 8; i++) {
            char doc[4096];
            harness_text(doc, sizeof(doc), 10 + i, 120);
            struct answer *a = harness_run_seeded(h, 1000 + i % 2, doc, "");
            if (round == 0)
                first[i] = a;
            else
                assert_same(first[i], a);
        }
    assert_true(harness_status(h, 0, "evictions") > 20);
    /* nothing leaks: all blocks are free or unused */
    assert_all_blocks_free(h);
}

/* Many at once with common beginnings, cancels among them; then each alone in a fresh engine. */
static void test_together(void **state)
{
    struct harness *h = *state;
    struct answer *a[24];
    uint64_t id[24];
    char doc[2][4096];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 64;
    h->config.batch_tokens = 40;
    h->forgetful = true; /* the pool is tight and the users are three: who is preempted may lose blocks */
    harness_text(doc[0], sizeof(doc[0]), 21, 100);
    harness_text(doc[1], sizeof(doc[1]), 22, 100);
    harness_start(h);
    for (unsigned i = 0; i < 24; i++) {
        char tail[32];
        snprintf(tail, sizeof(tail), " number %u", i / 2);
        struct proto_request r = ask(doc[i % 2], tail);
        id[i] = harness_submit_as(h, 10 + i, 1000 + i % 3, &r);
    }
    for (unsigned i = 0; i < 24; i += 5) engine_cancel(h->engine, 10 + i, id[i]);
    for (unsigned i = 0; i < 24; i++)
        if (i % 5) a[i] = harness_wait(h, id[i]);
    for (unsigned i = 0; i < 24; i++) {
        char tail[32];
        if (i % 5 == 0) continue;
        assert_done(a[i], PROTO_STOP_LENGTH);
        snprintf(tail, sizeof(tail), " number %u", i / 2);
        assert_same(a[i], harness_run_seeded(h, 3000 + i, doc[i % 2], tail)); /* a uid that has nothing yet */
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_again_and_variants),
        TEST(test_every_length),
        TEST(test_eviction),
        TEST(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
