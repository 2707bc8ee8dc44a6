/* SPDX-License-Identifier: MIT */
/* WordPiece. The ids are those of llama.cpp for the same vocabularies. */
#include "libcommon/error.h"
#include "tests/text/tiny-words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tiny_token words[] = {
    {"[PAD]", TINY_CONTROL, 0}, /* 0 */
    {"[UNK]", TINY_CONTROL, 0}, /* 1 */
    {"[CLS]", TINY_CONTROL, 0}, /* 2 */
    {"[SEP]", TINY_CONTROL, 0}, /* 3 */
    {"_un", TINY_NORMAL, 0},    /* 4 */
    {"aff", TINY_NORMAL, 0},    /* 5 */
    {"able", TINY_NORMAL, 0},   /* 6 */
    {"_", TINY_NORMAL, 0},      /* 7 */
    {"_a", TINY_NORMAL, 0},     /* 8 */
    {"_,", TINY_NORMAL, 0},     /* 9 */
    {"_$", TINY_NORMAL, 0},     /* 10 */
    {"_中", TINY_NORMAL, 0},    /* 11 */
    {"e", TINY_NORMAL, 0},      /* 12 */
    {"é", TINY_NORMAL, 0},      /* 13 */
    {"E", TINY_NORMAL, 0},      /* 14 */
    {"_uu", TINY_USER, 0},      /* 15 */
    {"ᄀ", TINY_NORMAL, 0},     /* 16: U+1100 */
    {"_cls", TINY_NORMAL, 0},   /* 17 */
    {"_[", TINY_NORMAL, 0},     /* 18 */
    {"_]", TINY_NORMAL, 0},     /* 19 */
    {"µ", TINY_NORMAL, 0},      /* 20: U+00B5, a symbol's look but a letter */
    {"a", TINY_NORMAL, 0},      /* 21 */
};

/* @lower, @strip: -1: no such key. */
static struct tokenizer *make(int lower, int strip)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_words(&m, "bert", words, sizeof(words) / sizeof(*words), false);
    tiny_u32(&m, "tokenizer.ggml.unknown_token_id", 1);
    tiny_u32(&m, "tokenizer.ggml.bos_token_id", 2);
    tiny_u32(&m, "tokenizer.ggml.seperator_token_id", 3);
    if (lower >= 0) tiny_bool(&m, "tokenizer.ggml.normalizer.lowercase", lower);
    if (strip >= 0) tiny_bool(&m, "tokenizer.ggml.normalizer.strip_accents", strip);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void longest_first(void **state)
{
    struct tokenizer *t = make(-1, -1);
    TINY_EXPECT(t, "unaffable", NULL, 4, 5, 6);
    TINY_EXPECT(t, "aaffe", NULL, 8, 5, 12);
    TINY_EXPECT(t, "unaffix", NULL, 1); /* the whole word is unknown */
    TINY_EXPECT(t, "un unaffix a", NULL, 4, 1, 8);
    tiny_expect(t, "", NULL, NULL, 0);
    tiny_expect(t, " \n\t\xe3\x80\x80 ", NULL, NULL, 0);
    tokenizer_free(t);
}

static void cuts(void **state)
{
    struct tokenizer *t = make(-1, -1);
    TINY_EXPECT(t, "a,a", NULL, 8, 9, 8);
    TINY_EXPECT(t, "a$,中a", NULL, 8, 10, 9, 11, 8);
    TINY_EXPECT(t,
                "a\xe2\x80\x8b"
                "aff\x01",
                NULL, 8, 5); /* format and control characters vanish */
    TINY_EXPECT(t,
                "a\xc2\xa0"
                "a\xe2\x80\xa8"
                "a",
                NULL, 8, 8, 8);
    TINY_EXPECT(t,
                "a\xef\xbf\xbd"
                "e",
                NULL, 8, 12); /* U+FFFD too */
    TINY_EXPECT(t, "aµ", NULL, 8, 20);
    tokenizer_free(t);
}

static void normalizes(void **state)
{
    struct tokenizer *t = make(-1, -1);
    TINY_EXPECT(t, "AÉ", NULL, 8, 12);
    TINY_EXPECT(t, "ae\xcc\x81\xcc\x81", NULL, 8, 12);
    TINY_EXPECT(t, "a가각", NULL, 8, 16, 16); /* only the first letter of a syllable, as in llama.cpp */
    tokenizer_free(t);
    t = make(0, -1);
    TINY_EXPECT(t, "aE", NULL, 8, 14);
    TINY_EXPECT(t, "aé", NULL, 8, 13);
    TINY_EXPECT(t, "A", NULL, 1);
    tokenizer_free(t);
    t = make(1, 0);
    TINY_EXPECT(t, "AÉ", NULL, 8, 13);
    tokenizer_free(t);
    t = make(0, 1);
    TINY_EXPECT(t, "aé", NULL, 8, 12);
    TINY_EXPECT(t, "aÉ", NULL, 8, 14);
    tokenizer_free(t);
}

static void specials(void **state)
{
    struct tokenizer *t = make(-1, -1);
    TINY_EXPECT(t, "[CLS]a[SEP]", "###########", 2, 8, 3);
    TINY_EXPECT(t, "[CLS]", NULL, 18, 17, 19); /* a user's text is no markup */
    TINY_EXPECT(t, "a▁uua", NULL, 8, 15, 8);   /* user-defined tokens count everywhere, as written */
    assert_true(tokenizer_add_bos(t));
    assert_int_equal(tokenizer_bos(t), 2);
    assert_int_equal(tokenizer_end(t), 3);
    assert_int_equal(tokenizer_eos(t), -1);
    tokenizer_free(t);
}

/* All tokens of a word end with it: a text that continues inside a word is cut anew from the beginning of the word. */
static void ends(void **state)
{
    static const uint32_t want[] = {4, 11, 11, 11, 13, 18, 18, 18};
    struct tokenizer *t = make(-1, -1);
    struct text text = {0};
    struct tokens out = {0};
    assert_int_equal(text_append(&text,
                                 "  un aaffé ,  \xc3\x89"
                                 "a ",
                                 18, false),
                     0);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    assert_int_equal(out.n, 8);
    assert_memory_equal(out.ends, want, sizeof(want));
    tokens_fini(&out);
    text_fini(&text);
    tokenizer_free(t);
}

/* The ids of @s from byte @from on, behind tokens of what is in front. */
static void expect_rest(const struct tokenizer *t, const char *s, size_t from, const int32_t *want, size_t n)
{
    struct text text = {0};
    struct tokens out = {0};
    assert_int_equal(text_append(&text, s, strlen(s), false), 0);
    assert_int_equal(tokenizer_encode(t, &text, from, false, &out), 0);
    assert_int_equal(out.n, n);
    assert_memory_equal(out.ids, want, n * sizeof(*want));
    tokens_fini(&out);
    text_fini(&text);
}

/* A text goes on behind its first tokens: U+2581 is only in front of a word that begins there. */
static void resumes(void **state)
{
    static const int32_t inside[] = {21, 8}, word[] = {8, 8}, mark[] = {9, 8};
    struct tokenizer *t = make(-1, -1);
    expect_rest(t, "una a", 2, inside, 2);
    expect_rest(t,
                "un\x01"
                "a a",
                3, inside, 2);
    expect_rest(t,
                "une\xcc\x81"
                "a a",
                5, inside, 2);
    expect_rest(t, "un a a", 2, word, 2);
    expect_rest(t, "un a a", 3, word, 2);
    expect_rest(t, "un,a a", 3, word, 2);
    expect_rest(t,
                "un \x01"
                "a a",
                4, word, 2);
    expect_rest(t, "un,a", 2, mark, 2);
    tokenizer_free(t);
}

static void back_to_text(void **state)
{
    static const int32_t ids[] = {2, 4, 5, 6, 9, 8, 3};
    struct tokenizer *t = make(-1, -1);
    struct detok d = {.at_start = true};
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) assert_int_equal(detok_push(&d, t, ids[i], &out), 0);
    assert_string_equal(out.data, "unaffable , a");
    buf_fini(&out);
    tokenizer_free(t);
}

static void refuse(struct tiny_tokenizer *m, const char *wanted)
{
    struct tokenizer *t = NULL;
    assert_int_equal(tiny_tokenizer_new(m, &t), -EINVAL);
    if (!strstr(error_text(-EINVAL), wanted)) fail_msg("no \"%s\" in: %s", wanted, error_text(-EINVAL));
}

static void refused(void **state)
{
    char longest[1026];
    const char *texts[] = {"[UNK]", longest};
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    memset(longest, 'a', 1025);
    longest[1025] = 0;
    for (int over = 1; over >= 0; over--) {
        longest[1024 + over] = 0;
        tiny_str(&m, "tokenizer.ggml.model", "bert");
        tiny_strs(&m, "tokenizer.ggml.tokens", texts, 2);
        tiny_u32(&m, "tokenizer.ggml.unknown_token_id", 0);
        if (over)
            refuse(&m, "token 1 has 1025 bytes (at most 1024)");
        else
            assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    }
    assert_int_equal(tokenizer_end(t), -1); /* 102, the default, is not there */
    tokenizer_free(t);
    tiny_words(&m, "bert", words, 4, false);
    tiny_u32(&m, "tokenizer.ggml.seperator_token_id", 4);
    refuse(&m, "tokenizer.ggml.seperator_token_id is 4, but the vocabulary has 4 tokens");
    tiny_words(&m, "bert", words, 4, false);
    tiny_str(&m, "tokenizer.ggml.normalizer.lowercase", "yes");
    refuse(&m, "tokenizer.ggml.normalizer.lowercase");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_first), cmocka_unit_test(cuts),    cmocka_unit_test(normalizes),
        cmocka_unit_test(specials),      cmocka_unit_test(ends),    cmocka_unit_test(back_to_text),
        cmocka_unit_test(refused),       cmocka_unit_test(resumes),
    };
    return cmocka_run_group_tests_name("wpm", tests, NULL, NULL);
}
