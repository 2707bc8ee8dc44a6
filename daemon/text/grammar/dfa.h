/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A lazily built automaton over the expressions of a store: a state is an expression, and its edges are the
 * derivatives. State 0 is dead: no string leads from it to an accepting state. All other states are alive.
 */
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/regex.h"

#define DFA_SEARCH_MAX 20000 /* derivatives explored to decide whether a state is dead */

struct dfa_edges {
    uint32_t n;       /* classes; class 0 leads to the dead state */
    uint16_t of[256]; /* the class of each byte */
    uint32_t to[];    /* [n] states */
};

struct dfa_state {
    expr_t node;
    bool nullable;           /* accepting */
    struct byte_set live;    /* the bytes that may follow; valid with edges */
    struct dfa_edges *edges; /* NULL: not computed */
    struct mask_part *part;  /* NULL, or held: what its mask is made of (mask-part.h) */
    uint64_t loops;          /* groups of bytes that lead back to it (byte-groups.c) */
};

struct dfa {
    struct regex_store store;
    struct dfa_state *states;
    size_t n, cap;
    struct mask_space space; /* whose parts of masks it shares */
};

/* Takes @store. 0 or the store's error; dfa_fini in both cases. */
int dfa_init(struct dfa *d, struct regex_store *store);
void dfa_fini(struct dfa *d);

/* The state of a regular expression: 0 if it is empty. UINT32_MAX: failed, see dfa_status. */
uint32_t dfa_state_of(struct dfa *d, expr_t e);

/* Compute the edges of a state. False: failed. */
bool dfa_expand(struct dfa *d, uint32_t q);

/* The error of a failed call; sets its message. */
int dfa_status(struct dfa *d);

/* The next state; UINT32_MAX: failed. */
static inline uint32_t dfa_step(struct dfa *d, uint32_t q, uint8_t b)
{
    if (!d->states[q].edges && !dfa_expand(d, q)) return UINT32_MAX;
    const struct dfa_edges *e = d->states[q].edges;
    return e->to[e->of[b]];
}
