/* SPDX-License-Identifier: MIT */
/* Repairing logs: what is cut, what is written anew, what is kept as *.bad, and the warnings of it. */
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/warnings.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t size_of(const struct fixture *g, const char *name, const char *ext)
{
    char path[256];
    struct stat st;
    fixture_path(path, g, 7, name, ext);
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

/* Another program flips a byte of a file, while nothing is loaded. */
static void flip(struct fixture *g, const char *name, const char *ext, uint64_t at)
{
    char path[256];
    size_t n;
    while (session_unload_idle(g->store)) continue;
    fixture_path(path, g, 7, name, ext);
    char *log = fixture_read(path, &n);
    log[at] ^= 1;
    fixture_write(path, log, n);
    free(log);
}

/* As a crash in the last turn leaves the log. */
static void tear(struct fixture *g, const char *name)
{
    char path[256];
    const uint64_t n = size_of(g, name, ".log");
    while (session_unload_idle(g->store)) continue;
    fixture_path(path, g, 7, name, ".log");
    assert_int_equal(truncate(path, (off_t)n - 5), 0);
}

/* All names of damaged logs are taken. */
static void take_bads(const struct fixture *g, const char *name)
{
    char path[256], ext[] = "-0.bad";
    for (int i = 0; i < SESSION_BADS; i++) {
        ext[1] = (char)('0' + i);
        fixture_path(path, g, 7, name, i ? ext : ".bad");
        fixture_write(path, "old", 3);
    }
}

static int load(struct fixture *g, const char *name, unsigned last)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), true, &x), 0);
    const int r = session_load(x);
    assert_true(session_loaded(x) == (r == 0));
    assert_int_equal(fixture_last(x), last);
    if (!last) assert_int_equal(session_content(x)->n_ids, 0);
    session_release(g->store, x);
    return r;
}

static void test_torn(void **state)
{
    struct fixture *g = *state;
    for (int fails = 0; fails < 2; fails++) {
        fixture_say(g, 7, "a", 1);
        const uint64_t one = size_of(g, "a", ".log"), inode = fixture_inode(g, "a", ".log");
        fixture_say(g, 7, "a", 2);
        tear(g, "a");
        if (fails) calls_fail(CALL_FSYNC, 0, EIO);
        assert_int_equal(load(g, "a", 1), 0);
        assert_true(calls_end() == fails);
        assert_int_equal(size_of(g, "a", ".log"), one);
        fixture_say(g, 7, "a", 2);
        assert_true((fixture_inode(g, "a", ".log") == inode) == !fails); /* what is on disk is not known then */
        assert_false(fixture_exists(g, 7, "a", ".bad"));
        assert_int_equal(fixture_erase(g, "a"), 0);
    }
}

/* A torn turn behind all that a fork shares is cut as well. */
static void test_torn_behind_shared(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    const uint64_t one = size_of(g, "a", ".log");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    fixture_say(g, 7, "a", 2);
    tear(g, "a");
    assert_int_equal(load(g, "a", 1), 0);
    assert_false(fixture_exists(g, 7, "a", ".bad"));
    assert_int_equal(size_of(g, "a", ".log"), one);
}

/* The turns before the damage are a new log at once, if that can be written. */
static void check_damaged(struct fixture *g, const char *name, unsigned last, bool full)
{
    if (full) {
        calls_name(".tmp");
        calls_fail(CALL_OPEN, 0, ENOSPC);
    }
    assert_int_equal(warnings_begin(), 0);
    struct session *x = fixture_acquire(g, 7, name);
    const char *heard = warnings_end();
    assert_true(calls_end() == full);
    assert_int_equal(fixture_last(x), last);
    assert_int_equal(session_content(x)->n_messages, 2);
    assert_non_null(strstr(heard, "damaged at byte "));
    assert_true((strstr(heard, "cannot be rewritten now") != NULL) == full);
    assert_true((fixture_inode(g, name, ".log") == fixture_inode(g, name, ".bad")) == full);
    assert_true(session_saved(x) == !full);
    if (full) assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7));
    fixture_reopen(g);
    assert_int_equal(load(g, name, last), 0);
}

static void test_damaged(void **state)
{
    struct fixture *g = *state;
    for (int full = 0; full < 2; full++) {
        fixture_say(g, 7, "a", 1);
        const uint64_t one = size_of(g, "a", ".log");
        fixture_say(g, 7, "a", 2);
        flip(g, "a", ".log", one + 100);
        check_damaged(g, "a", 1, full);
        assert_int_equal(fixture_erase(g, "a"), 0);
    }
}

static void test_damaged_base(void **state)
{
    struct fixture *g = *state;
    for (int full = 0; full < 2; full++) {
        fixture_say_much(g, 7, "a");
        const uint64_t one = size_of(g, "a", ".log");
        fixture_say(g, 7, "a", 2);
        assert_int_equal(fixture_fork(g, "a", "b"), 0);
        fixture_say(g, 7, "b", 3);
        flip(g, "b", ".b0", one + 100);
        check_damaged(g, "b", 1, full);
        assert_int_equal(fixture_erase(g, "b"), 0);
        assert_int_equal(fixture_erase(g, "a"), 0);
    }
}

/* A damaged log is never removed: without a name for it nothing is loaded. */
static void test_no_name_is_left(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    const uint64_t one = size_of(g, "a", ".log");
    fixture_say(g, 7, "a", 2);
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    take_bads(g, "a");
    take_bads(g, "b");
    flip(g, "a", ".log", one + 100); /* also b's base */
    for (const char *name = "a"; name; name = *name == 'a' ? "b" : NULL) {
        const uint64_t inode = fixture_inode(g, name, ".log");
        assert_int_equal(load(g, name, 0), -EEXIST);
        assert_non_null(strstr(error_text(-EEXIST), "' is damaged and cannot be kept as *.bad"));
        assert_int_equal(fixture_inode(g, name, ".log"), inode);
    }
    flip(g, "a", ".log", 100); /* no turn is left */
    assert_int_equal(load(g, "a", 0), -EEXIST);
    assert_non_null(strstr(error_text(-EEXIST), "the log of session 'a' is damaged and cannot be renamed"));
    assert_true(fixture_exists(g, 7, "a", ".log"));
}

/* The log of a fork that another program changed is kept with its base. The fork has neither any more. */
static void test_changed_fork(void **state)
{
    struct fixture *g = *state;
    char path[256];
    struct session_info *list;
    size_t n;
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    assert_int_equal(fixture_erase(g, "a"), 0);
    struct session *x = fixture_acquire(g, 7, "b");
    fixture_turn(x, 2);
    fixture_path(path, g, 7, "b", ".log");
    fixture_write(path, "mine now", 8);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    assert_true(fixture_exists(g, 7, "b", ".b0"));
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].disk, (size_of(g, "b", ".log") + 4095) / 4096 * 4096);
    assert_int_equal(list[0].shared, 0);
    free(list);
    assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7));
    calls_fail(CALL_LINK, 0, EMLINK); /* a fork of it that is copied */
    assert_int_equal(fixture_fork(g, "b", "c"), 0);
    assert_true(calls_end());
    assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_torn),         TEST(test_torn_behind_shared), TEST(test_damaged),
        TEST(test_damaged_base), TEST(test_no_name_is_left),    TEST(test_changed_fork),
    };
    return cmocka_run_group_tests_name("session-mend", tests, NULL, NULL);
}
