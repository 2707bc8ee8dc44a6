/* SPDX-License-Identifier: MIT */
/* Masks against the acceptance of each token. Also tests mask-part.c, mask-walk.c, mask-difference.c, mask-cache.c and
 * token-trie.c. */
#include "daemon/text/grammar/token-trie.h"
#include "tests/libcommon/check.h"
#include "tests/text/grammar/naive-expr.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 300 /* tokens of several letters */
#define END   (256 + WORDS)

/* All bytes, random words over a to d (some twice), two controls of which the first ends the answer. */
static struct token_trie *make_trie(uint64_t *random, const char *letters)
{
    struct tiny_tokenizer m = {0};
    struct tiny_token extra[WORDS + 2];
    static char words[WORDS][12];
    struct tokenizer *tok;
    struct token_trie *t;
    for (int i = 0; i < WORDS; i++) {
        unsigned n = 2 + next_random(random) % 6;
        int used = snprintf(words[i], sizeof(words[i]), "%c", "abcd"[i % 4]);
        for (unsigned k = 1; k < n; k++) words[i][used++] = letters[next_random(random) % strlen(letters)];
        words[i][used] = 0;
        for (int k = 0; k < i; k++)
            if (!strcmp(words[i], words[k])) snprintf(words[i], sizeof(words[i]), "x%d", i);
        extra[i] = (struct tiny_token){words[i], TINY_NORMAL, 0};
    }
    extra[WORDS] = (struct tiny_token){"<|im_end|>", TINY_CONTROL, 0};
    extra[WORDS + 1] = (struct tiny_token){"<think>", TINY_CONTROL, 0};
    tiny_bpe(&m, "gpt-2", NULL, extra, WORDS + 2);
    assert_int_equal(tiny_tokenizer_new(&m, &tok), 0);
    assert_int_equal(token_trie_new(&t, tok), 0);
    tokenizer_free(tok);
    return t;
}

/* Compares the mask of a state with each token. Returns a random token of the mask; -1: it is empty. */
static int32_t check_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *random)
{
    uint64_t mask[(END + 2 + 63) / 64];
    int32_t some = -1;
    unsigned n = 0;
    assert_int_equal(token_trie_words(t), sizeof(mask) / 8);
    assert_int_equal(grammar_state_mask(st, t, mask), 0);
    for (int32_t id = 0; id < (int32_t)token_trie_words(t) * 64; id++) {
        int r = grammar_state_accept_token(st, t, id);
        assert_int_equal(mask[id >> 6] >> (id & 63) & 1, r);
        if (r == 0) continue;
        grammar_state_rollback(st, 1);
        if (next_random(random) % ++n == 0) some = id;
    }
    return some;
}

static void walk_randomly(struct grammar *g, const struct token_trie *t, uint64_t *random)
{
    struct grammar_state *st;
    assert_int_equal(grammar_state_new(&st, g), 0);
    for (int steps = 0; steps < 6; steps++) {
        int32_t id = check_mask(st, t, random);
        if (id < 0) break;
        assert_int_equal(grammar_state_accept_token(st, t, id), 1);
        if (token_trie_is_end(t, id)) {
            assert_true(grammar_state_has_ended(st));
            assert_int_equal(check_mask(st, t, random), -1);
        }
    }
    grammar_state_free(st);
}

static void masks_have_the_tokens_that_are_accepted(void **state)
{
    uint64_t random = 11;
    struct token_trie *t = make_trie(&random, "abcd");
    for (int i = 0; i < 250; i++) {
        struct naive_grammar p;
        naive_grammar_make(&p, &random);
        for (int k = 0; p.g && k < 3; k++) walk_randomly(p.g, t, &random);
        naive_grammar_free(&p);
    }
    token_trie_free(t);
}

/* Strings with counted characters, escapes, and contexts behind them: the parts that grammars share. */
static expr_t make_string(struct grammar_builder *b, uint32_t min, uint32_t max)
{
    const struct expr_range plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    expr_t pair[] = {expr_bytes(b, "\\", 1), expr_bytes(b, "\"", 1)};
    expr_t chars[] = {expr_chars(b, plain, 3), expr_seq(b, pair, 2)};
    expr_t body = expr_repeat(b, expr_alt(b, chars, 2), min, max);
    expr_t quoted[] = {pair[1], body, pair[1]}, rule = expr_rule(b);
    expr_define(b, rule, expr_seq(b, quoted, 3));
    return rule;
}

static void counted_strings_have_exact_masks(void **state)
{
    uint64_t random = 5;
    struct token_trie *t = make_trie(&random, "abcd\"\\,[]");
    for (uint32_t i = 0; i < 60; i++) {
        struct grammar_builder *b;
        struct grammar *g;
        assert_int_equal(grammar_builder_new(&b), 0);
        uint32_t min = next_random(&random) % 4, max = i % 3 ? min + next_random(&random) % 12 : EXPR_UNLIMITED;
        expr_t string = make_string(b, min, max), list = expr_rule(b);
        expr_t more[] = {expr_bytes(b, ",", 1), string}, items[] = {string, expr_repeat(b, expr_seq(b, more, 2), 0, 5)};
        expr_t parts[] = {expr_bytes(b, "[", 1), expr_alt(b, (expr_t[]){expr_seq(b, items, 2), list}, 2),
                          expr_bytes(b, "]", 1)};
        expr_define(b, list, expr_seq(b, parts, 3));
        assert_int_equal(grammar_build(&g, b, i % 2 ? list : string), 0);
        grammar_builder_free(b);
        for (int k = 0; k < 6; k++) walk_randomly(g, t, &random);
        grammar_unref(g);
    }
    token_trie_free(t);
}

/* Strings that are none of some words, with and without quotation marks in what is taken away. */
static expr_t make_other(struct grammar_builder *b, uint64_t *random)
{
    const struct expr_range plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    uint32_t min = next_random(random) % 3,
             max = next_random(random) % 2 ? EXPR_UNLIMITED : min + next_random(random) % 9;
    expr_t body = expr_repeat(b, expr_chars(b, plain, 3), min, max), mark = expr_bytes(b, "\"", 1), words[6];
    bool marks = next_random(random) % 2;
    for (int i = 0; i < 6; i++) {
        char word[8];
        unsigned n = 1 + next_random(random) % 5;
        for (unsigned k = 0; k < n; k++) word[k] = (char)('a' + next_random(random) % 4);
        words[i] = expr_bytes(b, word, n);
    }
    expr_t but_words = expr_alt(b, words, 6), whole[] = {mark, body, mark}, but[] = {mark, but_words, mark};
    if (next_random(random) % 3 == 0)
        but_words = but[1] = expr_seq(b, (expr_t[]){but_words, expr_repeat(b, body, 0, 2)}, 2);
    if (marks) return expr_and(b, expr_seq(b, whole, 3), expr_not(b, expr_seq(b, but, 3)));
    whole[1] = expr_and(b, body, expr_not(b, but_words));
    return expr_seq(b, whole, 3);
}

static void other_words_have_exact_masks(void **state)
{
    uint64_t random = 31;
    struct token_trie *t = make_trie(&random, "abcd\"\\,[]");
    for (uint32_t i = 0; i < 120; i++) {
        struct grammar_builder *b;
        struct grammar *g;
        assert_int_equal(grammar_builder_new(&b), 0);
        expr_t parts[] = {make_other(b, &random), expr_bytes(b, i % 2 ? "," : "a", 1), make_other(b, &random)};
        assert_int_equal(grammar_build(&g, b, expr_seq(b, parts, 3)), 0);
        grammar_builder_free(b);
        for (int k = 0; k < 5; k++) walk_randomly(g, t, &random);
        grammar_unref(g);
    }
    token_trie_free(t);
}

/* A control token only where the grammar names it; a set of all others; a token and its text. */
static void tokens_by_name_are_exact(void **state)
{
    uint64_t random = 2;
    struct token_trie *t = make_trie(&random, "abcd");
    struct grammar_builder *b;
    struct grammar *g;
    struct grammar_state *st;
    const int32_t think = END + 1, a = 'a';
    assert_int_equal(grammar_builder_new(&b), 0);
    expr_t open = expr_tokens(b, &think, 1, false), other = expr_tokens(b, (int32_t[]){think, 'b'}, 2, true);
    expr_t parts[] = {open, expr_repeat(b, other, 0, 3), expr_tokens(b, &a, 1, false), expr_bytes(b, "a", 1)};
    expr_t both[] = {expr_seq(b, parts, 4), expr_bytes(b, "ab", 2)};
    assert_int_equal(grammar_build(&g, b, expr_alt(b, both, 2)), 0);
    grammar_builder_free(b);
    for (int k = 0; k < 30; k++) walk_randomly(g, t, &random);
    assert_int_equal(grammar_state_new(&st, g), 0);
    assert_int_equal(grammar_state_accept_token(st, t, 'b'), 0);
    assert_int_equal(grammar_state_accept_token(st, t, think), 1);
    assert_int_equal(grammar_state_accept_token(st, t, think), 0);
    assert_int_equal(grammar_state_accept_token(st, t, END), 0);
    assert_int_equal(grammar_state_accept_token(st, t, 'b'), 0);
    assert_int_equal(grammar_state_accept_token(st, t, 'c'), 1);
    assert_int_equal(grammar_state_accept_token(st, t, 'a'), 1);
    assert_int_equal(grammar_state_accept_bytes(st, "a", 1), 1);
    assert_true(grammar_state_is_accepted(st));
    assert_int_equal(grammar_state_accepts(st), 4);
    assert_int_equal(grammar_state_accept_token(st, t, END), 1);
    struct grammar_state *copy;
    assert_int_equal(grammar_state_clone(st, &copy), 0);
    grammar_state_rollback(st, 5);
    assert_int_equal(grammar_state_accept_token(st, t, 'a'), 1);
    assert_true(grammar_state_has_ended(copy));
    grammar_state_free(copy);
    grammar_state_free(st);
    grammar_unref(g);
    token_trie_free(t);
}

/* One thread's answers with two grammars that all threads share. */
struct walker {
    struct grammar *g[2];
    const struct token_trie *t;
    uint64_t hash, seed;
};

static void *walk_hashing(void *p)
{
    struct walker *w = p;
    uint64_t mask[(END + 2 + 63) / 64], random = w->seed;
    for (int i = 0; i < 40; i++) {
        struct grammar_state *st;
        if (grammar_state_new(&st, w->g[i % 2]) < 0) return NULL;
        for (int steps = 0; steps < 30; steps++) {
            if (grammar_state_mask(st, w->t, mask) < 0) return NULL;
            for (size_t k = 0; k < sizeof(mask) / 8; k++) w->hash = (w->hash ^ mask[k]) * 0x9e3779b97f4a7c15u;
            uint32_t id = next_random(&random) % END;
            while (!(mask[id >> 6] >> (id & 63) & 1)) id = (id + 1) % (END + 1);
            if (grammar_state_accept_token(st, w->t, (int32_t)id) != 1 || id == END) break;
        }
        grammar_state_free(st);
    }
    return w;
}

/* Threads that share grammars and a trie get the masks that one thread gets. */
static void threads_share_grammars(void **state)
{
    uint64_t random = 17;
    struct token_trie *t = make_trie(&random, "abcd\"\\,[]");
    uint64_t alone[4];
    for (int round = 0; round < 2; round++) {
        struct walker w[4];
        pthread_t thread[4];
        struct grammar *g[2];
        for (int i = 0; i < 2; i++) {
            struct grammar_builder *b;
            assert_int_equal(grammar_builder_new(&b), 0);
            expr_t string = make_string(b, 1, i ? 9 : EXPR_UNLIMITED);
            expr_t more[] = {expr_bytes(b, ",", 1), string};
            expr_t items[] = {string, expr_repeat(b, expr_seq(b, more, 2), 0, 5)};
            assert_int_equal(grammar_build(&g[i], b, expr_seq(b, items, 2)), 0);
            grammar_builder_free(b);
        }
        for (uint64_t i = 0; i < 4; i++) {
            w[i] = (struct walker){{g[0], g[1]}, t, 1, i};
            if (round == 0)
                assert_non_null(walk_hashing(&w[i]));
            else
                assert_int_equal(pthread_create(&thread[i], NULL, walk_hashing, &w[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            void *r = NULL;
            if (round && pthread_join(thread[i], &r) == 0) assert_non_null(r);
            if (round == 0) alone[i] = w[i].hash;
            assert_true(w[i].hash == alone[i]);
        }
        grammar_unref(g[0]);
        grammar_unref(g[1]);
    }
    token_trie_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_have_the_tokens_that_are_accepted),
        cmocka_unit_test(counted_strings_have_exact_masks),
        cmocka_unit_test(other_words_have_exact_masks),
        cmocka_unit_test(tokens_by_name_are_exact),
        cmocka_unit_test(threads_share_grammars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
