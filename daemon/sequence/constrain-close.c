/* SPDX-License-Identifier: MIT */
/* The shortest completion of an answer, as tokens. */
#include "daemon/sequence/constrain-inside.h"
#include "libcommon/error.h"

#define BYTES_PER_TOKEN 64 /* of a completion, at most: longer ones are not made to find out whether they fit */
#define BYTES_MAX       (1u << 20)

/* The longest token that @s [@n] begins with; -1: none. */
static int32_t longest(const struct token_trie *t, const char *s, size_t n, size_t *len)
{
    int32_t best = -1;
    uint32_t at = n ? t->children[(uint8_t)*s] : 0;
    for (size_t depth = 1; at; depth++) {
        const struct trie_node *node = &t->nodes[at];
        if (node->token < node[1].token) {
            best = t->tokens[node->token];
            *len = depth;
        }
        uint32_t child = at + 1;
        if (depth == n) break;
        while (child < node->skip && t->nodes[child].byte != (uint8_t)s[depth]) child = t->nodes[child].skip;
        at = child < node->skip ? child : 0;
    }
    return best;
}

/* 0; -EDOM: the vocabulary has no token for a byte; -ENOMEM. */
static int split(const struct token_trie *t, const char *s, size_t n, struct tokens *out)
{
    for (size_t at = 0, len = 0; at < n; at += len) {
        int32_t id = longest(t, s + at, n - at, &len);
        if (id < 0) return error_say(-EDOM, "the model has no token for the byte 0x%02x", (uint8_t)s[at]);
        if (tokens_push(out, id, (uint32_t)(at + len)) < 0) return error_origin(-ENOMEM);
    }
    return 0;
}

/* The tokens of the shortest completion. 0; -E2BIG: it has more than @max bytes, or is not known. */
static int completion(struct constrain *x, size_t max, struct tokens *out)
{
    struct buf text = BUF_INIT;
    int r = grammar_state_shortest(x->st, &text, max);
    if (r == 0) r = split(x->c.trie, text.data, text.len, out);
    buf_fini(&text);
    return r;
}

int constrain_fits(struct constrain *x, size_t left)
{
    struct tokens t = {0};
    int r = completion(x, left < BYTES_MAX / BYTES_PER_TOKEN ? left * BYTES_PER_TOKEN : BYTES_MAX, &t);
    size_t n = t.n;
    tokens_fini(&t);
    if (r == -E2BIG) return 0;
    return r < 0 ? r : n <= left;
}

int constrain_close(struct constrain *x)
{
    x->closing.n = 0;
    int r = completion(x, BYTES_MAX, &x->closing);
    if (r < 0) return r;
    x->closes = true;
    x->closes_from = grammar_state_accepts(x->st);
    return 0;
}
