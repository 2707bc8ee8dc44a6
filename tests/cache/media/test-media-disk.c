/* SPDX-License-Identifier: MIT */
/* Also media-file: embeddings on disk are read back, and damaged and foreign files are removed. */
#include "daemon/cache/media/media-disk.h"
#include "daemon/cache/media/media-file.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 4, DIM = 25, FILE_BYTES = 96 + N * DIM * 4 };

static struct {
    bool no_memory;
} script;

int __real_embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim);
int __wrap_embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim);

int __wrap_embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim)
{
    return script.no_memory ? -ENOMEM : __real_embeddings_new(out, n, dim);
}

struct place {
    char dir[40], sub[48];
};

static int setup(void **state)
{
    static struct place p;
    strcpy(p.dir, "/tmp/hob-media-XXXXXX");
    if (!mkdtemp(p.dir)) return -1;
    snprintf(p.sub, sizeof(p.sub), "%s/media", p.dir);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    char command[80];
    snprintf(command, sizeof(command), "rm -rf '%s'", ((struct place *)*state)->dir);
    return system(command);
}

static struct media_disk *open_disk(void **state, uint64_t files)
{
    const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = files * FILE_BYTES};
    struct media_disk *d = NULL;
    int r = media_disk_open(&d, &c);
    if (r < 0) fail_msg("%s", error_text(r));
    return d;
}

static struct media_key key_of(uint32_t number)
{
    struct media_key k = {.namespace = {3}};
    memcpy(k.digest, &number, sizeof(number));
    return k;
}

static int put(struct media_disk *d, uid_t uid, uint32_t number)
{
    struct embeddings *e;
    const struct media_key k = key_of(number);
    assert_int_equal(embeddings_new(&e, N, DIM), 0);
    for (int i = 0; i < N * DIM; i++) e->values[i] = (float)(number * 1000 + (unsigned)i);
    int r = media_disk_write(d, &k, uid, e);
    embeddings_unref(e);
    return r;
}

static int get(struct media_disk *d, uint32_t number)
{
    struct embeddings *e = NULL;
    const struct media_key k = key_of(number);
    int r = media_disk_read(d, &k, &e);
    assert_int_equal(r == 0, e != NULL);
    for (int i = 0; r == 0 && i < N * DIM; i++) assert_true(e->values[i] == (float)(number * 1000 + (unsigned)i));
    if (e) assert_true(e->n == N && e->dim == DIM);
    embeddings_unref(e);
    return r;
}

static struct media_disk_stats stats(struct media_disk *d)
{
    struct media_disk_stats s;
    media_disk_stats(d, &s);
    return s;
}

static void path_of(void **state, uint32_t number, char out[128])
{
    uint64_t name[2];
    const struct media_key k = key_of(number);
    media_name(&k, name);
    snprintf(out, 128, "%s/%s", ((struct place *)*state)->sub, media_file_name(name).s);
}

static void test_round_trip(void **state)
{
    const struct media_key k = key_of(5), none = key_of(6);
    struct media_disk *d = open_disk(state, 100);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(put(d, 1000, i), 0);
    assert_int_equal(put(d, 1000, 3), 0); /* it is there */
    assert_true(stats(d).files == 10 && stats(d).bytes == 10 * FILE_BYTES);
    media_disk_close(d);
    d = open_disk(state, 100);
    assert_true(stats(d).files == 10 && stats(d).damaged == 0);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(get(d, i), 0);
    assert_true(media_disk_has(d, &k) && media_disk_has(d, &none));
    assert_int_equal(get(d, 10), -ENOENT);
    assert_null(media_disk_close(d));
    assert_null(media_disk_close(NULL));
}

static void test_the_budget(void **state)
{
    struct media_disk *d = open_disk(state, 5);
    assert_int_equal(put(d, 7, 100), 0);
    for (uint32_t i = 0; i < 9; i++) assert_int_equal(put(d, 8, i), 0);
    assert_int_equal(stats(d).files, 5);
    assert_int_equal(get(d, 100), 0); /* its user has one file only */
    for (uint32_t i = 0; i < 9; i++) assert_int_equal(get(d, i), i < 5 ? -ENOENT : 0);
    assert_int_equal(get(d, 5), 0); /* used */
    media_disk_close(d);
    d = open_disk(state, 5);
    assert_int_equal(put(d, 8, 50), 0);
    assert_true(get(d, 5) == 0 && get(d, 6) == -ENOENT && get(d, 100) == 0 && get(d, 50) == 0);
    media_disk_close(d);
    d = open_disk(state, 0);
    assert_int_equal(put(d, 8, 51), -EDQUOT);
    media_disk_close(d);
}

/* One changed byte anywhere, or a size that is not the file's. */
static void test_damage(void **state)
{
    for (off_t at = 0; at <= FILE_BYTES; at += at < 96 ? 1 : 61) {
        struct media_disk *d = open_disk(state, 100);
        char path[128], byte;
        assert_int_equal(put(d, 1, 0), 0);
        path_of(state, 0, path);
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
            d = open_disk(state, 100);
            assert_int_equal(stats(d).damaged, seen_at_open);
        }
        assert_int_equal(get(d, 0), at % 2 && seen_at_open ? -ENOENT : -EBADMSG);
        assert_int_equal(stats(d).files, 0);
        assert_int_equal(access(path, F_OK), -1);
        media_disk_close(d);
    }
}

static void test_foreign_files(void **state)
{
    struct media_disk *d = open_disk(state, 100);
    char path[128], other[128];
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(put(d, 1, i), 0);
    media_disk_close(d);
    path_of(state, 0, path);
    path_of(state, 9, other);
    assert_int_equal(rename(path, other), 0); /* the contents of another key */
    path_of(state, 1, path);
    assert_int_equal(chmod(path, 0644), 0);
    path_of(state, 2, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    path_of(state, 7, path);
    strcpy(strrchr(path, '.'), ".part"); /* of a process that was killed */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(other, sizeof(other), "%s/notes", ((struct place *)*state)->sub);
    close(open(other, O_CREAT | O_WRONLY, 0600));
    d = open_disk(state, 100);
    assert_true(stats(d).files == 1 && stats(d).damaged == 3);
    assert_int_equal(get(d, 3), 0);
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
    const struct media_key k = key_of(1);
    struct media_disk *d = open_disk(state, 100);
    struct rlimit files;
    char path[128];
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(put(d, 1, i), 0);
    path_of(state, 1, path);
    assert_int_equal(unlink(path), 0);
    assert_true(media_disk_has(d, &k));
    assert_int_equal(get(d, 1), -ENOENT);
    assert_false(media_disk_has(d, &k));
    assert_true(stats(d).files == 1 && stats(d).damaged == 0);
    assert_int_equal(put(d, 1, 1), 0);
    assert_int_equal(get(d, 1), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max}), 0);
    int r = get(d, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(r, -EMFILE);
    script.no_memory = true;
    r = get(d, 1);
    script.no_memory = false;
    assert_int_equal(r, -ENOMEM);
    assert_true(get(d, 1) == 0 && stats(d).files == 2 && stats(d).damaged == 0);
    media_disk_close(d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_round_trip), TEST(test_the_budget), TEST(test_damage),
                                       TEST(test_foreign_files), TEST(test_lost_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
