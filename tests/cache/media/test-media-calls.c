/* SPDX-License-Identifier: MIT */
/* Also media-file: headers and names at their limits, the budget at exact sizes, and each system call that fails or
 * does a part of its work. */
#include "daemon/cache/media/media-file.h"
#include "libcommon/error.h"
#include "tests/cache/media/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include "tests/support/warnings.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

static int flock_error; /* 0: the call works */

int __wrap_flock(int fd, int operation)
{
    errno = flock_error;
    return flock_error ? -1 : __real_flock(fd, operation);
}

static struct media_disk *beside; /* not NULL: a file of it is written while another one is */
static int beside_result;

int __real_futimens(int fd, const struct timespec times[2]);
int __wrap_futimens(int fd, const struct timespec times[2]);

int __wrap_futimens(int fd, const struct timespec times[2])
{
    struct media_disk *d = beside;
    beside = NULL;
    if (d) beside_result = fixture_put(d, 7, 2);
    return __real_futimens(fd, times);
}

/* --- files without a directory --- */

static int read_header(const struct media_file_header *made, uint64_t size, const char **wrong)
{
    struct media_file_header h = *made, got;
    XXH128_canonical_t c;
    char path[] = "/tmp/hob-media-file-XXXXXX";
    XXH128_canonicalFromHash(&c, XXH3_128bits(&h, offsetof(struct media_file_header, sum)));
    memcpy(h.sum, c.digest, 16);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, &h, sizeof(h)), sizeof(h));
    const int r = media_file_header_read(fd, size, &got, wrong);
    close(fd);
    return r;
}

/* Headers with right checksums. */
static void test_headers(void **state)
{
    static const struct {
        const char *magic;
        uint32_t format, n, dim;
        uint64_t size;
        const char *wrong;
    } cases[] = {
        {"hobembed", 1, 1, 1, 100, NULL},
        {"hobembed", 1, 1u << 14, 1u << 14, 96 + (uint64_t)(1u << 30), NULL},
        {"hobembee", 1, 1, 1, 100, "has no embeddings"},
        {"hobembed", 2, 1, 1, 100, "has another version"},
        {"hobembed", 1, 0, 1, 96, "has an invalid header"},
        {"hobembed", 1, 1, 0, 96, "has an invalid header"},
        {"hobembed", 1, 1u << 31, 1u << 31, 96, "has an invalid header"}, /* the product of their bytes is 2^64 */
        {"hobembed", 1, (1u << 28) + 1, 1, 96 + 4 * ((uint64_t)(1u << 28) + 1), "has an invalid header"},
        {"hobembed", 1, 1, 1, 99, "is truncated or has another size"},
        {"hobembed", 1, 1, 1, 101, "is truncated or has another size"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct media_file_header h = {.format = cases[i].format, .n = cases[i].n, .dim = cases[i].dim};
        const char *wrong = NULL;
        memcpy(h.magic, cases[i].magic, 8);
        assert_int_equal(read_header(&h, cases[i].size, &wrong), cases[i].wrong ? -EBADMSG : 0);
        if (cases[i].wrong) assert_string_equal(wrong, cases[i].wrong);
    }
}

static void check_name(const char *name, bool part)
{
    char changed[40];
    uint64_t got[2];
    bool is_part;
    assert_true(media_file_name_read(name, got, &is_part) && is_part == part);
    assert_true(got[0] == 0x0123456789abcdef && got[1] == 7);
    for (size_t at = 0; at < strlen(name); at++)
        for (int c = 0; c < 256; c++) {
            strcpy(changed, name);
            changed[at] = (char)c;
            const bool same = changed[at] == name[at], hex = c && strchr("0123456789abcdef", c);
            assert_true(media_file_name_read(changed, got, &is_part) == (at < 32 ? hex : same));
        }
    snprintf(changed, sizeof(changed), "%sx", name);
    assert_false(media_file_name_read(changed, got, &is_part));
}

static void test_names(void **state)
{
    const uint64_t name[2] = {0x0123456789abcdef, 7};
    check_name(media_file_name(name).s, false);
    check_name(media_part_name(name).s, true);
}

/* --- system calls --- */

static void expect(struct media_disk *d, uint64_t files, uint64_t damaged)
{
    const struct media_disk_stats s = fixture_stats(d);
    assert_true(s.files == files && s.bytes == files * FILE_BYTES && s.damaged == damaged);
}

static void test_in_parts(void **state)
{
    for (size_t most = 1; most < 500; most = most * 3 + 1)
        for (unsigned long n = 0; n < 3; n++) {
            struct media_disk *d = fixture_open(state, 100);
            const uint32_t number = (uint32_t)(most * 4 + n);
            calls_short(most);
            calls_stale(EINTR);
            calls_fail(CALL_WRITE, n, EINTR);
            assert_int_equal(fixture_put(d, 1, number), 0);
            calls_fail(CALL_READ, n, EINTR);
            assert_int_equal(fixture_get(d, number), 0);
            media_disk_close(d);
            d = fixture_open(state, 100);
            calls_end();
            assert_int_equal(fixture_get(d, number), 0);
            assert_int_equal(fixture_stats(d).damaged, 0);
            media_disk_close(d);
        }
}

static void test_write_fails(void **state)
{
    static const struct {
        enum call call;
        int error;
    } faults[] = {{CALL_WRITE, ENOSPC}, {CALL_WRITE, 0}, {CALL_RENAME, EIO}, {CALL_OPEN, EMFILE}};
    struct media_disk *d = fixture_open(state, 100);
    const struct media_key k = fixture_key(1);
    char path[128];
    for (size_t i = 0; i < 2 * sizeof(faults) / sizeof(*faults); i++) {
        calls_stale(faults[i / 2].error ? 0 : EINTR);
        calls_short(300);
        calls_fail(faults[i / 2].call, faults[i / 2].call == CALL_WRITE ? i % 2 : 0, faults[i / 2].error);
        const int r = fixture_put(d, 1, 1);
        assert_true(calls_end());
        assert_int_equal(r, faults[i / 2].error ? -faults[i / 2].error : -EIO);
        assert_non_null(strstr(error_text(r), "cannot write"));
        expect(d, 0, 0);
        assert_false(media_disk_has(d, &k));
        fixture_path(state, 1, path);
        assert_int_equal(access(path, F_OK), -1);
        strcpy(strrchr(path, '.'), ".part");
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(fixture_put(d, 1, 1), 0);
    expect(d, 1, 0);
    media_disk_close(d);
}

/* Another thread writes the same file: its temporary file stays. */
/* Files that are being written take room too. */
static void test_written_at_once(void **state)
{
    for (uint64_t room = 1; room <= 2; room++) {
        struct media_disk *d = fixture_open(state, room);
        beside = d;
        assert_int_equal(fixture_put(d, 7, 1 + 10 * (uint32_t)room), 0);
        assert_int_equal(beside_result, room == 1 ? -EDQUOT : 0);
        expect(d, room, 0);
        media_disk_close(d);
    }
}

static void test_written_twice(void **state)
{
    struct media_disk *d = fixture_open(state, 100);
    char path[128];
    fixture_path(state, 1, path);
    strcpy(strrchr(path, '.'), ".part");
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(fixture_put(d, 1, 1), -EEXIST);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fixture_put(d, 1, 1), 0);
    media_disk_close(d);
}

/* What says nothing about the file leaves it; what does removes it. */
static void test_read_fails(void **state)
{
    static const struct {
        enum call call;
        int error, r;
    } faults[] = {
        {CALL_OPEN, EMFILE, -EMFILE}, {CALL_OPEN, ENFILE, -ENFILE},  {CALL_OPEN, EIO, -EIO},
        {CALL_OPEN, ENOMEM, -ENOMEM}, {CALL_READ, EIO, -EIO},        {CALL_OPEN, ELOOP, -EBADMSG},
        {CALL_OPEN, ENXIO, -EBADMSG}, {CALL_OPEN, EACCES, -EBADMSG}, {CALL_READ, 0, -EBADMSG},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        for (unsigned long n = 0; n < (faults[i].call == CALL_READ ? 4 : 1); n++) {
            struct media_disk *d = fixture_open(state, 100);
            char path[128];
            assert_int_equal(fixture_put(d, 1, 1), 0);
            calls_short(60); /* the header in two reads */
            calls_stale(faults[i].error ? 0 : EINTR);
            calls_fail(faults[i].call, n, faults[i].error);
            assert_int_equal(fixture_get(d, 1), faults[i].r);
            assert_true(calls_end());
            const bool damaged = faults[i].r == -EBADMSG;
            expect(d, damaged ? 0 : 1, damaged);
            fixture_path(state, 1, path);
            assert_int_equal(access(path, F_OK), damaged ? -1 : 0);
            media_disk_close(d);
        }
}

/* Each call of opening fails once: the directory is not opened, or the file is indexed or stays. */
static void test_open_fails(void **state)
{
    static const enum call kinds[] = {CALL_OPEN, CALL_FSTAT, CALL_READ};
    struct media_disk *d = fixture_open(state, 100);
    assert_int_equal(fixture_put(d, 1, 1), 0);
    media_disk_close(d);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        for (unsigned long n = 0;; n++) {
            const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = 1000 * FILE_BYTES};
            d = NULL;
            calls_fail(kinds[i], n, EMFILE);
            const int r = media_disk_open(&d, &c);
            const bool failed = calls_end();
            if (r < 0) {
                assert_true(failed && r == -EMFILE && !d);
                continue;
            }
            if (kinds[i] != CALL_FSTAT) assert_int_equal(fixture_stats(d).damaged, 0);
            media_disk_close(d);
            d = fixture_open(state, 100);
            if (fixture_stats(d).files == 0) assert_int_equal(fixture_put(d, 1, 1), 0);
            media_disk_close(d);
            if (!failed) break;
        }
}

static void test_open_without_memory(void **state)
{
    struct media_disk *d = fixture_open(state, 100);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(fixture_put(d, 1, i), 0);
    media_disk_close(d);
    for (unsigned long n = 0;; n++) {
        const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = 1000 * FILE_BYTES};
        d = NULL;
        memory_fail(n);
        const int r = media_disk_open(&d, &c);
        if (!memory_end()) {
            assert_true(r == 0 && n > 1);
            break;
        }
        assert_true(r == -ENOMEM && !d);
    }
    expect(d, 3, 0);
    media_disk_close(d);
}

/* --- owners and contents --- */

static void test_not_ours(void **state)
{
    const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = 1000 * FILE_BYTES};
    char a[128], b[128];
    struct media_disk *d = fixture_open(state, 100);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(fixture_put(d, 1, i), 0);
    fixture_path(state, 0, a);
    fixture_path(state, 1, b);
    assert_int_equal(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), 0); /* each has the contents of the other */
    assert_int_equal(fixture_get(d, 0), -EBADMSG);
    assert_int_equal(fixture_get(d, 1), -EBADMSG);
    expect(d, 2, 2);
    fixture_path(state, 2, a);
    assert_int_equal(unlink(a), 0);
    assert_int_equal(mkfifo(a, 0600), 0);
    assert_int_equal(fixture_get(d, 2), -EBADMSG);
    assert_int_equal(access(a, F_OK), -1);
    if (geteuid() == 0) {
        fixture_path(state, 3, a);
        assert_int_equal(chown(a, 65534, 0), 0);
        assert_int_equal(fixture_get(d, 3), -EBADMSG);
        expect(d, 0, 4);
    }
    media_disk_close(d);
    if (geteuid() != 0) return;
    assert_int_equal(chown(c.dir, 65534, 0), 0);
    assert_int_equal(media_disk_open(&d, &c), -EPERM);
}

/* --- the budget --- */

static void test_budget(void **state)
{
    enum { RESERVE = 50000, ALL = 2000000, PART = ALL / 20 };
    static const struct {
        uint64_t bytes_max, reserve, free, all;
        int r;
    } cases[] = {
        {FILE_BYTES, 0, 1u << 30, 1u << 30, 0},
        {FILE_BYTES - 1, 0, 1u << 30, 1u << 30, -EDQUOT},
        {UINT64_MAX, 0, 10 * FILE_BYTES, 1u << 30, 0},
        {UINT64_MAX, 0, 10 * FILE_BYTES - 1, 1u << 30, -EDQUOT},
        {UINT64_MAX, RESERVE, RESERVE + FILE_BYTES, ALL, 0},
        {UINT64_MAX, RESERVE, RESERVE + FILE_BYTES - 1, ALL, -EDQUOT},
        {UINT64_MAX, RESERVE, RESERVE, ALL, -EDQUOT},
        {UINT64_MAX, RESERVE, RESERVE - 1, ALL, -EDQUOT},
        {UINT64_MAX, UINT64_MAX, PART + FILE_BYTES, ALL, 0},
        {UINT64_MAX, UINT64_MAX, PART + FILE_BYTES - 1, ALL, -EDQUOT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct media_disk_config c = {
            .dir = ((struct place *)*state)->sub, .bytes_max = cases[i].bytes_max, .reserve = cases[i].reserve};
        struct media_disk *d = NULL;
        char path[128];
        assert_int_equal(media_disk_open(&d, &c), 0);
        calls_space(cases[i].free, cases[i].all);
        assert_int_equal(fixture_put(d, 1, 1), cases[i].r);
        calls_end();
        media_disk_close(d);
        fixture_path(state, 1, path);
        unlink(path);
    }
}

static void test_file_system_does_not_tell(void **state)
{
    struct media_disk *d = fixture_open(state, 100);
    calls_fail(CALL_FSTATVFS, 0, EIO);
    assert_int_equal(fixture_put(d, 1, 1), -EDQUOT);
    assert_true(calls_end());
    expect(d, 0, 0);
    media_disk_close(d);
}

/* A file is not larger than what a read accepts. */
static void test_too_many_values(void **state)
{
    struct media_disk *d = fixture_open(state, UINT64_MAX / FILE_BYTES);
    const struct media_key k = fixture_key(1);
    struct embeddings few = {.n = (1u << 28) + 1, .dim = 1};
    assert_int_equal(media_disk_write(d, &k, 1, &few), -EFBIG);
    media_disk_close(d);
    d = fixture_open(state, 1);
    few.n--; /* which a file may have, but there is no room */
    assert_int_equal(media_disk_write(d, &k, 1, &few), -EDQUOT);
    expect(d, 0, 0);
    media_disk_close(d);
}

/* --- what is in the way --- */

static int open_disk(void **state, struct media_disk **d)
{
    const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = 1000 * FILE_BYTES};
    return media_disk_open(d, &c);
}

static void test_directory(void **state)
{
    const struct place *p = *state;
    struct media_disk *d = NULL;
    char file[64], below[80], want[128];
    snprintf(file, sizeof(file), "%s/file", p->dir);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    snprintf(below, sizeof(below), "%s/below", file);
    snprintf(want, sizeof(want), "%s is not a directory", file);
    assert_int_equal(media_disk_open(&d, &(struct media_disk_config){.dir = below}), -ENOTDIR);
    assert_string_equal(error_text(-ENOTDIR), want);
    flock_error = ENOLCK;
    assert_int_equal(open_disk(state, &d), -ENOLCK);
    assert_non_null(strstr(error_text(-ENOLCK), "cannot lock "));
    flock_error = EWOULDBLOCK;
    assert_int_equal(open_disk(state, &d), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), "is in use by another hobd"));
    flock_error = 0;
    assert_null(d);
}

/* Damaged files and what a crash left are removed; only the former are told of. A file that cannot be opened now stays.
 */
static void test_start_removes(void **state)
{
    char path[128];
    struct media_disk *d = fixture_open(state, 100);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(fixture_put(d, 1, i), 0);
    media_disk_close(d);
    fixture_path(state, 7, path);
    strcpy(strrchr(path, '.'), ".part");
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(warnings_begin(), 0);
    d = fixture_open(state, 100);
    assert_string_equal(warnings_end(), "");
    expect(d, 2, 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(fixture_put(d, 1, 7), 0); /* a whole file that did not get its name is removed, too */
    media_disk_close(d);
    char whole[128];
    fixture_path(state, 7, whole);
    assert_int_equal(rename(whole, path), 0);
    d = fixture_open(state, 100);
    expect(d, 2, 0);
    assert_int_equal(access(path, F_OK), -1);
    media_disk_close(d);
    fixture_path(state, 0, path);
    assert_int_equal(truncate(path, 50), 0);
    assert_int_equal(warnings_begin(), 0);
    d = fixture_open(state, 100);
    assert_non_null(strstr(warnings_end(), "/media: 1 damaged files were removed"));
    expect(d, 1, 1);
    media_disk_close(d);
    fixture_path(state, 1, path);
    calls_name(strrchr(path, '/') + 1);
    calls_fail(CALL_OPEN, 0, EMFILE);
    d = fixture_open(state, 100);
    assert_true(calls_end());
    expect(d, 0, 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(fixture_get(d, 1), 0); /* it can be read, though it is not counted */
    media_disk_close(d);
}

/* No file is left that the table does not have. */
static void test_write_without_memory(void **state)
{
    char path[128];
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct media_disk *d = fixture_open(state, 100);
        struct embeddings *e;
        const struct media_key k = fixture_key(1);
        assert_int_equal(embeddings_new(&e, N, DIM), 0);
        memory_fail(n);
        const int r = media_disk_write(d, &k, 1, e);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        expect(d, !failed, 0);
        fixture_path(state, 1, path);
        assert_int_equal(access(path, F_OK), failed ? -1 : 0);
        embeddings_unref(e);
        media_disk_close(d);
    }
}

/* --- times --- */

static time_t time_of(void **state, uint32_t number)
{
    char path[128];
    struct stat st;
    fixture_path(state, number, path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mtim.tv_sec;
}

/* A file has the time of its last use. The one that was used first gives room, also when the clock was set back. */
static void test_times(void **state)
{
    const time_t late_s = 4000000000;
    const struct timespec late[2] = {{.tv_sec = late_s}, {.tv_sec = late_s}};
    const time_t now = time(NULL);
    char path[128];
    struct media_disk *d = fixture_open(state, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(fixture_put(d, 1, i), 0);
    assert_in_range(time_of(state, 0), now - 5, now + 100);
    assert_int_equal(fixture_get(d, 0), 0);
    assert_int_equal(fixture_put(d, 1, 3), 0);
    assert_true(fixture_get(d, 1) == -ENOENT && fixture_get(d, 0) == 0);
    media_disk_close(d);
    fixture_path(state, 2, path);
    assert_int_equal(utimensat(AT_FDCWD, path, late, 0), 0);
    d = fixture_open(state, 3);
    assert_int_equal(fixture_get(d, 0), 0);
    assert_int_equal(fixture_get(d, 3), 0);
    assert_true(time_of(state, 0) >= late_s && time_of(state, 3) >= late_s);
    assert_int_equal(fixture_put(d, 1, 4), 0);
    assert_int_equal(fixture_get(d, 2), -ENOENT); /* its time is that of no use since */
    media_disk_close(d);
    d = fixture_open(state, 3);
    assert_int_equal(fixture_put(d, 1, 5), 0);
    assert_int_equal(fixture_get(d, 0), -ENOENT);
    media_disk_close(d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_names),
        TEST(test_in_parts),
        TEST(test_write_fails),
        TEST(test_written_at_once),
        TEST(test_written_twice),
        TEST(test_read_fails),
        TEST(test_open_fails),
        TEST(test_open_without_memory),
        TEST(test_not_ours),
        TEST(test_budget),
        TEST(test_file_system_does_not_tell),
        TEST(test_too_many_values),
        TEST(test_directory),
        TEST(test_start_removes),
        TEST(test_write_without_memory),
        TEST(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
