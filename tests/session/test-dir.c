/* SPDX-License-Identifier: MIT */
/*
 * The directories of a store, and the names of files in them, where the system refuses a call: the error is that of the
 * call, and nothing is left open, made or lost.
 */
#include "daemon/session/dir.h"
#include "daemon/session/names.h"
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);

static int flock_error, mkdir_error; /* 0: the call works */

int __wrap_flock(int fd, int operation)
{
    errno = flock_error;
    return flock_error ? -1 : __real_flock(fd, operation);
}

int __wrap_mkdirat(int dir, const char *name, mode_t mode)
{
    errno = mkdir_error;
    return mkdir_error ? -1 : __real_mkdirat(dir, name, mode);
}

/* The lowest descriptor that is free. */
static int lowest(void)
{
    const int fd = dup(0);
    close(fd);
    return fd;
}

/* Open the store's directory while call number @n fails. */
static void check_open(const struct fixture *g, enum call call, unsigned long n, int error, int want, const char *says)
{
    int dir = -1, lock = -1;
    const int free = lowest();
    calls_fail(call, n, error);
    const int r = session_dir_open(&dir, &lock, g->dir);
    assert_true(calls_end() || !error);
    assert_int_equal(r, want);
    if (r == 0) {
        close(dir);
        close(lock);
    } else {
        if (!strstr(error_text(r), says)) fail_msg("'%s' does not say '%s'", error_text(r), says);
        assert_non_null(strstr(error_text(r), g->dir));
    }
    assert_int_equal(lowest(), free);
}

static void test_open(void **state)
{
    struct fixture *g = *state;
    fixture_close(g);
    check_open(g, CALLS, 0, 0, 0, NULL);
    check_open(g, CALL_OPEN, 0, EMFILE, -EMFILE, "sessions in ");
    check_open(g, CALL_FSTAT, 0, EIO, -EIO, "");
    check_open(g, CALL_OPEN, 1, EMFILE, -EMFILE, ": lock: "); /* only a read-only file system is tried again */
    check_open(g, CALL_OPEN, 1, EACCES, -EACCES, ": lock: ");
    check_open(g, CALL_OPEN, 1, EROFS, 0, NULL);
    check_open(g, CALL_OPEN, 2, EACCES, 0, NULL); /* of the parent, whose sync is optional */
    flock_error = ENOLCK;
    check_open(g, CALLS, 0, 0, -ENOLCK, "sessions in ");
    flock_error = EWOULDBLOCK;
    check_open(g, CALLS, 0, 0, -EBUSY, "another hobd uses");
    flock_error = 0;
    fixture_open(g);
}

/* A call that works may leave any error behind. */
static void test_open_after_an_error(void **state)
{
    struct fixture *g = *state;
    fixture_close(g);
    calls_stale(EROFS);
    int dir = -1, lock = -1;
    assert_int_equal(session_dir_open(&dir, &lock, g->dir), 0);
    calls_end();
    assert_true(fcntl(lock, F_GETFL) & O_RDWR);
    assert_int_equal(lowest(), lock + 1);
    close(dir);
    close(lock);
    fixture_open(g);
}

/* The directory and its parent are synced: both may have entries of a process that was killed. */
static void test_open_syncs(void **state)
{
    struct fixture *g = *state;
    int dir = -1, lock = -1;
    fixture_close(g);
    calls_fail(CALLS, 0, 0);
    assert_int_equal(session_dir_open(&dir, &lock, g->dir), 0);
    assert_int_equal(calls_count(CALL_FSYNC), 2);
    calls_end();
    close(dir);
    close(lock);
    fixture_open(g);
}

/* A directory that cannot be made: the reason of that. */
static void test_open_without_parent(void **state)
{
    struct fixture *g = *state;
    char file[80], path[128], want[160];
    int dir, lock;
    snprintf(file, sizeof(file), "%s/file", g->dir);
    snprintf(path, sizeof(path), "%s/below/it", file);
    snprintf(want, sizeof(want), "%s is not a directory", file);
    fixture_write(file, "", 0);
    assert_int_equal(session_dir_open(&dir, &lock, path), -ENOTDIR);
    assert_string_equal(error_text(-ENOTDIR), want);
}

static void test_owner(void **state)
{
    struct fixture *g = *state;
    int dir, lock;
    char want[160];
    fixture_close(g);
    assert_int_equal(chmod(g->dir, 0720), 0);
    assert_int_equal(session_dir_open(&dir, &lock, g->dir), -EPERM);
    snprintf(want, sizeof(want), "%s is writable by others (mode 720): no sessions are stored there", g->dir);
    assert_string_equal(error_text(-EPERM), want);
    assert_int_equal(chmod(g->dir, 0700), 0);
    fixture_open(g);
}

static bool has_dir(const struct fixture *g, uid_t uid)
{
    char path[80];
    snprintf(path, sizeof(path), "%s/%u", g->dir, uid);
    return access(path, F_OK) == 0;
}

static int dir_of(const struct fixture *g, uid_t uid, bool make)
{
    const int free = lowest(), at = open(g->dir, O_RDONLY | O_DIRECTORY);
    const int r = session_dir_of(at, g->dir, uid, make);
    if (r >= 0) close(r);
    close(at);
    assert_int_equal(lowest(), free);
    return r;
}

static void test_of_uid(void **state)
{
    struct fixture *g = *state;
    assert_int_equal(dir_of(g, 7, false), -ENOENT);
    assert_false(has_dir(g, 7));
    mkdir_error = ENOSPC;
    assert_int_equal(dir_of(g, 7, true), -ENOSPC);
    mkdir_error = 0;
    assert_true(dir_of(g, 7, true) >= 0);
    assert_true(has_dir(g, 7));
    calls_fail(CALL_OPEN, 1, EMFILE); /* that is not a missing directory */
    assert_int_equal(dir_of(g, 7, true), -EMFILE);
    calls_fail(CALL_OPEN, 1, ENOENT); /* another process makes it meanwhile */
    assert_true(dir_of(g, 7, true) >= 0);
    calls_fail(CALL_FSYNC, 0, EIO); /* its entry is not sure: it is made again */
    assert_int_equal(dir_of(g, 8, true), -EIO);
    assert_false(has_dir(g, 8));
    calls_end();
    assert_true(dir_of(g, 8, true) >= 0);
}

/* --- names --- */

static int at_uid(const struct fixture *g)
{
    char path[80];
    snprintf(path, sizeof(path), "%s/7", g->dir);
    return open(path, O_RDONLY | O_DIRECTORY);
}

static bool exists(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, 0) == 0;
}

/* A file system without RENAME_NOREPLACE: the same result by two calls. */
static void test_rename_new(void **state)
{
    struct fixture *g = *state;
    static const int no_flag[] = {EINVAL, ENOSYS};
    fixture_say(g, 7, "a", 1);
    const int dir = at_uid(g);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(close(openat(dir, "one", O_CREAT | O_WRONLY, 0600)), 0);
        calls_fail(CALL_RENAME, 0, no_flag[i]);
        assert_int_equal(session_log_rename_new(dir, "one", "two"), 0);
        assert_false(exists(dir, "one"));
        assert_true(exists(dir, "two"));
        assert_int_equal(close(openat(dir, "one", O_CREAT | O_WRONLY, 0600)), 0);
        calls_fail(CALL_RENAME, 0, no_flag[i]);
        assert_int_equal(session_log_rename_new(dir, "one", "two"), -EEXIST);
        assert_true(exists(dir, "one"));
        assert_int_equal(unlinkat(dir, "two", 0), 0);
    }
    calls_fail(CALL_RENAME, 0, EIO); /* every other error is one */
    assert_int_equal(session_log_rename_new(dir, "one", "two"), -EIO);
    assert_false(exists(dir, "two"));
    calls_end();
    close(dir);
}

static void test_set_aside(void **state)
{
    struct fixture *g = *state;
    uint8_t hash[16];
    char log[SESSION_FILE_NAME], bad[SESSION_FILE_NAME], want[SESSION_FILE_NAME];
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    memcpy(hash, x->key.hash, sizeof(hash));
    session_release(g->store, x);
    const int dir = at_uid(g);
    session_file_name(log, hash, ".log");
    calls_fail(CALL_FSYNC, 0, EIO);
    assert_int_equal(session_log_set_aside(dir, hash, true, bad), -EIO);
    for (int i = 1; i < SESSION_BADS; i++) {
        calls_fail(CALLS, 0, 0);
        assert_int_equal(session_log_set_aside(dir, hash, true, bad), 0);
        assert_int_equal(calls_count(CALL_FSYNC), 1);
        session_bad_name(want, hash, i);
        assert_string_equal(bad, want);
        assert_true(exists(dir, bad) && exists(dir, log));
    }
    for (int keep = 0; keep < 2; keep++) {
        assert_int_equal(session_log_set_aside(dir, hash, keep, bad), -EEXIST);
        assert_string_equal(error_text(-EEXIST), "10 damaged logs of it exist already");
        assert_true(exists(dir, log));
    }
    session_bad_name(want, hash, 4);
    assert_int_equal(unlinkat(dir, want, 0), 0);
    calls_fail(CALL_LINK, 4, EMLINK);
    assert_int_equal(session_log_set_aside(dir, hash, true, bad), -EMLINK);
    assert_int_equal(session_log_set_aside(dir, hash, false, bad), 0);
    assert_string_equal(bad, want);
    assert_false(exists(dir, log));
    calls_end();
    close(dir);
}

/* Reads and writes of no bytes, and errors of the disk. */
static void test_put_and_get(void **state)
{
    struct fixture *g = *state;
    char path[80], have[16] = "";
    snprintf(path, sizeof(path), "%s/file", g->dir);
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    calls_fail(CALL_WRITE, 0, 0);
    calls_stale(EINTR);
    assert_int_equal(session_log_put(fd, "words", 5, 0), -EIO);
    calls_end();
    calls_fail(CALL_WRITE, 0, ENOSPC);
    assert_int_equal(session_log_put(fd, "words", 5, 0), -ENOSPC);
    calls_fail(CALL_WRITE, 0, EINTR);
    calls_short(2);
    assert_int_equal(session_log_put(fd, "words", 5, 3), 0);
    calls_fail(CALL_READ, 1, EINTR);
    assert_int_equal(session_log_get(fd, have, 16, 0), 8);
    assert_memory_equal(have, "\0\0\0words", 8);
    calls_fail(CALL_READ, 1, EIO);
    assert_int_equal(session_log_get(fd, have, 16, 0), -EIO);
    calls_fail(CALL_READ, 1, 0);
    assert_int_equal(session_log_get(fd, have, 16, 0), 2);
    calls_end();
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_open_after_an_error, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_open_syncs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_open_without_parent, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_owner, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_of_uid, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rename_new, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_set_aside, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_put_and_get, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("session-dir", tests, NULL, NULL);
}
