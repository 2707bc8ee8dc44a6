/* SPDX-License-Identifier: MIT */
#include "client/find/ignore.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void patterns_match_as_gitignore_says(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"a", "a", true},
        {"a", "b", false},
        {"a", "a/b", false},
        {"*", "abc", true},
        {"*.o", "x.o", true},
        {"*.o", "x.oo", false},
        {"*.o", "d/x.o", false},
        {"?", "", false},
        {"a?c", "abc", true},
        {"a?c", "a/c", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[]x]", "]", true},
        {"[a", "[a", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"**/b", "b", true},
        {"**/b", "a/b", true},
        {"**/b", "a/c/b", true},
        {"**/b", "a/bc", false},
        {"a/**", "a/b/c", true},
        {"a/**", "b", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/x/c", false},
        {"a*c*e", "abcde", true},
        {"a*c*e", "abcdf", false},
        {"a/*", "a/b/c", false},
        {"**/x/**/y", "x/q/x/z/y", true},
        {"a/b", "a/b", true},
        {"a/b", "a", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (ignore_glob(cases[i].pattern, cases[i].path) != cases[i].matches)
            fail_msg("%s and %s: not %d", cases[i].pattern, cases[i].path, cases[i].matches);
}

static void the_last_rule_of_the_lowest_folder_decides(void **state)
{
    static const char top[] = "# comment\n\n*.log\n!keep.log\r\nbuild/\n/only\ndoc/*.txt\nspace\\ \n";
    static const char low[] = "!x.log\nkeep.log";
    struct ignore a = {0}, b = {.above = &a, .base = strlen("sub/")};
    assert_int_equal(ignore_add(&a, top, strlen(top)), 0);
    assert_int_equal(ignore_add(&b, low, strlen(low)), 0);
    assert_true(ignore_match(&a, "x.log", false));
    assert_true(ignore_match(&a, "deep/er/x.log", false));
    assert_false(ignore_match(&a, "keep.log", false));
    assert_true(ignore_match(&a, "build", true));
    assert_false(ignore_match(&a, "build", false));
    assert_true(ignore_match(&a, "only", false));
    assert_false(ignore_match(&a, "sub/only", false));
    assert_true(ignore_match(&a, "doc/a.txt", false));
    assert_false(ignore_match(&a, "doc/b/a.txt", false));
    assert_false(ignore_match(&a, "sub/doc/a.txt", false));
    assert_true(ignore_match(&a, "space ", false));
    assert_false(ignore_match(&a, "comment", false));
    assert_false(ignore_match(&b, "sub/x.log", false));
    assert_true(ignore_match(&b, "sub/y.log", false));
    assert_true(ignore_match(&b, "sub/keep.log", false));
    ignore_fini(&b);
    ignore_fini(&a);
}

static void many_stars_take_no_exponential_time(void **state)
{
    char path[2001];
    memset(path, 'a', 2000);
    path[2000] = 0;
    clock_t from = clock();
    for (int i = 0; i < 20; i++) assert_false(ignore_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", path));
    assert_true(clock() - from < 5 * CLOCKS_PER_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_gitignore_says),
        cmocka_unit_test(the_last_rule_of_the_lowest_folder_decides),
        cmocka_unit_test(many_stars_take_no_exponential_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
