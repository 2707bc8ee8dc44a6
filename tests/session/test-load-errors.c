/* SPDX-License-Identifier: MIT */
/*
 * Loading a session when a file cannot be opened or read: the error is that of the call, the log stays as it is, and
 * the next load works. Only what is wrong in a file counts as damage.
 */
#include "daemon/session/session-log.h"
#include "daemon/session/share.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Acquire a session, without loading it. */
static struct session *acquire(struct fixture *g, const char *name)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), true, &x), 0);
    assert_false(session_loaded(x));
    return x;
}

/* "a" of one long turn, "b" a fork of it with turn 2; nothing is loaded. */
static void two_logs(struct fixture *g)
{
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    fixture_say(g, 7, "b", 2);
    fixture_reopen(g);
}

/* Loading @name fails with @want and changes nothing; the next load finds turn @last. */
static void check_fails(struct fixture *g, const char *name, int want, unsigned last)
{
    struct session *x = acquire(g, name);
    const int r = session_load(x);
    assert_true(calls_end());
    assert_int_equal(r, want);
    assert_false(session_loaded(x));
    assert_int_equal(session_content(x)->n_ids, 0);
    assert_int_equal(session_content(x)->n_messages, 0);
    assert_false(fixture_exists(g, 7, name, ".bad"));
    assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7));
    assert_int_equal(session_load(x), 0);
    assert_int_equal(fixture_last(x), last);
    session_release(g->store, x);
    fixture_reopen(g);
}

static void test_calls_that_fail(void **state)
{
    struct fixture *g = *state;
    static const int errors[] = {EMFILE, EIO, EPERM};
    two_logs(g);
    for (int i = 0; i < 3; i++) {
        const int e = errors[i];
        calls_fail(CALL_OPEN, 0, e); /* the directory */
        check_fails(g, "a", -e, 1);
        calls_name(".log");
        calls_fail(CALL_OPEN, 0, e);
        check_fails(g, "a", -e, 1);
        calls_name(".b0");
        calls_fail(CALL_OPEN, 0, e);
        check_fails(g, "b", -e, 2);
        calls_fail(CALL_READ, 0, e);
        check_fails(g, "a", -e, 1);
        calls_fail(CALL_READ, 1, e); /* the base */
        check_fails(g, "b", -e, 2);
    }
    calls_fail(CALL_FSTAT, 1, EIO); /* behind that of the directory */
    check_fails(g, "a", -EIO, 1);
    calls_fail(CALL_FSTAT, 2, EIO);
    check_fails(g, "b", -EIO, 2);
}

/* A log that may only be read is read. */
static void test_read_only(void **state)
{
    struct fixture *g = *state;
    static const int errors[] = {EROFS, EACCES};
    two_logs(g);
    for (int i = 0; i < 2; i++) {
        struct session *x = acquire(g, "a");
        calls_name(".log");
        calls_fail(CALL_OPEN, 0, errors[i]);
        assert_int_equal(session_load(x), 0);
        assert_true(calls_end());
        assert_int_equal(fixture_last(x), 1);
        session_release(g->store, x);
        fixture_reopen(g);
        x = acquire(g, "a");
        calls_name(".log");
        calls_fail(CALL_OPEN, 1, 0);
        calls_stale(errors[i]); /* of a call that worked: the log is not opened twice */
        assert_int_equal(session_load(x), 0);
        assert_int_equal(calls_count(CALL_OPEN), 1);
        calls_end();
        session_release(g->store, x);
        fixture_reopen(g);
    }
}

/* Each allocation of loading a fork fails once. */
static void test_without_memory(void **state)
{
    struct fixture *g = *state;
    two_logs(g);
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct session *x = acquire(g, "b");
        memory_fail(n);
        const int r = session_load(x);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (failed) assert_int_equal(session_load(x), 0);
        assert_int_equal(fixture_last(x), 2);
        session_release(g->store, x);
        assert_false(fixture_exists(g, 7, "b", ".bad"));
        fixture_reopen(g);
    }
}

/* --- what is missing --- */

static void test_missing(void **state)
{
    struct fixture *g = *state;
    char path[256];
    for (int whole = 0; whole < 2; whole++) {
        fixture_say(g, 7, "a", 1);
        fixture_reopen(g);
        fixture_path(path, g, 7, "a", ".log");
        assert_int_equal(unlink(path), 0);
        if (whole) *strrchr(path, '/') = 0;
        if (whole) assert_int_equal(rmdir(path), 0);
        struct session *x = acquire(g, "a");
        assert_int_equal(session_load(x), -ENOENT);
        assert_string_equal(error_text(-ENOENT), "the log of session 'a' was removed");
        assert_int_equal(fixture_bytes(g, 7), 0);
        fixture_turn(x, 2); /* it can be used again */
        assert_int_equal(session_save(x), 0);
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
    }
}

/* A base that is no file of ours: the fork is unusable, and says why. */
static void test_base_replaced(void **state)
{
    struct fixture *g = *state;
    char base[256], other[256];
    for (int how = 0; how < 4; how++) {
        fixture_say_much(g, 7, "a");
        fixture_say_much(g, 8, "a");
        assert_int_equal(fixture_fork(g, "a", "b"), 0);
        fixture_say(g, 7, "b", 2);
        fixture_reopen(g);
        fixture_path(base, g, 7, "b", ".b0");
        fixture_path(other, g, 8, "a", ".log");
        assert_int_equal(unlink(base), 0);
        if (how == 1) assert_int_equal(symlink(other, base), 0);
        if (how == 2) assert_int_equal(mkdir(base, 0700), 0);
        if (how == 3) assert_int_equal(link(other, base), 0); /* another user's turns are not believed */
        struct session *x = acquire(g, "b");
        assert_int_equal(session_load(x), -EBADMSG);
        assert_string_equal(error_text(-EBADMSG), "the part that session 'b' shares with the session it was forked "
                                                  "from is damaged: its log was renamed to *.bad");
        assert_true(session_loaded(x));
        assert_int_equal(session_content(x)->n_messages, 0);
        assert_true(fixture_exists(g, 7, "b", ".bad"));
        session_release(g->store, x);
        rmdir(base);
        fixture_close(g);
        fixture_clear(g->dir);
        fixture_open(g);
    }
}

/* --- records that are whole and wrong --- */

/* A log of "a" with one record of @kind, and a turn behind it when @turn. */
static void write_log(struct fixture *g, uint32_t kind, const void *payload, size_t n, bool turn)
{
    struct buf b = BUF_INIT;
    char path[256];
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_log_write_head(&b, x), 0);
    size_t at = b.len;
    assert_int_equal(session_log_begin(&b), 0);
    assert_int_equal(buf_append(&b, payload, n), 0);
    assert_int_equal(session_log_finish(&b, at, kind), 0);
    at = b.len;
    if (turn) {
        assert_int_equal(session_log_begin(&b), 0);
        assert_true(session_record_write(&b, x, true) >= 0);
        assert_int_equal(session_log_finish(&b, at, SESSION_LOG_KIND_TURN), 0);
    }
    session_release(g->store, x);
    while (session_unload_idle(g->store)) continue;
    fixture_path(path, g, 7, "a", ".log");
    fixture_write(path, b.data, b.len);
    buf_fini(&b);
}

static void test_bases_that_are_wrong(void **state)
{
    struct fixture *g = *state;
    static const char bases[100] = {SESSION_BASES + 1};
    write_log(g, SESSION_LOG_KIND_BASE, bases, sizeof(bases), true);
    struct session *x = acquire(g, "a");
    assert_int_equal(session_load(x), -EBADMSG);
    assert_string_equal(error_text(-EBADMSG), "the log of session 'a' is damaged and was renamed to *.bad");
    assert_int_equal(session_content(x)->n_messages, 0);
    session_release(g->store, x);
}

static void test_newer(void **state)
{
    struct fixture *g = *state;
    char path[256];
    size_t n;
    write_log(g, SESSION_LOG_KIND_LAST + 1, "new", 3, false);
    for (int magic = 0; magic < 2; magic++) {
        struct session *x = acquire(g, "a");
        assert_int_equal(session_load(x), -EOPNOTSUPP);
        assert_string_equal(error_text(-EOPNOTSUPP), "session 'a' was written by a newer hobd");
        session_release(g->store, x);
        assert_true(fixture_exists(g, 7, "a", ".log"));
        fixture_path(path, g, 7, "a", ".log");
        char *log = fixture_read(path, &n);
        log[12] ^= 1; /* behind what all versions have */
        fixture_write(path, log, n);
        free(log);
    }
}

/* Of logs that a fork and a rename have behind each other: the outcomes before the fork do not come back. */
static void test_outcomes_of_bases(void **state)
{
    struct fixture *g = *state;
    two_logs(g);
    assert_int_equal(fixture_rename(g, "b", "c"), 0);
    fixture_say(g, 7, "c", 3);
    fixture_reopen(g);
    struct session *x = fixture_acquire(g, 7, "c");
    assert_true(fixture_exists(g, 7, "c", ".b1"));
    assert_int_equal(session_content(x)->n_outcomes, 2);
    assert_null(session_find_outcome(x, "turn-1"));
    assert_non_null(session_find_outcome(x, "turn-2"));
    assert_non_null(session_find_outcome(x, "turn-3"));
    assert_int_equal(session_content(x)->n_messages, 6);
    session_release(g->store, x);
}

/* A fork's log that ends anywhere. */
static void test_fork_torn(void **state)
{
    struct fixture *g = *state;
    char path[256];
    size_t n;
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    fixture_path(path, g, 7, "b", ".log");
    char *log = fixture_read(path, &n);
    for (size_t cut = n - 1; cut > 60; cut -= 3) {
        while (session_unload_idle(g->store)) continue;
        fixture_write(path, log, cut);
        struct session *x = acquire(g, "b");
        assert_int_equal(session_load(x), -EBADMSG); /* without its bases it is not the session */
        assert_int_equal(session_content(x)->n_messages, 0);
        session_release(g->store, x);
        fixture_path(path, g, 7, "b", ".bad");
        assert_int_equal(unlink(path), 0);
        fixture_path(path, g, 7, "b", ".log");
        fixture_write(path, log, n);
        fixture_reopen(g);
    }
    free(log);
}

/* --- sizes --- */

static void test_too_large(void **state)
{
    struct fixture *g = *state;
    char path[256];
    struct rlimit files = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &files);
    if (files.rlim_cur < (rlim_t)5 << 30) skip();
    fixture_say(g, 7, "a", 1);
    while (session_unload_idle(g->store)) continue;
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(truncate(path, ((off_t)4 << 30) + 1), 0);
    struct session *x = acquire(g, "a");
    assert_int_equal(session_load(x), -EFBIG);
    assert_string_equal(error_text(-EFBIG), "session 'a': it has more than 4 GiB");
    assert_int_equal(truncate(path, (off_t)4 << 30), 0); /* which it may have */
    memory_fail(0);
    assert_int_equal(session_load(x), -ENOMEM);
    assert_true(memory_end());
    session_release(g->store, x);
    assert_false(fixture_exists(g, 7, "a", ".bad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls_that_fail, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_read_only, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_missing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_base_replaced, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bases_that_are_wrong, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_newer, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_outcomes_of_bases, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fork_torn, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_too_large, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("session-load-errors", tests, NULL, NULL);
}
