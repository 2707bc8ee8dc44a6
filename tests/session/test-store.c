/* SPDX-License-Identifier: MIT */
/* What a store finds and counts: files that crashes and other programs leave. Covers open.c, quota.c and share.c. */
#include "daemon/session/quota.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void fork_to(struct fixture *g, uid_t uid, const char *from, const char *to)
{
    struct session *x = fixture_acquire(g, uid, from), *y = NULL;
    assert_int_equal(session_fork(g->store, x, to, strlen(to), &y), 0);
    assert_int_equal(session_duplicate(y, x), 0);
    session_release(g->store, x);
    session_release(g->store, y);
}

static void erase(struct fixture *g, uid_t uid, const char *name)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, uid, name, strlen(name), false, &x), 0);
    assert_int_equal(session_erase(x), 0);
    session_release(g->store, x);
}

/* --- files --- */

/* Replace the log of @name by a copy of what it was. */
struct copy {
    char path[256], *bytes;
    size_t n;
};

static struct copy copy_log(const struct fixture *g, const char *name)
{
    struct copy c;
    fixture_path(c.path, g, 7, name, ".log");
    c.bytes = fixture_read(c.path, &c.n);
    return c;
}

static void rename_to(struct fixture *g, const char *from, const char *to)
{
    struct session *x = fixture_acquire(g, 7, from), *y = NULL;
    assert_int_equal(session_rename(g->store, x, to, strlen(to), &y), 0);
    assert_int_equal(session_move(y, x), 0);
    session_release(g->store, x);
    session_release(g->store, y);
}

/* Two renames one after the other, of which crashes undid both removals: the first two logs are removed, in whatever
 * order the directory has them. AddressSanitizer sees the use of a session that is removed already. */
static void test_two_interrupted_renames(void **state)
{
    struct fixture *g = *state;
    struct session *x = NULL;
    for (int i = 0; i < 12; i++) {
        char names[3][8];
        struct copy c[2];
        for (int k = 0; k < 3; k++) snprintf(names[k], sizeof(names[k]), "%d-%d", i, k);
        fixture_say(g, 7, names[0], 1);
        for (int k = 0; k < 2; k++) {
            c[k] = copy_log(g, names[k]);
            rename_to(g, names[k], names[k + 1]);
        }
        fixture_close(g);
        for (int k = 0; k < 2; k++) {
            fixture_write(c[k].path, c[k].bytes, c[k].n);
            free(c[k].bytes);
        }
        fixture_open(g);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(session_acquire(g->store, 7, names[k], strlen(names[k]), false, &x), -ENOENT);
            assert_false(fixture_exists(g, 7, names[k], ".log"));
        }
        x = fixture_acquire(g, 7, names[2]);
        assert_int_equal(fixture_last(x), 1);
        session_release(g->store, x);
        assert_int_equal(fixture_bytes(g, 7), fixture_disk(g, 7));
    }
}

/* A base without a log is removed at the start, but not if a *.bad file or a log that cannot be read may need it. Other
 * names stay, and are not counted. */
static void test_bases_without_a_log(void **state)
{
    static const char *const names[] = {"none", "bad", "bad-9", "unread"};
    struct fixture *g = *state;
    char path[256];
    fixture_say(g, 7, "a", 1);
    fixture_close(g);
    for (size_t i = 0; i < 4; i++) {
        fixture_path(path, g, 7, names[i], i % 2 ? ".b0" : ".b3");
        fixture_write(path, "base", 4);
    }
    fixture_path(path, g, 7, "bad", ".bad");
    fixture_write(path, "bad", 3);
    fixture_path(path, g, 7, "bad-9", "-9.bad");
    fixture_write(path, "bad", 3);
    fixture_path(path, g, 7, "unread", ".log");
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_open(g);
    assert_false(fixture_exists(g, 7, "none", ".b3"));
    assert_true(fixture_exists(g, 7, "bad", ".b0"));
    assert_true(fixture_exists(g, 7, "bad-9", ".b3"));
    assert_true(fixture_exists(g, 7, "unread", ".b0"));
    assert_int_equal(fixture_bytes(g, 7), fixture_disk(g, 7));
    const uint64_t before = fixture_bytes(g, 7);
    fixture_path(path, g, 7, "none", ".b4"); /* no base has this number */
    fixture_write(path, "mine", 4);
    fixture_reopen(g);
    assert_true(fixture_exists(g, 7, "none", ".b4"));
    assert_int_equal(fixture_bytes(g, 7), before);
}

/* A base of a log that has fewer is left by a crash. */
static void test_a_base_too_many(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say_much(g, 7, "a");
    fork_to(g, 7, "a", "b");
    assert_true(fixture_exists(g, 7, "b", ".b0"));
    fixture_path(path, g, 7, "b", ".b1");
    fixture_write(path, "left", 4);
    fixture_reopen(g);
    assert_true(fixture_exists(g, 7, "b", ".b0"));
    assert_false(fixture_exists(g, 7, "b", ".b1"));
    assert_int_equal(fixture_bytes(g, 7), fixture_disk(g, 7));
}

/* The link of a base that another program removed is not counted after the fork is removed, nor is a *.bad file. */
static void test_removed_files_do_not_count(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say_much(g, 7, "a");
    fork_to(g, 7, "a", "b");
    fixture_path(path, g, 7, "b", ".b0");
    assert_int_equal(unlink(path), 0);
    erase(g, 7, "b");
    assert_int_equal(fixture_bytes(g, 7), fixture_disk(g, 7));
    fixture_close(g);
    fixture_path(path, g, 7, "a", ".bad");
    fixture_write(path, "bad", 3);
    fixture_open(g);
    assert_int_equal(fixture_bytes(g, 7), fixture_disk(g, 7));
    erase(g, 7, "a");
    assert_int_equal(fixture_bytes(g, 7), 0);
    assert_int_equal(fixture_disk(g, 7), 0);
}

/* The same without a restart in between: each name of a file counts until it is removed. */
static void test_removed_names_do_not_count(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say_much(g, 7, "a");
    fork_to(g, 7, "a", "b");
    fixture_path(path, g, 7, "b", ".b0");
    assert_int_equal(unlink(path), 0);
    erase(g, 7, "b");
    erase(g, 7, "a");
    assert_int_equal(fixture_disk(g, 7), 0);
    assert_int_equal(fixture_bytes(g, 7), 0);
}

/* A fork that left memory keeps its bases: they are removed with it. */
static void test_an_unloaded_fork(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    fork_to(g, 7, "a", "b");
    fixture_say(g, 7, "b", 2);
    while (session_unload_idle(g->store)) continue;
    erase(g, 7, "a");
    struct session *x = fixture_acquire(g, 7, "b");
    assert_int_equal(fixture_last(x), 2);
    session_release(g->store, x);
    while (session_unload_idle(g->store)) continue;
    erase(g, 7, "b");
    assert_int_equal(fixture_disk(g, 7), 0);
    assert_int_equal(fixture_bytes(g, 7), 0);
}

/* Of a file that several sessions begin with, the longest beginning is kept. */
static void test_the_longest_part_is_kept(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    const uint64_t inode = x->log.inode, size = x->log.size, bytes = fixture_bytes(g, 7);
    assert_int_equal(session_quota_kept(x->owner, inode), 0);
    assert_int_equal(session_quota_add(x->owner, inode, size, 90), 0);
    assert_int_equal(session_quota_add(x->owner, inode, size, 50), 0);
    assert_int_equal(session_quota_kept(x->owner, inode), 90);
    assert_int_equal(fixture_bytes(g, 7), bytes);
    session_quota_remove(x->owner, inode);
    session_quota_remove(x->owner, inode);
    assert_int_equal(fixture_bytes(g, 7), bytes);
    session_release(g->store, x);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_two_interrupted_renames),    TEST(test_bases_without_a_log),        TEST(test_a_base_too_many),
        TEST(test_removed_files_do_not_count), TEST(test_removed_names_do_not_count), TEST(test_an_unloaded_fork),
        TEST(test_the_longest_part_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
