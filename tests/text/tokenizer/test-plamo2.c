/* SPDX-License-Identifier: MIT */
/* PLaMo 2. The ids are those of llama.cpp for the same vocabulary. */
#include "libcommon/error.h"
#include "tests/text/tiny-words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tiny_token words[] = {
    {"<|plamo:unk|>", TINY_UNKNOWN, 0}, /* 0 */
    {"<|plamo:bos|>", TINY_CONTROL, 0}, /* 1 */
    {"<|plamo:eos|>", TINY_CONTROL, 0}, /* 2 */
    {"a", TINY_NORMAL, -2},             /* 3 */
    {"b", TINY_NORMAL, -3},             /* 4 */
    {"ab", TINY_NORMAL, -4.5},          /* 5 */
    {"ba", TINY_NORMAL, -4.00004f},     /* 6: rounds to -4 */
    {"aa", TINY_NORMAL, -4},            /* 7: as much as twice "a" */
    {"日本", TINY_NORMAL, -7},          /* 8 */
    {" ", TINY_NORMAL, -1},             /* 9 */
    {"no", TINY_NORMAL, -2001},         /* 10: too low */
    {"bytes", TINY_NORMAL, -4999},      /* 11: too low, although its bytes cost 5000 */
    {"o", TINY_NORMAL, -999.5f},        /* 12: a little better than its byte */
};
enum { N_WORDS = sizeof(words) / sizeof(*words) };
#define BYTE(b) (N_WORDS + (b))

static struct tokenizer *make(void)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_words(&m, "plamo2", words, N_WORDS, true);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void best_sum(void **state)
{
    struct tokenizer *t = make();
    TINY_EXPECT(t, "ab", NULL, 5);
    TINY_EXPECT(t, "aba", NULL, 3, 6); /* -6, the other way -6.5 */
    TINY_EXPECT(t, "aaa", NULL, 7, 3); /* equal sums: the first token is the longer one */
    TINY_EXPECT(t, " a  日本", NULL, 9, 3, 9, 9, 8);
    tiny_expect(t, "", NULL, NULL, 0);
    tokenizer_free(t);
}

static void bytes(void **state)
{
    struct tokenizer *t = make();
    TINY_EXPECT(t, "日a", NULL, BYTE(0xe6), BYTE(0x97), BYTE(0xa5), 3);
    TINY_EXPECT(t, "\n😀", NULL, BYTE('\n'), BYTE(0xf0), BYTE(0x9f), BYTE(0x98), BYTE(0x80));
    TINY_EXPECT(t, "no", NULL, BYTE('n'), 12);
    TINY_EXPECT(t, "bytes", NULL, 4, BYTE('y'), BYTE('t'), BYTE('e'), BYTE('s'));
    TINY_EXPECT(t, "<0x41>", NULL, BYTE('<'), BYTE('0'), BYTE('x'), BYTE('4'), BYTE('1'), BYTE('>'));
    tokenizer_free(t);
}

static void byte_order_mark(void **state)
{
    struct tokenizer *t = make();
    struct text text = {0};
    struct tokens out = {0};
    TINY_EXPECT(t,
                "\xef\xbb\xbf"
                "a",
                NULL, 3);
    TINY_EXPECT(t, "a\xef\xbb\xbf", NULL, 3, BYTE(0xef), BYTE(0xbb), BYTE(0xbf));
    tiny_expect(t, "\xef\xbb\xbf", NULL, NULL, 0);
    assert_int_equal(text_append(&text, "a\xef\xbb\xbf", 4, false), 0);
    assert_int_equal(tokenizer_encode(t, &text, 1, false, &out), 0);
    assert_int_equal(out.n, 3); /* not in front of the text */
    tokens_fini(&out);
    text_fini(&text);
    tokenizer_free(t);
}

static void specials(void **state)
{
    struct tokenizer *t = make();
    size_t n;
    TINY_EXPECT(t, "a<|plamo:eos|>", "##############", 3, 2);
    free(tiny_encode(t, "<|plamo:eos|>", NULL, &n)); /* llama.cpp makes the control token of it */
    assert_int_equal(n, strlen("<|plamo:eos|>"));
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_false(tokenizer_add_bos(t));
    tokenizer_free(t);
}

static void round_trips(void **state)
{
    struct tokenizer *t = make();
    uint64_t seed = 6;
    for (int i = 0; i < 200; i++) {
        struct buf b = BUF_INIT;
        tiny_random_text(&seed, tiny_random(&seed) % 200, &b);
        if (b.len < 3 || memcmp(b.data, "\xef\xbb\xbf", 3) != 0) tiny_round_trip(t, b.data ? b.data : "", b.len);
        buf_fini(&b);
    }
    tokenizer_free(t);
}

static void refused(void **state)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t = NULL;
    tiny_words(&m, "plamo2", words, N_WORDS, false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "needs the 256 tokens <0x00> to <0xFF>"));
    static const char *const texts[] = {"a"};
    tiny_str(&m, "tokenizer.ggml.model", "plamo2");
    tiny_strs(&m, "tokenizer.ggml.tokens", texts, 1);
    assert_int_equal(tiny_tokenizer_new(&m, &t), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "no such key; a \"plamo2\" tokenizer needs this key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_sum), cmocka_unit_test(bytes),       cmocka_unit_test(byte_order_mark),
        cmocka_unit_test(specials), cmocka_unit_test(round_trips), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests_name("plamo2", tests, NULL, NULL);
}
