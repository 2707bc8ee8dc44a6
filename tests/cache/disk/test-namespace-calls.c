/* SPDX-License-Identifier: MIT */
/* The secret when system calls fail or do a part of what they are asked: no weak secret, and none replaces another. */
#include "daemon/cache/disk/namespace.h"
#include "daemon/model/partfile.h"
#include "libcommon/error.h"
#include "tests/cache/disk/fixture.h"
#include "tests/support/calls.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct namespace_secret before = {{1, 2, 3}};

/* Loading fails with @error; the secret is not set, and the directory has @files. */
static void expect_error(const struct place *p, int error, size_t files)
{
    struct namespace_secret s = before;
    const int r = namespace_secret_load(&s, p->dir);
    assert_true(calls_end());
    assert_int_equal(r, -error);
    assert_string_not_equal(error_text(r), strerror(error)); /* it has a message */
    assert_memory_equal(&s, &before, sizeof(s));
    assert_int_equal(place_count(p, ""), files);
}

static void expect_loads(const struct place *p, const struct namespace_secret *want)
{
    struct namespace_secret s = before;
    assert_int_equal(namespace_secret_load(&s, p->dir), 0);
    if (want) assert_memory_equal(&s, want, sizeof(s));
    assert_memory_not_equal(&s, &before, sizeof(s));
    assert_int_equal(place_count(p, ""), 1);
}

static void test_no_random_numbers(void **state)
{
    struct place *p = *state;
    struct namespace_secret s = before;
    calls_fail(CALL_RANDOM, 0, ENOSYS);
    assert_int_equal(namespace_secret_load(&s, NULL), -ENOSYS);
    calls_short(31);
    assert_int_equal(namespace_secret_load(&s, NULL), -EIO);
    calls_end();
    calls_fail(CALL_RANDOM, 0, ENOSYS);
    expect_error(p, ENOSYS, 0);
    calls_short(31);
    assert_int_equal(namespace_secret_load(&s, p->dir), -EIO);
    calls_end();
    assert_int_equal(place_count(p, ""), 0);
}

/* 0: write(2) wrote nothing. */
static void test_write_fails(void **state)
{
    static const int errors[] = {EIO, EDQUOT, ENOSPC, 0};
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        calls_fail(CALL_WRITE, 0, errors[i]);
        expect_error(*state, errors[i] ? errors[i] : ENOSPC, 0);
    }
    calls_fail(CALL_FSYNC, 0, EIO);
    expect_error(*state, EIO, 0);
    calls_fail(CALL_RENAME, 0, EIO);
    expect_error(*state, EIO, 0);
    expect_loads(*state, NULL);
}

/* Each open fails once: of the directory, of the secret, of its temporary file. */
static void test_open_fails(void **state)
{
    for (unsigned long n = 0;; n++) {
        struct place *p = *state;
        struct namespace_secret s = before;
        calls_fail(CALL_OPEN, n, EMFILE);
        const int r = namespace_secret_load(&s, p->dir);
        if (!calls_end()) {
            assert_true(r == 0 && n > 4);
            break;
        }
        if (r == 0) { /* no temporary file could be looked for */
            expect_loads(p, &s);
        } else {
            assert_int_equal(r, -EMFILE);
            assert_memory_equal(&s, &before, sizeof(s));
        }
        assert_true(unlink(place_path(p, "secret")) == 0 || errno == ENOENT);
        assert_int_equal(place_count(p, ""), 0);
    }
}

/* An error that says nothing about the file: it is neither refused for good nor made anew. */
static void test_secret_cannot_be_opened(void **state)
{
    static const int errors[] = {EMFILE, ENFILE, EACCES, EPERM, EIO, ENOMEM};
    struct place *p = *state;
    struct namespace_secret kept, s = before;
    assert_int_equal(namespace_secret_load(&kept, p->dir), 0);
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        calls_name("secret");
        calls_fail(CALL_OPEN, 0, errors[i]);
        expect_error(p, errors[i], 1);
        expect_loads(p, &kept);
        calls_stale(errors[i]);
        expect_loads(p, &kept);
        calls_end();
    }
    calls_stale(ELOOP);
    expect_loads(p, &kept);
    calls_stale(ENXIO);
    expect_loads(p, &kept);
    calls_stale(ENOENT);
    expect_loads(p, &kept);
    calls_end();
    static const int odd[] = {ELOOP, ENXIO};
    for (size_t i = 0; i < 2; i++) {
        calls_fail(CALL_OPEN, 1, odd[i]); /* behind the directory */
        assert_int_equal(namespace_secret_load(&s, p->dir), -EBADMSG);
        assert_true(calls_end());
        assert_non_null(strstr(error_text(-EBADMSG), "is not a regular file"));
    }
    expect_loads(p, &kept);
}

static void test_read_fails(void **state)
{
    struct place *p = *state;
    struct namespace_secret kept, s = before;
    assert_int_equal(namespace_secret_load(&kept, p->dir), 0);
    calls_fail(CALL_READ, 0, EIO);
    expect_error(p, EIO, 1);
    calls_fail(CALL_FSTAT, 0, EIO);
    expect_error(p, EIO, 1);
    for (size_t most = 0; most < 32; most++) { /* it became shorter after its size was checked */
        if (most)
            calls_short(most);
        else
            calls_fail(CALL_READ, 0, 0);
        assert_int_equal(namespace_secret_load(&s, p->dir), -EBADMSG);
        calls_end();
        assert_non_null(strstr(error_text(-EBADMSG), "is truncated"));
        assert_memory_equal(&s, &before, sizeof(s));
    }
    expect_loads(p, &kept);
}

/* Another process makes the secret between the look for it and the making: it stays. */
static void test_made_by_another(void **state)
{
    struct place *p = *state;
    struct namespace_secret kept;
    assert_int_equal(namespace_secret_load(&kept, p->dir), 0);
    calls_name("secret");
    calls_fail(CALL_OPEN, 0, ENOENT);
    expect_loads(p, &kept);
    assert_true(calls_end());
    expect_loads(p, &kept);
}

static struct {
    struct partfile file;
    unsigned sleeps;
    bool slow;
} maker;

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    assert_true(maker.file.fd > 0); /* there is another process */
    assert_true(time->tv_sec == 0 && time->tv_nsec == 1000000 && !left);
    if (++maker.sleeps < 3 || maker.slow) return 0;
    assert_int_equal(write(maker.file.fd, &before, sizeof(before)), sizeof(before));
    assert_int_equal(partfile_commit(&maker.file), 0);
    return 0;
}

/* While another process makes the secret, this one waits for it. */
static void test_waits_for_another(void **state)
{
    struct place *p = *state;
    struct namespace_secret s = {{0}};
    assert_int_equal(partfile_begin(&maker.file, p->dir, "secret"), 0);
    assert_int_equal(namespace_secret_load(&s, p->dir), 0);
    assert_int_equal(maker.sleeps, 3);
    assert_memory_equal(&s, &before, sizeof(s));
    partfile_end(&maker.file);
    maker.file = (struct partfile)PARTFILE_INIT;
}

static void test_does_not_wait_for_ever(void **state)
{
    struct place *p = *state;
    struct namespace_secret s = before;
    maker.slow = true;
    assert_int_equal(partfile_begin(&maker.file, p->dir, "secret"), 0);
    assert_int_equal(namespace_secret_load(&s, p->dir), -ENOENT);
    assert_non_null(strstr(error_text(-ENOENT), "/secret was removed by another program"));
    assert_memory_equal(&s, &before, sizeof(s));
    partfile_end(&maker.file);
    maker.file = (struct partfile)PARTFILE_INIT;
}

static void test_directory_cannot_be_made(void **state)
{
    struct place *p = *state;
    struct namespace_secret s = before;
    fixture_put(place_path(p, "file"), "", 0);
    assert_int_equal(namespace_secret_load(&s, place_path(p, "file/state")), -ENOTDIR);
    assert_non_null(strstr(error_text(-ENOTDIR), "/file is not a directory"));
    assert_memory_equal(&s, &before, sizeof(s));
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_no_random_numbers),
        T(test_write_fails),
        T(test_open_fails),
        T(test_secret_cannot_be_opened),
        T(test_read_fails),
        T(test_made_by_another),
        T(test_waits_for_another),
        T(test_does_not_wait_for_ever),
        T(test_directory_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
