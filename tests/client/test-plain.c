/* SPDX-License-Identifier: MIT */
#include "client/plain.h"
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void shows(const char *text, size_t n, const char *want)
{
    struct buf out = BUF_INIT;

    assert_int_equal(plain_text(&out, text, n), 0);
    assert_string_equal(out.data ? out.data : "", want);
    buf_fini(&out);
}

#define SHOWS(text, want) shows("" text, sizeof text - 1, (want))

static void test_a_terminal_is_told_nothing(void **state)
{
    SHOWS("", "");
    SHOWS("a\tb\nc\r\n", "a\tb\nc\r\n");
    SHOWS("\033]52;c;aGk=\a", "\u241b]52;c;aGk=\u2407");
    SHOWS("good\rbad", "good\u240dbad");
    SHOWS("\0\b\177", "\u2400\u2408\u2421");
    SHOWS("\xc2\x9b"
          "31m\xc2\x80\u00a0",
          "\ufffd31m\ufffd\u00a0");
    SHOWS("\xff\xe2\x82", "\ufffd\ufffd\ufffd");
    SHOWS("h\u00e9 \u4e16\u754c \U0001f600", "h\u00e9 \u4e16\u754c \U0001f600");
}

static void test_columns(void **state)
{
    unsigned used = 9;

    assert_int_equal(plain_columns(""), 0);
    assert_int_equal(plain_columns("h\u00e9\u20ac"), 3);
    assert_int_equal(plain_columns("e\u0301"), 1); /* combining */
    assert_int_equal(plain_columns("\u4e16\u754c\U0001f600"), 6);
    assert_int_equal(plain_columns("\xff\xff"), 2);
    assert_int_equal(plain_fit("a\u4e16b", 1, &used), 1);
    assert_int_equal(used, 1);
    assert_int_equal(plain_fit("a\u4e16b", 2, &used), 1);
    assert_int_equal(used, 1);
    assert_int_equal(plain_fit("a\u4e16b", 3, &used), 4);
    assert_int_equal(used, 3);
    assert_int_equal(plain_fit("e\u0301x", 1, &used), 3); /* with what belongs to it */
    assert_int_equal(plain_fit("ab", 9, NULL), 2);
    assert_string_equal(setlocale(LC_CTYPE, NULL), "C"); /* as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_terminal_is_told_nothing),
        cmocka_unit_test(test_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
