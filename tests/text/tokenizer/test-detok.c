/* SPDX-License-Identifier: MIT */
#include "libcommon/utf8.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FFFD "\xef\xbf\xbd"

/* Ids 0 to 255 are the bytes; then "é", half of an emoji, a word, a control token. */
static struct tokenizer *bytes_tokenizer(void)
{
    const char *const merges[] = {"\303\203 \302\251", "\303\260 \305\200", "_ a", NULL}; /* bytes C3 A9; F0 9E */
    const struct tiny_token extra[] = {{"<|im_end|>", TINY_CONTROL, 0}, {"x y", TINY_USER, 0}, {"", TINY_NORMAL, 0}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_bpe(&m, "gpt-2", merges, extra, 3);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void expect(const struct tokenizer *t, const int32_t *ids, size_t n, const char *want)
{
    struct buf out = BUF_INIT;
    struct detok d = {0};
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(detok_push(&d, t, ids[i], &out), 0);
        assert_int_equal(utf8_check(out.data ? out.data : "", out.len), out.len); /* never half a character */
    }
    assert_int_equal(detok_flush(&d, &out), 0);
    assert_string_equal(out.data ? out.data : "", want);
    buf_fini(&out);
}
#define EXPECT(t, want, ...)                                                                                           \
    expect(t, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), want)

static void characters(void **state)
{
    struct tokenizer *t = bytes_tokenizer();
    EXPECT(t, "aé a", 'a', 256, 258);
    EXPECT(t, "é", 0xc3, 0xa9);
    EXPECT(t, "🙂!", 0xf0, 0x9f, 0x99, 0x82, '!');
    EXPECT(t, "\U0001e000", 257, 0x80, 0x80);
    tokenizer_free(t);
}

/* Unicode 15, tables 3-8 to 3-11. */
static void invalid_bytes(void **state)
{
    struct tokenizer *t = bytes_tokenizer();
    EXPECT(t, FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A", 0xc0, 0xaf, 0xe0, 0x80, 0xbf, 0xf0, 0x81, 0x82, 'A');
    EXPECT(t, FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A", 0xed, 0xa0, 0x80, 0xed, 0xbf, 0xbf, 0xed, 0xaf, 'A');
    EXPECT(t, FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B", 0xf4, 0x91, 0x92, 0x93, 0xff, 'A', 0x80, 0xbf, 'B');
    EXPECT(t, FFFD FFFD FFFD FFFD "A", 0xe1, 0x80, 0xe2, 0xf0, 0x91, 0x92, 0xf1, 0xbf, 'A');
    tokenizer_free(t);
}

static void flush_ends_a_character(void **state)
{
    struct tokenizer *t = bytes_tokenizer();
    EXPECT(t, "a" FFFD, 'a', 0xf0, 0x9f, 0x99);
    expect(t, NULL, 0, "");
    tokenizer_free(t);
}

static void control_is_silent(void **state)
{
    struct tokenizer *t = bytes_tokenizer();
    size_t len;
    EXPECT(t, "ax y", 'a', 259, 260, 261);
    EXPECT(t, "é", 0xc3, 259, 0xa9); /* and leaves the incomplete part */
    EXPECT(t, "a", 'a', -1, 262, INT32_MAX);
    assert_memory_equal(tokenizer_piece(t, 259, &len), "<|im_end|>", 10);
    assert_int_equal(len, 10);
    tokenizer_free(t);
}

static void any_split_is_the_whole(void **state)
{
    struct tokenizer *t = bytes_tokenizer();
    uint64_t seed = 11;
    for (int round = 0; round < 500; round++) {
        struct buf one = BUF_INIT, other = BUF_INIT;
        struct detok a = {0}, b = {0};
        int32_t last = -1;
        for (int i = 0; i < 200; i++) {
            static const int32_t often[] = {'a', ' ', 0xc3, 0xa9, 0xf0, 0x9e, 0x80, 0x9f};
            int32_t byte = tiny_random(&seed) % 4 ? often[tiny_random(&seed) % 8] : (int32_t)(tiny_random(&seed) % 256);
            assert_int_equal(detok_push(&a, t, byte, &one), 0);
            /* The same bytes with some pairs as one token. */
            int32_t pair = last == 0xc3 && byte == 0xa9 ? 256 : last == 0xf0 && byte == 0x9e ? 257 : -1;
            if (pair >= 0) {
                assert_int_equal(detok_push(&b, t, pair, &other), 0);
                last = -1;
                continue;
            }
            if (last >= 0) assert_int_equal(detok_push(&b, t, last, &other), 0);
            last = byte;
        }
        if (last >= 0) assert_int_equal(detok_push(&b, t, last, &other), 0);
        assert_int_equal(detok_flush(&a, &one), 0);
        assert_int_equal(detok_flush(&b, &other), 0);
        assert_int_equal(one.len, other.len);
        assert_memory_equal(one.data, other.data, one.len);
        buf_fini(&one);
        buf_fini(&other);
    }
    tokenizer_free(t);
}

static void spm_first_space(void **state)
{
    const struct tiny_token extra[] = {{"_a", TINY_NORMAL, 0}, {"_", TINY_NORMAL, 0}};
    const int32_t ids[] = {1, TINY_SPM_EXTRA, TINY_SPM_EXTRA};
    for (int at_start = 0; at_start < 2; at_start++) {
        for (int prefix = 0; prefix < 2; prefix++) {
            struct tiny_tokenizer m = {0};
            struct tokenizer *t;
            struct buf out = BUF_INIT;
            struct detok d = {.at_start = at_start};
            tiny_spm(&m, extra, 2);
            tiny_bool(&m, "tokenizer.ggml.add_space_prefix", prefix);
            assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
            for (int i = 0; i < 3; i++) assert_int_equal(detok_push(&d, t, ids[i], &out), 0);
            assert_string_equal(out.data, at_start && prefix ? "a a" : " a a"); /* BOS does not count */
            buf_fini(&out);
            tokenizer_free(t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters),
        cmocka_unit_test(invalid_bytes),
        cmocka_unit_test(flush_ends_a_character),
        cmocka_unit_test(control_is_silent),
        cmocka_unit_test(any_split_is_the_whole),
        cmocka_unit_test(spm_first_space),
    };
    return cmocka_run_group_tests_name("detok", tests, NULL, NULL);
}
