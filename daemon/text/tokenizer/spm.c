/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece. A space is written as U+2581. Characters are merged in the order of the vocabulary's scores. A
 * character without a token becomes one token for each byte.
 */
#include "daemon/text/tokenizer/merge.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char space[] = "\xe2\x96\x81";

static size_t char_len(char c)
{
    unsigned char u = (unsigned char)c;
    return u < 0x80 ? 1 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;
}

static bool pair(const struct tokenizer *t, const char *text, const struct symbol *l, const struct symbol *r,
                 uint32_t *order, int32_t *id)
{
    if (l->len + r->len > t->key_max) return false;
    *id = text_table_find(&t->table, &t->keys, text + l->off, l->len + r->len);
    if (*id < 0) return false;
    *order = t->order[*id];
    return *order != UINT32_MAX;
}

/* A character without a token. Its bytes are at @s; in the text it is the last @src bytes before @end. */
static int push_bytes(const struct tokenizer *t, const char *s, uint32_t len, uint32_t src, uint32_t end,
                      struct tokens *out)
{
    for (uint32_t i = 0; i < len; i++) {
        int32_t id = t->bytes[(unsigned char)s[i]];
        /* Vocabularies of this kind have no token for unknown bytes. */
        if (id < 0 && t->model == TOKENIZER_BPE) continue;
        if (id < 0) return t->unk < 0 ? 0 : tokens_push(out, t->unk, end);
        int r = tokens_push(out, id, i < src ? end - src + i + 1 : end);
        if (r < 0) return r;
    }
    return 0;
}

/* The source length of the normalized text [s, s + len), which begins at @src in the source. */
static uint32_t source_len(const char *s, uint32_t len, const char *src)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < len;) {
        uint32_t n = (uint32_t)char_len(s[i]);
        /* U+2581 was a space in the source. All other characters are unchanged. */
        at += n == 3 && src[at] == ' ' ? 1 : n;
        i += n;
    }
    return at;
}

/* Appends the merged symbols of m->norm as tokens. The text begins at source s[*at]. @prefix: it begins with a prefix
 * that is not in the source. */
static int segment(const struct tokenizer *t, struct merger *m, const char *s, uint32_t *at, bool prefix,
                   struct tokens *out)
{
    const char *norm = m->norm.data;
    merger_reset(m);
    for (uint32_t i = 0; i < m->norm.len;) {
        uint32_t n = (uint32_t)char_len(norm[i]);
        int r = merger_add(m, i, n, vocab_find(t, norm + i, n));
        if (r < 0) return r;
        i += n;
    }
    int r = merger_run(m, t, norm, t->model == TOKENIZER_SPM ? pair : bpe_pair);
    if (r < 0) return r;
    for (uint32_t i = 0; i != SYMBOL_NONE; i = m->symbols[i].next) {
        const struct symbol *sym = &m->symbols[i];
        uint32_t skip = i == 0 && prefix ? 3 : 0;
        uint32_t src = source_len(norm + sym->off + skip, sym->len - skip, s + *at);
        *at += src;
        r = sym->id < 0 ? push_bytes(t, norm + sym->off, sym->len, src, *at, out) : tokens_push(out, sym->id, *at);
        if (r < 0) return r;
    }
    return 0;
}

int spm_encode(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end, bool prefix,
               struct tokens *out)
{
    uint32_t at = begin; /* start of the segment in m->norm */
    bool added = prefix, after_space = prefix;
    buf_clear(&m->norm);
    if (prefix) {
        int r = buf_append(&m->norm, space, 3);
        if (r < 0) return r;
    }
    for (uint32_t i = begin; i < end;) {
        uint32_t n = (uint32_t)char_len(s[i]);
        bool is_space = s[i] == ' ' || (n == 3 && memcmp(s + i, space, 3) == 0);
        if (is_space && !after_space && t->cut_at_space && m->norm.len) {
            int r = segment(t, m, s, &at, added, out);
            if (r < 0) return r;
            buf_clear(&m->norm);
            added = false;
        }
        int r = is_space ? buf_append(&m->norm, space, 3) : buf_append(&m->norm, s + i, n);
        if (r < 0) return r;
        after_space = is_space;
        i += n;
    }
    return m->norm.len ? segment(t, m, s, &at, added, out) : 0;
}

int spm_piece(const struct tokenizer *t, struct merger *m, const char *s, uint32_t begin, uint32_t end,
              struct tokens *out)
{
    int32_t lines = s[begin] == '\n' ? vocab_find(t, s + begin, end - begin) : -1;
    if (lines >= 0) return tokens_push(out, lines, end);
    buf_clear(&m->norm);
    for (uint32_t i = begin; i < end; i++) {
        int r = s[i] == ' ' ? buf_append(&m->norm, space, 3) : buf_append(&m->norm, s + i, 1);
        if (r < 0) return r;
    }
    return segment(t, m, s, &begin, false, out);
}

/* Floats as integers in reverse order: the best score is the lowest integer. Equal scores stay equal, and so do -0 and
 * 0. */
static uint32_t order_of(float score)
{
    score += 0.0f;
    uint32_t bits;
    memcpy(&bits, &score, sizeof(bits));
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static int read_scores(struct tokenizer *t, const struct gguf *g)
{
    const struct gguf_kv *kv;
    int r = scores_find(t, g, "llama", &kv);
    if (r < 0) return r;
    t->order = reallocarray(NULL, t->n, sizeof(*t->order));
    if (!t->order) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < t->n; i++) {
        float score = scores_at(kv, i);
        if (isnan(score)) return error_say(-EINVAL, "tokenizer.ggml.scores: the score of token %u is not a number", i);
        t->order[i] = token_mergeable(t, (int32_t)i) ? order_of(score) : UINT32_MAX;
    }
    return 0;
}

/* True if merging can make a token that has a space behind another character. */
static bool has_inner_space(const struct tokenizer *t, uint32_t i)
{
    size_t len;
    const char *s = strings_at(&t->keys, i, &len);
    const char *p = s;
    if (!token_mergeable(t, (int32_t)i)) return false;
    while ((p = memmem(p, len - (size_t)(p - s), space, 3))) {
        if (p > s && (p - s < 3 || memcmp(p - 3, space, 3) != 0)) return true;
        p += 3;
    }
    return false;
}

void spm_bytes(struct tokenizer *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char name[8], byte = (char)b;
        snprintf(name, sizeof(name), "<0x%02X>", b);
        t->bytes[b] = text_table_find(&t->table, &t->keys, name, 6);
        if (t->bytes[b] < 0) t->bytes[b] = vocab_find(t, &byte, 1);
    }
}

int spm_init(struct tokenizer *t, const struct gguf *g)
{
    int r = read_scores(t, g);
    if (r < 0) return r;

    t->cut_at_space = true;
    for (uint32_t i = 0; i < t->n && t->cut_at_space; i++) t->cut_at_space = !has_inner_space(t, i);
    spm_bytes(t);
    t->space_prefix = true;
    r = gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &t->space_prefix);
    return r < 0 ? r : 0;
}
