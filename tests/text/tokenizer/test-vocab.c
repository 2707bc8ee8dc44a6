/* SPDX-License-Identifier: MIT */
/* Bad vocabularies: refused with the cause and its place, or harmless. */
#include "libcommon/error.h"
#include "tests/text/tiny-words.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const abc[] = {"a", "b", "c"};
static const char *const merge[] = {"a b"};
static const float scores[] = {0, -1, -2};

/* Checks that it is refused with @r and an error message that contains all of @words. */
static void refused(struct tiny_tokenizer *m, int r, const char *const *words)
{
    struct tokenizer *t = NULL;
    assert_int_equal(tiny_tokenizer_new(m, &t), r);
    assert_null(t);
    for (; *words; words++)
        if (!strstr(error_text(r), *words)) fail_msg("no \"%s\" in: %s", *words, error_text(r));
}
#define REFUSED(m, r, ...) refused(m, r, (const char *const[]){__VA_ARGS__, NULL})

static void start(struct tiny_tokenizer *m, const char *model)
{
    *m = (struct tiny_tokenizer){0};
    tiny_str(m, "tokenizer.ggml.model", model);
    tiny_str(m, "tokenizer.ggml.pre", "gpt-2");
}

/* With the three tokens of @abc. */
static void start_abc(struct tiny_tokenizer *m, const char *model)
{
    start(m, model);
    tiny_strs(m, "tokenizer.ggml.tokens", abc, 3);
}

static void unsupported(void **state)
{
    struct tiny_tokenizer m = {0};
    tiny_str(&m, "general.name", "x");
    REFUSED(&m, -EINVAL, "tokenizer.ggml.model");
    start(&m, "no_vocab");
    REFUSED(&m, -EOPNOTSUPP, "\"no_vocab\"", "llama", "gpt2", "bert", "t5", "rwkv", "plamo2");
    tiny_str(&m, "tokenizer.ggml.model", "gpt2");
    tiny_str(&m, "tokenizer.ggml.pre", "vikings");
    tiny_strs(&m, "tokenizer.ggml.tokens", abc, 3);
    tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
    REFUSED(&m, -EOPNOTSUPP, "\"vikings\"", "gpt-2", "smollm", "llama-bpe", "deepseek-v3");
    tiny_str(&m, "tokenizer.ggml.model", "gpt2");
    tiny_strs(&m, "tokenizer.ggml.tokens", abc, 3);
    tiny_str(&m, "tokenizer.ggml.pre", "");
    tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
    REFUSED(&m, -EOPNOTSUPP, "pre-tokenizer \"\"");
}

/* Older files have no key. They are read as in llama.cpp: three digits at a time, punctuation apart. */
static void no_pretokenizer(void **state)
{
    static const char *const tokens[] = {"1", "2", "12", "."};
    static const char *const merges[] = {"1 2"};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_str(&m, "tokenizer.ggml.model", "gpt2");
    tiny_strs(&m, "tokenizer.ggml.tokens", tokens, 4);
    tiny_strs(&m, "tokenizer.ggml.merges", merges, 1);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    TINY_EXPECT(t, "12112.", "######", 2, 0, 2, 3);
    TINY_EXPECT(t, "11112.", "######", 0, 0, 0, 2, 3);
    TINY_EXPECT(t, "1112.", "#####", 0, 0, 0, 1, 3); /* 111 2 */
    tokenizer_free(t);
}

static void tokens(void **state)
{
    struct tiny_tokenizer m;
    start(&m, "llama");
    REFUSED(&m, -EINVAL, "tokenizer.ggml.tokens");
    start(&m, "llama");
    tiny_f32s(&m, "tokenizer.ggml.tokens", scores, 3);
    REFUSED(&m, -EINVAL, "tokenizer.ggml.tokens", "strings");
    start(&m, "llama");
    tiny_str(&m, "tokenizer.ggml.tokens", "a");
    REFUSED(&m, -EINVAL, "tokenizer.ggml.tokens", "strings");
    start(&m, "llama");
    tiny_strs(&m, "tokenizer.ggml.tokens", abc, 0);
    REFUSED(&m, -EINVAL, "tokenizer.ggml.tokens", "0 tokens");
}

/* The code divides by the length of the longest token. */
static void nothing_but_empty_tokens(void **state)
{
    static const char *const empty[] = {"", ""};
    static const char *const one[] = {"", "b"};
    struct tiny_tokenizer m;
    struct tokenizer *t;
    for (int i = 0; i < 2; i++) {
        start(&m, i ? "gpt2" : "llama");
        tiny_strs(&m, "tokenizer.ggml.tokens", empty, 2);
        tiny_f32s(&m, "tokenizer.ggml.scores", scores, 2);
        tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
        REFUSED(&m, -EINVAL, "tokenizer.ggml.tokens: no token has any text");
    }
    start(&m, "gpt2");
    tiny_strs(&m, "tokenizer.ggml.tokens", one, 2);
    tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    tokenizer_free(t);
}

static void duplicates(void **state)
{
    static const char *const twice[] = {"a", "b", "c", "b"};
    static const float s[4] = {0};
    struct tiny_tokenizer m;
    for (int i = 0; i < 2; i++) {
        start(&m, i ? "llama" : "gpt2");
        tiny_strs(&m, "tokenizer.ggml.tokens", twice, 4);
        tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
        tiny_f32s(&m, "tokenizer.ggml.scores", s, 4);
        REFUSED(&m, -EINVAL, "tokens 1 and 3", "\"b\"");
    }
}

static void types(void **state)
{
    static const int32_t kinds[] = {1, 1, 6, 77};
    struct tiny_tokenizer m;
    start_abc(&m, "gpt2");
    tiny_i32s(&m, "tokenizer.ggml.token_type", kinds, 2);
    REFUSED(&m, -EINVAL, "token_type", "2 entries for 3 tokens");
    start_abc(&m, "gpt2");
    tiny_i32s(&m, "tokenizer.ggml.token_type", kinds, 4);
    REFUSED(&m, -EINVAL, "token_type", "4 entries for 3 tokens");
    start_abc(&m, "gpt2");
    tiny_f32s(&m, "tokenizer.ggml.token_type", scores, 3);
    REFUSED(&m, -EINVAL, "token_type", "integers");
    start_abc(&m, "llama");
    tiny_i32s(&m, "tokenizer.ggml.token_type", kinds, 3);
    tiny_f32s(&m, "tokenizer.ggml.scores", scores, 3);
    REFUSED(&m, -EINVAL, "token 2", "\"c\"", "<0x0A>");
}

static void score_list(void **state)
{
    const float nan[] = {0, NAN, 0};
    struct tiny_tokenizer m;
    start_abc(&m, "llama");
    REFUSED(&m, -EINVAL, "tokenizer.ggml.scores", "no such key");
    start_abc(&m, "llama");
    tiny_f32s(&m, "tokenizer.ggml.scores", scores, 2);
    REFUSED(&m, -EINVAL, "tokenizer.ggml.scores", "2 entries for 3 tokens");
    start_abc(&m, "llama");
    tiny_f32s(&m, "tokenizer.ggml.scores", nan, 3);
    REFUSED(&m, -EINVAL, "score of token 1");
}

static void merge_list(void **state)
{
    static const char *const bad[][2] = {{"a b", "ab"}, {"a b", ""}, {"a b", " a"}, {"a b", "a "}};
    struct tiny_tokenizer m;
    start_abc(&m, "gpt2");
    REFUSED(&m, -EINVAL, "tokenizer.ggml.merges", "no such key");
    start_abc(&m, "gpt2");
    tiny_i32s(&m, "tokenizer.ggml.merges", (const int32_t[]){1}, 1);
    REFUSED(&m, -EINVAL, "tokenizer.ggml.merges", "strings");
    for (size_t i = 0; i < 4; i++) {
        start_abc(&m, "gpt2");
        tiny_strs(&m, "tokenizer.ggml.merges", bad[i], 2);
        REFUSED(&m, -EINVAL, "tokenizer.ggml.merges", "merge 1");
    }
}

/* Merges of missing texts, of texts outside the alphabet, or repeated ones are never applied, except the first of two.
 */
static void strange_merges(void **state)
{
    static const char *const tokens[] = {"a", "b", "c", "ab", "bc", "abc"};
    static const char *const merges[] = {"a x", "x a", "a c", "\xff\xfe b", "a b", "b c", "a b", "ab c", "  b"};
    struct tiny_tokenizer m;
    struct tokenizer *t;
    start(&m, "gpt2");
    tiny_strs(&m, "tokenizer.ggml.tokens", tokens, 6);
    tiny_strs(&m, "tokenizer.ggml.merges", merges, 9);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    TINY_EXPECT(t, "abc", NULL, 5);
    TINY_EXPECT(t, "acbc", NULL, 0, 2, 4);
    tokenizer_free(t);
}

static void ids(void **state)
{
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id",
                                       "tokenizer.ggml.fim_pad_token_id"};
    struct tiny_tokenizer m;
    struct tokenizer *t;
    for (size_t i = 0; i < 5; i++) {
        start_abc(&m, "gpt2");
        tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
        tiny_u32(&m, keys[i], 3);
        REFUSED(&m, -EINVAL, keys[i], "is 3", "3 tokens");
    }
    start_abc(&m, "llama");
    tiny_f32s(&m, "tokenizer.ggml.scores", scores, 3);
    tiny_u32(&m, "tokenizer.ggml.bos_token_id", UINT32_MAX); /* older converters write "none" this way */
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_false(tokenizer_add_bos(t));
    tokenizer_free(t);
    start_abc(&m, "gpt2");
    tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
    tiny_bool(&m, "tokenizer.ggml.add_bos_token", true);
    REFUSED(&m, -EINVAL, "add_bos_token");
}

static void odd_but_harmless(void **state)
{
    /* empty twice, not UTF-8, an unknown type, no byte tokens */
    static const char *const tokens[] = {"<unk>", "", "\xff\xfe", "a", "", "b"};
    static const int32_t kinds[] = {2, 1, 3, 1, 3, 99};
    static const float s[] = {0, INFINITY, 0, 0, 0, -INFINITY};
    struct tiny_tokenizer m;
    struct tokenizer *t;
    size_t len;
    start(&m, "llama");
    tiny_strs(&m, "tokenizer.ggml.tokens", tokens, 6);
    tiny_i32s(&m, "tokenizer.ggml.token_type", kinds, 6);
    tiny_f32s(&m, "tokenizer.ggml.scores", s, 6);
    tiny_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    assert_int_equal(tokenizer_vocab(t), 6);
    TINY_EXPECT(t,
                "a\xc3\xa9"
                "b",
                "####", 3, 0, 5); /* a text without a token is unknown */
    tokenizer_piece(t, 1, &len);
    assert_int_equal(len, 0);
    tokenizer_piece(t, 6, &len);
    assert_int_equal(len, 0);
    tokenizer_free(t);
}

/* A file is refused, or its tokenizer works without harm, whatever the file holds. */
static void any_bytes(void **state)
{
    const struct tiny_token extra[] = {{"_a", 1, -1}, {"_", 1, -2}, {"<|im_end|>", 3, 0}, {"uu", 4, 0}, {"a", 1, -3}};
    const char *const merges[] = {"a b", "_ a", "_a b", "1 2", NULL};
    uint64_t seed = 9;
    int made = 0;
    for (int round = 0; round < 9000; round++) {
        struct tiny_tokenizer m = {0};
        struct tokenizer *t;
        struct gguf *g;
        char path[64];
        if (round % 6 < 4)
            tiny_sample(&m, tiny_word_kinds[round % 6]);
        else if (round % 2)
            tiny_spm(&m, extra, 5);
        else
            tiny_bpe(&m, "smollm", merges, extra, 4);
        tiny_u32(&m, "tokenizer.ggml.bos_token_id", 1);
        for (int k = 0; k < 1 + round % 5; k++) m.body.data[tiny_random(&seed) % m.body.len] = (char)tiny_random(&seed);
        int fd = memfd_create("vocabulary", MFD_CLOEXEC);
        tiny_write_keys(&m, fd);
        buf_fini(&m.body);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (gguf_open(&g, path) == 0) {
            if (tokenizer_new(&t, g) == 0) {
                size_t n;
                free(tiny_encode(t, "a Ab  uu<|im_end|> 123 \n\xc3\xa9</s>a\xcc\x81", "##############################",
                                 &n));
                tokenizer_free(t);
                made++;
            }
            gguf_close(g);
        }
        close(fd);
    }
    assert_true(made > 300); /* otherwise the test tried nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsupported),      cmocka_unit_test(no_pretokenizer),
        cmocka_unit_test(tokens),           cmocka_unit_test(nothing_but_empty_tokens),
        cmocka_unit_test(duplicates),       cmocka_unit_test(types),
        cmocka_unit_test(score_list),       cmocka_unit_test(merge_list),
        cmocka_unit_test(strange_merges),   cmocka_unit_test(ids),
        cmocka_unit_test(odd_but_harmless), cmocka_unit_test(any_bytes),
    };
    return cmocka_run_group_tests_name("vocab", tests, NULL, NULL);
}
