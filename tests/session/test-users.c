/* SPDX-License-Identifier: MIT */
/* Sessions of several users, their names and expiry, and what of a session stays. Covers session.c, index.c, content.c.
 */
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_bytes_of_each_user(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    fixture_say(g, 8, "a", 1);
    assert_int_equal(fixture_bytes(g, 7), fixture_disk(g, 7));
    assert_int_equal(fixture_bytes(g, 8), fixture_disk(g, 8));
    assert_int_not_equal(fixture_bytes(g, 7), fixture_bytes(g, 8));
    assert_int_equal(fixture_bytes(g, 9), 0);
    assert_int_equal(fixture_bytes(g, (uid_t)-1), fixture_disk(g, 7) + fixture_disk(g, 8));
}

static void one_hash(uint8_t out[16], const char *name, size_t len)
{
    memset(out, 0x11, 16);
}

/* Names with the same hash of which one begins with the other. */
static void test_a_collision_of_beginnings(void **state)
{
    static const char *const names[] = {"ab", "a", "abc", "b"};
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    struct session *x = NULL;
    c.hash = one_hash;
    fixture_close(g);
    assert_int_equal(session_store_open(&g->store, 1 << 20, &c), 0);
    fixture_say(g, 7, names[0], 1);
    for (int i = 1; i < 4; i++)
        assert_int_equal(session_acquire(g->store, 7, names[i], strlen(names[i]), true, &x), -EINVAL);
    assert_int_equal(session_acquire(g->store, 7, "ab", 2, false, &x), 0);
    session_release(g->store, x);
}

/* Of the expired sessions of all users the one that was used first is the first, whoever came first. */
static void test_expiry_of_all_users(void **state)
{
    static const uid_t uids[] = {7, 8, 9, 8, 7};
    struct fixture *g = *state;
    struct session *x = NULL;
    char name[8];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        fixture_say(g, uids[i], name, 1);
        fixture_realtime += 1000000;
    }
    fixture_realtime += 100000000;
    fixture_boottime += 100000000;
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_true(session_acquire_expired(g->store, 50000000, &x));
        assert_int_equal(session_uid(x), uids[i]);
        assert_string_equal(session_name(x)->data, name);
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
    }
    assert_false(session_acquire_expired(g->store, 50000000, &x));
}

/* A session that is in use does not expire, nor does one when the clock goes backwards, whoever used it last. */
static void test_what_does_not_expire(void **state)
{
    const uint64_t hour = 3600000000;
    struct fixture *g = *state;
    struct session *x = NULL;
    fixture_say(g, 7, "a", 1);
    struct session *busy = fixture_acquire(g, 7, "a");
    fixture_realtime += 2 * hour;
    fixture_boottime += 2 * hour;
    assert_false(session_acquire_expired(g->store, hour, &x));
    session_release(g->store, busy);
    fixture_reopen(g);
    const uint64_t boottime = fixture_boottime;
    fixture_boottime = 1000; /* the machine has just started: only the other clock is of use */
    fixture_realtime -= 20 * hour;
    assert_false(session_acquire_expired(g->store, hour, &x));
    fixture_realtime += 20 * hour;
    assert_true(session_acquire_expired(g->store, hour, &x));
    session_release(g->store, x);
    fixture_boottime = boottime;
}

/* Sessions of many users with one name: each finds its own. */
static void test_one_name_of_many_users(void **state)
{
    enum { USERS = 600 };
    struct session_store *s = NULL;
    struct session *x = NULL;
    char text[16];
    assert_int_equal(session_store_new(&s, 1 << 20), 0);
    for (int round = 0; round < 2; round++)
        for (uid_t uid = 1; uid <= USERS; uid++) {
            snprintf(text, sizeof(text), "of %u", (unsigned)uid);
            assert_int_equal(session_acquire(s, uid, "a", 1, round == 0, &x), 0);
            assert_int_equal(session_uid(x), uid);
            if (round == 0) assert_int_equal(session_add_message(x, "user", 4, text, strlen(text)), 0);
            assert_int_equal(session_content(x)->n_messages, 1);
            assert_string_equal(session_content(x)->messages[0].content.data, text);
            session_release(s, x);
        }
    assert_int_equal(session_acquire(s, USERS + 1, "a", 1, false, &x), -ENOENT);
    assert_int_equal(session_acquire(s, 1, "a\x7f", 2, true, &x), -EINVAL);
    session_store_free(s);
}

/* --- sessions in memory --- */

static void add_ids(struct session *x)
{
    assert_int_equal(session_append(x, 3, "", 0, false), 0);
}

static void add_text(struct session *x)
{
    assert_int_equal(session_extend(x, items_tokens(NULL, 0), NULL, "t", "\0", 1), 0);
}

static void add_message(struct session *x)
{
    assert_int_equal(session_add_message(x, "user", 4, "", 0), 0);
}

static void add_failure(struct session *x)
{
    assert_int_equal(session_set_failed(x, "no", 2), 0);
}

/* A session with any content stays after its release; an empty one does not. */
static void test_what_stays(void **state)
{
    void (*const add[])(struct session * x) = {add_ids, add_text, add_message, add_failure};
    struct session_store *s = NULL;
    struct session *x = NULL;
    assert_int_equal(session_store_new(&s, 1 << 20), 0);
    for (int i = 0; i < 4; i++) {
        const char name = (char)('a' + i);
        assert_int_equal(session_acquire(s, 7, &name, 1, true, &x), 0);
        session_release(s, x);
        assert_int_equal(session_acquire(s, 7, &name, 1, false, &x), -ENOENT);
        assert_int_equal(session_acquire(s, 7, &name, 1, true, &x), 0);
        add[i](x);
        session_release(s, x);
        assert_int_equal(session_acquire(s, 7, &name, 1, false, &x), 0);
        session_release(s, x);
    }
    session_store_free(s);
}

/* What was added since the last save and partly taken back is saved, not only what the log has. */
static void test_partly_taken_back(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 2);
    session_truncate(x, 30);
    session_drop_messages(x, 3);
    assert_int_equal(session_append(x, 1, "", 0, false), 0);
    assert_int_equal(session_append(x, 2, "", 0, false), 0);
    session_truncate(x, 31); /* of which no text is cut */
    assert_int_equal(x->content.n_ids, 31);
    char *want = fixture_dump(x);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    fixture_reopen(g);
    x = fixture_acquire(g, 7, "a");
    char *have = fixture_dump(x);
    assert_string_equal(have, want);
    free(want);
    free(have);
    session_release(g->store, x);
}

/* A busy session is listed as one that is not loaded: only its request may know. */
static void test_listed_as_loaded(void **state)
{
    struct fixture *g = *state;
    struct session_info *list = NULL;
    size_t n;
    fixture_say(g, 7, "a", 1);
    for (int i = 0; i < 3; i++) {
        struct session *x = i == 1 ? fixture_acquire(g, 7, "a") : NULL;
        if (i == 2)
            while (session_unload_idle(g->store)) continue;
        assert_int_equal(session_list(g->store, 7, &list, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(list->busy, i == 1);
        assert_int_equal(list->loaded, i == 0);
        free(list);
        if (x) session_release(g->store, x);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_of_each_user),   TEST(test_a_collision_of_beginnings), TEST(test_expiry_of_all_users),
        TEST(test_what_does_not_expire), TEST(test_one_name_of_many_users),    TEST(test_what_stays),
        TEST(test_partly_taken_back),    TEST(test_listed_as_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
