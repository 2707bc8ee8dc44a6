/* SPDX-License-Identifier: MIT */
/* ECMA 262 patterns. Also tests pattern-parse.c, pattern-class.c, char-class.c and spelling.c. */
#include "daemon/text/schema/pattern.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <string.h>

struct pattern_case {
    const char *pattern;
    const char *finds[12], *misses[12]; /* written as in a JSON string, up to the first NULL */
};

static int compile(const char *text, bool whole, struct grammar_builder *b, expr_t *out)
{
    struct spelling s;
    struct jj_arena a = {0};
    struct pattern *p;
    spelling_init(&s, b, false);
    int r = pattern_parse(&a, &s, text, strlen(text), &p);
    if (r == 0) *out = pattern_expr(&s, p, whole);
    if (r == 0 && *out == EXPR_ERROR) r = -ENOTSUP;
    jj_arena_fini(&a);
    return r;
}

static void check(const struct pattern_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct grammar_builder *b;
        expr_t e;
        assert_int_equal(grammar_builder_new(&b), 0);
        int r = compile(cases[i].pattern, false, b, &e);
        if (r < 0) fail_msg("%s: %s", cases[i].pattern, error_text(r));
        for (size_t k = 0; k < 12 && cases[i].finds[k]; k++)
            if (expr_matches(b, e, cases[i].finds[k], strlen(cases[i].finds[k])) != 1)
                fail_msg("%s is not found in %s", cases[i].pattern, cases[i].finds[k]);
        for (size_t k = 0; k < 12 && cases[i].misses[k]; k++)
            if (expr_matches(b, e, cases[i].misses[k], strlen(cases[i].misses[k])) != 0)
                fail_msg("%s is found in %s", cases[i].pattern, cases[i].misses[k]);
        grammar_builder_free(b);
    }
}

static void characters(void **state)
{
    (void)state;
    static const struct pattern_case cases[] = {
        {"b", {"b", "abc"}, {"", "ac"}},
        {"^a.c$",
         {"abc",
          "a\xc3\xa9"
          "c",
          "a\\u00e9c", "a\\\"c", "a\\\\c", "a\\tc"},
         {"ac", "abbc", "a\\nc", "xabc", "a\nc", "a\"c"}},
        {"^[a-c_]+$", {"abc", "_"}, {"", "d", "aB"}},
        {"^[^a-c]$", {"d", "\\n", "\xf0\x9f\x98\x80", "\\ud83d\\ude00"}, {"a", "dd", "\\ud83d"}},
        {"^\\d\\D\\w\\W\\s\\S$", {"1a_- x", "1ab.\\tx", "1ab.\xc2\xa0x"}, {"aa_- x", "1a_-xx"}},
        {"^[\\d-]+$", {"1-2"}, {"a"}},
        {"^[\\w-.]+$", {"a-.b"}, {"+"}},
        {"^\\u00e9\\xe9\\cA\\0$", {"\xc3\xa9\xc3\xa9\\u0001\\u0000", "\\u00E9\\u00e9\\u0001\\u0000"}, {"ee"}},
        {"^\\u{1F600}\\ud83d\\ude00$", {"\xf0\x9f\x98\x80\\uD83D\\uDE00"}, {"\xf0\x9f\x98\x80"}},
        {"^\\/\\.\\-\\$$", {"/.-$", "\\/.-$"}, {"/x-$"}},
        {"^[\\b]$", {"\\b", "\\u0008"}, {"b"}},
        {"^[]$", {NULL}, {"", "a"}},
        {"^[^]$", {"a", "\\n"}, {""}},
        {"^\xe4\xb8\xad[\xe4\xb8\x80-\xe9\xbf\xbf]$", {"\xe4\xb8\xad\xe6\x96\x87", "\\u4e2D\\u6587"}, {"\xe4\xb8\xad"}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void repetitions(void **state)
{
    (void)state;
    static const struct pattern_case cases[] = {
        {"^a*b+c?$", {"b", "aabbc"}, {"a", "bcc"}}, {"^a{2}b{1,}c{0,2}$", {"aab", "aabbbcc"}, {"ab", "aabccc"}},
        {"^(?:ab|c)*?$", {"", "abcab"}, {"a"}},     {"^(?<year>\\d{4})$", {"2024"}, {"24"}},
        {"^a{,2}$", {"a{,2}"}, {"", "a"}},          {"^x{a}$", {"x{a}"}, {"x"}},
        {"^(a|b|)$", {"a", "b", ""}, {"c"}},        {"^(\\S+\\s+){0,3}\\S+$", {"a b c d", "a"}, {"a b c d e", " a"}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void assertions(void **state)
{
    (void)state;
    static const struct pattern_case cases[] = {
        {"^a|b$", {"ax", "xb", "a"}, {"xa", "bx"}},
        {"(^|,)x", {"x", "a,x"}, {"ax"}},
        {"x(,|$)", {"x", "ax", "x,b"}, {"xb"}},
        {"^(?!foo)\\w+$", {"bar", "fo"}, {"foo", "foobar"}},
        {"^(?=.*\\d)(?=.*[a-z]).{4,}$", {"abc1", "1abc"}, {"abcd", "1234", "a1"}},
        {"^((?!ab).)*$", {"", "a", "ba"}, {"ab", "xab"}},
        {"foo(?!bar)", {"foo", "foobaz", "foobarfoo"}, {"foobar"}},
        {"(?<!x)y$", {"y", "ay"}, {"xy"}},
        {"^.*(?<=ab)$", {"ab", "xab"}, {"ba"}},
        {"^(a$|b)c?$", {"a", "bc", "b"}, {"ac"}},
        {"a^b", {NULL}, {"ab", "b"}},
        {"^^a$$", {"a"}, {"aa"}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void others_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int err;
    } cases[] = {{"a\\b", -ENOTSUP},    {"(a)\\1", -ENOTSUP},  {"\\p{L}", -ENOTSUP},  {"(?i)a", -ENOTSUP},
                 {"(^a|b)*", -ENOTSUP}, {"(", -EBADMSG},       {"a)", -EBADMSG},      {"[a", -EBADMSG},
                 {"[b-a]", -EBADMSG},   {"*a", -EBADMSG},      {"a{3,2}", -EBADMSG},  {"\\", -EBADMSG},
                 {"\\u12", -EBADMSG},   {"\\ud800", -EBADMSG}, {"a{200000}", -E2BIG}, {"\\Aa", -ENOTSUP},
                 {"(?<n", -EBADMSG}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct grammar_builder *b;
        expr_t e;
        assert_int_equal(grammar_builder_new(&b), 0);
        int r = compile(cases[i].pattern, false, b, &e);
        if (r != cases[i].err) fail_msg("%s: %d", cases[i].pattern, r);
        grammar_builder_free(b);
    }
    char deep[400];
    memset(deep, '(', sizeof(deep));
    struct grammar_builder *b;
    struct spelling s;
    struct jj_arena a = {0};
    struct pattern *p;
    assert_int_equal(grammar_builder_new(&b), 0);
    spelling_init(&s, b, false);
    assert_int_equal(pattern_parse(&a, &s, deep, sizeof(deep), &p), -E2BIG);
    jj_arena_fini(&a);
    grammar_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters),
        cmocka_unit_test(repetitions),
        cmocka_unit_test(assertions),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
