/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of the GBNF parser. */
#include "daemon/text/grammar/expr-list.h"
#include "daemon/text/grammar/gbnf.h"

#define GBNF_DEPTH_MAX 200 /* nested groups */

struct gbnf_rule {
    size_t name, len; /* in the text */
    expr_t e;
    bool defined;
};

struct gbnf {
    struct grammar_builder *b;
    const struct tokenizer *t;
    const char *s;
    size_t n, at;
    struct gbnf_rule *rules;
    size_t n_rules, cap_rules;
    uint32_t *table; /* of rules by their name: open addressing, index plus 1 */
    size_t mask;
    unsigned depth;
};

/* Sets the error message, with the place @at. Returns -EINVAL. */
int gbnf_error(const struct gbnf *p, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The byte at the place; 0 at the end. A text has no NUL. */
static inline char gbnf_peek(const struct gbnf *p)
{
    return p->at < p->n ? p->s[p->at] : 0;
}

/* gbnf-atoms.c: each reads from the place on, and writes *e. 0 or an error as gbnf_parse. */
int gbnf_literal(struct gbnf *p, expr_t *e);
int gbnf_class(struct gbnf *p, expr_t *e);
int gbnf_token(struct gbnf *p, expr_t *e);
/* {m}, {m,}, {m,n} */
int gbnf_counts(struct gbnf *p, uint32_t *min, uint32_t *max);
/* Blanks and comments; line ends too if @lines. */
void gbnf_space(struct gbnf *p, bool lines);
