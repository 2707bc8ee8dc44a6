/* SPDX-License-Identifier: MIT */
/* Which sessions stay in memory, and which leave it for others. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Two sessions' worth of memory: others are unloaded first, and come back as they were. */
static void test_memory_is_bounded(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    size_t n;
    uint64_t one, all;
    fixture_say(g, 7, "s0", 1);
    session_count(g->store, 7, &n, &one);
    fixture_close(g);
    uint64_t max = 3 * one + 8 * sizeof(struct session);
    assert_int_equal(session_store_open(&g->store, max, &c), 0);
    for (unsigned i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof(name), "s%u", i);
        fixture_say(g, 7, name, 1);
        session_count(g->store, 7, &n, &all);
        assert_true(all <= max + one);
    }
    struct session_info *list;
    size_t loaded = 0;
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    assert_int_equal(n, 10);
    for (size_t i = 0; i < n; i++) loaded += list[i].loaded;
    assert_in_range(loaded, 1, 9);
    assert_true(list[0].loaded && !list[9].loaded);
    free(list);
    for (unsigned i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof(name), "s%u", i);
        struct session *x = fixture_acquire(g, 7, name);
        assert_int_equal(fixture_last(x), 1);
        assert_int_equal(session_content(x)->n_ids, i == 0 ? 40 : 20);
        session_release(g->store, x);
    }
    size_t given = 0;
    while (session_unload_idle(g->store)) given++;
    assert_true(given > 0);
    assert_false(session_unload_idle(g->store));
    session_count(g->store, 7, &n, &all);
    assert_true(all < max);
}

/* What is only in memory stays there, and counts. */
static void test_unsaved_is_not_unloaded(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a"), *y = NULL;
    fixture_turn(x, 1);
    assert_false(session_unload_idle(g->store)); /* busy */
    assert_false(session_acquire_unsaved(g->store, &y));
    session_release(g->store, x);
    assert_false(session_unload_idle(g->store)); /* not saved */
    uint64_t idle = 0;
    assert_false(session_idle_usec(g->store, &idle));
    assert_true(session_acquire_unsaved(g->store, &y));
    assert_ptr_equal(x, y);
    assert_int_equal(session_save(y), 0);
    session_release(g->store, y);
    assert_false(session_acquire_unsaved(g->store, &y));
    fixture_realtime += 5000000;
    assert_true(session_idle_usec(g->store, &idle));
    assert_in_range(idle, 5000000, 5000999);
    fixture_realtime -= 6000000; /* a clock that was set back */
    assert_true(session_idle_usec(g->store, &idle));
    assert_int_equal(idle, 0);
    assert_true(session_unload_idle(g->store));
    assert_false(session_idle_usec(g->store, &idle));
}

/* The loaded ones of two users, the most recently used of each first. */
static const char *loaded(struct fixture *g)
{
    static char names[16];
    names[0] = 0;
    for (uid_t uid = 7; uid < 9; uid++) {
        struct session_info *list;
        size_t n;
        assert_int_equal(session_list(g->store, uid, &list, &n), 0);
        for (size_t i = 0; i < n; i++)
            if (list[i].loaded) strcat(names, list[i].name->data);
        free(list);
    }
    return names;
}

/* Of all users' idle sessions the one that was used least recently leaves; one that is busy does not. */
static void test_least_recently_used_leaves(void **state)
{
    struct fixture *g = *state;
    struct session *busy;
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 8, "b", 1);
    fixture_say(g, 7, "c", 1);
    fixture_say(g, 8, "d", 1);
    fixture_say(g, 7, "a", 2);
    assert_string_equal(loaded(g), "acdb");
    assert_true(session_unload_idle(g->store));
    assert_string_equal(loaded(g), "acd");
    busy = fixture_acquire(g, 7, "c");
    assert_true(session_unload_idle(g->store));
    assert_string_equal(loaded(g), "a");
    assert_true(session_unload_idle(g->store));
    assert_false(session_unload_idle(g->store));
    session_release(g->store, busy);
    assert_string_equal(loaded(g), "c");
    fixture_say(g, 8, "b", 2); /* it comes back with all that it had */
    struct session *x = fixture_acquire(g, 8, "b");
    assert_int_equal(session_content(x)->n_ids, 40);
    session_release(g->store, x);
    assert_true(session_unload_idle(g->store));
    assert_string_equal(loaded(g), "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_is_bounded, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unsaved_is_not_unloaded, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_least_recently_used_leaves, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("session-memory", tests, NULL, NULL);
}
