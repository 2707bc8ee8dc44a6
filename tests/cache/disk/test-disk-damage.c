/* SPDX-License-Identifier: MIT */
/* The disk tier: a scan and a read ignore, remove and count damaged files. */
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "tests/cache/disk/fixture.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#define BLOCK 4 /* has 32 tokens */
#define OTHER 5

/* Puts @n bytes under the name of BLOCK, beside OTHER, which is valid. A scan and a read must reject BLOCK. */
static void expect_bad(const struct place *p, const uint8_t *bytes, size_t n)
{
    struct prefix_info info = fixture_info(BLOCK);
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    const char *path = block_path(p, &info);
    fixture_put(path, bytes, n);
    const struct fixture_found *f = fixture_scan(d);
    assert_int_equal(f->n, 1);
    assert_int_equal(f->infos[0].id.low, OTHER + 1);
    assert_int_equal(access(path, F_OK), -1);
    struct disk_stats s = fixture_stats(d);
    assert_true(s.files == 1 && s.bytes == FIXTURE_FILE && s.damaged == 1);
    fixture_put(path, bytes, n);
    assert_int_equal(fixture_read(d, BLOCK), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), path));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(fixture_stats(d).damaged, 2);
    disk_close(d);
}

/* The valid bytes of BLOCK; OTHER exists. */
static void begin(const struct place *p, uint8_t bytes[FIXTURE_FILE + 1])
{
    struct disk_config c = fixture_config(p);
    fixture_bytes(p, bytes, BLOCK);
    bytes[FIXTURE_FILE] = 0;
    struct disk *d = fixture_open(&c);
    assert_int_equal(fixture_write(d, OTHER), 0);
    disk_close(d);
}

static void test_truncated(void **state)
{
    uint8_t bytes[FIXTURE_FILE + 1];
    begin(*state, bytes);
    for (size_t n = 0; n <= FIXTURE_FILE + 1; n++)
        if (n != FIXTURE_FILE) {
            expect_bad(*state, bytes, n);
            assert_non_null(strstr(error_text(-EBADMSG), "is truncated or has another size"));
        }
    fixture_put(place_path(*state, "good"), bytes, FIXTURE_FILE); /* the bytes themselves are valid */
    struct prefix_info info = fixture_info(BLOCK);
    struct disk_config c = fixture_config(*state);
    assert_int_equal(rename(place_path(*state, "good"), block_path(*state, &info)), 0);
    struct disk *d = fixture_open(&c);
    assert_int_equal(fixture_scan(d)->n, 2);
    assert_int_equal(fixture_read(d, BLOCK), 0);
    disk_close(d);
}

static void test_every_header_byte(void **state)
{
    uint8_t bytes[FIXTURE_FILE + 1];
    begin(*state, bytes);
    for (size_t i = 0; i < FIXTURE_HEADER; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        expect_bad(*state, bytes, FIXTURE_FILE);
        bytes[i] ^= (uint8_t)(1 << i % 8);
        bytes[i] ^= 255;
        expect_bad(*state, bytes, FIXTURE_FILE);
        bytes[i] ^= 255;
    }
}

/* A scan ignores the payload; a read detects a change of each bit. */
static void test_payload_bits(void **state)
{
    uint8_t bytes[FIXTURE_FILE + 1];
    struct prefix_info info = fixture_info(BLOCK);
    struct disk_config c = fixture_config(*state);
    begin(*state, bytes);
    struct disk *d = fixture_open(&c);
    for (size_t bit = 0; bit < 8 * FIXTURE_PAYLOAD; bit++) {
        uint8_t *b = bytes + FIXTURE_HEADER + bit / 8;
        *b ^= (uint8_t)(1 << bit % 8);
        fixture_put(block_path(*state, &info), bytes, FIXTURE_FILE);
        if (bit % 101 == 0) assert_int_equal(fixture_scan(d)->n, 2);
        assert_int_equal(fixture_read(d, BLOCK), -EBADMSG);
        assert_int_equal(fixture_read(d, BLOCK), -ENOENT);
        *b ^= (uint8_t)(1 << bit % 8);
    }
    disk_close(d);
}

/* Headers with right checksums that hobd never writes. */
static void test_made_up_headers(void **state)
{
    static const struct {
        size_t at;
        uint8_t xor ;
    } changes[] = {
        {0, 1},     /* magic */
        {8, 3},     /* version 2 */
        {11, 1},    /* version 2^24 + 1 */
        {12, 32},   /* no token */
        {12, 1},    /* 33 */
        {15, 128},  /* 2^31 + 32 */
        {16, 1},    /* identity */
        {31, 1},    /* its last byte */
        {32, 1},    /* id */
        {40, 1},    /* id */
        {84, 1},    /* the zero field */
        {216, 1},   /* payload */
        {223, 128}, /* payload + 2^63 */
    };
    uint8_t bytes[FIXTURE_FILE + 1];
    begin(*state, bytes);
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        bytes[changes[i].at] ^= changes[i].xor ;
        if (changes[i].at == 12 && changes[i].xor == 1) bytes[12] = 33;
        fixture_resum(bytes);
        expect_bad(*state, bytes, FIXTURE_FILE);
        bytes[changes[i].at] ^= changes[i].xor ;
        if (changes[i].at == 12) bytes[12] = 32;
    }
    bytes[12] = 31; /* a token after the last one is not 0 */
    fixture_resum(bytes);
    expect_bad(*state, bytes, FIXTURE_FILE);
    bytes[12] = 32;
    memcpy(bytes + 48, bytes + 32, 16); /* its own parent */
    fixture_resum(bytes);
    expect_bad(*state, bytes, FIXTURE_FILE);
}

static void test_other_model(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(fixture_write(d, i), 0);
    disk_close(d);
    c.identity[15] ^= 1;
    d = fixture_open(&c);
    assert_int_equal(fixture_stats(d).files, 5);
    assert_int_equal(fixture_read(d, 3), -EBADMSG);
    assert_int_equal(fixture_scan(d)->n, 0);
    assert_true(fixture_stats(d).files == 0 && fixture_stats(d).damaged == 5);
    assert_int_equal(place_count(*state, ""), 0);
    disk_close(d);
}

static void test_swapped_names(void **state)
{
    struct prefix_info a = fixture_info(1), b = fixture_info(2);
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    for (int scan = 0; scan < 2; scan++) {
        for (uint64_t i = 0; i < 4; i++) assert_int_equal(fixture_write(d, i), 0);
        assert_int_equal(renameat2(AT_FDCWD, block_path(*state, &a), AT_FDCWD, block_path(*state, &b), RENAME_EXCHANGE),
                         0);
        if (scan) {
            assert_int_equal(fixture_scan(d)->n, 2);
            assert_int_equal(fixture_stats(d).damaged, 4);
            continue;
        }
        assert_int_equal(fixture_read(d, 1), -EBADMSG);
        assert_int_equal(fixture_read(d, 2), -EBADMSG);
        assert_int_equal(fixture_stats(d).damaged, 2);
    }
    assert_int_equal(fixture_read(d, 0), 0);
    assert_int_equal(fixture_read(d, 3), 0);
    assert_int_equal(place_count(*state, ""), 2);
    disk_close(d);
}

/* --- objects that are no regular file of this user alone --- */

enum thing { LINK, DANGLING, LOOP, FIFO, SOCKET, DEVICE, WRITABLE, READABLE, UNREADABLE, ANOTHERS, THINGS };

static void make_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    close(fd);
}

/* False: the object cannot be made here. */
static bool make(const struct place *p, enum thing t, const char *path, const uint8_t bytes[FIXTURE_FILE])
{
    bool root = geteuid() == 0;
    char target[256];
    if (t > DEVICE) fixture_put(path, bytes, FIXTURE_FILE);
    switch (t) {
    case LINK:
        snprintf(target, sizeof(target), "%s", place_path(p, "target"));
        fixture_put(target, bytes, FIXTURE_FILE);
        return symlink(target, path) == 0;
    case DANGLING:
        return symlink("nothing", path) == 0;
    case LOOP:
        return symlink(path, path) == 0;
    case FIFO:
        return mkfifo(path, 0600) == 0;
    case SOCKET:
        make_socket(path);
        return true;
    case DEVICE:
        return root && mknod(path, S_IFCHR | 0600, makedev(1, 5)) == 0; /* /dev/zero */
    case WRITABLE:
        return chmod(path, 0620) == 0;
    case READABLE:
        return chmod(path, 0604) == 0;
    case UNREADABLE:
        if (root) unlink(path); /* root can read it, and it belongs to root alone */
        return !root && chmod(path, 0000) == 0;
    case ANOTHERS:
        if (!root) unlink(path);
        return root && chown(path, 65534, 65534) == 0;
    case THINGS:
        break;
    }
    return false;
}

static void test_not_a_file_of_ours(void **state)
{
    uint8_t bytes[FIXTURE_FILE + 1];
    struct stat st;
    struct prefix_info info = fixture_info(BLOCK);
    const char *path = block_path(*state, &info);
    char kept[256];
    snprintf(kept, sizeof(kept), "%s", path);
    begin(*state, bytes);
    alarm(60); /* a wait for the other end of a fifo fails the test */
    for (int t = 0; t < THINGS; t++) {
        struct disk_config c = fixture_config(*state);
        struct disk *d = fixture_open(&c);
        if (!make(*state, t, kept, bytes)) {
            print_message("thing %d cannot be made by this user\n", t);
            disk_close(d);
            continue;
        }
        assert_int_equal(fixture_scan(d)->n, 1);
        assert_int_equal(lstat(kept, &st), -1);
        assert_true(fixture_stats(d).files == 1 && fixture_stats(d).damaged == 1);
        make(*state, t, kept, bytes);
        assert_int_equal(fixture_read(d, BLOCK), -EBADMSG);
        assert_int_equal(lstat(kept, &st), -1);
        make(*state, t, kept, bytes);
        assert_int_equal(fixture_write(d, BLOCK), 0); /* replaces the object */
        assert_true(lstat(kept, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0600);
        assert_int_equal(fixture_read(d, BLOCK), 0);
        disk_remove(d, info.id);
        disk_close(d);
    }
    alarm(0);
    uint8_t target[FIXTURE_FILE];
    int fd = open(place_path(*state, "target"), O_RDONLY);
    assert_int_equal(read(fd, target, sizeof(target)), FIXTURE_FILE);
    close(fd);
    assert_memory_equal(target, bytes, FIXTURE_FILE);
}

static void test_directory_in_place(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct prefix_info info = fixture_info(BLOCK);
    char path[256];
    snprintf(path, sizeof(path), "%s", block_path(*state, &info));
    assert_int_equal(mkdir(path, 0700), 0);
    struct disk *d = fixture_open(&c);
    assert_int_equal(fixture_write(d, OTHER), 0);
    assert_int_equal(fixture_scan(d)->n, 1);
    assert_int_equal(fixture_read(d, BLOCK), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "is not a regular file"));
    int r = fixture_write(d, BLOCK);
    assert_int_equal(r, -EISDIR);
    assert_non_null(strstr(error_text(r), path));
    disk_remove(d, info.id);
    struct disk_stats s = fixture_stats(d);
    assert_true(s.files == 1 && s.bytes == FIXTURE_FILE && s.damaged == 0);
    assert_int_equal(place_count(*state, ""), 2); /* the block stays, no temporary file */
    disk_close(d);
}

/* --- the log --- */

static size_t lines_of_scan(const struct place *p, struct disk *d)
{
    char text[4096];
    int log = open(place_path(p, "log"), O_RDWR | O_CREAT | O_TRUNC, 0600), kept = dup(2);
    size_t lines = 0;
    dup2(log, 2);
    fixture_scan(d);
    dup2(kept, 2);
    ssize_t n = pread(log, text, sizeof(text), 0);
    for (ssize_t i = 0; i < n; i++) lines += text[i] == '\n';
    close(kept);
    close(log);
    return lines;
}

static void test_one_line(void **state)
{
    uint8_t bytes[FIXTURE_FILE + 1];
    struct disk_config c = fixture_config(*state);
    begin(*state, bytes);
    struct disk *d = fixture_open(&c);
    log_init("test", LOG_WARNING);
    assert_int_equal(lines_of_scan(*state, d), 0);
    for (uint64_t i = 10; i < 200; i++) {
        struct prefix_info info = fixture_info(i);
        fixture_put(block_path(*state, &info), bytes, i);
    }
    assert_int_equal(lines_of_scan(*state, d), 1);
    assert_int_equal(lines_of_scan(*state, d), 0);
    assert_int_equal(fixture_stats(d).damaged, 190);
    log_init("test", LOG_ERROR);
    disk_close(d);
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_truncated),          T(test_every_header_byte),  T(test_payload_bits),
        T(test_made_up_headers),    T(test_other_model),        T(test_swapped_names),
        T(test_not_a_file_of_ours), T(test_directory_in_place), T(test_one_line),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
