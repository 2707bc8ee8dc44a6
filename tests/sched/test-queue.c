/* SPDX-License-Identifier: MIT */
/* Positions in the queue, and admission to a full queue. */
#include "daemon/sched/scheduler.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64

static struct sched_req reqs[MOST];
static struct sched_user users[4];
static struct sched_state s;
static struct sched_config c;
static void *scratch;

static int setup(void **state)
{
    memset(reqs, 0, sizeof(reqs));
    memset(users, 0, sizeof(users));
    s = (struct sched_state){.reqs = reqs, .users = users, .n_users = 4, .free_blocks = 1000};
    sched_config_init(&c, 1, 512);
    scratch = malloc(sched_scratch_size(MOST, 4));
    return scratch ? 0 : -1;
}

static int teardown(void **state)
{
    free(scratch);
    return 0;
}

static struct sched_req *add(uint32_t user, bool running)
{
    struct sched_req *r = &reqs[s.n++];
    *r = (struct sched_req){.arrival = s.n, .user = user, .known = 100, .group = SCHED_NONE, .running = running};
    return r;
}

static void test_positions_of_one_user(void **state)
{
    uint32_t pos[MOST];
    add(0, true);
    add(0, false)->arrival = 30;
    add(0, false)->arrival = 20;
    add(0, false)->class = SCHED_CLASS_BATCH;
    sched_positions(&c, &s, scratch, pos);
    const uint32_t want[] = {0, 2, 1, 3};
    assert_memory_equal(pos, want, sizeof(want));
}

/* Of two users with equal accounts one each in turn; the user with a running request comes later. */
static void test_positions_of_users(void **state)
{
    uint32_t pos[MOST];
    for (int i = 0; i < 3; i++) add(0, false);
    for (int i = 0; i < 2; i++) add(1, false);
    sched_positions(&c, &s, scratch, pos);
    const uint32_t want[] = {1, 3, 5, 2, 4};
    assert_memory_equal(pos, want, sizeof(want));
    reqs[0].running = true;
    sched_positions(&c, &s, scratch, pos);
    const uint32_t then[] = {0, 2, 4, 1, 3};
    assert_memory_equal(pos, then, sizeof(then));
}

/* The positions are the order in which requests get a single slot. */
static void test_positions_are_the_order_of_starts(void **state)
{
    uint32_t pos[MOST];
    struct sched_book b = {0};
    struct sched_action out[MOST];
    uint64_t rnd = 7;
    for (int i = 0; i < 40; i++) {
        rnd = rnd * 6364136223846793005u + 1442695040888963407u;
        struct sched_req *r = add((uint32_t)(rnd >> 33) % 4, false);
        r->class = (uint8_t)((rnd >> 40) % SCHED_CLASSES);
        r->known = 1 + (uint32_t)((rnd >> 43) % 1000);
        r->arrival = (uint32_t)(i * 37) % 41;
    }
    for (int u = 0; u < 4; u++) users[u] = (struct sched_user){.served = (uint64_t)u * 300, .waited = true};
    sched_positions(&c, &s, scratch, pos);
    c.parallel = 40;
    assert_int_equal(sched_decide(&c, &b, &s, scratch, out), 40);
    for (uint32_t i = 0; i < 40; i++) assert_int_equal(pos[out[i].index], i + 1);
}

static void test_room(void **state)
{
    for (int i = 0; i < 3; i++) add(0, i == 0);
    assert_int_equal(sched_refuse(&s, NULL, 3, 0, SCHED_CLASS_INTERACTIVE, scratch), SCHED_NONE);
    assert_int_equal(sched_refuse(&s, NULL, 2, 0, SCHED_CLASS_INTERACTIVE, scratch), s.n);
    bool preempted[MOST] = {[1] = true}; /* does not count */
    assert_int_equal(sched_refuse(&s, preempted, 2, 0, SCHED_CLASS_INTERACTIVE, scratch), SCHED_NONE);
}

/* A flood does not fill the queue for others: its newest requests are refused, down to an even share. */
static void test_flood(void **state)
{
    for (int i = 0; i < 10; i++) add(0, false);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t r = sched_refuse(&s, NULL, 10, 1, SCHED_CLASS_INTERACTIVE, scratch);
        assert_int_equal(r, 9 - i);
        reqs[r] = (struct sched_req){.arrival = 100 + i, .user = 1, .known = 100, .group = SCHED_NONE};
    }
    assert_int_equal(sched_refuse(&s, NULL, 10, 1, SCHED_CLASS_INTERACTIVE, scratch), s.n);
    assert_int_equal(sched_refuse(&s, NULL, 10, 0, SCHED_CLASS_INTERACTIVE, scratch), s.n);
    assert_true(sched_refuse(&s, NULL, 10, 2, SCHED_CLASS_INTERACTIVE, scratch) < s.n);
}

/* A request of a higher class replaces the user's own of a lower class. */
static void test_own_class(void **state)
{
    for (int i = 0; i < 4; i++) add(0, false)->class = i == 1 ? SCHED_CLASS_BATCH : SCHED_CLASS_INTERACTIVE;
    assert_int_equal(sched_refuse(&s, NULL, 4, 0, SCHED_CLASS_INFILL, scratch), 1);
    assert_int_equal(sched_refuse(&s, NULL, 4, 0, SCHED_CLASS_INTERACTIVE, scratch), 1);
    assert_int_equal(sched_refuse(&s, NULL, 4, 0, SCHED_CLASS_BATCH, scratch), s.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_positions_of_one_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_positions_of_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_positions_are_the_order_of_starts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_class, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
