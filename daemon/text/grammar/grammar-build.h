/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Building a grammar: expressions that stand for sets of byte strings. The front ends (JSON Schema, GBNF, regular
 * expressions, choices) make expressions with these functions; grammar_build() compiles the result.
 *
 * An expression is an index into its builder. Expressions may be used any number of times. Equal regular expressions
 * get equal indexes (they are hash-consed and simplified), so that expr_none() also tells an empty set. After the first
 * error (memory, a limit) every function returns EXPR_ERROR, and grammar_build() or builder_status() tells the error.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPR_ERROR     UINT32_MAX
#define EXPR_UNLIMITED UINT32_MAX /* as @max of expr_repeat */

typedef uint32_t expr_t;
struct grammar_builder;
struct grammar_memory;

struct expr_range {
    uint32_t first, last; /* code points, inclusive; surrogates are left out */
};

int grammar_builder_new(struct grammar_builder **out); /* 0 or -ENOMEM; the caller owns *out */
/* Count the memory of @b, and of the grammar that it becomes, in @m (grammar-memory.h), which both hold. Right after
 * grammar_builder_new. */
void grammar_builder_set_memory(struct grammar_builder *b, struct grammar_memory *m);
struct grammar_builder *grammar_builder_free(struct grammar_builder *b); /* NULL ok, returns NULL */
int builder_status(const struct grammar_builder *b); /* 0, or the first error, with its message set again */

expr_t expr_none(struct grammar_builder *b);  /* no string at all */
expr_t expr_empty(struct grammar_builder *b); /* the empty string */
expr_t expr_bytes(struct grammar_builder *b, const char *s, size_t n);
expr_t expr_byte_set(struct grammar_builder *b, const uint64_t set[4]);             /* one byte */
expr_t expr_chars(struct grammar_builder *b, const struct expr_range *r, size_t n); /* one code point as UTF-8 */
expr_t expr_seq(struct grammar_builder *b, const expr_t *e, size_t n);
expr_t expr_alt(struct grammar_builder *b, const expr_t *e, size_t n);
expr_t expr_repeat(struct grammar_builder *b, expr_t e, uint32_t min, uint32_t max);

/* One token of the vocabulary, whatever its text: one of @ids [n]; or, if @others, any token with text
 * but these. Not regular. */
expr_t expr_tokens(struct grammar_builder *b, const int32_t *ids, size_t n, bool others);

/* A nonterminal. Its body may be defined later and may contain it (left recursion too); one without a body is none. */
expr_t expr_rule(struct grammar_builder *b);
void expr_define(struct grammar_builder *b, expr_t rule, expr_t body);

/* Regular expressions only, i.e. without a rule inside (otherwise EXPR_ERROR, -EINVAL). */
bool expr_is_regular(const struct grammar_builder *b, expr_t e);
expr_t expr_and(struct grammar_builder *b, expr_t x, expr_t y);
expr_t expr_not(struct grammar_builder *b, expr_t x); /* of all byte strings */

/* Questions about regular expressions, answered by exploring at most @states derivatives. 1 yes, 0 no, -E2BIG not
 * decided within @states, -ENOMEM. */
int expr_is_none(struct grammar_builder *b, expr_t e, size_t states);
int expr_matches(struct grammar_builder *b, expr_t e, const char *s, size_t n);
/* disjoint: expr_is_none of expr_and; a subset: expr_is_none of expr_and with expr_not. */
