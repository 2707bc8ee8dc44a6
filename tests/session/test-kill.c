/* SPDX-License-Identifier: MIT */
/*
 * kill -9 at any time. A child works on sessions and reports each acknowledged step through a pipe before the next; the
 * parent kills it at a random moment and checks the files. This tests the files as the kernel has them in memory;
 * test-sync.c tests that a save is an fsync.
 */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { KILLS = 220, KILLS_NAMES = 200 };

static int setup(void **state)
{
    srandom(1);
    return fixture_setup(state);
}

/* Run @work in a child until it is killed. Returns the number it reported last, or @last. */
static unsigned killed(struct fixture *g, void (*work)(struct fixture *g, unsigned last, int fd), unsigned last)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    fixture_close(g);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pipes[0]);
        fixture_open(g);
        work(g, last, pipes[1]);
        _exit(0);
    }
    close(pipes[1]);
    unsigned said;
    /* Not before it has begun, and then at any time within some turns. */
    assert_int_equal(read(pipes[0], &said, sizeof(said)), sizeof(said));
    struct timespec t = {.tv_nsec = random() % 3000000};
    nanosleep(&t, NULL);
    kill(pid, SIGKILL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read(pipes[0], &said, sizeof(said)) == (ssize_t)sizeof(said)) last = said;
    close(pipes[0]);
    fixture_open(g);
    return last;
}

static void say(int fd, unsigned n)
{
    if (write(fd, &n, sizeof(n)) != (ssize_t)sizeof(n)) _exit(1);
}

/* Turns without end; sometimes the history is truncated, so that logs are rewritten as well. */
static void turns(struct fixture *g, unsigned last, int fd)
{
    say(fd, last);
    for (unsigned n = last + 1;; n++) {
        struct session *x = fixture_acquire(g, 7, "a");
        static const char text[30000];
        if (n % 5 == 0) session_truncate(x, 0);
        if (n % 7 == 0) session_drop_messages(x, 0);
        fixture_turn(x, n);
        if (n % 3 == 0 && session_append(x, 1, text, (size_t)random() % sizeof(text), false) < 0) _exit(1);
        if (session_save(x) < 0) _exit(1);
        session_release(g->store, x);
        say(fd, n);
        if (n % 11 == 0) session_unload_idle(g->store);
    }
}

static void test_no_acknowledged_turn_is_lost(void **state)
{
    struct fixture *g = *state;
    unsigned last = 0, more = 0;
    for (int i = 0; i < KILLS; i++) {
        unsigned acknowledged = killed(g, turns, last);
        struct session *x = fixture_acquire(g, 7, "a");
        last = fixture_last(x);
        if (last != acknowledged) {
            assert_int_equal(last, acknowledged + 1);
            more++;
        }
        if (last) { /* whole: its last turn is all there, and so are the outcomes before */
            char want[64];
            snprintf(want, sizeof(want), "question %u", last);
            assert_string_equal(x->content.messages[x->content.n_messages - 2].content.data, want);
            for (unsigned n = last; n > 0 && n + SESSION_OUTCOMES > last; n--) {
                snprintf(want, sizeof(want), "turn-%u", n);
                assert_non_null(session_find_outcome(x, want));
            }
        }
        session_release(g->store, x);
        assert_false(fixture_exists(g, 7, "a", ".bad"));
        assert_false(fixture_exists(g, 7, "a", ".tmp"));
    }
    print_message("# %u turns, %u of them whole but not acknowledged\n", last, more);
    assert_true(last > KILLS);
}

static void place(char name[16], unsigned n)
{
    snprintf(name, 16, "at-%u", n);
}

/* Rename the session again and again; every third time a fork of it gets the first name. */
static void names(struct fixture *g, unsigned last, int fd)
{
    char from[16], to[16];
    say(fd, last);
    for (unsigned n = last;; n++) {
        place(from, n);
        place(to, n + 1);
        struct session *x = fixture_acquire(g, 7, from), *y = NULL, *z = NULL;
        if (session_rename(g->store, x, to, strlen(to), &y) < 0 || session_move(y, x) < 0) _exit(1);
        session_release(g->store, x);
        say(fd, n + 1);
        if (session_fork(g->store, y, "copy", 4, &z) < 0 || session_copy(z, y) < 0 || session_save(z) < 0) _exit(1);
        if (session_erase(z) < 0) _exit(1);
        session_release(g->store, z);
        session_release(g->store, y);
    }
}

static void test_a_session_has_one_name(void **state)
{
    struct fixture *g = *state;
    unsigned last = 0;
    fixture_say(g, 7, "at-0", 1);
    struct session *x = fixture_acquire(g, 7, "at-0");
    char *want = fixture_dump(x);
    session_release(g->store, x);
    for (int i = 0; i < KILLS_NAMES; i++) {
        unsigned acknowledged = killed(g, names, last);
        struct session_info *list;
        size_t n, places = 0;
        assert_int_equal(session_list(g->store, 7, &list, &n), 0);
        for (size_t j = 0; j < n; j++)
            if (strcmp(list[j].name->data, "copy") != 0) {
                places++;
                last = (unsigned)strtoul(list[j].name->data + 3, NULL, 10);
            }
        free(list);
        assert_int_equal(places, 1);
        assert_in_range(last, acknowledged, acknowledged + 1);
        char name[16];
        place(name, last);
        x = fixture_acquire(g, 7, name);
        char *have = fixture_dump(x);
        assert_string_equal(have, want);
        free(have);
        session_release(g->store, x);
        if (session_acquire(g->store, 7, "copy", 4, false, &x) == 0) { /* whole, or not at all */
            assert_int_equal(session_load(x), 0);
            assert_int_equal(x->content.n_messages, 2);
            assert_int_equal(x->content.n_ids, 20);
            assert_int_equal(session_erase(x), 0);
            session_release(g->store, x);
        }
    }
    print_message("# %u renames\n", last);
    assert_true(last > KILLS_NAMES / 2);
    free(want);
}

/* Turns in a parent, forks of it with turns of their own, the fork renamed, and the parent removed. */
static void forks(struct fixture *g, unsigned last, int fd)
{
    static char text[20000];
    struct session *p, *f = NULL, *h = NULL;
    memset(text, 'x', sizeof(text));
    say(fd, last);
    for (unsigned n = last + 1;; n++) {
        p = fixture_acquire(g, 7, "parent");
        if (n % 6 == 0) session_truncate(p, 0);
        if (session_append(p, 1, text, sizeof(text), false) < 0) _exit(1);
        fixture_turn(p, n);
        if (session_save(p) < 0) _exit(1);
        say(fd, n);
        if (session_acquire(g->store, 7, "fork", 4, false, &f) == 0) {
            if (session_erase(f) < 0) _exit(1);
            session_release(g->store, f);
        }
        if (session_fork(g->store, p, "fork", 4, &f) < 0 || session_duplicate(f, p) < 0 || session_load(f) < 0)
            _exit(1);
        fixture_turn(f, n);
        if (session_save(f) < 0) _exit(1);
        if (session_acquire(g->store, 7, "here", 4, false, &h) == 0) {
            if (session_erase(h) < 0) _exit(1);
            session_release(g->store, h);
        }
        if (session_rename(g->store, f, "here", 4, &h) < 0 || session_move(h, f) < 0) _exit(1);
        session_release(g->store, f);
        session_release(g->store, h);
        session_release(g->store, p);
    }
}

/* The parent has all its turns, every fork is complete, and every link is named by a log. */
static void test_forks_are_whole(void **state)
{
    struct fixture *g = *state;
    unsigned last = 0, found = 0;
    for (int i = 0; i < KILLS; i++) {
        unsigned acknowledged = killed(g, forks, last);
        struct session *x = fixture_acquire(g, 7, "parent");
        last = fixture_last(x);
        assert_in_range(last, acknowledged, acknowledged + 1);
        session_release(g->store, x);
        static const char *const names[] = {"fork", "here"};
        for (int j = 0; j < 2; j++) {
            bool there = fixture_exists(g, 7, names[j], ".log");
            assert_int_equal(session_acquire(g->store, 7, names[j], 4, false, &x), there ? 0 : -ENOENT);
            if (!there) {
                assert_false(fixture_exists(g, 7, names[j], ".b0"));
                continue;
            }
            found++;
            assert_int_equal(session_load(x), 0);
            assert_true(x->content.n_messages >= 2 && x->content.n_messages % 2 == 0);
            for (uint32_t b = 0; b < x->log.n_bases; b++) assert_true(x->log.bases[b].inode);
            assert_false(fixture_exists(g, 7, names[j], ".bad"));
            session_release(g->store, x);
        }
        uint64_t bytes, max;
        session_disk(g->store, 7, &bytes, &max);
        assert_true(bytes == fixture_disk(g, 7));
    }
    print_message("# %u turns, %u forks found\n", last, found);
    assert_true(last > KILLS / 10 && found > KILLS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_acknowledged_turn_is_lost, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_session_has_one_name, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_forks_are_whole, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
