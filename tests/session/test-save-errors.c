/* SPDX-License-Identifier: MIT */
/*
 * Saving, forking, renaming and removing when a call fails or a file is not ours: the error is that of the call, files
 * of others stay, and the bytes that count are those on disk.
 */
#include "daemon/session/quota.h"
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/warnings.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void count_is_right(const struct fixture *g)
{
    assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7));
}

static uint64_t size_of(const struct fixture *g, const char *name)
{
    char path[256];
    struct stat st;
    fixture_path(path, g, 7, name, ".log");
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static int save_turn(struct fixture *g, const char *name, unsigned n)
{
    struct session *x = fixture_acquire(g, 7, name);
    fixture_turn(x, n);
    const int r = session_save(x);
    session_release(g->store, x);
    return r;
}

/* A file under the name of the log that hobd does not read, and base 0 beside it. */
static void put_foreign(const struct fixture *g, const char *name)
{
    char path[256];
    fixture_path(path, g, 7, name, ".log");
    fixture_write(path, "of another program", 18);
    fixture_path(path, g, 7, name, ".b0");
    fixture_write(path, "its base", 8);
}

static void assert_last(struct fixture *g, const char *name, unsigned last, size_t messages)
{
    struct session *x = fixture_acquire(g, 7, name);
    assert_int_equal(fixture_last(x), last);
    assert_int_equal(session_content(x)->n_messages, messages);
    session_release(g->store, x);
}

/* --- appending --- */

static void test_open_fails(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    const uint64_t inode = fixture_inode(g, "a", ".log");
    calls_name(".log");
    calls_fail(CALL_OPEN, 0, EMFILE); /* not a log that is missing */
    assert_int_equal(save_turn(g, "a", 2), -EMFILE);
    assert_true(calls_end());
    assert_int_equal(fixture_inode(g, "a", ".log"), inode);
    calls_name(".tmp");
    calls_fail(CALL_OPEN, 0, EMFILE);
    assert_int_equal(save_turn(g, "b", 1), -EMFILE);
    assert_true(calls_end());
    count_is_right(g);
}

/* The log is not read to its end: it is not known to be ours, and stays. */
static void test_end_is_not_read(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    calls_fail(CALL_READ, 0, 0);
    assert_int_equal(save_turn(g, "a", 2), 0);
    assert_true(calls_end());
    assert_true(fixture_exists(g, 7, "a", ".bad"));
    count_is_right(g);
    fixture_reopen(g);
    assert_last(g, "a", 2, 4);
    assert_int_equal(fixture_erase(g, "a"), 0);
    fixture_say(g, 7, "a", 1);
    calls_fail(CALL_READ, 0, EIO);
    assert_int_equal(save_turn(g, "a", 2), -EIO);
    assert_false(fixture_exists(g, 7, "a", ".bad"));
    calls_end();
}

/* A log of a session that became short: it is written anew, or, if there is no space for that, longer. */
static void make_long_log(struct fixture *g, const char *name)
{
    char *text = calloc(1, 200000);
    struct session *x = fixture_acquire(g, 7, name);
    assert_int_equal(session_append(x, 1, text, 200000, false), 0);
    assert_int_equal(session_save(x), 0);
    session_truncate(x, 0);
    session_drop_messages(x, 0);
    session_release(g->store, x);
    free(text);
}

static void test_long_log(void **state)
{
    struct fixture *g = *state;
    make_long_log(g, "a");
    calls_name(".tmp");
    calls_fail(CALL_OPEN, 0, ENOSPC);
    assert_int_equal(save_turn(g, "a", 1), 0);
    assert_true(calls_end());
    assert_true(size_of(g, "a") > 200000);
    calls_name(".tmp");
    calls_fail(CALL_OPEN, 0, ENOSPC);
    struct session *x = fixture_acquire(g, 7, "a");
    x->log.rewrite = true; /* its end is not known: it must not become longer */
    session_release(g->store, x);
    assert_int_equal(save_turn(g, "a", 2), -ENOSPC);
    assert_true(calls_end());
    assert_int_equal(save_turn(g, "a", 3), 0);
    assert_true(size_of(g, "a") < 4096);
    count_is_right(g);
    fixture_reopen(g);
    assert_last(g, "a", 3, 6);
}

/* The base of a fork whose parent is gone is the fork's alone: it counts as a part of its log. */
static void test_long_log_of_fork(void **state)
{
    struct fixture *g = *state;
    char *text = calloc(1, 200000);
    struct session *x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_append(x, 1, text, 200000, false), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    free(text);
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    x = fixture_acquire(g, 7, "b");
    session_truncate(x, 0);
    session_release(g->store, x);
    assert_int_equal(save_turn(g, "b", 1), 0);
    assert_true(fixture_exists(g, 7, "b", ".b0")); /* shared: removing it frees nothing */
    assert_int_equal(fixture_erase(g, "a"), 0);
    assert_int_equal(save_turn(g, "b", 2), 0);
    assert_false(fixture_exists(g, 7, "b", ".b0"));
    assert_true(fixture_disk(g, 7) == 4096);
    count_is_right(g);
    fixture_reopen(g);
    assert_last(g, "b", 2, 4);
}

/* A log of which forks share all that it has grows on. */
static void test_parent_grows(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    const uint64_t inode = fixture_inode(g, "a", ".log");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    assert_int_equal(save_turn(g, "a", 2), 0);
    assert_int_equal(fixture_inode(g, "a", ".log"), inode);
    fixture_reopen(g);
    assert_last(g, "b", 0, 2);
}

/* Another program cuts the part that a fork shares, at the end of a turn. The parent's later turns do not take the
 * place of the lost ones. */
static void test_shared_part_is_cut(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say_much(g, 7, "a");
    const uint64_t one = size_of(g, "a");
    fixture_say(g, 7, "a", 2);
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    while (session_unload_idle(g->store)) continue;
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(truncate(path, (off_t)one), 0);
    assert_last(g, "a", 1, 2);
    assert_int_equal(save_turn(g, "a", 5), 0); /* which is shorter than the lost one */
    struct session *x = fixture_acquire(g, 7, "b");
    assert_int_equal(session_content(x)->n_messages, 2);
    session_release(g->store, x);
    assert_last(g, "a", 5, 4);
}

/* --- whole logs --- */

/* A temporary file of an earlier crash is in the way. */
static void test_temporary_file(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say(g, 7, "first", 1);
    fixture_path(path, g, 7, "a", ".tmp");
    fixture_write(path, "half", 4);
    calls_fail(CALL_UNLINK, 0, EACCES);
    assert_int_equal(save_turn(g, "a", 1), -EACCES);
    assert_true(calls_end());
    fixture_write(path, "half", 4);
    calls_stale(EINTR);
    struct session *x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_save(x), 0);
    calls_end();
    session_release(g->store, x);
    count_is_right(g);
    calls_fail(CALL_FSTAT, 1, EIO);
    assert_int_equal(save_turn(g, "b", 1), -EIO);
    calls_fail(CALL_FSYNC, 0, EIO);
    assert_int_equal(save_turn(g, "c", 1), -EIO);
    calls_end();
    assert_false(fixture_exists(g, 7, "c", ".tmp"));
    count_is_right(g);
}

static void test_name_is_taken(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "first", 1);
    put_foreign(g, "a");
    const uint64_t counted = fixture_bytes(g, 7);
    assert_int_equal(save_turn(g, "a", 1), -EEXIST);
    assert_non_null(strstr(error_text(-EEXIST), " exists already that is not a log this hobd reads"));
    assert_non_null(strstr(error_text(-EEXIST), "session 'a' could not be saved: a file "));
    assert_int_equal(fixture_bytes(g, 7), counted);
}

/* A claim is for the turn that follows: other users' files that came meanwhile do not refuse it. */
static void test_claimed(void **state)
{
    struct fixture *g = *state;
    for (int claims = 0; claims < 2; claims++) {
        struct session *x = fixture_acquire(g, 7, claims ? "a" : "b");
        fixture_turn(x, 1);
        calls_space(1 << 20, 1 << 30);
        if (claims) assert_int_equal(session_claim(x, 8192), 0);
        calls_space(0, 1 << 30);
        assert_int_equal(session_save(x), claims ? 0 : -ENOSPC);
        calls_end();
        calls_fail(CALL_FSTATVFS, 0, EIO);
        x->log.rewrite = true;
        fixture_turn(x, 2);
        assert_int_equal(session_save(x), claims ? 0 : -EIO);
        calls_end();
        session_release(g->store, x);
    }
}

/* --- renaming --- */

static void test_rename_shares(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_rename(g, "a", "b"), 0);
    assert_true(fixture_exists(g, 7, "b", ".b0"));
    struct session *x = fixture_acquire(g, 7, "b");
    assert_true(session_saved(x));
    session_release(g->store, x);
    count_is_right(g);
    calls_fail(CALL_OPEN, 0, EMFILE);
    assert_int_equal(fixture_rename(g, "b", "c"), -EMFILE);
    assert_true(calls_end());
    assert_non_null(strstr(error_text(-EMFILE), "session 'b' could not be renamed"));
    assert_last(g, "b", 1, 2);
}

static void test_rename_and_foreign_files(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    put_foreign(g, "b");
    assert_int_equal(fixture_rename(g, "a", "b"), -EEXIST);
    assert_true(fixture_exists(g, 7, "b", ".log"));
    assert_last(g, "a", 1, 2);
    put_foreign(g, "c"); /* under the name of a session that is in memory only */
    assert_int_equal(save_turn(g, "c", 1), -EEXIST);
    assert_int_equal(fixture_rename(g, "c", "d"), 0);
    assert_true(fixture_exists(g, 7, "c", ".log"));
    assert_last(g, "d", 1, 2);
}

/* A turn may be in the log or not: the log is made sure first, so that a crash does not bring the session back under
 * its old name. */
static void test_rename_of_unsure_log(void **state)
{
    struct fixture *g = *state;
    char log[256], aside[272];
    fixture_say(g, 7, "a", 1);
    calls_fail(CALL_FSYNC, 0, EIO);
    struct session *x = fixture_acquire(g, 7, "a"), *y = NULL;
    fixture_turn(x, 2);
    assert_int_equal(session_save(x), -EIO);
    assert_true(x->log.rewrite);
    calls_fail(CALL_WRITE, 0, ENOSPC);
    assert_int_equal(session_rename(g->store, x, "b", 1, &y), 0);
    assert_int_equal(session_move(y, x), -ENOSPC);
    assert_true(calls_end());
    assert_false(fixture_exists(g, 7, "b", ".log"));
    fixture_path(log, g, 7, "a", ".log");
    snprintf(aside, sizeof(aside), "%s.aside", log);
    calls_fail(CALL_UNLINK, 2, EIO); /* the temporary files of both logs, then the old log */
    assert_int_equal(session_move(y, x), 0);
    assert_true(calls_end());
    assert_true(fixture_exists(g, 7, "a", ".log"));
    session_release(g->store, x);
    session_release(g->store, y);
    fixture_reopen(g);
    assert_false(fixture_exists(g, 7, "a", ".log"));
    assert_last(g, "b", 2, 4);
}

/* A warning only where there is something to warn of. */
static void test_rename_warns(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    assert_int_equal(warnings_begin(), 0);
    assert_int_equal(fixture_rename(g, "a", "b"), 0);
    assert_string_equal(warnings_end(), "");
    assert_int_equal(warnings_begin(), 0);
    calls_fail(CALL_UNLINK, 1, EIO); /* behind that of the temporary file */
    assert_int_equal(fixture_rename(g, "b", "c"), 0);
    assert_true(calls_end());
    assert_non_null(strstr(warnings_end(), "the session was renamed, but this file remains until the next start: "));
}

/* --- removing --- */

static void test_erase(void **state)
{
    struct fixture *g = *state;
    char path[256];
    assert_int_equal(fixture_erase(g, "never saved"), 0); /* nor has the user a directory */
    fixture_say(g, 7, "a", 1);
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fixture_erase(g, "a"), 0);
    assert_int_equal(fixture_bytes(g, 7), 0);
    put_foreign(g, "b");
    assert_int_equal(save_turn(g, "b", 1), -EEXIST);
    assert_int_equal(fixture_erase(g, "b"), 0); /* what is in memory */
    assert_true(fixture_exists(g, 7, "b", ".log"));
    assert_true(fixture_exists(g, 7, "b", ".b0"));
}

static void test_erase_that_fails(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say(g, 7, "a", 1);
    fixture_path(path, g, 7, "a", ".bad");
    fixture_write(path, "old", 3);
    calls_fail(CALL_OPEN, 0, EACCES);
    assert_int_equal(fixture_erase(g, "a"), -EACCES);
    assert_non_null(strstr(error_text(-EACCES), "session 'a' could not be removed"));
    calls_fail(CALL_UNLINK, 0, EIO); /* a file that is set aside: the log stays as well */
    assert_int_equal(fixture_erase(g, "a"), -EIO);
    assert_true(calls_end());
    assert_true(fixture_exists(g, 7, "a", ".log"));
    assert_last(g, "a", 1, 2);
    assert_int_equal(fixture_erase(g, "a"), 0);
}

/* A base whose link cannot be removed counts on. */
static void test_erase_fork(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    assert_int_equal(fixture_erase(g, "a"), 0);
    calls_fail(CALL_UNLINK, SESSION_BADS + 1, EIO); /* the *.bad files, the log, the base */
    assert_int_equal(fixture_erase(g, "b"), 0);
    assert_true(calls_end());
    count_is_right(g);
    assert_false(fixture_exists(g, 7, "b", ".b0")); /* it is tried twice */
}

/* --- in memory only --- */

static void test_memory_only(void **state)
{
    struct fixture g = {0};
    assert_int_equal(session_store_new(&g.store, 1 << 20), 0);
    struct session *x = fixture_acquire(&g, 7, "a"), *y = NULL;
    fixture_turn(x, 1);
    assert_int_equal(session_claim(x, 1 << 30), 0);
    assert_int_equal(session_save(x), 0);
    assert_int_equal(session_rename(g.store, x, "b", 1, &y), 0);
    assert_int_equal(session_move(y, x), 0);
    session_release(g.store, x);
    assert_int_equal(fixture_last(y), 1);
    assert_int_equal(session_erase(y), 0);
    session_release(g.store, y);
    size_t n;
    uint64_t bytes;
    session_count(g.store, 7, &n, &bytes);
    assert_int_equal(n, 0);
    assert_int_equal(bytes, 0);
    fixture_close(&g);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open_fails),
        TEST(test_end_is_not_read),
        TEST(test_long_log),
        TEST(test_long_log_of_fork),
        TEST(test_parent_grows),
        TEST(test_shared_part_is_cut),
        TEST(test_temporary_file),
        TEST(test_name_is_taken),
        TEST(test_claimed),
        TEST(test_rename_shares),
        TEST(test_rename_and_foreign_files),
        TEST(test_rename_of_unsure_log),
        TEST(test_rename_warns),
        TEST(test_erase),
        TEST(test_erase_that_fails),
        TEST(test_erase_fork),
        cmocka_unit_test(test_memory_only),
    };
    return cmocka_run_group_tests_name("session-save-errors", tests, NULL, NULL);
}
