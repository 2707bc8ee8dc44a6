/* SPDX-License-Identifier: MIT */
/* Expressions against a naive matcher. Also tests the regex-*.c files. */
#include "daemon/text/grammar/builder.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/grammar/naive-expr.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN_MAX 7

/* All strings over four letters, up to LEN_MAX long. Returns true if one matched. */
static bool compare_strings(struct grammar_builder *b, const struct naive *x, expr_t e)
{
    char s[LEN_MAX + 1];
    bool any = false;
    for (unsigned n = 0; n <= LEN_MAX; n++)
        for (unsigned code = 0; code<1u << 2 * n; code += n> 5 ? 7 : 1) {
            for (unsigned i = 0; i < n; i++) s[i] = (char)('a' + (code >> 2 * i & 3));
            bool in = naive_matches(x, NULL, 0, s, n);
            assert_int_equal(expr_matches(b, e, s, n), in);
            any |= in;
        }
    return any;
}

static void random_expressions_match_as_the_naive_matcher(void **state)
{
    uint64_t random = 7;
    int empty = 0;
    for (int i = 0; i < 600; i++) {
        struct grammar_builder *b;
        expr_t e;
        assert_int_equal(grammar_builder_new(&b), 0);
        struct naive *x = naive_make(b, &random, 2 + i % 4, NULL, 0, &e);
        bool any = compare_strings(b, x, e);
        int none = expr_is_none(b, e, 10000);
        assert_true(none == 0 || none == 1);
        if (any) assert_int_equal(none, 0);
        empty += none;
        assert_int_equal(builder_status(b), 0);
        naive_free(x);
        grammar_builder_free(b);
    }
    assert_true(empty > 10);
}

static expr_t text(struct grammar_builder *b, const char *s)
{
    return expr_bytes(b, s, strlen(s));
}

/* x and y have a common string, or x is a subset of y: questions that the schema compiler asks. */
static void questions_about_sets_are_answered(void **state)
{
    struct grammar_builder *b;
    assert_int_equal(grammar_builder_new(&b), 0);
    const struct expr_range digits = {'0', '9'}, letters = {'a', 'z'}, any = {0, 0x10ffff};
    expr_t number = expr_repeat(b, expr_chars(b, &digits, 1), 1, EXPR_UNLIMITED);
    expr_t word = expr_repeat(b, expr_chars(b, &letters, 1), 1, 1000), all = expr_chars(b, &any, 1);
    expr_t both = expr_repeat(b, all, 0, EXPR_UNLIMITED);
    assert_int_equal(expr_is_none(b, expr_and(b, number, word), 1000), 1);
    assert_int_equal(expr_is_none(b, expr_and(b, number, expr_not(b, both)), 1000), 1);
    assert_int_equal(expr_is_none(b, expr_and(b, both, expr_not(b, number)), 1000), 0);
    assert_int_equal(expr_and(b, expr_not(b, number), number), expr_none(b));
    assert_int_equal(expr_matches(b, all, "\xe2\x82\xac", 3), 1);
    assert_int_equal(expr_matches(b, all, "\xed\xa0\x80", 3), 0);
    /* 2^40 states: the search gives up. */
    const struct expr_range ab = {'a', 'b'};
    expr_t x = expr_chars(b, &ab, 1), star = expr_repeat(b, x, 0, EXPR_UNLIMITED);
    expr_t far[] = {star, text(b, "a"), expr_repeat(b, x, 40, 40)};
    expr_t near[] = {star, text(b, "b"), expr_repeat(b, x, 40, 40)};
    assert_int_equal(expr_is_none(b, expr_and(b, expr_seq(b, far, 3), expr_seq(b, near, 3)), 1000), -E2BIG);
    assert_int_equal(builder_status(b), 0);
    grammar_builder_free(b);
}

static void equal_expressions_have_equal_indexes(void **state)
{
    struct grammar_builder *b;
    assert_int_equal(grammar_builder_new(&b), 0);
    expr_t abc[] = {text(b, "abc"), text(b, "abd")}, cba[] = {text(b, "abd"), text(b, "abc")};
    expr_t cd[] = {text(b, "c"), text(b, "d")}, parts[] = {text(b, "ab"), expr_alt(b, cd, 2)};
    assert_int_equal(expr_alt(b, abc, 2), expr_alt(b, cba, 2));
    assert_int_equal(expr_alt(b, abc, 2), expr_seq(b, parts, 2));
    expr_t x = expr_repeat(b, abc[0], 2, 3), y = expr_repeat(b, abc[0], 0, 4), xy[] = {x, y};
    assert_int_equal(expr_seq(b, xy, 2), expr_repeat(b, abc[0], 2, 7));
    expr_t none[] = {abc[0], expr_none(b)};
    assert_int_equal(expr_seq(b, none, 2), expr_none(b));
    grammar_builder_free(b);
}

static void rules_are_not_regular(void **state)
{
    struct grammar_builder *b;
    assert_int_equal(grammar_builder_new(&b), 0);
    expr_t rule = expr_rule(b), parts[] = {text(b, "x"), rule};
    expr_t e = expr_seq(b, parts, 2);
    expr_define(b, rule, e);
    assert_false(expr_is_regular(b, e));
    assert_true(expr_is_regular(b, parts[0]));
    assert_int_equal(expr_is_none(b, e, 100), -EINVAL);
    assert_int_equal(expr_and(b, e, parts[0]), EXPR_ERROR);
    assert_int_equal(expr_empty(b), EXPR_ERROR);
    assert_int_equal(builder_status(b), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "an expression with rules inside cannot be intersected");
    grammar_builder_free(b);
}

/* A long text, deep nesting and a large repetition end within the limits. */
static void large_expressions_are_bounded(void **state)
{
    struct grammar_builder *b;
    assert_int_equal(grammar_builder_new(&b), 0);
    size_t n = 300000;
    char *s = malloc(n);
    assert_non_null(s);
    memset(s, 'x', n);
    expr_t e = expr_bytes(b, s, n);
    assert_int_equal(expr_matches(b, e, s, 1000), 0);
    expr_t many = expr_repeat(b, text(b, "x"), 0, 1000000000);
    assert_int_equal(expr_matches(b, many, s, 1000), 1);
    for (int i = 0; i < 100000 && e != EXPR_ERROR; i++) {
        expr_t pair[] = {expr_repeat(b, i ? e : many, 2, 5), text(b, i % 2 ? "y" : "z")};
        e = expr_seq(b, pair, 2);
    }
    assert_int_equal(expr_matches(b, e, s, 1000), -ELOOP);
    assert_int_equal(builder_status(b), -ELOOP);
    free(s);
    grammar_builder_free(b);
    assert_int_equal(grammar_builder_new(&b), 0);
    for (uint32_t i = 0; e == EXPR_ERROR || i < 10000000; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "%x", i);
        e = expr_bytes(b, name, (size_t)len);
        if (e == EXPR_ERROR) break;
        expr_t pair[] = {e, expr_repeat(b, e, i, EXPR_UNLIMITED)};
        if (expr_alt(b, pair, 2) == EXPR_ERROR) break;
    }
    assert_int_equal(builder_status(b), -E2BIG);
    assert_string_equal(error_text(-E2BIG), "the constraint is too large: it needs more than 96 MiB");
    grammar_builder_free(b);
}

/* Work is counted; when it is over, a question fails, and may be asked again. */
static void work_is_bounded(void **state)
{
    struct grammar_builder *b;
    assert_int_equal(grammar_builder_new(&b), 0);
    expr_t parts[300];
    const struct expr_range letters = {'a', 'z'};
    for (uint32_t i = 0; i < 300; i++)
        parts[i] = expr_seq(b, (expr_t[]){expr_repeat(b, expr_chars(b, &letters, 1), i, i + 5), text(b, "x")}, 2);
    expr_t e = expr_alt(b, parts, 300);
    assert_int_equal(expr_matches(b, e, "aax", 3), 1);
    regex_allow_work(&b->store, 1000);
    assert_int_equal(expr_matches(b, e, "bcdefghijx", 10), -ETIME);
    assert_int_equal(builder_status(b), -ETIME);
    assert_string_equal(error_text(-ETIME), "the constraint takes too long: it needs more than 0 million steps");
    regex_allow_work(&b->store, REGEX_CALL_WORK);
    assert_int_equal(expr_matches(b, e, "bcdefghijx", 10), 1);
    assert_int_equal(builder_status(b), 0);
    grammar_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_expressions_match_as_the_naive_matcher),
        cmocka_unit_test(questions_about_sets_are_answered),
        cmocka_unit_test(equal_expressions_have_equal_indexes),
        cmocka_unit_test(rules_are_not_regular),
        cmocka_unit_test(large_expressions_are_bounded),
        cmocka_unit_test(work_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
