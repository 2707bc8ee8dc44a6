/* SPDX-License-Identifier: MIT */
/*
 * An acknowledged turn was synced before, in the right order. A failed sync is an error, after which nothing depends on
 * bytes that may be lost. fsync is wrapped to simulate a disk that fails: it records its calls, and fails on request.
 */
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

int __real_fsync(int fd);
int __wrap_fsync(int fd);

static struct {
    char said[16]; /* per call: f a file under a temporary name, l a log, u a uid's directory, d the store's */
    size_t n;
    int fail; /* this call, from 1; 0: none */
} syncs;

int __wrap_fsync(int fd)
{
    char link[64], path[512];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    assert_true(n > 0);
    path[n] = '\0';
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    char c = 'd';
    if (dot && dot > slash)
        c = strcmp(dot, ".tmp") == 0 ? 'f' : 'l';
    else if (slash && strcmp(slash, "/7") == 0)
        c = 'u';
    if (syncs.n < sizeof(syncs.said) - 1) syncs.said[syncs.n] = c;
    if (++syncs.n == (size_t)syncs.fail) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

static void listen_to(int fail)
{
    memset(&syncs, 0, sizeof(syncs));
    syncs.fail = fail;
}

static int setup(void **state)
{
    fixture_setup(state);
    listen_to(0);
    return 0;
}

static int teardown(void **state)
{
    listen_to(0);
    return fixture_teardown(state);
}

static struct session *beside(struct fixture *g, struct session *src, const char *to, bool rename)
{
    struct session *x = NULL;
    int r = (rename ? session_rename : session_fork)(g->store, src, to, strlen(to), &x);
    assert_int_equal(r, 0);
    return x;
}

static void test_what_is_synced(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    assert_string_equal(syncs.said, "dfu"); /* the uid's directory is new, then the file, then its name */
    listen_to(0);
    fixture_say(g, 7, "a", 2);
    assert_string_equal(syncs.said, "l");
    listen_to(0);
    fixture_say(g, 7, "b", 1);
    assert_string_equal(syncs.said, "fu");
    listen_to(0);
    struct session *b = fixture_acquire(g, 7, "b"), *c = beside(g, b, "c", true);
    assert_int_equal(session_move(c, b), 0);
    assert_string_equal(syncs.said, "fuu"); /* there under its new name before it goes from the old one */
    session_release(g->store, b);
    listen_to(0);
    assert_int_equal(session_erase(c), 0);
    assert_string_equal(syncs.said, "u");
    session_release(g->store, c);
    fixture_close(g);
    fixture_open(g);
    listen_to(0);
    fixture_say(g, 7, "a", 3);
    assert_string_equal(syncs.said, "lu"); /* a killed process may have left the name unsynced */
    fixture_say(g, 7, "a", 4);
    assert_string_equal(syncs.said, "lul");
}

/* Save turn 2 while sync number @fail fails; returns the result. In any case turn 1 is on disk, and the next save
 * writes turn 2. */
static int save_failing(struct fixture *g, int fail)
{
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 2);
    listen_to(fail);
    int r = session_save(x);
    listen_to(0);
    if (r < 0) {
        assert_int_equal(r, -EIO);
        assert_non_null(strstr(error_text(r), "'a'"));
        assert_false(x->log.saved);
    }
    session_release(g->store, x);
    return r;
}

static void check_turns(struct fixture *g, unsigned least, unsigned most)
{
    fixture_close(g);
    fixture_open(g);
    struct session *x = fixture_acquire(g, 7, "a");
    assert_in_range(fixture_last(x), least, most);
    assert_int_equal(x->content.n_messages, 2 * fixture_last(x));
    session_release(g->store, x);
}

static void test_a_sync_that_fails(void **state)
{
    struct fixture *g = *state;
    for (int again = 0; again < 2; again++) {
        struct session *x;
        fixture_say(g, 7, "a", 1);
        assert_int_equal(save_failing(g, 1), -EIO);
        if (again) { /* what is on the disk is not known: nothing is appended to it */
            assert_true(session_acquire_unsaved(g->store, &x));
            listen_to(0);
            assert_int_equal(session_save(x), 0);
            assert_string_equal(syncs.said, "fu");
            session_release(g->store, x);
        }
        check_turns(g, again ? 2 : 1, 2);
        x = fixture_acquire(g, 7, "a");
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
    }
}

static void test_a_first_save_that_fails(void **state)
{
    struct fixture *g = *state;
    static const int fail[] = {1, 1, 2}; /* of "dfu", then, as there is the directory, of "fu" */
    for (int i = 0; i < 3; i++) {
        struct session *x = fixture_acquire(g, 7, "a");
        fixture_turn(x, 1);
        listen_to(fail[i]);
        assert_int_equal(session_save(x), -EIO);
        listen_to(0);
        assert_int_equal(session_save(x), 0);
        assert_string_equal(syncs.said, i == 0 ? "dfu" : "fu"); /* each step that was not sure is done again */
        session_release(g->store, x);
        check_turns(g, 1, 1);
        x = fixture_acquire(g, 7, "a");
        assert_int_equal(session_erase(x), 0);
        session_release(g->store, x);
    }
}

static void test_a_rename_that_fails(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    for (int fail = 1; fail <= 4; fail++) {
        struct session *a = fixture_acquire(g, 7, "a"), *b = beside(g, a, "b", true);
        listen_to(fail);
        int r = session_move(b, a);
        listen_to(0);
        assert_int_equal(r, fail <= 2 ? -EIO : 0);
        struct session *now = r < 0 ? a : b, *other = r < 0 ? b : a;
        assert_int_equal(fixture_last(now), 1);
        assert_int_equal(other->content.n_messages, 0);
        session_release(g->store, other);
        if (r == 0) {
            a = beside(g, now, "a", true);
            assert_int_equal(session_move(a, now), 0);
            session_release(g->store, a);
        }
        session_release(g->store, now);
        assert_false(fixture_exists(g, 7, "b", ".log"));
        assert_false(fixture_exists(g, 7, "b", ".tmp"));
        check_turns(g, 1, 1);
    }
}

/* The removal of the old log was not synced, and a loss of power brings it back, after the new log was written anew. */
static void test_a_removal_that_is_lost(void **state)
{
    struct fixture *g = *state;
    char log[256], aside[272];
    fixture_say(g, 7, "a", 1);
    fixture_path(log, g, 7, "a", ".log");
    snprintf(aside, sizeof(aside), "%s.aside", log);
    assert_int_equal(link(log, aside), 0);
    struct session *a = fixture_acquire(g, 7, "a"), *b = beside(g, a, "b", true);
    listen_to(3);
    assert_int_equal(session_move(b, a), 0);
    listen_to(0);
    session_release(g->store, a);
    fixture_turn(b, 2);
    b->log.rewrite = true;
    assert_int_equal(session_save(b), 0);
    session_release(g->store, b);
    fixture_close(g);
    assert_int_equal(rename(aside, log), 0);
    fixture_open(g);
    assert_false(fixture_exists(g, 7, "a", ".log"));
    b = fixture_acquire(g, 7, "b");
    assert_int_equal(fixture_last(b), 2);
    session_release(g->store, b);
}

/* Links are synced before the log that names them gets its name; a failed fork leaves no file. */
static void test_a_fork(void **state)
{
    struct fixture *g = *state;
    static char text[30000];
    struct session *a = fixture_acquire(g, 7, "a"), *b = NULL;
    memset(text, 'x', sizeof(text));
    assert_int_equal(session_append(a, 1, text, sizeof(text), false), 0);
    fixture_turn(a, 1);
    assert_int_equal(session_save(a), 0);
    for (int fail = 3; fail >= 0; fail--) {
        b = beside(g, a, "b", false);
        listen_to(fail);
        int r = session_duplicate(b, a);
        assert_int_equal(r, fail ? -EIO : 0);
        assert_string_equal(syncs.said, fail == 1 ? "u" : fail == 2 ? "uf" : fail == 3 ? "ufuu" : "ufu");
        listen_to(0);
        if (r < 0) assert_non_null(strstr(error_text(r), "'a'"));
        session_release(g->store, b);
        assert_int_equal(fixture_exists(g, 7, "b", ".log"), r == 0);
        assert_int_equal(fixture_exists(g, 7, "b", ".b0"), r == 0);
        assert_false(fixture_exists(g, 7, "b", ".tmp"));
    }
    session_release(g->store, a);
    check_turns(g, 1, 1);
    b = fixture_acquire(g, 7, "b");
    assert_int_equal(b->content.n_messages, 2);
    session_release(g->store, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_synced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_sync_that_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_first_save_that_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_rename_that_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_removal_that_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_fork, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
