/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/exif.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>
#include <string.h>

/* One entry before the orientation, in each byte order. */
static const uint8_t little[] =
    "II*\0\x08\0\0\0\x02\0\x0f\x01\x03\0\x01\0\0\0\x07\0\0\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
static const uint8_t big[] =
    "MM\0*\0\0\0\x08\0\x02\x01\x0f\0\x03\0\0\0\x01\0\x07\0\0\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
enum { SIZE = 34 };

/* A copy without a byte more, so that valgrind and ASan see what is read beyond it. */
static unsigned orientation(const void *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    unsigned o = exif_orientation(copy, n);
    free(copy);
    return o;
}

static void test_both_orders(void **state)
{
    uint8_t with[SIZE + 6] = "Exif\0";
    assert_int_equal(orientation(little, SIZE), 6);
    assert_int_equal(orientation(big, SIZE), 6);
    memcpy(with + 6, big, SIZE);
    assert_int_equal(orientation(with, sizeof(with)), 6);
    assert_int_equal(exif_orientation(NULL, 0), 1);
}

static void test_truncated(void **state)
{
    for (size_t n = 0; n < SIZE; n++) {
        assert_int_equal(orientation(little, n), 1);
        assert_int_equal(orientation(big, n), 1);
    }
}

/* Every byte with every value: the result is an orientation. */
static void test_changed(void **state)
{
    for (int at = 0; at < SIZE; at++) {
        for (int v = 0; v < 256; v++) {
            uint8_t copy[SIZE];
            memcpy(copy, at & 1 ? little : big, SIZE);
            copy[at] = (uint8_t)v;
            unsigned o = orientation(copy, SIZE);
            assert_in_range(o, 1, 8);
            memcpy(copy, at & 1 ? big : little, SIZE);
            copy[at] = (uint8_t)v;
            o = orientation(copy, SIZE);
            assert_in_range(o, 1, 8);
        }
    }
}

static void test_damaged(void **state)
{
    static const struct {
        int at, value;
    } cases[] = {
        {1, 'J'}, {2, '+'}, {4, 0xff}, {7, 0xff}, {22, 0x13}, {24, 4},
        {26, 2},  {30, 0},  {30, 9},   {31, 1},   {8, 1},     {8, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t copy[SIZE];
        memcpy(copy, little, SIZE);
        copy[cases[i].at] = (uint8_t)cases[i].value;
        assert_int_equal(orientation(copy, SIZE), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_orders),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
