/* SPDX-License-Identifier: MIT */
/* Small traces whose results are computed by hand, and the real trace if it is available. */
#include "daemon/simulate/caches.h"
#include "daemon/simulate/sim.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST 8

struct hand {
    struct trace_request requests[MOST];
    uint64_t ids[MOST * 40];
    struct trace t;
    struct sim_config c;
    struct sim_result r;
};

static struct hand h;

/* A step of 10 ms, 1 ms for each token. */
static int setup(void **state)
{
    memset(&h, 0, sizeof(h));
    h.t = (struct trace){.requests = h.requests, .ids = h.ids};
    h.c = (struct sim_config){.parallel = 4, .batch_tokens = 512, .users = 2, .room = -1, .block = 512, .stretch = 1};
    h.c.step_ms[SCHED_TIME_FIXED] = 10;
    h.c.step_ms[SCHED_TIME_DECODE] = h.c.step_ms[SCHED_TIME_PREFILL] = 1;
    return 0;
}

static int teardown(void **state)
{
    sim_result_fini(&h.r);
    return 0;
}

/* The hash ids are @id, @id + 1, …; the first @same of them are 1000, 1001, … */
static void ask(uint32_t user, double ms, uint32_t prompt, uint32_t answer, uint64_t id, uint32_t same)
{
    struct trace_request *q = &h.requests[h.t.n++];
    *q = (struct trace_request){.ms = ms, .prompt = prompt, .answer = answer, .user = user};
    q->first = (uint32_t)h.t.n_ids;
    q->n = (prompt + TRACE_BLOCK - 1) / TRACE_BLOCK;
    for (uint32_t i = 0; i < q->n; i++) h.ids[h.t.n_ids++] = (i < same ? 1000 : id) + i;
    h.t.distinct += q->n; /* more than enough */
    h.t.prompt_tokens += prompt;
}

static void run(enum sim_policy policy)
{
    h.c.policy = policy;
    sim_result_fini(&h.r);
    assert_int_equal(sim_run(&h.r, &h.t, &h.c), 0);
    assert_int_equal(h.r.ttft.n, h.t.n);
}

static void is(double a, double b)
{
    if (fabs(a - b) > 1e-6 + 0.0051 * fabs(b)) fail_msg("%g is not %g", a, b);
}

static void test_one_request(void **state)
{
    ask(0, 5, 100, 3, 1, 0);
    for (int policy = 0; policy < SIM_POLICIES; policy++) {
        run((enum sim_policy)policy);
        is(h.r.queue.most, 0);
        is(h.r.ttft.most, 110); /* 10 + 100 */
        assert_int_equal(h.r.itl.n, 2);
        is(h.r.itl.most, 11);
        is(h.r.busy_ms, 132);
        is(h.r.ms, 137);
        is(h.r.jain, 1);
        assert_int_equal(h.r.steps, 3);
        assert_int_equal(h.r.computed, 100);
        assert_int_equal(h.r.prompt, 100);
        assert_int_equal(h.r.hit, 0);
    }
}

/* One slot: the second user waits for the whole first request, and finds its prompt in the cache. */
static void test_queue_hit_and_jain(void **state)
{
    h.c.parallel = 1;
    ask(0, 0, 100, 3, 1, 0);
    ask(1, 0, 100, 3, 1, 0);
    run(SIM_FCFS);
    is(h.r.queue.most, 132);
    is(h.r.ttft.most, 132 + 11); /* the last token is computed again */
    assert_int_equal(h.r.hit, 100);
    assert_int_equal(h.r.computed, 101);
    /* speeds: 132/132 and 33/165; (1.2)^2 / (2 (1 + 0.04)) */
    is(h.r.jain_speed, 1.44 / 2.08);
    is(stats_quantile(&h.r.user_ttft[0], 1), 110);
    is(stats_quantile(&h.r.user_ttft[1], 1), 143);
}

/* One slot, 108 units each. By arrival the second user gets 108 units where 270 would be even, the first one 324 of
 * 162. With fairness both get the even share. */
static void test_jain_of_shares(void **state)
{
    h.c.parallel = 1;
    for (uint32_t i = 0; i < 3; i++) ask(0, 0, 100, 3, 10 * i, 0);
    ask(1, 0, 100, 3, 100, 0);
    run(SIM_FCFS);
    is(h.r.jain, 2.4 * 2.4 / (2 * (4 + 0.16)));
    is(stats_quantile(&h.r.user_ttft[1], 1), 3 * 132 + 110);
    run(SIM_HOB);
    is(h.r.jain, 1);
    is(stats_quantile(&h.r.user_ttft[1], 1), 132 + 110);
}

/* A user's stream beside a long prompt. */
static void test_stream_is_not_frozen(void **state)
{
    ask(0, 0, 10, 200, 1, 0);
    ask(1, 100, 10000, 2, 10, 0);
    run(SIM_FCFS);
    is(h.r.itl.most, 10 + 512); /* 511 tokens of the prompt, one of the answer */
    run(SIM_HOB);
    assert_true(h.r.itl.most <= 8 * 11 + 1e-6);
    assert_true(h.r.itl.most > 2 * 11);
}

/* A common prefix is computed once, although all requests arrive at the same moment. */
static void test_shared_work(void **state)
{
    for (uint32_t i = 0; i < 4; i++) ask(0, 0, 2100, 2, 100 * i, 4);
    run(SIM_HOB);
    assert_int_equal(h.r.computed, 2100 + 3 * (2100 - 2048));
    run(SIM_FCFS);
    assert_int_equal(h.r.computed, 4 * 2100);
}

/* A flood of one user and a later request of another, which does not wait behind it. */
static void test_flood(void **state)
{
    h.c.parallel = 2;
    for (uint32_t i = 0; i < 6; i++) ask(0, 0, 400, 100, 100 * i, 0);
    ask(1, 1000, 100, 2, 5000, 0);
    run(SIM_FCFS);
    assert_true(stats_quantile(&h.r.user_ttft[1], 1) > 3000);
    run(SIM_HOB);
    assert_true(stats_quantile(&h.r.user_ttft[1], 1) < 600);
    assert_int_equal(h.r.preemptions[SCHED_EVEN], 1);
}

/* Room for one conversation only: the other one is evicted. */
static void test_room(void **state)
{
    ask(0, 0, 2048, 1, 100, 0);
    ask(0, 10000, 2048, 1, 200, 0);
    ask(0, 20000, 2048, 1, 100, 0);
    run(SIM_HOB);
    assert_int_equal(h.r.hit, 2048);
    h.c.room = 5.0 / 12;
    run(SIM_HOB);
    assert_int_equal(h.r.room, 5);
    assert_int_equal(h.r.hit, 0);
    assert_int_equal(h.r.evictions, 4 + 4); /* each takes five, with the block for its answer */
}

/* Two requests that do not fit together run one after the other. They do not take turns and prefill again each time. */
static void test_room_for_one_of_two(void **state)
{
    ask(0, 0, 10000, 200, 100, 0);
    ask(1, 10, 10000, 200, 200, 0);
    h.c.room = 0.01;
    run(SIM_HOB);
    assert_int_equal(h.r.room, 20);
    assert_int_equal(h.r.computed, 2 * 10000);
    assert_int_equal(h.r.preemptions[SCHED_QUANTUM], 0);
}

static void test_stretch(void **state)
{
    h.c.parallel = 1;
    ask(0, 0, 100, 3, 1, 0);
    ask(0, 263, 100, 3, 10, 0);
    is(sim_stretch(&h.t, &h.c, 0.5), 2); /* 264 ms of work in 264 */
    h.c.stretch = 2;
    run(SIM_HOB);
    is(h.r.ms, 2 * 263 + 132);
}

/* --- the real trace --- */

static bool real(struct trace *t, size_t n)
{
    const char *data = getenv("HOB_TEST_DATA");
    char path[4096];
    snprintf(path, sizeof(path), "%s/traces/mooncake_conversation_trace.jsonl",
             data && *data ? data : SOURCE_ROOT "/../shared/data");
    if (access(path, R_OK)) {
        print_message("skipped: %s is not there\n", path);
        return false;
    }
    assert_int_equal(trace_read(t, path, n), 0);
    return true;
}

static void test_real_trace(void **state)
{
    struct trace t;
    if (!real(&t, 300)) skip();
    h.c = (struct sim_config){.parallel = 16, .batch_tokens = 512, .users = 4, .room = 0.1, .block = 128};
    memcpy(h.c.step_ms, ((double[]){17, 3.2, 3.3, 4.7, 1}), sizeof(h.c.step_ms));
    h.c.stretch = sim_stretch(&t, &h.c, 1.5);
    trace_deal(&t, 4);
    for (int policy = 0; policy < SIM_POLICIES; policy++) {
        h.c.policy = (enum sim_policy)policy;
        sim_result_fini(&h.r);
        assert_int_equal(sim_run(&h.r, &t, &h.c), 0);
        assert_int_equal(h.r.queue.n, t.n);
        assert_int_equal(h.r.ttft.n, t.n);
        assert_int_equal(h.r.prompt, t.prompt_tokens);
        assert_true(h.r.hit > 0 && h.r.hit < t.infinite_tokens);
        assert_true(h.r.jain > 0.25 && h.r.jain <= 1);
    }
    trace_fini(&t);
}

/* One after the other, with room for all: exactly the hits of an infinite cache. */
static void test_real_trace_has_an_infinite_cache(void **state)
{
    struct trace t;
    if (!real(&t, 2000)) skip();
    h.c.policy = SIM_HOB;
    h.c.stretch = 1e5;
    trace_deal(&t, 1);
    h.c.users = 1;
    sim_result_fini(&h.r);
    assert_int_equal(sim_run(&h.r, &t, &h.c), 0);
    assert_int_equal(h.r.hit, t.infinite_tokens);
    trace_fini(&t);
}

/* With little room the index keeps more of the reused blocks than LRU would. */
static void test_real_trace_in_little_room(void **state)
{
    struct trace t;
    if (!real(&t, 0)) skip();
    for (size_t i = 0; i < t.n; i++) t.requests[i].answer = 1; /* they only change the time */
    trace_deal(&t, 1);
    h.c.policy = SIM_HOB;
    h.c.stretch = 1e5;
    h.c.users = 1;
    for (uint32_t percent = 3; percent <= 10; percent += 7) {
        uint64_t lru;
        h.c.room = percent / 100.0;
        assert_int_equal(caches_run(&t, CACHES_LRU, t.distinct * percent / 100, &lru), 0);
        sim_result_fini(&h.r);
        assert_int_equal(sim_run(&h.r, &t, &h.c), 0);
        const double gain = (double)h.r.hit / (double)lru;
        print_message("# room for %u%%: %.3f times as many hits as lru\n", percent, gain);
        assert_true(gain > (percent == 3 ? 1.25 : 1.03));
    }
    trace_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queue_hit_and_jain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_jain_of_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_is_not_frozen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_for_one_of_two, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stretch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_real_trace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_real_trace_has_an_infinite_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_real_trace_in_little_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
