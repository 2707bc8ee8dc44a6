/* SPDX-License-Identifier: MIT */
/* Vocabularies that are the same, and the first difference of those that are not. */
#include "libcommon/error.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define N 5

static const char *const texts[N + 1] = {"a", "b", "ab", "<s>", "[PAD4]", "[PAD5]"};
static const int32_t kinds[N + 1] = {1, 1, 1, 3, 5, 5};
static const char *const merge[] = {"a b"};

/* The first @n tokens of @text, of @kind. */
static struct tokenizer *make(const char *const *text, const int32_t *kind, size_t n, uint32_t bos)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_str(&m, "tokenizer.ggml.model", "gpt2");
    tiny_str(&m, "tokenizer.ggml.pre", "gpt-2");
    tiny_strs(&m, "tokenizer.ggml.tokens", text, n);
    tiny_i32s(&m, "tokenizer.ggml.token_type", kind, n);
    tiny_strs(&m, "tokenizer.ggml.merges", merge, 1);
    tiny_u32(&m, "tokenizer.ggml.bos_token_id", bos);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

/* @words: of the message; NULL: they are the same. */
static void compare(struct tokenizer *b, const char *words)
{
    struct tokenizer *a = make(texts, kinds, N, 3);
    int r = tokenizer_same(a, b);
    assert_int_equal(r, words ? -EINVAL : 0);
    if (words && !strstr(error_text(r), words)) fail_msg("no \"%s\" in: %s", words, error_text(r));
    tokenizer_free(a);
    tokenizer_free(b);
}

static void test_same(void **state)
{
    compare(make(texts, kinds, N, 3), NULL);
    compare(make(texts, kinds, N + 1, 3), NULL); /* one more that is unused */
    compare(make(texts, kinds, N - 1, 3), NULL); /* one less */
}

static void test_differences(void **state)
{
    const char *other[N + 1];
    int32_t kind[N + 1];
    memcpy(other, texts, sizeof(other));
    memcpy(kind, kinds, sizeof(kind));
    other[4] = "<x>";
    compare(make(other, kinds, N, 3), "token 4 is '<x>' (text), but '[PAD4]' (text) in the model");
    other[4] = texts[4];
    kind[4] = 3;
    compare(make(texts, kind, N, 3), "token 4 is '[PAD4]' (special), but '[PAD4]' (text) in the model");
    kind[4] = 5;
    kind[5] = 1;
    compare(make(texts, kind, N + 1, 3), "it has 6 tokens, the model only 5; token 5 is '[PAD5]'");
    compare(make(texts, kinds, N - 2, 0), "the model has 5 tokens, the other only 3; token 3 is '<s>'");
    compare(make(texts, kinds, N, 0), "the first token is 0, but 3 in the model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
