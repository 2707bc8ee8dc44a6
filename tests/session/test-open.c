/* SPDX-License-Identifier: MIT */
/* Opening a store when calls fail or memory runs out, and the renames that a crash left unfinished. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
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

static int open_store(struct fixture *g)
{
    struct session_store_config c = fixture_config(g);
    return session_store_open(&g->store, 1 << 20, &c);
}

static size_t sessions_of(const struct fixture *g, uid_t uid)
{
    size_t n;
    uint64_t bytes;
    session_count(g->store, uid, &n, &bytes);
    return n;
}

/* Rename, and leave the old log as a crash before its removal does. The store is closed then. */
static void rename_half(struct fixture *g, const char *from, const char *to)
{
    char log[256], aside[272];
    fixture_path(log, g, 7, from, ".log");
    snprintf(aside, sizeof(aside), "%s.aside", log);
    assert_int_equal(link(log, aside), 0);
    assert_int_equal(fixture_rename(g, from, to), 0);
}

static void put_back(const struct fixture *g, const char *name)
{
    char log[256], aside[272];
    fixture_path(log, g, 7, name, ".log");
    snprintf(aside, sizeof(aside), "%s.aside", log);
    assert_int_equal(rename(aside, log), 0);
}

/* Create a file of uid 7 anew, so that the directory lists it last or first. */
static void make_anew(const struct fixture *g, const char *name)
{
    char path[256];
    size_t n;
    fixture_path(path, g, 7, name, ".log");
    char *log = fixture_read(path, &n);
    assert_int_equal(unlink(path), 0);
    fixture_write(path, log, n);
    free(log);
}

/* Two renames of one session, of which all three logs exist, in any order. */
static void test_two_renames(void **state)
{
    static const char *const orders[] = {"abc", "acb", "bac", "bca", "cab", "cba"};
    struct fixture *g = *state;
    for (int i = 0; i < 6; i++) {
        fixture_say(g, 7, "a", 1);
        rename_half(g, "a", "b");
        rename_half(g, "b", "c");
        fixture_close(g);
        put_back(g, "a");
        put_back(g, "b");
        for (const char *at = orders[i]; *at; at++) make_anew(g, (const char[]){*at, 0});
        fixture_open(g);
        assert_int_equal(sessions_of(g, 7), 1);
        assert_false(fixture_exists(g, 7, "a", ".log"));
        assert_false(fixture_exists(g, 7, "b", ".log"));
        struct session *x = fixture_acquire(g, 7, "c");
        assert_int_equal(fixture_last(x), 1);
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
    }
}

static void test_rename_cannot_be_finished(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    rename_half(g, "a", "b");
    fixture_close(g);
    put_back(g, "a");
    for (int i = 0; i < 3; i++) {
        static const int errors[] = {EMFILE, EIO, 0};
        assert_int_equal(warnings_begin(), 0);
        if (i == 0) calls_name("7");
        if (i == 0) calls_fail(CALL_OPEN, 1, EMFILE); /* the directory; the scan has opened it before */
        if (i == 1) calls_fail(CALL_UNLINK, 0, EIO);
        fixture_open(g);
        assert_true(calls_end() == (i < 2));
        const char *heard = strstr(warnings_end(), "the session was renamed, but this file cannot be removed: ");
        assert_true(i < 2 ? heard && strstr(heard, strerror(errors[i])) : !heard);
        assert_int_equal(sessions_of(g, 7), 1);
        assert_true(fixture_exists(g, 7, "a", ".log") == (i < 2));
        assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7)); /* it counts as long as it exists */
        fixture_close(g);
    }
    fixture_open(g);
}

/* Renames of two users, which a crash has left unfinished at once. */
static void test_renames_of_two_users(void **state)
{
    struct fixture *g = *state;
    char log[256], aside[272];
    fixture_say(g, 7, "a", 1);
    rename_half(g, "a", "b");
    fixture_say(g, 8, "c", 1);
    fixture_path(log, g, 8, "c", ".log");
    snprintf(aside, sizeof(aside), "%s.aside", log);
    assert_int_equal(link(log, aside), 0);
    struct session *x = fixture_acquire(g, 8, "c"), *y = NULL;
    assert_int_equal(session_rename(g->store, x, "d", 1, &y), 0);
    assert_int_equal(session_move(y, x), 0);
    session_release(g->store, x);
    session_release(g->store, y);
    fixture_close(g);
    put_back(g, "a");
    assert_int_equal(rename(aside, log), 0);
    fixture_open(g);
    for (uid_t uid = 7; uid <= 8; uid++) {
        assert_int_equal(sessions_of(g, uid), 1);
        assert_false(fixture_exists(g, uid, uid == 7 ? "a" : "c", ".log"));
        assert_true(fixture_exists(g, uid, uid == 7 ? "b" : "d", ".log"));
    }
}

/* A store of all that there can be: 3 sessions of 7, damaged logs of 7 and of 8, who has no session. */
static void fill(struct fixture *g)
{
    char path[256];
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    fixture_say(g, 7, "c", 1);
    fixture_say(g, 8, "x", 1);
    fixture_path(path, g, 7, "a", ".bad");
    fixture_write(path, "old", 3);
    rename_half(g, "c", "d");
    fixture_close(g);
    char log[256];
    fixture_path(log, g, 8, "x", ".log");
    fixture_path(path, g, 8, "x", ".bad");
    assert_int_equal(rename(log, path), 0);
}

static void test_without_memory(void **state)
{
    struct fixture *g = *state;
    fill(g);
    put_back(g, "c");
    fixture_open(g);
    fixture_close(g);
    for (unsigned long n = 0, failed = 1; failed; n++) {
        memory_fail(n);
        const int r = open_store(g);
        failed = memory_end();
        assert_true(r == 0 || (failed && r == -ENOMEM));
        if (r < 0) continue;
        assert_int_equal(sessions_of(g, 7), 3);
        assert_string_equal(g->store->path, g->dir); /* for messages */
        assert_true(fixture_bytes(g, 7) == fixture_disk(g, 7));
        assert_true(fixture_bytes(g, 8) == fixture_disk(g, 8));
        fixture_close(g);
    }
    fixture_open(g);
}

/* The same with both logs of a rename each time. */
static void test_rename_without_memory(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    for (unsigned long n = 0, failed = 1; failed; n++) {
        rename_half(g, "a", "b");
        fixture_close(g);
        put_back(g, "a");
        memory_fail(n);
        const int r = open_store(g);
        failed = memory_end();
        assert_true(r == 0 || (failed && r == -ENOMEM));
        if (r < 0) fixture_open(g);
        assert_int_equal(sessions_of(g, 7), 1);
        assert_int_equal(fixture_rename(g, "b", "a"), 0);
    }
}

/* What the scan cannot read is left out with a warning that names the reason. */
static void test_calls_that_fail(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    fixture_close(g);
    static const struct {
        enum call call;
        const char *name;
        unsigned long n;
        int error;
        const char *says;
    } faults[] = {
        {CALL_OPEN, ".log", 0, EACCES, ".log is ignored: Permission denied"},
        {CALL_READ, NULL, 0, EIO, ".log is ignored: Input/output error"},
        {CALL_READ, NULL, 1, EIO, NULL},
        {CALL_READ, NULL, 2, EIO, NULL},
        {CALL_OPEN, "7", 0, EMFILE, "/7 are not read: Too many open files"},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        calls_name(faults[i].name);
        calls_fail(faults[i].call, faults[i].n, faults[i].error);
        assert_int_equal(warnings_begin(), 0);
        fixture_open(g);
        const bool failed = calls_end();
        const char *heard = warnings_end();
        if (faults[i].says) {
            const char *once = strstr(heard, faults[i].says);
            assert_non_null(once);
            assert_null(strstr(once + 1, faults[i].says));
        }
        assert_int_equal(sessions_of(g, 7), failed ? 0 : 1);
        assert_true((*heard != 0) == failed);
        fixture_close(g);
    }
    calls_name(".");
    calls_fail(CALL_OPEN, 1, EMFILE); /* behind the parent */
    assert_int_equal(open_store(g), -EMFILE);
    assert_true(calls_end());
    assert_non_null(strstr(error_text(-EMFILE), g->dir));
    calls_fail(CALL_RANDOM, 0, EIO); /* of the index: users choose the names */
    assert_int_equal(open_store(g), -EIO);
    assert_true(calls_end());
    char path[80];
    snprintf(path, sizeof(path), "%s/7", g->dir);
    assert_int_equal(chmod(path, 0720), 0);
    assert_int_equal(warnings_begin(), 0);
    fixture_open(g);
    const char *once = strstr(warnings_end(), "/7 are not read: ");
    assert_non_null(once);
    assert_null(strstr(once + 1, "/7 are not read: "));
    fixture_close(g);
    assert_int_equal(chmod(path, 0700), 0);
    fixture_open(g);
    assert_int_equal(sessions_of(g, 7), 1);
}

static void test_damaged_head(void **state)
{
    struct fixture *g = *state;
    char path[256], ext[] = "-0.bad";
    fixture_say(g, 7, "a", 1);
    for (int i = 0; i < 11; i++) {
        fixture_close(g);
        ext[1] = (char)('0' + i);
        fixture_path(path, g, 7, "a", ".log");
        fixture_write(path, "damaged", 7);
        assert_int_equal(warnings_begin(), 0);
        fixture_open(g);
        const char *heard = warnings_end();
        if (i < 10) {
            assert_non_null(strstr(heard, ".log is damaged: renamed to "));
            assert_true(fixture_exists(g, 7, "a", i ? ext : ".bad"));
            assert_false(fixture_exists(g, 7, "a", ".log"));
        } else {
            assert_non_null(strstr(heard, ".log is damaged and cannot be renamed: "));
            assert_true(fixture_exists(g, 7, "a", ".log"));
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_renames),    TEST(test_renames_of_two_users),  TEST(test_rename_cannot_be_finished),
        TEST(test_without_memory), TEST(test_rename_without_memory), TEST(test_calls_that_fail),
        TEST(test_damaged_head),
    };
    return cmocka_run_group_tests_name("session-open", tests, NULL, NULL);
}
