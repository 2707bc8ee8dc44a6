/* SPDX-License-Identifier: MIT */
/* Constrained answers, token by token. Also tests constrain-before.c, constrain-next.c and constrain-close.c. */
#include "daemon/output/harmony.h"
#include "daemon/sequence/constrain.h"
#include "daemon/text/grammar/gbnf.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/tiny-tokenizer.h"
#include <stdlib.h>
#include <string.h>

enum { CHANNEL = 256 + 2, MESSAGE, END, START, STOP, CALL, FINAL, VOCAB }; /* behind the bytes and two merges */

static const struct tiny_token extra[] = {
    {"<|channel|>", TINY_CONTROL, 0}, {"<|message|>", TINY_CONTROL, 0}, {"<|end|>", TINY_CONTROL, 0},
    {"<|start|>", TINY_CONTROL, 0},   {"<|return|>", TINY_CONTROL, 0},  {"<|call|>", TINY_CONTROL, 0},
    {"final", TINY_NORMAL, 0},
};

struct fixture {
    struct tokenizer *tokenizer;
    struct token_trie *trie;
    struct sample_scratch *scratch;
    struct sampling sampling;
    float logits[VOCAB];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    static const char *const merges[] = {"a b", "ab c", NULL};
    struct tiny_tokenizer m = {0};
    assert_non_null(f);
    tiny_bpe(&m, "gpt-2", merges, extra, sizeof(extra) / sizeof(*extra));
    assert_int_equal(tiny_tokenizer_new(&m, &f->tokenizer), 0);
    assert_int_equal(tokenizer_vocab(f->tokenizer), VOCAB);
    assert_true(tokenizer_is_eog(f->tokenizer, STOP));
    assert_int_equal(token_trie_new(&f->trie, f->tokenizer), 0);
    assert_int_equal(sample_scratch_new(&f->scratch, VOCAB), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sampling_fini(&f->sampling);
    sample_scratch_free(f->scratch);
    token_trie_free(f->trie);
    tokenizer_free(f->tokenizer);
    free(f);
    return 0;
}

static int constrain(struct fixture *f, const char *gbnf, const struct constrain_config *with)
{
    struct grammar_builder *b;
    struct grammar *g;
    struct logits_processor *p;
    expr_t root;
    struct constrain_config c = *with;
    assert_int_equal(grammar_builder_new(&b), 0);
    assert_int_equal(gbnf_parse(b, gbnf, strlen(gbnf), f->tokenizer, &root), 0);
    assert_int_equal(grammar_build(&g, b, root), 0);
    grammar_builder_free(b);
    sampling_fini(&f->sampling);
    f->sampling = (struct sampling){0};
    sample_params_init(&f->sampling.params);
    f->sampling.params.temperature = 0;
    assert_int_equal(sampling_start(&f->sampling, NULL, 0, NULL, 0), 0);
    c.grammar = g;
    c.trie = f->trie;
    c.tokenizer = f->tokenizer;
    if (!c.format) c.format = &channel_plain;
    int r = constrain_new(&p, &c);
    if (r == 0) logits_chain_add(&f->sampling.chain, p);
    grammar_unref(g);
    return r;
}

static const struct constrain_config loose = {.max_tokens = 100};

/* The token that is sampled when the logits prefer those in the list, the first one most. */
static int32_t pick(struct fixture *f, struct sampling *s, const int32_t *likes, size_t n)
{
    int32_t id = -1;
    for (size_t i = 0; i < VOCAB; i++) f->logits[i] = -(float)i / VOCAB;
    for (size_t i = 0; i < n; i++) f->logits[likes[i]] = (float)(100 - i);
    int r = sampling_pick(s, f->scratch, (struct logits){.row = f->logits}, NULL, 0, &id);
    return r < 0 ? r : id;
}

#define PICK(f, ...)                                                                                                   \
    pick(f, &(f)->sampling, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void test_only_what_the_grammar_allows(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(constrain(f, "root ::= [xy] [0-9]+", &loose), 0);
    assert_int_equal(PICK(f, 'a', STOP, CHANNEL, '1', 'y', 'x'), 'y');
    assert_int_equal(PICK(f, STOP, 'x', '7'), '7'); /* an end of generation only behind a whole text */
    assert_int_equal(PICK(f, STOP), STOP);
    assert_int_equal(PICK(f, 'x'), -EDOM); /* nothing follows it */
}

/* A text that must end, ends; one that may, need not. */
static void test_the_end(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(constrain(f, "root ::= \"x\" [0-9]?", &loose), 0);
    assert_int_equal(PICK(f, 'x'), 'x');
    assert_int_equal(PICK(f, '3', STOP), '3');
    assert_int_equal(PICK(f, '3', 'x', 'a', CALL), CALL);
}

/* "ab" and "abc" are tokens: bytes that must follow are those that the tokenizer makes, also where the model prefers
 * others. The last one is open while it may become longer. */
static void test_forced_text_is_tokenized(void **state)
{
    struct fixture *f = *state;
    int32_t forced[16];
    assert_int_equal(constrain(f, "root ::= \"xabc,ab\" [a-z]", &loose), 0);
    assert_int_equal(constrain_forced(&f->sampling, forced, 16), 3);
    assert_true(forced[0] == 'x' && forced[1] == 257 && forced[2] == ',');
    assert_int_equal(constrain_forced(&f->sampling, forced, 2), 2);
    assert_int_equal(PICK(f, 'a'), 'x');
    assert_int_equal(PICK(f, 'a', 256), 257);
    assert_int_equal(PICK(f, 'a'), ',');
    assert_int_equal(constrain_forced(&f->sampling, forced, 16), 0);
    assert_int_equal(PICK(f, 'a', 256), 'a'); /* "abc" may follow, and so may "a" */
    assert_int_equal(PICK(f, 257), 'b');
    /* Behind the whole text its end is proposed. */
    assert_int_equal(constrain(f, "root ::= \"xabc\"", &loose), 0);
    assert_int_equal(constrain_forced(&f->sampling, forced, 16), 2 + (tokenizer_eos(f->tokenizer) >= 0));
    sampling_fini(&f->sampling);
    f->sampling = (struct sampling){0};
    assert_int_equal(constrain_forced(&f->sampling, forced, 16), 0);
}

/* The state is a function of the tokens: taken back, it picks the same again; a clone goes its own way. */
static void test_rollback_and_clone(void **state)
{
    struct fixture *f = *state;
    struct sampling other;
    assert_int_equal(constrain(f, "root ::= [a-c]* [0-9] \"!\"", &loose), 0);
    assert_int_equal(PICK(f, 'b'), 'b');
    assert_int_equal(sampling_clone(&other, &f->sampling), 0);
    assert_int_equal(PICK(f, '5'), '5');
    assert_int_equal(PICK(f, 'c', '5'), '!');
    const int32_t c = 'c';
    assert_int_equal(pick(f, &other, &c, 1), 'c');
    sampling_rollback(&f->sampling, 2);
    assert_int_equal(PICK(f, 'c', '5'), 'c');
    sampling_rollback(&f->sampling, 2);
    assert_int_equal(PICK(f, '!', '5', 'c'), '5');
    sampling_fini(&other);
}

/* The shortest completion always fits into what is left; a limit that it does not fit into at all is refused. */
static void test_close_at_the_limit(void **state)
{
    struct fixture *f = *state;
    static const char nested[] = "root ::= \"(\" root \")\" | [0-9]";
    const int32_t open[] = {'(', '1'};
    for (uint32_t most = 1; most < 12; most++) {
        const struct constrain_config c = {.max_tokens = most, .close = true};
        uint32_t n = 0, depth = 0, digits = 0;
        assert_int_equal(constrain(f, nested, &c), 0);
        for (int32_t id; n < most && (id = pick(f, &f->sampling, open, 2)) != STOP; n++) {
            assert_true(id > 0);
            digits += id >= '0' && id <= '9';
            depth += id == '(' ? 1u : id == ')' ? UINT32_MAX : 0;
        }
        assert_true(depth == 0 && digits == 1);
        assert_true(n == most || n + 1 == most); /* an even number of tokens is no text */
    }
    const struct constrain_config none = {.max_tokens = 3, .close = true};
    assert_int_equal(constrain(f, "root ::= \"x\" [0-9]{3}", &none), -EDOM);
    assert_non_null(strstr(error_text(-EDOM), "does not fit into 3 tokens"));
    const struct constrain_config cut = {.max_tokens = 3};
    assert_int_equal(constrain(f, "root ::= \"x\" [0-9]{3}", &cut), 0);
}

/* Taken back from the completion, the answer may go on otherwise. */
static void test_close_is_taken_back(void **state)
{
    struct fixture *f = *state;
    const struct constrain_config c = {.max_tokens = 5, .close = true};
    assert_int_equal(constrain(f, "root ::= \"(\" root \")\" | [0-9]", &c), 0);
    int32_t ids[2][5];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 5; i++) ids[k][i] = PICK(f, '(', '1');
        sampling_rollback(&f->sampling, k ? 4 : 5);
    }
    assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
    assert_true(ids[0][0] == '(' && ids[0][1] == '(' && ids[0][2] != '(' && ids[0][3] == ')' && ids[0][4] == ')');
    assert_int_equal(PICK(f, '7'), '7');
    assert_int_equal(PICK(f, '7'), ')');
}

/* Thinking is free; the constraint begins with the final channel. Neither text nor an end comes before it. */
static void test_after_thinking(void **state)
{
    struct fixture *f = *state;
    const struct constrain_config c = {.max_tokens = 100, .format = &channel_harmony};
    int32_t forced[4];
    assert_int_equal(constrain(f, "root ::= \"yes\" | \"no\"", &c), 0);
    assert_int_equal(PICK(f, STOP, 'y', CHANNEL), CHANNEL);
    assert_int_equal(constrain_forced(&f->sampling, forced, 4), 0);
    assert_int_equal(PICK(f, 'a'), 'a');
    assert_int_equal(PICK(f, MESSAGE), MESSAGE);
    assert_int_equal(PICK(f, STOP, 'q'), 'q');
    assert_int_equal(PICK(f, 0xc3), 0xc3); /* half a character */
    assert_int_equal(PICK(f, STOP, END), END);
    assert_int_equal(PICK(f, START), START);
    assert_int_equal(PICK(f, CHANNEL), CHANNEL);
    assert_int_equal(PICK(f, FINAL), FINAL);
    assert_int_equal(PICK(f, STOP, MESSAGE), MESSAGE);
    assert_int_equal(PICK(f, 'q', END, STOP, 'n', 'y'), 'n');
    /* Back into the thinking, and again. */
    sampling_rollback(&f->sampling, 8);
    assert_int_equal(PICK(f, 'w'), 'w');
    assert_int_equal(PICK(f, END), END);
    assert_int_equal(PICK(f, CHANNEL), CHANNEL);
    assert_int_equal(PICK(f, FINAL), FINAL);
    assert_int_equal(PICK(f, MESSAGE), MESSAGE);
    sampling_rollback(&f->sampling, 1);
    assert_int_equal(PICK(f, MESSAGE), MESSAGE);
    assert_int_equal(PICK(f, 'q', 'y'), 'y');
    assert_int_equal(constrain_forced(&f->sampling, forced, 2), 2);
    assert_true(forced[0] == 'e' && forced[1] == 's');
}

/* A model that begins without the marks of its format is brought to them. */
static void test_marks_come_first(void **state)
{
    struct fixture *f = *state;
    const struct constrain_config c = {.max_tokens = 100, .format = &channel_harmony};
    assert_int_equal(constrain(f, "root ::= \"yes\"", &c), 0);
    int32_t id = PICK(f, 'a');
    assert_true(id >= CHANNEL && id < STOP);
}

/* Half a character before the marks would become text before the answer at the next mark. */
static void test_no_half_character_first(void **state)
{
    struct fixture *f = *state;
    const struct constrain_config c = {.max_tokens = 100, .format = &channel_harmony};
    assert_int_equal(constrain(f, "root ::= \"yes\"", &c), 0);
    assert_int_equal(PICK(f, 0xc3, CHANNEL), CHANNEL);
    assert_int_equal(PICK(f, FINAL), FINAL);
    assert_int_equal(PICK(f, MESSAGE), MESSAGE);
    assert_int_equal(PICK(f, 0xc3, 'q'), 'y');
}

/* A format that never reaches the answer, although all tokens and marks are its text. */
static int never_text(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink)
{
    return sink->text(sink, CHANNEL_ANSWER, text, len);
}

static bool never(const struct channel_parser *p)
{
    return false;
}

static const char *never_channel(const struct channel_parser *p)
{
    return CHANNEL_ANSWER;
}

static int never_clone(const struct channel_parser *p, struct channel_parser **out)
{
    *out = calloc(1, sizeof(**out));
    assert_non_null(*out);
    **out = *p;
    return 0;
}

static void never_free(struct channel_parser *p)
{
    free(p);
}

static int never_new(const struct channel_format *f, struct channel_parser **out)
{
    static const struct channel_parser_ops ops = {.text = never_text,
                                                  .control = never_text,
                                                  .ends_part = never,
                                                  .channel = never_channel,
                                                  .answers = never,
                                                  .clone = never_clone,
                                                  .free = never_free};
    return never_clone(&(struct channel_parser){.ops = &ops}, out);
}

/* More refusals than the list has room for end the answer. */
static void test_the_answer_never_begins(void **state)
{
    struct fixture *f = *state;
    static const struct channel_format format = {.new_parser = never_new};
    const struct constrain_config c = {.max_tokens = 100, .format = &format};
    assert_int_equal(constrain(f, "root ::= \"yes\"", &c), 0);
    assert_int_equal(PICK(f, 'y'), -EDOM);
    assert_non_null(strstr(error_text(-EDOM), "does not begin the answer"));
}

/* The shortest completion began with the answer: taken back into the thinking, which is shorter then, the answer is
 * free again. */
static void test_close_is_taken_back_with_the_thinking(void **state)
{
    struct fixture *f = *state;
    static const int32_t thought[] = {CHANNEL, 'a', MESSAGE, 'q', 'q', 'q', END, START, CHANNEL, FINAL, MESSAGE};
    const size_t n = sizeof(thought) / sizeof(*thought);
    const struct constrain_config c = {.max_tokens = (uint32_t)n + 1, .close = true, .format = &channel_harmony};
    assert_int_equal(constrain(f, "root ::= [a-k] \"x\" | \"7\"", &c), 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(pick(f, &f->sampling, &thought[i], 1), thought[i]);
    assert_int_equal(PICK(f, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'), '7');
    sampling_rollback(&f->sampling, n + 1 - 3);
    for (size_t i = n - 5; i < n; i++) assert_int_equal(pick(f, &f->sampling, &thought[i], 1), thought[i]);
    assert_int_equal(PICK(f, 'a', 'b'), 'a');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_what_the_grammar_allows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forced_text_is_tokenized, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rollback_and_clone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_at_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_is_taken_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_after_thinking, setup, teardown),
        cmocka_unit_test_setup_teardown(test_marks_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_half_character_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_answer_never_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_is_taken_back_with_the_thinking, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
