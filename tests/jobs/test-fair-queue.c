/* SPDX-License-Identifier: MIT */
/* The order of service, with a simulated clock. */
#include "daemon/jobs/fair-queue.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { USERS = 3, EACH = 4 };

static const struct fairq_config config = {.burst = 20000, .heavy_burst = 20000, .user_share = 10, .heavy_share = 5};

struct fixture {
    struct fairq q;
    struct fairq_user users[USERS];
    struct fairq_entry entries[USERS][EACH];
    uint64_t now;
};

static int who(const struct fixture *g, const struct fairq_entry *t)
{
    for (int u = 0; u < USERS; u++)
        if (t >= g->entries[u] && t < g->entries[u] + EACH) return u;
    return -1;
}

static void add(struct fixture *g, int user, int entry)
{
    fairq_add(&g->q, &g->users[user], &g->entries[user][entry], g->now);
}

/* The next entry, which must be that one. */
static void expect(struct fixture *g, int user, int entry)
{
    uint64_t wait;

    assert_ptr_equal(fairq_next(&g->q, g->now, &wait), &g->entries[user][entry]);
}

static void users_take_turns_then_their_connections(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};
    uint64_t wait;

    for (int i = 0; i < EACH; i++) add(&g, 0, i);
    add(&g, 1, 0);
    add(&g, 1, 1);
    add(&g, 2, 3);
    add(&g, 2, 3); /* twice is once */
    expect(&g, 0, 0);
    expect(&g, 1, 0);
    expect(&g, 2, 3);
    expect(&g, 0, 1);
    expect(&g, 1, 1);
    add(&g, 0, 0); /* has more: behind its user's others */
    expect(&g, 0, 2);
    expect(&g, 0, 3);
    expect(&g, 0, 0);
    assert_false(fairq_any(&g.q));
    assert_null(fairq_next(&g.q, g.now, &wait));
    assert_int_equal(wait, 0);
}

static void what_is_removed_is_not_served(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};

    for (int i = 0; i < EACH; i++) add(&g, 0, i);
    add(&g, 1, 0);
    fairq_remove(&g.q, &g.entries[0][0]);
    fairq_remove(&g.q, &g.entries[0][EACH - 1]);
    fairq_remove(&g.q, &g.entries[1][0]);
    fairq_remove(&g.q, &g.entries[1][0]);
    expect(&g, 0, 1);
    add(&g, 0, 3);
    expect(&g, 0, 2);
    fairq_remove(&g.q, &g.entries[0][3]);
    assert_false(fairq_any(&g.q));
}

/* Serve for @usec of time with user 0 always having input that costs 1 ms. Returns the time that it got. */
static uint64_t flood(struct fixture *g, uint64_t usec)
{
    uint64_t end = g->now + usec, spent = 0, wait;

    add(g, 0, 0);
    while (g->now < end) {
        struct fairq_entry *t = fairq_next(&g->q, g->now, &wait);

        if (!t) {
            assert_true(wait > 0 && wait <= 100000);
            g->now += wait;
            continue;
        }
        assert_int_equal(who(g, t), 0);
        g->now += 1000;
        spent += 1000;
        fairq_charge(&g->q, &g->users[0], 1000, g->now);
        add(g, 0, 0);
    }
    fairq_remove(&g->q, &g->entries[0][0]);
    return spent;
}

static void a_flood_gets_all_idle_time(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};

    fairq_live(&g.q, &g.users[0], 5);
    assert_int_equal(flood(&g, 1000000), 1000000);
}

static void a_flood_is_throttled_while_others_wait_for_answers(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};

    fairq_live(&g.q, &g.users[1], 1);
    assert_in_range(flood(&g, 1000000), 150000, 260000); /* a fifth, and what was free at first */
    fairq_live(&g.q, &g.users[1], -1);
    assert_in_range(flood(&g, 1000000), 900000, 1000000);
}

/* Several heavy users share the fifth; an occasional user comes first. */
/* One piece of work that takes long is charged like many short ones. */
static void a_long_piece_of_work_is_waited_for(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};
    uint64_t wait;

    g.q.config.heavy_burst = 500000;
    fairq_live(&g.q, &g.users[1], 1);
    g.now += 100000;
    fairq_charge(&g.q, &g.users[0], 100000, g.now);
    add(&g, 0, 0);
    assert_null(fairq_next(&g.q, g.now, &wait));
    assert_int_equal(wait, 500000);
    fairq_live(&g.q, &g.users[1], -1);
    expect(&g, 0, 0);
}

/* Of a service that can take many seconds at once, more counts. */
static void a_very_long_service_is_not_forgotten_soon(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};
    struct fairq_user *u = &g.users[0];

    fairq_charge(&g.q, u, 3000000, g.now);
    assert_true(fairq_is_heavy(&g.q, u, g.now + 9000000));
    assert_false(fairq_is_heavy(&g.q, u, g.now + 11000000));
    fairq_charge_long(&g.q, u, 3000000, g.now);
    assert_true(fairq_is_heavy(&g.q, u, g.now + 39000000));
    fairq_charge(&g.q, u, 1000, g.now);
    assert_true(fairq_is_heavy(&g.q, u, g.now + 39000000));
    assert_false(fairq_is_heavy(&g.q, u, g.now + 41000000));
    fairq_charge_long(&g.q, u, 60000000, g.now);
    assert_true(fairq_is_heavy(&g.q, u, g.now + 99000000));
    assert_false(fairq_is_heavy(&g.q, u, g.now + 101000000));
}

static void a_light_user_comes_before_heavy_ones(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};
    uint64_t wait;

    fairq_live(&g.q, &g.users[2], 1);
    flood(&g, 200000);
    fairq_charge(&g.q, &g.users[1], 30000, g.now);
    add(&g, 0, 0);
    add(&g, 1, 0);
    assert_null(fairq_next(&g.q, g.now, &wait));
    assert_true(wait > 0);
    add(&g, 2, 0);
    expect(&g, 2, 0);
    g.now += wait;
    expect(&g, 0, 0);
    fairq_charge(&g.q, &g.users[0], 1000, g.now);
    assert_null(fairq_next(&g.q, g.now, &wait));
    assert_in_range(wait, 4000, 6000);
    g.now += wait;
    expect(&g, 1, 0);
    assert_true(g.users[1].waited > 0);
}

static void a_flood_is_forgotten_in_time(void **state)
{
    struct fixture g = {.now = 1000, .q.config = config};
    uint64_t wait;

    fairq_live(&g.q, &g.users[1], 1);
    flood(&g, 5000000);
    g.now += 12000000;
    add(&g, 0, 0);
    assert_non_null(fairq_next(&g.q, g.now, &wait));
    fairq_charge(&g.q, &g.users[0], 10, g.now);
    add(&g, 0, 0);
    assert_non_null(fairq_next(&g.q, g.now, &wait));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_take_turns_then_their_connections),
        cmocka_unit_test(what_is_removed_is_not_served),
        cmocka_unit_test(a_flood_gets_all_idle_time),
        cmocka_unit_test(a_flood_is_throttled_while_others_wait_for_answers),
        cmocka_unit_test(a_long_piece_of_work_is_waited_for),
        cmocka_unit_test(a_very_long_service_is_not_forgotten_soon),
        cmocka_unit_test(a_light_user_comes_before_heavy_ones),
        cmocka_unit_test(a_flood_is_forgotten_in_time),
    };

    return cmocka_run_group_tests_name("fairq", tests, NULL, NULL);
}
