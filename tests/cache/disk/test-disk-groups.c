/* SPDX-License-Identifier: MIT */
/* Files that lack the blocks of some KV groups: their sizes, what a scan says of them, and damage. */
#include "tests/cache/disk/fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_1 96
#define PART_2 104

static struct disk *open_groups(const struct place *p)
{
    struct disk_config c = fixture_config(p);
    c.parts[1] = PART_1;
    c.parts[2] = PART_2;
    return fixture_open(&c);
}

static uint64_t size_of(uint32_t lacks)
{
    return FIXTURE_PAYLOAD - (lacks & 2 ? PART_1 : 0) - (lacks & 4 ? PART_2 : 0);
}

static struct prefix_info info_of(uint64_t i, uint32_t lacks)
{
    struct prefix_info info = fixture_info(i);
    info.lacks = (uint8_t)lacks;
    return info;
}

static void write_block(struct disk *d, uint64_t i, uint32_t lacks)
{
    uint8_t payload[FIXTURE_PAYLOAD];
    struct prefix_info info = info_of(i, lacks);
    fixture_payload(payload, sizeof(payload), i);
    assert_int_equal(disk_write(d, &info, payload), 0);
}

static int read_block(struct disk *d, uint64_t i, uint32_t lacks)
{
    uint8_t want[FIXTURE_PAYLOAD], have[FIXTURE_PAYLOAD];
    struct prefix_info info = info_of(i, lacks);
    memset(have, 7, sizeof(have));
    int r = disk_read(d, &info, have);
    fixture_payload(want, sizeof(want), i);
    if (r == 0) {
        assert_memory_equal(have, want, size_of(lacks));
        for (uint64_t k = size_of(lacks); k < sizeof(have); k++) assert_int_equal(have[k], 7);
    }
    return r;
}

static void test_sizes(void **state)
{
    const struct place *p = *state;
    struct disk *d = open_groups(p);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 4; i++) {
        struct stat st;
        struct prefix_info info = info_of(i, 2 * i);
        write_block(d, i, 2 * i);
        assert_int_equal(stat(block_path(p, &info), &st), 0);
        assert_int_equal(st.st_size, FIXTURE_HEADER + size_of(2 * i));
        sum += (uint64_t)st.st_size;
    }
    assert_int_equal(fixture_stats(d).bytes, sum);
    disk_close(d);
    d = open_groups(p);
    assert_int_equal(fixture_stats(d).bytes, sum);
    const struct fixture_found *f = fixture_scan(d);
    assert_int_equal(f->n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(f->infos[i].lacks, 2 * i);
        assert_int_equal(read_block(d, i, 2 * i), 0);
    }
    disk_close(d);
}

/* The same block again, with more: the file is replaced and counted once. */
static void test_replaced(void **state)
{
    const struct place *p = *state;
    struct disk *d = open_groups(p);
    write_block(d, 5, 6);
    write_block(d, 5, 2);
    assert_int_equal(fixture_stats(d).files, 1);
    assert_int_equal(fixture_stats(d).bytes, FIXTURE_HEADER + size_of(2));
    assert_int_equal(read_block(d, 5, 2), 0);
    assert_int_equal(read_block(d, 5, 6), -EBADMSG); /* not the file that was asked for: removed */
    assert_int_equal(read_block(d, 5, 2), -ENOENT);
    assert_true(fixture_stats(d).files == 0 && fixture_stats(d).bytes == 0);
    disk_close(d);
}

/* A header that tells of other groups than the size has room for, or of ones that there are not. */
static void test_wrong_groups(void **state)
{
    const struct place *p = *state;
    static const uint8_t wrong[] = {1, 3, 4, 6, 8, 16, 255};
    for (size_t k = 0; k < sizeof(wrong); k++) {
        uint8_t bytes[FIXTURE_FILE];
        struct prefix_info info = info_of(1, 2);
        struct disk *d = open_groups(p);
        write_block(d, 1, 2);
        int fd = open(block_path(p, &info), O_RDONLY);
        const ssize_t n = read(fd, bytes, sizeof(bytes));
        assert_int_equal(n, FIXTURE_HEADER + size_of(2));
        close(fd);
        bytes[13] = wrong[k]; /* the second byte of the number of tokens */
        fixture_resum(bytes);
        fixture_put(block_path(p, &info), bytes, (size_t)n);
        assert_int_equal(fixture_scan(d)->n, 0);
        assert_int_equal(place_count(p, ".kv"), 0);
        assert_int_equal(fixture_stats(d).bytes, 0);
        disk_close(d);
    }
}

/* A large file whose size is possible, but not with the groups that its head names. */
static void test_large_with_wrong_groups(void **state)
{
    static uint8_t payload[1 << 16];
    struct disk_config c = fixture_config(*state);
    struct prefix_info info = info_of(1, 2);
    uint8_t header[FIXTURE_HEADER];
    c.payload = sizeof(payload);
    c.parts[1] = 5000;
    struct disk *d = fixture_open(&c);
    assert_int_equal(disk_write(d, &info, payload), 0);
    int fd = open(block_path(*state, &info), O_RDWR);
    assert_int_equal(read(fd, header, sizeof(header)), sizeof(header));
    header[13] = 0;
    fixture_resum(header);
    assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
    close(fd);
    assert_int_equal(fixture_scan(d)->n, 0);
    assert_int_equal(fixture_stats(d).damaged, 1);
    disk_close(d);
}

/* Room for a part of a run that the block does not have. */
static void test_longer(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    const struct prefix_info info = fixture_info(1);
    write_block(d, 1, 0);
    assert_int_equal(truncate(block_path(*state, &info), FIXTURE_FILE + 32), 0);
    assert_int_equal(fixture_read(d, 1), -EBADMSG);
    disk_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_replaced, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_groups, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_large_with_wrong_groups, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(test_longer, place_setup, place_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
