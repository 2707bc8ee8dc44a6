/* SPDX-License-Identifier: MIT */
/* Grammars against a naive matcher: acceptance, what may follow, completions, rollback. Also tests grammar-state.c,
 * rules*.c, rows*.c, completion.c and dfa.c. */
#include "daemon/text/grammar/grammar.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/grammar/naive-expr.h"
#include <stdlib.h>
#include <string.h>

#define LEN 5

static struct grammar_state *new_state(struct grammar *g)
{
    struct grammar_state *st;
    assert_int_equal(grammar_state_new(&st, g), 0);
    return st;
}

/* Follows all texts up to LEN from a state. Returns a bit for each length of a text that matches, from here on. */
static unsigned follow(const struct naive_grammar *p, struct grammar_state *st, char *s, unsigned n)
{
    bool in = naive_grammar_matches(p, s, n);
    unsigned lengths = in ? 1 : 0;
    assert_int_equal(grammar_state_is_accepted(st), in);
    for (char c = 'a'; c <= 'd' && n < LEN; c++) {
        s[n] = c;
        bool may = grammar_state_may_follow(st, (uint8_t)c);
        assert_int_equal(grammar_state_accept_bytes(st, &c, 1), may);
        if (!may) {
            /* No text with this beginning matches. */
            assert_false(naive_grammar_matches(p, s, n + 1));
            for (unsigned k = 0; k < 16 && n + 3 <= LEN; k++) {
                s[n + 1] = (char)('a' + k % 4);
                s[n + 2] = (char)('a' + k / 4);
                assert_false(naive_grammar_matches(p, s, n + 3) || naive_grammar_matches(p, s, n + 2));
            }
            continue;
        }
        lengths |= follow(p, st, s, n + 1) << 1;
        grammar_state_rollback(st, 1);
    }
    assert_int_equal(grammar_state_is_accepted(st), in);
    return lengths;
}

static void completions_match(const struct naive_grammar *p, struct grammar_state *st, const char *s, unsigned n,
                              unsigned lengths)
{
    struct buf out = BUF_INIT;
    char all[NAIVE_LEN];
    int r = grammar_state_shortest(st, &out, NAIVE_LEN - n);
    memcpy(all, s, n);
    if (lengths) assert_int_equal(r, 0);
    if (r == 0) {
        if (out.len) memcpy(all + n, out.data, out.len);
        assert_true(naive_grammar_matches(p, all, n + (unsigned)out.len));
        /* Another byte than a to d may make it shorter. */
        if (lengths) assert_true(out.len <= (unsigned)__builtin_ctz(lengths));
    } else {
        assert_int_equal(r, -E2BIG);
    }
    buf_clear(&out);
    assert_int_equal(grammar_state_forced(st, &out, 3), 0);
    for (size_t i = 0; i < out.len; i++) {
        assert_false(grammar_state_is_accepted(st));
        for (int b = 0; b < 256; b++)
            assert_int_equal(grammar_state_may_follow(st, (uint8_t)b), b == (uint8_t)out.data[i]);
        assert_int_equal(grammar_state_accept_bytes(st, out.data + i, 1), 1);
    }
    grammar_state_rollback(st, out.len);
    buf_fini(&out);
}

static void random_grammars_match_as_the_naive_matcher(void **state)
{
    uint64_t random = 3;
    int made = 0, nested = 0;
    for (int i = 0; i < 500; i++) {
        struct naive_grammar p;
        char s[NAIVE_LEN];
        naive_grammar_make(&p, &random);
        if (p.g) {
            struct grammar_state *st = new_state(p.g);
            unsigned lengths = follow(&p, st, s, 0);
            completions_match(&p, st, s, 0, lengths);
            for (char c = 'a'; c <= 'd'; c++)
                if (grammar_state_accept_bytes(st, &c, 1)) {
                    s[0] = c;
                    lengths = follow(&p, st, s, 1);
                    s[0] = c;
                    completions_match(&p, st, s, 1, lengths);
                    grammar_state_rollback(st, 1);
                    nested++;
                }
            grammar_state_free(st);
            made++;
        } else {
            assert_false(naive_grammar_matches(&p, s, 0));
        }
        naive_grammar_free(&p);
    }
    assert_true(made > 200 && nested > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_match_as_the_naive_matcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
