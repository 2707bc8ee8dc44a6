/* SPDX-License-Identifier: MIT */
#include "libcommon/plain.h"
#include "libcommon/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

static void test_control_characters(void **state)
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

/* What changes the direction of the text behind it can make a name look like another one. */
static void test_directions(void **state)
{
    SHOWS("a\u202etxt.exe\u202c", "a\ufffdtxt.exe\ufffd");
    SHOWS("\u2066\u2069\u202a", "\ufffd\ufffd\ufffd");
    SHOWS("\u05e9\u05dc\u05d5\u05dd \u200fx",
          "\u05e9\u05dc\u05d5\u05dd \u200fx"); /* Hebrew, and a mark that it needs */
    assert_true(plain_commands(0x9b) && plain_commands(0x202e) && plain_commands(7) && plain_commands(0x7f));
    assert_false(plain_commands('a') || plain_commands(0xa0) || plain_commands(0x200f));
}

static void test_one_line(void **state)
{
    static const char text[] = "a\nb\tc\r\n\033[2J\xc2\x85";
    static const char want[] = "a b c  \u241b[2J\ufffd";
    struct buf out = BUF_INIT;
    char line[64];

    assert_int_equal(plain_line(&out, text, sizeof text - 1), 0);
    assert_string_equal(out.data, want);
    assert_int_equal(plain_into(line, sizeof line, text, sizeof text - 1), sizeof want - 1);
    assert_memory_equal(line, want, sizeof want - 1);
    for (size_t cap = 0; cap < sizeof want; cap++) { /* whole characters only */
        size_t n = plain_into(line, cap, text, sizeof text - 1);
        assert_true(n <= cap && cap - n < 3);
        assert_memory_equal(line, want, n);
        assert_int_equal(utf8_check(line, n), n);
    }
    buf_fini(&out);
}

static void test_print(void **state)
{
    char *got = NULL, text[2000];
    size_t n;
    FILE *f = open_memstream(&got, &n);

    assert_non_null(f);
    memset(text, 7, sizeof text - 1);
    text[sizeof text - 1] = 0;
    plain_print(f, "hob: ", text);
    plain_print(f, "hob: ", "");
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, 5 + 3 * (sizeof text - 1) + 1 + 5 + 1);
    assert_memory_equal(got, "hob: \u2407", 8);
    assert_null(memchr(got, 7, n));
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_one_line),
        cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
