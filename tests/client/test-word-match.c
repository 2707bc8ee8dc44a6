/* SPDX-License-Identifier: MIT */
#include "client/word-match.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the headers above */
#include <cmocka.h>

static size_t find(const char *text, const char *word)
{
    return word_match(text, strlen(text), word, NULL);
}

static void test_the_beginning_of_a_word(void **state)
{
    assert_int_equal(find("the error path", "err"), 4);
    assert_int_equal(find("the error path", "PATH"), 10);
    assert_int_equal(find("terror", "error"), 6); /* inside a word: none */
    assert_int_equal(find("terror error", "error"), 7);
    assert_int_equal(find("a_b", "b"), 2);
    assert_int_equal(find("", "b"), 0);
    assert_int_equal(find("er", "err"), 2);
}

static void test_letters_of_all_languages(void **state)
{
    size_t n = 0;
    assert_int_equal(find("Eine GRÖẞE", "größe"), 5);
    assert_int_equal(find("Eine GRÖSSE", "grösse"), 5);
    assert_int_equal(find("ägröße größe", "größe"), 10);
    assert_int_equal(find("ΑΘΗΝΑ", "αθη"), 0);
    assert_int_equal(word_match("x ÉTÉ", 7, "été", &n), 2);
    assert_int_equal(n, 5);
}

static void test_what_is_no_letter(void **state)
{
    assert_int_equal(find("a--flag", "--flag"), 1);
    assert_int_equal(find("call f(x) now", "f(x)"), 5);
    assert_int_equal(find("50%", "%"), 2);
}

static void test_invalid_bytes(void **state)
{
    assert_int_equal(find("\xff\xfe word", "word"), 3);
    assert_int_equal(find("word", "\xff"), 4);
    assert_int_equal(find("wor\xc3", "wor\xc3\xa4"), 4);
    assert_int_equal(word_match("a\0b", 3, "b", NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_beginning_of_a_word),
        cmocka_unit_test(test_letters_of_all_languages),
        cmocka_unit_test(test_what_is_no_letter),
        cmocka_unit_test(test_invalid_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
