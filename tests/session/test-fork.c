/* SPDX-License-Identifier: MIT */
/*
 * Forks that share the logs of their parents: their bytes on disk, and that the content of a fork does not depend on
 * later changes to its parent. linkat is wrapped to simulate a disk without hard links.
 */
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
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

int __real_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);

static int link_error, links_left;

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (link_error && links_left-- <= 0) {
        errno = link_error;
        return -1;
    }
    return __real_linkat(from_dir, from, to_dir, to, flags);
}

static int setup(void **state)
{
    link_error = links_left = 0;
    return fixture_setup(state);
}

static void reopen(struct fixture *g)
{
    struct session_store_config c = fixture_config(g);
    fixture_close(g);
    assert_int_equal(session_store_open(&g->store, 64 << 20, &c), 0);
}

/* Turn @n, with @bytes more text. */
static void say(struct fixture *g, const char *name, unsigned n, size_t bytes)
{
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++) text[i] = (char)('a' + (n + i) % 23);
    struct session *x = fixture_acquire(g, 7, name);
    assert_int_equal(session_append(x, 5, text, bytes, false), 0);
    fixture_turn(x, n);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    free(text);
}

static char *dump(struct fixture *g, const char *name)
{
    struct session *x = fixture_acquire(g, 7, name);
    char *text = fixture_dump(x);
    session_release(g->store, x);
    return text;
}

static void assert_dump(struct fixture *g, const char *name, const char *want)
{
    char *have = dump(g, name);
    assert_string_equal(have, want);
    free(have);
}

static int try_fork(struct fixture *g, const char *from, const char *to)
{
    struct session *x = NULL, *y = NULL;
    assert_int_equal(session_acquire(g->store, 7, from, strlen(from), false, &x), 0);
    assert_int_equal(session_fork(g->store, x, to, strlen(to), &y), 0);
    int r = session_duplicate(y, x);
    session_release(g->store, x);
    session_release(g->store, y);
    return r;
}

static void fork_to(struct fixture *g, const char *from, const char *to)
{
    assert_int_equal(try_fork(g, from, to), 0);
}

static void rename_to(struct fixture *g, const char *from, const char *to)
{
    struct session *x = fixture_acquire(g, 7, from), *y = NULL;
    assert_int_equal(session_rename(g->store, x, to, strlen(to), &y), 0);
    assert_int_equal(session_move(y, x), 0);
    session_release(g->store, x);
    session_release(g->store, y);
}

static void erase(struct fixture *g, const char *name)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), false, &x), 0);
    assert_int_equal(session_erase(x), 0);
    session_release(g->store, x);
}

static uint64_t bytes_of(const struct fixture *g)
{
    uint64_t bytes, max;
    session_disk(g->store, 7, &bytes, &max);
    assert_true(bytes == fixture_disk(g, 7)); /* the count equals the files */
    return bytes;
}

/* The dump that a fork of @name must have: outcomes are not forked. */
static char *dump_of_fork(struct fixture *g, const char *name)
{
    struct session *x = fixture_acquire(g, 7, name), *y = NULL;
    assert_int_equal(session_fork(g->store, x, "copied in memory", 16, &y), 0);
    assert_int_equal(session_copy(y, x), 0);
    char *text = fixture_dump(y);
    session_revert(y);
    session_release(g->store, y);
    session_release(g->store, x);
    return text;
}

/* Sessions that a turn has, but has not loaded yet, count with their memory, so that not all forks of a large one are
 * loaded at once. */
static void test_memory_of_forks(void **state)
{
    struct fixture *g = *state;
    struct session *x[20] = {0};
    char name[16];
    int n = 0, r;
    reopen(g);
    say(g, "parent", 1, 10 << 20);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        fork_to(g, "parent", name);
    }
    for (;; n++) {
        snprintf(name, sizeof(name), "f%d", n);
        r = session_acquire(g->store, 7, name, strlen(name), true, &x[n]);
        if (r < 0) break;
    }
    assert_int_equal(r, -EDQUOT);
    assert_non_null(strstr(error_text(r), "the limit is 64M"));
    assert_int_equal(session_fits(g->store, x[0], 63 << 20), -EDQUOT);
    assert_non_null(strstr(error_text(-EDQUOT), "the messages have 63M, and your 21 sessions hold "));
    assert_in_range(n, 2, 6);
    for (int i = 0; i < n; i++) assert_int_equal(session_load(x[i]), 0);
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), true, &x[n]), -EDQUOT);
    for (int i = 0; i < n; i++) session_release(g->store, x[i]);
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), true, &x[n]), 0); /* others are unloaded */
    assert_int_equal(session_fits(g->store, x[n], 30 << 20), 0);
    session_release(g->store, x[n]);
}

static void test_many_forks_cost_little(void **state)
{
    struct fixture *g = *state;
    struct session_info *list;
    size_t n, loaded = 0;
    reopen(g);
    say(g, "parent", 1, 4400000);
    uint64_t before = bytes_of(g);
    char *want = dump_of_fork(g, "parent");
    while (session_unload_idle(g->store)) {
    }
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", i);
        fork_to(g, "parent", name);
    }
    print_message("# 150 forks of %llu bytes take %llu\n", (unsigned long long)before,
                  (unsigned long long)(bytes_of(g) - before));
    assert_true(bytes_of(g) - before < 1 << 20);
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    assert_int_equal(n, 151);
    for (size_t i = 0; i < n; i++) {
        loaded += list[i].loaded;
        assert_true(list[i].shared == before);
        assert_true(list[i].ids == 21 && list[i].messages == 2 && list[i].bytes > 4400000);
        assert_int_equal(list[i].disk, strcmp(list[i].name->data, "parent") == 0 ? 0 : 4096);
    }
    assert_int_equal(loaded, 0); /* nor was anything read for it */
    free(list);
    uint64_t all = bytes_of(g);
    reopen(g);
    assert_true(bytes_of(g) == all);
    assert_dump(g, "f0", want);
    assert_dump(g, "f149", want);
    erase(g, "parent"); /* is charged as long as one fork has it */
    assert_true(bytes_of(g) == all);
    for (int i = 0; i < 149; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", i);
        erase(g, name);
    }
    assert_true(bytes_of(g) == before + 4096);
    assert_dump(g, "f149", want);
    erase(g, "f149");
    assert_int_equal(bytes_of(g), 0);
    free(want);
}

static void rewrite(struct fixture *g, const char *name)
{
    struct session *x = fixture_acquire(g, 7, name);
    x->log.rewrite = true;
    fixture_turn(x, 9);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
}

static void damage(struct fixture *g, const char *name)
{
    char path[256];
    size_t n;
    fixture_path(path, g, 7, name, ".log");
    char *log = fixture_read(path, &n);
    log[n - 20] ^= 1;
    assert_int_equal(unlink(path), 0); /* another file: the fork's stays as it is */
    fixture_write(path, log, n);
    free(log);
}

/* A fork keeps its content and can be continued when its parent is changed, renamed or removed. */
static void test_the_parent_changes(void **state)
{
    struct fixture *g = *state;
    for (int way = 0; way < 6; way++) {
        say(g, "p", 1, 30000);
        say(g, "p", 2, 10);
        char *want = dump_of_fork(g, "p");
        fork_to(g, "p", "f");
        assert_true(fixture_exists(g, 7, "f", ".b0"));
        if (way == 0) say(g, "p", 3, 5000);
        if (way == 1) erase(g, "p");
        if (way == 2) rename_to(g, "p", "q");
        if (way == 3) rewrite(g, "p");
        if (way == 4) damage(g, "p");
        if (way == 5) { /* its history is cut, and its log written anew in time */
            for (unsigned i = 0; i < 20; i++) {
                struct session *x = fixture_acquire(g, 7, "p");
                session_truncate(x, 0);
                session_drop_messages(x, 0);
                session_release(g->store, x);
                say(g, "p", i + 3, 30000);
            }
        }
        for (int i = 0; i < 2; i++) {
            assert_dump(g, "f", want);
            reopen(g);
        }
        free(want);
        if (way != 4) bytes_of(g);
        say(g, "f", 3, 100);
        want = dump(g, "f");
        reopen(g);
        assert_dump(g, "f", want);
        free(want);
        assert_false(fixture_exists(g, 7, "f", ".bad"));
        if (way != 1 && way != 2) {
            struct session *x = fixture_acquire(g, 7, "p");
            assert_int_equal(fixture_last(x), way == 0 ? 3 : way == 3 ? 9 : way == 4 ? 1 : way == 5 ? 22 : 2);
            session_release(g->store, x);
            erase(g, "p");
        }
        if (way == 2) erase(g, "q");
        erase(g, "f");
        assert_int_equal(bytes_of(g), 0);
    }
}

/* A turn in a new fork: only the turn is written, and the history that it drops is dropped. */
static void test_a_fork_with_a_turn(void **state)
{
    struct fixture *g = *state;
    for (int cut = 0; cut < 2; cut++) {
        say(g, "p", 1, 30000);
        say(g, "p", 2, 10);
        struct session *p = fixture_acquire(g, 7, "p"), *f = NULL;
        assert_int_equal(session_fork(g->store, p, "f", 1, &f), 0);
        assert_int_equal(session_copy(f, p), 0);
        session_release(g->store, p);
        if (cut) session_truncate(f, 10);
        if (cut) session_drop_messages(f, 1);
        fixture_turn(f, 3);
        say(g, "p", 4, 10); /* the parent is continued meanwhile */
        assert_int_equal(session_save(f), 0);
        assert_true(f->log.size < 8000);
        char *want = fixture_dump(f);
        assert_null(session_find_outcome(f, "turn-2"));
        session_release(g->store, f);
        reopen(g);
        assert_dump(g, "f", want);
        free(want);
        erase(g, "p");
        erase(g, "f");
    }
}

/* Forks of forks, deeper than SESSION_BASES. */
static void test_deep(void **state)
{
    struct fixture *g = *state;
    char *want[8];
    for (unsigned i = 0; i < 8; i++) {
        char name[8], next[8];
        snprintf(name, sizeof(name), "d%u", i);
        snprintf(next, sizeof(next), "d%u", i + 1);
        say(g, name, i + 1, i ? 100 : 30000);
        want[i] = dump(g, name);
        if (i < 7) fork_to(g, name, next);
        assert_int_equal(fixture_exists(g, 7, name, ".b0"), i % 5 != 0);
        assert_int_equal(fixture_exists(g, 7, name, ".b3"), i % 5 == 4);
    }
    for (int again = 0; again < 2; again++) {
        for (unsigned i = 0; i < 8; i++) {
            char name[8];
            snprintf(name, sizeof(name), "d%u", i);
            if (again && i == 2) continue;
            assert_dump(g, name, want[i]);
        }
        if (!again) erase(g, "d2");
        bytes_of(g);
        reopen(g);
    }
    for (unsigned i = 0; i < 8; i++) free(want[i]);
}

static void test_renames(void **state)
{
    struct fixture *g = *state;
    say(g, "n0", 1, 30000);
    char *want = dump(g, "n0");
    for (unsigned i = 0; i < 12; i++) {
        char name[8], next[8];
        snprintf(name, sizeof(name), "n%u", i);
        snprintf(next, sizeof(next), "n%u", i + 1);
        rename_to(g, name, next);
        if (i % 3 == 0) reopen(g);
        assert_dump(g, next, want); /* with its outcomes */
        assert_true(bytes_of(g) < 150000);
        assert_false(fixture_exists(g, 7, name, ".log") || fixture_exists(g, 7, name, ".b0"));
    }
    free(want);
}

static void test_no_hard_links(void **state)
{
    struct fixture *g = *state;
    const int errors[] = {EPERM, EOPNOTSUPP, EMLINK, EXDEV, EIO};
    say(g, "p", 1, 30000);
    fork_to(g, "p", "q");
    say(g, "q", 2, 10);
    char *want = dump_of_fork(g, "q");
    for (unsigned i = 0; i < 5; i++) {
        link_error = errors[i];
        links_left = i % 2; /* the second link of q's two */
        fork_to(g, "q", "f");
        link_error = 0;
        assert_false(fixture_exists(g, 7, "f", ".b0") || fixture_exists(g, 7, "f", ".b1"));
        assert_dump(g, "f", want);
        reopen(g);
        assert_dump(g, "f", want);
        bytes_of(g);
        erase(g, "f");
    }
    link_error = EPERM;
    rename_to(g, "q", "r");
    link_error = 0;
    assert_false(fixture_exists(g, 7, "r", ".b0") || fixture_exists(g, 7, "q", ".b0"));
    free(want);
}

/* A crash left links that no log names. */
static void test_links_without_a_log(void **state)
{
    struct fixture *g = *state;
    char from[256], to[256];
    say(g, "p", 1, 30000);
    fork_to(g, "p", "f");
    fixture_path(from, g, 7, "p", ".log");
    fixture_path(to, g, 7, "new", ".b0");
    assert_int_equal(link(from, to), 0);
    fixture_path(to, g, 7, "f", ".b1");
    assert_int_equal(link(from, to), 0);
    reopen(g);
    assert_false(fixture_exists(g, 7, "new", ".b0") || fixture_exists(g, 7, "f", ".b1"));
    assert_true(fixture_exists(g, 7, "f", ".b0"));
    bytes_of(g);
    /* in the way of a fork: it is copied */
    fixture_path(to, g, 7, "new", ".b0");
    assert_int_equal(link(from, to), 0);
    char *want = dump_of_fork(g, "p");
    fork_to(g, "p", "new");
    assert_dump(g, "new", want);
    reopen(g);
    assert_dump(g, "new", want);
    assert_false(fixture_exists(g, 7, "new", ".b0"));
    free(want);
}

/* One wrong byte in the base: the fork keeps the turns before it with a warning, and all files are kept. */
static void test_damaged_base(void **state)
{
    struct fixture *g = *state;
    char path[256];
    for (int way = 0; way < 4; way++) {
        say(g, "p", 1, 30000);
        struct session *x = fixture_acquire(g, 7, "p");
        size_t one = (size_t)x->log.size;
        session_release(g->store, x);
        say(g, "p", 2, 100);
        fork_to(g, "p", "f");
        say(g, "f", 3, 10);
        say(g, "other", 4, 10);
        reopen(g);
        fixture_path(path, g, 7, "f", ".b0");
        size_t n;
        char *base = fixture_read(path, &n);
        assert_int_equal(unlink(path), 0);
        base[way == 1 ? 100 : one + 40] ^= 1;
        if (way != 3) fixture_write(path, base, way == 2 ? one : n);
        assert_int_equal(session_acquire(g->store, 7, "f", 1, false, &x), 0);
        int r = session_load(x);
        if (way == 1 || way == 3) { /* nothing can be used */
            assert_int_equal(r, -EBADMSG);
            assert_non_null(
                strstr(error_text(r), "the part that session 'f' shares with the session it was forked from"));
        } else {
            assert_int_equal(r, 0);
            assert_int_equal(x->content.n_messages, 2);
        }
        session_release(g->store, x);
        assert_true(fixture_exists(g, 7, "f", ".bad"));
        reopen(g);
        if (way == 0 || way == 2) {
            x = fixture_acquire(g, 7, "f");
            assert_int_equal(x->content.n_messages, 2);
            assert_int_equal(x->content.n_ids, 21);
            session_release(g->store, x);
        } else {
            assert_int_equal(session_acquire(g->store, 7, "f", 1, false, &x), -ENOENT);
        }
        if (way != 3) assert_true(fixture_exists(g, 7, "f", ".b0")); /* beside the log that was kept */
        x = fixture_acquire(g, 7, "p");
        assert_int_equal(fixture_last(x), 2);
        session_release(g->store, x);
        bytes_of(g);
        say(g, "f", 5, 10);
        erase(g, "f");
        assert_false(fixture_exists(g, 7, "f", ".b0") || fixture_exists(g, 7, "f", ".bad"));
        erase(g, "p");
        erase(g, "other");
        assert_int_equal(bytes_of(g), 0);
        free(base);
    }
}

/* A log whose shared part another program has cut is neither cut further nor appended to. */
static void test_cut_below_a_fork(void **state)
{
    struct fixture *g = *state;
    char path[256];
    say(g, "p", 1, 30000);
    say(g, "p", 2, 30000);
    fork_to(g, "p", "f");
    reopen(g);
    fixture_path(path, g, 7, "p", ".log");
    struct stat st, base;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 100), 0);
    struct session *x = fixture_acquire(g, 7, "p");
    assert_int_equal(fixture_last(x), 1);
    session_release(g->store, x);
    fixture_path(path, g, 7, "f", ".b0");
    assert_int_equal(stat(path, &base), 0);
    assert_int_equal(base.st_size, st.st_size - 100);
    x = fixture_acquire(g, 7, "f"); /* of which as much is good */
    assert_int_equal(x->content.n_messages, 2);
    session_release(g->store, x);
}

/* A record of a kind that only a newer hobd knows: the log is refused and not changed. */
static void test_unknown_kinds_are_not_changed(void **state)
{
    struct fixture *g = *state;
    char path[256];
    struct session *x = NULL;
    struct buf b = BUF_INIT;
    size_t n;
    say(g, "p", 1, 100);
    fixture_path(path, g, 7, "p", ".log");
    char *log = fixture_read(path, &n);
    assert_int_equal(buf_append(&b, log, n), 0);
    assert_int_equal(session_log_begin(&b), 0);
    assert_int_equal(session_log_finish(&b, n, SESSION_LOG_KIND_LAST + 1), 0);
    reopen(g);
    fixture_write(path, b.data, b.len);
    assert_int_equal(session_acquire(g->store, 7, "p", 1, false, &x), 0);
    assert_int_equal(session_load(x), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "newer hobd"));
    session_release(g->store, x);
    char *now = fixture_read(path, &n);
    assert_int_equal(n, b.len);
    free(now);
    free(log);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_forks_cost_little, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_memory_of_forks, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_parent_changes, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_fork_with_a_turn, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deep, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_renames, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_hard_links, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_links_without_a_log, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_damaged_base, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cut_below_a_fork, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unknown_kinds_are_not_changed, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
