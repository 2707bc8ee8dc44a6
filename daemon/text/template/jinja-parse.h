/* SPDX-License-Identifier: MIT */
#pragma once
/* The declarations that the two halves of the parser, statements and expressions, share. */
#include "daemon/text/template/jinja-ast.h"

#define JJ_PARSE_DEPTH 200  /* recursion of the parser */
#define JJ_TREE_DEPTH  1000 /* of the tree: the chain a + b + c + … is as deep as it is long */

/* The blocks so far, by name: open addressing. */
struct jj_block_index {
    const struct jj_node **slots; /* [mask + 1]; NULL while there is no block */
    size_t n, mask;
};

struct jj_parser {
    struct jj_arena *arena;
    const struct jj_token *t; /* the current one; never beyond JJ_T_EOF */
    unsigned depth;
    uint8_t uses;         /* JJ_USES_… of the body being parsed */
    bool soft;            /* in a branch: a missing filter is an error only when it is evaluated */
    unsigned expressions; /* number of open expressions: an "if" may follow and make the parsed part a branch */
    const struct jj_node *missing; /* the first filter or test so far that does not exist */
    bool in_loop;
    bool self;              /* the template uses "self" */
    struct jj_node *blocks; /* blocks so far, as macros, the last one first */
    struct jj_block_index block_index;
    int err;
};

/* A list under construction: {&parent->list, &parent->n}. */
struct jj_list {
    struct jj_node **tail;
    uint32_t *n;
};

/* A function that returns a node returns NULL after an error, which is in p->err. */
struct jj_node *jj_node_new(struct jj_parser *p, enum jj_kind kind, unsigned line);
int jj_parse_fail(struct jj_parser *p, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "unexpected X, expected Y"; NULL: only "unexpected X". */
int jj_parse_unexpected(struct jj_parser *p, const char *expected);
int jj_parse_enter(struct jj_parser *p);
/* Makes @child a part of @n: updates the depth. */
int jj_adopt(struct jj_parser *p, struct jj_node *n, const struct jj_node *child);
/* A node with the children @a and @b; NULL also when one of them is NULL. */
struct jj_node *jj_node_binary(struct jj_parser *p, enum jj_kind kind, enum jj_op op, unsigned line, struct jj_node *a,
                               struct jj_node *b);
int jj_list_add(struct jj_parser *p, struct jj_list *l, struct jj_node *parent, struct jj_node *item);
/* Adds a block (a macro with name and line) behind the earlier ones. -EINVAL: its name is taken. */
int jj_block_add(struct jj_parser *p, struct jj_node *block);
const struct jj_str *jj_token_str(struct jj_parser *p, const struct jj_token *t);

static inline bool jj_at_op(const struct jj_parser *p, enum jj_op op)
{
    return p->t->type == JJ_T_OP && p->t->op == op;
}
bool jj_at_name(const struct jj_parser *p, const char *name);
bool jj_skip_op(struct jj_parser *p, enum jj_op op);
bool jj_skip_name(struct jj_parser *p, const char *name);
int jj_expect_op(struct jj_parser *p, enum jj_op op);

/* At the end of an expression: an error if it named a missing filter or test outside of a branch. */
int jj_check_names(struct jj_parser *p);

#define JJ_TUPLE_COND  1 /* a if b else c without parentheses */
#define JJ_TUPLE_EMPTY 2 /* () */
/* One operand, without the attributes, subscripts, calls and filters behind it. */
struct jj_node *jj_parse_primary(struct jj_parser *p);
struct jj_node *jj_parse_expression(struct jj_parser *p, bool cond);
/* @end: a name that ends the tuple, or NULL. */
struct jj_node *jj_parse_tuple(struct jj_parser *p, int flags, const char *end);
/* A name or a tuple of names; @ns: also name.attribute. */
struct jj_node *jj_parse_target(struct jj_parser *p, bool ns, const char *end);
/* | name(…) | name …, applied to @a (NULL in blocks). @inline_first: the first has no | before it. */
struct jj_node *jj_parse_filters(struct jj_parser *p, struct jj_node *a, bool inline_first);
