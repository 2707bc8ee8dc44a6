/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How the tokens of a vocabulary go through a terminal from one state of its automaton: which tokens stay inside, and
 * where in the trie the terminal may end, so that the rest of a token depends on the text behind the terminal.
 *
 * A repetition x{m,n} where no string of x is a prefix of another (a character, for example) has one part for all m and
 * n: a token stays inside if it needs at most n times x, and may end behind m to n of them.
 */
#include "daemon/text/grammar/dfa.h"
#include "daemon/text/grammar/token-trie.h"
#include <stdatomic.h>

struct mask_part {
    atomic_uint refs;
    struct grammar_memory *memory; /* held; it is charged for the part. NULL: none */
    enum { PART_WALKED, PART_COUNTED, PART_UNCOUNTABLE } kind;
    int32_t *tokens; /* [n_tokens] that stay inside; NULL: see bits. COUNTED: sorted by the times of x that they need */
    uint64_t *bits;  /* [words] the same as a mask; NULL if they are few */
    size_t words;
    uint32_t n_tokens, n_times;
    uint32_t *times_end; /* COUNTED: [n_times] tokens[0 .. times_end[i]) need at most i times */
    uint32_t first[257]; /* nodes[first[b] .. first[b + 1]) begin with byte b */
    uint32_t *nodes;     /* children of nodes where the terminal may end */
    uint16_t *counts;    /* COUNTED: [as nodes] times of x at the end */
    /* Bytes that nodes are left out for, because the terminal may also continue with them, and a text behind a terminal
     * seldom begins like that. */
    struct byte_set missing;
};

struct mask_part *mask_part_ref(struct mask_part *p);
struct mask_part *mask_part_unref(struct mask_part *p); /* NULL ok, returns NULL */
size_t mask_part_bytes(const struct mask_part *p);

/* The part for state @q, from the cache of @t or made. The state holds *out until mask_parts_forget; the states hold
 * parts of one trie only. 0; or the error of @d, -EDQUOT (sets the error message) or -ENOMEM. */
int mask_part_get(struct dfa *d, const struct token_trie *t, uint32_t q, const struct mask_part **out);
/* Drops the parts that the states hold. */
void mask_parts_forget(struct dfa *d);

/* Inside: mask-walk.c. @full: nodes are left out for no byte. */
int mask_part_walk(struct dfa *d, const struct token_trie *t, uint32_t q, bool full, struct mask_part **out);
int mask_part_count(struct dfa *d, const struct token_trie *t, uint32_t q, struct mask_part **out);
/* A walked part of these tokens, of which @bits [words] is a copy, and ends [@n_ends]. */
int mask_part_of(const struct token_trie *t, const uint64_t *bits, const uint32_t *ends, uint32_t n_ends,
                 const struct byte_set *missing, struct mask_part **out);
/* mask-difference.c: the part of state q[0], from that of state q[1], which has more strings. */
int mask_part_differ(struct dfa *d, const struct token_trie *t, const uint32_t q[2], const struct mask_part *base,
                     struct mask_part **out);
/* The same, where the two states differ only behind RELAX_BYTES bytes. */
int mask_part_deepen(struct dfa *d, const struct token_trie *t, const uint32_t q[2], const struct mask_part *base,
                     struct mask_part **out);
