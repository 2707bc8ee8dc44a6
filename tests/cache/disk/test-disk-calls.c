/* SPDX-License-Identifier: MIT */
/* The disk tier when system calls and allocations fail, are interrupted or do a part of what they are asked: a valid
 * file stays, an incomplete one is not taken for valid, and the counts stay right. */
#include "daemon/cache/disk/disk-state.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "tests/cache/disk/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include "tests/support/warnings.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool types_unknown; /* as on some file systems */
static bool readdir_fails;

static int flock_error; /* 0: the call works */

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
    errno = flock_error;
    return flock_error ? -1 : __real_flock(fd, operation);
}

struct dirent64 *__real_readdir64(DIR *dir);
struct dirent64 *__wrap_readdir64(DIR *dir);

struct dirent64 *__wrap_readdir64(DIR *dir)
{
    struct dirent64 *e = readdir_fails ? NULL : __real_readdir64(dir);
    if (readdir_fails) errno = EIO;
    if (e && types_unknown) e->d_type = DT_UNKNOWN;
    return e;
}

static struct disk *open_plain(const struct place *p)
{
    struct disk_config c = fixture_config(p);
    return fixture_open(&c);
}

static bool none(void *ctx, struct prefix_info *info)
{
    fail_msg("a block was found");
    return true;
}

static void expect_files(const struct place *p, const struct disk *d, size_t n)
{
    const struct disk_stats s = fixture_stats(d);
    assert_true(s.files == n && s.bytes == n * FIXTURE_FILE);
    assert_int_equal(place_count(p, ""), n);
}

/* --- reads and writes --- */

static void test_in_parts(void **state)
{
    static const size_t most[] = {1, 100, 255, 256, 257, 555};
    struct disk *d = open_plain(*state);
    for (size_t i = 0; i < sizeof(most) / sizeof(*most); i++)
        for (unsigned long interrupted = 0; interrupted < 3; interrupted++) {
            calls_short(most[i]);
            calls_stale(EINTR);
            calls_fail(CALL_WRITE, interrupted, EINTR);
            assert_int_equal(fixture_write(d, i), 0);
            calls_fail(CALL_READ, interrupted, EINTR);
            assert_int_equal(fixture_read(d, i), 0);
            calls_fail(CALL_READ, interrupted, EINTR);
            assert_int_equal(fixture_scan(d)->n, i + 1);
            calls_end();
            assert_int_equal(fixture_read(d, i), 0);
        }
    expect_files(*state, d, sizeof(most) / sizeof(*most));
    disk_close(d);
}

/* 0: write(2) wrote nothing. */
static void test_write_fails(void **state)
{
    static const int errors[] = {ENOSPC, EIO, EDQUOT, 0};
    struct disk *d = open_plain(*state);
    for (size_t i = 0; i < 2 * sizeof(errors) / sizeof(*errors); i++) {
        const int error = errors[i / 2];
        calls_short(300);
        calls_stale(error ? 0 : EINTR);
        calls_fail(CALL_WRITE, i % 2, error);
        const int r = fixture_write(d, 1);
        assert_true(calls_end());
        assert_int_equal(r, error ? -error : -EIO);
        assert_non_null(strstr(error_text(r), ".kv"));
        expect_files(*state, d, 0);
        assert_int_equal(fixture_read(d, 1), -ENOENT);
    }
    calls_fail(CALL_RENAME, 0, EIO);
    assert_int_equal(fixture_write(d, 1), -EIO);
    calls_fail(CALL_OPEN, 0, EMFILE);
    assert_int_equal(fixture_write(d, 1), -EMFILE);
    calls_end();
    expect_files(*state, d, 0);
    calls_fail(CALL_UNLINK, 0, EIO);
    assert_int_equal(fixture_write(d, 1), 0);
    assert_false(calls_end());       /* nothing is left to remove */
    calls_fail(CALL_RENAME, 0, EIO); /* the file stays as it was */
    assert_int_equal(fixture_write(d, 1), -EIO);
    assert_true(calls_end());
    expect_files(*state, d, 1);
    assert_int_equal(fixture_read(d, 1), 0);
    disk_close(d);
}

/* A file that the disk cannot read, or that becomes shorter after its size was checked (0), is damaged. */
static void test_read_fails(void **state)
{
    static const int errors[] = {EIO, 0};
    struct disk *d = open_plain(*state);
    for (unsigned i = 0; i < 16; i++) { /* a scan reads the head twice: with the parts of runs it has */
        assert_int_equal(fixture_write(d, 1), 0);
        calls_short(200);
        calls_stale(i % 2 ? EINTR : 0);
        calls_fail(CALL_READ, i / 4 % (i & 2 ? 4 : 3), errors[i % 2]);
        assert_int_equal(warnings_begin(), 0);
        const int r = i & 2 ? disk_scan(d, none, NULL, NULL) : fixture_read(d, 1);
        assert_true(calls_end());
        const char *heard = warnings_end();
        assert_int_equal(r, i & 2 ? 0 : -EBADMSG);
        assert_non_null(strstr(i & 2 ? heard : error_text(r), "cannot be read"));
        assert_int_equal(fixture_stats(d).damaged, i + 1);
        expect_files(*state, d, 0);
    }
    disk_close(d);
}

/* --- opening --- */

/* @words: the file is damaged; NULL: the error says nothing about the file, and it stays. */
static void expect_open(const struct place *p, int error, enum call call, const char *words)
{
    struct disk *d = open_plain(p);
    for (int scan = 0; scan < 2; scan++) {
        const int want = !words ? -error : scan ? 0 : -EBADMSG;
        assert_int_equal(fixture_write(d, 1), 0);
        calls_name(".kv");
        calls_fail(call, 0, error);
        const int r = scan ? disk_scan(d, none, NULL, NULL) : fixture_read(d, 1);
        assert_true(calls_end());
        assert_int_equal(r, want);
        if (words && !scan) assert_non_null(strstr(error_text(r), words));
        expect_files(p, d, words ? 0 : 1);
    }
    disk_close(d);
}

static void test_open_fails(void **state)
{
    static const int passing[] = {EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN, EBUSY};
    for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++) expect_open(*state, passing[i], CALL_OPEN, NULL);
    expect_open(*state, EIO, CALL_FSTAT, NULL);
    expect_open(*state, ENOMEM, CALL_FSTAT, NULL);
    expect_open(*state, ELOOP, CALL_OPEN, "is not a regular file");
    expect_open(*state, ENXIO, CALL_OPEN, "is not a regular file");
    expect_open(*state, EACCES, CALL_OPEN, "is accessible to other users");
    expect_open(*state, EPERM, CALL_OPEN, "is accessible to other users");
    expect_open(*state, EIO, CALL_OPEN, "cannot be read");
}

/* Others remove a file: the read counts again. */
static void test_open_finds_nothing(void **state)
{
    struct disk *d = open_plain(*state);
    const struct prefix_info gone = fixture_info(1);
    assert_int_equal(fixture_write(d, 0), 0);
    assert_int_equal(fixture_write(d, 1), 0);
    calls_name(".kv");
    calls_fail(CALL_OPEN, 0, ENOENT); /* removed since the names were listed */
    assert_int_equal(fixture_scan(d)->n, 1);
    assert_true(calls_end());
    expect_files(*state, d, 2);
    assert_int_equal(unlink(block_path(*state, &gone)), 0);
    assert_int_equal(fixture_read(d, 1), -ENOENT);
    expect_files(*state, d, 1);
    disk_close(d);
}

/* errno is no result of a call that succeeds. */
static void test_stale_errno(void **state)
{
    static const int stale[] = {ENOENT, ELOOP, ENXIO, EACCES, EPERM, EIO, EINTR, EEXIST, EMFILE};
    for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
        calls_stale(stale[i]);
        struct disk *d = open_plain(*state);
        assert_int_equal(fixture_write(d, 1), 0);
        assert_int_equal(fixture_read(d, 1), 0);
        assert_int_equal(fixture_scan(d)->n, 1);
        expect_files(*state, d, 1);
        disk_close(d);
        calls_end();
    }
}

/* Each call of disk_open fails once. */
static void test_disk_open(void **state)
{
    static const enum call kinds[] = {CALL_OPEN, CALL_FSTAT, CALL_RANDOM};
    const struct disk_config c = fixture_config(*state);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        for (unsigned long n = 0;; n++) {
            struct disk *d = NULL;
            calls_fail(kinds[i], n, ENFILE);
            const int r = disk_open(&d, &c);
            if (!calls_end()) {
                assert_int_equal(r, 0);
                disk_close(d);
                assert_true(n > 0);
                break;
            }
            assert_int_equal(r, -ENFILE);
            assert_null(d);
        }
    struct disk *d = NULL;
    calls_short(4); /* of the random number's 8 bytes */
    assert_int_equal(disk_open(&d, &c), -EIO);
    assert_null(d);
    calls_end();
    flock_error = ENOLCK;
    assert_int_equal(disk_open(&d, &c), -ENOLCK);
    assert_non_null(strstr(error_text(-ENOLCK), "cannot lock "));
    flock_error = EWOULDBLOCK;
    assert_int_equal(disk_open(&d, &c), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), "is in use by another hobd"));
    flock_error = 0;
    assert_null(d);
}

static void test_list_fails(void **state)
{
    struct disk *d = open_plain(*state);
    assert_int_equal(fixture_write(d, 1), 0);
    calls_name(".");
    calls_fail(CALL_OPEN, 0, EMFILE);
    const int r = disk_scan(d, none, NULL, NULL);
    assert_true(calls_end());
    assert_int_equal(r, -EMFILE);
    assert_non_null(strstr(error_text(r), "cannot list"));
    readdir_fails = true;
    assert_int_equal(disk_scan(d, none, NULL, NULL), -EIO);
    readdir_fails = false;
    expect_files(*state, d, 1);
    disk_close(d);
}

static ino_t inode_of(const struct place *p, uint64_t i)
{
    const struct prefix_info info = fixture_info(i);
    struct stat st;
    assert_int_equal(stat(block_path(p, &info), &st), 0);
    return st.st_ino;
}

/* One warning with the numbers of damaged files and what is wrong with the first of them. */
static void test_scan_tells(void **state)
{
    const struct place *p = *state;
    for (unsigned long which = 0; which < 2; which++) { /* the file that cannot be removed */
        struct disk *d = open_plain(p);
        char want[400];
        for (uint64_t i = 1; i <= 2; i++) {
            const struct prefix_info info = fixture_info(i);
            assert_int_equal(fixture_write(d, i), 0);
            assert_int_equal(truncate(block_path(p, &info), FIXTURE_FILE - 1), 0);
        }
        const struct prefix_info first = fixture_info(inode_of(p, 1) < inode_of(p, 2) ? 1 : 2);
        calls_fail(CALL_UNLINK, which, EIO);
        assert_int_equal(warnings_begin(), 0);
        assert_int_equal(fixture_scan(d)->n, 0);
        assert_true(calls_end());
        snprintf(
            want, sizeof(want),
            "%s: of the KV blocks kept there 1 were no good and are removed, 1 cannot be; the first: %s is truncated "
            "or has another size\n",
            p->dir, strrchr(block_path(p, &first), '/') + 1);
        assert_non_null(strstr(warnings_end(), want));
        calls_fail(CALL_UNLINK, 0, EIO);
        assert_int_equal(warnings_begin(), 0);
        assert_int_equal(fixture_scan(d)->n, 0);
        assert_true(calls_end());
        assert_non_null(strstr(warnings_end(), "there 0 were no good and are removed, 1 cannot be"));
        assert_int_equal(warnings_begin(), 0);
        assert_int_equal(fixture_scan(d)->n, 0);
        assert_non_null(strstr(warnings_end(), "there 1 were no good and are removed, 0 cannot be"));
        assert_int_equal(warnings_begin(), 0);
        assert_int_equal(fixture_scan(d)->n, 0);
        assert_string_equal(warnings_end(), "");
        expect_files(p, d, 0);
        disk_close(d);
    }
}

/* A scan that is stopped reads no file. */
static void test_stopped(void **state)
{
    const atomic_bool stop = true;
    struct disk *d = open_plain(*state);
    assert_int_equal(fixture_write(d, 1), 0);
    calls_name(".kv");
    calls_fail(CALL_OPEN, 100, EIO);
    assert_int_equal(disk_scan(d, none, NULL, &stop), -ECANCELED);
    assert_int_equal(calls_count(CALL_OPEN), 0);
    calls_end();
    disk_close(d);
}

/* Opening a device can have side effects. Where the type is not known before, opening tells it. */
static void test_types(void **state)
{
    const struct prefix_info odd = fixture_info(7);
    for (int unknown = 0; unknown < 2; unknown++) {
        struct disk *d = open_plain(*state);
        assert_int_equal(mkfifo(block_path(*state, &odd), 0600), 0);
        assert_int_equal(fixture_write(d, 1), 0);
        types_unknown = unknown;
        calls_name(".kv");
        calls_fail(CALL_OPEN, 100, EIO);
        assert_int_equal(fixture_scan(d)->n, 1);
        assert_int_equal(calls_count(CALL_OPEN), 1 + unknown);
        types_unknown = false;
        calls_end();
        assert_int_equal(fixture_stats(d).damaged, 1);
        expect_files(*state, d, 1);
        disk_close(d);
    }
}

/* --- memory --- */

static void test_memory(void **state)
{
    const struct disk_config c = fixture_config(*state);
    const struct item_run run = {.at = 0, .n = 1, .kind = ITEM_IMAGE};
    uint8_t payload[FIXTURE_PAYLOAD] = {0};
    struct prefix_info with_run = fixture_info(4);
    struct disk *d = NULL;
    int r = -ENOMEM;
    for (unsigned long n = 0; r; n++) {
        memory_fail(n);
        r = disk_open(&d, &c);
        if (!memory_end()) break;
        assert_true(r == -ENOMEM && !d);
    }
    with_run.tokens[0] = ITEM_EMBD;
    with_run.runs = &run;
    with_run.n_runs = 1;
    assert_int_equal(disk_write(d, &with_run, payload), 0);
    unsigned long n = 0;
    for (;; n++) {
        memory_fail(n);
        r = disk_scan(d, none, NULL, NULL);
        if (r != -ENOMEM) break;
        assert_true(memory_end());
        assert_int_equal(place_count(*state, ".kv"), 1);
        if (n == 2) break; /* the list, the table and the runs; a fourth would find the block */
    }
    assert_int_equal(n, 2);
    disk_close(d);
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_in_parts),           T(test_write_fails), T(test_read_fails), T(test_open_fails),
        T(test_open_finds_nothing), T(test_stale_errno), T(test_disk_open),  T(test_list_fails),
        T(test_scan_tells),         T(test_stopped),     T(test_types),      T(test_memory),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
