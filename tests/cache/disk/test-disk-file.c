/* SPDX-License-Identifier: MIT */
/* Heads that have right checksums and one wrong field, heads at the limits, and names of files. */
#include "daemon/cache/disk/disk-file.h"
#include "tests/cache/disk/fixture.h"
#include <endian.h>
#include <stdio.h>
#include <string.h>

static const uint8_t identity[16] = "of the test file";

static struct disk_head make(const struct prefix_info *info)
{
    struct disk_head h = {0};
    disk_head_make(&h, identity, info, "payload", 7);
    return h;
}

/* The defect of the head after its checksum is made right; NULL: it is valid. */
static const char *defect(struct disk_head h, struct prefix_info *out)
{
    fixture_resum((uint8_t *)&h.header);
    return disk_head_check(out, &h, 0, identity, 7);
}

static void expect_invalid(struct disk_head h)
{
    struct prefix_info got;
    assert_string_equal(defect(h, &got), "has an invalid header");
}

static struct prefix_info with_ids(uint64_t high, uint64_t low, uint64_t parent_high, uint64_t parent_low)
{
    struct prefix_info x = fixture_info(4);
    x.id = (struct prefix_id){high, low};
    x.parent = (struct prefix_id){parent_high, parent_low};
    return x;
}

/* Both words of an id count: one may be 0, or equal to the parent's. */
static void test_ids(void **state)
{
    const struct prefix_info valid[] = {
        with_ids(1, 0, 0, 0), with_ids(0, 1, 0, 0), with_ids(0, 1, 1, 0),
        with_ids(5, 7, 5, 8), with_ids(5, 7, 6, 7), with_ids(UINT64_MAX, 7, 7, UINT64_MAX),
    };
    for (size_t i = 0; i < sizeof(valid) / sizeof(*valid); i++) {
        struct prefix_info got;
        assert_null(defect(make(&valid[i]), &got));
        fixture_same(&got, &valid[i]);
        struct disk_head own = make(&valid[i]);
        memcpy(own.header.parent, own.header.id, sizeof(own.header.id)); /* its own parent */
        expect_invalid(own);
    }
    struct disk_head none = make(&valid[3]);
    memset(none.header.id, 0, sizeof(none.header.id));
    expect_invalid(none);
}

static void test_number_of_tokens(void **state)
{
    struct prefix_info x = fixture_info(4), got;
    for (uint32_t n = 1; n <= KV_BLOCK; n++) {
        x.n = n;
        memset(x.tokens, 0, sizeof(x.tokens));
        assert_null(defect(make(&x), &got));
        assert_int_equal(got.n, n);
        for (uint32_t i = n; i < KV_BLOCK; i++) {
            struct disk_head h = make(&x);
            h.header.tokens[i] = htole32(1); /* a token after the last one */
            expect_invalid(h);
        }
    }
    for (uint32_t n = KV_BLOCK + 1; n <= 256; n++) {
        struct disk_head h = make(&x);
        h.header.n = htole32(n % 256); /* 256: none */
        expect_invalid(h);
    }
}

/* Bits of groups that there are not, and of group 0, whose part is in every file. */
static void test_groups(void **state)
{
    const struct prefix_info x = fixture_info(4);
    for (uint32_t lacks = 0; lacks < 1u << 24; lacks = lacks < 64 ? lacks + 1 : lacks * 2) {
        const bool valid = lacks < 1u << KV_GROUPS_MAX && lacks % 2 == 0;
        struct prefix_info got;
        struct disk_head h = make(&x);
        h.header.n = htole32(x.n | lacks << 8);
        assert_int_equal(disk_head_lacks(&h.header), valid ? lacks : 0);
        if (!valid)
            expect_invalid(h);
        else
            assert_null(defect(h, &got));
        if (valid) assert_int_equal(got.lacks, lacks);
    }
}

static void test_other_fields(void **state)
{
    const struct prefix_info x = fixture_info(4);
    struct prefix_info got;
    for (uint32_t format = 0; format < 5; format++) {
        struct disk_head h = make(&x);
        h.header.format = htole32(format);
        const char *wrong = defect(h, &got);
        if (format == DISK_FORMAT)
            assert_null(wrong);
        else /* format 2 has runs */
            assert_string_equal(wrong, format == DISK_FORMAT_RUNS ? "has an invalid header" : "has another version");
    }
    struct disk_head h = make(&x);
    h.header.magic[7]++;
    assert_string_equal(defect(h, &got), "is not a KV block");
    h = make(&x);
    h.header.identity[15]++;
    assert_string_equal(defect(h, &got), "belongs to another model or KV layout");
    h = make(&x);
    h.header.payload = htole64(8);
    assert_string_equal(defect(h, &got), "has another size");
    h = make(&x);
    h.header.n_runs = htole32(1);
    assert_string_equal(defect(h, &got), "is truncated or has another size");
    h = make(&x);
    h.header.sum[15]++;
    assert_string_equal(disk_head_check(&got, &h, 0, identity, 7), "has a damaged header");
}

static void test_block_names(void **state)
{
    const struct prefix_id id = {0x0123456789abcdef, 0xfedcba9876543210};
    struct disk_name name = disk_block_name(id), changed;
    struct prefix_id got;
    assert_string_equal(name.s, "0123456789abcdeffedcba9876543210.kv");
    assert_true(disk_block_name_read(name.s, &got));
    assert_true(got.high == id.high && got.low == id.low);
    for (size_t at = 0; at < strlen(name.s); at++)
        for (int c = 0; c < 256; c++) {
            changed = name;
            changed.s[at] = (char)c;
            const bool same = changed.s[at] == name.s[at], hex = c && strchr("0123456789abcdef", c);
            assert_true(disk_block_name_read(changed.s, &got) == (at < 32 ? hex : same));
        }
    assert_false(disk_block_name_read("0123456789abcdeffedcba9876543210.kv2", &got));
    assert_false(disk_block_name_read("", &got));
}

static void test_part_names(void **state)
{
    struct disk_name name = disk_part_name(0x0123456789abcdef, 7), changed;
    uint64_t run, count;
    assert_string_equal(name.s, "new-0123456789abcdef0000000000000007.part");
    assert_true(disk_part_name_read(name.s, &run, &count));
    assert_true(run == 0x0123456789abcdef && count == 7);
    for (size_t at = 0; at < strlen(name.s); at++)
        for (int c = 0; c < 256; c++) {
            changed = name;
            changed.s[at] = (char)c;
            const bool same = changed.s[at] == name.s[at], hex = c && strchr("0123456789abcdef", c);
            assert_true(disk_part_name_read(changed.s, &run, &count) == (at >= 4 && at < 36 ? hex : same));
        }
    assert_false(disk_part_name_read("new-", &run, &count));
    assert_false(disk_part_name_read("", &run, &count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),          cmocka_unit_test(test_number_of_tokens), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_other_fields), cmocka_unit_test(test_block_names),      cmocka_unit_test(test_part_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
