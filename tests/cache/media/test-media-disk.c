/* SPDX-License-Identifier: MIT */
/* Also media-file: embeddings on disk are read back, and damaged and foreign files are removed. */
#include "daemon/cache/media/media-disk.h"
#include "daemon/cache/media/media-file.h"
#include "libcommon/error.h"
#include "tests/cache/media/fixture.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    bool no_memory;
} script;

int __real_embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim);
int __wrap_embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim);

int __wrap_embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim)
{
    return script.no_memory ? -ENOMEM : __real_embeddings_new(out, n, dim);
}

static void test_round_trip(void **state)
{
    const struct media_key k = fixture_key(5), none = fixture_key(6);
    struct media_disk *d = fixture_open(state, 100);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(fixture_put(d, 1000, i), 0);
    assert_int_equal(fixture_put(d, 1000, 3), 0); /* it exists */
    assert_true(fixture_stats(d).files == 10 && fixture_stats(d).bytes == 10 * FILE_BYTES);
    media_disk_close(d);
    d = fixture_open(state, 100);
    assert_true(fixture_stats(d).files == 10 && fixture_stats(d).damaged == 0);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(fixture_get(d, i), 0);
    assert_true(media_disk_has(d, &k) && media_disk_has(d, &none));
    assert_int_equal(fixture_get(d, 10), -ENOENT);
    assert_null(media_disk_close(d));
    assert_null(media_disk_close(NULL));
}

/* There are only so many files, whatever room there is. */
static void test_too_many_files(void **state)
{
    struct media_disk *d = fixture_open(state, 2 * MEDIA_ENTRIES_MAX);
    char first[128], kept[64];
    fixture_path(state, 0, first);
    snprintf(kept, sizeof(kept), "%s/kept", ((struct place *)*state)->dir);
    for (uint32_t i = 0; i <= MEDIA_ENTRIES_MAX; i++) {
        assert_int_equal(fixture_put(d, 7, i), 0);
        if (i == 0) assert_int_equal(link(first, kept), 0);
    }
    assert_int_equal(fixture_stats(d).files, MEDIA_ENTRIES_MAX);
    assert_int_equal(fixture_get(d, 0), -ENOENT); /* had to go for the last */
    assert_int_equal(fixture_get(d, 1), 0);
    assert_int_equal(fixture_get(d, MEDIA_ENTRIES_MAX), 0);
    media_disk_close(d);
    assert_int_equal(rename(kept, first), 0); /* one too many at the start */
    d = fixture_open(state, 2 * MEDIA_ENTRIES_MAX);
    assert_true(fixture_stats(d).files == MEDIA_ENTRIES_MAX && fixture_stats(d).damaged == 1);
    media_disk_close(d);
}

static void test_the_budget(void **state)
{
    struct media_disk *d = fixture_open(state, 5);
    assert_int_equal(fixture_put(d, 7, 100), 0);
    for (uint32_t i = 0; i < 9; i++) assert_int_equal(fixture_put(d, 8, i), 0);
    assert_int_equal(fixture_stats(d).files, 5);
    assert_int_equal(fixture_get(d, 100), 0); /* its user has one file only */
    for (uint32_t i = 0; i < 9; i++) assert_int_equal(fixture_get(d, i), i < 5 ? -ENOENT : 0);
    assert_int_equal(fixture_get(d, 5), 0); /* used */
    media_disk_close(d);
    d = fixture_open(state, 5);
    assert_int_equal(fixture_put(d, 8, 50), 0);
    assert_true(fixture_get(d, 5) == 0 && fixture_get(d, 6) == -ENOENT && fixture_get(d, 100) == 0 &&
                fixture_get(d, 50) == 0);
    media_disk_close(d);
    d = fixture_open(state, 0);
    assert_int_equal(fixture_put(d, 8, 51), -EDQUOT);
    media_disk_close(d);
}

/* One changed byte anywhere, or a size that is not the file's. */
static void test_damage(void **state)
{
    for (off_t at = 0; at <= FILE_BYTES; at += at < 96 ? 1 : 61) {
        struct media_disk *d = fixture_open(state, 100);
        char path[128], byte;
        assert_int_equal(fixture_put(d, 1, 0), 0);
        fixture_path(state, 0, path);
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &byte, 1, at), at < FILE_BYTES);
        byte ^= 1;
        if (at == FILE_BYTES)
            assert_int_equal(ftruncate(fd, FILE_BYTES - 1), 0);
        else
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        const bool seen_at_open = at < 96 || at == FILE_BYTES;
        if (at % 2) {
            media_disk_close(d);
            d = fixture_open(state, 100);
            assert_int_equal(fixture_stats(d).damaged, seen_at_open);
        }
        assert_int_equal(fixture_get(d, 0), at % 2 && seen_at_open ? -ENOENT : -EBADMSG);
        assert_int_equal(fixture_stats(d).files, 0);
        assert_int_equal(access(path, F_OK), -1);
        media_disk_close(d);
    }
}

static void test_foreign_files(void **state)
{
    struct media_disk *d = fixture_open(state, 100);
    char path[128], other[128];
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(fixture_put(d, 1, i), 0);
    media_disk_close(d);
    fixture_path(state, 0, path);
    fixture_path(state, 9, other);
    assert_int_equal(rename(path, other), 0); /* the contents of another key */
    fixture_path(state, 1, path);
    assert_int_equal(chmod(path, 0644), 0);
    fixture_path(state, 2, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    fixture_path(state, 7, path);
    strcpy(strrchr(path, '.'), ".part"); /* of a process that was killed */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(other, sizeof(other), "%s/notes", ((struct place *)*state)->sub);
    close(open(other, O_CREAT | O_WRONLY, 0600));
    d = fixture_open(state, 100);
    assert_true(fixture_stats(d).files == 1 && fixture_stats(d).damaged == 3);
    assert_int_equal(fixture_get(d, 3), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(other, F_OK), 0);
    const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = 1};
    struct media_disk *second;
    assert_int_equal(media_disk_open(&second, &c), -EBUSY);
    media_disk_close(d);
    assert_int_equal(chmod(c.dir, 0777), 0);
    assert_int_equal(media_disk_open(&second, &c), -EPERM);
}

/* A file that somebody removed is forgotten, and may be written again; one that cannot be read now stays. */
static void test_lost_files(void **state)
{
    const struct media_key k = fixture_key(1);
    struct media_disk *d = fixture_open(state, 100);
    struct rlimit files;
    char path[128];
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(fixture_put(d, 1, i), 0);
    fixture_path(state, 1, path);
    assert_int_equal(unlink(path), 0);
    assert_true(media_disk_has(d, &k));
    assert_int_equal(fixture_get(d, 1), -ENOENT);
    assert_false(media_disk_has(d, &k));
    assert_true(fixture_stats(d).files == 1 && fixture_stats(d).damaged == 0);
    assert_int_equal(fixture_put(d, 1, 1), 0);
    assert_int_equal(fixture_get(d, 1), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max}), 0);
    int r = fixture_get(d, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(r, -EMFILE);
    script.no_memory = true;
    r = fixture_get(d, 1);
    script.no_memory = false;
    assert_int_equal(r, -ENOMEM);
    assert_true(fixture_get(d, 1) == 0 && fixture_stats(d).files == 2 && fixture_stats(d).damaged == 0);
    media_disk_close(d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {TEST(test_round_trip), TEST(test_too_many_files), TEST(test_the_budget),
                                       TEST(test_damage),     TEST(test_foreign_files),  TEST(test_lost_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
