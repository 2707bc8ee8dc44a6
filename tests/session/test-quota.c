/* SPDX-License-Identifier: MIT */
/* The limits of a user's sessions on disk: the bytes that count, and the turns that are refused. */
#include "daemon/session/quota.h"
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
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

/* The file system as the store sees it. */
static struct session_space disk;
static int space_error;

static int space(int dir, struct session_space *out)
{
    if (space_error) return space_error;
    *out = disk;
    return 0;
}

static void reopen(struct fixture *g, const struct session_store_config *c)
{
    fixture_close(g);
    assert_int_equal(session_store_open(&g->store, 64 << 20, c), 0);
}

static int setup(void **state)
{
    int r = fixture_setup(state);
    disk = (struct session_space){.total = 1ull << 40, .free = 1ull << 39, .files = UINT64_MAX};
    return r;
}

static struct session_store_config config(const struct fixture *g)
{
    struct session_store_config c = fixture_config(g);
    c.space = space;
    return c;
}

static uint64_t bytes_of(const struct fixture *g, uid_t uid)
{
    uint64_t bytes, max;
    session_disk(g->store, uid, &bytes, &max);
    return bytes;
}

/* Acquire the session, claim @bytes as the engine does before a turn, and release it. */
static int claim(struct fixture *g, uid_t uid, const char *name, uint64_t bytes)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, uid, name, strlen(name), true, &x);
    if (r < 0) return r;
    r = session_claim(x, bytes);
    session_release(g->store, x);
    return r;
}

/* A session whose log has about @bytes. */
static void fill(struct fixture *g, uid_t uid, const char *name, size_t bytes)
{
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    struct session *x = fixture_acquire(g, uid, name);
    assert_int_equal(session_add_message(x, "user", 4, text, bytes), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    free(text);
}

static void assert_says(const char *part)
{
    if (!strstr(error_text(-EDQUOT), part)) fail_msg("'%s' does not say '%s'", error_text(-EDQUOT), part);
}

static void test_number_of_sessions(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    struct session *x = NULL, *y = NULL;
    c.sessions_max_per_uid = 2;
    reopen(g, &c);
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 7, "b", 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(session_acquire(g->store, 7, "c", 1, true, &x), -EDQUOT);
        assert_says("you have 2 sessions");
        assert_says("the limit is 2 (session-count)");
        assert_says("'hob sessions rm NAME'");
        reopen(g, &c); /* those that are not loaded count as well */
    }
    fixture_say(g, 8, "c", 1);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_fork(g->store, x, "c", 1, &y), -EDQUOT);
    assert_int_equal(session_rename(g->store, x, "c", 1, &y), 0); /* which makes none more */
    assert_int_equal(session_move(y, x), 0);
    session_release(g->store, x);
    session_release(g->store, y);
    c.sessions_max_per_uid = 3;
    session_store_limit(g->store, &c);
    fixture_say(g, 7, "d", 1);
}

static void test_bytes_of_a_user(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    struct session *x = NULL;
    c.disk_max_per_uid = 1 << 20;
    reopen(g, &c);
    fill(g, 7, "a", 500000);
    fill(g, 7, "b", 500000);
    assert_in_range(bytes_of(g, 7), 1000000, 1010000);
    assert_int_equal(claim(g, 7, "a", 30000), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(claim(g, 7, "a", 65536), -EDQUOT);
        assert_int_equal(claim(g, 7, "new", 65536), -EDQUOT);
        assert_says("your 3 sessions take 98");
        assert_says("the limit of a user is 1M (session-bytes)");
        assert_says("'hob sessions rm NAME'");
        assert_int_equal(claim(g, 8, "new", 65536), 0);
        uint64_t before = bytes_of(g, 7);
        reopen(g, &c);
        assert_true(bytes_of(g, 7) == before); /* those that are not loaded count as well */
    }
    c.disk_max_per_uid = 2 << 20;
    session_store_limit(g->store, &c);
    assert_int_equal(claim(g, 7, "a", 65536), 0);
    c.disk_max_per_uid = 1 << 20;
    session_store_limit(g->store, &c);
    assert_int_equal(session_acquire(g->store, 7, "b", 1, false, &x), 0);
    assert_int_equal(session_erase(x), 0);
    session_release(g->store, x);
    assert_int_equal(claim(g, 7, "a", 65536), 0);
    assert_in_range(bytes_of(g, 7), 500000, 510000);
}

/* A limit that becomes less than what a user has. */
static void test_lower_limits(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    struct session *x = NULL;
    reopen(g, &c);
    fill(g, 7, "a", 500000);
    fill(g, 8, "a", 300000);
    assert_in_range(bytes_of(g, 7), 500000, 510000);
    assert_in_range(bytes_of(g, 8), 300000, 310000);
    assert_in_range(bytes_of(g, (uid_t)-1), 800000, 820000);
    c.disk_max_per_uid = 400000;
    session_store_limit(g->store, &c);
    assert_int_equal(claim(g, 7, "a", 4096), -EDQUOT);
    assert_says("the limit of a user is");
    assert_int_equal(claim(g, 8, "a", 4096), 0);
    c.disk_max_per_uid = 0;
    session_store_limit(g->store, &c);
    assert_int_equal(claim(g, 7, "a", 4096), 0);
    c.sessions_max_per_uid = 1;
    session_store_limit(g->store, &c);
    assert_int_equal(session_acquire(g->store, 7, "new", 3, true, &x), -EDQUOT);
    c.sessions_max_per_uid = 0;
    session_store_limit(g->store, &c);
    assert_int_equal(session_acquire(g->store, 7, "new", 3, true, &x), 0);
    session_release(g->store, x);
}

/* A claim leaves as much for others as the user then has. */
static void test_exact_space(void **state)
{
    enum { MORE = 1 << 16 };
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    reopen(g, &c);
    disk.free = 2 * MORE;
    assert_int_equal(claim(g, 7, "a", MORE), 0);
    disk.free = 2 * MORE - 1; /* it has nothing that it could remove */
    assert_int_equal(claim(g, 7, "a", MORE), -ENOSPC);
    disk.free = 1ull << 39;
    fill(g, 7, "a", 90000);
    disk.free = 2 * MORE + bytes_of(g, 7);
    assert_int_equal(claim(g, 7, "a", MORE), 0);
    disk.free--;
    assert_int_equal(claim(g, 7, "a", MORE), -EDQUOT);
    disk.free = 0;
    assert_int_equal(claim(g, 7, "a", 4096), -ENOSPC);
    disk.free = 1ull << 39;
    space_error = -EIO;
    const int r = claim(g, 7, "a", 4096);
    space_error = 0;
    assert_int_equal(r, -EIO);
    assert_int_equal(claim(g, 7, "a", 4096), 0);
}

/* Turns that run at the same time do not get the same free bytes. */
static void test_claims_add_up(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    c.disk_max_per_uid = 1 << 20;
    reopen(g, &c);
    struct session *x[5];
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof(name), "s%d", i);
        x[i] = fixture_acquire(g, 7, name);
        assert_int_equal(session_claim(x[i], 1 << 18), i < 4 ? 0 : -EDQUOT);
    }
    session_release(g->store, x[0]);
    assert_int_equal(session_claim(x[4], 1 << 18), 0);
    assert_int_equal(session_claim(x[3], 4096), -EDQUOT);
    session_take_claim(x[3], x[4]); /* as a fork does */
    session_release(g->store, x[4]);
    assert_int_equal(session_claim(x[2], 4096), -EDQUOT);
    for (int i = 1; i < 4; i++) session_release(g->store, x[i]);
    assert_int_equal(claim(g, 7, "s", 1 << 20), 0);
}

/* No user takes more than is then left for others, so each new user finds space. */
static void test_a_full_disk_has_room_for_the_next_user(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    const uint64_t total = 64 << 20;
    reopen(g, &c);
    disk = (struct session_space){.total = total, .free = total, .files = UINT64_MAX};
    for (uid_t uid = 1; uid <= 5; uid++) {
        unsigned n = 0;
        int r;
        for (;; n++) {
            char name[16];
            snprintf(name, sizeof(name), "s%u", n);
            r = claim(g, uid, name, 100000);
            if (r < 0) break;
            fill(g, uid, name, 90000);
            disk.free = total - bytes_of(g, (uid_t)-1);
        }
        assert_int_equal(r, -EDQUOT);
        assert_says("a user may take only as much as stays free for others");
        assert_true(n >= 5 && n * 90000ull <= total >> uid);
    }
    assert_true(disk.free > total / 40);
}

static void test_the_reserve_stays_free(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    c.disk_reserve = 1 << 20;
    reopen(g, &c);
    disk = (struct session_space){.total = 1 << 30, .free = (1 << 20) + 100000, .files = UINT64_MAX};
    assert_int_equal(claim(g, 7, "a", 40000), 0);
    assert_int_equal(claim(g, 7, "a", 60000), -ENOSPC);
    assert_non_null(strstr(error_text(-ENOSPC), "(disk-reserve)"));
    assert_non_null(strstr(error_text(-ENOSPC), g->dir));
    disk.total = 1 << 20; /* of a small file system a twentieth */
    disk.free = 200000;
    assert_int_equal(claim(g, 7, "a", 60000), 0);
    disk.free = 50000;
    assert_int_equal(claim(g, 7, "a", 4096), -ENOSPC);
    /* what was not claimed does not take the reserve either */
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 1);
    assert_int_equal(session_save(x), -ENOSPC);
    assert_false(fixture_exists(g, 7, "a", ".log"));
    disk.free = 200000;
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
}

static void test_files_that_can_be_made(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    reopen(g, &c);
    disk.files = 100;
    assert_int_equal(claim(g, 7, "a", 4096), 0);
    disk.files = 10;
    assert_int_equal(claim(g, 7, "a", 4096), -EDQUOT);
    assert_says("room for 10 more");
}

/* *.bad files count for their user until the session is removed. */
static void test_what_is_set_aside_counts(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    char path[256];
    reopen(g, &c);
    fill(g, 7, "a", 100000);
    uint64_t before = bytes_of(g, 7);
    fixture_path(path, g, 7, "a", ".log");
    size_t n;
    char *log = fixture_read(path, &n);
    log[n - 10] ^= 1;
    reopen(g, &c);
    fixture_write(path, log, n);
    free(log);
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, 7, "a", 1, true, &x), 0);
    assert_int_equal(session_load(x), -EBADMSG);
    assert_int_equal(bytes_of(g, 7), before);
    session_release(g->store, x);
    reopen(g, &c);
    assert_int_equal(bytes_of(g, 7), before);
    fill(g, 7, "a", 100000);
    assert_int_equal(bytes_of(g, 7), 2 * before);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_erase(x), 0);
    session_release(g->store, x);
    assert_int_equal(bytes_of(g, 7), 0);
}

/* The sizes in a list, and their sum. */
static void test_sizes(void **state)
{
    struct fixture *g = *state;
    struct session_info *list;
    size_t n;
    uint64_t sum = 0;
    fill(g, 7, "a", 100000);
    fill(g, 7, "b", 10);
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    for (size_t i = 0; i < n; i++) {
        sum += list[i].disk;
        assert_int_equal(list[i].disk % 4096, 0);
        assert_int_equal(list[i].shared, 0);
    }
    free(list);
    assert_int_equal(n, 2);
    assert_true(sum == bytes_of(g, 7));
    assert_in_range(sum, 100000 + 4096, 100000 + 3 * 4096);
}

/* --- files, one by one --- */

/* The owner of a session's files, and the directory. */
static struct session_owner *owner_of(struct fixture *g, int *dir)
{
    char path[80];
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    session_release(g->store, x);
    snprintf(path, sizeof(path), "%s/7", g->dir);
    *dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(*dir >= 0);
    return x->owner;
}

static void test_files_by_number(void **state)
{
    struct fixture *g = *state;
    uint64_t own = 0, shared = 0;
    int dir;
    struct session_owner *o = owner_of(g, &dir);
    const uint64_t before = fixture_bytes(g, 7), none = 12345678901;
    session_quota_remove(o, none); /* a file that is not counted */
    session_quota_resize(o, none, 1 << 20);
    session_quota_split(o, none, &own, &shared);
    assert_int_equal(own + shared, 0);
    assert_int_equal(session_quota_kept(o, none), 0);
    assert_int_equal(fixture_bytes(g, 7), before);
    assert_int_equal(session_quota_add(o, none, 4096, 100), 0);
    assert_int_equal(session_quota_add(o, none, 4097, 50), 0); /* another name; it has grown */
    assert_int_equal(fixture_bytes(g, 7), before + 8192);
    assert_int_equal(session_quota_kept(o, none), 100);
    session_quota_split(o, none, &own, &shared);
    assert_true(own == 0 && shared == 8192);
    session_quota_remove(o, none);
    session_quota_split(o, none, &own, &shared);
    assert_true(own == 8192 && shared == 8192);
    session_quota_resize(o, none, 4096);
    assert_int_equal(fixture_bytes(g, 7), before + 4096);
    session_quota_remove(o, none);
    assert_int_equal(fixture_bytes(g, 7), before);
    close(dir);
}

static void test_files_by_name(void **state)
{
    struct fixture *g = *state;
    char path[128];
    int dir;
    struct session_owner *o = owner_of(g, &dir);
    const uint64_t before = fixture_bytes(g, 7);
    snprintf(path, sizeof(path), "%s/7/file", g->dir);
    fixture_write(path, "x", 1);
    snprintf(path, sizeof(path), "%s/7/dir", g->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(session_quota_add_name(o, dir, "none", 0), 0);
    assert_int_equal(session_quota_add_name(o, dir, "file/none", 0), -ENOTDIR);
    assert_int_equal(fixture_bytes(g, 7), before);
    assert_int_equal(session_quota_add_name(o, dir, "file", 0), 0);
    assert_int_equal(fixture_bytes(g, 7), before + 4096);
    assert_int_equal(session_quota_unlink(o, dir, "none"), 0);
    assert_int_equal(session_quota_unlink(o, dir, "file/none"), -ENOTDIR);
    assert_int_equal(session_quota_unlink(o, dir, "dir"), -EISDIR);
    assert_int_equal(session_quota_unlink(o, dir, "file"), 0);
    assert_int_equal(fixture_bytes(g, 7), before);
    close(dir);
}

/* --- exact limits --- */

static void test_exact_files(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    reopen(g, &c);
    fixture_say(g, 7, "a", 1); /* a file */
    disk.files = 17;           /* and 8 more, and as many for others */
    assert_int_equal(claim(g, 7, "a", 4096), 0);
    disk.files = 16;
    assert_int_equal(claim(g, 7, "a", 4096), -EDQUOT);
    disk.free = 0; /* of two reasons the one that the user can do least about */
    assert_int_equal(claim(g, 7, "a", 4096), -ENOSPC);
    disk.free = 4096 + 4095; /* the user has as much as the turn needs */
    disk.files = UINT64_MAX;
    assert_int_equal(claim(g, 7, "a", 4096), -EDQUOT);
    assert_int_equal(claim(g, 7, "a", 4097), -ENOSPC);
}

static void test_exact_file(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = config(g);
    int dir;
    reopen(g, &c);
    struct session_owner *o = owner_of(g, &dir);
    disk.free = 8192;
    assert_int_equal(session_quota_fits(o, 8192), 0);
    assert_int_equal(session_quota_fits(o, 8193), -ENOSPC);
    disk.free = 8191;
    assert_int_equal(session_quota_fits(o, 4097), -ENOSPC);
    space_error = -EIO;
    assert_int_equal(session_quota_fits(o, 1), -EIO);
    space_error = 0;
    close(dir);
}

/* File systems as fstatvfs tells of them. */
static void test_file_systems(void **state)
{
    static const struct {
        struct statvfs fs;
        int want;
    } systems[] = {
        {{.f_frsize = 4096, .f_bavail = 1000, .f_blocks = 1000, .f_files = 1000, .f_favail = 1000}, 0},
        {{.f_frsize = 4096, .f_bavail = 1000, .f_blocks = 1000, .f_files = 1000, .f_favail = 10}, -EDQUOT},
        {{.f_frsize = 4096, .f_bavail = 1000, .f_blocks = 1000, .f_files = 0, .f_favail = 0},
         0},                                                       /* has no such limit */
        {{.f_frsize = 4096, .f_bavail = 52, .f_blocks = 1000}, 0}, /* 50 are the reserve, and a user takes half */
        {{.f_frsize = 4096, .f_bavail = 51, .f_blocks = 1000}, -ENOSPC},
        {{.f_frsize = 4096, .f_bavail = 52, .f_blocks = 1ull << 53}, -ENOSPC}, /* more bytes than 64 bits hold */
        {{.f_frsize = 4096, .f_bavail = 1ull << 52, .f_blocks = 1ull << 52}, 0},
    };
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    c.disk_reserve = UINT64_MAX;
    reopen(g, &c);
    for (size_t i = 0; i < sizeof(systems) / sizeof(*systems); i++) {
        calls_disk(&systems[i].fs);
        const int r = claim(g, 7, "a", 4096);
        calls_end();
        if (r != systems[i].want) fail_msg("file system %zu: %d", i, r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_number_of_sessions, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bytes_of_a_user, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lower_limits, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exact_space, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_claims_add_up, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_full_disk_has_room_for_the_next_user, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_reserve_stays_free, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_files_that_can_be_made, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_files_by_number, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_files_by_name, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exact_files, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exact_file, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_file_systems, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_set_aside_counts, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_sizes, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
