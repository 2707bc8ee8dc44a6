/* SPDX-License-Identifier: MIT */
#include "tests/text/tiny-words.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const tiny_word_kinds[] = {"bert", "t5", "rwkv", "plamo2", NULL};

enum { WORDS_MAX = 512 };

void tiny_words(struct tiny_tokenizer *m, const char *model, const struct tiny_token *tokens, size_t n, bool bytes)
{
    const char *texts[WORDS_MAX];
    char written[WORDS_MAX][64];
    int32_t kinds[WORDS_MAX];
    float scores[WORDS_MAX];
    bool spaced = strcmp(model, "bert") == 0 || strcmp(model, "t5") == 0;
    size_t all = n + (bytes ? 256 : 0);
    assert_true(all <= WORDS_MAX);
    for (size_t i = 0; i < all; i++) {
        size_t k = 0;
        for (const char *s = i < n ? tokens[i].text : ""; *s; s++)
            k += (size_t)snprintf(written[i] + k, 64 - k, *s == '_' && spaced ? "\xe2\x96\x81" : "%c", *s);
        if (i >= n) snprintf(written[i], 64, "<0x%02X>", (unsigned)(i - n));
        if (i < n && !*tokens[i].text) written[i][0] = 0;
        texts[i] = written[i];
        kinds[i] = i < n ? tokens[i].kind : TINY_BYTE;
        scores[i] = i < n ? tokens[i].score : 0;
    }
    tiny_str(m, "tokenizer.ggml.model", model);
    tiny_strs(m, "tokenizer.ggml.tokens", texts, all);
    tiny_i32s(m, "tokenizer.ggml.token_type", kinds, all);
    tiny_f32s(m, "tokenizer.ggml.scores", scores, all);
}

/* Each node of the trie has a block of 256 units of its own, so that none is taken twice. */
struct builder {
    uint32_t units[256 * 64];
    uint32_t blocks;
    struct buf texts;
};

/* Adds one text below the unit 0, byte by byte. */
static void add(struct builder *b, const char *from, const char *to)
{
    uint32_t at = 0, base = 256;
    for (; *from; from++) {
        at = base ^ (unsigned char)*from;
        if (!b->units[at]) {
            assert_true(++b->blocks < 64);
            b->units[at] = (unsigned char)*from | (at ^ b->blocks * 256) << 10;
        }
        base = at ^ b->units[at] >> 10;
    }
    b->units[at] |= 1u << 8;
    b->units[base] = 1u << 31 | (uint32_t)b->texts.len;
    assert_int_equal(buf_append(&b->texts, to, strlen(to) + 1), 0);
}

void tiny_charsmap(struct buf *out, const char *const (*pairs)[2])
{
    struct builder *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->blocks = 1;
    b->units[0] = 256 << 10;
    for (; (*pairs)[0]; pairs++) add(b, (*pairs)[0], (*pairs)[1]);
    uint32_t bytes = 256 * 4 * (b->blocks + 1);
    assert_int_equal(buf_append(out, &bytes, 4), 0);
    assert_int_equal(buf_append(out, b->units, bytes), 0);
    assert_int_equal(buf_append(out, b->texts.data, b->texts.len), 0);
    buf_fini(&b->texts);
    free(b);
}

void tiny_put_charsmap(struct tiny_tokenizer *m, const char *const (*pairs)[2])
{
    struct buf map = BUF_INIT;
    tiny_charsmap(&map, pairs);
    tiny_u8s(m, "tokenizer.ggml.precompiled_charsmap", map.data, map.len);
    buf_fini(&map);
}

static void sample_t5(struct tiny_tokenizer *m)
{
    static const struct tiny_token tokens[] = {
        {"<pad>", TINY_CONTROL, 0}, {"</s>", TINY_CONTROL, 0}, {"<unk>", TINY_UNKNOWN, 0},
        {"_", TINY_NORMAL, -3},     {"a", TINY_NORMAL, -2},    {"b", TINY_NORMAL, -4},
        {"_ab", TINY_NORMAL, -5},   {"uu", TINY_USER, 0},      {"e", TINY_UNUSED, -2.5}};
    static const char *const pairs[][2] = {{"A", "a"}, {"\xc3\xa9", "e"}, {"\n", " "}, {"a\xcc\x81", "a"}, {NULL}};
    tiny_words(m, "t5", tokens, sizeof(tokens) / sizeof(*tokens), false);
    tiny_put_charsmap(m, pairs);
    tiny_bool(m, "tokenizer.ggml.add_space_prefix", true);
    tiny_bool(m, "tokenizer.ggml.remove_extra_whitespaces", true);
    tiny_u32(m, "tokenizer.ggml.unknown_token_id", 2);
}

static void sample_bert(struct tiny_tokenizer *m)
{
    static const struct tiny_token tokens[] = {
        {"[PAD]", TINY_CONTROL, 0}, {"[UNK]", TINY_CONTROL, 0}, {"[CLS]", TINY_CONTROL, 0}, {"[SEP]", TINY_CONTROL, 0},
        {"_a", TINY_NORMAL, 0},     {"b", TINY_NORMAL, 0},      {"_ab", TINY_NORMAL, 0},    {"_1", TINY_NORMAL, 0}};
    tiny_words(m, "bert", tokens, sizeof(tokens) / sizeof(*tokens), false);
    tiny_bool(m, "tokenizer.ggml.normalizer.lowercase", true);
    tiny_bool(m, "tokenizer.ggml.normalizer.strip_accents", true);
    tiny_u32(m, "tokenizer.ggml.unknown_token_id", 1);
    tiny_u32(m, "tokenizer.ggml.bos_token_id", 2);
    tiny_u32(m, "tokenizer.ggml.seperator_token_id", 3);
}

void tiny_sample(struct tiny_tokenizer *m, const char *model)
{
    static const struct tiny_token rwkv[] = {{"<s>", TINY_CONTROL, 0},       {"a", TINY_NORMAL, 0},
                                             {"ab", TINY_NORMAL, 0},         {"\\n", TINY_NORMAL, 0},
                                             {"\\xc3\\xa9", TINY_NORMAL, 0}, {"\\\\ \\'", TINY_NORMAL, 0}};
    static const struct tiny_token plamo2[] = {{"<|plamo:unk|>", TINY_UNKNOWN, 0},
                                               {"a", TINY_NORMAL, -1},
                                               {"ab", TINY_NORMAL, -3},
                                               {"\xc3\xa9", TINY_NORMAL, -2}};
    if (strcmp(model, "t5") == 0)
        sample_t5(m);
    else if (strcmp(model, "bert") == 0)
        sample_bert(m);
    else if (strcmp(model, "rwkv") == 0)
        tiny_words(m, model, rwkv, sizeof(rwkv) / sizeof(*rwkv), false);
    else
        tiny_words(m, model, plamo2, sizeof(plamo2) / sizeof(*plamo2), true);
}
