/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/text/markup/piece.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct piece p(const char *s)
{
    return piece_of(s, 0, strlen(s));
}

static void test_common_parts_have_whole_marks(void **state)
{
    assert_int_equal(piece_common_begin(p("<a><b>"), p("<a><c>")), 3);
    assert_int_equal(piece_common_begin(p("x [TEXT]"), p("x [TEST]")), 2);
    assert_int_equal(piece_common_begin(p("x [1]"), p("x [2]")), 3); /* no mark */
    assert_int_equal(piece_common_begin(p("é"), p("è")), 0);
    assert_int_equal(piece_common_begin(p("ab"), p("abc")), 2);
    assert_int_equal(piece_common_end(p("<begin><call>"), p("<end><call>")), 6);
    assert_int_equal(piece_common_end(p("<calls_begin><call_begin>"), p("<call_end><call_begin>")), 12);
    assert_int_equal(piece_common_end(p("\">\n<arg name=\""), p("</arg>\n<arg name=\"")), 12);
    assert_int_equal(piece_common_end(p("<a>[\n  "), p(",\n  ")), 3);
    assert_int_equal(piece_common_end(p("Ã©"), p("©")), 2);
    assert_int_equal(piece_common_end(p(""), p("x")), 0);
}

static void test_groups(void **state)
{
    assert_int_equal(piece_first_group(p("a < b <c> [D]")).n, 3);
    assert_int_equal(piece_last_group(p("a <b> [D e] [1]")).n, 5);
    assert_int_equal(piece_first_group(p("a <1> []")).n, 0);
    assert_int_equal(piece_bracket_end(p("x{a:[1,{}]}y"), 1), 11);
    assert_int_equal(piece_bracket_end(p("{["), 0), 0);
}

static void test_searches(void **state)
{
    assert_int_equal(piece_find(p("abcabc"), "bc"), 1);
    assert_int_equal(piece_find_last(p("abcabc"), "bc"), 4);
    assert_true(piece_find(p("a"), "ab") == SIZE_MAX && piece_find_last(p("a"), "ab") == SIZE_MAX);
    assert_true(piece_ends_with(p("abc"), p("bc")) && !piece_ends_with(p("c"), p("bc")));
    assert_true(piece_is_blank(p(" \n\t")) && !piece_is_blank(p(" x ")));
    assert_int_equal(piece_trim(p(" x y\n")).n, 3);
}

static void test_copies(void **state)
{
    char *s = NULL;
    assert_int_equal(piece_set(&s, p("abc")), 0);
    assert_int_equal(piece_set(&s, piece_of("xyz", 1, 2)), 0);
    assert_string_equal(s, "y");
    assert_int_equal(piece_of("xyz", 2, 1).n, 0);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common_parts_have_whole_marks),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_searches),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
