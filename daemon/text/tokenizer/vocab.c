/* SPDX-License-Identifier: MIT */
/* Reads a vocabulary: the kind and the text of each token, and the table from text to token. */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB_MAX       (1u << 24)
#define VOCAB_BYTES_MAX (1u << 30)

static const char tokens_key[] = "tokenizer.ggml.tokens";
static const char types_key[] = "tokenizer.ggml.token_type";

static int strings_init(struct strings *s, size_t n, size_t bytes)
{
    s->off = reallocarray(NULL, n + 1, sizeof(*s->off));
    s->data = malloc(bytes + 1);
    if (!s->off || !s->data) return error_origin(-ENOMEM);
    s->off[0] = 0;
    return 0;
}

static void strings_push(struct strings *s, uint32_t i, const char *p, size_t len)
{
    memcpy(s->data + s->off[i], p, len);
    s->off[i + 1] = s->off[i] + (uint32_t)len;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte of "<0x0A>", or -1. */
static int byte_token(const char *s, size_t len)
{
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || hex(s[3]) < 0 || hex(s[4]) < 0) return -1;
    return hex(s[3]) << 4 | hex(s[4]);
}

/* Replaces U+2581 with a space. */
static size_t unescape(char *out, const char *s, size_t len)
{
    char *o = out;
    for (size_t i = 0; i < len; i++) {
        if (len - i >= 3 && memcmp(s + i, "\xe2\x96\x81", 3) == 0) {
            *o++ = ' ';
            i += 2;
        } else {
            *o++ = s[i];
        }
    }
    return (size_t)(o - out);
}

/* Reads a bytes literal of Python. Returns the length, or -1. */
static ptrdiff_t unescape_bytes(char *out, const char *s, size_t len)
{
    static const char letters[] = "tnr\\'\"", bytes[] = "\t\n\r\\'\"";
    char *o = out;
    for (size_t i = 0; i < len; i++) {
        if (s[i] != '\\') {
            *o++ = s[i];
            continue;
        }
        if (++i == len) return -1;
        const char *letter = memchr(letters, s[i], sizeof(letters) - 1);
        if (letter) {
            *o++ = bytes[letter - letters];
        } else {
            if (s[i] != 'x' || len - i < 3 || hex(s[i + 1]) < 0 || hex(s[i + 2]) < 0) return -1;
            *o++ = (char)(hex(s[i + 1]) << 4 | hex(s[i + 2]));
            i += 2;
        }
    }
    return o - out;
}

/* The text of an ordinary token in another spelling than the file's. Returns its length, or -1 if it is not written as
 * the others are. */
static ptrdiff_t respell(enum spelling from, char *out, const char *s, size_t len)
{
    switch (from) {
    case SPELLING_SPACED:
        return (ptrdiff_t)unescape(out, s, len);
    case SPELLING_ALPHABET:
        return bytes_decode(out, s, len);
    case SPELLING_ESCAPED:
        return unescape_bytes(out, s, len);
    default:
        memcpy(out, s, len);
        return (ptrdiff_t)len;
    }
}

/* True if byte-level BPE and SentencePiece write this kind as plain text. */
static bool plain(uint8_t kind)
{
    return kind == TOKEN_USER || kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
}

static int push_byte(struct tokenizer *t, uint32_t i, const char *s, size_t len)
{
    int byte = byte_token(s, len);
    if (byte < 0)
        return error_say(-EINVAL, "%s: token %u is a byte, but its text \"%.*s\" is not of the form <0x0A>", tokens_key,
                         i, (int)(len < 32 ? len : 32), s);
    strings_push(&t->pieces, i, (const char[]){(char)byte}, 1);
    return 0;
}

/* The text of token @i, which the file writes as @s. */
static int piece_push(struct tokenizer *t, uint32_t i, const char *s, size_t len)
{
    struct strings *p = &t->pieces;
    enum spelling from = t->spelling;
    if (t->kinds[i] == TOKEN_BYTE) return push_byte(t, i, s, len);
    if (from != SPELLING_ESCAPED && plain(t->kinds[i])) from = SPELLING_PLAIN;
    ptrdiff_t n = respell(from, p->data + p->off[i], s, len);
    if (n < 0 && from == SPELLING_ESCAPED)
        return error_say(-EINVAL, "%s: token %u is \"%.*s\", which is not a bytes literal of Python", tokens_key, i,
                         (int)(len < 32 ? len : 32), s);
    if (n < 0) { /* not in the alphabet: shown unchanged, never made from text */
        t->flags[i] |= TOKEN_PLAIN;
        strings_push(p, i, s, len);
        return 0;
    }
    p->off[i + 1] = p->off[i] + (uint32_t)n;
    return 0;
}

static const struct gguf_kv *array(const struct gguf *g, const char *key)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    return kv && kv->type == GGUF_ARRAY ? kv : NULL;
}

static int read_kinds(struct tokenizer *t, const struct gguf *g)
{
    t->kinds = malloc(t->n);
    t->flags = calloc(t->n, 1);
    if (!t->kinds || !t->flags) return error_origin(-ENOMEM);
    memset(t->kinds, TOKEN_NORMAL, t->n);
    if (!gguf_find(g, types_key)) return 0;

    const struct gguf_kv *kv = array(g, types_key);
    if (!kv || (kv->elem != GGUF_I32 && kv->elem != GGUF_U32))
        return error_say(-EINVAL, "%s: not an array of 32-bit integers", types_key);
    if (kv->n != t->n)
        return error_say(-EINVAL, "%s: %llu entries for %u tokens", types_key, (unsigned long long)kv->n, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        int32_t kind = gguf_array_i32(kv, i);
        t->kinds[i] = kind >= 0 && kind < TOKEN_KINDS ? (uint8_t)kind : TOKEN_UNDEFINED;
    }
    return 0;
}

static int duplicate(const struct tokenizer *t, int32_t a, int32_t b)
{
    size_t len;
    const char *s = strings_at(&t->keys, (uint32_t)b, &len);
    return error_say(-EINVAL, "%s: tokens %d and %d have the same text \"%.*s\"", tokens_key, a < b ? a : b,
                     a < b ? b : a, (int)(len < 64 ? len : 64), s);
}

/* True if plain text and the alphabet write the text alike. */
static bool alike(const struct tokenizer *t, int32_t id)
{
    size_t len;
    const char *s = strings_at(&t->keys, (uint32_t)id, &len);
    for (size_t i = 0; i < len; i++)
        if (s[i] <= 0x20 || s[i] >= 0x7f) return false;
    return true;
}

/*
 * The table of texts. In byte-level vocabularies a token in plain text can have the same text as one in the alphabet.
 * The file writes them differently, so this is no error. The former is found before merging, the latter is made by
 * merging.
 */
static int vocab_index(struct tokenizer *t)
{
    int r = text_table_init(&t->table, t->n);
    if (r < 0) return r;

    bool alphabet = t->spelling == SPELLING_ALPHABET;
    for (int second = 0; second <= alphabet; second++) {
        for (int32_t i = 0; i < (int32_t)t->n; i++) {
            size_t len;
            strings_at(&t->keys, (uint32_t)i, &len);
            if (!len || (t->flags[i] & TOKEN_PLAIN) || (alphabet && plain(t->kinds[i]) != second)) continue;
            int32_t other = text_table_add(&t->table, &t->keys, i);
            bool coincide =
                other >= 0 && second && !plain(t->kinds[other]) && (t->kinds[i] == TOKEN_USER || !alike(t, i));
            if (other >= 0 && !coincide) return duplicate(t, other, i);
            if (len > t->key_max) t->key_max = (uint32_t)len;
        }
    }
    return 0;
}

int vocab_read(struct tokenizer *t, const struct gguf *g)
{
    const struct gguf_kv *kv = array(g, tokens_key);
    if (!kv || kv->elem != GGUF_STRING) return error_say(-EINVAL, "%s: not an array of strings", tokens_key);
    if (!kv->n || kv->n > VOCAB_MAX)
        return error_say(-EINVAL, "%s: %llu tokens (must be 1 to %u)", tokens_key, (unsigned long long)kv->n,
                         VOCAB_MAX);
    t->n = (uint32_t)kv->n;
    int r = read_kinds(t, g);
    if (r < 0) return r;

    const void *it = NULL;
    struct gguf_str s;
    uint64_t index, bytes = 0;
    while (gguf_next_str(kv, &it, &s, &index))
        if ((bytes += s.len) > VOCAB_BYTES_MAX) return error_say(-EINVAL, "%s: more than 1 GiB of text", tokens_key);
    r = strings_init(&t->pieces, t->n, bytes);
    if (r < 0) return r;
    bool as_written = t->spelling == SPELLING_SPACED || t->spelling == SPELLING_PLAIN;
    if (as_written) {
        r = strings_init(&t->keys, t->n, bytes);
        if (r < 0) return r;
    } else {
        t->keys = t->pieces;
    }
    for (it = NULL; gguf_next_str(kv, &it, &s, &index);) {
        if (as_written) strings_push(&t->keys, (uint32_t)index, s.data, s.len);
        r = piece_push(t, (uint32_t)index, s.data, s.len);
        if (r < 0) return r;
    }
    if (t->pieces.off[t->n] == 0) return error_say(-EINVAL, "%s: no token has any text", tokens_key);
    return vocab_index(t);
}

int32_t vocab_find(const struct tokenizer *t, const char *s, size_t len)
{
    if (len > t->key_max) return -1;
    int32_t id = text_table_find(&t->table, &t->keys, s, len);
    return id >= 0 && token_mergeable(t, id) ? id : -1;
}

void byte_tokens(struct tokenizer *t)
{
    bool all = true;
    for (unsigned b = 0; b < 256 && all; b++) {
        char name[8];
        snprintf(name, sizeof(name), "<0x%02X>", b);
        t->bytes[b] = text_table_find(&t->table, &t->keys, name, 6);
        all = t->bytes[b] >= 0 && t->kinds[t->bytes[b]] == TOKEN_BYTE;
    }
    for (unsigned b = 0; b < 256 && !all; b++) t->bytes[b] = -1;
}
