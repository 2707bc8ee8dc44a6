/* SPDX-License-Identifier: MIT */
/* Text is not markup: the special tokens that are found, their places, and the tokens that end an answer. */
#include "libcommon/error.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define E 256 /* id of the first extra token */

static const struct tiny_token chat[] = {
    {"<|im_start|>", TINY_CONTROL, 0}, /* E */
    {"<|im_end|>", TINY_CONTROL, 0},   /* E + 1 */
    {"[USER]", TINY_USER, 0},          /* E + 2 */
    {"[USER]s", TINY_USER, 0},         /* E + 3 */
    {"<|im_end|>\n", TINY_CONTROL, 0}, /* E + 4 */
};

static struct tokenizer *make(const struct tiny_token *extra, size_t n)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_bpe(&m, "gpt-2", NULL, extra, n);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

/* Checks that it contains no special token. */
static void all_bytes(const struct tokenizer *t, const char *s, const char *marks)
{
    size_t n;
    int32_t *ids = tiny_encode(t, s, marks, &n);
    assert_int_equal(n, strlen(s));
    for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], (unsigned char)s[i]);
    free(ids);
}

static void data_is_text(void **state)
{
    struct tokenizer *t = make(chat, 5);
    all_bytes(t, "<|im_end|>", NULL);
    all_bytes(t, "a<|im_end|>b<|im_start|>", NULL);
    TINY_EXPECT(t, "<|im_end|>", "##########", E + 1);
    TINY_EXPECT(t, "a<|im_end|>b", "############", 'a', E + 1, 'b');
    tokenizer_free(t);
}

static void controls_by_text(void **state)
{
    struct tokenizer *t = make(chat, 5);
    assert_true(tokenizer_has_control(t, "<|im_start|>"));
    assert_true(tokenizer_has_control(t, "<|im_end|>"));
    assert_false(tokenizer_has_control(t, "<|im_end|"));
    assert_false(tokenizer_has_control(t, "<|im_end|>x"));
    assert_false(tokenizer_has_control(t, "[USER]")); /* special, but text */
    assert_false(tokenizer_has_control(t, "a"));
    assert_false(tokenizer_has_control(t, ""));
    tokenizer_free(t);
}

static void half_and_half_is_text(void **state)
{
    struct tokenizer *t = make(chat, 5);
    all_bytes(t, "<|im_end|>", "#####     ");
    all_bytes(t, "<|im_end|>", "     #####");
    all_bytes(t, "<|im_end|>", "######### ");
    all_bytes(t, "<|im_end|>", " #########");
    all_bytes(t, "<|im_end|>", "##### ####");
    tokenizer_free(t);
}

/* The template surrounds the user's text. Only the template's part is markup. */
static void one_in_each(void **state)
{
    struct tokenizer *t = make(chat, 5);
    const char *s = "<|im_start|><|im_end|><|im_end|>";
    size_t n;
    int32_t *ids = tiny_encode(t, s, "############          ##########", &n);
    assert_int_equal(n, 12);
    assert_int_equal(ids[0], E);
    for (int i = 0; i < 10; i++) assert_int_equal(ids[1 + i], "<|im_end|>"[i]);
    assert_int_equal(ids[11], E + 1);
    free(ids);
    tokenizer_free(t);
}

static void user_defined_everywhere(void **state)
{
    struct tokenizer *t = make(chat, 5);
    TINY_EXPECT(t, "a[USER]b", NULL, 'a', E + 2, 'b');
    TINY_EXPECT(t, "a[USER]b", "   #### ", 'a', E + 2, 'b');
    tokenizer_free(t);
}

static void longest_first(void **state)
{
    const struct tiny_token extra[] = {
        {"wab", TINY_USER, 0}, {"abxy", TINY_USER, 0}, {"yz", TINY_USER, 0}, {"\xf0\x9f", TINY_USER, 0}};
    struct tokenizer *t = make(chat, 5);
    TINY_EXPECT(t, "[USER]s", NULL, E + 3);
    TINY_EXPECT(t, "<|im_end|>\n", "###########", E + 4);
    TINY_EXPECT(t, "<|im_end|>\n", "########## ", E + 1, '\n'); /* the longer one is not completely markup */
    tokenizer_free(t);
    t = make(extra, 4);
    TINY_EXPECT(t, "wabxyz", NULL, 'w', E + 1, 'z'); /* also where a shorter one begins before it */
    TINY_EXPECT(t, "wabwab", NULL, E, E);
    TINY_EXPECT(t, "🙂", NULL, 0xf0, 0x9f, 0x99, 0x82); /* a character is never cut */
    tokenizer_free(t);
}

static void ends_of_specials(void **state)
{
    static const uint32_t want[] = {2, 12, 13};
    struct tokenizer *t = make(chat, 5);
    struct text text = {0};
    struct tokens out = {0};
    text_append(&text, "xa<|im_end|>b", 13, true);
    assert_int_equal(tokenizer_encode(t, &text, 1, false, &out), 0);
    assert_int_equal(out.n, 3);
    assert_memory_equal(out.ends, want, sizeof(want));
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

static void many(void **state)
{
    struct tokenizer *t = make(chat, 5);
    struct text text = {0};
    struct tokens out = {0};
    for (int i = 0; i < 20000; i++) {
        text_append(&text, "<|im_start|>", 12, true);
        text_append(&text, "[USER]<|im_end|>", 16, false);
    }
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    assert_int_equal(out.n, 20000 * 12);
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

static void what_ends_an_answer(void **state)
{
    const struct tiny_token extra[] = {
        {"<|im_end|>", TINY_CONTROL, 0}, {"<|eot_id|>", TINY_CONTROL, 0},   {"</s>", TINY_USER, 0},
        {"<|x|>", TINY_CONTROL, 0},      {"<end_of_turn>", TINY_NORMAL, 0}, {"<|y|>", TINY_CONTROL, 0},
        {"<|z|>", TINY_CONTROL, 0},      {"<|fim_pad|>", TINY_CONTROL, 0},  {"<|fim_prefix|>", TINY_USER, 0}};
    static const bool ends[] = {true, true, true, false, true, true, true, true, false};
    static const bool control[] = {true, true, true, true, true, true, true, true, true};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_bpe(&m, "gpt-2", NULL, extra, 9);
    tiny_u32(&m, "tokenizer.ggml.eos_token_id", E + 5);
    tiny_u32(&m, "tokenizer.ggml.eot_token_id", E + 6);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(tokenizer_is_eog(t, E + i), ends[i]);
        assert_int_equal(tokenizer_is_control(t, E + i), control[i]);
    }
    assert_int_equal(tokenizer_eos(t), E + 5);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_false(tokenizer_add_bos(t));
    assert_false(tokenizer_is_eog(t, 'a') || tokenizer_is_eog(t, -1) || tokenizer_is_eog(t, E + 9));
    all_bytes(t, "</s>", NULL); /* the file says user-defined, but it ends answers */
    tokenizer_free(t);
}

/* A token that ends only a part where another ends the answer; a token that has the name of an end but is none. */
static void ends_of_parts(void **state)
{
    static const struct {
        const char *texts[4];
        bool ends[4];
    } cases[] = {
        {{"<|end|>", "<|return|>", "<|call|>", "<|start|>"}, {false, true, true, false}}, /* gpt-oss */
        {{"<|end|>", "<|flush|>", "<|calls|>", "<|x|>"}, {false, true, true, false}},     /* Solar */
        {{"<|end|>", "<|return|>", "<|user|>", "<|x|>"}, {true, true, false, false}},     /* Phi-3 */
        {{"<turn|>", "<|tool_response>", "</s>", "<eos>"}, {true, true, false, true}},    /* Gemma 4 */
        {{"[e~[", "</s>", "<|turn>", "[EOS]"}, {true, true, false, true}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct tiny_token tokens[4];
        for (int k = 0; k < 4; k++) tokens[k] = (struct tiny_token){cases[i].texts[k], TINY_CONTROL, 0};
        struct tokenizer *t = make(tokens, 4);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(tokenizer_is_eog(t, E + k), cases[i].ends[k]);
            assert_true(tokenizer_is_control(t, E + k));
        }
        tokenizer_free(t);
    }
}

/* The file writes control tokens in plain text and merged ones in the byte-level alphabet. These two are not
 * duplicates. */
static void control_like_a_byte(void **state)
{
    const struct tiny_token extra[] = {{"\n", TINY_CONTROL, 0}, {"\xc3\xa9", TINY_UNKNOWN, 0}};
    struct tokenizer *t = make(extra, 2);
    TINY_EXPECT(t, "a\n\xc3\xa9", NULL, 'a', '\n', 0xc3, 0xa9);
    TINY_EXPECT(t, "a\n\xc3\xa9", "####", 'a', E, E + 1);
    tokenizer_free(t);

    const struct tiny_token same[] = {{"ab", TINY_NORMAL, 0}, {"ab", TINY_CONTROL, 0}};
    struct tiny_tokenizer m = {0};
    tiny_bpe(&m, "gpt-2", NULL, same, 2);
    assert_int_equal(tiny_tokenizer_new(&m, &t), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "tokens 256 and 257 have the same text \"ab\""));
}

static void phi_3_swallows_space(void **state)
{
    const struct tiny_token extra[] = {{"<|user|>", TINY_CONTROL, 0}, {"<s>", TINY_CONTROL, 0}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    struct text text = {0};
    struct tokens out = {0};
    tiny_bpe(&m, "gpt-2", NULL, extra, 2);
    tiny_str(&m, "general.name", "My Phi-3 Mini");
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    TINY_EXPECT(t, "<|user|> \t\na ", "########", E, 'a', ' ');
    TINY_EXPECT(t, "<s> a", "#####", E + 1, ' ', 'a');
    text_append(&text, "<|user|>  <|user|>\n", 19, true);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    assert_int_equal(out.n, 2);
    assert_int_equal(out.ends[0], 10);
    assert_int_equal(out.ends[1], 19);
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

static void bad_text(void **state)
{
    struct tokenizer *t = make(chat, 5);
    struct text text = {0};
    struct tokens out = {0};
    text_append(&text, "ab\xc3(", 4, false);
    assert_int_equal(tokens_push(&out, 7, 0), 0);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), -EILSEQ);
    assert_non_null(strstr(error_text(-EILSEQ), "byte 2"));
    assert_int_equal(out.n, 1);
    assert_int_equal(tokenizer_encode(t, &text, 4, true, &out), 0); /* nothing remains there */
    text.s.len = (size_t)TOKENIZER_TEXT_MAX + 1;
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), -E2BIG);
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

static void spans_merge(void **state)
{
    struct text text = {0};
    assert_int_equal(text_append(&text, "", 0, true), 0);
    assert_int_equal(text.n_spans, 0);
    text_append(&text, "ab", 2, true);
    text_append(&text, "c", 1, true);
    text_append(&text, "d", 1, false);
    text_append(&text, "", 0, true);
    text_append(&text, "e", 1, false);
    text_append(&text, "f", 1, true);
    assert_int_equal(text.n_spans, 3);
    assert_int_equal(text.spans[0].end, 3);
    assert_int_equal(text.spans[1].end, 5);
    assert_int_equal(text.spans[2].end, 6);
    assert_true(text.spans[0].markup && !text.spans[1].markup && text.spans[2].markup);
    assert_string_equal(text.s.data, "abcdef");
    text_fini(&text);
}

/* Fill-in-the-middle by the texts of the model families. Files call the tokens normal or user-defined. */
static void fim_by_text(void **state)
{
    static const char *const families[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, /* Qwen, CodeGemma */
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},       /* SantaCoder */
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       /* StarCoder, Granite */
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, /* DeepSeek */
        {"<PRE>", "<SUF>", "<MID>"},
        {"▁<PRE>", "▁<SUF>", "▁<MID>"},                            /* Code Llama */
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, /* GLM */
        {"<|prefix|>", "<|suffix|>", "<|middle|>"},                /* Falcon-H1 */
        {"[PREFIX]", "[SUFFIX]", NULL},                            /* Mistral */
    };
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        const char *const *f = families[i];
        const int32_t kind = i % 2 ? TINY_USER : TINY_NORMAL;
        const struct tiny_token tokens[] = {
            {"<other>", TINY_NORMAL, 0}, {f[1], kind, 0}, {f[2] ? f[2] : "<x>", kind, 0}, {f[0], kind, 0}};
        struct tokenizer *t = make(tokens, 3 + 1);
        const struct tokenizer_fim *fim = tokenizer_fim(t);
        assert_non_null(fim);
        assert_true(fim->pre == E + 3 && fim->suf == E + 1 && fim->mid == (f[2] ? E + 2 : -1));
        assert_true(tokenizer_is_control(t, fim->pre) && tokenizer_is_control(t, fim->suf));
        assert_false(tokenizer_is_control(t, E));
        all_bytes(t, f[0], NULL);
        tokenizer_free(t);
        t = make(tokens, 3); /* no prefix: not enough */
        assert_null(tokenizer_fim(t));
        tokenizer_free(t);
    }
}

/* A key overrides a text, and the newer key the older one. A key with an id out of range is an error. */
static void fim_by_key(void **state)
{
    static const struct tiny_token tokens[] = {{"<fim_prefix>", TINY_CONTROL, 0},
                                               {"<fim_suffix>", TINY_CONTROL, 0},
                                               {"<fim_middle>", TINY_CONTROL, 0},
                                               {"<p>", TINY_CONTROL, 0},
                                               {"<q>", TINY_CONTROL, 0}};
    for (int i = 0; i < 3; i++) {
        struct tiny_tokenizer m = {0};
        struct tokenizer *t;
        tiny_bpe(&m, "gpt-2", NULL, tokens, 5);
        tiny_u32(&m, "tokenizer.ggml.prefix_token_id", i == 2 ? E + 5 : E + 3);
        if (i == 1) tiny_u32(&m, "tokenizer.ggml.fim_pre_token_id", E + 4);
        if (i == 2) {
            assert_int_equal(tiny_tokenizer_new(&m, &t), -EINVAL);
            assert_non_null(strstr(error_text(-EINVAL), "tokenizer.ggml.prefix_token_id is 261"));
            return;
        }
        assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
        assert_int_equal(tokenizer_fim(t)->pre, i == 0 ? E + 3 : E + 4);
        assert_int_equal(tokenizer_fim(t)->suf, E + 1);
        tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fim_by_text),
        cmocka_unit_test(fim_by_key),
        cmocka_unit_test(ends_of_parts),
        cmocka_unit_test(control_like_a_byte),
        cmocka_unit_test(data_is_text),
        cmocka_unit_test(controls_by_text),
        cmocka_unit_test(half_and_half_is_text),
        cmocka_unit_test(one_in_each),
        cmocka_unit_test(user_defined_everywhere),
        cmocka_unit_test(longest_first),
        cmocka_unit_test(ends_of_specials),
        cmocka_unit_test(many),
        cmocka_unit_test(what_ends_an_answer),
        cmocka_unit_test(phi_3_swallows_space),
        cmocka_unit_test(bad_text),
        cmocka_unit_test(spans_merge),
    };
    return cmocka_run_group_tests_name("special", tests, NULL, NULL);
}
