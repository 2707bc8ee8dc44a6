/* SPDX-License-Identifier: MIT */
/* RWKV's vocabulary of bytes. The ids are those of llama.cpp for the same vocabulary. */
#include "libcommon/error.h"
#include "tests/text/tiny-words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* <s>, the 256 bytes as ids 1 to 256, then some more. */
static struct tokenizer *make(void)
{
    static const char *const more[] = {"ab", "abcd", "\\xe4\\xb8", "\\xe4\\xb8\\xad", "\\n\\n", "\\\\\\'\\t", " a"};
    struct tiny_token tokens[257 + sizeof(more) / sizeof(*more)] = {{"<s>", TINY_CONTROL, 0}};
    char names[256][8];
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    size_t n = 257;
    for (unsigned b = 0; b < 256; b++) {
        snprintf(names[b], sizeof(names[b]), b > 0x20 && b < 0x7f && b != '\\' ? "%c" : "\\x%02x", b);
        tokens[1 + b] = (struct tiny_token){names[b], TINY_NORMAL, 0};
    }
    for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
        tokens[n++] = (struct tiny_token){more[i], TINY_NORMAL, 0};
    tiny_words(&m, "rwkv", tokens, n, false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void longest_first(void **state)
{
    struct tokenizer *t = make();
    TINY_EXPECT(t, "abcd", NULL, 258);
    TINY_EXPECT(t, "abc", NULL, 257, 1 + 'c'); /* back to the last token that was whole */
    TINY_EXPECT(t, "中", NULL, 260);
    TINY_EXPECT(t, "丁", NULL, 259, 1 + 0x81); /* a part of a character */
    TINY_EXPECT(t, "\n\n\n", NULL, 261, 1 + '\n');
    TINY_EXPECT(t, "\\'\t\\", NULL, 262, 1 + '\\');
    TINY_EXPECT(t, "a a", NULL, 1 + 'a', 263);
    TINY_EXPECT(t, "<s>", NULL, 1 + '<', 1 + 's', 1 + '>'); /* llama.cpp makes the control token of it */
    TINY_EXPECT(t, "<s>a", "####", 0, 1 + 'a');
    tokenizer_free(t);
}

static void round_trips(void **state)
{
    struct tokenizer *t = make();
    uint64_t seed = 5;
    for (int i = 0; i < 200; i++) {
        struct buf b = BUF_INIT;
        tiny_random_text(&seed, tiny_random(&seed) % 200, &b);
        tiny_round_trip(t, b.data ? b.data : "", b.len);
        buf_fini(&b);
    }
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    assert_int_equal(tokenizer_end(t), -1);
    assert_false(tokenizer_add_bos(t));
    tokenizer_free(t);
}

static void unknown_bytes(void **state)
{
    static const struct tiny_token tokens[] = {{"a", TINY_NORMAL, 0}, {"<unk>", TINY_UNKNOWN, 0}};
    for (int known = 0; known < 2; known++) {
        struct tiny_tokenizer m = {0};
        struct tokenizer *t;
        tiny_words(&m, "rwkv", tokens, 2, false);
        if (known) tiny_u32(&m, "tokenizer.ggml.unknown_token_id", 1);
        assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
        if (known)
            TINY_EXPECT(t,
                        "ab\xc3\xa9"
                        "a",
                        NULL, 0, 1, 1, 1, 0);
        else
            TINY_EXPECT(t,
                        "ab\xc3\xa9"
                        "a",
                        NULL, 0, 0);
        tokenizer_free(t);
    }
}

static void refused(void **state)
{
    static const char *const bad[] = {"\\", "\\x4", "\\xg1", "\\q", "ab\\x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const struct tiny_token tokens[] = {{"a", TINY_NORMAL, 0}, {bad[i], TINY_NORMAL, 0}};
        struct tiny_tokenizer m = {0};
        struct tokenizer *t = NULL;
        tiny_words(&m, "rwkv", tokens, 2, false);
        assert_int_equal(tiny_tokenizer_new(&m, &t), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "tokenizer.ggml.tokens: token 1 is \""));
        assert_non_null(strstr(error_text(-EINVAL), "which is not a bytes literal of Python"));
    }
    static const struct tiny_token twice[] = {{"\\n", TINY_NORMAL, 0}, {"\\x0a", TINY_NORMAL, 0}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t = NULL;
    tiny_words(&m, "rwkv", twice, 2, false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "tokens 0 and 1 have the same text"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(longest_first), cmocka_unit_test(round_trips),
                                       cmocka_unit_test(unknown_bytes), cmocka_unit_test(refused)};
    return cmocka_run_group_tests_name("rwkv", tests, NULL, NULL);
}
