/* SPDX-License-Identifier: MIT */
/* The budget at its exact limits, for file systems of any size, and the count of files that others change. */
#include "daemon/cache/disk/disk-state.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "tests/cache/disk/fixture.h"
#include "tests/support/calls.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 5

/* With @n files. */
static struct disk *open_with(const struct place *p, uint64_t n)
{
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < n; i++) assert_int_equal(fixture_write(d, i), 0);
    return d;
}

/* --- the budget --- */

static void test_a_tenth(void **state)
{
    struct disk *d = open_with(*state, 0);
    calls_space(10 * FIXTURE_FILE, UINT64_MAX);
    assert_int_equal(disk_room(d, false), 0);
    calls_space(10 * FIXTURE_FILE - 1, UINT64_MAX);
    assert_int_equal(disk_room(d, false), -ENOSPC);
    calls_end();
    disk_close(d);
    d = open_with(*state, FILES);
    calls_space(10 * 3 * FIXTURE_FILE - FILES * FIXTURE_FILE, UINT64_MAX); /* its own files count as free */
    assert_int_equal(disk_excess(d), 2);
    calls_space(10 * 3 * FIXTURE_FILE - FILES * FIXTURE_FILE - 10, UINT64_MAX);
    assert_int_equal(disk_excess(d), 3);
    calls_space(UINT64_MAX, UINT64_MAX); /* the sum is no 64-bit number */
    assert_int_equal(disk_excess(d), 0);
    assert_int_equal(disk_room(d, false), 0);
    calls_end();
    disk_close(d);
}

static void test_reserve(void **state)
{
    enum { RESERVE = 50000, ALL = 2000000, PART = ALL / 20 };
    struct disk *d = open_with(*state, 0);
    static const struct {
        uint64_t reserve, free;
        int room;
    } cases[] = {
        {RESERVE, RESERVE + FIXTURE_FILE, 0},
        {RESERVE, RESERVE + FIXTURE_FILE - 1, -ENOSPC},
        {RESERVE, RESERVE, -ENOSPC},
        {RESERVE, RESERVE - 1, -ENOSPC},
        {RESERVE, 0, -ENOSPC},
        {UINT64_MAX, PART + FIXTURE_FILE, 0}, /* at most a twentieth of the file system */
        {UINT64_MAX, PART + FIXTURE_FILE - 1, -ENOSPC},
        {PART, PART + FIXTURE_FILE, 0},
        {PART - 1, PART + FIXTURE_FILE - 1, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        disk_limit(d, UINT64_MAX, cases[i].reserve);
        calls_space(cases[i].free, ALL);
        assert_int_equal(disk_room(d, true), cases[i].room);
    }
    calls_end();
    disk_close(d);
}

static void test_file_system_does_not_tell(void **state)
{
    struct disk *d = open_with(*state, 1);
    disk_limit(d, 1, 0);
    calls_fail(CALL_FSTATVFS, 0, EIO);
    assert_int_equal(disk_room(d, false), -EIO);
    calls_fail(CALL_FSTATVFS, 0, EIO);
    assert_int_equal(disk_excess(d), 0);
    calls_fail(CALL_FSTATVFS, 0, EIO);
    assert_int_equal(fixture_write(d, 2), -EIO);
    calls_end();
    assert_int_equal(disk_excess(d), 1);
    disk_close(d);
}

/* Files that are being written count, but only files that are there can be removed. */
static void test_being_written(void **state)
{
    struct disk *d = open_with(*state, 0);
    d->writing = 1;
    disk_limit(d, FIXTURE_FILE, 0);
    assert_int_equal(disk_room(d, true), 2);
    d->writing = 2;
    assert_int_equal(disk_room(d, true), 2);
    assert_int_equal(disk_excess(d), 0);
    d->writing = 0;
    assert_int_equal(fixture_write(d, 0), 0);
    d->writing = 3;
    assert_int_equal(disk_room(d, true), 1);
    assert_int_equal(disk_excess(d), 1);
    disk_limit(d, 4 * FIXTURE_FILE, 0);
    assert_int_equal(disk_excess(d), 0);
    assert_int_equal(fixture_write(d, 1), -EDQUOT);
    d->writing = 0;
    disk_close(d);
}

/* --- the count --- */

static void expect_count(const struct disk *d, uint64_t files, uint64_t bytes)
{
    const struct disk_stats s = fixture_stats(d);
    assert_true(s.files == files && s.bytes == bytes);
}

/* Each operation that finds a file missing or damaged counts again, at once or when it may. */
static void test_counted_again(void **state)
{
    const struct prefix_info a = fixture_info(0), b = fixture_info(1), c = fixture_info(2);
    struct disk *d = open_with(*state, FILES);
    assert_int_equal(unlink(block_path(*state, &a)), 0);
    disk_remove(d, a.id);
    expect_count(d, 4, 4 * FIXTURE_FILE);
    assert_int_equal(truncate(block_path(*state, &b), 1), 0);
    d->recount_next = 0;
    assert_int_equal(fixture_read(d, 1), -EBADMSG);
    expect_count(d, 3, 3 * FIXTURE_FILE);

    assert_int_equal(unlink(block_path(*state, &c)), 0);
    d->recount_next = UINT64_MAX;
    disk_remove(d, c.id); /* not yet */
    expect_count(d, 3, 3 * FIXTURE_FILE);
    disk_remove(d, fixture_info(3).id);
    expect_count(d, 2, 2 * FIXTURE_FILE);
    d->recount_next = 0;
    assert_int_equal(fixture_write(d, 0), 0);
    expect_count(d, 2, 2 * FIXTURE_FILE);
    disk_close(d);
}

/* Counting takes little of the time, and none when nothing is missing. */
static void test_counted_seldom(void **state)
{
    struct disk *d = open_with(*state, 300); /* more than a list begins with */
    calls_name(".");
    calls_fail(CALL_OPEN, 100000, EIO);
    for (uint64_t i = 0; i < 100; i++) disk_remove(d, fixture_info(i).id);
    assert_int_equal(calls_count(CALL_OPEN), 0);
    for (int i = 0; i < 1000; i++) disk_remove(d, fixture_info(0).id);
    assert_true(calls_count(CALL_OPEN) > 0 && calls_count(CALL_OPEN) < 500);
    calls_end();
    disk_close(d);
}

/* A file that others have made larger than it was counted takes no other file's room. */
static void test_larger_than_counted(void **state)
{
    const struct prefix_info a = fixture_info(0);
    uint8_t bytes[FIXTURE_FILE];
    fixture_bytes(*state, bytes, 0);
    fixture_put(block_path(*state, &a), bytes, 1);
    struct disk *d = open_with(*state, 0);
    expect_count(d, 1, 1);
    fixture_put(block_path(*state, &a), bytes, FIXTURE_FILE);
    disk_remove(d, a.id);
    expect_count(d, 0, 0);
    assert_int_equal(disk_room(d, false), 0);
    disk_close(d);
}

/* --- times --- */

/* time() can be some milliseconds late: a file written at the end of a second would be of the next one. */
static time_t now(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
    return t.tv_sec;
}

static void test_mtime_is_now(void **state)
{
    const struct prefix_info a = fixture_info(0);
    struct stat st;
    const time_t before = time(NULL);
    struct disk *d = open_with(*state, 1);
    assert_int_equal(stat(block_path(*state, &a), &st), 0);
    assert_in_range(st.st_mtime, before, now());
    disk_close(d);
}

/* Files with the same mtime are found in the order of their ids: the high word first. */
static void test_equal_mtimes(void **state)
{
    const struct prefix_id ids[] = {{1, 9}, {2, 3}, {2, 4}, {3, 1}, {UINT64_MAX, 0}};
    const size_t n = sizeof(ids) / sizeof(*ids);
    const struct timespec same[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    uint8_t payload[FIXTURE_PAYLOAD] = {0};
    for (size_t first = 0; first < n; first++) { /* written in another order, so that their inodes have another one */
        struct disk *d = open_with(*state, 0);
        for (size_t i = 0; i < n; i++) {
            struct prefix_info info = fixture_info(0);
            info.id = ids[(first + 2 * i) % n];
            assert_int_equal(disk_write(d, &info, payload), 0);
            assert_int_equal(utimensat(AT_FDCWD, block_path(*state, &info), same, 0), 0);
        }
        const struct fixture_found *f = fixture_scan(d);
        assert_int_equal(f->n, n);
        for (size_t i = 0; i < n; i++)
            assert_true(f->infos[i].id.high == ids[i].high && f->infos[i].id.low == ids[i].low);
        for (size_t i = 0; i < n; i++) disk_remove(d, ids[i]);
        disk_close(d);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_tenth),       T(test_reserve),        T(test_file_system_does_not_tell), T(test_being_written),
        T(test_counted_again), T(test_counted_seldom), T(test_larger_than_counted),       T(test_mtime_is_now),
        T(test_equal_mtimes),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
