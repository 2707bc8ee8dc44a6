/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A store of expressions over bytes. Nodes are hash-consed: equal expressions have equal indexes, and the constructors
 * simplify, so that two expressions of one form become one node. Brzozowski derivatives ("Derivatives of Regular
 * Expressions", 1964) are computed for sets of bytes at a time and kept with their node.
 *
 * A store never frees a node. Its memory has a limit; the first error sticks, and every later call returns EXPR_ERROR,
 * until regex_allow_work().
 * One thread at a time.
 */
#include "daemon/text/grammar/grammar-build.h"
#include "daemon/text/grammar/grammar-memory.h"
#include <errno.h>

#define REGEX_BYTES_MAX  ((size_t)96 << 20) /* memory of one store */
#define REGEX_DEPTH_MAX  2000               /* nested expressions on the way to a derivative */
#define REGEX_BUILD_WORK 40000000u          /* steps (of some nanoseconds) to build and compile an expression */
#define REGEX_CALL_WORK  20000000u          /* and for one question about a compiled one, a mask for example */
#define REGEX_LEN_MAX    (1u << 30)         /* a shortest string of this length or more has no known length */

enum regex_kind {
    REGEX_NONE,
    REGEX_EMPTY,
    REGEX_SET,
    REGEX_CAT,
    REGEX_ALT,
    REGEX_AND,
    REGEX_NOT,
    REGEX_REPEAT,
    REGEX_RULE,
    REGEX_TOKENS
};

enum {                     /* flags of a node */
       REGEX_NULLABLE = 1, /* the empty string is in it (of rules: not known) */
       REGEX_REGULAR = 2,  /* no rule and no token inside */
       REGEX_BOOLEAN = 4,  /* has an and, or a not other than REGEX_ALL, so that it may be empty */
       REGEX_ALIVE = 8,    /* not empty */
       REGEX_DEAD = 16,    /* empty, although it is not the node REGEX_NONE */
       REGEX_LIMITED = 32, /* has a repetition with a limit inside, outside of complements */
};

/* The first three nodes of each store. */
enum { REGEX_ID_NONE, REGEX_ID_EMPTY, REGEX_ID_ALL };

struct regex_node {
    uint8_t kind, flags;
    /* SET: a the set. CAT: a, b. ALT, AND: a the first of b children in kids. NOT: a. REPEAT: a, from b to c times.
     * RULE, TOKENS: a its number. */
    uint32_t a, b, c;
    uint32_t hash;
    uint32_t edges; /* index of the derivatives in edges, plus 1; 0: not computed */
    uint32_t n_edges;
    uint32_t min_len; /* of the shortest string, bytes; UINT32_MAX: not computed */
    uint32_t state;   /* the user's: plus 1 (dfa.h) */
};

/* The derivative for the bytes of @set. The sets of a node's edges are disjoint; other bytes lead to REGEX_NONE. */
struct regex_edge {
    uint32_t set;
    expr_t to;
};

struct byte_set {
    uint64_t w[4];
};

struct regex_store {
    struct regex_node *nodes;
    uint32_t *kids;
    struct byte_set *sets;
    struct regex_edge *edges;
    size_t n, cap, n_kids, cap_kids, n_sets, cap_sets, n_edges, cap_edges;
    uint32_t *node_table, *set_table; /* open addressing, index plus 1 */
    size_t node_mask, set_mask;
    size_t bytes;
    struct grammar_share share; /* covers @bytes */
    uint64_t work, work_max;    /* steps so far, and their limit */
    int status;                 /* the first error */
    unsigned depth;
};

int regex_store_init(struct regex_store *s); /* 0 or -ENOMEM; regex_store_fini in both cases */
void regex_store_fini(struct regex_store *s);
/* Set the store's first error, and its message. Returns EXPR_ERROR. */
expr_t regex_fail(struct regex_store *s, int r);
/* Count @n steps. False: the store has failed with -ETIME. */
bool regex_work(struct regex_store *s, size_t n);
/* Forget an error, and allow @max steps from now on. An error leaves the store as it was before the call. */
void regex_allow_work(struct regex_store *s, uint64_t max);
/* A search for a shortcut, which may do an eighth of the work that is left. Returns what regex_end_search gets. */
uint64_t regex_begin_search(struct regex_store *s);
/* False: the search took too long or was not decided. Then it has found nothing, and the store has not failed. */
bool regex_end_search(struct regex_store *s, uint64_t max);
/* May the store take @more bytes? False: it has failed. */
bool regex_may_take(struct regex_store *s, size_t more);
/* Make room for @need elements of @size in *@array. False: the store has failed. */
bool regex_grow(struct regex_store *s, void *array, size_t *cap, size_t need, size_t size);

static inline const struct regex_node *regex_node(const struct regex_store *s, expr_t e)
{
    return &s->nodes[e];
}

static inline bool regex_has(const struct regex_store *s, expr_t e, unsigned flags)
{
    return (s->nodes[e].flags & flags) == flags;
}

static inline bool byte_set_has(const struct byte_set *s, uint8_t b)
{
    return s->w[b >> 6] >> (b & 63) & 1;
}

static inline bool byte_set_is_empty(const struct byte_set *s)
{
    return !(s->w[0] | s->w[1] | s->w[2] | s->w[3]);
}

static inline unsigned byte_set_count(const struct byte_set *s)
{
    return (unsigned)(__builtin_popcountll(s->w[0]) + __builtin_popcountll(s->w[1]) + __builtin_popcountll(s->w[2]) +
                      __builtin_popcountll(s->w[3]));
}

/* The constructors: an index, or EXPR_ERROR (also for an argument that is EXPR_ERROR). regex-nodes.c: */
expr_t regex_intern(struct regex_store *s, const struct regex_node *n, const uint32_t *kids);
uint32_t regex_set_index(struct regex_store *s, const struct byte_set *set);
expr_t regex_set(struct regex_store *s, const struct byte_set *set);
expr_t regex_byte(struct regex_store *s, uint8_t b);
/* regex-simplify.c: */
expr_t regex_cat(struct regex_store *s, expr_t a, expr_t b);
expr_t regex_repeat(struct regex_store *s, expr_t e, uint32_t min, uint32_t max);
expr_t regex_not(struct regex_store *s, expr_t e);
/* regex-sets.c: of @n expressions, in any order; @e is overwritten. */
expr_t regex_alt(struct regex_store *s, expr_t *e, size_t n);
expr_t regex_and(struct regex_store *s, expr_t *e, size_t n);

/* regex-derive.c: computes the derivatives of a regular expression, nodes[e].edges. False: the store has failed. */
bool regex_derive(struct regex_store *s, expr_t e);
expr_t regex_step(struct regex_store *s, expr_t e, uint8_t b);

/* regex-explore.c. 1: @e has no string; 0: it has; -E2BIG: not decided with @states derivatives; or the store's error.
 */
int regex_is_none(struct regex_store *s, expr_t e, size_t states);
/* The length of the shortest string of @e, which is not empty, in *len. 0, -E2BIG as above, or the store's error. */
int regex_min_len(struct regex_store *s, expr_t e, size_t states, uint32_t *len);
