/* SPDX-License-Identifier: MIT */
/* Regular expressions: each construct, each refusal, and random ones against PCRE2. Also tests regex-classes.c and
 * expr-list.c. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "daemon/text/grammar/regex-syntax.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

/* 1, 0, or the error of the parser. */
static int matches(const char *re, const char *s)
{
    struct grammar_builder *b;
    expr_t e;
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = regex_parse(b, re, strlen(re), &e);
    if (r == 0) r = expr_matches(b, e, s, strlen(s));
    grammar_builder_free(b);
    return r;
}

static const struct {
    const char *re, *yes, *no;
} table[] = {
    {"abc", "abc", "ab"},
    {"", "", "a"},
    {"a|b|", "", "ab"},
    {"(a|b)*c", "abac", "abca"},
    {"a{2}b{1,}c{0,2}", "aabbc", "aabccc"},
    {"a{,2}", "a{,2}", "a"},
    {"x{a}", "x{a}", "x"},
    {"a*?b+?c??", "aabb", "aac"},
    {"[a-c]+[^a-c\\d]", "abcx", "abc1"},
    {"[]a]+", "]a]", "[]"},
    {"[^]a]", "b", "]"},
    {"[-a]+[a-]", "-a-", "b"},
    {"[[:alpha:]_][[:^digit:]]", "_x", "_1"},
    {"[\\w.]+@\\d+\\s", "a.b@12 ", "a.b@x "},
    {"\\D\\W\\S", "a-b", "1-b"},
    {"\\Qa.b*\\E+c", "a.b***c", "a.b*a.b*c"},
    {"x\\Qa.b*\\Ec", "xa.b*c", "xa.bbc"},
    {"a|\\Qbc", "bc", "ac"},
    {"\\x41\\x{e9}\\n\\t\\.", "A\xc3\xa9\n\t.", "A\xe9\n\t."},
    {".", "\xe2\x82\xac", "\n"},
    {"(?s).", "\n", "ab"},
    {"(?s:.)x", "\nx", "\n"},
    {"(?s:a).", "ab", "a\n"},
    {"(?i)ab[c-d]", "AbD", "abe"},
    {"(?i:a)b", "Ab", "AB"},
    {"(?i)a(?-i)b", "Ab", "AB"},
    {"(?i)[^a]", "b", "A"},
    {"(?i)[[:upper:]][[:lower:]]", "bA", "1A"},
    {"(?i)[[:^upper:]]", "1", "a"},
    {"[[:upper:]][[:^upper:]]", "Aa", "aA"},
    {"(?P<name>a)(?<other>b)(?:c)", "abc", "ab"},
    {"^abc$", "abc", "xabc"},
    {"\\Aabc\\z", "abc", ""},
    {"(^a|^b)c$|d", "bc", "b"},
    {"\\^\\$", "^$", ""},
};

static void constructs_match(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (matches(table[i].re, table[i].yes) != 1) fail_msg("%s: %s", table[i].re, table[i].yes);
        if (matches(table[i].re, table[i].no) != 0) fail_msg("%s: not %s", table[i].re, table[i].no);
    }
}

static const struct {
    const char *re, *error;
} errors[] = {
    {"(a)\\1", "character 4: a back reference, \\1, is not supported"},
    {"(?<x>a)\\k<x>", "character 8: a back reference, \\k, is not supported"},
    {"a(?=b)", "character 2: look-around is not supported"},
    {"a(?!b)", "character 2: look-around is not supported"},
    {"(?<=a)b", "character 1: look-around is not supported"},
    {"(?<!a)b", "character 1: look-around is not supported"},
    {"(?>a)", "character 1: an atomic group is not supported"},
    {"(?P=x)", "character 1: a reference to a group is not supported"},
    {"a*+", "character 3: a possessive repetition is not supported"},
    {"a\\Q\\E+", "character 2: the repetition of an empty quotation is not supported"},
    {"a**", "character 3: a repetition of a repetition needs a group"},
    {"\\bword", "character 1: a word boundary, \\b, is not supported"},
    {"\xc3\xa9\\pL", "character 2: a Unicode class, \\p, is not supported"},
    {"(?m)a", "character 1: (?m), anchors of lines, is not supported"},
    {"(?x)a", "character 1: a group begins with (?: or (?P<name> or flags of i, s, U"},
    {"a^b", "character 2: an anchor inside the expression is not supported"},
    {"a$b", "character 3: an anchor inside the expression is not supported"},
    {"(a$)b", "character 5: an anchor inside the expression is not supported"},
    {"(^a)*", "character 5: the repetition of an anchor is not supported"},
    {"(?i)\xc3\xa9", "character 5: (?i) is for ASCII characters only"},
    {"(a", "character 1: the group has no end"},
    {"a)", "character 2: ')' without its '('"},
    {"[a", "character 1: the class has no end"},
    {"[z-a]", "character 2: the range ends before it begins"},
    {"[[:foo:]]", "character 2: no class has the name 'foo'"},
    {"*a", "character 1: nothing stands before '*'"},
    {"a{3,2}", "character 2: the most repetitions are fewer than the least"},
    {"a{2000000}", "character 2: more than 1000000 repetitions"},
    {"a\\", "character 2: '\\' stands at the end"},
    {"\\y", "character 1: the escape \\y is not supported"},
    {"\\x4", "character 1: the escape is \\xHH or \\x{H...}"},
    {"\\x{D800}", "character 1: the escape is no character"},
    {"a\xff", "character 2: invalid UTF-8"},
    {"(?P<x", "character 1: the name of the group has no end"},
};

static void refusals_name_their_place(void **state)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        assert_int_equal(matches(errors[i].re, ""), -EINVAL);
        assert_string_equal(error_text(-EINVAL), errors[i].error);
    }
}

/* A random expression of pieces that both know. */
static void random_regex(uint64_t *random, char *out, size_t size)
{
    static const char *const pieces[] = {
        "a", "b",   "[ab]",  "[^a]", ".", "\\w",    "\\s",   "(a|b)",        "(?:ab)",   "|", "*", "+?",
        "?", "{2}", "{1,2}", "(",    ")", "(?i:a)", "\\x62", "[[:upper:]b]", "\xc3\xa9", "^", "$"};
    unsigned n = 1 + next_random(random) % 8;
    *out = 0;
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(out);
        snprintf(out + len, size - len, "%s", pieces[next_random(random) % (sizeof pieces / sizeof *pieces)]);
    }
}

static void random_expressions_match_as_pcre2(void **state)
{
    static const char *const texts[] = {"",     "a",        "b",         "A", "ab", "aa", "ba",  "aab",
                                        "abab", "\xc3\xa9", "a\xc3\xa9", " ", "\n", "Ba", "abb", "bbb"};
    uint64_t random = 21;
    unsigned compared = 0, matched = 0;
    for (int i = 0; i < 6000; i++) {
        char re[128], whole[160];
        int code;
        size_t at;
        random_regex(&random, re, sizeof(re));
        int ours = matches(re, "");
        snprintf(whole, sizeof(whole), "(?:%s)\\z", re);
        pcre2_code *c = pcre2_compile((PCRE2_SPTR)re, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL);
        if (ours < 0 || !c) {
            /* We refuse more (anchors inside, repeated repetitions), but nothing is accepted that PCRE2 does not know.
             */
            assert_true(ours < 0);
            pcre2_code_free(c);
            continue;
        }
        pcre2_code_free(c);
        c = pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY,
                          &code, &at, NULL);
        assert_non_null(c);
        pcre2_match_data *d = pcre2_match_data_create_from_pattern(c, NULL);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            int r = pcre2_match(c, (PCRE2_SPTR)texts[k], strlen(texts[k]), 0, 0, d, NULL);
            if (matches(re, texts[k]) != (r > 0)) fail_msg("%s: %s", re, texts[k]);
            matched += r > 0;
        }
        pcre2_match_data_free(d);
        pcre2_code_free(c);
        compared++;
    }
    assert_true(compared > 1000 && matched > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructs_match),
        cmocka_unit_test(refusals_name_their_place),
        cmocka_unit_test(random_expressions_match_as_pcre2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
