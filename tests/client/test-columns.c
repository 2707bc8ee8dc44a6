/* SPDX-License-Identifier: MIT */
#include "client/columns.h"
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static void prints(struct table *t, const char *const *cells, const char *want)
{
    struct buf out = BUF_INIT;

    for (; *cells; cells++) assert_int_equal(table_put(t, *cells), 0);
    assert_int_equal(table_print(&out, t), 0);
    assert_string_equal(out.data ? out.data : "", want);
    buf_fini(&out);
    table_fini(t);
}

#define PRINTS(want, t, ...) prints(&(struct table)t, (const char *const[]){__VA_ARGS__, NULL}, (want))
#define TABLE(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static void test_columns_line_up(void **state)
{
    PRINTS("NAME     N  AGE\na       12  now\nlonger   3  then\n", TABLE(.columns = 3, .right = 2), "NAME", "N", "AGE",
           "a", "12", "now", "longer", "3", "then");
    PRINTS("  x\n  y\n", TABLE(.columns = 1, .prefix = "  "), "x", "y");
    /* Characters, not bytes. */
    PRINTS("h\xc3\xa9   1\nhey  2\n", TABLE(.columns = 2), "h\xc3\xa9", "1", "hey", "2");
}

static void test_wide_characters_take_two_columns(void **state)
{
    PRINTS("\u4e16\u754c  1\nabc   2\n", TABLE(.columns = 2), "\u4e16\u754c", "1", "abc", "2");
    PRINTS("\u4e16\u754c…  1\nabcde  2\n", TABLE(.columns = 2, .width = 8), "\u4e16\u754c\u4e16", "1", "abcde", "2");
    PRINTS("\u4e16…   1\nabcd  2\n", TABLE(.columns = 2, .width = 7), "\u4e16\u754c\u4e16", "1", "abcd", "2");
}

static void test_optional_columns_are_dropped(void **state)
{
    PRINTS("NAME  A  BB  C\nx     1  2   3\n", TABLE(.columns = 4, .optional = 6, .width = 14), "NAME", "A", "BB", "C",
           "x", "1", "2", "3");
    PRINTS("NAME  A  C\nx     1  3\n", TABLE(.columns = 4, .optional = 6, .width = 13), "NAME", "A", "BB", "C", "x",
           "1", "2", "3");
    PRINTS("NAME  C\nx     3\n", TABLE(.columns = 4, .optional = 6, .width = 8), "NAME", "A", "BB", "C", "x", "1", "2",
           "3");
    /* A long name gives way first. */
    PRINTS("a long name…  1  2\n", TABLE(.columns = 3, .optional = 2, .width = 18), "a long name that", "1", "2");
    PRINTS("a long name t…  2\n", TABLE(.columns = 3, .optional = 2, .width = 17), "a long name that", "1", "2");
}

static void test_first_column_is_truncated(void **state)
{
    PRINTS("NAME      N\na long …  1\n", TABLE(.columns = 2, .width = 11), "NAME", "N", "a long name", "1");
    PRINTS("a long name  1\n", TABLE(.columns = 2, .width = 14), "a long name", "1");
    PRINTS("\xc3\xa4\xc3\xa4\xc3\xa4…  1\n", TABLE(.columns = 2, .width = 7),
           "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", "1");
    /* A narrow terminal breaks the lines; something of the name is left. */
    PRINTS("abc…  0123456789\n", TABLE(.columns = 2, .width = 5), "abcdefgh", "0123456789");
    PRINTS("ab  0123456789\n", TABLE(.columns = 2, .width = 5), "ab", "0123456789");
}

static void test_nothing_and_half_a_row(void **state)
{
    PRINTS("", TABLE(.columns = 2), NULL);
    PRINTS("", TABLE(.columns = 0), "a");
    PRINTS("a  b\n", TABLE(.columns = 2), "a", "b", "c");
    PRINTS("a  bb\nc\n", TABLE(.columns = 2), "a", "bb", "c", "");
}

static void test_no_cell_moves_the_cursor(void **state)
{
    PRINTS("a b\u241b[31m\u2421\ufffd\ufffdc\n", TABLE(.columns = 1),
           "a\nb\x1b[31m\x7f\xc2\x9b\xff"
           "c");
    PRINTS("\xc2\xa0\xe2\x82\xac\ufffd\n", TABLE(.columns = 1), "\xc2\xa0\xe2\x82\xac\xe2");
}

static void test_width_of_a_terminal(void **state)
{
    struct winsize size = {.ws_col = 40, .ws_row = 10};
    int master, slave, null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    assert_int_equal(table_terminal(slave), 40);
    size.ws_col = 0; /* unknown */
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
    assert_int_equal(table_terminal(slave), 80);
    assert_int_equal(table_terminal(null), 0);
    close(master);
    close(slave);
    close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_line_up),
        cmocka_unit_test(test_first_column_is_truncated),
        cmocka_unit_test(test_nothing_and_half_a_row),
        cmocka_unit_test(test_no_cell_moves_the_cursor),
        cmocka_unit_test(test_width_of_a_terminal),
        cmocka_unit_test(test_wide_characters_take_two_columns),
        cmocka_unit_test(test_optional_columns_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
