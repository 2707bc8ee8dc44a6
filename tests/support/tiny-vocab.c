/* SPDX-License-Identifier: MIT */
#include "tests/support/tiny-vocab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Merges in order of rank; _ stands for the space (U+0120 in GPT-2's alphabet, U+2581 in SentencePiece's). */
static const char *const pairs[] = {
    "_ t",  "h e",  "i n", "r e",    "_ a",      "o n", "_t he", "e r",   "_ s",  "a t",        "_ w",  "o u",
    "_ o",  "i s",  "n d", "_ b",    "e n",      "o r", "_a nd", "e s",   "l l",  "in g",       "_o f", "_ h",
    "_t o", "i t",  "e d", "_ f",    "_ c",      "_ m", "_w a",  "l e",   "_i n", "a r",        "_ y",  "_y ou",
    "_ l",  "_l i", "t t", "_li tt", "_litt le", "_ I", "_s he", "_wa s", "_h e", "_ \303\251", "1 2",  "_ i",
};
#define N_PAIRS (sizeof(pairs) / sizeof(*pairs))

static struct vocab_token *token(struct vocab *v, uint32_t kind)
{
    struct vocab_token *t = &v->tokens[v->n++];
    t->kind = kind;
    return t;
}

static void control(struct vocab *v, const char *text)
{
    snprintf(token(v, TOKEN_CONTROL)->text, sizeof(v->tokens->text), "%s", text);
}

static size_t put_char(char *out, unsigned c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    out[0] = (char)(0xe0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 63));
    out[2] = (char)(0x80 | (c & 63));
    return 3;
}

/* GPT-2's alphabet: printable Latin-1 bytes are themselves, the other 68 follow from U+0100 in order. */
static unsigned byte_char(unsigned byte)
{
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) return printable ? b : next;
        if (!printable) next++;
    }
    return 0;
}

/* "_t he" -> left and right in the vocabulary's spelling, joined with @join. */
static void spell(char *out, const char *pair, const char *join, unsigned space, bool bytes)
{
    size_t n = 0;
    for (; *pair; pair++) {
        unsigned char c = (unsigned char)*pair;
        if (c == ' ')
            n += (size_t)sprintf(out + n, "%s", join);
        else if (c == '_')
            n += put_char(out + n, space);
        else if (bytes)
            n += put_char(out + n, byte_char(c));
        else
            out[n++] = (char)c;
    }
    out[n] = 0;
}

static bool known(const struct vocab *v, const char *text)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (!strcmp(v->tokens[i].text, text)) return true;
    return false;
}

/* Only merges whose halves exist; the list may name a half that is made later. */
static void gpt2(struct vocab *v)
{
    for (unsigned b = 0; b < 256; b++) put_char(token(v, TOKEN_NORMAL)->text, byte_char(b));
    for (size_t i = 0; i < N_PAIRS; i++) {
        char left[32], *right;
        spell(left, pairs[i], " ", byte_char(' '), true);
        memcpy(v->merges[v->n_merges], left, sizeof(left));
        right = strchr(left, ' ');
        *right++ = 0;
        char whole[sizeof(v->tokens->text)];
        spell(whole, pairs[i], "", byte_char(' '), true);
        if (!known(v, left) || !known(v, right) || known(v, whole)) continue;
        v->n_merges++;
        memcpy(token(v, TOKEN_NORMAL)->text, whole, sizeof(whole));
    }
    control(v, "<|endoftext|>");
    v->bos = v->n;
    control(v, "<|im_start|>");
    v->eos = v->n;
    control(v, "<|im_end|>");
}

static void piece(struct vocab *v, const char *text)
{
    struct vocab_token *t = token(v, TOKEN_NORMAL);
    snprintf(t->text, sizeof(v->tokens->text), "%s", text);
    t->score = -(float)v->n;
}

/* @space: U+2581 or a plain one. */
static void llama(struct vocab *v, unsigned space, bool bytes)
{
    static const char chars[] = "etaoinshrdlucmfwygpbvkxqjzETAOINSHRDLUCMFWYGPBVKXQJZ0123456789.,!?'\"-:;()<>|_/";
    snprintf(token(v, TOKEN_UNKNOWN)->text, sizeof(v->tokens->text), "<unk>");
    v->bos = v->n;
    control(v, "<s>");
    v->eos = v->n;
    control(v, "</s>");
    for (unsigned b = 0; bytes && b < 256; b++)
        snprintf(token(v, TOKEN_BYTE)->text, sizeof(v->tokens->text), "<0x%02X>", b);
    for (size_t i = 0; i < N_PAIRS; i++) {
        char text[sizeof(v->tokens->text)];
        spell(text, pairs[i], "", space, false);
        if (!known(v, text)) piece(v, text);
    }
    piece(v, space == ' ' ? " " : "\342\226\201");
    for (size_t i = 0; chars[i]; i++) piece(v, (char[]){chars[i], 0});
    piece(v, "\303\251");
    piece(v, "\342\202\254");
    control(v, "<|im_start|>");
    control(v, "<|im_end|>");
}

/* Bytes and texts as in a bytes literal of Python. */
static void rwkv(struct vocab *v)
{
    v->bos = v->n;
    control(v, "<s>");
    for (unsigned b = 0; b < 256; b++) {
        bool plain = b > 0x20 && b < 0x7f && b != '\\';
        snprintf(token(v, TOKEN_NORMAL)->text, sizeof(v->tokens->text), plain ? "%c" : "\\x%02x", b);
    }
    for (size_t i = 0; i < N_PAIRS; i++) {
        char text[sizeof(v->tokens->text)];
        spell(text, pairs[i], "", ' ', false);
        if (!known(v, text)) piece(v, text);
    }
    control(v, "<|im_start|>");
    v->eos = v->n;
    control(v, "<|im_end|>");
}

struct vocab *vocab_new(const char *model)
{
    struct vocab *v = calloc(1, sizeof(*v));
    if (!v) return NULL;
    if (!strcmp(model, "llama") || !strcmp(model, "t5"))
        llama(v, 0x2581, true);
    else if (!strcmp(model, "bert"))
        llama(v, 0x2581, false);
    else if (!strcmp(model, "plamo2"))
        llama(v, ' ', true);
    else if (!strcmp(model, "rwkv"))
        rwkv(v);
    else
        gpt2(v);
    return v;
}

void vocab_free(struct vocab *v)
{
    free(v);
}

uint32_t vocab_control(struct vocab *v, const char *text)
{
    control(v, text);
    return v->n - 1;
}

void vocab_merge(struct vocab *v, const char *pair)
{
    char *whole = token(v, TOKEN_NORMAL)->text;
    size_t left = strcspn(pair, " ");
    snprintf(v->merges[v->n_merges++], sizeof(*v->merges), "%s", pair);
    snprintf(whole, sizeof(v->tokens->text), "%.*s%s", (int)left, pair, pair + left + 1);
}

float vocab_weight(const struct vocab *v, uint64_t id)
{
    if (v->tokens[id].kind == TOKEN_BYTE) return 0.5f;
    if (v->tokens[id].kind != TOKEN_NORMAL) return 0.25f;
    bool byte = v->n_merges && id < 256 && (id < 0x20 || id >= 0x7f);
    return byte ? 0.5f : 1;
}
