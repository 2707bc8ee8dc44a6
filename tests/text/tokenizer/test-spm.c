/* SPDX-License-Identifier: MIT */
#include "tests/text/tiny-tokenizer.h"
#include "tests/text/tokenizer/naive.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define X TINY_SPM_EXTRA

static const struct tiny_token words[] = {
    {"_", TINY_NORMAL, -1},    /* X */
    {"a", TINY_NORMAL, -2},    /* X + 1 */
    {"b", TINY_NORMAL, -2},    /* X + 2 */
    {"c", TINY_NORMAL, -2},    /* X + 3 */
    {"ab", TINY_NORMAL, -3},   /* X + 4 */
    {"bc", TINY_NORMAL, -2.5}, /* X + 5 */
    {"abc", TINY_NORMAL, -10}, /* X + 6 */
    {"_a", TINY_NORMAL, -4},   /* X + 7 */
    {"aa", TINY_NORMAL, -3.5}, /* X + 8 */
    {"aaaa", TINY_NORMAL, -5}, /* X + 9 */
    {"__", TINY_NORMAL, -6},   /* X + 10 */
    {"é", TINY_NORMAL, -7},    /* X + 11 */
};

static struct tokenizer *words_tokenizer(bool prefix)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_spm(&m, words, sizeof(words) / sizeof(*words));
    tiny_bool(&m, "tokenizer.ggml.add_space_prefix", prefix);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void best_score_first(void **state)
{
    struct tokenizer *t = words_tokenizer(false);
    TINY_EXPECT(t, "abc", NULL, X + 6);         /* bc, then a with bc */
    TINY_EXPECT(t, " abc", NULL, X + 7, X + 5); /* bc, then " a" before "abc" */
    TINY_EXPECT(t, "aab", NULL, X + 1, X + 4);  /* ab before aa, although aa is further left */
    tokenizer_free(t);
}

static void leftmost_of_equals(void **state)
{
    struct tokenizer *t = words_tokenizer(false);
    TINY_EXPECT(t, "aaa", NULL, X + 8, X + 1);
    TINY_EXPECT(t, "aaaaaaa", NULL, X + 9, X + 8, X + 1);
    tokenizer_free(t);
}

static void space_prefix(void **state)
{
    struct tokenizer *t = words_tokenizer(true);
    TINY_EXPECT(t, "a", NULL, X + 7);
    TINY_EXPECT(t, " a", NULL, X, X + 7);
    tiny_expect(t, "", NULL, NULL, 0);
    TINY_EXPECT(t, "<s>a", "###", 1, X + 7); /* again after a special token */
    tokenizer_free(t);
    t = words_tokenizer(false);
    TINY_EXPECT(t, "a<s>a", "#####", X + 1, 1, X + 1);
    tokenizer_free(t);
}

static void no_prefix_in_the_middle(void **state)
{
    struct tokenizer *t = words_tokenizer(true);
    struct text text = {0};
    struct tokens out = {0};
    text_append(&text, "xxa<s>a", 7, true);
    assert_int_equal(tokenizer_encode(t, &text, 2, false, &out), 0);
    assert_int_equal(out.n, 3);
    assert_int_equal(out.ids[0], X + 1);
    assert_int_equal(out.ids[1], 1);
    assert_int_equal(out.ids[2], X + 7);
    assert_int_equal(out.ends[0], 3); /* counted from the start of the text */
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

static void byte_fallback(void **state)
{
    struct tokenizer *t = words_tokenizer(false);
    TINY_EXPECT(t, "aß\n", NULL, X + 1, TINY_SPM_BYTES + 0xc3, TINY_SPM_BYTES + 0x9f, TINY_SPM_BYTES + '\n');
    TINY_EXPECT(t, "é", NULL, X + 11);
    TINY_EXPECT(t, "<0x41>", NULL, TINY_SPM_BYTES + '<', TINY_SPM_BYTES + '0', TINY_SPM_BYTES + 'x',
                TINY_SPM_BYTES + '4', TINY_SPM_BYTES + '1', TINY_SPM_BYTES + '>');
    TINY_EXPECT(t, "\xe2\x96\x81", NULL, X); /* U+2581 in the text is a space, as in llama.cpp */
    tokenizer_free(t);
}

static void ends(void **state)
{
    static const uint32_t want[] = {0, 1, 2, 4, 6, 7, 8};
    struct tokenizer *t = words_tokenizer(true);
    struct text text = {0};
    struct tokens out = {0};
    text_append(&text, "b\nabéß", strlen("b\nabéß"), false);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    assert_int_equal(out.n, 7); /* the prefix, which is not in the text, and b, \n, ab, é, two bytes of ß */
    assert_memory_equal(out.ends, want, sizeof(want));
    text_fini(&text);
    tokens_fini(&out);
    tokenizer_free(t);
}

/* Words are merged one by one only if no token contains a space behind another character. */
static void tokens_over_spaces(void **state)
{
    const struct tiny_token extra[] = {{"_", 1, -1},  {"a", 1, -2},   {"b", 1, -2},
                                       {"a_", 1, -3}, {"a_b", 1, -4}, {"_b", 1, -5}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_spm(&m, extra, 6);
    tiny_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    TINY_EXPECT(t, "a b", NULL, X + 4);
    TINY_EXPECT(t, "b b", NULL, X + 2, X + 5);
    tokenizer_free(t);
}

/* A user's text must not add up to a control token. */
static void control_is_never_merged(void **state)
{
    const struct tiny_token extra[] = {
        {"e", 1, -1}, {"o", 1, -1}, {"t", 1, -1}, {"eo", 1, -2}, {"eot", TINY_CONTROL, -3}, {"eott", 1, -4}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_spm(&m, extra, 6);
    tiny_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    TINY_EXPECT(t, "eot", NULL, X + 3, X + 2);
    TINY_EXPECT(t, "eot", "###", X + 4);
    tokenizer_free(t);
}

struct scored {
    char texts[40][8];
    float scores[40];
    size_t n;
};

static long scored_order(const void *ctx, const char *l, size_t l_len, const char *r, size_t r_len)
{
    const struct scored *v = ctx;
    for (size_t i = 0; i < v->n; i++)
        if (strlen(v->texts[i]) == l_len + r_len && memcmp(v->texts[i], l, l_len + r_len) == 0)
            return (long)-v->scores[i];
    return -1;
}

static void scored_random(uint64_t *seed, struct scored *v)
{
    v->n = 0;
    for (int k = 0; k < 30; k++) {
        char text[8] = "";
        size_t len = 1 + tiny_random(seed) % 5;
        for (size_t i = 0; i < len; i++) text[i] = (char)('a' + tiny_random(seed) % 3);
        bool known = false;
        for (size_t i = 0; i < v->n; i++) known = known || strcmp(v->texts[i], text) == 0;
        if (known) continue;
        memcpy(v->texts[v->n], text, sizeof(text));
        v->scores[v->n++] = -(float)(tiny_random(seed) % 6); /* few values: ties */
    }
}

static void equals_the_definition(void **state)
{
    uint64_t seed = 3;
    for (int round = 0; round < 100; round++) {
        struct scored v;
        struct tiny_token extra[40];
        struct tiny_tokenizer m = {0};
        struct tokenizer *t;
        scored_random(&seed, &v);
        for (size_t i = 0; i < v.n; i++) extra[i] = (struct tiny_token){v.texts[i], TINY_NORMAL, v.scores[i]};
        tiny_spm(&m, extra, v.n);
        tiny_bool(&m, "tokenizer.ggml.add_space_prefix", false);
        assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
        naive_compare(t, &seed, scored_order, &v);
        tokenizer_free(t);
    }
}

static void round_trips(void **state)
{
    struct tokenizer *with = words_tokenizer(true), *without = words_tokenizer(false);
    uint64_t seed = 1;
    for (int k = 0; k < 500; k++) {
        struct buf b = BUF_INIT;
        tiny_random_text(&seed, tiny_random(&seed) % 300, &b);
        tiny_round_trip(with, b.data, b.len);
        tiny_round_trip(without, b.data, b.len);
        buf_fini(&b);
    }
    tokenizer_free(with);
    tokenizer_free(without);
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

/* Quadratic algorithms exceed the time limit of the test. */
static void a_megabyte(void **state)
{
    struct tokenizer *t = words_tokenizer(false);
    assert_int_equal(count(t, "a", 1 << 20), 1 << 18);
    assert_int_equal(count(t, " ", 1 << 20), 1 << 19);
    assert_int_equal(count(t, "🙂", 1 << 20), 1 << 20);
    assert_int_equal(count(t, "abc ", 1 << 20), 1 << 19); /* abc at the beginning, then " a" and bc; a last space */
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_score_first),
        cmocka_unit_test(leftmost_of_equals),
        cmocka_unit_test(space_prefix),
        cmocka_unit_test(no_prefix_in_the_middle),
        cmocka_unit_test(byte_fallback),
        cmocka_unit_test(ends),
        cmocka_unit_test(tokens_over_spaces),
        cmocka_unit_test(control_is_never_merged),
        cmocka_unit_test(equals_the_definition),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(a_megabyte),
    };
    return cmocka_run_group_tests_name("spm", tests, NULL, NULL);
}
