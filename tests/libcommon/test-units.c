/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/units.h"
#include "tests/libcommon/check.h"
#include <string.h>

static void sizes(void **state)
{
    static const struct {
        const char *s;
        uint64_t v;
    } good[] = {
        {"0", 0},
        {"512", 512},
        {"1K", 1024},
        {"1k", 1024},
        {"512M", 512ull << 20},
        {"4G", 4ull << 30},
        {"4GiB", 4ull << 30},
        {"1.5G", 3ull << 29},
        {"0.25K", 256},
        {"2T", 2ull << 40},
        {"18446744073709551615", UINT64_MAX},
    };
    uint64_t v;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        v = 1;
        assert_int_equal(parse_size(good[i].s, &v), 0);
        assert_true(v == good[i].v);
    }
}

static void sizes_that_are_none(void **state)
{
    static const char *const bad[] = {"",          "-1",
                                      "+1",        " 1",
                                      "1 ",        "1X",
                                      "G",         "1.G",
                                      ".5G",       "1GG",
                                      "0x10",      "1e3",
                                      "4G4",       "18446744073709551616",
                                      "16777216T", "99999999999999999999999999G"};
    uint64_t v = 77;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse_size(bad[i], &v), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), bad[i]));
        assert_true(v == 77);
    }
}

static void times(void **state)
{
    static const struct {
        const char *s;
        uint64_t v;
    } good[] = {
        {"0", 0},
        {"2", 2000000},
        {"500ms", 500000},
        {"7us", 7},
        {"30s", 30000000},
        {"1.5s", 1500000},
        {"15min", 900000000},
        {"1h", 3600000000ull},
        {"1d", 86400000000ull},
        {"0.001ms", 1},
    };
    static const char *const bad[] = {"", "-1s", "1m", "1 s", "s", "1h30", "ms5", "300000000d"};
    uint64_t v;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_time(good[i].s, &v), 0);
        assert_true(v == good[i].v);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(parse_time(bad[i], &v), -EINVAL);
}

static void whole_numbers(void **state)
{
    static const char *const bad[] = {"", "-1", "+1", " 5", "5 ", "5.0", "0x5", "five", "101", "1"};
    uint64_t v = 77;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(parse_u64(bad[i], 2, 100, &v), -EINVAL);
    assert_true(v == 77);
    assert_int_equal(parse_u64("100", 2, 100, &v), 0);
    assert_true(v == 100);
    assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(parse_u64("18446744073709551616", 0, UINT64_MAX, &v), -EINVAL);
    assert_int_equal(parse_u64("300", 1, 256, &v), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "'300' is not between 1 and 256");
}

static void reals(void **state)
{
    static const char *const bad[] = {"",      "nan", "inf",  "infinity", "0x1p3", " 1",  "1 ",
                                      "1.2.3", "--1", "1e99", "-0.5",     "2.5",   "1,5", "e5"};
    float v = 77;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(parse_float(bad[i], 0, 2, &v), -EINVAL);
    assert_true(v == 77);
    assert_int_equal(parse_float("0.7", 0, 2, &v), 0);
    assert_true(v == 0.7f);
    assert_int_equal(parse_float(".5", 0, 2, &v), 0);
    assert_true(v == 0.5f);
    assert_int_equal(parse_float("2", 0, 2, &v), 0);
    assert_true(v == 2);
    assert_int_equal(parse_float("-1.5e-1", -1, 1, &v), 0);
    assert_true(v == -0.15f);
}

static void sizes_for_people(void **state)
{
    static const struct {
        uint64_t v;
        const char *s;
    } good[] = {
        {0, "0B"},           {1023, "1023B"},          {1024, "1K"},
        {1536, "1.5K"},      {512ull << 20, "512M"},   {1288490188, "1.2G"},
        {4ull << 30, "4G"},  {(1ull << 30) - 1, "1G"}, {1023ull << 20, "1023M"},
        {UINT64_MAX, "16E"},
    };
    char out[16];

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_string_equal(format_size(out, good[i].v), good[i].s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes), cmocka_unit_test(sizes_that_are_none),
        cmocka_unit_test(times), cmocka_unit_test(whole_numbers),
        cmocka_unit_test(reals), cmocka_unit_test(sizes_for_people),
    };

    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
