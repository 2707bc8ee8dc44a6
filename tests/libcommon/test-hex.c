/* SPDX-License-Identifier: MIT */
#include "libcommon/hex.h"
#include "tests/libcommon/check.h"
#include <string.h>

static void test_every_byte(void **state)
{
    uint8_t bytes[256], back[256];
    char text[513];
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
    hex_write(text, bytes, 256);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102", 6);
    assert_string_equal(text + 508, "feff");
    assert_true(hex_read(back, text, 256));
    assert_memory_equal(back, bytes, 256);
    hex_write(text, bytes, 0);
    assert_string_equal(text, "");
}

static void test_other_characters(void **state)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "00",
                                      "00f",
                                      "0g00",
                                      "00 0",
                                      "00F0",
                                      "/000",
                                      ":000",
                                      "`000",
                                      "\xff"
                                      "000"};
    uint8_t out[2];
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) assert_false(hex_read(out, bad[i], 2));
    assert_true(hex_read(out, "0aff and more", 2));
    assert_int_equal(out[0], 10);
    assert_int_equal(out[1], 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_other_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
