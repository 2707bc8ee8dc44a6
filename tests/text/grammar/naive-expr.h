/* SPDX-License-Identifier: MIT */
#pragma once
/* Random expressions over the letters a to d, and a slow matcher for them: it finds all ends of a match that begins at
 * one position. */
#include "daemon/text/grammar/grammar.h"

#define NAIVE_RULES 4
#define NAIVE_LEN   12 /* the longest text */

struct naive {
    enum {
        NAIVE_SET,
        NAIVE_EMPTY,
        NAIVE_NONE,
        NAIVE_SEQ,
        NAIVE_ALT,
        NAIVE_AND,
        NAIVE_NOT,
        NAIVE_REPEAT,
        NAIVE_RULE
    } kind;
    unsigned set; /* of the letters; RULE: its number */
    unsigned min, max;
    struct naive *x, *y;
};

/* A random expression in both forms, with references to @rules [n]. The caller frees it. */
struct naive *naive_make(struct grammar_builder *b, uint64_t *random, int depth, const expr_t *rules, unsigned n,
                         expr_t *out);
struct naive *naive_free(struct naive *e);

/* Does text @s [@n <= NAIVE_LEN] match, with the rules' bodies [n_bodies]? */
bool naive_matches(const struct naive *e, struct naive *const *bodies, unsigned n_bodies, const char *s, unsigned n);

/* A random grammar in both forms. */
struct naive_grammar {
    struct grammar *g; /* NULL: it derives nothing */
    struct naive *root, *bodies[NAIVE_RULES];
    unsigned n;
};

void naive_grammar_make(struct naive_grammar *p, uint64_t *random);
void naive_grammar_free(struct naive_grammar *p);
bool naive_grammar_matches(const struct naive_grammar *p, const char *s, unsigned n);
