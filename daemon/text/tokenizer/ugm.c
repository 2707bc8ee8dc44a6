/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece's unigram model (Kudo 2018, "Subword Regularization"): of all ways to cut the normalized text into
 * tokens, the one with the highest sum of scores. A character without a token of its own may be unknown, with a score
 * 10 below the lowest. Neighbours that are unknown become one unknown token, or one token for each byte if the
 * vocabulary has all byte tokens, as SentencePiece does (llama.cpp does not).
 *
 * No file says whether spaces are written as U+2581 and in front of a word; they are.
 */
#include "daemon/text/tokenizer/normalized.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char space[] = "\xe2\x96\x81";

/* The best cut of the text before a byte: its score, and its last token with the place where that begins. */
struct cut {
    double score;
    uint32_t from;
    int32_t id; /* -1: unknown */
};

struct spaces {
    bool prefix;  /* a space is still missing in front of the text */
    bool in_word; /* the last byte was no space */
};

/* Replacements may be anything: a byte that begins no character is one. */
static uint32_t char_len(char c)
{
    unsigned char u = (unsigned char)c;
    return u < 0xc0 ? 1 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;
}

/* Appends the replacement @s of the source up to byte @end. */
static int push(const struct tokenizer *t, struct normalized *n, struct spaces *sp, const char *s, size_t len,
                uint32_t end)
{
    int r = 0;
    for (size_t i = 0, run; i < len && r == 0; i += run) {
        bool merge = t->normalization.merge_spaces;
        run = 1;
        if (s[i] == ' ') {
            sp->in_word = false;
            if (!merge) r = normalized_push(n, space, 3, end);
            continue;
        }
        while (i + run < len && s[i + run] != ' ') run++;
        if (!sp->in_word && (sp->prefix || merge)) {
            r = normalized_push(n, space, 3, end);
            sp->prefix = false;
        }
        sp->in_word = true;
        if (r == 0) r = normalized_push(n, s + i, run, end);
    }
    return r;
}

/* Does s[0 .. at) end inside a word? With nothing there too: what the text continues is not known. Each character is
 * looked at alone: one that is replaced only together with others counts as it is. */
static bool ends_in_word(const struct tokenizer *t, const char *s, uint32_t at)
{
    while (at) {
        uint32_t end = at--;
        while (at && ((unsigned char)s[at] & 0xc0) == 0x80) at--;
        const char *to = s + at;
        size_t from_len = charsmap_match(&t->normalization.map, to, end - at, &to);
        size_t to_len = from_len == end - at ? strlen(to) : end - at;
        if (from_len != end - at) to = s + at;
        if (to_len) return to[to_len - 1] != ' ';
    }
    return true;
}

/* @first: nothing is in front of the text. Else it continues s[0 .. begin), which may have ended inside a word. */
static int normalize(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first,
                     struct normalized *n)
{
    struct spaces sp = {.prefix = first && t->space_prefix, .in_word = !first && ends_in_word(t, s, begin)};
    int r = 0;
    for (uint32_t i = begin; i < end && r == 0;) {
        const char *to = s + i;
        size_t from_len = charsmap_match(&t->normalization.map, s + i, end - i, &to);
        size_t to_len = from_len ? strlen(to) : char_len(s[i]);
        if (!from_len) from_len = to_len;
        r = push(t, n, &sp, to, to_len, i + (uint32_t)from_len);
        i += (uint32_t)from_len;
    }
    return r;
}

static void offer(struct cut *c, double score, uint32_t from, int32_t id)
{
    if (score > c->score) *c = (struct cut){score, from, id};
}

/* Fills cuts[0 .. text->len]. Among equal sums the one found first stays: the longer last token. */
static void search(const struct tokenizer *t, const struct buf *text, struct cut *cuts)
{
    const struct trie *trie = &t->words.trie;
    uint32_t len = (uint32_t)text->len, n;
    for (uint32_t i = 0; i <= len; i++) cuts[i] = (struct cut){-DBL_MAX, 0, -1};
    cuts[0].score = 0;
    for (uint32_t i = 0; i < len; i += n) {
        uint32_t node = 0;
        bool known = false;
        n = char_len(text->data[i]);
        if (n > len - i) n = len - i;
        for (uint32_t k = i; k < len && (node = trie_next(trie, node, text->data[k])); k++) {
            int32_t id = trie->ids[node];
            if (id < 0) continue;
            if (k + 1 - i == n) known = true;
            offer(&cuts[k + 1], cuts[i].score + t->words.scores[id], i, id);
        }
        if (!known) offer(&cuts[i + n], cuts[i].score + t->words.unknown, i, -1);
    }
}

/* An unknown character in reverse: one token for each byte, or one for it and its unknown neighbours. */
static int push_unknown(const struct tokenizer *t, const struct normalized *n, const struct cut *c, uint32_t end,
                        uint32_t source, bool again, struct tokens *out)
{
    int r = 0;
    if (t->bytes[0] < 0) return again || t->unk < 0 ? 0 : tokens_push(out, t->unk, source);
    for (uint32_t i = end; i > c->from && r == 0; i--)
        r = tokens_push(out, t->bytes[(unsigned char)n->text.data[i - 1]], source);
    return r;
}

/* Where the token before byte @end ends in the source. If it ends inside of what one character became, or is the space
 * in front of a word, that is the end of the token behind it (the last one from @begin on): neither is kept alone. */
static uint32_t source_end(const struct normalized *n, uint32_t end, size_t begin, const struct tokens *out)
{
    uint32_t source = n->ends[end - 1];
    bool inside = end < n->text.len && n->ends[end] == source;
    return inside && out->n > begin ? out->ends[out->n - 1] : source;
}

static int collect(const struct tokenizer *t, const struct normalized *n, const struct cut *cuts, struct tokens *out)
{
    size_t begin = out->n;
    bool again = false;
    for (uint32_t end = (uint32_t)n->text.len; end;) {
        const struct cut *c = &cuts[end];
        uint32_t source = source_end(n, end, begin, out);
        int r = c->id >= 0 ? tokens_push(out, c->id, source) : push_unknown(t, n, c, end, source, again, out);
        if (r < 0) return r;
        again = c->id < 0;
        end = c->from;
    }
    tokens_reverse(out, begin);
    return 0;
}

int ugm_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first, struct tokens *out)
{
    _cleanup_(normalized_fini) struct normalized n = {0};
    int r = normalize(t, s, begin, end, first, &n);
    if (r < 0 || !n.text.len) return r;
    _cleanup_(freep) struct cut *cuts = reallocarray(NULL, n.text.len + 1, sizeof(*cuts));
    if (!cuts) return error_origin(-ENOMEM);
    search(t, &n.text, cuts);
    return collect(t, &n, cuts, out);
}

static int read_scores(struct tokenizer *t, const struct gguf *g)
{
    const struct gguf_kv *kv;
    int r = scores_find(t, g, "t5", &kv);
    if (r < 0) return r;
    t->words.scores = reallocarray(NULL, t->n, sizeof(*t->words.scores));
    if (!t->words.scores) return error_origin(-ENOMEM);
    float lowest = FLT_MAX;
    for (uint32_t i = 0; i < t->n; i++) {
        float score = scores_at(kv, i);
        if (!isfinite(score))
            return error_say(-EINVAL, "tokenizer.ggml.scores: the score of token %u is not a finite number", i);
        t->words.scores[i] = t->kinds[i] == TOKEN_USER ? 0 : score;
        if (t->kinds[i] == TOKEN_NORMAL && score < lowest) lowest = score;
    }
    t->words.unknown = lowest - 10.0f;
    return 0;
}

static bool may_take(const struct tokenizer *t, uint32_t id)
{
    return t->kinds[id] == TOKEN_NORMAL || t->kinds[id] == TOKEN_USER || t->kinds[id] == TOKEN_UNUSED;
}

int ugm_init(struct tokenizer *t, const struct gguf *g)
{
    int r = read_scores(t, g);
    if (r == 0) r = charsmap_init(&t->normalization.map, g);
    if (r < 0) return r;
    byte_tokens(t);
    r = gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &t->space_prefix);
    if (r >= 0) r = gguf_get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &t->normalization.merge_spaces);
    return r < 0 ? r : words_init(t, may_take);
}
