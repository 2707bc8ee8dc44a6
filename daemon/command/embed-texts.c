/* SPDX-License-Identifier: MIT */
#include "daemon/command/embed-texts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void embed_texts_fini(struct embed_texts *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->list[i].ids);
        free(t->list[i].types);
    }
    free(t->list);
    *t = (struct embed_texts){0};
}

/* Take the tokens, of which those from @second on are of the second text. */
static int push(struct embed_texts *t, const struct tokens *tokens, size_t second)
{
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        struct embed_text *list = realloc(t->list, cap * sizeof(*list));
        if (!list) return error_origin(-ENOMEM);
        t->list = list;
        t->cap = cap;
    }
    if (!tokens->n) return error_say(-EINVAL, "a text without a token");
    struct embed_text x = {malloc(tokens->n * sizeof(*x.ids)), malloc(tokens->n), (uint32_t)tokens->n};
    if (!x.ids || !x.types) {
        free(x.ids);
        free(x.types);
        return error_origin(-ENOMEM);
    }
    memcpy(x.ids, tokens->ids, tokens->n * sizeof(*x.ids));
    for (size_t i = 0; i < tokens->n; i++) x.types[i] = i >= second;
    t->list[t->n++] = x;
    return 0;
}

static int push_end(const struct tool *l, struct tokens *out)
{
    const int32_t end = tokenizer_end(l->tokenizer);
    return end < 0 ? 0 : tokens_push(out, end, 0);
}

static int push_text(const struct tool *l, const char *s, size_t n, struct tokens *out)
{
    struct text text = {0};
    int r = text_append(&text, s, n, false);
    if (!r) r = tokenizer_encode(l->tokenizer, &text, 0, true, out);
    text_fini(&text);
    return r ? r : push_end(l, out);
}

static int add_ids(struct embed_texts *t, const struct tool *l, const json_t *list)
{
    _cleanup_(tokens_fini) struct tokens tokens = {0};
    const json_t *v;
    size_t i;
    int r = 0;
    json_array_foreach((json_t *)list, i, v)
    {
        const json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= l->hparams.vocab)
            return error_say(-EINVAL, "element %zu is no token id below %" PRIu32, i, l->hparams.vocab);
        r = tokens_push(&tokens, (int32_t)id, 0);
        if (r) return r;
    }
    return push(t, &tokens, tokens.n);
}

/* BOS first END, and of two texts: BOS first END second END, of which the second are of type 1 if there are types. */
static int add_texts(struct embed_texts *t, const struct tool *l, const char *a, size_t n_a, const char *b, size_t n_b)
{
    _cleanup_(tokens_fini) struct tokens tokens = {0};
    int r = 0;
    if (tokenizer_add_bos(l->tokenizer) && tokenizer_bos(l->tokenizer) >= 0)
        r = tokens_push(&tokens, tokenizer_bos(l->tokenizer), 0);
    if (!r) r = push_text(l, a, n_a, &tokens);
    const size_t second = tokens.n;
    if (!r && b) r = push_text(l, b, n_b, &tokens);
    return r ? r : push(t, &tokens, l->hparams.embedding.types > 1 ? second : tokens.n);
}

static int add_json(struct embed_texts *t, const struct tool *l, const char *s, size_t n)
{
    json_error_t why;
    _cleanup_(json_decrefp) json_t *v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!v) return error_say(-EINVAL, "column %d: %s", why.column, why.text);
    const json_t *a = json_is_array(v) ? json_array_get(v, 0) : v, *b = json_array_get(v, 1);
    if (json_is_array(v) && !json_is_string(a)) return add_ids(t, l, v);
    if (!json_is_string(a) || (json_is_array(v) && (json_array_size(v) > 2 || !json_is_string(b))))
        return error_say(-EINVAL, "neither a string, nor a list of token ids or of two strings");
    return add_texts(t, l, json_string_value(a), json_string_length(a), json_string_value(b), json_string_length(b));
}

int embed_texts_read(struct embed_texts *t, const struct tool *l, const struct buf *in, bool jsonl)
{
    *t = (struct embed_texts){0};
    const char *end = in->data + in->len;
    size_t line = 1;
    for (const char *s = in->data; s < end; line++) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        const size_t n = (size_t)((stop ? stop : end) - s);
        int r = jsonl ? add_json(t, l, s, n) : add_texts(t, l, s, n, NULL, 0);
        if (r) {
            embed_texts_fini(t);
            return error_in(r, "line %zu", line);
        }
        s += n + 1;
    }
    return 0;
}
