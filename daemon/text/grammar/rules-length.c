/* SPDX-License-Identifier: MIT */
/* The lengths of the shortest strings that rules derive. */
#include "daemon/text/grammar/rules.h"
#include <stdlib.h>

#define LENGTH_WORK_MAX 50000000u /* symbols looked at; then lengths may be too large */

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a + b < REGEX_LEN_MAX ? a + b : REGEX_LEN_MAX;
}

static uint32_t symbol_length(const struct rules *g, const struct dfa *d, const struct symbol *y)
{
    if (y->kind == SYMBOL_TOKENS) return REGEX_LEN_MAX;
    if (y->kind == SYMBOL_NONTERMINAL) return g->nonterminals[y->index].min_len;
    uint32_t len = regex_node(&d->store, d->states[y->index].node)->min_len;
    return len < REGEX_LEN_MAX ? len : REGEX_LEN_MAX;
}

uint32_t rules_length_from(const struct rules *g, const struct dfa *d, uint32_t dot, uint32_t count)
{
    const struct symbol *y = &g->symbols[dot];
    if (!y->repeat) return g->rest[dot];
    uint32_t more = g->nonterminals[y->lhs].min > count ? g->nonterminals[y->lhs].min - count : 0;
    uint64_t all = more ? (uint64_t)symbol_length(g, d, y) * more : 0;
    return all < REGEX_LEN_MAX ? (uint32_t)all : REGEX_LEN_MAX;
}

/* The symbols from @dot to the end of its production; sets g->rest for them. */
static uint32_t update_rest(struct rules *g, const struct dfa *d, uint32_t dot)
{
    uint32_t end = dot;
    while (g->symbols[end].kind != SYMBOL_END) end++;
    for (uint32_t i = end; i-- > dot;) g->rest[i] = sum(symbol_length(g, d, &g->symbols[i]), g->rest[i + 1]);
    return end - dot;
}

int rules_lengths(struct rules *g, struct dfa *d)
{
    if (g->rest) return 0;
    for (size_t i = 0; i < g->n_symbols; i++) {
        uint32_t len;
        const struct symbol *y = &g->symbols[i];
        if (y->kind != SYMBOL_TERMINAL) continue;
        expr_t e = d->states[y->index].node;
        int r = y->index ? regex_min_len(&d->store, e, DFA_SEARCH_MAX, &len) : -E2BIG;
        if (d->store.status) return d->store.status;
        if (r == 0) d->store.nodes[e].min_len = len;
    }
    g->rest = calloc(g->n_symbols + 1, sizeof(*g->rest));
    if (!g->rest) {
        regex_fail(&d->store, -ENOMEM);
        return -ENOMEM;
    }
    for (size_t i = 0; i < g->n_nonterminals; i++) g->nonterminals[i].min_len = REGEX_LEN_MAX;
    uint32_t work = 0;
    for (bool changed = true; changed && work < LENGTH_WORK_MAX;) {
        changed = false;
        for (size_t i = g->n_nonterminals; i-- > 0;) {
            struct nonterminal *n = &g->nonterminals[i];
            uint32_t before = n->min_len;
            if (n->repeat && n->min == 0) n->min_len = 0;
            for (uint32_t k = 0; k < n->n; k++) {
                uint32_t dot = g->first_dots[n->first + k];
                work += 1 + update_rest(g, d, dot);
                uint32_t len = rules_length_from(g, d, dot, 0);
                if (len < n->min_len) n->min_len = len;
            }
            changed |= n->min_len != before;
        }
    }
    return 0;
}
