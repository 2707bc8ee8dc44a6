/* SPDX-License-Identifier: MIT */
#include "tests/text/tiny-tokenizer.h"
#include "tests/text/tokenizer/naive.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define M 256 /* the token of the first merge */

static struct tokenizer *make(const char *pre, const char *const *merges, const struct tiny_token *extra, size_t n)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_bpe(&m, pre, merges, extra, n);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void merges_in_their_order(void **state)
{
    const char *const merges[] = {"b c", "a b", "a bc", "a a", "aa aa", NULL};
    struct tokenizer *t = make("gpt-2", merges, NULL, 0);
    TINY_EXPECT(t, "abc", NULL, M + 2);
    TINY_EXPECT(t, "aab", NULL, 'a', M + 1);
    TINY_EXPECT(t, "aaa", NULL, M + 3, 'a');
    TINY_EXPECT(t, "aaaaaaa", NULL, M + 4, M + 3, 'a');
    tokenizer_free(t);
}

static void every_byte(void **state)
{
    struct tokenizer *t = make("gpt-2", NULL, NULL, 0);
    char s[128 + 2 * 1920 + 1];
    size_t n = 0, len;
    for (int c = 1; c < 128; c++) s[n++] = (char)c;
    for (int c = 0x80; c < 0x800; c++) {
        s[n++] = (char)(0xc0 | c >> 6);
        s[n++] = (char)(0x80 | (c & 63));
    }
    s[n] = 0;
    int32_t *ids = tiny_encode(t, s, NULL, &len);
    assert_int_equal(len, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], (unsigned char)s[i]);
    free(ids);
    tokenizer_free(t);
}

static void pieces_of_gpt_2(void **state)
{
    const char *const merges[] = {"n '", "' t", "' T", "1 2",        "12 3",       "123 4",
                                  "_ _", "_ b", "b _", "! \303\204", "_ \303\241", NULL};
    struct tokenizer *t = make("gpt-2", merges, NULL, 0);
    TINY_EXPECT(t, "n't", NULL, 'n', M + 1);
    TINY_EXPECT(t, "n'T", NULL, 'n', '\'', 'T');
    TINY_EXPECT(t, "1234", NULL, M + 5);
    TINY_EXPECT(t, "b  b", NULL, 'b', ' ', M + 7); /* the last space belongs to the word */
    TINY_EXPECT(t, "b  ", NULL, 'b', M + 6);
    TINY_EXPECT(t, "b \n", NULL, 'b', ' ', '\n');
    TINY_EXPECT(t, "!\xc4\x80", NULL, '!', 0xc4, 0x80); /* a letter and a mark are separate */
    /* U+180E is not white space (since Unicode 6.3): the space before it belongs to it. */
    TINY_EXPECT(t, " \xe1\xa0\x8e", NULL, M + 10, 0xa0, 0x8e);
    tokenizer_free(t);
}

/* Letters of Unicode 15, which an older PCRE2 does not know. The ids must not depend on it. */
static void letters_of_unicode_15(void **state)
{
    const char *const merges[] = {"\304\262 a", NULL}; /* byte 90 and a */
    struct tokenizer *t = make("gpt-2", merges, NULL, 0);
    TINY_EXPECT(t, "\U00031350a", NULL, 0xf0, 0xb1, 0x8d, M);
    TINY_EXPECT(t, "\U0001f7d0a", NULL, 0xf0, 0x9f, 0x9f, 0x90, 'a'); /* a symbol */
    tokenizer_free(t);
}

static void pieces_of_smollm(void **state)
{
    const char *const merges[] = {"1 2", "_ 1", "_ _", NULL};
    for (int i = 0; i < 2; i++) {
        struct tokenizer *t = make(i ? "starcoder" : "smollm", merges, NULL, 0);
        TINY_EXPECT(t, "12", NULL, '1', '2');
        TINY_EXPECT(t, " 1", NULL, ' ', '1');
        TINY_EXPECT(t, "  1", NULL, M + 2, '1'); /* all spaces before a digit are one piece */
        tokenizer_free(t);
    }
}

static void pieces_of_llama_bpe(void **state)
{
    const char *const merges[] = {"' T", "1 2", "! \304\212", "\304\212 a", "( a", NULL}; /* 304 212: line end */
    struct tokenizer *t = make("llama-bpe", merges, NULL, 0);
    TINY_EXPECT(t, "n'T", NULL, 'n', M);
    TINY_EXPECT(t, "1234", NULL, M + 1, '3', '4'); /* three digits at a time */
    TINY_EXPECT(t, "!\n", NULL, M + 2);
    TINY_EXPECT(t, "\na", NULL, '\n', 'a');
    TINY_EXPECT(t, "(a", NULL, M + 4);
    tokenizer_free(t);
    t = make("qwen2", merges, NULL, 0);
    TINY_EXPECT(t, "n'T12", NULL, 'n', M, '1', '2');
    tokenizer_free(t);
}

static void whole_pieces_first(void **state)
{
    const char *const merges[] = {"h e", "l l", NULL};
    const struct tiny_token extra[] = {{"hello", TINY_NORMAL, 0}, {"eot", TINY_CONTROL, 0}};
    struct tokenizer *t = make("llama-bpe", merges, extra, 2);
    TINY_EXPECT(t, "hello", NULL, M + 2);
    TINY_EXPECT(t, "helloo", NULL, M, M + 1, 'o', 'o');
    TINY_EXPECT(t, "eot", NULL, 'e', 'o', 't'); /* but not a control token */
    tokenizer_free(t);
    t = make("gpt-2", merges, extra, 2);
    TINY_EXPECT(t, "hello", NULL, M, M + 1, 'o');
    tokenizer_free(t);
}

/* SmolLM's vocabulary has no token for bytes like 04. llama.cpp makes no token of them. */
static void missing_bytes(void **state)
{
    const char *const tokens[] = {"a", "b", "ab"}, *const merges[] = {"a b"};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    struct text text = {0};
    struct tokens out = {0};
    tiny_str(&m, "tokenizer.ggml.model", "gpt2");
    tiny_str(&m, "tokenizer.ggml.pre", "gpt-2");
    tiny_strs(&m, "tokenizer.ggml.tokens", tokens, 3);
    tiny_strs(&m, "tokenizer.ggml.merges", merges, 1);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    text_append(&text, "axab", 4, false);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    assert_int_equal(out.n, 2);
    assert_int_equal(out.ids[0], 0);
    assert_int_equal(out.ids[1], 2);
    assert_int_equal(out.ends[0], 1);
    assert_int_equal(out.ends[1], 4);
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

struct ranked {
    char merges[40][16];
    size_t n;
};

static long ranked_order(const void *ctx, const char *l, size_t l_len, const char *r, size_t r_len)
{
    const struct ranked *v = ctx;
    for (size_t i = 0; i < v->n; i++) {
        size_t cut = strcspn(v->merges[i], " ");
        if (cut == l_len && memcmp(v->merges[i], l, l_len) == 0 && strlen(v->merges[i] + cut + 1) == r_len &&
            memcmp(v->merges[i] + cut + 1, r, r_len) == 0)
            return (long)i;
    }
    return -1;
}

/* Random merges of existing tokens, each of which makes a new token. */
static void ranked_random(uint64_t *seed, struct ranked *v)
{
    char made[64][8] = {"a", "b", "c"};
    size_t n = 3;
    v->n = 0;
    for (int k = 0; k < 60 && v->n < 30; k++) {
        const char *l = made[tiny_random(seed) % n], *r = made[tiny_random(seed) % n];
        bool known = strlen(l) + strlen(r) > 6;
        char both[16] = "";
        if (!known) snprintf(both, sizeof(both), "%s%s", l, r);
        for (size_t i = 0; i < n; i++) known = known || strcmp(made[i], both) == 0;
        if (known) continue;
        memcpy(made[n], both, sizeof(made[n]));
        snprintf(v->merges[v->n++], sizeof(v->merges[0]), "%s %s", l, r);
        n++;
    }
}

static void equals_the_definition(void **state)
{
    uint64_t seed = 5;
    for (int round = 0; round < 100; round++) {
        struct ranked v;
        const char *merges[41] = {NULL};
        ranked_random(&seed, &v);
        for (size_t i = 0; i < v.n; i++) merges[i] = v.merges[i];
        struct tokenizer *t = make("gpt-2", merges, NULL, 0);
        naive_compare(t, &seed, ranked_order, &v);
        tokenizer_free(t);
    }
}

static void round_trips(void **state)
{
    static const char *const pres[] = {"gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-v3"};
    const char *const merges[] = {"_ a", "a b", "_ _", "\304\212 \304\212", "1 2", "' s", "' t", "\303\203 \302\251",
                                  NULL};
    uint64_t seed = 2;
    for (size_t i = 0; i < 5; i++) {
        struct tokenizer *t = make(pres[i], merges, NULL, 0);
        for (int k = 0; k < 300; k++) {
            struct buf b = BUF_INIT;
            tiny_random_text(&seed, tiny_random(&seed) % 300, &b);
            tiny_round_trip(t, b.data, b.len);
            buf_fini(&b);
        }
        tokenizer_free(t);
    }
}

static size_t count(const struct tokenizer *t, const char *s, size_t total)
{
    struct text text = {0};
    struct tokens out = {0};
    while (text.s.len < total) assert_int_equal(text_append(&text, s, strlen(s), false), 0);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    size_t n = out.n;
    text_fini(&text);
    tokens_fini(&out);
    return n;
}

/* A piece of a megabyte must not take square time or hit the limits of the regular expressions. */
static void a_megabyte(void **state)
{
    static const char *const pres[] = {"gpt-2", "smollm", "llama-bpe", "deepseek-v3"};
    const char *const merges[] = {"a a", "aa aa", "_ _", NULL};
    for (size_t i = 0; i < 4; i++) {
        struct tokenizer *t = make(pres[i], merges, NULL, 0);
        assert_int_equal(count(t, "a", 1 << 20), 1 << 18);
        assert_int_equal(count(t, " ", 1 << 20), 1 << 19);
        assert_int_equal(count(t, "🙂", 1 << 20), 1 << 20);
        assert_int_equal(count(t, "7", 1 << 20), 1 << 20);
        assert_int_equal(count(t, " \n", 1 << 20), 1 << 20);
        tokenizer_free(t);
    }
}

/* Gemma 4: merges of characters over whole lines; a character without a token becomes bytes. */
static struct tokenizer *make_plain(const char *model, const char *pre)
{
    static const char *const tokens[] = {"<bos>",
                                         "a",
                                         "b",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x81"
                                         "a",
                                         "b\xe2\x96\x81",
                                         "\n",
                                         "\n\n",
                                         "\xc3\xa9",
                                         "ab",
                                         "<0xC3>",
                                         "<0xA8>",
                                         "  ",
                                         "<0x78>"};
    static const int32_t kinds[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 6, 6, 4, 6};
    static const char *const merges[] = {"\xe2\x96\x81 a", "b \xe2\x96\x81", "a b"};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_str(&m, "tokenizer.ggml.model", model);
    if (pre) tiny_str(&m, "tokenizer.ggml.pre", pre);
    tiny_strs(&m, "tokenizer.ggml.tokens", tokens, 14);
    tiny_i32s(&m, "tokenizer.ggml.token_type", kinds, 14);
    tiny_strs(&m, "tokenizer.ggml.merges", merges, 3);
    tiny_u32(&m, "tokenizer.ggml.bos_token_id", 0);
    tiny_bool(&m, "tokenizer.ggml.add_bos_token", false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void not_byte_level(void **state)
{
    static const char *const pres[] = {"gemma4", "sarvam-moe", "granite-embed-multi-311m", NULL};
    for (int i = 0; i < 4; i++) {
        struct tokenizer *t = make_plain(pres[i] ? "gpt2" : "gemma4", pres[i]);
        TINY_EXPECT(t, "ab a", NULL, 9, 4);
        TINY_EXPECT(t,
                    "bb \xe2\x96\x81"
                    "ab",
                    NULL, 2, 5, 4, 2); /* U+2581 is a space */
        TINY_EXPECT(t, "a\n\nb\na", NULL, 1, 7, 2, 6, 1);
        TINY_EXPECT(t, "a   a", NULL, 1, 12, 4); /* two spaces have a token of their own */
        TINY_EXPECT(t, "\xc3\xa9\xc3\xa8x", NULL, 8, 10, 11, 13);
        TINY_EXPECT(t,
                    "a\xe2\x82\xac"
                    "b",
                    NULL, 1, 2); /* bytes without a token */
        tiny_round_trip(t, "b ab a\n\n\xc3\xa8  x", 13);
        assert_int_equal(tokenizer_add_bos(t), i != 1);
        tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_in_their_order), cmocka_unit_test(every_byte),
        cmocka_unit_test(pieces_of_gpt_2),       cmocka_unit_test(letters_of_unicode_15),
        cmocka_unit_test(pieces_of_smollm),      cmocka_unit_test(pieces_of_llama_bpe),
        cmocka_unit_test(whole_pieces_first),    cmocka_unit_test(missing_bytes),
        cmocka_unit_test(equals_the_definition), cmocka_unit_test(round_trips),
        cmocka_unit_test(not_byte_level),        cmocka_unit_test(a_megabyte),
    };
    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
