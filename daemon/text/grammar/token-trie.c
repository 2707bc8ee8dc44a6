/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/token-trie.h"
#include "daemon/text/grammar/byte-groups.h"
#include "daemon/text/grammar/mask-cache.h"
#include "daemon/text/grammar/relax.h"
#include "libcommon/error.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *token_trie_text(const struct token_trie *t, int32_t id, size_t *len)
{
    *len = 0;
    if (id < 0 || (uint32_t)id >= t->vocab || t->text[id] == t->text[id + 1]) return NULL;
    *len = t->text[id + 1] - t->text[id];
    return t->texts + t->text[id];
}

bool token_trie_is_end(const struct token_trie *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab && t->is_end[id >> 6] >> (id & 63) & 1;
}

static int compare_texts(const void *a, const void *b, void *p)
{
    const struct token_trie *t = p;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    size_t n, m;
    const char *s = token_trie_text(t, x, &n), *u = token_trie_text(t, y, &m);
    int c = memcmp(s, u, n < m ? n : m);
    if (c == 0) c = (n > m) - (n < m);
    return c ? c : (x > y) - (x < y);
}

/* Copies the texts and lists the tokens. */
static int read_tokens(struct token_trie *t, const struct tokenizer *tok)
{
    size_t total = 0, len;
    t->vocab = (uint32_t)tokenizer_vocab(tok);
    t->text = calloc((size_t)t->vocab + 1, sizeof(*t->text));
    t->tokens = calloc((size_t)t->vocab + 1, sizeof(*t->tokens));
    t->ends = calloc((size_t)t->vocab + 1, sizeof(*t->ends));
    t->is_end = calloc(token_trie_words(t) + 1, sizeof(*t->is_end));
    if (!t->text || !t->tokens || !t->ends || !t->is_end) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < t->vocab; i++) {
        tokenizer_piece(tok, (int32_t)i, &len);
        bool end = tokenizer_is_eog(tok, (int32_t)i);
        if (!end && !tokenizer_is_control(tok, (int32_t)i) && len <= UINT16_MAX) total += len;
        if (end) t->ends[t->n_ends++] = (int32_t)i;
        if (end) t->is_end[i >> 6] |= 1ull << (i & 63);
    }
    t->texts = malloc(total + 1);
    if (!t->texts || total > UINT32_MAX) return error_origin(-ENOMEM);
    total = 0;
    for (uint32_t i = 0; i < t->vocab; i++) {
        const char *s = tokenizer_piece(tok, (int32_t)i, &len);
        t->text[i] = (uint32_t)total;
        if (token_trie_is_end(t, (int32_t)i) || tokenizer_is_control(tok, (int32_t)i) || len > UINT16_MAX) continue;
        memcpy(t->texts + total, s, len);
        total += len;
        if (len) t->tokens[t->n_tokens++] = (int32_t)i;
        if (len > t->max_len) t->max_len = (uint32_t)len;
    }
    t->text[t->vocab] = (uint32_t)total;
    return 0;
}

static size_t common_prefix(const struct token_trie *t, int32_t a, int32_t b)
{
    size_t n, m, i = 0;
    const char *s = token_trie_text(t, a, &n), *u = token_trie_text(t, b, &m);
    while (i < n && i < m && s[i] == u[i]) i++;
    return i;
}

/* Adds each token's nodes behind the text that it has in common with the token before; with @write false only counts
 * them. Returns the first free node. */
static uint32_t add_nodes(struct token_trie *t, uint32_t at, bool write)
{
    for (uint32_t k = 0; k < t->n_tokens; k++) {
        size_t len, common = k ? common_prefix(t, t->tokens[k - 1], t->tokens[k]) : 0;
        const char *s = token_trie_text(t, t->tokens[k], &len);
        for (size_t i = common; i < len; i++, at++)
            if (write) t->nodes[at] = (struct trie_node){0, k, (uint16_t)(i + 1), (uint8_t)s[i], 0};
    }
    return at;
}

/* A node's skip is the next node that is not deeper. */
static void set_skips(struct token_trie *t)
{
    for (uint32_t i = t->n_nodes; i-- > 0;) {
        uint32_t next = i + 1;
        while (next < t->n_nodes && t->nodes[next].depth > t->nodes[i].depth) next = t->nodes[next].skip;
        t->nodes[i].skip = next;
    }
}

/* Notes for each node its place inside a character, and which bytes are below it. */
static int look_below(struct token_trie *t)
{
    uint32_t *up = calloc(t->n_nodes, sizeof(*up)), *path = calloc((size_t)t->max_len + 1, sizeof(*path));
    int r = up && path ? 0 : error_origin(-ENOMEM);
    for (uint32_t i = 1; i < t->n_nodes && r == 0; i++) {
        struct trie_node *n = &t->nodes[i];
        up[i] = path[n->depth - 1];
        path[n->depth] = i;
        n->place = (uint8_t)utf8_next(t->nodes[up[i]].place, n->byte);
        t->below[up[i]] |= n->place == UTF8_BAD ? GROUP_BAD : byte_group(n->byte);
    }
    for (uint32_t i = t->n_nodes; i-- > 1 && r == 0;) t->below[up[i]] |= t->below[i];
    free(up);
    free(path);
    return r;
}

static int list_deep(struct token_trie *t)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < t->n_nodes; i++) n += t->nodes[i].depth == RELAX_BYTES + 1;
    t->deep = calloc(n + 1, sizeof(*t->deep));
    if (!t->deep) return error_origin(-ENOMEM);
    for (uint32_t i = 1; i < t->n_nodes; i++)
        if (t->nodes[i].depth == RELAX_BYTES + 1) t->deep[t->n_deep++] = i;
    return 0;
}

static int build(struct token_trie *t)
{
    qsort_r(t->tokens, t->n_tokens, sizeof(*t->tokens), compare_texts, t);
    t->n_nodes = add_nodes(t, 1, false);
    t->nodes = calloc((size_t)t->n_nodes + 1, sizeof(*t->nodes));
    t->below = calloc(t->n_nodes, sizeof(*t->below));
    if (!t->nodes || !t->below) return error_origin(-ENOMEM);
    add_nodes(t, 1, true);
    t->nodes[t->n_nodes].token = t->n_tokens;
    set_skips(t);
    for (uint32_t i = 1; i < t->n_nodes; i = t->nodes[i].skip) t->children[t->nodes[i].byte] = i;
    int r = look_below(t);
    return r < 0 ? r : list_deep(t);
}

int token_trie_new(struct token_trie **out, const struct tokenizer *tok)
{
    static atomic_uint_fast64_t last_id;
    struct token_trie *t = calloc(1, sizeof(*t));
    int r = t ? read_tokens(t, tok) : error_origin(-ENOMEM);
    if (r == 0) r = build(t);
    if (r == 0) r = mask_cache_new(&t->cache);
    if (r < 0) {
        token_trie_free(t);
        return r;
    }
    t->id = atomic_fetch_add(&last_id, 1) + 1;
    *out = t;
    return 0;
}

struct token_trie *token_trie_free(struct token_trie *t)
{
    if (!t) return NULL;
    mask_cache_free(t->cache);
    free(t->nodes);
    free(t->below);
    free(t->deep);
    free(t->tokens);
    free(t->ends);
    free(t->text);
    free(t->texts);
    free(t->is_end);
    free(t);
    return NULL;
}

size_t token_trie_bytes(const struct token_trie *t)
{
    return sizeof(*t) + (size_t)t->n_nodes * (sizeof(*t->nodes) + sizeof(*t->below)) + (size_t)t->vocab * 12 +
           (size_t)t->n_deep * sizeof(*t->deep) + t->text[t->vocab];
}
