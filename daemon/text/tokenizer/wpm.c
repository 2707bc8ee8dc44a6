/* SPDX-License-Identifier: MIT */
/*
 * WordPiece, as BERT has it. The text is cut at white space; a punctuation mark, an ASCII symbol and a Chinese
 * character is a word of its own. Each word, with U+2581 in front, is cut into the longest tokens from left to right. A
 * word in which one place has no token becomes the unknown token. Rules and Unicode properties are those of llama.cpp:
 * of the canonical decomposition of a character only the first one counts, which for Hangul is the first letter of a
 * syllable.
 */
#include "daemon/text/tokenizer/characters.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"

struct wpm {
    const struct tokenizer *t;
    struct buf word; /* normalized, with the U+2581; empty: no word has begun */
    bool continues;  /* the next word is the rest of one: no U+2581 */
    struct tokens *out;
};

/* Ends the word, which ends at source byte @end. All its tokens end there: with another end, it is cut otherwise. */
static int finish(struct wpm *w, uint32_t end)
{
    size_t n = w->out->n;
    int r = 0;
    for (size_t i = 0; i < w->word.len && r == 0;) {
        int32_t id;
        size_t len = trie_longest(&w->t->words.trie, w->word.data + i, w->word.len - i, &id);
        if (len) {
            r = tokens_push(w->out, id, end);
            i += len;
        } else {
            w->out->n = n;
            if (w->t->unk >= 0) r = tokens_push(w->out, w->t->unk, end);
            break;
        }
    }
    buf_clear(&w->word);
    w->continues = false;
    return r;
}

static int put(struct wpm *w, uint32_t c)
{
    char bytes[4];
    int r = w->word.len || w->continues ? 0 : buf_append(&w->word, "\xe2\x96\x81", 3);
    return r < 0 ? r : buf_append(&w->word, bytes, utf8_encode(bytes, c));
}

static bool is_word(uint32_t c)
{
    bool symbol = c == '$' || c == '+' || (c >= '<' && c <= '>') || c == '^' || c == '`' || c == '|' || c == '~';
    return symbol || character_is_punctuation(c) || character_is_ideograph(c);
}

/* What the tokenizer makes of a character. */
enum part { PART_NOTHING, PART_SPACE, PART_LETTER, PART_WORD };

static enum part part_of(const struct normalization *how, uint32_t c)
{
    if (character_is_space(c)) return PART_SPACE;
    if (c == 0 || c == 0xfffd || character_is_control(c)) return PART_NOTHING;
    if (how->strip_accents && character_is_mark(c)) return PART_NOTHING;
    return is_word(c) ? PART_WORD : PART_LETTER;
}

/* Does s[0 .. at) end inside a word? With nothing there too: what the text continues is not known. */
static bool ends_in_word(const struct normalization *how, const char *s, uint32_t at)
{
    enum part part = at ? PART_NOTHING : PART_LETTER;
    while (at && part == PART_NOTHING) {
        uint32_t c = 0, end = at--;
        while (at && ((unsigned char)s[at] & 0xc0) == 0x80) at--;
        utf8_decode(s + at, end - at, &c);
        part = part_of(how, how->strip_accents ? character_base(c) : c);
    }
    return part == PART_LETTER;
}

/* The character at source bytes [@begin, @end). */
static int take(struct wpm *w, uint32_t c, uint32_t begin, uint32_t end)
{
    const struct normalization *how = &w->t->normalization;
    if (how->strip_accents) c = character_base(c);
    enum part part = part_of(how, c);
    if (part == PART_SPACE) return finish(w, begin);
    if (part == PART_NOTHING) return 0;
    uint32_t lower = how->lowercase ? character_lower(c) : c;
    if (part == PART_LETTER) return put(w, lower);
    int r = finish(w, begin);
    if (r == 0) r = put(w, lower);
    return r < 0 ? r : finish(w, end);
}

int wpm_encode(const struct tokenizer *t, const char *s, uint32_t begin, uint32_t end, bool first, struct tokens *out)
{
    struct wpm w = {.t = t, .continues = !first && ends_in_word(&t->normalization, s, begin), .out = out};
    int r = 0;
    for (uint32_t i = begin; i < end && r == 0;) {
        uint32_t c = 0, n = (uint32_t)utf8_decode(s + i, end - i, &c);
        r = take(&w, c, i, i + n);
        i += n;
    }
    if (r == 0) r = finish(&w, end);
    buf_fini(&w.word);
    return r;
}

static bool may_take(const struct tokenizer *t, uint32_t id)
{
    return token_mergeable(t, (int32_t)id);
}

int wpm_init(struct tokenizer *t, const struct gguf *g)
{
    struct normalization *how = &t->normalization;
    how->lowercase = true;
    int r = gguf_get_bool(g, "tokenizer.ggml.normalizer.lowercase", &how->lowercase);
    if (r < 0) return r;
    how->strip_accents = how->lowercase;
    r = gguf_get_bool(g, "tokenizer.ggml.normalizer.strip_accents", &how->strip_accents);
    return r < 0 ? r : words_init(t, may_take);
}
