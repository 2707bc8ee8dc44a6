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
    const uint16_t *of; /* [256] the class of each byte; many states share one */
    uint32_t n;         /* classes; class 0 leads to the dead state */
    uint32_t to[];      /* [n] states */
};

/* Groups of characters (byte-groups.h) that keep a state alive, however many of them follow, in any order (stays.h). */
struct dfa_stays {
    struct stays_groups {
        uint64_t groups;
        bool ends;       /* an accepting state may be on the way */
    } loops, others;     /* they lead back to the state; they may lead to others */
    uint64_t may_follow; /* groups whose characters may all be next */
    uint8_t at;          /* the texts begin at this place inside a character; then loops alone is valid */
    bool knows_text, knows_others;
};

struct dfa_state {
    expr_t node;
    bool nullable;           /* accepting */
    uint8_t ends_soon;       /* relax.c */
    uint16_t visit;          /* the last one (relax.c) */
    struct byte_set live;    /* the bytes that may follow; valid with edges */
    struct dfa_edges *edges; /* NULL: not computed */
    struct mask_part *part;  /* NULL, or held: what its mask is made of (mask-part.h) */
    struct dfa_stays *stays; /* NULL: not computed */
};

struct dfa {
    struct regex_store store;
    struct dfa_state *states;
    size_t n, cap;
    uint16_t **classes; /* open addressing; of the states' edges */
    size_t n_classes, classes_size;
    struct mask_space space; /* whose parts of masks it shares */
    uint64_t parts_of;       /* the trie whose parts the states hold (mask-part.h); 0: none */
    size_t part_bytes;       /* of them */
    uint32_t relax_misses;
    uint16_t visits;
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
