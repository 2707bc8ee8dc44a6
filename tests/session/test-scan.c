/* SPDX-License-Identifier: MIT */
/* The scan of the directory at the start, which believes the end of a log only if its checksum matches. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
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

enum { SUMMARY = 32, SUM = 16, LATE = 1900000000 /* seconds */ };

static struct session_info listed(struct fixture *g, const char *name)
{
    struct session_info *list, found = {0};
    size_t n;
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name->data, name) == 0) found = list[i];
    assert_non_null(found.name);
    free(list);
    return found;
}

/* Without its summary a session has the time and the size of its file. */
static void test_a_damaged_summary_is_not_believed(void **state)
{
    struct fixture *g = *state;
    char path[256];
    const struct timespec late[2] = {{.tv_sec = LATE, .tv_nsec = 5000}, {.tv_sec = LATE, .tv_nsec = 5000}};
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 7, "b", 1);
    fixture_close(g);
    fixture_path(path, g, 7, "a", ".log");
    size_t n;
    char *log = fixture_read(path, &n);
    for (int i = -1; i < SUMMARY; i++) {
        if (i >= 0) log[n - SUM - SUMMARY + (size_t)i] ^= 0x10;
        fixture_write(path, log, n);
        assert_int_equal(utimensat(AT_FDCWD, path, late, 0), 0);
        fixture_open(g);
        struct session_info a = listed(g, "a");
        assert_int_equal(a.used == LATE * UINT64_C(1000000) + 5, i >= 0);
        assert_int_equal(a.bytes == n, i >= 0);
        assert_int_equal(a.ids, i < 0 ? 20 : 0);
        assert_int_equal(a.messages, i < 0 ? 2 : 0);
        fixture_close(g);
        if (i >= 0) log[n - SUM - SUMMARY + (size_t)i] ^= 0x10;
    }
    free(log);
    fixture_open(g);
}

static bool exists(struct fixture *g, uid_t uid)
{
    struct session *x = NULL;
    const int r = session_acquire(g->store, uid, "a", 1, false, &x);
    if (r == 0) session_release(g->store, x);
    assert_true(r == 0 || r == -ENOENT);
    return r == 0;
}

static void move(const struct fixture *g, const char *from, const char *to)
{
    char a[128], b[128];
    snprintf(a, sizeof(a), "%s/%s", g->dir, from);
    snprintf(b, sizeof(b), "%s/%s", g->dir, to);
    assert_int_equal(rename(a, b), 0);
}

/* A directory has the sessions of the uid whose number is its name, and no other name of that number does. */
static void test_names_of_directories(void **state)
{
    static const char *const names[] = {"4294967296", "00", "+0", "-0", " 0", "0x", "0 ", "", "18446744073709551616"};
    struct fixture *g = *state;
    fixture_say(g, 0, "a", 1);
    fixture_say(g, (uid_t)-1, "a", 1); /* not a uid */
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *name = names[i][0] ? names[i] : "lost";
        fixture_close(g);
        move(g, "0", name);
        fixture_open(g);
        assert_false(exists(g, 0));
        assert_false(exists(g, (uid_t)-1));
        fixture_close(g);
        move(g, name, "0");
        fixture_open(g);
        assert_true(exists(g, 0));
    }
}

/* What has a log's name, but is no file, stays where it is. */
static void test_not_a_file(void **state)
{
    struct fixture *g = *state;
    char path[256];
    struct stat st;
    fixture_say(g, 7, "a", 1);
    fixture_close(g);
    fixture_path(path, g, 7, "a", ".log");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(remove(path), 0);
        assert_int_equal(i == 0 ? mkfifo(path, 0600) : i == 1 ? mkdir(path, 0700) : symlink("/etc/passwd", path), 0);
        fixture_open(g);
        assert_false(exists(g, 7));
        fixture_close(g);
        assert_int_equal(lstat(path, &st), 0);
        assert_false(fixture_exists(g, 7, "a", ".bad"));
    }
    assert_int_equal(remove(path), 0);
    fixture_open(g);
}

/* A turn whose bytes could be those of a record of bases: of one base, with a right summary. */
static void test_a_turn_like_bases(void **state)
{
    struct fixture *g = *state;
    char path[256];
    size_t n;
    struct session *x = fixture_acquire(g, 7, "a");
    session_set_raw(x, true);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    fixture_path(path, g, 7, "a", ".log");
    free(fixture_read(path, &n));
    assert_int_equal(n, 16 + 16 + 38 + SUM + 16 + (2 + 24 + SUMMARY) + SUM);
    fixture_close(g);
    fixture_open(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), 0);
    assert_int_equal(x->log.n_bases, 0);
    assert_int_equal(session_load(x), 0);
    assert_true(x->content.raw);
    session_release(g->store, x);
}

static int open_store(struct fixture *g)
{
    struct session_store_config c = fixture_config(g);
    return session_store_open(&g->store, 1 << 20, &c);
}

/* Directories that belong to others, or that others can write to, are not used. */
static void test_of_others(void **state)
{
    struct fixture *g = *state;
    struct session *x = NULL;
    char path[128];
    fixture_say(g, 7, "a", 1);
    fixture_close(g);
    snprintf(path, sizeof(path), "%s/7", g->dir);
    for (mode_t bit = 020; bit; bit = bit == 020 ? 002 : 0) {
        assert_int_equal(chmod(g->dir, 0700 | bit), 0);
        assert_int_equal(open_store(g), -EPERM);
        assert_non_null(strstr(error_text(-EPERM), "is writable by others"));
        assert_int_equal(chmod(g->dir, 0700), 0);
        assert_int_equal(chmod(path, 0700 | bit), 0);
        fixture_open(g);
        assert_false(exists(g, 7));
        x = fixture_acquire(g, 7, "b");
        fixture_turn(x, 1);
        assert_int_equal(session_save(x), -EPERM);
        assert_non_null(strstr(error_text(-EPERM), "/7 is writable by others"));
        session_release(g->store, x);
        fixture_close(g);
        assert_int_equal(chmod(path, 0700), 0);
    }
    if (geteuid() == 0) {
        assert_int_equal(chown(g->dir, 65534, 0), 0);
        assert_int_equal(open_store(g), -EPERM);
        assert_non_null(strstr(error_text(-EPERM), "belongs to uid 65534"));
        assert_int_equal(chown(g->dir, 0, 0), 0);
        assert_int_equal(chown(path, 65534, 0), 0);
        fixture_open(g);
        assert_false(exists(g, 7));
        fixture_close(g);
        assert_int_equal(chown(path, 0, 0), 0);
    }
    fixture_open(g);
    assert_true(exists(g, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_damaged_summary_is_not_believed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_names_of_directories, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_not_a_file, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_turn_like_bases, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_of_others, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
