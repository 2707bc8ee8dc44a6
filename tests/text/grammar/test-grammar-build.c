/* SPDX-License-Identifier: MIT */
/* Expressions against a naive matcher. Also tests the regex-*.c files. */
#include "daemon/text/grammar/grammar-build.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An expression for the naive matcher, which finds all ends of a match that begins at one position. */
struct naive {
    enum { SET, EMPTY, NONE, SEQ, ALT, AND, NOT, REPEAT } kind;
    unsigned set; /* of the letters a to d */
    unsigned min, max;
    struct naive *x, *y;
};

#define LEN_MAX 7

/* The ends as a bit mask. */
static unsigned ends(const struct naive *e, const char *s, unsigned n, unsigned from);

static unsigned ends_of_each(const struct naive *e, const char *s, unsigned n, unsigned starts)
{
    unsigned all = 0;
    for (unsigned i = 0; i <= n; i++)
        if (starts >> i & 1) all |= ends(e, s, n, i);
    return all;
}

static unsigned ends_repeat(const struct naive *e, const char *s, unsigned n, unsigned from)
{
    unsigned at = 1u << from, all = e->min == 0 ? at : 0;
    for (unsigned k = 1; k <= e->max && k <= e->min + n + 1; k++) {
        at = ends_of_each(e->x, s, n, at);
        if (k >= e->min) all |= at;
    }
    return all;
}

static unsigned ends(const struct naive *e, const char *s, unsigned n, unsigned from)
{
    switch (e->kind) {
    case SET:
        return from < n && e->set >> (s[from] - 'a') & 1 ? 2u << from : 0;
    case EMPTY:
        return 1u << from;
    case NONE:
        return 0;
    case SEQ:
        return ends_of_each(e->y, s, n, ends(e->x, s, n, from));
    case ALT:
        return ends(e->x, s, n, from) | ends(e->y, s, n, from);
    case AND:
        return ends(e->x, s, n, from) & ends(e->y, s, n, from);
    case NOT:
        return ~ends(e->x, s, n, from) & ((1u << (n + 1)) - 1) & ~((1u << from) - 1);
    case REPEAT:
        return ends_repeat(e, s, n, from);
    }
    return 0;
}

static struct naive *naive_free(struct naive *e)
{
    if (!e) return NULL;
    naive_free(e->x);
    naive_free(e->y);
    free(e);
    return NULL;
}

/* A random expression, in both forms. */
static struct naive *make(struct grammar_builder *b, uint64_t *random, int depth, expr_t *out)
{
    struct naive *e = calloc(1, sizeof(*e));
    expr_t pair[2] = {0};
    assert_non_null(e);
    unsigned kind = next_random(random) % 16;
    if (depth == 0 || kind < 3) {
        uint64_t set[4] = {0};
        e->kind = next_random(random) % 12 ? SET : next_random(random) % 3 ? EMPTY : NONE;
        e->set = 1 + next_random(random) % 15;
        set[1] = (uint64_t)e->set << ('a' - 64);
        *out = e->kind == SET ? expr_byte_set(b, set) : e->kind == EMPTY ? expr_empty(b) : expr_none(b);
        return e;
    }
    e->kind = kind < 7 ? SEQ : kind < 10 ? ALT : kind < 12 ? AND : kind < 13 ? NOT : REPEAT;
    e->x = make(b, random, depth - 1, &pair[0]);
    if (e->kind == SEQ || e->kind == ALT || e->kind == AND) e->y = make(b, random, depth - 1, &pair[1]);
    e->min = next_random(random) % 4;
    e->max = next_random(random) % 3 ? e->min + next_random(random) % 4 : EXPR_UNLIMITED;
    if (e->kind == SEQ) *out = expr_seq(b, pair, 2);
    if (e->kind == ALT) *out = expr_alt(b, pair, 2);
    if (e->kind == AND) *out = expr_and(b, pair[0], pair[1]);
    if (e->kind == NOT) *out = expr_not(b, pair[0]);
    if (e->kind == REPEAT) *out = expr_repeat(b, pair[0], e->min, e->max);
    assert_int_not_equal(*out, EXPR_ERROR);
    return e;
}

/* All strings over four letters, up to LEN_MAX long. Returns true if one matched. */
static bool compare_strings(struct grammar_builder *b, const struct naive *x, expr_t e)
{
    char s[LEN_MAX + 1];
    bool any = false;
    for (unsigned n = 0; n <= LEN_MAX; n++)
        for (unsigned code = 0; code<1u << 2 * n; code += n> 5 ? 7 : 1) {
            for (unsigned i = 0; i < n; i++) s[i] = (char)('a' + (code >> 2 * i & 3));
            bool in = ends(x, s, n, 0) >> n & 1;
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
        struct naive *x = make(b, &random, 2 + i % 4, &e);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_expressions_match_as_the_naive_matcher),
        cmocka_unit_test(questions_about_sets_are_answered),
        cmocka_unit_test(equal_expressions_have_equal_indexes),
        cmocka_unit_test(rules_are_not_regular),
        cmocka_unit_test(large_expressions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
