/* SPDX-License-Identifier: MIT */
/* The disk tier: the budget, the rate of writes, and a file system whose free space shrinks. */
#include "daemon/cache/disk/disk-rate.h"
#include "libcommon/error.h"
#include "tests/cache/disk/fixture.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void test_bytes_max(void **state)
{
    struct disk_config c = fixture_config(*state);
    c.bytes_max = 5 * FIXTURE_FILE + FIXTURE_FILE - 1;
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(disk_room(d, i % 2), 0);
        assert_int_equal(fixture_write(d, i), 0);
    }
    assert_int_equal(disk_room(d, false), 1);
    assert_int_equal(disk_room(d, true), 1);
    assert_int_equal(fixture_write(d, 5), -EDQUOT);
    assert_non_null(strstr(error_text(-EDQUOT), c.dir));
    assert_int_equal(place_count(*state, ""), 5);
    disk_remove(d, fixture_info(3).id);
    assert_int_equal(disk_room(d, false), 0);
    assert_int_equal(fixture_write(d, 5), 0);
    assert_true(fixture_stats(d).bytes <= c.bytes_max);
    disk_close(d);
}

/* The limit changes while the directory is open. */
static void test_another_limit(void **state)
{
    struct disk_config c = fixture_config(*state);
    c.bytes_max = 2 * FIXTURE_FILE;
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 2; i++) assert_int_equal(fixture_write(d, i), 0);
    assert_int_equal(disk_room(d, true), 1);
    disk_limit(d, 3 * FIXTURE_FILE, 0);
    assert_int_equal(disk_room(d, true), 0);
    assert_int_equal(fixture_write(d, 2), 0);
    disk_limit(d, FIXTURE_FILE, 0);
    assert_int_equal(disk_excess(d), 2);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(disk_room(d, true), 1);
        disk_remove(d, fixture_info(i).id);
    }
    assert_int_equal(disk_room(d, true), 0);
    disk_close(d);
}

/* Counting is spread over time. */
static void check_files(struct disk *d, uint64_t missing, uint64_t files)
{
    for (int i = 0; i < 30000 && fixture_stats(d).bytes != files * FIXTURE_FILE; i++) {
        usleep(1000);
        disk_remove(d, fixture_info(missing).id);
    }
    assert_int_equal(fixture_stats(d).files, files);
    assert_int_equal(fixture_stats(d).bytes, files * FIXTURE_FILE);
}

/* What somebody else removes or cuts takes no room any more. */
static void test_removed_by_others(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct prefix_info info[5];
    c.bytes_max = 5 * FIXTURE_FILE;
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 5; i++) {
        info[i] = fixture_info(i);
        assert_int_equal(fixture_write(d, i), 0);
    }
    assert_int_equal(unlink(block_path(*state, &info[0])), 0);
    assert_int_equal(fixture_read(d, 0), -ENOENT);
    check_files(d, 0, 4);
    assert_int_equal(unlink(block_path(*state, &info[1])), 0);
    disk_remove(d, info[1].id);
    check_files(d, 1, 3);
    assert_int_equal(truncate(block_path(*state, &info[2]), 1), 0);
    assert_int_equal(fixture_read(d, 2), -EBADMSG);
    check_files(d, 2, 2);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(fixture_write(d, i), 0);
    disk_close(d);
}

static void test_not_even_one(void **state)
{
    struct disk_config c = fixture_config(*state);
    c.bytes_max = FIXTURE_FILE - 1;
    struct disk *d = fixture_open(&c);
    assert_int_equal(disk_room(d, false), -ENOSPC);
    assert_int_equal(disk_room(d, true), -ENOSPC);
    assert_non_null(strstr(error_text(-ENOSPC), c.dir));
    assert_int_equal(fixture_write(d, 1), -EDQUOT);
    assert_int_equal(place_count(*state, ""), 0);
    disk_close(d);
}

/* Small files count with what the file system allocates for them, so that the limit holds on disk. */
static void check_unit(struct place *p, uint64_t payload, uint64_t counts)
{
    struct disk_config c = fixture_config(p);
    c.payload = payload;
    c.unit = DISK_UNIT;
    c.bytes_max = 10 * counts + counts - 1;
    struct disk *d = fixture_open(&c);
    uint64_t n = 0, taken = 0;
    for (; disk_room(d, true) == 0; n++) assert_int_equal(fixture_write(d, n), 0);
    assert_int_equal(n, 10);
    assert_int_equal(disk_room(d, true), 1);
    assert_int_equal(fixture_write(d, n), -EDQUOT);
    for (uint64_t i = 0; i < n; i++) {
        struct stat st;
        const struct prefix_info info = fixture_info(i);
        assert_int_equal(stat(block_path(p, &info), &st), 0);
        assert_int_equal(st.st_size, FIXTURE_HEADER + payload);
        if ((uint64_t)st.st_blksize <= DISK_UNIT) taken += (uint64_t)st.st_blocks * 512;
    }
    assert_int_equal(fixture_stats(d).bytes, 10 * counts);
    assert_true(taken <= fixture_stats(d).bytes);
    disk_close(d);
    d = fixture_open(&c); /* counts them alike */
    assert_int_equal(fixture_stats(d).bytes, 10 * counts);
    disk_limit(d, 4 * counts, 0);
    assert_int_equal(disk_excess(d), 6);
    for (uint64_t i = 0; i < n; i++) disk_remove(d, fixture_info(i).id);
    assert_int_equal(fixture_stats(d).bytes, 0);
    disk_limit(d, counts - 1, 0);
    assert_int_equal(disk_room(d, true), -ENOSPC);
    disk_close(d);
}

static void test_small_files(void **state)
{
    check_unit(*state, 0, DISK_UNIT); /* no layer has attention */
    check_unit(*state, FIXTURE_PAYLOAD, DISK_UNIT);
}

/* The rate counts the same. */
static void test_rate_of_small_files(void **state)
{
    struct disk_config c = fixture_config(*state);
    uint64_t n = 0;
    c.payload = 0;
    c.unit = DISK_UNIT;
    c.bytes_a_minute = 5 * DISK_UNIT;
    struct disk *d = fixture_open(&c);
    for (; disk_room(d, false) == 0 && n < 100; n++) assert_int_equal(fixture_write(d, n), 0);
    assert_int_equal(n, 5);
    assert_int_equal(disk_room(d, false), 2);
    disk_close(d);
}

/* The limit is smaller than last time: files must be removed before a write, whatever the rate allows. */
static void test_smaller_limit(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(fixture_write(d, i), 0);
    disk_close(d);
    c.bytes_max = 4 * FIXTURE_FILE;
    c.bytes_a_minute = 1;
    d = fixture_open(&c);
    uint64_t gone = 0;
    for (; disk_room(d, false) == 1; gone++) disk_remove(d, fixture_info(gone).id);
    assert_int_equal(gone, 7);
    assert_int_equal(fixture_write(d, 20), 0);
    assert_int_equal(fixture_stats(d).files, 4);
    assert_int_equal(disk_room(d, false), 2); /* no removal is asked for while the rate forbids the write */
    disk_close(d);
    c.bytes_max = 1;
    d = fixture_open(&c);
    for (gone = 7; disk_room(d, false) == 1; gone++) disk_remove(d, fixture_info(gone < 10 ? gone : 20).id);
    assert_int_equal(gone, 11);
    assert_int_equal(disk_room(d, false), -ENOSPC);
    disk_close(d);
}

/* Random writes, removals, scans and restarts: the count equals the number of files. */
static void test_counts_add_up(void **state)
{
    enum { IDS = 40, MAX = 25 };
    struct disk_config c = fixture_config(*state);
    bool there[IDS] = {0};
    uint64_t seed = 4711, n = 0;
    c.bytes_max = MAX * FIXTURE_FILE;
    struct disk *d = fixture_open(&c);
    for (int step = 0; step < 4000; step++) {
        uint64_t i = fixture_random(&seed) % IDS;
        switch (fixture_random(&seed) % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
            int r = fixture_write(d, i);
            assert_int_equal(r, n == MAX ? -EDQUOT : 0);
            n += !r && !there[i];
            there[i] |= !r;
            break;
        }
        case 4:
        case 5:
            disk_remove(d, fixture_info(i).id);
            n -= there[i];
            there[i] = false;
            break;
        case 6:
            assert_int_equal(fixture_read(d, i), there[i] ? 0 : -ENOENT);
            break;
        default:
            if (step % 10 == 0) assert_int_equal(fixture_scan(d)->n, n);
            if (step % 4 == 0) {
                disk_close(d);
                d = fixture_open(&c);
            }
        }
        struct disk_stats s = fixture_stats(d);
        assert_true(s.files == n && s.bytes == n * FIXTURE_FILE && !s.damaged);
        assert_int_equal(disk_room(d, false), n == MAX);
    }
    assert_int_equal(place_count(*state, ".kv"), n);
    disk_close(d);
}

/* --- less free space --- */

static bool mounted(const struct place *p, const char *options)
{
    if (mount("none", p->dir, "tmpfs", 0, options) == 0) return true;
    print_message("skipped: no tmpfs can be mounted: %s\n", strerror(errno));
    return false;
}

static int unmount_teardown(void **state)
{
    umount2(((struct place *)*state)->dir, MNT_DETACH);
    return place_teardown(state);
}

static uint64_t free_bytes(const struct place *p)
{
    struct statvfs fs;
    assert_int_equal(statvfs(p->dir, &fs), 0);
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

static int write_large(struct disk *d, uint64_t i)
{
    static uint8_t payload[8192 - FIXTURE_HEADER];
    struct prefix_info info = fixture_info(i);
    return disk_write(d, &info, payload);
}

static void test_tenth_of_free_space(void **state)
{
    struct place *p = *state;
    if (!mounted(p, "size=1m,mode=700")) skip();
    struct disk_config c = fixture_config(p);
    c.payload = 8192 - FIXTURE_HEADER; /* two pages a file */
    struct disk *d = fixture_open(&c);
    uint64_t i = 0, all = free_bytes(p), most = all / 10 / 8192, first = 0;
    for (; disk_room(d, false) == 0 && i < 1000; i++) assert_int_equal(write_large(d, i), 0);
    assert_int_equal(i, most);
    assert_int_equal(disk_room(d, true), 1);
    assert_int_equal(write_large(d, i), -EDQUOT);

    /* Another program takes half of the space: the tier must shrink to a tenth of the rest. */
    int junk = open(place_path(p, "junk"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(posix_fallocate(junk, 0, (off_t)all / 2), 0);
    for (; disk_room(d, true) == 1; first++) disk_remove(d, fixture_info(first).id);
    assert_int_equal(disk_room(d, true), 0);
    assert_int_equal(fixture_stats(d).files, (all - all / 2) / 10 / 8192 - 1);

    /* The other program takes all of the space. */
    assert_int_equal(posix_fallocate(junk, 0, (off_t)(all / 2 + free_bytes(p) / 4096 * 4096)), 0);
    for (; disk_room(d, true) == 1; first++) disk_remove(d, fixture_info(first).id);
    assert_int_equal(disk_room(d, true), -ENOSPC);
    assert_int_equal(fixture_stats(d).files, 0);
    assert_int_equal(ftruncate(junk, 0), 0);
    assert_int_equal(disk_room(d, true), 0);
    close(junk);
    disk_close(d);
}

/* Files are removed until the reserve is free again or no file is left. */
static void test_reserve(void **state)
{
    struct place *p = *state;
    if (!mounted(p, "size=1m,mode=700")) skip();
    struct disk_config c = fixture_config(p);
    c.payload = 8192 - FIXTURE_HEADER;
    c.reserve = 1 << 30; /* more than a twentieth of the file system, which is the limit */
    struct disk *d = fixture_open(&c);
    uint64_t part = (1 << 20) / 20, i = 0, first = 0;
    for (; disk_room(d, false) == 0 && i < 1000; i++) assert_int_equal(write_large(d, i), 0);
    assert_true(i > 5);
    assert_int_equal(disk_excess(d), 0);
    int junk = open(place_path(p, "junk"), O_RDWR | O_CREAT, 0600);
    off_t size = (off_t)(free_bytes(p) + i * 8192 - part - 8192) / 4096 * 4096; /* leaves room for about one file */
    while (posix_fallocate(junk, 0, size) != 0) {
        assert_true(first < i);
        disk_remove(d, fixture_info(first++).id);
    }
    assert_in_range(disk_excess(d), 0, i - first);
    for (; disk_excess(d); first++) disk_remove(d, fixture_info(first).id);
    assert_true(free_bytes(p) >= part);
    assert_true(fixture_stats(d).files <= 1);
    assert_int_equal(posix_fallocate(junk, 0, (off_t)((uint64_t)size + 3 * 4096)), 0);
    for (; disk_excess(d); first++) disk_remove(d, fixture_info(first).id);
    assert_int_equal(fixture_stats(d).files, 0);
    assert_int_equal(disk_room(d, true), -ENOSPC);
    assert_int_equal(write_large(d, 5), -EDQUOT);
    close(junk);
    disk_close(d);
}

/* A write fails in the middle of a file. */
static void test_full(void **state)
{
    struct place *p = *state;
    if (!mounted(p, "size=1m,nr_inodes=5,mode=700")) skip();
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    uint64_t n = 0;
    int r;
    while ((r = fixture_write(d, n)) == 0 && n < 100) n++;
    assert_int_equal(r, -ENOSPC);
    assert_non_null(strstr(error_text(r), p->dir));
    assert_true(n > 0);
    assert_int_equal(place_count(p, ""), n);
    assert_int_equal(fixture_stats(d).files, n);
    disk_remove(d, fixture_info(0).id);
    assert_int_equal(fixture_write(d, n), 0);
    disk_close(d);
}

/* A limit on file sizes cuts a file off at each possible byte. */
static void test_cut_short(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    struct rlimit old, less;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    less = old;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t n = 0; n < FIXTURE_FILE; n++) {
        less.rlim_cur = n;
        setrlimit(RLIMIT_FSIZE, &less);
        int r = fixture_write(d, 1);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(r, -EFBIG);
        assert_int_equal(place_count(*state, ""), 0);
        assert_int_equal(fixture_stats(d).files, 0);
        assert_int_equal(fixture_stats(d).written, 0);
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(fixture_write(d, 1), 0);
    assert_int_equal(fixture_read(d, 1), 0);
    disk_close(d);
}

/* --- rate --- */

static void test_rate_of_files(void **state)
{
    struct disk_config c = fixture_config(*state);
    c.bytes_a_minute = 1; /* the next one is due in hours */
    struct disk *d = fixture_open(&c);
    assert_int_equal(disk_room(d, false), 0);
    assert_int_equal(disk_room(d, false), 0); /* a question takes no tokens */
    assert_int_equal(fixture_write(d, 1), 0);
    assert_int_equal(disk_room(d, false), 2);
    assert_int_equal(disk_room(d, true), 0);
    assert_int_equal(fixture_write(d, 2), 0);
    disk_close(d);
}

/* The files written never exceed the bucket plus the tokens that flowed in, and use all of them. */
static void test_rate_bounds(void **state)
{
    uint64_t seed = 99, minute = 60000000000;
    for (int round = 0; round < 200; round++) {
        struct disk_rate r;
        uint64_t file = 1000 + fixture_random(&seed) % 3000000, rate = 1000 + fixture_random(&seed) % 100000000;
        uint64_t now = fixture_random(&seed) >> 8, start = now, files = 0, step = file * minute / rate / 2 + 1;
        disk_rate_init(&r, file, rate);
        for (int i = 0; i < 2000; i++, now += fixture_random(&seed) % step) {
            for (; disk_rate_ready(&r, now); files++) disk_rate_spend(&r, now);
            double bucket = (double)(rate > file ? rate : file);
            double due = bucket + (double)(now - start) * (double)rate / (double)minute;
            assert_true((double)files * (double)file <= due * 1.001);
            if (rate > 2 * file)
                assert_true((double)(files + 1) * (double)file >= due * 0.999); /* the bucket never overflowed */
        }
    }
}

static void test_rate_debt(void **state)
{
    struct disk_rate r;
    disk_rate_init(&r, 1000, 10000);
    uint64_t now = 5000000000, minute = 60000000000;
    for (int i = 0; i < 1000; i++) disk_rate_spend(&r, now); /* urgent writes ignore the rate */
    assert_false(disk_rate_ready(&r, now + minute + minute / 10 - 1));
    assert_true(disk_rate_ready(&r, now + minute + minute / 10));
    disk_rate_init(&r, 1000, 0);
    for (int i = 0; i < 1000; i++) disk_rate_spend(&r, now);
    assert_true(disk_rate_ready(&r, now));
    disk_rate_init(&r, UINT64_MAX, 1);
    assert_true(disk_rate_ready(&r, now));
    disk_rate_spend(&r, now);
    assert_false(disk_rate_ready(&r, now + minute * 1000));
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)
#define M(f) cmocka_unit_test_setup_teardown(f, place_setup, unmount_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_bytes_max),
        T(test_another_limit),
        T(test_removed_by_others),
        T(test_not_even_one),
        T(test_small_files),
        T(test_rate_of_small_files),
        T(test_smaller_limit),
        T(test_counts_add_up),
        M(test_tenth_of_free_space),
        M(test_reserve),
        M(test_full),
        T(test_cut_short),
        T(test_rate_of_files),
        cmocka_unit_test(test_rate_bounds),
        cmocka_unit_test(test_rate_debt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
