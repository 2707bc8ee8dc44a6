/* SPDX-License-Identifier: MIT */
/* Another program changes logs and their bases, but not their sizes, or replaces them by those of other sessions: each
 * change is noticed before a turn depends on it. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG = 20000 /* bytes of text, so that a fork shares the log */ };

/* Two turns, with LONG times the letter in the first. */
static void two_turns(struct fixture *g, const char *name, char letter)
{
    char *text = malloc(LONG);
    memset(text, letter, LONG);
    struct session *x = fixture_acquire(g, 7, name);
    assert_int_equal(session_append(x, 5, text, LONG, false), 0);
    session_release(g->store, x);
    fixture_say(g, 7, name, 1);
    fixture_say(g, 7, name, 2);
    free(text);
}

static int fork_to_b(struct fixture *g)
{
    struct session *x = fixture_acquire(g, 7, "a"), *y = NULL;
    assert_int_equal(session_fork(g->store, x, "b", 1, &y), 0);
    const int r = session_duplicate(y, x);
    session_release(g->store, y);
    session_release(g->store, x);
    return r;
}

/* The turns of a session after a restart, and the letter of its text. */
static unsigned turns_of(struct fixture *g, const char *name, char *letter)
{
    fixture_close(g);
    fixture_open(g);
    struct session *x = NULL;
    if (session_acquire(g->store, 7, name, 1, false, &x) < 0) return 0;
    const unsigned n = session_load(x) == 0 ? (unsigned)x->content.n_messages / 2 : 0;
    *letter = n ? x->content.text.data[0] : 0;
    session_release(g->store, x);
    return n;
}

static void replace(const struct fixture *g, const char *name, const char *ext, const char *by)
{
    char to[256], from[256];
    size_t n, had;
    fixture_path(from, g, 7, by, ".log");
    fixture_path(to, g, 7, name, ext);
    char *old = fixture_read(to, &had), *new = fixture_read(from, &n);
    assert_int_equal(n, had);
    assert_int_equal(unlink(to), 0);
    fixture_write(to, new, n);
    free(old);
    free(new);
}

/* The base of a fork becomes the log of another session: the log of the fork is kept as *.bad. */
static void test_base_of_another(void **state)
{
    struct fixture *g = *state;
    char letter;
    two_turns(g, "a", 'a');
    two_turns(g, "c", 'c');
    assert_int_equal(fork_to_b(g), 0);
    assert_true(fixture_exists(g, 7, "b", ".b0"));
    replace(g, "b", ".b0", "c");
    (void)turns_of(g, "b", &letter);
    assert_true(fixture_exists(g, 7, "b", ".bad"));
    assert_true(turns_of(g, "a", &letter) == 2 && letter == 'a');
}

/* One byte of the base's second turn changes: the first is kept. */
static void test_damaged_base(void **state)
{
    struct fixture *g = *state;
    char path[256], letter;
    size_t n;
    two_turns(g, "a", 'a');
    assert_int_equal(fork_to_b(g), 0);
    fixture_path(path, g, 7, "b", ".b0");
    char *base = fixture_read(path, &n);
    base[n - 100] ^= 1;
    assert_int_equal(unlink(path), 0);
    fixture_write(path, base, n);
    free(base);
    assert_true(turns_of(g, "b", &letter) == 1 && letter == 'a');
    assert_true(fixture_exists(g, 7, "b", ".bad"));
    assert_true(turns_of(g, "b", &letter) == 1 && letter == 'a');
}

/* The log of a session that is forked has become another's, or shorter: it is not linked, and the fork has what the
 * session has in memory. */
static void test_fork_of_a_changed_log(void **state)
{
    struct fixture *g = *state;
    for (int cut = 0; cut < 2; cut++) {
        char path[256], letter;
        two_turns(g, "a", 'a');
        two_turns(g, "c", 'c');
        fixture_path(path, g, 7, "a", ".log");
        if (cut)
            assert_int_equal(truncate(path, 20500), 0);
        else
            replace(g, "a", ".log", "c");
        assert_int_equal(fork_to_b(g), 0);
        assert_true(turns_of(g, "b", &letter) == 2 && letter == 'a');
        assert_false(fixture_exists(g, 7, "b", ".bad"));
        fixture_path(path, g, 7, "a", "");
        *strrchr(path, '/') = '\0';
        fixture_close(g);
        fixture_clear(path);
        fixture_open(g);
    }
}

/* The end of a log changes, or bytes come behind it: the next turn is not appended there. */
static void test_changed_end(void **state)
{
    struct fixture *g = *state;
    for (int behind = 0; behind < 2; behind++) {
        char path[256], letter;
        size_t n;
        two_turns(g, "a", 'a');
        fixture_path(path, g, 7, "a", ".log");
        char *log = fixture_read(path, &n);
        log = realloc(log, n + 5000);
        memset(log + n, 'x', 5000);
        if (!behind) log[n - 1] ^= 1;
        fixture_write(path, log, behind ? n + 5000 : n);
        free(log);
        fixture_say(g, 7, "a", 3);
        assert_true(fixture_exists(g, 7, "a", ".bad"));
        assert_true(turns_of(g, "a", &letter) == 3 && letter == 'a');
        fixture_path(path, g, 7, "a", "");
        *strrchr(path, '/') = '\0';
        fixture_close(g);
        fixture_clear(path);
        fixture_open(g);
    }
}

/* A log is kept as *.bad with its base. The base no longer counts for the new log, which is not written anew for it. */
static void test_base_of_bad(void **state)
{
    struct fixture *g = *state;
    char path[256], text[LONG];
    size_t n;
    memset(text, 'a', sizeof(text));
    struct session *x = fixture_acquire(g, 7, "a");
    for (int i = 0; i < 20; i++) assert_int_equal(session_append(x, 5, text, sizeof(text), false), 0);
    session_release(g->store, x);
    fixture_say(g, 7, "a", 1);
    assert_int_equal(fork_to_b(g), 0);
    assert_int_equal(fixture_erase(g, "a"), 0); /* the base is b's alone */
    x = fixture_acquire(g, 7, "b");
    fixture_path(path, g, 7, "b", ".log");
    char *log = fixture_read(path, &n);
    log[n - 1] ^= 1;
    fixture_write(path, log, n);
    free(log);
    fixture_turn(x, 2);
    assert_int_equal(session_save(x), 0);
    assert_true(fixture_exists(g, 7, "b", ".bad") && fixture_exists(g, 7, "b", ".b0"));
    session_clear(x);
    uint64_t inode = 0;
    for (unsigned turn = 3; turn < 6; turn++) {
        fixture_turn(x, turn);
        assert_int_equal(session_save(x), 0);
        if (turn > 3) assert_true(fixture_inode(g, "b", ".log") == inode);
        inode = fixture_inode(g, "b", ".log");
    }
    session_release(g->store, x);
}

/* A log that somebody removes is written anew. */
static void test_removed(void **state)
{
    struct fixture *g = *state;
    char path[256], letter;
    two_turns(g, "a", 'a');
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(unlink(path), 0);
    fixture_say(g, 7, "a", 3);
    assert_true(turns_of(g, "a", &letter) == 3 && letter == 'a');
    assert_false(fixture_exists(g, 7, "a", ".bad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_base_of_another, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_damaged_base, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fork_of_a_changed_log, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_changed_end, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_base_of_bad, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_removed, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
