/* SPDX-License-Identifier: MIT */
/* Which sessions stay in memory, and which leave it for others. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <errno.h>
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

static uint64_t memory_of(const struct fixture *g)
{
    size_t n;
    uint64_t bytes;
    session_count(g->store, 7, &n, &bytes);
    return bytes;
}

static int acquire(struct fixture *g, const char *name, struct session **out)
{
    return session_acquire(g->store, 7, name, strlen(name), true, out);
}

static void text(struct fixture *g, const char *name, size_t n)
{
    char *bytes = calloc(1, n);
    struct session *x = fixture_acquire(g, 7, name);
    assert_int_equal(session_append(x, 1, bytes, n, false), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    free(bytes);
}

/* The limit itself is allowed, one byte more is not. */
static void test_exact_limit(void **state)
{
    struct fixture *g = *state;
    struct session *x = NULL;
    text(g, "a", 50000);
    const uint64_t one = memory_of(g);
    for (int less = 0; less < 2; less++) {
        g->store->bytes_max = one - (uint64_t)less;
        assert_int_equal(acquire(g, "a", &x), less ? -EDQUOT : 0); /* it is not unloaded for itself */
        if (less) break;
        assert_int_equal(session_fits(g->store, x, 0), 0);
        assert_int_equal(session_fits(g->store, x, 1), -EDQUOT);
        session_release(g->store, x);
    }
    assert_string_equal(loaded(g), "a");
    assert_int_equal(memory_of(g), one);
    assert_true(session_unload_idle(g->store));
    g->store->bytes_max = one; /* it counts before it is loaded */
    assert_int_equal(acquire(g, "a", &x), -EDQUOT);
    g->store->bytes_max = one + memory_of(g);
    assert_int_equal(acquire(g, "a", &x), 0);
    session_release(g->store, x);
}

/* Others are unloaded for a session that is not in memory yet, and only if they must be. */
static void test_room_for_one_that_comes_back(void **state)
{
    struct fixture *g = *state;
    struct session *x = NULL;
    text(g, "a", 50000);
    const uint64_t one = memory_of(g);
    while (session_unload_idle(g->store)) continue;
    text(g, "b", 50000);
    const uint64_t with = memory_of(g) + one; /* "a" counts a little also when it is not loaded */
    for (int less = 0; less < 2; less++) {
        g->store->bytes_max = with - (uint64_t)less;
        assert_int_equal(acquire(g, "a", &x), 0);
        assert_string_equal(loaded(g), less ? "" : "b");
        session_release(g->store, x);
    }
    text(g, "b", 1);
    x = fixture_acquire(g, 7, "a"); /* one that is loaded does not count twice */
    session_release(g->store, x);
    g->store->bytes_max = memory_of(g);
    assert_int_equal(acquire(g, "a", &x), 0);
    session_release(g->store, x);
}

static void test_room_for_messages(void **state)
{
    struct fixture *g = *state;
    text(g, "a", 50000);
    text(g, "b", 50000);
    struct session *x = fixture_acquire(g, 7, "b");
    g->store->bytes_max = memory_of(g) + 1000;
    assert_int_equal(session_fits(g->store, x, 1000), 0);
    assert_string_equal(loaded(g), "a");
    assert_int_equal(session_fits(g->store, x, 1001), 0);
    assert_string_equal(loaded(g), "");
    session_release(g->store, x);
}

static void test_last_is_busy(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a"), *y = NULL;
    assert_int_equal(session_acquire_last(g->store, 7, &y), -EBUSY);
    assert_int_equal(session_acquire_last(g->store, 8, &y), -ENOENT);
    assert_null(y);
    session_release(g->store, x);
}

/* --- time --- */

/* Two uses have different times, whatever the clock says. */
static void test_uses_differ(void **state)
{
    struct fixture *g = *state;
    uint64_t last = 0;
    for (int i = 0; i < 4; i++) {
        struct session *x = fixture_acquire(g, 7, "a");
        assert_true(session_last_use(x) > last);
        last = session_last_use(x);
        fixture_turn(x, 1);
        session_release(g->store, x);
        fixture_realtime = last - (uint64_t)i; /* at the same time, and then earlier */
    }
}

static bool expires(struct fixture *g, uint64_t ttl)
{
    struct session *x = NULL;
    const bool found = session_acquire_expired(g->store, ttl, &x);
    if (found) session_release(g->store, x);
    return found;
}

static void test_exact_age(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    const uint64_t used = session_last_use(x), boot = x->last_use.boot;
    session_release(g->store, x);
    static const struct {
        int64_t realtime, boot; /* after the last use */
        bool expired;
    } ages[] = {{1000, 1001, false}, {1001, 1000, false}, {1001, 1001, true}, {1001, 0, false}, {1001, -1, false}};
    for (size_t i = 0; i < sizeof(ages) / sizeof(*ages); i++) {
        fixture_realtime = used + (uint64_t)ages[i].realtime;
        fixture_boottime = boot + (uint64_t)ages[i].boot;
        assert_int_equal(expires(g, 1000), ages[i].expired);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_is_bounded, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unsaved_is_not_unloaded, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_least_recently_used_leaves, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exact_limit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_room_for_one_that_comes_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_room_for_messages, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_last_is_busy, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_uses_differ, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exact_age, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("session-memory", tests, NULL, NULL);
}
