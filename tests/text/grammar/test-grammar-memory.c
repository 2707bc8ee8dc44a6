/* SPDX-License-Identifier: MIT */
/* Every allocation fails once: parsing, compiling, accepting, masks, completions. Each failure is an -ENOMEM without a
 * leak (ASan and valgrind check it), and the same call succeeds afterwards. */
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/regex-syntax.h"
#include "daemon/text/grammar/token-trie.h"
#include "tests/libcommon/check.h"
#include "tests/support/memory.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char text[] = "root ::= list | <stop>\nlist ::= \"[\" (item (\",\" item)*)? \"]\"\n"
                           "item ::= list | \"\\\"\" [^\"\\\\\\n]{0,40} \"\\\"\" | n{2,} | [a-c]+ \"x\"?\nn ::= [0-9]";

static int build(const struct tokenizer *tok, bool regex, struct grammar **out)
{
    struct grammar_builder *b;
    expr_t root;
    static const char re[] = "(?i)([^a-d\"]+|\\d{2,3}?|[[:alpha:]]x)*$";
    int r = grammar_builder_new(&b);
    if (r < 0) return r;
    r = regex ? regex_parse(b, re, strlen(re), &root) : gbnf_parse(b, text, strlen(text), tok, &root);
    if (r == 0) r = grammar_build(out, b, root);
    grammar_builder_free(b);
    return r;
}

/* Runs CALL, an int, until no allocation fails. @count gets the number of allocations. */
#define EACH(count, call)                                                                                              \
    do {                                                                                                               \
        for (count = 0;; count++) {                                                                                    \
            memory_fail(count);                                                                                        \
            int each_r = (call);                                                                                       \
            memory_end();                                                                                              \
            if (each_r >= 0) break;                                                                                    \
            assert_int_equal(each_r, -ENOMEM);                                                                         \
        }                                                                                                              \
    } while (0)

static struct tokenizer *make_tokenizer(void)
{
    static const struct tiny_token extra[] = {{"ab", TINY_NORMAL, 0},
                                              {"ab\"", TINY_NORMAL, 0},
                                              {"12", TINY_NORMAL, 0},
                                              {"<stop>", TINY_CONTROL, 0},
                                              {"<|im_end|>", TINY_CONTROL, 0}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *tok;
    tiny_bpe(&m, "gpt-2", NULL, extra, 5);
    assert_int_equal(tiny_tokenizer_new(&m, &tok), 0);
    return tok;
}

/* One answer with a new grammar each time, so that everything is computed again. */
static int answer(struct grammar *g, const struct token_trie *t, const char *s, uint64_t *mask)
{
    struct grammar_state *st, *copy = NULL;
    struct buf out = BUF_INIT;
    int r = grammar_state_new(&st, g);
    if (r < 0) return r;
    for (; r >= 0 && *s; s++) {
        r = grammar_state_mask(st, t, mask);
        size_t before = grammar_state_accepts(st);
        if (r >= 0) r = grammar_state_accept_token(st, t, (uint8_t)*s);
        assert_int_equal(grammar_state_accepts(st), before + (r == 1));
        if (r >= 0) assert_int_equal(r, 1);
    }
    if (r >= 0) r = grammar_state_clone(st, &copy);
    if (r >= 0) r = grammar_state_shortest(copy, &out, 100);
    if (r >= 0) r = grammar_state_forced(copy, &out, 10);
    buf_fini(&out);
    grammar_state_free(copy);
    grammar_state_free(st);
    return r;
}

static int whole(const struct tokenizer *tok, const struct token_trie *t, bool regex)
{
    uint64_t mask[16];
    struct grammar *g;
    int r = build(tok, regex, &g);
    if (r < 0) return r;
    r = answer(g, t, regex ? "12Ax,z" : "[[],\"ab\",12,abx", mask);
    grammar_unref(g);
    return r;
}

static void every_allocation_may_fail(void **state)
{
    struct tokenizer *tok = make_tokenizer();
    struct token_trie *t = NULL;
    unsigned long n;
    EACH(n, token_trie_new(&t, tok));
    assert_true(n >= 6 && token_trie_words(t) <= 16);
    for (int regex = 0; regex < 2; regex++) {
        EACH(n, whole(tok, t, regex));
        assert_true(n >= 50);
    }
    token_trie_free(t);
    tokenizer_free(tok);
}

/* A state whose accept or mask failed is as before, and the call succeeds when there is memory again. */
static void a_failed_call_changes_nothing(void **state)
{
    struct tokenizer *tok = make_tokenizer();
    struct token_trie *t;
    struct grammar *g;
    struct grammar_state *st;
    uint64_t mask[16], again[16];
    unsigned long n;
    assert_int_equal(token_trie_new(&t, tok), 0);
    assert_int_equal(build(tok, false, &g), 0);
    assert_int_equal(grammar_state_new(&st, g), 0);
    for (const char *s = "[\"x\",[12]]"; *s; s++) {
        EACH(n, grammar_state_mask(st, t, mask));
        assert_int_equal(grammar_state_mask(st, t, again), 0);
        assert_memory_equal(mask, again, token_trie_words(t) * 8);
        assert_true(mask[(uint8_t)*s / 64] >> (*s % 64) & 1);
        EACH(n, grammar_state_accept_token(st, t, (uint8_t)*s));
        assert_int_equal(grammar_state_has_ended(st), false);
    }
    assert_true(grammar_state_must_end(st));
    grammar_state_free(st);
    grammar_unref(g);
    token_trie_free(t);
    tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_failed_call_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
