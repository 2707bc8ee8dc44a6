/* SPDX-License-Identifier: MIT */
/* SentencePiece's unigram model. The ids are those of llama.cpp for the same vocabularies, except of byte tokens. */
#include "daemon/text/tokenizer/normalized.h"
#include "libcommon/error.h"
#include "tests/text/tiny-words.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tiny_token words[] = {
    {"<pad>", TINY_CONTROL, 0}, /* 0 */
    {"</s>", TINY_CONTROL, 0},  /* 1 */
    {"<unk>", TINY_UNKNOWN, 0}, /* 2 */
    {"_", TINY_NORMAL, -2},     /* 3 */
    {"a", TINY_NORMAL, -2},     /* 4 */
    {"b", TINY_NORMAL, -3},     /* 5 */
    {"ab", TINY_NORMAL, -4.5},  /* 6 */
    {"_a", TINY_NORMAL, -3},    /* 7 */
    {"bab", TINY_NORMAL, -6},   /* 8 */
    {"uu", TINY_USER, -50},     /* 9 */
    {"_x", TINY_UNUSED, -1},    /* 10 */
    {"aa", TINY_NORMAL, -4},    /* 11: as much as twice "a" */
    {"e", TINY_NORMAL, -5},     /* 12 */
};
enum { N_WORDS = sizeof(words) / sizeof(*words) };

static const char *const pairs[][2] = {
    {"A", "a"}, {"\xc3\xa9", "e"}, {"\n", " "}, {"\x01", ""}, {"\xef\xac\x81", "a b"}, {"a\xcc\x81", "b"}, {NULL}};

static struct tokenizer *make(bool prefix, bool merge, bool bytes)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_words(&m, "t5", words, N_WORDS, bytes);
    tiny_put_charsmap(&m, pairs);
    tiny_bool(&m, "tokenizer.ggml.add_space_prefix", prefix);
    tiny_bool(&m, "tokenizer.ggml.remove_extra_whitespaces", merge);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static void best_sum(void **state)
{
    struct tokenizer *t = make(false, false, false);
    TINY_EXPECT(t, "ab", NULL, 6);      /* -4.5, apart -5 */
    TINY_EXPECT(t, "bab", NULL, 8);     /* -6 */
    TINY_EXPECT(t, "aba", NULL, 6, 4);  /* -6.5 */
    TINY_EXPECT(t, "aa", NULL, 11);     /* equal sums: the longer one comes first */
    TINY_EXPECT(t, "aaa", NULL, 4, 11); /* and the last token is the longer one */
    TINY_EXPECT(t, " a", NULL, 7);
    tiny_expect(t, "", NULL, NULL, 0);
    tiny_expect(t, "\x01", NULL, NULL, 0);
    tokenizer_free(t);
}

static void unknown(void **state)
{
    struct tokenizer *t = make(false, false, false);
    TINY_EXPECT(t, "z", NULL, 2);
    TINY_EXPECT(t, "azüzb", NULL, 4, 2, 5); /* neighbours are one */
    TINY_EXPECT(t, " x", NULL, 10);         /* unused tokens are made */
    TINY_EXPECT(t, "x", NULL, 2);           /* a part of a token is no token */
    tokenizer_free(t);
    t = make(false, false, true);
    TINY_EXPECT(t, "azüb", NULL, 4, N_WORDS + 'z', N_WORDS + 0xc3, N_WORDS + 0xbc, 5);
    tokenizer_free(t);
}

static void spaces(void **state)
{
    struct tokenizer *t = make(true, false, false);
    TINY_EXPECT(t, "a", NULL, 7);
    TINY_EXPECT(t, "  a ", NULL, 3, 3, 7, 3); /* the prefix is in front of the first word */
    TINY_EXPECT(t, "\n", NULL, 3);
    tokenizer_free(t);
    t = make(true, true, false);
    TINY_EXPECT(t, "  a \n b  ", NULL, 7, 3, 5);
    tiny_expect(t, "  ", NULL, NULL, 0);
    tokenizer_free(t);
    t = make(false, true, false);
    TINY_EXPECT(t, "a  b", NULL, 7, 3, 5); /* merged spaces come with one in front, as in llama.cpp */
    tokenizer_free(t);
    t = make(false, false, false);
    TINY_EXPECT(t, "a  b", NULL, 4, 3, 3, 5);
    TINY_EXPECT(t, "\xe2\x96\x81", NULL, 3);
    tokenizer_free(t);
}

static void replaces(void **state)
{
    struct tokenizer *t = make(true, true, false);
    TINY_EXPECT(t, "A\xc3\xa9", NULL, 7, 12);
    TINY_EXPECT(t, "\xef\xac\x81", NULL, 7, 3, 5); /* "a b" */
    TINY_EXPECT(t, "a\xcc\x81", NULL, 3, 5);       /* the longest text is replaced */
    TINY_EXPECT(t,
                "a\x01\x01"
                "b",
                NULL, 7, 5);
    tokenizer_free(t);
}

static void specials(void **state)
{
    struct tokenizer *t = make(true, true, false);
    TINY_EXPECT(t, "auua", NULL, 7, 9, 7);
    TINY_EXPECT(t, "a</s>b", "######", 7, 1, 3, 5);
    TINY_EXPECT(t, "</s>", NULL, 3, 2);
    assert_false(tokenizer_add_bos(t));
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), 1);
    assert_int_equal(tokenizer_end(t), 1);
    assert_true(tokenizer_is_eog(t, 1));
    assert_true(tokenizer_was_special(t, 1, "</s>", 4));
    assert_true(tokenizer_was_special(t, 2, "<unk>", 5));
    assert_false(tokenizer_was_special(t, 2, "zz", 2)); /* unknown characters */
    assert_true(tokenizer_was_special(t, 9, "uu", 2));
    assert_false(tokenizer_was_special(t, 4, "a", 1));
    assert_false(tokenizer_was_special(t, -1, "a", 1));
    tokenizer_free(t);
}

static void ends(void **state)
{
    static const uint32_t want[] = {4, 7, 7,
                                    12}; /* the space in front of a word comes with it, one behind the last too */
    static const int32_t ids[] = {7, 3, 12, 2};
    struct tokenizer *t = make(true, true, false);
    struct text text = {0};
    struct tokens out = {0};
    assert_int_equal(text_append(&text,
                                 "  \x01"
                                 "A \xc3\xa9\x01zz  ",
                                 12, false),
                     0);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    assert_int_equal(out.n, 4);
    assert_memory_equal(out.ids, ids, sizeof(ids));
    assert_memory_equal(out.ends, want, sizeof(want));
    out.n = 0;
    assert_int_equal(tokenizer_encode(t, &text, 5, false, &out), 0); /* a space is in front */
    assert_int_equal(out.n, 3);
    assert_memory_equal(out.ids, ids + 1, sizeof(ids) - sizeof(*ids));
    out.n = 0;
    assert_int_equal(tokenizer_encode(t, &text, 8, false, &out), 0); /* a continued word has no space in front */
    assert_int_equal(out.n, 1);
    assert_int_equal(out.ids[0], 2);
    assert_int_equal(out.ends[0], 12);
    tokens_fini(&out);
    text_fini(&text);
    tokenizer_free(t);
}

/* The normalized text of the tokens [@from, @to). */
static void append_pieces(const struct tokenizer *t, const struct tokens *ids, size_t from, size_t to, struct buf *out)
{
    for (size_t i = from; i < to; i++) {
        size_t len;
        const char *s = tokenizer_piece(t, ids->ids[i], &len);
        assert_int_equal(buf_append(out, s, len), 0);
    }
}

/* Every prefix of the tokens of @s[0 .. old) is kept where they end, and @next put behind: nothing of the text is lost,
 * and no space is added. */
static void resume(const struct tokenizer *t, const char *s, size_t len, const char *next)
{
    struct text old = {0};
    struct tokens kept = {0};
    assert_int_equal(text_append(&old, s, len, false), 0);
    assert_int_equal(tokenizer_encode(t, &old, 0, true, &kept), 0);
    for (size_t n = 1; n <= kept.n; n++) {
        struct text new = {0};
        struct tokens cold = {0}, rest = {0};
        struct buf want = BUF_INIT, got = BUF_INIT;
        if (n < kept.n && kept.ends[n] == kept.ends[n - 1]) continue;
        assert_int_equal(text_append(&new, s, kept.ends[n - 1], false), 0);
        assert_int_equal(text_append(&new, next, strlen(next), false), 0);
        assert_int_equal(tokenizer_encode(t, &new, 0, true, &cold), 0);
        assert_int_equal(tokenizer_encode(t, &new, kept.ends[n - 1], false, &rest), 0);
        append_pieces(t, &cold, 0, cold.n, &want);
        append_pieces(t, &kept, 0, n, &got);
        append_pieces(t, &rest, 0, rest.n, &got);
        if (want.len != got.len || memcmp(want.data, got.data, got.len) != 0)
            fail_msg("\"%s\", %u bytes kept, then \"%s\": \"%s\" instead of \"%s\"", s, kept.ends[n - 1], next,
                     got.data, want.data);
        buf_fini(&want);
        buf_fini(&got);
        tokens_fini(&cold);
        tokens_fini(&rest);
        text_fini(&new);
    }
    tokens_fini(&kept);
    text_fini(&old);
}

static void resumes(void **state)
{
    static const char *const parts[] = {"a", "b", "e", "A", " ", "\n", "\x01", "\xc3\xa9", "\xef\xac\x81"};
    uint64_t seed = 5;
    for (int merge = 0; merge < 2; merge++) {
        struct tokenizer *t = make(merge, merge, false);
        resume(t, "b aa", 4, "e");          /* [_][aa]: the space is not kept alone */
        resume(t, "a\xef\xac\x81", 4, "e"); /* nor a part of a character */
        resume(t, "b  ", 3, "A");
        for (int round = 0; round < 2000; round++) {
            char s[64] = "", next[64] = "";
            for (uint32_t i = tiny_random(&seed) % 8; i; i--) strcat(s, parts[tiny_random(&seed) % 9]);
            for (uint32_t i = tiny_random(&seed) % 4; i; i--) strcat(next, parts[tiny_random(&seed) % 9]);
            resume(t, s, strlen(s), next);
        }
        tokenizer_free(t);
    }
}

static double score(int32_t id)
{
    if (id == 2) return -16; /* 10 below the lowest of normal tokens */
    return words[id].kind == TINY_USER ? 0 : words[id].score;
}

/* The best sum of all cuts of s[0 .. n) into tokens and unknown characters, by trying all. */
static double best(const char *s, size_t n)
{
    double most = n ? -INFINITY : 0;
    bool known = false;
    for (int32_t i = 3; i < N_WORDS && n; i++) {
        size_t len = strlen(words[i].text);
        if (words[i].text[0] == '_' || len > n || memcmp(words[i].text, s, len) != 0) continue;
        known |= len == 1;
        most = fmax(most, score(i) + best(s + len, n - len));
    }
    return n && !known ? fmax(most, score(2) + best(s + 1, n - 1)) : most;
}

static void against_all_cuts(void **state)
{
    struct tokenizer *t = make(false, false, false);
    uint64_t seed = 2;
    for (int round = 0; round < 3000; round++) {
        char s[12];
        size_t len = tiny_random(&seed) % sizeof(s), n;
        for (size_t i = 0; i < len; i++) s[i] = "abeu"[tiny_random(&seed) % 4];
        s[len < sizeof(s) ? len : sizeof(s) - 1] = 0;
        while (strstr(s, "uu")) *strstr(s, "uu") = 'a'; /* found before, wherever it is */
        int32_t *ids = tiny_encode(t, s, NULL, &n);
        double sum = 0;
        size_t at = 0;
        for (size_t i = 0; i < n; i++) {
            size_t one = ids[i] == 2 ? strspn(s + at, "u") : strlen(words[ids[i]].text);
            sum += ids[i] == 2 ? score(2) * (double)one : score(ids[i]);
            at += one;
        }
        assert_int_equal(at, strlen(s));
        assert_true(sum == best(s, strlen(s)));
        free(ids);
    }
    tokenizer_free(t);
}

static void back_to_text(void **state)
{
    struct tokenizer *t = make(true, true, false);
    struct detok d = {.at_start = true};
    struct buf out = BUF_INIT;
    static const int32_t ids[] = {7, 6, 3, 5, 1};
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) assert_int_equal(detok_push(&d, t, ids[i], &out), 0);
    assert_string_equal(out.data, "aab b");
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
    static const char *const abc[] = {"a", "b", "c"};
    static const float bad[] = {0, -INFINITY, 0};
    struct tiny_tokenizer m = {0};
    for (int with = 0; with < 2; with++) {
        tiny_str(&m, "tokenizer.ggml.model", "t5");
        tiny_strs(&m, "tokenizer.ggml.tokens", abc, 3);
        if (with) tiny_f32s(&m, "tokenizer.ggml.scores", bad, 3);
        refuse(&m, with ? "the score of token 1 is not a finite number"
                        : "tokenizer.ggml.scores: no such key; a \"t5\" tokenizer needs this key");
    }
    tiny_words(&m, "t5", words, 5, false);
    tiny_u8s(&m, "tokenizer.ggml.precompiled_charsmap", "abc", 3);
    refuse(&m, "tokenizer.ggml.precompiled_charsmap: cut off after 3 bytes");
    static const struct tiny_token twice[] = {{"a", TINY_NORMAL, 0}, {"b", TINY_NORMAL, 0}, {"a", TINY_NORMAL, -1}};
    tiny_words(&m, "t5", twice, 3, false);
    refuse(&m, "tokens 0 and 2 have the same text \"a\"");
}

static void too_long(void **state)
{
    struct normalized n = {0};
    assert_int_equal(normalized_push(&n, "abc", 3, 1), 0);
    assert_int_equal(normalized_push(&n, "d", (64u << 20) - 2, 2), -E2BIG);
    assert_string_equal(error_text(-E2BIG), "the text is longer than 64 MiB when its characters are normalized");
    assert_int_equal(n.text.len, 3);
    normalized_fini(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_sum), cmocka_unit_test(unknown),          cmocka_unit_test(spaces),
        cmocka_unit_test(replaces), cmocka_unit_test(specials),         cmocka_unit_test(ends),
        cmocka_unit_test(refused),  cmocka_unit_test(against_all_cuts), cmocka_unit_test(back_to_text),
        cmocka_unit_test(resumes),  cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests_name("ugm", tests, NULL, NULL);
}
