/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/caches.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST 4096

static struct trace_request requests[MOST];
static uint64_t ids[MOST * 4];
static struct trace t;

static int setup(void **state)
{
    t = (struct trace){.requests = requests, .ids = ids};
    return 0;
}

/* A prompt of @n whole blocks: @id, @id + 1, … */
static void ask(uint64_t id, uint32_t n)
{
    requests[t.n++] =
        (struct trace_request){.prompt = n * TRACE_BLOCK, .answer = 1, .first = (uint32_t)t.n_ids, .n = n};
    for (uint32_t i = 0; i < n; i++) ids[t.n_ids++] = id + i;
}

static uint64_t hits(enum caches_policy policy, uint64_t room)
{
    uint64_t hit = 0;
    assert_int_equal(caches_run(&t, policy, room, &hit), 0);
    assert_int_equal(hit % TRACE_BLOCK, 0);
    return hit / TRACE_BLOCK;
}

/* A, B, C in turn, two blocks each, room for two prompts. LRU never hits; the oracle keeps one. */
static void test_a_loop(void **state)
{
    for (int i = 0; i < 30; i++) ask(10 * (i % 3), 2);
    assert_int_equal(hits(CACHES_LRU, 4), 0);
    assert_int_equal(hits(CACHES_LRU, 6), 54);
    assert_true(hits(CACHES_ORACLE, 4) >= 27);
}

/* The last block of a chain is evicted first, so that the rest can be found. */
static void test_leaf_first(void **state)
{
    ask(10, 4);
    ask(20, 2);
    ask(10, 4);
    assert_int_equal(hits(CACHES_LRU, 5), 3);
    for (int policy = 0; policy < CACHES_POLICIES; policy++) {
        assert_int_equal(hits((enum caches_policy)policy, 6), 4);
        assert_true(hits((enum caches_policy)policy, 1) <= 1);
    }
}

/* Policies that count uses keep blocks that are used again and again among many that are used once. */
static void test_frequent(void **state)
{
    for (uint32_t i = 0; i < 4000; i++) {
        if (i % 20 == 0 || i < 5)
            ask(1, 2);
        else
            ask(1000 + 4 * i, 2);
    }
    assert_int_equal(hits(CACHES_LRU, 24), 8);
    assert_true(hits(CACHES_LFU_DA, 24) > 380);
    assert_true(hits(CACHES_SLRU, 24) > 380);
    assert_true(hits(CACHES_LEARNED, 24) > 250);
    assert_int_equal(hits(CACHES_ORACLE, 24), 8 + 398);
}

/* The known figures of the real trace. The learned policy is better than LRU in both. */
static void test_real_trace(void **state)
{
    const char *data = getenv("HOB_TEST_DATA");
    char path[4096];
    uint64_t lru, learned;
    struct trace real;
    snprintf(path, sizeof(path), "%s/traces/mooncake_conversation_trace.jsonl",
             data && *data ? data : SOURCE_ROOT "/../shared/data");
    if (access(path, R_OK)) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    assert_int_equal(trace_read(&real, path, 0), 0);
    for (uint64_t percent = 3; percent <= 10; percent += 7) {
        assert_int_equal(caches_run(&real, CACHES_LRU, real.distinct * percent / 100, &lru), 0);
        assert_int_equal(caches_run(&real, CACHES_LEARNED, real.distinct * percent / 100, &learned), 0);
        double of = (double)lru / (double)real.infinite_tokens, gain = (double)learned / (double)lru;
        print_message("# room for %llu%%: lru %.3f, learned %.3f times that\n", (unsigned long long)percent, of, gain);
        assert_true(percent == 3 ? of > 0.335 && of < 0.35 : of > 0.755 && of < 0.765);
        assert_true(gain > (percent == 3 ? 1.3 : 1.03));
    }
    trace_fini(&real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_loop, setup),
        cmocka_unit_test_setup(test_leaf_first, setup),
        cmocka_unit_test_setup(test_frequent, setup),
        cmocka_unit_test(test_real_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
