/* SPDX-License-Identifier: MIT */
/*
 * Forks when a call fails, when the parent is damaged or not saved, and which logs they share: no turn is lost, and the
 * bytes that count are those on disk.
 */
#include "daemon/session/quota.h"
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
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

static void assert_last(struct fixture *g, const char *name, unsigned last, size_t messages)
{
    struct session *x = fixture_acquire(g, 7, name);
    assert_int_equal(fixture_last(x), last);
    assert_int_equal(session_content(x)->n_messages, messages);
    session_release(g->store, x);
}

/* What only memory has is in the fork, too. */
static void test_fork_of_unsaved(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    calls_fail(CALL_FSYNC, 0, EIO);
    assert_int_equal(save_turn(g, "a", 2), -EIO);
    calls_end();
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    fixture_reopen(g);
    struct session *x = fixture_acquire(g, 7, "b");
    assert_int_equal(session_content(x)->n_messages, 4);
    session_release(g->store, x);
}

/* A log that was not read in this process may be damaged: a fork does not share it unseen. */
static void test_fork_of_damaged(void **state)
{
    struct fixture *g = *state;
    char path[256];
    size_t n;
    fixture_say_much(g, 7, "a");
    const uint64_t one = size_of(g, "a");
    fixture_say(g, 7, "a", 2);
    fixture_close(g);
    fixture_path(path, g, 7, "a", ".log");
    char *log = fixture_read(path, &n);
    log[one + 100] ^= 1;
    fixture_write(path, log, n);
    free(log);
    fixture_open(g);
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    assert_true(fixture_exists(g, 7, "a", ".bad"));
    assert_last(g, "b", 0, 2);
    fixture_reopen(g);
    assert_last(g, "b", 0, 2);
    assert_false(fixture_exists(g, 7, "b", ".bad"));
}

static void test_fork_that_fails(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say_much(g, 7, "a");
    struct session *x = fixture_acquire(g, 7, "a"), *y = NULL;
    assert_int_equal(session_fork(g->store, x, "b", 1, &y), 0);
    calls_fail(CALL_WRITE, 0, ENOSPC);
    assert_int_equal(session_duplicate(y, x), -ENOSPC);
    assert_true(calls_end());
    count_is_right(g);
    fixture_turn(y, 3); /* it is empty, and can be used */
    assert_int_equal(session_save(y), 0);
    assert_false(fixture_exists(g, 7, "b", ".b0"));
    session_release(g->store, x);
    session_release(g->store, y);
    fixture_reopen(g);
    assert_last(g, "b", 3, 2);
    fixture_say(g, 7, "c", 1); /* too short to be shared */
    fixture_reopen(g);
    fixture_path(path, g, 7, "c", ".log");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fixture_fork(g, "c", "d"), -ENOENT);
    fixture_say(g, 7, "e", 1);
    calls_space(0, 1 << 30);
    assert_int_equal(fixture_fork(g, "e", "d"), -ENOSPC);
    calls_end();
    struct session_store_config c = fixture_config(g);
    c.disk_max_per_uid = fixture_bytes(g, 7); /* no byte more for this user */
    session_store_limit(g->store, &c);
    assert_int_equal(fixture_fork(g, "e", "d"), -EDQUOT);
    assert_false(fixture_exists(g, 7, "d", ".log"));
    struct session *out = NULL;
    x = fixture_acquire(g, 7, "e");
    assert_int_equal(session_fork(g->store, x, "b", 1, &out), -EEXIST);
    assert_null(out);
    session_release(g->store, x);
}

/* Not all links of a fork can be made, or not at once: those of the parent count as before. */
static void test_fork_of_fork_without_links(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    for (unsigned n = 0; n < 2; n++) {
        fixture_say(g, 7, "b", 2 + n);
        calls_fail(CALL_LINK, n, EMLINK);
        assert_int_equal(fixture_fork(g, "b", n ? "d" : "c"), 0);
        assert_true(calls_end());
        count_is_right(g);
    }
    assert_int_equal(fixture_erase(g, "a"), 0);
    assert_int_equal(fixture_erase(g, "b"), 0);
    count_is_right(g);
    fixture_reopen(g);
    assert_last(g, "c", 0, 4);
    assert_last(g, "d", 0, 6);
}

/* A copy that shares its parent's log: the next turn goes behind its own. */
static void test_copy_is_appended_to(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    struct session *x = fixture_acquire(g, 7, "a"), *y = NULL;
    assert_int_equal(session_fork(g->store, x, "b", 1, &y), 0);
    assert_int_equal(session_copy(y, x), 0);
    fixture_turn(y, 2);
    assert_int_equal(session_save(y), 0);
    assert_true(session_saved(y));
    const uint64_t inode = fixture_inode(g, "b", ".log");
    fixture_turn(y, 3);
    assert_int_equal(session_save(y), 0);
    assert_int_equal(fixture_inode(g, "b", ".log"), inode);
    assert_true(fixture_exists(g, 7, "b", ".b0"));
    session_release(g->store, y);
    assert_int_equal(session_fork(g->store, x, "c", 1, &y), 0);
    assert_int_equal(session_copy(y, x), 0);
    fixture_turn(y, 2);
    calls_fail(CALL_FSYNC, 2, EIO); /* links, file, its name */
    assert_int_equal(session_save(y), -EIO);
    assert_true(calls_end());
    assert_false(session_saved(y));
    const uint64_t unsure = fixture_inode(g, "c", ".log");
    assert_int_equal(session_save(y), 0); /* the name is not sure: a new file */
    assert_true(fixture_inode(g, "c", ".log") != unsure);
    assert_true(session_saved(y));
    session_release(g->store, y);
    session_release(g->store, x);
    count_is_right(g);
}

/* Logs of 16 KiB are shared, shorter ones copied. */
static void test_shortest_that_is_shared(void **state)
{
    struct fixture *g = *state;
    char *text = calloc(1, 20000), name[8];
    size_t len = 15000;
    for (int i = 0; i < 3; i++) { /* to learn how many bytes there are beside the text, then exact ones */
        snprintf(name, sizeof(name), "s%d", i);
        struct session *x = fixture_acquire(g, 7, name);
        assert_int_equal(session_append(x, 1, text, len, false), 0);
        assert_int_equal(session_save(x), 0);
        session_release(g->store, x);
        const uint64_t size = size_of(g, name);
        if (i) assert_int_equal(size, i == 1 ? 16384 : 16383);
        char to[8];
        snprintf(to, sizeof(to), "f%d", i);
        assert_int_equal(fixture_fork(g, name, to), 0);
        assert_int_equal(fixture_exists(g, 7, to, ".b0"), i == 1);
        len = i ? len - 1 : len + 16384 - size;
    }
    free(text);
}

/* A fork that was written anew and became short has no bases any more. */
static void test_former_fork(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    assert_int_equal(fixture_fork(g, "a", "b"), 0);
    struct session *x = fixture_acquire(g, 7, "b");
    session_truncate(x, 0);
    x->log.rewrite = true;
    session_release(g->store, x);
    assert_int_equal(save_turn(g, "b", 2), 0);
    assert_false(fixture_exists(g, 7, "b", ".b0"));
    assert_int_equal(fixture_fork(g, "b", "c"), 0);
    assert_false(fixture_exists(g, 7, "c", ".b0"));
    fixture_reopen(g);
    assert_last(g, "c", 0, 4);
    count_is_right(g);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fork_of_unsaved),     TEST(test_fork_of_damaged),
        TEST(test_fork_that_fails),     TEST(test_fork_of_fork_without_links),
        TEST(test_copy_is_appended_to), TEST(test_shortest_that_is_shared),
        TEST(test_former_fork),
    };
    return cmocka_run_group_tests_name("session-fork-errors", tests, NULL, NULL);
}
