/* SPDX-License-Identifier: MIT */
/*
 * PLaMo 2: the cut of the text with the highest sum of scores, in units of 1/10000, searched from the end of the text.
 * A character may also be its bytes, one token each, with a score of -1000 for all. A byte order mark in front of the
 * text is left out.
 */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The best cut of the text behind a byte. */
struct cut {
    double score; /* an integer */
    int32_t id;   /* the first token; -1: bytes */
    uint32_t len; /* its length in bytes */
};

#define SCORE_UNIT    1e4
#define SCORE_UNKNOWN -1e7
#define SCORE_LOWEST  -2e7 /* a token with this score or a lower one is never made */
#define SCORE_HIGHEST 2e9

/* Fills the cuts of s[0 .. len] from the end. Among equal sums the longest first token wins. */
static void search(const struct tokenizer *t, const char *s, size_t len, struct cut *cuts)
{
    const struct trie *trie = &t->words.trie;
    cuts[len] = (struct cut){0};
    for (size_t i = len; i-- > 0;) {
        if (((unsigned char)s[i] & 0xc0) == 0x80) continue; /* inside a character */
        uint32_t c, node = 0, n = (uint32_t)utf8_decode(s + i, len - i, &c);
        struct cut best = {cuts[i + n].score + SCORE_UNKNOWN, -1, n};
        for (size_t k = i; k < len && (node = trie_next(trie, node, s[k])); k++) {
            int32_t id = trie->ids[node];
            if (id < 0) continue;
            double score = cuts[k + 1].score + t->words.scores[id];
            if (score >= best.score) best = (struct cut){score, id, (uint32_t)(k + 1 - i)};
        }
        cuts[i] = best;
    }
}

int plamo2_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first,
                  struct tokens *out)
{
    if (first && end - begin >= 3 && memcmp(s + begin, "\xef\xbb\xbf", 3) == 0) begin += 3;
    _cleanup_(freep) struct cut *cuts = reallocarray(NULL, end - begin + 1, sizeof(*cuts));
    if (!cuts) return error_origin(-ENOMEM);
    search(t, s + begin, end - begin, cuts);
    int r = 0;
    for (uint32_t i = begin; i < end && r == 0;) {
        const struct cut *c = &cuts[i - begin];
        if (c->id >= 0) r = tokens_push(out, c->id, i + c->len);
        for (uint32_t k = 0; c->id < 0 && k < c->len && r == 0; k++)
            r = tokens_push(out, t->bytes[(unsigned char)s[i + k]], i + k + 1);
        i += c->len;
    }
    return r;
}

static bool may_take(const struct tokenizer *t, uint32_t id)
{
    size_t len;
    const char *s = strings_at(&t->keys, id, &len);
    return token_mergeable(t, (int32_t)id) && !isnan(t->words.scores[id]) && utf8_check(s, len) == len;
}

int plamo2_init(struct tokenizer *t, const struct gguf *g)
{
    const struct gguf_kv *kv;
    int r = scores_find(t, g, "plamo2", &kv);
    if (r < 0) return r;
    t->words.scores = reallocarray(NULL, t->n, sizeof(*t->words.scores));
    if (!t->words.scores) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < t->n; i++) {
        double score = round(scores_at(kv, i) * SCORE_UNIT);
        t->words.scores[i] = score > SCORE_LOWEST && score < SCORE_HIGHEST ? score : (double)NAN;
    }
    byte_tokens(t);
    if (t->bytes[0] < 0)
        return error_say(-EINVAL,
                         "tokenizer.ggml.tokens: a \"plamo2\" tokenizer needs the 256 tokens <0x00> to <0xFF>, "
                         "marked as bytes");
    return words_init(t, may_take);
}
