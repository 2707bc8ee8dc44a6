/* SPDX-License-Identifier: MIT */
/* Grammars against a naive matcher: acceptance, what may follow, completions, rollback. Also tests grammar-state.c,
 * rules*.c, rows*.c, completion.c and dfa.c. */
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/grammar-inside.h"
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

static struct grammar *build(const char *text)
{
    struct grammar_builder *b;
    struct grammar *g;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    assert_int_equal(gbnf_parse(b, text, strlen(text), NULL, &root), 0);
    assert_int_equal(grammar_build(&g, b, root), 0);
    grammar_builder_free(b);
    return g;
}

static const char json[] =
    "root ::= value\n"
    "value ::= \"{\" (pair (\",\" pair)*)? \"}\" | \"[\" (value (\",\" value)*)? \"]\" | string | number\n"
    "pair ::= string \":\" value\n"
    "string ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [nt])* \"\\\"\"\n"
    "number ::= \"-\"? [0-9]+ (\".\" [0-9]+)?\n";

/* A text cut anywhere is completed to one that the grammar accepts, with no fewer bytes than brackets are open. */
static void cut_texts_are_completed(void **state)
{
    static const char text[] = "{\"a\\n\":[1,-2.5,[[{\"\":\"x\"}]]],\"b\":{\"c\":0}}";
    struct grammar *g = build(json);
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        struct grammar_state *st = new_state(g);
        struct buf out = BUF_INIT;
        assert_int_equal(grammar_state_accept_bytes(st, text, cut), 1);
        assert_int_equal(grammar_state_shortest(st, &out, 100), 0);
        long open = 0;
        for (size_t i = 0; i < cut; i++)
            open += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
        assert_true(out.len >= (size_t)open && out.len <= (size_t)open + 4);
        assert_int_equal(grammar_state_accept_bytes(st, out.data ? out.data : "", out.len), 1);
        assert_true(grammar_state_is_accepted(st));
        if (out.len) {
            grammar_state_rollback(st, 1);
            assert_int_equal(grammar_state_shortest(st, &out, out.len - 1), -E2BIG);
        }
        buf_fini(&out);
        grammar_state_free(st);
    }
    grammar_unref(g);
}

/* Rows that no state holds are freed: many deep texts do not take more memory than one. Earlier places stay valid. */
static void memory_is_given_back(void **state)
{
    struct grammar *g = build(json);
    struct grammar_state *kept = new_state(g);
    uint64_t random = 13;
    size_t most = 0;
    assert_int_equal(grammar_state_accept_bytes(kept, "[[[", 3), 1);
    for (int i = 0; i < 60; i++) {
        struct grammar_state *st = new_state(g);
        char open[3000];
        for (size_t k = 0; k < sizeof(open); k++) {
            open[k] = "[{"[next_random(&random) % 2];
            assert_int_equal(grammar_state_accept_bytes(st, open + k, 1), 1);
            if (open[k] == '{') assert_int_equal(grammar_state_accept_bytes(st, "\"k\":", 4), 1);
        }
        for (size_t k = sizeof(open); k-- > 0;) {
            const char *close = open[k] == '[' ? "1]" : "1}";
            bool first = k + 1 == sizeof(open);
            assert_int_equal(grammar_state_accept_bytes(st, close + !first, 1 + first), 1);
            if (open[k] == '[') assert_int_equal(grammar_state_may_follow(st, '}'), k > 0 && open[k - 1] == '{');
        }
        assert_true(grammar_state_must_end(st));
        grammar_state_free(st);
        size_t bytes = g->rows.bytes;
        if (bytes > most) most = bytes;
    }
    assert_true(most > (10u << 20) && most < (60u << 20));
    assert_int_equal(grammar_state_accept_bytes(kept, "1]]", 3), 1);
    assert_int_equal(grammar_state_accept_bytes(kept, "]", 1), 1);
    assert_true(grammar_state_must_end(kept));
    grammar_state_free(kept);
    grammar_unref(g);
}

/* The work of an ambiguous grammar grows with the text. A call that needs too much fails, and the state is as before.
 */
static void ambiguity_is_bounded(void **state)
{
    struct grammar *g = build("root ::= root root | root root root | \"a\"");
    struct grammar_state *st = new_state(g);
    char many[3000];
    memset(many, 'a', sizeof(many));
    assert_int_equal(grammar_state_accept_bytes(st, many, 20), 1);
    assert_int_equal(grammar_state_accept_bytes(st, many, sizeof(many)), -ETIME);
    assert_string_equal(error_text(-ETIME), "the constraint takes too long: it needs more than 20 million steps");
    assert_int_equal(grammar_state_accepts(st), 1);
    assert_true(grammar_state_is_accepted(st));
    assert_int_equal(grammar_state_accept_bytes(st, many, 10), 1);
    grammar_state_rollback(st, 2);
    assert_false(grammar_state_is_accepted(st));
    assert_int_equal(grammar_state_accept_bytes(st, many, 5), 1);
    grammar_state_free(st);
    grammar_unref(g);
}

/* Rules in a chain, whose order is such that each look at all of them finds one more length. */
static struct grammar *build_chain(int n)
{
    struct buf text = BUF_INIT;
    assert_int_equal(buf_puts(&text, "root ::= "), 0);
    for (int i = n; i > 0; i--) assert_int_equal(buf_printf(&text, "c%d \"z\"{1000} | ", i), 0);
    assert_int_equal(buf_puts(&text, "c0\n"), 0);
    for (int i = 0; i < n; i++) assert_int_equal(buf_printf(&text, "c%d ::= c%d \"x\" | \"%d!\"\n", i, i + 1, i), 0);
    assert_int_equal(buf_printf(&text, "c%d ::= \"y\"", n), 0);
    struct grammar *g = build(text.data);
    buf_fini(&text);
    return g;
}

static void completions_are_bounded(void **state)
{
    struct grammar *g = build_chain(3000);
    struct grammar_state *st = new_state(g);
    struct buf out = BUF_INIT;
    assert_int_equal(grammar_state_shortest(st, &out, 10000), -ETIME);
    assert_int_equal(grammar_state_accept_bytes(st, "7!", 2), 1);
    grammar_state_free(st);
    grammar_unref(g);
    g = build_chain(100);
    st = new_state(g);
    assert_int_equal(grammar_state_accept_bytes(st, "y", 1), 1);
    assert_int_equal(grammar_state_shortest(st, &out, 10000), 0);
    assert_int_equal(out.len, 100);
    buf_clear(&out);
    assert_int_equal(grammar_state_accept_bytes(st, "xx", 2), 1);
    assert_int_equal(grammar_state_shortest(st, &out, 97), -E2BIG);
    assert_int_equal(grammar_state_shortest(st, &out, 98), 0);
    assert_int_equal(strspn(out.data, "x"), 98);
    buf_fini(&out);
    grammar_state_free(st);
    grammar_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_match_as_the_naive_matcher),
        cmocka_unit_test(cut_texts_are_completed),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(ambiguity_is_bounded),
        cmocka_unit_test(completions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
