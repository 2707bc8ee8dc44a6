/* SPDX-License-Identifier: MIT */
/* Sessions that are saved, and loaded by another store; no damage. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void reopen(struct fixture *g)
{
    fixture_close(g);
    fixture_open(g);
}

static void assert_dump(struct fixture *g, const char *name, const char *want)
{
    struct session *x = fixture_acquire(g, 7, name);
    char *have = fixture_dump(x);
    assert_string_equal(have, want);
    free(have);
    session_release(g->store, x);
}

/* The content is the same after a restart, after truncating, replacing and appending, and after changes of markup. */
static void test_round_trip(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 1);
    assert_int_equal(session_save(x), 0);
    fixture_turn(x, 2);
    assert_int_equal(session_save(x), 0);
    session_truncate(x, 25);
    session_drop_messages(x, 3);
    assert_int_equal(session_add_message(x, "assistant", 9, "other", 5), 0);
    assert_int_equal(session_append(x, -5, "\0\xff", 2, true), 0);
    assert_int_equal(session_append(x, INT32_MAX, "", 0, false), 0);
    for (size_t i = 0; i < 20; i++) x->content.markup.data[i] = i % 2;
    x->content.context = PROTO_CONTEXT_SHIFT;
    x->content.model[15] = 0x55;
    assert_int_equal(session_save(x), 0);
    char *want = fixture_dump(x);
    session_release(g->store, x);
    reopen(g);
    assert_dump(g, "a", want);
    /* a log is appended to after it was read */
    x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 3);
    assert_int_equal(session_save(x), 0);
    free(want);
    want = fixture_dump(x);
    session_release(g->store, x);
    reopen(g);
    assert_dump(g, "a", want);
    free(want);
}

static void test_what_is_not_saved_is_not_there(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 2);
    session_release(g->store, x);
    x = fixture_acquire(g, 7, "b");
    fixture_turn(x, 1);
    session_release(g->store, x);
    reopen(g);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(x), 1);
    session_release(g->store, x);
    assert_int_equal(session_acquire(g->store, 7, "b", 1, false, &x), -ENOENT);
}

static void test_modes_and_places(void **state)
{
    struct fixture *g = *state;
    struct stat st;
    char path[256];
    umask(0);
    fixture_say(g, 7, "a", 1);
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(path, sizeof(path), "%s/7", g->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_false(fixture_exists(g, 7, "a", ".tmp"));
    umask(022);
}

static void test_names(void **state)
{
    struct fixture *g = *state;
    struct session *x;
    char big[10000];
    memset(big, 'x', sizeof(big));
    assert_int_equal(session_acquire(g->store, 7, big, sizeof(big), true, &x), -EINVAL);
    assert_int_equal(session_acquire(g->store, 7, "../../etc", 9, true, &x), -EINVAL);
    assert_int_equal(session_acquire(g->store, 7, "a\0b", 3, true, &x), -EINVAL);
    const char *names[] = {"..", ".", "lock", " ", "%s", "\xff\xfe", "Ünï"};
    for (unsigned i = 0; i < 7; i++) fixture_say(g, 7, names[i], i + 1);
    big[PROTO_NAME_MAX] = 0;
    fixture_say(g, 7, big, 8);
    reopen(g);
    for (unsigned i = 0; i < 8; i++) {
        x = fixture_acquire(g, 7, i < 7 ? names[i] : big);
        assert_int_equal(fixture_last(x), i + 1);
        session_release(g->store, x);
    }
}

static void one_hash(uint8_t out[16], const char *name, size_t len)
{
    memset(out, 0x11, 16);
}

/* Two names with the same hash: the second is refused, also after a restart. */
static void test_a_collision_is_an_error(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    struct session *x;
    c.hash = one_hash;
    for (int i = 0; i < 2; i++) {
        fixture_close(g);
        assert_int_equal(session_store_open(&g->store, 1 << 20, &c), 0);
        if (i == 0) fixture_say(g, 7, "a", 1);
        assert_int_equal(session_acquire(g->store, 7, "b", 1, true, &x), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "'b'"));
        fixture_say(g, 8, "b", 1); /* another uid's is another file */
    }
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(x), 1);
    session_release(g->store, x);
}

static void test_two_daemons(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    struct session_store *other = NULL;
    assert_int_equal(session_store_open(&other, 1 << 20, &c), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), g->dir));
    assert_null(other);
    fixture_close(g);
    assert_int_equal(session_store_open(&other, 1 << 20, &c), 0);
    session_store_free(other);
    fixture_open(g);
}

/* A scan without loading has names, times, counts and sizes, and the order of use. */
static void test_list_after_a_restart(void **state)
{
    struct fixture *g = *state;
    const char *names[] = {"a", "b", "c", "a"};
    for (unsigned i = 0; i < 4; i++) fixture_say(g, 7, names[i], i + 1);
    fixture_say(g, 8, "other", 1);
    struct session_info *before, *after;
    size_t n, m;
    assert_int_equal(session_list(g->store, 7, &before, &n), 0);
    assert_int_equal(n, 3);
    struct session_info copy[3];
    memcpy(copy, before, sizeof(copy));
    free(before);
    reopen(g);
    assert_int_equal(session_list(g->store, 7, &after, &m), 0);
    assert_int_equal(m, 3);
    const char *order[] = {"a", "c", "b"};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(after[i].name->data, order[i]);
        assert_int_equal(after[i].ids, i == 0 ? 40 : 20);
        assert_int_equal(after[i].messages, i == 0 ? 4 : 2);
        assert_true(after[i].used == copy[i].used && after[i].disk == copy[i].disk && after[i].bytes == copy[i].bytes);
        assert_true(after[i].disk > 0 && after[i].bytes > 0);
        assert_false(after[i].loaded);
    }
    free(after);
    struct session *x;
    assert_int_equal(session_acquire_last(g->store, 7, &x), 0);
    assert_string_equal(x->key.name.data, "a");
    session_release(g->store, x);
    assert_int_equal(session_list(g->store, 9, &after, &m), 0);
    assert_int_equal(m, 0);
    assert_null(after);
}

/* A clock that was set back makes no use earlier. */
static void test_order_without_a_clock(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    fixture_realtime = 5;
    fixture_say(g, 7, "b", 1);
    reopen(g);
    fixture_say(g, 7, "c", 1);
    struct session_info *list;
    size_t n;
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    assert_int_equal(n, 3);
    assert_string_equal(list[0].name->data, "c");
    assert_string_equal(list[1].name->data, "b");
    assert_true(list[0].used > list[1].used && list[1].used > list[2].used);
    free(list);
}

static struct session *beside(struct fixture *g, struct session *src, const char *to, bool rename)
{
    struct session *x = NULL;
    int r = (rename ? session_rename : session_fork)(g->store, src, to, strlen(to), &x);
    assert_int_equal(r, 0);
    return x;
}

static void test_fork(void **state)
{
    struct fixture *g = *state;
    struct session *none = NULL;
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 7, "taken", 1);
    reopen(g);
    struct session *a = fixture_acquire(g, 7, "a");
    assert_int_equal(session_fork(g->store, a, "taken", 5, &none), -EEXIST);
    assert_string_equal(error_text(-EEXIST), "there is a session 'taken' already");
    assert_int_equal(session_fork(g->store, a, "a", 1, &none), -EEXIST);
    assert_int_equal(session_fork(g->store, a, "x/y", 3, &none), -EINVAL);
    struct session *b = beside(g, a, "b", false);
    assert_int_equal(session_copy(b, a), 0);
    assert_int_equal(session_save(b), 0);
    fixture_turn(b, 2);
    assert_int_equal(session_save(b), 0);
    assert_null(session_find_outcome(b, "turn-1")); /* that was another session's turn */
    char *da = fixture_dump(a), *db = fixture_dump(b);
    session_release(g->store, a);
    session_release(g->store, b);
    reopen(g);
    assert_dump(g, "a", da);
    assert_dump(g, "b", db);
    assert_non_null(strstr(db, "question 1"));
    free(da);
    free(db);
}

static void test_rename(void **state)
{
    struct fixture *g = *state;
    struct session *none = NULL;
    fixture_say(g, 7, "a", 1);
    reopen(g);
    struct session *a = fixture_acquire(g, 7, "a");
    char *want = fixture_dump(a);
    struct session *b = beside(g, a, "b", true);
    assert_int_equal(session_rename(g->store, a, "b", 1, &none), -EEXIST);
    assert_int_equal(session_move(b, a), 0);
    session_release(g->store, a);
    session_release(g->store, b);
    assert_false(fixture_exists(g, 7, "a", ".log"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &none), -ENOENT);
        assert_dump(g, "b", want);
        reopen(g);
    }
    fixture_say(g, 7, "a", 5); /* the name is free again, and stays so */
    fixture_say(g, 7, "b", 2);
    reopen(g);
    a = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(a), 5);
    session_release(g->store, a);
    a = fixture_acquire(g, 7, "b");
    assert_int_equal(fixture_last(a), 2);
    assert_non_null(session_find_outcome(a, "turn-1"));
    session_release(g->store, a);
    free(want);
}

/* A crash between the two steps of a rename: the next start removes the old name, but not a new session that got
 * the old name meanwhile. */
static void test_rename_cut_short(void **state)
{
    struct fixture *g = *state;
    char path[256];
    size_t n;
    fixture_say(g, 7, "a", 1);
    fixture_path(path, g, 7, "a", ".log");
    char *old = fixture_read(path, &n);
    struct session *a = fixture_acquire(g, 7, "a"), *b = beside(g, a, "b", true), *none = NULL;
    assert_int_equal(session_move(b, a), 0);
    session_release(g->store, a);
    session_release(g->store, b);
    fixture_close(g);
    fixture_write(path, old, n);
    free(old);
    fixture_open(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &none), -ENOENT);
    assert_false(fixture_exists(g, 7, "a", ".log"));
    assert_true(fixture_exists(g, 7, "b", ".log"));
    fixture_say(g, 7, "a", 1);
    reopen(g);
    a = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(a), 1);
    session_release(g->store, a);
}

static void test_remove(void **state)
{
    struct fixture *g = *state;
    struct session *x = NULL, *y = NULL;
    fixture_say(g, 7, "a", 1);
    reopen(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), 0);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &y), -EBUSY);
    assert_int_equal(session_erase(x), 0); /* without loading it */
    session_release(g->store, x);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), -ENOENT);
    assert_false(fixture_exists(g, 7, "a", ".log"));
    size_t n;
    uint64_t bytes;
    session_count(g->store, (uid_t)-1, &n, &bytes);
    assert_true(n == 0 && bytes == 0);
}

static void test_expiry(void **state)
{
    struct fixture *g = *state;
    const uint64_t hour = 3600000000;
    struct session *x = NULL;
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 8, "b", 1);
    uint64_t made = fixture_realtime;
    assert_false(session_acquire_expired(g->store, hour, &x));
    fixture_realtime = made - 20 * hour; /* the clock goes backwards */
    assert_false(session_acquire_expired(g->store, hour, &x));
    fixture_say(g, 7, "back", 1);
    fixture_realtime = made;
    assert_false(session_acquire_expired(g->store, hour, &x)); /* and is right again */
    fixture_realtime = made + 20 * hour;                       /* it jumps: no time has passed */
    assert_false(session_acquire_expired(g->store, hour, &x));
    fixture_boottime += 2 * hour;
    struct session *busy = fixture_acquire(g, 8, "b"); /* which is a use */
    const char *order[] = {"a", "back"};
    for (int i = 0; i < 2; i++) {
        assert_true(session_acquire_expired(g->store, hour, &x));
        assert_string_equal(x->key.name.data, order[i]);
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
        assert_false(fixture_exists(g, 7, order[i], ".log"));
    }
    assert_false(session_acquire_expired(g->store, hour, &x));
    session_release(g->store, busy);
    assert_false(session_acquire_expired(g->store, hour, &x));
    assert_int_equal(session_save(fixture_acquire(g, 8, "b")), 0);
    reopen(g); /* of an earlier process only the realtime is known */
    assert_false(session_acquire_expired(g->store, hour, &x));
    fixture_realtime += 2 * hour;
    assert_false(session_acquire_expired(g->store, 0, &x));
    assert_true(session_acquire_expired(g->store, hour, &x));
    session_release(g->store, x);
}

static void test_revert(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    char *want = fixture_dump(x);
    fixture_turn(x, 2);
    session_revert(x);
    session_release(g->store, x);
    assert_dump(g, "a", want);
    free(want);
    x = fixture_acquire(g, 7, "b");
    fixture_turn(x, 1);
    session_revert(x);
    session_release(g->store, x);
    assert_int_equal(session_acquire(g->store, 7, "b", 1, false, &x), -ENOENT);
}

/* Truncating the history again and again does not make the log grow without end. */
static void test_compaction(void **state)
{
    struct fixture *g = *state;
    static const char text[3000];
    struct session *x = fixture_acquire(g, 7, "a");
    uint64_t largest = 0;
    bool shrank = false;
    for (int i = 0; i < 200; i++) {
        uint64_t before = x->log.size;
        session_truncate(x, 0);
        session_drop_messages(x, 0);
        fixture_turn(x, (unsigned)i + 1);
        assert_int_equal(session_append(x, i, text, sizeof(text), false), 0);
        assert_int_equal(session_save(x), 0);
        if (x->log.size > largest) largest = x->log.size;
        shrank = shrank || x->log.size < before;
    }
    assert_true(shrank);
    assert_true(largest < 100000);
    assert_int_equal(x->content.n_outcomes, SESSION_OUTCOMES);
    assert_null(session_find_outcome(x, "turn-192"));
    assert_non_null(session_find_outcome(x, "turn-193"));
    char *want = fixture_dump(x);
    session_release(g->store, x);
    reopen(g);
    assert_dump(g, "a", want);
    free(want);
}

static void test_another_model(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "messages");
    fixture_turn(x, 1);
    session_forget_tokens(x);
    assert_true(x->content.n_ids == 0 && x->content.text.len == 0 && x->content.markup.len == 0 &&
                x->content.n_messages == 2);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    x = fixture_acquire(g, 7, "raw");
    x->content.raw = true;
    assert_int_equal(session_append(x, 1, "once upon", 9, false), 0);
    assert_int_equal(session_save(x), 0);
    session_forget_tokens(x);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    reopen(g);
    x = fixture_acquire(g, 7, "messages");
    assert_true(x->content.n_ids == 0 && x->content.text.len == 0 && x->content.n_messages == 2);
    session_release(g->store, x);
    x = fixture_acquire(g, 7, "raw");
    assert_int_equal(x->content.n_ids, 0);
    assert_string_equal(x->content.text.data, "once upon");
    /* as a turn does it: the text comes again, with its new ids */
    session_truncate(x, 0);
    assert_int_equal(x->content.text.len, 0);
    assert_int_equal(session_append(x, 2, "once upon", 9, false), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    reopen(g);
    x = fixture_acquire(g, 7, "raw");
    assert_true(x->content.n_ids == 1 && x->content.ids[0] == 2 && x->content.ends[0] == 9);
    assert_string_equal(x->content.text.data, "once upon");
    session_release(g->store, x);
}

/* Many sessions: found and listed without being loaded. */
static void test_many(void **state)
{
    struct fixture *g = *state;
    for (unsigned i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%u", i);
        fixture_say(g, 7, name, i + 1);
    }
    reopen(g);
    size_t n;
    uint64_t bytes;
    session_count(g->store, 7, &n, &bytes);
    assert_int_equal(n, 300);
    for (unsigned i = 0; i < 300; i += 7) {
        char name[16];
        snprintf(name, sizeof(name), "s%u", i);
        struct session *x = fixture_acquire(g, 7, name);
        assert_int_equal(fixture_last(x), i + 1);
        session_release(g->store, x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_saved_is_not_there, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_modes_and_places, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_names, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_collision_is_an_error, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_two_daemons, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_list_after_a_restart, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_order_without_a_clock, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fork, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rename, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rename_cut_short, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_remove, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_expiry, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_revert, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_compaction, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_another_model, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
