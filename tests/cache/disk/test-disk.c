/* SPDX-License-Identifier: MIT */
/* The disk tier: blocks are read back in the order of last use; the owner and mode of the directory. */
#include "daemon/cache/disk/disk-state.h"
#include "libcommon/error.h"
#include "tests/cache/disk/fixture.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- writes and reads --- */

static void test_round_trip(void **state)
{
    enum { N = 60 };
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < N; i++) assert_int_equal(fixture_write(d, i), 0);
    assert_int_equal(fixture_stats(d).written, N * FIXTURE_FILE);
    disk_close(d);
    d = fixture_open(&c);
    assert_int_equal(fixture_stats(d).files, N); /* before a scan */
    const struct fixture_found *f = fixture_scan(d);
    assert_int_equal(f->n, N);
    for (uint64_t i = 0; i < N; i++) {
        struct prefix_info want = fixture_info(i);
        fixture_same(&f->infos[i], &want);
        assert_int_equal(fixture_read(d, i), 0);
    }
    struct disk_stats s = fixture_stats(d);
    assert_true(s.files == N && s.bytes == N * FIXTURE_FILE && s.read == N * FIXTURE_FILE && !s.written && !s.damaged);
    assert_int_equal(place_count(*state, ""), N);
    disk_close(d);
}

/* An earlier hobd has written files with this layout: it must not change without a new DISK_FORMAT. */
static void test_layout(void **state)
{
    static const uint8_t sum[16] = {0x9e, 0x2c, 0x89, 0xf7, 0x44, 0xec, 0xbf, 0x5e,
                                    0x4e, 0x29, 0xc0, 0x67, 0x6c, 0x82, 0xfa, 0x58};
    uint8_t f[FIXTURE_FILE], payload[FIXTURE_PAYLOAD];
    struct prefix_info x = fixture_info(7);
    uint64_t words[4] = {x.id.high, x.id.low, x.parent.high, x.parent.low};
    fixture_bytes(*state, f, 7);
    assert_memory_equal(f, "hobblock\1\0\0\0", 12);
    assert_int_equal(f[12], x.n);
    assert_memory_equal(f + 13, "\0\0\0hob test disk 1", 19);
    for (int w = 0; w < 4; w++)
        for (int k = 0; k < 8; k++) assert_int_equal(f[32 + 8 * w + k], words[w] >> 8 * k & 255);
    assert_memory_equal(f + 64, x.namespace.bytes, 16);
    for (int k = 0; k < 4; k++) assert_int_equal(f[80 + k], x.uid >> 8 * k & 255);
    for (int t = 0; t < 32; t++)
        for (int k = 0; k < 4; k++) assert_int_equal(f[88 + 4 * t + k], (uint32_t)x.tokens[t] >> 8 * k & 255);
    assert_memory_equal(f + 216, "\54\1\0\0\0\0\0\0", 8); /* 300 */
    assert_memory_equal(f + 240, sum, 16);
    fixture_payload(payload, sizeof(payload), 7);
    assert_memory_equal(f + FIXTURE_HEADER, payload, sizeof(payload));
}

static void test_remove(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(fixture_write(d, i), 0);
    disk_remove(d, fixture_info(1).id);
    disk_remove(d, fixture_info(1).id);
    disk_remove(d, fixture_info(99).id);
    struct disk_stats s = fixture_stats(d);
    assert_true(s.files == 2 && s.bytes == 2 * FIXTURE_FILE && !s.damaged);
    assert_int_equal(fixture_read(d, 1), -ENOENT);
    assert_int_equal(fixture_read(d, 2), 0);
    assert_int_equal(place_count(*state, ".kv"), 2);
    assert_int_equal(fixture_write(d, 2), 0); /* replaces its own file */
    assert_int_equal(fixture_stats(d).files, 2);
    disk_close(d);
}

/* A read rejects the file when any field of @info differs from the header. */
static void test_read_wants_all_equal(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    uint8_t payload[FIXTURE_PAYLOAD];
    const struct prefix_info good = fixture_info(4);
    assert_int_equal(good.n, 32);
    for (int field = 0; field < 6 + 32; field++) {
        struct prefix_info x = good;
        if (field == 0) x.parent.high ^= 1;
        if (field == 1) x.parent.low ^= (uint64_t)1 << 63;
        if (field == 2) x.namespace.bytes[15] ^= 1;
        if (field == 3) x.namespace.bytes[0] ^= 128;
        if (field == 4) x.uid ^= 1;
        if (field == 5) x.n--;
        if (field >= 6) x.tokens[field - 6] ^= 1;
        assert_int_equal(fixture_write(d, 4), 0);
        assert_int_equal(fixture_read(d, 4), 0);
        assert_int_equal(disk_read(d, &x, payload), -EBADMSG);
        assert_non_null(strstr(error_text(-EBADMSG), block_path(*state, &good)));
        assert_int_equal(fixture_read(d, 4), -ENOENT);
        assert_int_equal(fixture_stats(d).damaged, field + 1);
    }
    disk_close(d);
}

/* --- order of last use --- */

static void expect_order(const struct disk_config *c, const uint64_t *want, size_t n)
{
    struct disk *d = fixture_open(c);
    const struct fixture_found *f = fixture_scan(d);
    assert_int_equal(f->n, n);
    for (size_t k = 0; k < n; k++) assert_int_equal(f->infos[k].id.low, want[k] + 1);
    disk_close(d);
}

static void test_order_of_use(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 6; i++) assert_int_equal(fixture_write(d, 5 - i), 0);
    assert_int_equal(fixture_read(d, 4), 0);
    assert_int_equal(fixture_read(d, 5), 0);
    assert_int_equal(fixture_read(d, 2), 0);
    disk_close(d);
    expect_order(&c, (uint64_t[]){3, 1, 0, 4, 5, 2}, 6);
    expect_order(&c, (uint64_t[]){3, 1, 0, 4, 5, 2}, 6); /* a scan is no use */
}

static void set_mtime(const struct place *p, uint64_t i, int64_t s)
{
    struct prefix_info info = fixture_info(i);
    struct timespec t[2] = {{.tv_sec = s}, {.tv_sec = s}};
    assert_int_equal(utimensat(AT_FDCWD, block_path(p, &info), t, 0), 0);
}

/* Mtimes in the future: a block used now still becomes the most recently used one, and so does each later one. */
static void test_clock_backwards(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(fixture_write(d, i), 0);
    disk_close(d);
    set_mtime(*state, 2, 4102444800); /* 2100 */
    set_mtime(*state, 3, -86400);
    expect_order(&c, (uint64_t[]){3, 0, 1, 2}, 4);
    d = fixture_open(&c);
    assert_int_equal(fixture_scan(d)->n, 4);
    assert_int_equal(fixture_read(d, 3), 0);
    assert_int_equal(fixture_write(d, 4), 0);
    assert_int_equal(fixture_read(d, 0), 0);
    disk_close(d);
    expect_order(&c, (uint64_t[]){1, 2, 3, 4, 0}, 5);
    for (int turn = 0; turn < 2; turn++) { /* two blocks never get the same mtime */
        d = fixture_open(&c);
        assert_int_equal(fixture_scan(d)->n, 5);
        for (uint64_t i = 0; i < 5; i++) assert_int_equal(fixture_read(d, turn ? 4 - i : i), 0);
        disk_close(d);
        expect_order(&c, turn ? (uint64_t[]){4, 3, 2, 1, 0} : (uint64_t[]){0, 1, 2, 3, 4}, 5);
    }
}

static void test_clock_extremes(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(fixture_write(d, i), 0);
    set_mtime(*state, 0, INT64_MAX / 2); /* the file system clamps the time */
    set_mtime(*state, 1, INT64_MIN / 2);
    assert_int_equal(fixture_scan(d)->n, 3);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(fixture_read(d, i), 0);
    assert_int_equal(fixture_write(d, 3), 0);
    assert_int_equal(fixture_scan(d)->n, 4);
    disk_close(d);
}

/* --- scanning --- */

static bool odd_only(void *ctx, struct prefix_info *info)
{
    return info->id.low % 2;
}

static void test_scan_removes_unwanted(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(fixture_write(d, i), 0);
    assert_int_equal(disk_scan(d, odd_only, NULL, NULL), 0);
    struct disk_stats s = fixture_stats(d);
    assert_true(s.files == 5 && s.bytes == 5 * FIXTURE_FILE && s.damaged == 0);
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(fixture_read(d, i), i % 2 ? -ENOENT : 0);
    disk_close(d);
}

struct stopper {
    atomic_bool stop;
    size_t n;
};

static bool stop_at_third(void *ctx, struct prefix_info *info)
{
    struct stopper *s = ctx;
    if (++s->n == 3) s->stop = true;
    return true;
}

static void test_scan_stops(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    struct stopper s = {.stop = true};
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(fixture_write(d, i), 0);
    assert_int_equal(disk_scan(d, stop_at_third, &s, &s.stop), -ECANCELED);
    assert_int_equal(s.n, 0);
    s.stop = false;
    assert_int_equal(disk_scan(d, stop_at_third, &s, &s.stop), -ECANCELED);
    assert_int_equal(s.n, 3);
    assert_int_equal(fixture_stats(d).files, 10);
    disk_close(d);
}

static void test_foreign_names_stay(void **state)
{
    static const char *const names[] = {"README",
                                        "lock",
                                        ".kv",
                                        "0123456789abcdef.kv",
                                        "0123456789ABCDEF0123456789abcdef.kv",
                                        "0123456789abcdef0123456789abcdef",
                                        "0123456789abcdef0123456789abcdef.kv2",
                                        "x123456789abcdef0123456789abcdef.kv",
                                        "0123456789abcdef0123456789abcdef0.kv",
                                        "new-.part",
                                        "weights.part"};
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    size_t n = sizeof(names) / sizeof(*names);
    for (size_t i = 0; i < n; i++) fixture_put(place_path(*state, names[i]), "mine", 4);
    assert_int_equal(fixture_scan(d)->n, 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(access(place_path(*state, names[i]), F_OK), 0);
    assert_int_equal(fixture_stats(d).files, 0);
    assert_int_equal(fixture_stats(d).damaged, 0);
    disk_close(d);
}

/* A scan removes temporary files of a crash and keeps files that are being written. */
static void test_parts(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 3; i++) fixture_put(place_path(*state, disk_part_name(d->run + 1 + i, i).s), "torn", i);
    fixture_put(place_path(*state, disk_part_name(d->run, 0).s), "busy", 4);
    assert_int_equal(fixture_scan(d)->n, 0);
    assert_int_equal(place_count(*state, ""), 1);
    assert_true(fixture_stats(d).files == 0 && fixture_stats(d).bytes == 0);
    assert_int_equal(access(place_path(*state, disk_part_name(d->run, 0).s), F_OK), 0);
    assert_int_equal(fixture_stats(d).damaged, 0);
    assert_int_equal(fixture_write(d, 1), 0); /* its first temporary name is taken */
    assert_int_equal(fixture_read(d, 1), 0);
    disk_close(d);
}

/* --- the directory --- */

static void expect_refused(const struct place *p, const char *dir, int error, const char *words)
{
    struct disk_config c = fixture_config(p);
    struct disk *d = NULL;
    c.dir = dir;
    assert_int_equal(disk_open(&d, &c), error);
    assert_null(d);
    assert_non_null(strstr(error_text(error), dir));
    assert_non_null(strstr(error_text(error), words));
}

static void test_directory_made(void **state)
{
    struct stat st;
    struct disk_config c = fixture_config(*state);
    char dir[256];
    snprintf(dir, sizeof(dir), "%s/a/b/c", ((struct place *)*state)->dir);
    c.dir = dir;
    struct disk *d = fixture_open(&c);
    assert_int_equal(fixture_write(d, 1), 0);
    disk_close(d);
    for (char *s = dir + strlen(dir); strlen(dir) > strlen(((struct place *)*state)->dir);
         *(s = strrchr(dir, '/')) = 0) {
        assert_int_equal(stat(dir, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
}

static void test_directory_refused(void **state)
{
    struct place *p = *state;
    fixture_put(place_path(p, "file"), "", 0);
    expect_refused(p, place_path(p, "file"), -ENOTDIR, "not a directory");
    assert_int_equal(chmod(p->dir, 0720), 0);
    expect_refused(p, p->dir, -EPERM, "writable by others");
    assert_int_equal(chmod(p->dir, 01702), 0);
    expect_refused(p, p->dir, -EPERM, "writable by others");
    assert_int_equal(chmod(p->dir, 0755), 0);
    struct disk_config c = fixture_config(p);
    disk_close(fixture_open(&c));
    expect_refused(p, "", -EINVAL, "empty");
}

static void test_directory_of_another(void **state)
{
    struct place *p = *state;
    if (geteuid() != 0) {
        expect_refused(p, "/", -EPERM, "belongs to uid 0");
        return;
    }
    assert_int_equal(chown(p->dir, 65534, 65534), 0);
    expect_refused(p, p->dir, -EPERM, "belongs to uid 65534");
}

static void test_directory_read_only(void **state)
{
    struct place *p = *state;
    bool root = geteuid() == 0;
    if (root) assert_int_equal(chown(p->dir, 65534, 65534), 0);
    assert_int_equal(chmod(p->dir, 0500), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    struct disk_config c = fixture_config(p);
    struct disk *d = NULL;
    int r = disk_open(&d, &c);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(r, -EACCES);
    assert_non_null(strstr(error_text(r), p->dir));
    assert_int_equal(chmod(p->dir, 0700), 0);
}

static void test_file_system_read_only(void **state)
{
    struct place *p = *state;
    if (mount("none", p->dir, "tmpfs", MS_RDONLY, "size=1m,mode=700") < 0) {
        print_message("skipped: no tmpfs can be mounted: %s\n", strerror(errno));
        skip();
    }
    struct disk_config c = fixture_config(p);
    struct disk *d = NULL;
    int r = disk_open(&d, &c);
    umount2(p->dir, MNT_DETACH);
    assert_int_equal(r, -EROFS);
    assert_non_null(strstr(error_text(r), p->dir));
}

static void test_two_openers(void **state)
{
    struct place *p = *state;
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    expect_refused(p, p->dir, -EBUSY, "another hobd");
    disk_close(d);
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (disk_open(&d, &c) == 0) (void)!write(ready[1], "", 1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    expect_refused(p, p->dir, -EBUSY, "another hobd");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    disk_close(fixture_open(&c)); /* the kernel releases the lock of a dead process */
}

static void test_too_large(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = NULL;
    c.payload = UINT64_MAX - 8;
    assert_int_equal(disk_open(&d, &c), -EINVAL);
    c.payload = (uint64_t)INT64_MAX - 8;
    assert_int_equal(disk_open(&d, &c), -EINVAL);
    assert_null(d);
    c.payload = SSIZE_MAX - 1 - FIXTURE_HEADER; /* a file can have so many bytes */
    disk_close(fixture_open(&c));
    c.payload++;
    assert_int_equal(disk_open(&d, &c), -EINVAL);
    assert_null(disk_close(NULL));
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_round_trip),
        T(test_layout),
        T(test_remove),
        T(test_read_wants_all_equal),
        T(test_order_of_use),
        T(test_clock_backwards),
        T(test_clock_extremes),
        T(test_scan_removes_unwanted),
        T(test_scan_stops),
        T(test_foreign_names_stay),
        T(test_parts),
        T(test_directory_made),
        T(test_directory_refused),
        T(test_directory_of_another),
        T(test_directory_read_only),
        T(test_file_system_read_only),
        T(test_two_openers),
        T(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
