/* SPDX-License-Identifier: MIT */
/* Grammars and regular expressions that are written to be slow, large, or to have no text. Each is accepted, and then
 * also masked, or refused with an error, within the limits of regex.h, rules.h and rows.h. */
#include "daemon/text/grammar/builder.h"
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/regex-syntax.h"
#include "daemon/text/grammar/token-trie.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct token_trie *trie;

static int set_up(void **state)
{
    (void)state;
    static const struct tiny_token extra[] = {{"aaaaaaaa", TINY_NORMAL, 0}, {"\xc3\x83\xc2\xa9", TINY_NORMAL, 0},
                                              {"((((", TINY_NORMAL, 0},     {"abab", TINY_NORMAL, 0},
                                              {"xxxx", TINY_NORMAL, 0},     {"<|im_end|>", TINY_CONTROL, 0}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *tok;
    tiny_bpe(&m, "gpt-2", NULL, extra, 6);
    assert_int_equal(tiny_tokenizer_new(&m, &tok), 0);
    assert_int_equal(token_trie_new(&trie, tok), 0);
    tokenizer_free(tok);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    token_trie_free(trie);
    return 0;
}

/* Takes up to 12 tokens of the masks. Each call succeeds, or fails with a limit and a sentence. */
static void use(struct grammar *g)
{
    struct grammar_state *st;
    uint64_t *mask = calloc(token_trie_words(trie), sizeof(*mask));
    assert_non_null(mask);
    assert_int_equal(grammar_state_new(&st, g), 0);
    for (int i = 0; i < 12; i++) {
        int r = grammar_state_mask(st, trie, mask);
        assert_true(g->rows.dfa.store.work <= REGEX_CALL_WORK + 100000);
        if (r < 0) {
            assert_true(r == -ETIME || r == -E2BIG || r == -ELOOP);
            assert_non_null(strstr(error_text(r), "the constraint"));
            break;
        }
        int32_t id = (int32_t)trie->vocab - 1;
        while (id >= 0 && !(mask[id >> 6] >> (id & 63) & 1)) id--;
        if (id < 0) break;
        r = grammar_state_accept_token(st, trie, id);
        assert_true(r == 1 || r == -ETIME || r == -E2BIG || r == -ELOOP);
        if (r < 0) break;
    }
    grammar_state_free(st);
    assert_true(g->rows.bytes + g->rows.dfa.store.bytes < REGEX_BYTES_MAX + ROWS_BYTES_MAX);
    grammar_unref(g);
    free(mask);
}

/* Refused with @want, or built if it is 0; either if it is 1. */
static void check(const char *what, int (*parse)(struct grammar_builder *, const char *, size_t, expr_t *),
                  const char *s, size_t n, int want)
{
    struct grammar_builder *b;
    struct grammar *g;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = parse(b, s, n, &root);
    assert_true(b->store.work <= REGEX_BUILD_WORK + 100000);
    if (r == 0) r = grammar_build(&g, b, root);
    grammar_builder_free(b);
    if (want != 1 && r != want) fail_msg("%s: %d instead of %d: %s", what, r, want, r < 0 ? error_text(r) : "built");
    if (r < 0) assert_true(strlen(error_text(r)) > 20);
    if (r == 0) use(g);
}

static int gbnf(struct grammar_builder *b, const char *s, size_t n, expr_t *out)
{
    return gbnf_parse(b, s, n, NULL, out);
}

static void expressions_that_make_others_backtrack(void **state)
{
    static const struct {
        const char *re;
        int want;
    } table[] = {
        {"(a+)+b", 0},
        {"(a|a)*b", 0},
        {"(a|aa)+$", 0},
        {"((a*)*)*b", 0},
        {"(.*)(.*)(.*)(.*)(.*)(.*)x", 0},
        {"(x+x+)+y", 0},
        {"(((((((((a{0,9}){0,9}){0,9}){0,9}){0,9}){0,9}){0,9}){0,9}){0,9}){0,9}b", 0},
        {".*a.{20}", 0},
        {"(.*a.{12}|.*b.{13}|.*a.{14}b.*)", 0},
        {"[^a]*a[^b]{900}b", 0},
        {"(?s).{100000}", 0},
        {"(a{1000}){1000}", 0},
        {"(ab|[^a-z]{3,700}|.{2,900}x){5,800}", 1},
        {"(a{1000000}){1000000}b", 1},
        {"a{1000001}", -EINVAL},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        check(table[i].re, regex_parse, table[i].re, strlen(table[i].re), table[i].want);
}

/* A complement of thousands of ranges, and many unions of classes that overlap. */
static void unions_over_all_of_unicode(void **state)
{
    struct buf s = BUF_INIT;
    for (int not = 0; not < 2; not ++) {
        buf_clear(&s);
        assert_int_equal(buf_puts(&s, not ? "[^" : "["), 0);
        for (uint32_t c = 0xe000; c < 0x10ffff; c += 97)
            assert_int_equal(buf_printf(&s, "\\x{%x}-\\x{%x}", c, c + 3), 0);
        assert_int_equal(buf_puts(&s, "]*a"), 0);
        check("a class", regex_parse, s.data, s.len, 1);
    }
    buf_clear(&s);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(buf_printf(&s, "%s.*[\\x{%x}-\\x{%x}].*[\\x{%x}-\\x{10ffff}]", i ? "|" : "", 0x80 + i * 7,
                                    0x10000 + i * 911, 0x800 + i * 13),
                         0);
    check("a union", regex_parse, s.data, s.len, 1);
    buf_fini(&s);
}

static void grammars_without_a_finite_text(void **state)
{
    static const char *const none[] = {"root ::= root", "root ::= \"a\" root", "root ::= x\nx ::= y\ny ::= x",
                                       "root ::= \"a\" x \"b\"\nx ::= \"(\" x \")\" | x x", "root ::= [a-z]+ root+"};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) check(none[i], gbnf, none[i], strlen(none[i]), -EDOM);
    static const char *const some[] = {"root ::= \"a\" root | root | \"\"", "root ::= (root root)* | \"x\"",
                                       "root ::= (((\"\")*)*)*", "root ::= x{0,1000}\nx ::= x? x? \"a\"?"};
    for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) check(some[i], gbnf, some[i], strlen(some[i]), 0);
}

/* Each rule twice the next, many rules, deep groups, long literals, ambiguity. */
static void grammars_that_grow(void **state)
{
    struct buf s = BUF_INIT;
    assert_int_equal(buf_puts(&s, "root ::= r0\n"), 0);
    for (int i = 0; i < 60; i++)
        assert_int_equal(buf_printf(&s, "r%d ::= r%d r%d | r%d \"x\"\n", i, i + 1, i + 1, i + 1), 0);
    assert_int_equal(buf_puts(&s, "r60 ::= \"a\" | \"b\"\n"), 0);
    check("doubling", gbnf, s.data, s.len, 1);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "root ::= r0\n"), 0);
    for (int i = 0; i < 50000; i++)
        assert_int_equal(buf_printf(&s, "r%d ::= \"%x\" r%d | r%d\n", i, i, i + 1, i + 1), 0);
    assert_int_equal(buf_puts(&s, "r50000 ::= root? \"a\"\n"), 0);
    check("a chain", gbnf, s.data, s.len, 1);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "root ::= "), 0);
    for (int i = 0; i < 100000; i++) assert_int_equal(buf_puts(&s, "("), 0);
    check("groups", gbnf, s.data, s.len, -EINVAL);
    check("groups", regex_parse, s.data + 9, s.len - 9, -EINVAL);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "root ::= \""), 0);
    for (int i = 0; i < 1000000; i++) assert_int_equal(buf_puts(&s, i % 7 ? "a" : "bcd"), 0);
    assert_int_equal(buf_puts(&s, "\""), 0);
    check("a long literal", gbnf, s.data, s.len, 1);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "root ::= root root | root root root | \"a\" | \"aa\" | root{2,9}"), 0);
    check("ambiguity", gbnf, s.data, s.len, 0);
    buf_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_that_make_others_backtrack),
        cmocka_unit_test(unions_over_all_of_unicode),
        cmocka_unit_test(grammars_without_a_finite_text),
        cmocka_unit_test(grammars_that_grow),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
