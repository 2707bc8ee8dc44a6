/* SPDX-License-Identifier: MIT */
#include "client/width.h"
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void test_columns(void **state)
{
    unsigned used = 9;

    assert_int_equal(width_columns(""), 0);
    assert_int_equal(width_columns("h\u00e9\u20ac"), 3);
    assert_int_equal(width_columns("e\u0301"), 1); /* combining */
    assert_int_equal(width_columns("\u4e16\u754c\U0001f600"), 6);
    assert_int_equal(width_columns("\xff\xff"), 2);
    assert_int_equal(width_fit("a\u4e16b", 1, &used), 1);
    assert_int_equal(used, 1);
    assert_int_equal(width_fit("a\u4e16b", 2, &used), 1);
    assert_int_equal(used, 1);
    assert_int_equal(width_fit("a\u4e16b", 3, &used), 4);
    assert_int_equal(used, 3);
    assert_int_equal(width_fit("e\u0301x", 1, &used), 3); /* with what belongs to it */
    assert_int_equal(width_fit("ab", 9, NULL), 2);
    assert_string_equal(setlocale(LC_CTYPE, NULL), "C"); /* as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
