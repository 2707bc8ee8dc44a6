/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The rules of a compiled grammar. Expressions without rules inside become terminals, each an automaton; the others
 * become productions over terminals and nonterminals.
 */
#include "daemon/text/grammar/builder.h"
#include "daemon/text/grammar/dfa.h"

#define RULES_MAX 1000000u /* symbols of all productions */

enum symbol_kind { SYMBOL_END, SYMBOL_TERMINAL, SYMBOL_NONTERMINAL, SYMBOL_TOKENS };

/* Productions are stored one behind another, each ended by SYMBOL_END. A dot is an index into symbols: the place in a
 * production that a parse has reached. */
struct symbol {
    uint8_t kind;
    bool repeat;    /* the symbol of a repetition, whose dot moves by counting */
    uint32_t index; /* TERMINAL: start state in dfa; NONTERMINAL: its number; TOKENS: token set; END: the nonterminal */
    uint32_t lhs;   /* the nonterminal that the production derives */
};

struct nonterminal {
    uint32_t first, n; /* productions first_dots[first .. first + n); a repetition has one */
    bool repeat, nullable, productive;
    uint32_t min, max; /* of a repetition */
    uint32_t min_len;  /* bytes of the shortest string; UINT32_MAX: not computed */
};

/* Nonterminal 0 is the start. */
struct rules {
    struct symbol *symbols;
    struct nonterminal *nonterminals;
    uint32_t *first_dots; /* dots at the beginning of productions */
    struct token_set *token_sets;
    size_t n_symbols, cap_symbols, n_nonterminals, cap_nonterminals, n_first, cap_first, n_token_sets;
    uint32_t
        *rest; /* [n_symbols] NULL: not computed. Bytes of the shortest string from a dot to its production's end */
};

/* Makes the rules of @root. The expressions of @b become the store of @d, which was empty. 0, or the error with its
 * message: -EDOM: the grammar derives no text. rules_fini and dfa_fini in both cases. */
int rules_compile(struct rules *g, struct dfa *d, struct grammar_builder *b, expr_t root);
void rules_fini(struct rules *g);

/* The count of a repetition after one more. */
static inline uint32_t rules_count(const struct nonterminal *n, uint32_t count)
{
    uint32_t most = n->max == EXPR_UNLIMITED ? n->min : n->max;
    return count < most ? count + 1 : most;
}

/* rules-inline.c: replaces rules inside repetitions by their bodies, where that ends. False: @b has failed. */
bool rules_inline(struct grammar_builder *b, expr_t *root);
/* rules-properties.c: finds which nonterminals are nullable or productive, and removes productions that derive nothing.
 * False: @d has failed. */
bool rules_properties(struct rules *g, struct dfa *d);

/* rules-length.c: the shortest string behind a dot, in bytes, that of the dot's symbol included; for a repetition after
 * @count. At least REGEX_LEN_MAX: not known. 0 or the error of @d, which has failed. */
int rules_lengths(struct rules *g, struct dfa *d); /* to be called before the next */
uint32_t rules_length_from(const struct rules *g, const struct dfa *d, uint32_t dot, uint32_t count);
