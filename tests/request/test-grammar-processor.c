/* SPDX-License-Identifier: MIT */
/* A chain with a grammar samples exactly from the renormalized distribution; accept, rollback and clone are exact. */
#include "daemon/request/grammar-processor.h"
#include "daemon/sample/processors.h"
#include "daemon/sample/sampling.h"
#include "daemon/text/grammar/gbnf.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/tiny-tokenizer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB 261 /* the 256 bytes, four words and the end */
#define ROW   270 /* a model's rows may be longer than the vocabulary */
#define END   260

struct fixture {
    struct tokenizer *tok;
    struct token_trie *trie;
    struct sample_scratch *scratch;
};

static int setup(void **state)
{
    static const struct tiny_token extra[] = {{"ab", TINY_NORMAL, 0},
                                              {"abc", TINY_NORMAL, 0},
                                              {"bc", TINY_NORMAL, 0},
                                              {"cab", TINY_NORMAL, 0},
                                              {"<|im_end|>", TINY_CONTROL, 0}};
    static struct fixture f;
    struct tiny_tokenizer m = {0};
    tiny_bpe(&m, "gpt-2", NULL, extra, 5);
    assert_int_equal(tiny_tokenizer_new(&m, &f.tok), 0);
    assert_int_equal(token_trie_new(&f.trie, f.tok), 0);
    assert_int_equal(sample_scratch_new(&f.scratch, ROW), 0);
    assert_int_equal(token_trie_words(f.trie), (VOCAB + 63) / 64);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sample_scratch_free(f->scratch);
    token_trie_free(f->trie);
    tokenizer_free(f->tok);
    return 0;
}

static struct grammar *build(const struct fixture *f, const char *text)
{
    struct grammar_builder *b;
    struct grammar *g;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    assert_int_equal(gbnf_parse(b, text, strlen(text), f->tok, &root), 0);
    assert_int_equal(grammar_build(&g, b, root), 0);
    grammar_builder_free(b);
    return g;
}

/* Everything off, temperature 1; *p: the grammar's processor. */
static void start(const struct fixture *f, const char *text, struct sampling *s, struct logits_processor **p)
{
    struct grammar *g = build(f, text);
    *s = (struct sampling){.params = {.top_p = 1, .typical_p = 1, .temperature = 1, .repeat = 1, .repeat_n = 64}};
    assert_int_equal(sampling_start(s, NULL, 0, NULL, 0), 0);
    assert_int_equal(grammar_processor_new(p, g, f->trie), 0);
    logits_chain_add(&s->chain, *p);
    grammar_unref(g);
}

static void random_row(uint64_t *random, float *row)
{
    for (int i = 0; i < ROW; i++) row[i] = (float)(next_random(random) % 2000) / 100 - 10;
}

static int32_t pick(const struct fixture *f, struct logits_chain *c, const float *row, double u)
{
    const struct logits_history h = {0};
    int32_t id = -1;
    assert_int_equal(logits_chain_pick(c, f->scratch, row, &h, u, &id), 0);
    return id;
}

static bool contains(const int32_t *ids, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* The same picks as of a chain without grammar, from a row where all other logits are -inf. */
static void expect_only(const struct fixture *f, struct sampling *s, const int32_t *ids, size_t n, uint64_t *random)
{
    struct sampling plain = {.params = s->params};
    float row[ROW], cut[ROW], copy[ROW];
    unsigned seen = 0;
    assert_int_equal(sampling_start(&plain, NULL, 0, NULL, 0), 0);
    for (int k = 0; k < 20; k++) {
        random_row(random, row);
        memcpy(copy, row, sizeof(row));
        for (int32_t i = 0; i < ROW; i++) cut[i] = contains(ids, n, i) ? row[i] : -INFINITY;
        for (int i = 0; i < 50; i++) {
            double u = (next_random(random) % 100000) / 100000.0;
            int32_t id = pick(f, &s->chain, row, u);
            assert_int_equal(id, pick(f, &plain.chain, cut, u));
            for (size_t j = 0; j < n; j++)
                if (ids[j] == id) seen |= 1u << j;
        }
        assert_memory_equal(row, copy, sizeof(row)); /* the model's row is not changed */
    }
    assert_int_equal(seen, (1u << n) - 1);
    sampling_fini(&plain);
}
#define EXPECT_ONLY(f, s, random, ...)                                                                                 \
    expect_only(f, s, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), random)

static void sampling_is_from_the_renormalized_distribution(void **state)
{
    struct fixture *f = *state;
    struct sampling s;
    struct logits_processor *p;
    uint64_t random = 4;
    start(f, "root ::= \"abc\" | \"a\" [b-d] | \"\"", &s, &p);
    EXPECT_ONLY(f, &s, &random, 'a', 256, 257, END);
    assert_int_equal(logits_chain_accept(&s.chain, 'a'), 0);
    EXPECT_ONLY(f, &s, &random, 'b', 'c', 'd', 258);
    assert_int_equal(logits_chain_accept(&s.chain, 'b'), 0);
    EXPECT_ONLY(f, &s, &random, 'c', END);
    logits_chain_rollback(&s.chain, 2);
    assert_int_equal(logits_chain_accept(&s.chain, 256), 0);
    EXPECT_ONLY(f, &s, &random, 'c', END);
    assert_int_equal(logits_chain_accept(&s.chain, END), 0);
    assert_true(grammar_state_has_ended(grammar_processor_state(p)));
    logits_chain_rollback(&s.chain, 1);
    assert_true(grammar_state_is_accepted(grammar_processor_state(p)));
    sampling_fini(&s);
}

static void refused_tokens_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct sampling s;
    struct logits_processor *p;
    uint64_t random = 6;
    start(f, "root ::= \"abc\"", &s, &p);
    assert_int_equal(logits_chain_accept(&s.chain, 'b'), -EPROTO);
    assert_string_equal(error_text(-EPROTO), "the constraint does not allow token 98");
    assert_int_equal(logits_chain_accept(&s.chain, END), -EPROTO);
    assert_int_equal(logits_chain_accept(&s.chain, ROW), -EPROTO);
    EXPECT_ONLY(f, &s, &random, 'a', 256, 257);
    assert_int_equal(logits_chain_accept(&s.chain, 257), 0);
    EXPECT_ONLY(f, &s, &random, END);
    assert_int_equal(logits_chain_accept(&s.chain, END), 0);
    /* Nothing may follow the end. */
    const struct logits_history h = {0};
    float row[ROW];
    int32_t id;
    random_row(&random, row);
    assert_int_equal(logits_chain_pick(&s.chain, f->scratch, row, &h, 0.5, &id), -EPROTO);
    assert_string_equal(error_text(-EPROTO), "no token of the model continues the answer as the constraint demands");
    sampling_fini(&s);
}

/* A clone continues from the same place, and neither sees the other's tokens. */
static void clones_share_nothing(void **state)
{
    struct fixture *f = *state;
    struct sampling s, copy = {0};
    struct logits_processor *p;
    uint64_t random = 8;
    start(f, "root ::= \"a\" (\"b\" \"c\"? | \"d\")", &s, &p);
    assert_int_equal(logits_chain_accept(&s.chain, 'a'), 0);
    assert_int_equal(sampling_clone(&copy, &s), 0);
    assert_int_equal(logits_chain_accept(&s.chain, 'd'), 0);
    EXPECT_ONLY(f, &s, &random, END);
    EXPECT_ONLY(f, &copy, &random, 'b', 258, 'd');
    assert_int_equal(logits_chain_accept(&copy.chain, 'b'), 0);
    sampling_fini(&s);
    EXPECT_ONLY(f, &copy, &random, 'c', END);
    logits_chain_rollback(&copy.chain, 2); /* also of what it was cloned with */
    EXPECT_ONLY(f, &copy, &random, 'a', 256, 257);
    sampling_fini(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampling_is_from_the_renormalized_distribution),
        cmocka_unit_test(refused_tokens_change_nothing),
        cmocka_unit_test(clones_share_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
