/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/mask-rest.h"
#include "libcommon/error.h"
#include <stdlib.h>

/* The places in t->tokens of the tokens that are not in the mask, as bits; the one behind the last token is set. */
static uint64_t *list_rest(const struct masking *m)
{
    const struct token_trie *t = m->t;
    uint64_t *rest = calloc(t->n_tokens / 64 + 1, sizeof(*rest));
    if (!rest) return NULL;
    for (uint32_t k = 0; k < t->n_tokens; k++) {
        int32_t id = t->tokens[k];
        rest[k >> 6] |= (uint64_t) !(m->mask[id >> 6] >> (id & 63) & 1) << (k & 63);
    }
    rest[t->n_tokens >> 6] |= 1ull << (t->n_tokens & 63);
    return rest;
}

/* The first place from @k on. */
static uint32_t next_rest(const uint64_t *rest, uint32_t k)
{
    uint32_t w = k >> 6;
    uint64_t bits = rest[w] & UINT64_MAX << (k & 63);
    while (!bits) bits = rest[++w];
    return w * 64 + (uint32_t)__builtin_ctzll(bits);
}

static int walk(struct masking *m, uint32_t row, const uint64_t *rest)
{
    const struct token_trie *t = m->t;
    const struct trie_node *nodes = t->nodes;
    uint32_t k = next_rest(rest, 0);
    m->path[0] = row;
    for (uint32_t i = 1; i < t->n_nodes && k < t->n_tokens;) {
        const struct trie_node *n = &nodes[i];
        if (k < n->token) k = next_rest(rest, n->token);
        if (k >= nodes[n->skip].token) { /* all tokens of the subtree are in the mask */
            i = n->skip;
            continue;
        }
        m->work++;
        uint32_t next = rows_step(m->r, m->path[n->depth - 1], n->byte);
        if (next == ROW_FAILED || !regex_work(&m->r->dfa.store, 1)) return rows_status(m->r);
        m->path[n->depth] = next;
        i = next == ROW_DEAD ? n->skip : i + 1;
        for (; next != ROW_DEAD && k < n[1].token; k = next_rest(rest, k + 1)) mask_set(m->mask, t->tokens[k]);
    }
    return 0;
}

int mask_rest(struct masking *m, uint32_t row)
{
    uint64_t *rest = list_rest(m);
    if (!rest) return error_origin(-ENOMEM);
    m->work += m->t->n_tokens / 16;
    int r = walk(m, row, rest);
    free(rest);
    return r;
}
