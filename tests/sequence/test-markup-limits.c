/* SPDX-License-Identifier: MIT */
/* Answers with the markup of a template, token by token: constraints behind a thought that the model may begin itself
 * (constrain-before.c), a limit of thinking (think-limit.c), calls in free text (constrain-calls.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/sample/sampling.h"
#include "daemon/sequence/constrain-calls.h"
#include "daemon/sequence/constrain.h"
#include "daemon/sequence/think-limit.h"
#include "daemon/text/grammar/gbnf.h"
#include "tests/output/parsed.h"
#include "tests/text/markup/own-templates.h"
#include "tests/text/tiny-tokenizer.h"
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind the bytes. KEYS: tokens of a comma and the beginning of a key. */
enum { THINK = 256, THOUGHT, CALL, CALLED, STOP, KEYS, N_KEYS = 40, VOCAB = KEYS + N_KEYS };

static const struct tiny_token extra[] = {{"<think>", TINY_CONTROL, 0},
                                          {"</think>", TINY_CONTROL, 0},
                                          {"<call>", TINY_NORMAL, 0},
                                          {"</call>", TINY_CONTROL, 0},
                                          {"<|im_end|>", TINY_CONTROL, 0}};

struct fixture {
    struct tokenizer *tokenizer;
    struct token_trie *trie;
    struct sample_scratch *scratch;
    struct family family;
    json_t *tools;
    struct markup_format free, opened, calls; /* a thought may begin; it has begun; with tools */
    struct grammar *grammar;
    struct sampling sampling;
    float logits[VOCAB];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct tiny_tokenizer m = {0};
    const char *source = own_template("envelope");
    struct tiny_token all[VOCAB - THINK];
    char keys[N_KEYS][8];
    assert_non_null(f);
    memcpy(all, extra, sizeof(extra));
    for (int i = 0; i < N_KEYS; i++) {
        snprintf(keys[i], sizeof(keys[i]), ",\"%c", 'A' + i + (i >= '\\' - 'A'));
        all[KEYS - THINK + i] = (struct tiny_token){keys[i], TINY_NORMAL, 0};
    }
    tiny_bpe(&m, "gpt-2", NULL, all, VOCAB - THINK);
    assert_int_equal(tiny_tokenizer_new(&m, &f->tokenizer), 0);
    assert_int_equal(tokenizer_vocab(f->tokenizer), VOCAB);
    assert_true(tokenizer_is_eog(f->tokenizer, STOP));
    assert_int_equal(token_trie_new(&f->trie, f->tokenizer), 0);
    assert_int_equal(sample_scratch_new(&f->scratch, VOCAB), 0);
    family_init(&f->family, source, strlen(source));
    f->tools = json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", 0, NULL);
    f->free = (struct markup_format){.markup = f->family.markup};
    f->opened = (struct markup_format){.markup = f->family.markup, .start = MARKUP_AT_THINKING};
    f->calls = (struct markup_format){.markup = f->family.markup, .tools = f->tools};
    markup_format_init(&f->free);
    markup_format_init(&f->opened);
    markup_format_init(&f->calls);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sampling_fini(&f->sampling);
    grammar_unref(f->grammar);
    sample_scratch_free(f->scratch);
    token_trie_free(f->trie);
    tokenizer_free(f->tokenizer);
    family_fini(&f->family);
    json_decref(f->tools);
    free(f);
    return 0;
}

static void set_grammar(struct fixture *f, const char *gbnf)
{
    struct grammar_builder *b;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    assert_int_equal(gbnf_parse(b, gbnf, strlen(gbnf), f->tokenizer, &root), 0);
    assert_int_equal(grammar_build(&f->grammar, b, root), 0);
    grammar_builder_free(b);
}

static void begin(struct fixture *f)
{
    sample_params_init(&f->sampling.params);
    f->sampling.params.temperature = 0;
    assert_int_equal(sampling_start(&f->sampling, NULL, 0, NULL, 0), 0);
}

static void add_constraint(struct fixture *f, const struct markup_format *format, uint32_t max_tokens, bool close)
{
    const struct constrain_config c = {.grammar = f->grammar,
                                       .trie = f->trie,
                                       .tokenizer = f->tokenizer,
                                       .format = &format->base,
                                       .max_tokens = max_tokens,
                                       .close = close};
    struct logits_processor *p;
    assert_int_equal(constrain_new(&p, &c), 0);
    logits_chain_add(&f->sampling.chain, p);
}

/* The token that is sampled when the logits prefer those in the list, the first one most. */
static int32_t pick(struct fixture *f, const int32_t *likes, size_t n)
{
    int32_t id = -1;
    for (size_t i = 0; i < VOCAB; i++) f->logits[i] = -(float)i / VOCAB;
    for (size_t i = 0; i < n; i++) f->logits[likes[i]] = (float)(100 - i);
    int r = sampling_pick(&f->sampling, f->scratch, (struct logits){.row = f->logits}, NULL, 0, &id);
    return r < 0 ? r : id;
}

#define PICK(f, ...) pick(f, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Each character of @text is preferred, and sampled. */
static void expect_text(struct fixture *f, const char *text)
{
    for (const char *c = text; *c; c++)
        if (PICK(f, (uint8_t)*c) != (uint8_t)*c) fail_msg("'%s' stops at '%s'", text, c);
}

/* The model may think first, in a mark of one token or of several, or answer at once. */
static void a_thought_may_come_first(void **state)
{
    struct fixture *f = *state;
    set_grammar(f, "root ::= \"yes\" | \"no\"");
    begin(f);
    add_constraint(f, &f->free, 100, false);
    assert_int_equal(PICK(f, 'q', STOP, '\n', THOUGHT, THINK, 'n'), THINK);
    assert_int_equal(PICK(f, STOP, 'q'), 'q');
    assert_int_equal(PICK(f, '\n'), '\n');
    assert_int_equal(PICK(f, THOUGHT), THOUGHT);
    assert_int_equal(PICK(f, 'q', '\n', 'n'), '\n'); /* white space at the mark, as long as a template's */
    assert_int_equal(PICK(f, THINK, '\n', 'n'), '\n');
    assert_int_equal(PICK(f, '\n', THINK, STOP, 'n'), 'n');
    assert_int_equal(PICK(f, 'e', 'o'), 'o');
    assert_int_equal(PICK(f, 'e', STOP), STOP);
    sampling_rollback(&f->sampling, 8); /* to the beginning of the thought */
    assert_int_equal(PICK(f, 'w'), 'w');
    sampling_rollback(&f->sampling, 2);
    assert_int_equal(PICK(f, 'q', 'y'), 'y');
    assert_int_equal(PICK(f, THINK, 'e'), 'e');
    sampling_rollback(&f->sampling, 2);
    assert_int_equal(PICK(f, '<', 'y'), '<');
    assert_int_equal(PICK(f, 'y', 'n', THINK, 't'), 't'); /* it is in the mark */
    expect_text(f, "hink>well</think>");
    assert_int_equal(PICK(f, 'w', 'y'), 'y');
}

/* An answer that is closed at its limit, at its first token. */
static void an_answer_without_room(void **state)
{
    struct fixture *f = *state;
    set_grammar(f, "root ::= \"a\" [0-9]+ \"b\"  | \"c\"");
    begin(f);
    add_constraint(f, &f->free, 2, true);
    assert_int_equal(PICK(f, 'a', 'c'), 'c');
    assert_int_equal(PICK(f, 'a'), STOP);
}

static void add_limit(struct fixture *f, const struct markup_format *format, uint32_t budget)
{
    const struct think_limit_config c = {
        .tokenizer = f->tokenizer, .format = &format->base, .close = "\n</think>\n\n", .budget = budget};
    struct logits_processor *p;
    assert_int_equal(think_limit_new(&p, &c), 0);
    logits_chain_add(&f->sampling.chain, p);
}

static void a_thought_is_closed(void **state)
{
    struct fixture *f = *state;
    for (uint32_t budget = 0; budget < 3; budget++) {
        for (int back = 0; back < 2; back++) {
            sampling_fini(&f->sampling);
            f->sampling = (struct sampling){0};
            begin(f);
            add_limit(f, &f->opened, budget);
            for (uint32_t i = 0; i < budget; i++) assert_int_equal(PICK(f, 'q'), 'q');
            assert_int_equal(PICK(f, 'q'), '\n');
            assert_int_equal(PICK(f, 'q'), THOUGHT);
            if (back) { /* again from there */
                sampling_rollback(&f->sampling, 2);
                assert_int_equal(PICK(f, 'q'), '\n');
                assert_int_equal(PICK(f, 'q'), THOUGHT);
            }
            assert_int_equal(PICK(f, 'q'), '\n');
            assert_int_equal(PICK(f, 'q'), '\n');
            assert_int_equal(PICK(f, 'q'), 'q');
            assert_int_equal(PICK(f, THINK), THINK);
        }
    }
}

/* A thought that the model begins, one that it ends in time, and no thought. */
static void a_limit_counts_only_the_thought(void **state)
{
    struct fixture *f = *state;
    begin(f);
    add_limit(f, &f->free, 3);
    assert_int_equal(PICK(f, THINK), THINK);
    expect_text(f, "abc");
    assert_int_equal(PICK(f, 'q'), '\n');
    sampling_rollback(&f->sampling, 2);
    assert_int_equal(PICK(f, THOUGHT), THOUGHT);
    expect_text(f, "and more than three");
    sampling_fini(&f->sampling);
    f->sampling = (struct sampling){0};
    begin(f);
    add_limit(f, &f->free, 3);
    expect_text(f, "no thought at all");
}

/* Both: the constraint begins behind the forced mark, with its white space. */
static void a_limit_before_a_constraint(void **state)
{
    struct fixture *f = *state;
    set_grammar(f, "root ::= \"yes\" | \"no\"");
    begin(f);
    add_limit(f, &f->opened, 2);
    add_constraint(f, &f->opened, 100, false);
    static const int32_t want[] = {'q', 'q', '\n', THOUGHT, '\n', '\n', 'n', 'o', STOP};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) assert_int_equal(PICK(f, 'q', 'n', STOP), want[i]);
}

static void add_calls(struct fixture *f, const struct markup_format *format)
{
    const struct constrain_calls_config c = {
        .grammar = f->grammar, .trie = f->trie, .tokenizer = f->tokenizer, .format = &format->base};
    struct logits_processor *p;
    assert_int_equal(constrain_calls_new(&p, &c), 0);
    logits_chain_add(&f->sampling.chain, p);
}

/* A call of f, behind its mark. */
static const char call[] =
    "root ::= [ \\n]? \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"k\\\": \" [0-9] \"}}\\n</call>\"";

/* Is there a mask to compute behind @text, and may @next follow? */
static bool has_place(struct fixture *f, const char *text, char next)
{
    struct grammar_state *place;
    int32_t ids[8];
    uint32_t n = 0;
    while (text[n]) {
        ids[n] = (uint8_t)text[n];
        n++;
    }
    if (constrain_place(&f->sampling, ids, n, &place) != 1) return false;
    bool may = grammar_state_may_follow(place, (uint8_t)next);
    grammar_state_free(place);
    assert_true(may);
    return true;
}

/* A job can compute the mask before the token is sampled. */
static void places_of_calls(void **state)
{
    struct fixture *f = *state;
    set_grammar(f, call);
    begin(f);
    add_calls(f, &f->calls);
    assert_false(has_place(f, "", 'x'));
    assert_int_equal(PICK(f, CALL), CALL);
    assert_true(has_place(f, "", '\n'));
    assert_true(has_place(f, "\n{\"", 'n'));
    assert_false(has_place(f, "x", 'x'));
    expect_text(f, "{\"name\": \"f\", \"arguments\": {\"k\": 1}}\n</call>");
    assert_false(has_place(f, "", 'x'));
}

static void calls_are_constrained_from_their_mark_on(void **state)
{
    struct fixture *f = *state;
    set_grammar(f, call);
    begin(f);
    add_calls(f, &f->calls);
    expect_text(f, "any {text} <c");
    assert_int_equal(PICK(f, CALL), CALL);
    assert_int_equal(PICK(f, 'x', STOP, '\n'), '\n');
    expect_text(f, "{\"name\": \"f\", ");
    assert_int_equal(PICK(f, '}', STOP, '"'), '"');
    expect_text(f, "arguments\": {\"k\": ");
    assert_int_equal(PICK(f, '"', 'x', '7'), '7');
    sampling_rollback(&f->sampling, 1);
    assert_int_equal(PICK(f, 'x', '8'), '8');
    expect_text(f, "}}\n</call>");
    expect_text(f, "free again");
    assert_int_equal(PICK(f, CALL), CALL); /* another one */
    assert_int_equal(PICK(f, 'x', '{'), '{');
    sampling_rollback(&f->sampling, 7);
    expect_text(f, "text");
    assert_int_equal(PICK(f, STOP), STOP);
}

/* The mark as text; and what the model writes before it is thought, in which no call begins. */
static void marks_of_several_tokens(void **state)
{
    struct fixture *f = *state;
    set_grammar(f, call);
    begin(f);
    add_calls(f, &f->calls);
    expect_text(f, "<call>");
    assert_int_equal(PICK(f, 'x', '{'), '{');
    struct sampling copy = {0};
    assert_int_equal(sampling_clone(&copy, &f->sampling), 0);
    sampling_fini(&f->sampling);
    f->sampling = copy;
    assert_int_equal(PICK(f, 'x', '"'), '"');
}

/* A call without marks is one once its name is known. The model insists on one that the grammar does not allow: it
 * remains text, or ends. */
static void a_call_that_is_not_allowed_does_not_begin(void **state)
{
    struct fixture *f = *state;
    const char *source = own_template("bare");
    struct family bare;
    family_init(&bare, source, strlen(source));
    struct markup_format format = {.markup = bare.markup, .tools = f->tools};
    int32_t likes[N_KEYS + 1] = {','};
    markup_format_init(&format);
    set_grammar(f, "root ::= \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\"");
    begin(f);
    add_calls(f, &format);
    for (int i = 0; i < N_KEYS; i++) likes[i + 1] = KEYS + i;
    for (int i = 0; i < 2; i++) {
        expect_text(f, "{  \"name\": \"f\""); /* with one space too many */
        assert_int_equal(pick(f, likes, N_KEYS + 1), '!');
        sampling_rollback(&f->sampling, 1);
        assert_int_equal(pick(f, likes, N_KEYS + 1), '!');
        assert_int_equal(pick(f, likes, N_KEYS + 1), ','); /* it has become text */
        sampling_rollback(&f->sampling, 16);
    }
    expect_text(f, "{\"name\": \"f\"");
    assert_int_equal(PICK(f, '}', '!'), '!'); /* the arguments are missing */
    sampling_rollback(&f->sampling, 1);
    assert_int_equal(pick(f, likes, N_KEYS + 1), ',');
    assert_int_equal(PICK(f, '}', ' '), ' ');
    sampling_rollback(&f->sampling, 14);
    expect_text(f, "{\"arguments\": {\"x\": 1}, \"name\": \"f\"");
    assert_int_equal(PICK(f, '}', ',', '!'), '!'); /* their place is another one */
    sampling_fini(&f->sampling);
    f->sampling = (struct sampling){0};
    family_fini(&bare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thought_may_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_without_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_thought_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_limit_counts_only_the_thought, setup, teardown),
        cmocka_unit_test_setup_teardown(a_limit_before_a_constraint, setup, teardown),
        cmocka_unit_test_setup_teardown(places_of_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_are_constrained_from_their_mark_on, setup, teardown),
        cmocka_unit_test_setup_teardown(marks_of_several_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_that_is_not_allowed_does_not_begin, setup, teardown),
    };
    return cmocka_run_group_tests_name("markup-limits", tests, NULL, NULL);
}
